//! Step 2b: what a spec says of the tile itself: its rows (`cta_m`), and which consumer has which part of it (`warps`).

use crate::KernelSpec;
use crate::plan::{PlanError, PlanErrors, SparseTimesDense};

/// Rows that a tile may have, the largest first.
const HEIGHTS: [u32; 4] = [256, 192, 128, 64];
/// Warps of a consumer, all along M: each has 16 of the 64 rows of a WGMMA.
const WARPS: u32 = 4;
/// Most consumers of a tile.
const MOST: u32 = 3;

/// The rows of the tiles that are tried.
pub(super) fn heights(spec: &KernelSpec, view: &SparseTimesDense) -> Vec<u32> {
    let is_said = |rows: &u32| spec.cta_m.is_none_or(|said| said == *rows);
    HEIGHTS.into_iter().filter(|rows| view.rows.is_multiple_of(*rows)).filter(is_said).collect()
}

/// Consumers along M and along N, where the spec says.
pub(super) fn consumers(spec: &KernelSpec) -> Option<(u32, u32)> {
    spec.warps.map(|(m, n)| (m / WARPS, n))
}

/// Refuses tiles and layouts that no kernel has.
pub(super) fn check(spec: &KernelSpec, view: &SparseTimesDense) -> Result<(), PlanErrors> {
    let mut errors = PlanErrors::default();
    let packed = spec.pack.map(|pack| pack.saturating_mul(view.rows));
    match (spec.cta_m, packed) {
        (Some(rows), Some(packed)) if rows != packed => errors.push(PlanError::new(
            "cta_m",
            format!("a tile of {rows} rows does not hold {} block rows", spec.pack.unwrap_or(1)),
            format!("{} x {} rows = {packed}", spec.pack.unwrap_or(1), view.rows),
            format!("cta_m = {packed}, or drop `cta_m`"),
        )),
        (Some(rows), None) if heights(spec, view).is_empty() => errors.push(no_height(rows, view)),
        _ => {}
    }
    if let Some((m, n)) = spec.warps {
        let (along_m, along_n) = (m / WARPS, n);
        let is_grid = m % WARPS == 0 && along_m.min(along_n) == 1 && along_m.max(along_n) <= MOST;
        let count = spec.consumers.or(spec.pack);
        if !is_grid || spec.pack.is_some_and(|pack| (along_m, along_n) != (pack, 1)) {
            errors.push(no_grid(spec, (m, n)));
        } else if let Some(count) = count.filter(|count| *count != along_m * along_n) {
            errors.push(PlanError::new(
                "warps",
                format!("{m} x {n} warps are not {count} consumers"),
                format!("a consumer has {WARPS} warps: {m} x {n} / {WARPS} = {}", m * n / WARPS),
                format!("warps = ({}, 1), or drop `consumers`", WARPS * count),
            ));
        }
    }
    errors.check()
}

fn no_height(rows: u32, view: &SparseTimesDense) -> PlanError {
    let legal = HEIGHTS.into_iter().filter(|height| view.rows.is_multiple_of(*height));
    PlanError::tile_rows(rows, view.rows, legal, "a tile has 64, 128, 192 or 256 rows")
}

fn no_grid(spec: &KernelSpec, (m, n): (u32, u32)) -> PlanError {
    let stacked = WARPS * spec.pack.or(spec.consumers).unwrap_or(2).clamp(1, MOST);
    PlanError::new(
        "warps",
        match spec.pack {
            Some(pack) => format!("{m} x {n} warps are no layout of {pack} consumers with a block row each"),
            None => format!("{m} x {n} warps are no layout of consumers"),
        },
        format!(
            "a consumer has {WARPS} warps along M, and a tile up to {MOST} consumers: (8, 1) and (12, 1) along M, (4, 2) and (4, 3) along N"
        ),
        format!("warps = ({stacked}, 1), or leave `warps` to the plan"),
    )
}
