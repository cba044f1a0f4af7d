#![deny(warnings)]
//! A unit struct is a kernel; the keys give the dtypes.

use bsr::{Layout, bsr_kernel};

#[bsr_kernel(
    bm = 64,
    bn = 0x40,
    bk = 64,
    dtype = "bf16",
    out = f32,
    mma = wgmma,
    b_layout = col,
    c_layout = "col_major",
    schedule = strided,
)]
#[derive(Clone, Copy, Debug)]
struct Spmm;

#[test]
fn a_unit_struct_is_a_kernel() {
    assert_eq!(Spmm::SPEC.c_layout, Layout::ColMajor);
    assert_eq!(
        Spmm::SPEC.to_string(),
        "bm = 64, bn = 64, bk = 64, dtype = bf16, out = f32, b_layout = col, c_layout = col, schedule = strided",
    );
    assert_eq!(format!("{:?}", Spmm), "Spmm");
}
