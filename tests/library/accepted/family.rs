#![deny(warnings, missing_docs)]
//! Lists make a family: a type with its members, a module with a type for each of them.

use bsr::{Bsr, Dense, Family, Kernel, bf16, bsr_kernel, f16};

/// The operand types are left to the lists.
#[bsr_kernel(bm = 64, bn = [64, 128], bk = 32, dtype = [f16, bf16])]
pub fn spmm<T>(a: Bsr<T>, b: Dense<T>) -> Dense<T>;

/// The operand types are as ever, and illegal members are left out.
#[bsr_kernel(bm = 64, bn = 64, bk = 32, stages = [auto, 2..4, 99])]
#[derive(Clone, Copy, Debug)]
pub struct TallSpmm;

#[bsr_kernel(bm = 64, bn = [64], bk = 16)]
fn private(a: Bsr<bf16>, b: bsr::Dense<bsr::bf16>) -> Dense<bf16>;

macro_rules! families {
    ($name:ident: $bn:tt, $stages:expr) => {
        #[bsr_kernel(bm = 64, bn = $bn, bk = 16, stages = $stages)]
        struct $name;
    };
}

families! { Listed: [64, 96], 2 }

fn entry<K: Kernel<A = f16, B = f16, Out = f16>>() -> &'static str {
    K::ENTRY
}

fn names<F: Family>() -> Vec<&'static str> {
    F::MEMBERS.iter().map(|member| member.name()).collect()
}

#[test]
fn lists_make_a_family() {
    #[bsr_kernel(bm = 64, bn = 64, bk = 16, cluster = 1..=2)]
    struct Local;

    assert_eq!(names::<spmm>(), ["bn64_f16", "bn64_bf16", "bn128_f16", "bn128_bf16"]);
    assert_eq!(names::<TallSpmm>(), ["stages_auto", "stages2", "stages3"]);
    assert_eq!(names::<private>(), ["bn64"]);
    assert_eq!(names::<Listed>(), ["bn64", "bn96"]);
    assert_eq!(names::<Local>().len(), Local::MEMBERS.len());
    assert_eq!(entry::<spmm_members::bn128_f16>(), spmm::MEMBERS[2].entry());
    assert_eq!(spmm_members::bn64_bf16::SPEC, *spmm::MEMBERS[1].spec());
    assert_eq!(tall_spmm_members::stages2::SPEC.stages, Some(2));
    assert_eq!(spmm::pick(|spec| spec.bn == 128).map(|member| member.name()), Some("bn128_f16"));
    assert_eq!(format!("{TallSpmm:?}"), "TallSpmm");
}
