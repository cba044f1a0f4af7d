#![deny(warnings)]
//! The attribute works in modules and functions, from `macro_rules`, and beside misleading names.

#[allow(dead_code, non_camel_case_types)]
mod misleading {
    struct str;
    struct Option;
    struct Plan;

    #[bsr::bsr_kernel(bm = 128, bn = 128, bk = 64, stages = 3)]
    pub(super) struct Kernel;
}

macro_rules! kernels {
    ($($name:ident = $bm:literal x $bk:tt, $schedule:ident;)*) => {
        $(
            #[bsr::bsr_kernel(bm = $bm, bn = 128, bk = $bk, schedule = $schedule)]
            struct $name;
        )*
    };
}

kernels! {
    Tall = 128 x 32, balanced;
    Square = 64 x 64, auto;
}

/// A crate that hands the library on.
mod other {
    pub(super) use ::bsr as library;
}

#[bsr::bsr_kernel(crate = crate::accepted::anywhere::other::library, bm = 64, bn = 64, bk = 16, dtype = [f16, bf16])]
fn elsewhere<T>(a: bsr::Bsr<T>, b: bsr::Dense<T>) -> bsr::Dense<T> {
    relu(acc)
}

#[test]
fn the_attribute_works_anywhere() {
    #[bsr::bsr_kernel(bm = 64, bn = 64, bk = 16)]
    struct Local;

    assert_eq!(misleading::Kernel::SPEC.stages, Some(3));
    assert_eq!((Tall::SPEC.bm, Tall::SPEC.bk), (128, 32));
    assert_eq!(Square::SPEC.schedule, None);
    assert_eq!(Local::SPEC.bk, 16);
    assert_eq!(elsewhere::MEMBERS.len(), 2);
}
