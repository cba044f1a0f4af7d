//! What the kernels of a gradient compute beside an attention: P and dS of a pair, and three or four products of it.

use bsr_codegen::{GradientSide, GradientTiles};

use super::Costs;

#[cfg(test)]
mod tests;

/// Constants, fitted to the rows of the tests; no part of a tile is passed on.
pub(super) const COSTS: Costs = Costs {
    exponentials: 23_840.0,
    beside: 0.51,
    exposed: 0.286,
    faster: 1.234,
    step_us: 0.0928,
    tile_us: 3.1,
    part_us: 0.0,
    exchange_us: 0.0,
    merge_us: 0.0,
    sharpness: 6.0,
};

/// Whether tiles are of keys: the kernel is that of dK and dV.
pub(super) fn is_of_keys(form: &GradientTiles) -> bool {
    form.side == GradientSide::Keys
}

/// Columns of all products of a query and a key: S and dP, and dQ, or dK and dV.
pub(super) fn multiplied(form: &GradientTiles) -> f64 {
    let both = form.depth + form.tiles.columns;
    f64::from(both + if is_of_keys(form) { both } else { form.depth })
}
