//! What the attribute makes of an item agrees with what the text of the same spec makes at run time.

use std::any::TypeId;

use bsr::spec::{FamilySpec, LocatedFamily};
use bsr::{Bsr, Dense, Dtype, Family, Kernel, KernelSpec, Plan, bf16, bsr_kernel, e4m3, e5m2, f16};

/// Sparse times dense, tall blocks.
#[bsr_kernel(bm = 512, bn = 128, bk = 112)]
fn spmm(a: Bsr<f16>, b: Dense<f16>) -> Dense<f16>;

#[bsr_kernel(bm = 128, bn = 128, bk = 64, dtype = bf16, out = f32, b_layout = col, c_layout = col)]
struct Linear;

#[bsr_kernel(bm = 64, bn = 64, bk = 32, stages = 2, consumers = 1, schedule = strided)]
fn mixed(a: Bsr<bf16>, b: Dense<bf16>) -> Dense<f32>;

#[bsr_kernel(bm = 64, bn = 128, bk = 32, accumulate = promoted, scale = row_col)]
fn fp8(a: Bsr<e4m3>, b: Dense<e5m2>) -> Dense<bf16>;

#[bsr_kernel(bm = 64, bn = 64, bk = 32, dtype = i8)]
struct Integers;

#[bsr_kernel(bm = 128, bn = 128, bk = 64, transpose = on)]
fn linear(x: Dense<f16>, w: Bsr<f16>) -> Dense<f16>;

const TALL: &str = "bm = 128, bn = [128, 256], bk = 64, stages = 3..=5, dtype = [f16, bf16, e4m3]";

/// A family whose operand types are left to the lists.
#[bsr_kernel(bm = 128, bn = [128, 256], bk = 64, stages = 3..=5, dtype = [f16, bf16, e4m3])]
fn tall<T, U>(a: Bsr<T>, b: Dense<T>) -> Dense<U>;

/// A family with ordinary operand types.
#[bsr_kernel(bm = 64, bn = [64, 128], bk = [16, 32], schedule = [strided])]
struct NarrowBlocks;

/// The constants of a kernel agree with its text, planned and emitted now.
fn agrees<K: Kernel>(text: &str) {
    let spec: KernelSpec = text.parse().unwrap();
    assert_eq!(K::SPEC, spec);
    let plan = Plan::new(&spec).unwrap();
    let ptx = plan.ptx();
    assert_eq!(K::plan(), &plan);
    assert_eq!(K::PTX, ptx.text());
    assert_eq!(K::ENTRY, ptx.entry());
}

#[test]
fn attribute_and_text_make_the_same_kernel() {
    agrees::<spmm>("bm = 512, bn = 128, bk = 112");
    agrees::<Linear>("bm = 128, bn = 128, bk = 64, dtype = bf16, out = f32, b_layout = col, c_layout = col");
    agrees::<mixed>(
        "bm = 64, bn = 64, bk = 32, dtype = bf16, out = f32, stages = 2, consumers = 1, schedule = strided",
    );
    agrees::<fp8>("bm = 64, bn = 128, bk = 32, a = e4m3, b = e5m2, accumulate = promoted, scale = row_col");
    agrees::<Integers>("bm = 64, bn = 64, bk = 32, dtype = i8");
    agrees::<linear>("bm = 128, bn = 128, bk = 64, op = dds, transpose = on");
}

#[test]
fn operand_types_follow_the_dtypes() {
    fn types<K: Kernel>() -> [TypeId; 3] {
        [TypeId::of::<K::A>(), TypeId::of::<K::B>(), TypeId::of::<K::Out>()]
    }
    let (half, brain, single) = (TypeId::of::<f16>(), TypeId::of::<bf16>(), TypeId::of::<f32>());
    assert_eq!(types::<spmm>(), [half; 3]);
    assert_eq!(types::<Linear>(), [brain, brain, single]);
    assert_eq!(types::<mixed>(), [brain, brain, single]);
    assert_eq!(types::<fp8>(), [TypeId::of::<e4m3>(), TypeId::of::<e5m2>(), brain]);
    assert_eq!(types::<Integers>(), [TypeId::of::<i8>(), TypeId::of::<i8>(), TypeId::of::<i32>()]);
}

#[test]
fn constants_need_no_import_of_the_trait() {
    assert_eq!(spmm::FINGERPRINT, spmm::plan().ptx().fingerprint());
    assert!(spmm::PTX.contains(spmm::ENTRY));
    assert!(std::ptr::eq(spmm::plan(), spmm::plan()));
}

#[test]
fn a_family_embeds_every_member_that_can_be_planned() {
    let located = LocatedFamily::from_text(TALL).unwrap();
    let family: &FamilySpec<_> = located.family();
    assert_eq!(family.members().len(), 2 * 3 * 3);
    let legal: Vec<_> = family.members().iter().filter(|member| Plan::new(&member.spec).is_ok()).collect();
    assert!(!legal.is_empty() && legal.len() < family.members().len(), "some fit, some do not: {}", legal.len());
    let names: Vec<_> = legal.iter().map(|member| member.name()).collect();
    assert_eq!(tall::MEMBERS.iter().map(|member| member.name()).collect::<Vec<_>>(), names);
    for (made, member) in tall::MEMBERS.iter().zip(legal) {
        let plan = Plan::new(&member.spec).unwrap();
        let ptx = plan.ptx();
        assert_eq!(*made.spec(), member.spec);
        assert_eq!(made.plan(), &plan);
        assert_eq!((made.ptx(), made.entry(), made.fingerprint()), (ptx.text(), ptx.entry(), ptx.fingerprint()));
    }
}

#[test]
fn a_member_is_a_kernel_like_any_other() {
    agrees::<tall_members::bn128_stages3_f16>("bm = 128, bn = 128, bk = 64, stages = 3");
    agrees::<tall_members::bn256_stages4_bf16>("bm = 128, bn = 256, bk = 64, stages = 4, dtype = bf16");
    agrees::<narrow_blocks_members::bn64_bk16_strided>("bm = 64, bn = 64, bk = 16, schedule = strided");
    fn types<K: Kernel>() -> [TypeId; 3] {
        [TypeId::of::<K::A>(), TypeId::of::<K::B>(), TypeId::of::<K::Out>()]
    }
    let (e4m3, brain) = (TypeId::of::<e4m3>(), TypeId::of::<bf16>());
    assert_eq!(types::<tall_members::bn128_stages3_e4m3>(), [e4m3, e4m3, brain]);
}

#[test]
fn a_member_is_picked_by_its_spec() {
    let picked = tall::pick(|spec| spec.stages == Some(4) && spec.b == Dtype::BF16).unwrap();
    assert_eq!(picked.name(), "bn128_stages4_bf16");
    assert!(tall::pick(|spec| spec.bn == 64).is_none());
    let order: Vec<_> = NarrowBlocks::MEMBERS.iter().map(|member| (member.spec().bn, member.spec().bk)).collect();
    assert_eq!(order, [(64, 16), (64, 32), (128, 16), (128, 32)]);
}
