//! What of the operands comes from device memory: what L2 holds of what runs together.
//!
//! Clusters that run at the same time read the panels of B of a few columns of tiles, and within them the rows of K that their rows
//! of blocks have. As long as these fit in L2, each is read from memory once a column of tiles; beyond that every
//! read may miss. A is read again for every group of columns: what of it stays depends on the room that B's panels leave.

use bsr_codegen::{KernelKind, Plan, Profile};

use super::rates::Rates;
use super::shape::Shape;
use super::tiles::Tiles;
use super::view::View;

/// How much of what L2 is asked for it must fetch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Misses {
    /// Of the sparse operand.
    pub(super) sparse: f64,
    /// Of the dense one.
    pub(super) dense: f64,
    /// Bytes of the whole launch, those that are written included.
    pub(super) bytes: f64,
}

/// Misses of a launch of `clusters` clusters at a time.
pub(super) fn misses(
    plan: &Plan,
    profile: &Profile,
    view: &View,
    (tiles, shape): (&Tiles, &Shape),
    clusters: usize,
    rates: &Rates,
) -> Misses {
    let requests = |of: &dyn Fn(&super::tiles::Tile) -> f64| {
        tiles.column.iter().map(of).sum::<f64>() * tiles.columns as f64 * f64::from(profile.cluster)
    };
    let asked = [requests(&|tile| tile.sparse), requests(&|tile| tile.dense)];
    let written = tiles.count() as f64 * f64::from(profile.cluster) * tiles.out;
    let fetched = match profile.kind {
        KernelKind::Sddmm => in_waves(plan, view, (tiles, shape), clusters, asked),
        _ => by_columns(plan, view, (tiles, shape), clusters, asked, rates),
    };
    let part = |fetched: f64, asked: f64| if asked > 0.0 { (fetched / asked).clamp(0.0, 1.0) } else { 0.0 };
    let [sparse, dense] = [0, 1].map(|which| part(fetched[which], asked[which]));
    let bytes = sparse * asked[0] + dense * asked[1] + written;
    Misses { sparse, dense, bytes: bytes.max(view.compulsory_bytes()) }
}

/// Columns of tiles are computed one group after the other.
fn by_columns(
    plan: &Plan,
    view: &View,
    (tiles, shape): (&Tiles, &Shape),
    clusters: usize,
    asked: [f64; 2],
    rates: &Rates,
) -> [f64; 2] {
    let (columns, together) = (tiles.columns as f64, tiles.together.clamp(1, tiles.columns.max(1)) as f64);
    let column_tiles = tiles.column.len().max(1) as f64;
    // Columns that are computed at a time, and rows of blocks of each.
    let groups = (clusters as f64 / (column_tiles * together)).max(1.0).min((columns / together).max(1.0));
    let tile_rows = (clusters as f64 / (together * groups)).min(column_tiles);
    let block_rows = (tiles.block_rows as f64 * tile_rows / column_tiles).ceil() as usize;
    let live = shape.distinct(plan, block_rows.max(1)) * tiles.panel * together * groups;
    let all = shape.distinct(plan, usize::MAX) * tiles.panel * columns;
    let thrashing = (1.0 - rates.l2_bytes / live.max(1.0)).max(0.0);
    let dense = all + thrashing * (asked[1] - all).max(0.0);
    let values = shape.structure().map_or(0.0, |structure| structure.stored() as f64) * view.bytes[0];
    let passes = (columns / together).ceil().max(1.0);
    let stays = ((rates.l2_bytes - live) / values.max(1.0)).clamp(0.0, 1.0);
    [values * (1.0 + (passes - 1.0) * (1.0 - stays)), dense]
}

/// Tiles that run together walk K together: each wave reads its rows of one factor and its columns of the other.
fn in_waves(plan: &Plan, view: &View, (tiles, shape): (&Tiles, &Shape), clusters: usize, asked: [f64; 2]) -> [f64; 2] {
    let count = tiles.count().max(1) as f64;
    let waves = (count / clusters as f64).max(1.0);
    let block_rows = tiles.block_rows as f64 / waves;
    let rows = tiles.block_rows as f64 * view.rows * view.along * view.bytes[0];
    let columns = shape.distinct(plan, block_rows.ceil().max(1.0) as usize) * view.depth * view.along * view.bytes[1];
    [rows.min(asked[0]), (columns * waves).min(asked[1])]
}
