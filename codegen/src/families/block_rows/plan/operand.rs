//! Step 5: the layout of A's and B's tiles in a stage.

use super::tiling::{Share, Tiling};
use crate::hopper::{OperandTile, WGMMA_M, box_columns, wgmma_k};
use crate::plan::{KLoop, Major, PlanError, PlanErrors, SparseTimesDense};
use crate::{Arch, KernelSpec, Layout};

/// Bytes of K that one WGMMA consumes.
const SPAN_OF_WGMMA: u32 = 32;

/// A's tile, `cta_m` rows: K-major, or MN-major where blocks are read transposed.
pub(crate) fn plan_a(
    spec: &KernelSpec,
    view: &SparseTimesDense,
    tiling: &Tiling,
    kloop: &KLoop,
    arch: &Arch,
    errors: &mut PlanErrors,
) -> OperandTile {
    let parts = if tiling.share == Share::A { tiling.cluster } else { 1 };
    let element = view.sparse_type.bytes();
    if view.sparse == Major::Mn {
        let span = span(spec, WGMMA_M * element, errors);
        return along_mn((span, element), tiling.cta_m, parts, kloop, true, arch);
    }
    let span = span(spec, kloop.k_step * element, errors);
    let panels = (kloop.k_step * element).div_ceil(span);
    // The epilogue undoes the row permutation where it addresses rows one by one: in 16-bit row-major staging.
    let packs =
        spec.swizzle.is_none() && view.depth * element == span && view.out == Layout::RowMajor && spec.out.bytes() == 2;
    OperandTile {
        major: Major::K,
        element,
        span,
        rows: tiling.cta_m,
        panels,
        box_rows: tiling.cta_m / tiling.pack / parts,
        rows_per_line: if packs { 128 / span } else { 1 },
        loads: (panels, tiling.pack),
        by_block: false,
    }
}

/// B's tile: MN-major when B is row-major, K-major when it is column-major.
pub(crate) fn plan_b(
    spec: &KernelSpec,
    view: &SparseTimesDense,
    tiling: &Tiling,
    kloop: &KLoop,
    arch: &Arch,
    errors: &mut PlanErrors,
) -> OperandTile {
    let parts = if tiling.share == Share::B { tiling.cluster } else { 1 };
    let element = view.dense_type.bytes();
    // The map of blocks by columns ends where a block's K does.
    let by_block = kloop.padded(wgmma_k(spec.a)) && !stored_by_columns(spec);
    match view.dense {
        Layout::RowMajor => {
            let span = span(spec, box_columns(tiling.wg_n) * element, errors);
            along_mn((span, element), tiling.cta_n, parts, kloop, by_block, arch)
        }
        Layout::ColMajor => {
            let span = span(spec, kloop.k_step * element, errors);
            let panels = (kloop.k_step * element).div_ceil(span);
            let rows = tiling.cta_n / parts;
            // Of several blocks of B in a tile each has boxes of its own.
            let of_block = rows.min(spec.bn);
            let box_rows = of_block / of_block.div_ceil(arch.tma_box);
            OperandTile {
                major: Major::K,
                element,
                span,
                rows: tiling.cta_n,
                panels,
                box_rows,
                rows_per_line: 1,
                loads: (panels, rows / box_rows),
                by_block,
            }
        }
    }
}

/// Whether B is in blocks each of which is stored column by column.
pub(crate) fn stored_by_columns(spec: &KernelSpec) -> bool {
    spec.op.is_of_pairs() && spec.b_layout == Layout::ColMajor
}

/// An MN-major tile of `extent` rows or columns, of which a CTA loads one of `parts`.
fn along_mn(
    (span, element): (u32, u32),
    extent: u32,
    parts: u32,
    kloop: &KLoop,
    by_block: bool,
    arch: &Arch,
) -> OperandTile {
    let panels = extent / (span / element);
    // Whole WGMMAs along K.
    let rows = kloop.pitch(SPAN_OF_WGMMA / element);
    // One box for a stage where TMA knows the end of a block; else boxes of which both a full stage and a block's last,
    // shorter one take whole numbers.
    let mut box_rows = if by_block { rows } else { gcd(rows, kloop.last) };
    while box_rows > arch.tma_box {
        box_rows /= 2;
    }
    OperandTile {
        major: Major::Mn,
        element,
        span,
        rows,
        panels,
        box_rows,
        rows_per_line: 1,
        loads: ((panels / parts).max(1), rows / box_rows),
        by_block,
    }
}

/// The widest swizzle span that `bytes` contiguous bytes fill, or the one in the spec.
fn span(spec: &KernelSpec, bytes: u32, errors: &mut PlanErrors) -> u32 {
    let widest = bytes.next_power_of_two().clamp(32, 128);
    match spec.swizzle {
        None => widest,
        Some(s @ (32 | 64 | 128)) => s.min(widest),
        Some(other) => {
            let help = "swizzle = 128";
            let already = errors.iter().any(|e| e.key() == "swizzle");
            if !already {
                errors.push(PlanError::new(
                    "swizzle",
                    format!("a swizzle of {other} bytes does not exist"),
                    "TMA and WGMMA have spans of 32, 64 and 128 bytes",
                    help,
                ));
            }
            widest
        }
    }
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}
