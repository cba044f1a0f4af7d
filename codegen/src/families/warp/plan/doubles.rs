//! Products of f64 by `mma.sync`: the instruction, and which elements of K a thread has of it.
//!
//! In the fragments of the PTX ISA ("Matrix Fragments for mma.m8n8k4 with .f64", and for m16n8k4, k8 and k16) thread
//! 4 g + t has elements t, t + 4, .. of K of row g of A and of column g of B. A sum has no order of K, so the elements
//! that an instruction calls t, t + 4, .. may be any, if they are the same in A and B. Here thread t has the neighbours
//! 4 t to 4 t + 3 of each 16, 32 bytes, and reads them in vectors of 16 bytes: two along K, or one of each of four rows of
//! a row-major B. The swizzle (`swizzle_shift`) spreads the eight threads that read together over all banks:
//!
//! - *Along K* a row is whole multiples of 128 bytes, and vector v of row r is at v ^ (r mod 8). Threads of two
//!   neighbouring rows read vectors 2 t + s, which differ in bits 1 and 2 of their place, and the rows in bit 0.
//! - *Along N* vector v of row k is at v ^ (k / 4 mod 8), and threads 4 g + t read row 4 t + j: t changes bits 0 and 1.
//!   Thread g reads vector g / 2 + 4 (g mod 2), so that an even g and the next one differ in bit 2. Of both elements of
//!   its vectors one goes to each of two instructions; the order makes their sums the neighbouring columns 2 t and
//!   2 t + 1, as those of other types are.

use crate::plan::{PlanError, PlanErrors};
use crate::{Arch, Dtype, KernelSpec, Shape};

/// Elements of K that a thread's 32 bytes of a fragment are of: 128 bytes, all banks.
pub(crate) const DEPTH: u32 = 16;
/// Multiply-adds that an SM does in a cycle: of an H100 and an A100 by their data sheets, 67 and 19.5 TFLOP/s; a GPU of
/// workstations and games has two units of f64 for each SM (NVIDIA Ada GPU Architecture whitepaper), whatever the instruction.
const RATES: [u32; 3] = [128, 64, 2];

/// Are operands f64?
pub(crate) fn takes(spec: &KernelSpec) -> bool {
    spec.a == Dtype::F64
}

/// The spec with the shape of its instruction: the deepest whose fragments leave a thread room for two sets of them.
pub(crate) fn with_shape(spec: &KernelSpec, arch: &Arch) -> KernelSpec {
    let wide = has_wide_shapes(arch) && spec.bm.is_multiple_of(16);
    let shape = spec.shape.unwrap_or(if wide { Shape::M16N8K8 } else { Shape::M8N8K4 });
    KernelSpec { shape: Some(shape), ..*spec }
}

/// Rows, columns and K of the instruction.
pub(crate) fn mnk(spec: &KernelSpec) -> (u32, u32, u32) {
    spec.shape.unwrap_or(Shape::M8N8K4).mnk()
}

/// Elements of K whose fragments are loaded together: half a thread's 32 bytes, or all.
pub(crate) fn loaded_k(spec: &KernelSpec) -> u32 {
    mnk(spec).2.max(DEPTH / 2)
}

/// Multiply-adds that an SM does in a cycle. Instructions of 8 rows are those of an A100, on Hopper too.
pub(crate) fn rate(spec: &KernelSpec, arch: &Arch) -> u32 {
    match arch.compute_capability {
        (9, _) if mnk(spec).0 == 16 => RATES[0],
        (8, 0) | (9, _) => RATES[1],
        _ => RATES[2],
    }
}

/// Instructions of 16 rows came with Hopper.
fn has_wide_shapes(arch: &Arch) -> bool {
    arch.compute_capability >= (9, 0)
}

pub(crate) fn check(spec: &KernelSpec, arch: &Arch, errors: &mut PlanErrors) {
    for (key, dtype) in [("b", spec.b), ("acc", spec.acc), ("out", spec.out)] {
        if dtype != Dtype::F64 {
            errors.push(PlanError::new(
                key,
                format!("{key} = {dtype} with A in f64"),
                "mma.sync of f64 takes f64 factors, and makes f64 sums, which are stored as they are",
                format!("{key} = f64"),
            ));
        }
    }
    let Some(shape) = spec.shape else { return };
    if !shape.is_of_f64() {
        errors.push(PlanError::new(
            "shape",
            format!("shape = {shape} is not one of mma.sync on f64"),
            "it has m8n8k4, and on sm_90a m16n8k4, m16n8k8 and m16n8k16",
            "shape = m8n8k4, or leave `shape` to the plan",
        ));
    } else if shape != Shape::M8N8K4 && !has_wide_shapes(arch) {
        errors.push(PlanError::new(
            "shape",
            format!("{} does not have shape = {shape}", arch.target),
            "mma.sync of 16 rows of f64 needs sm_90a or newer",
            "shape = m8n8k4, or arch = sm_90a",
        ));
    }
}

#[cfg(test)]
mod tests {
    /// Eight threads read 128 bytes at a time: their vectors are in different banks, whatever the row or the column.
    #[test]
    fn threads_that_read_together_reach_every_bank_once() {
        let distinct = |place: &dyn Fn(u32, u32) -> u32, pair: u32| {
            let threads = (2 * pair..2 * pair + 2).flat_map(|g| (0..4).map(move |t| (g, t)));
            threads.map(|(g, t)| 1u32 << (place(g, t) % 8)).fold(0, |all, bank| all | bank) == 0xff
        };
        for pair in 0..4 {
            for s in 0..2 {
                assert!(distinct(&|g, t| (2 * t + s) ^ (g % 8), pair), "along K: {pair}, {s}");
            }
            for k in (0..64).step_by(16).flat_map(|k| (0..4).map(move |j| k + j)) {
                assert!(distinct(&|g, t| (g / 2 + g % 2 * 4) ^ ((k + 4 * t) / 4 % 8), pair), "along N: {pair}, {k}");
            }
        }
    }
}
