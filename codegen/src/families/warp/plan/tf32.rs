//! Products of f32 factors that are rounded to TF32, by `mma.sync.m16n8k8`.
//!
//! Along K, 8 rows of 16 bytes are 8 x 4 words, and `ldmatrix` gives them to threads as the fragments want them. It does not
//! transpose words, so a thread reads a row-major B itself: of a fragment, 32 columns, 16 bytes of each of two rows, 4 columns
//! for four instructions. Thread 4 g + t reads vector g / 2 + 4 (g mod 2) of rows t and t + 4. Of the eight threads that
//! read together t changes bits 0 and 1 of the place by the swizzle, v ^ (row mod 8), and an even g and the next one
//! differ in bit 2: there are no bank conflicts. The order of vectors makes the sums of a thread four neighbours.

use crate::{KernelSpec, Layout};

/// Columns of a fragment of a row-major B.
pub(crate) const COLUMNS: u32 = 32;

/// Are factors rounded?
pub(crate) fn takes(spec: &KernelSpec) -> bool {
    spec.tf32.is_on()
}

/// Does a thread read B by itself?
pub(crate) fn reads_rows(spec: &KernelSpec) -> bool {
    takes(spec) && spec.b_layout == Layout::RowMajor
}
