//! The staging buffer: where a thread's fragments go, and what writes them.

use serde::Serialize;

use super::super::plan::{Epilogue, SddmmPlan};
use crate::hopper::store::{Variant, Write, address, packed, variants};
use crate::hopper::wgmma::Sums;

/// Where a thread's fragments go in the staging buffer.
#[derive(Clone, Debug, Serialize)]
pub(super) struct StagingContext {
    /// Elements of four bytes.
    wide: bool,
    bytes: u32,
    line: u32,
    swizzle: u32,
    variants: Vec<Variant>,
}

impl StagingContext {
    pub(super) fn new(plan: &SddmmPlan) -> Self {
        let e = &plan.epilogue;
        // The swizzle's XOR flips pairs of 16-byte vectors. Without a swizzle constants are added.
        let count = if e.swizzle == 0 { 1 } else { e.swizzle / 32 };
        Self {
            wide: plan.spec.out.bytes() == 4,
            bytes: e.staging_bytes(),
            line: e.line,
            swizzle: e.swizzle,
            variants: variants((0..count).map(|i| 32 * i)),
        }
    }
}

/// stmatrix writes 16 rows x 16 columns a warp from four registers, or 16 x 8 from two.
pub(super) fn writes_16(e: &Epilogue, first: u32, at: u32) -> Vec<Write> {
    let write = |pair: u32| {
        let whole = 16 * (pair + 1) <= e.unit;
        let count = if whole { 4 } else { 2 };
        let registers: Vec<String> = (first + 4 * pair..first + 4 * pair + count).map(packed).collect();
        let instruction = match whole {
            true => "stmatrix.sync.aligned.m8n8.x4.shared.b16",
            false => "stmatrix.sync.aligned.m8n8.x2.shared.b16",
        };
        Write::new(instruction, vector_address(e, pair, at), format!("{{ {} }}", registers.join(", ")))
    };
    (0..e.unit.div_ceil(16)).map(write).collect()
}

/// A thread writes pairs of columns, 8 bytes, of two rows.
pub(super) fn writes_32(plan: &SddmmPlan, stem: &'static str, first: u32, at: u32) -> Vec<Write> {
    let e = &plan.epilogue;
    let sums = Sums { stem, dtype: plan.spec.out };
    let write = |group: u32, half: u32| {
        let i = first + 4 * group + 2 * half;
        let registers = format!("{{ {}, {} }}", sums.name(i), sums.name(i + 1));
        Write::new("st.shared.v2.b32", vector_address(e, group, at + half * 8 * e.line), registers)
    };
    (0..e.unit / 8).flat_map(|group| [write(group, 0), write(group, 1)]).collect()
}

/// The address of pair `pair` of 16-byte vectors in a line, `at` bytes further on.
pub(super) fn vector_address(e: &Epilogue, pair: u32, at: u32) -> String {
    match e.swizzle {
        0 => address("%r_st0", at + 32 * pair),
        _ => address(&format!("%r_st{pair}"), at),
    }
}
