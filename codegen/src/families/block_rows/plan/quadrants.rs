//! Tiles of several blocks of C, each the product of sparse factors: how many of them a consumer has.

use crate::hopper::WGMMA_M;
use crate::{KernelSpec, Op};

/// Columns of a block of which two share a tile: those of a row-major B of 16 bits are a swizzle span, so that each block has
/// panels of its own.
const PAIRED_COLUMNS: u32 = 64;

/// Whether a consumer of a tile of `pack` block rows has several blocks of C, each of which it multiplies or not. The operands
/// of an epilogue are found by the row and column of a tile, which blocks of a sparse C do not have together.
pub(crate) fn has_quadrants(spec: &KernelSpec, pack: u32) -> bool {
    let sides = (spec.bm, spec.bn);
    let has_place = spec.op == Op::Dss || spec.op == Op::Sss && spec.epilogue.is_none();
    pack > 1 && has_place && sides == (WGMMA_M, PAIRED_COLUMNS)
}

/// Consumers of a tile of `pack` block rows, and its columns.
pub(crate) fn consumers(spec: &KernelSpec, pack: u32) -> (u32, u32) {
    match has_quadrants(spec, pack) {
        true => (if pack == 4 { 2 } else { pack }, 2 * spec.bn),
        false => (pack, spec.bn),
    }
}
