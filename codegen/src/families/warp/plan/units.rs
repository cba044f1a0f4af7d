//! What one instruction multiplies, and what one copy moves.

use super::{doubles, seen, tf32};
use crate::{Dtype, KernelSpec, Layout, Mma, Shape};

/// Bytes that a thread copies at a time.
pub(crate) const VECTOR_BYTES: u32 = 16;
/// Bytes after which shared memory's banks repeat, and the alignment of everything in it.
pub(crate) const BANKS: u32 = 128;

/// Elements of K of which stages are made: what one instruction multiplies, 32 bytes, or the fragments of f64 hold.
pub(crate) const fn k_unit(spec: &KernelSpec) -> u32 {
    if matches!(spec.a, Dtype::F64) { doubles::DEPTH } else { 32 / spec.a.bytes() }
}

/// Rows and columns of the part of C that one fragment of A and one of B make.
pub(crate) fn fragment(spec: &KernelSpec) -> (u32, u32) {
    match spec.mma {
        Mma::Wmma => {
            let (m, n, _) = spec.shape.unwrap_or(Shape::M16N16K16).mnk();
            (m, n)
        }
        _ if doubles::takes(spec) => (doubles::mnk(spec).0, 16),
        _ if tf32::reads_rows(spec) => (16, tf32::COLUMNS),
        _ => (16, 16),
    }
}

/// Registers of one fragment of A and of one of B.
pub(crate) fn fragment_registers(spec: &KernelSpec) -> (u32, u32) {
    match (spec.mma, fragment(spec)) {
        (Mma::Wmma, (m, n)) if spec.a.bytes() == 2 => {
            let half = |lines: u32| if spec.a == Dtype::BF16 { lines * 16 / 64 } else { 8 };
            (half(m), half(n))
        }
        (_, (m, n)) if doubles::takes(spec) => (m * doubles::loaded_k(spec) / 16, n * doubles::loaded_k(spec) / 16),
        _ if tf32::reads_rows(spec) => (4, tf32::COLUMNS / 4),
        _ => (4, 4),
    }
}

/// The instruction that multiplies two fragments.
pub(crate) fn multiply_instruction(spec: &KernelSpec) -> String {
    let KernelSpec { a, b, b_layout, mma, .. } = *spec;
    let a_layout = if seen::is_along_m(spec) { Layout::ColMajor } else { Layout::RowMajor };
    if mma == Mma::Wmma {
        let (m, n) = fragment(spec);
        let sum = sum_type(spec);
        let types = if a == Dtype::BF16 { format!("{sum}.bf16.bf16.{sum}") } else { format!("{sum}.{sum}") };
        return format!("wmma.mma.sync.aligned.{a_layout}.{b_layout}.m{m}n{n}k16.{types}");
    }
    if doubles::takes(spec) {
        let (m, n, k) = doubles::mnk(spec);
        return format!("mma.sync.aligned.m{m}n{n}k{k}.row.col.f64.f64.f64.f64");
    }
    if tf32::takes(spec) {
        return "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32".to_owned();
    }
    let (a, b, sum) = (ptx_type(a), ptx_type(b), sum_type(spec));
    format!("mma.sync.aligned.m16n8k{}.row.col.{sum}.{a}.{b}.{sum}", k_unit(spec))
}

/// The type of its sums.
fn sum_type(spec: &KernelSpec) -> &'static str {
    ptx_type(spec.acc)
}

fn ptx_type(dtype: Dtype) -> &'static str {
    match dtype {
        Dtype::I8 => "s8",
        Dtype::I32 => "s32",
        other => other.as_str(),
    }
}
