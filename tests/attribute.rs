//! What the attribute makes of an item agrees with what the text of the same spec makes at run time.

#![allow(clippy::unwrap_used)]

use std::any::TypeId;

use bsr::{Arch, Bsr, Dense, Kernel, KernelSpec, Plan, bf16, bsr_kernel, f16};

/// Sparse times dense, tall blocks.
#[bsr_kernel(bm = 512, bn = 128, bk = 112)]
fn spmm(a: Bsr<f16>, b: Dense<f16>) -> Dense<f16>;

#[bsr_kernel(bm = 128, bn = 128, bk = 64, dtype = bf16, out = f32, b_layout = col, c_layout = col)]
struct Linear;

#[bsr_kernel(bm = 64, bn = 64, bk = 32, stages = 2, consumers = 1, schedule = strided)]
fn mixed(a: Bsr<bf16>, b: Dense<bf16>) -> Dense<f32>;

/// The constants of a kernel agree with its text, planned and emitted now.
fn agrees<K: Kernel>(text: &str) {
    let spec: KernelSpec = text.parse().unwrap();
    assert_eq!(K::SPEC, spec);
    let plan = Plan::new(&spec, &Arch::SM_90A).unwrap();
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
}

#[test]
fn constants_need_no_import_of_the_trait() {
    assert_eq!(spmm::FINGERPRINT, spmm::plan().ptx().fingerprint());
    assert!(spmm::PTX.contains(spmm::ENTRY));
    assert!(std::ptr::eq(spmm::plan(), spmm::plan()));
}
