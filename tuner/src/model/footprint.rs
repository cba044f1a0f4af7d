//! What of the operands comes from device memory: what L2 holds of what runs together.
//!
//! Clusters that run at the same time read the panels of B of a few columns of tiles, and within them the rows of K that their rows
//! of blocks have. As long as these fit in L2, each is read from memory once a column of tiles; beyond that every
//! read may miss. A is read again for every group of columns: what of it stays depends on the room that B's panels leave.

use bsr_codegen::{KernelKind, Multicast, Plan, Profile};

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

/// Misses of a launch of `clusters` clusters at a time, with so many bytes of a workspace.
pub(super) fn misses(
    plan: &Plan,
    profile: &Profile,
    view: &View,
    (tiles, shape): (&Tiles, &Shape),
    (clusters, workspace): (usize, f64),
    rates: &Rates,
) -> Misses {
    let requests = |of: &dyn Fn(&super::tiles::Tile) -> f64| {
        tiles.column.iter().map(of).sum::<f64>() * tiles.columns as f64 * f64::from(profile.cluster) * tiles.needed
    };
    let asked = [requests(&|tile| tile.sparse), requests(&|tile| tile.dense)];
    let written = tiles.count() as f64 * f64::from(profile.cluster) * tiles.out * tiles.needed;
    let fetched = match profile.kind {
        KernelKind::Sddmm => in_waves(plan, view, (tiles, shape), clusters, asked, rates),
        _ => by_columns(plan, profile, view, (tiles, shape), clusters, asked, rates),
    };
    let part = |fetched: f64, asked: f64| if asked > 0.0 { (fetched / asked).clamp(0.0, 1.0) } else { 0.0 };
    let [sparse, dense] = [0, 1].map(|which| part(fetched[which], asked[which]));
    // Sums of parts of K are written and read again: what L2 does not hold goes to memory and comes back.
    let bytes = sparse * asked[0] + dense * asked[1] + written + 2.0 * (workspace - rates.l2_bytes).max(0.0);
    Misses { sparse, dense, bytes: bytes.max(view.compulsory_bytes()) }
}

/// Columns of tiles are computed one group after the other.
fn by_columns(
    plan: &Plan,
    profile: &Profile,
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
    let values = shape.structure().map_or(0.0, |structure| structure.stored() as f64) * view.bytes[0];
    let group = values + (shape.distinct(plan, usize::MAX) * tiles.panel + column_tiles * tiles.out) * together;
    let late =
        behind(profile, shape, plan, tiles, rates.lag * together / clusters as f64 * rates.l2_bytes / group.max(1.0));
    let dense = all + (1.0 - (1.0 - thrashing) * (1.0 - late)) * (asked[1] - all).max(0.0);
    let passes = (columns / together).ceil().max(1.0);
    let stays = ((rates.l2_bytes - live) / values.max(1.0)).clamp(0.0, 1.0);
    [values * (1.0 + (passes - 1.0) * (1.0 - stays)), dense]
}

/// The part of what L2 is asked for of the dense operand by tiles that take so much longer than others that L2 no longer holds it.
///
/// All tiles of a column begin at about the same time and walk K from its beginning to its end, the short ones faster. What a long
/// tile reads was last read by a tile that is a little shorter, and what has come since may have taken its place. `kept` is the
/// part of the time of all tiles of a column in which so much comes as L2 holds.
fn behind(profile: &Profile, shape: &Shape, plan: &Plan, tiles: &Tiles, kept: f64) -> f64 {
    let width = f64::from(plan.cluster_tile().columns.max(1)) / f64::from(profile.cta_n.max(1));
    let sharers = if profile.multicast == Multicast::Dense { f64::from(profile.cluster) } else { 1.0 };
    let all = shape.index(plan).map_or(1, |index| index.cols.div_ceil(index.block.1.max(1)));
    let mut walks: Vec<[f64; 3]> = tiles
        .column
        .iter()
        .map(|tile| {
            // Its time in stages, the part of all columns that it reads, and its bytes.
            let read = tile.dense * width * sharers / (tiles.panel * all as f64).max(1.0);
            [tile.stages + 1.0, read.min(1.0), tile.dense]
        })
        .collect();
    walks.sort_by(|x, y| x[0].total_cmp(&y[0]));
    let kept = kept * walks.iter().map(|walk| walk[0]).sum::<f64>();
    let (mut late, mut bytes) = (0.0, 0.0);
    // The last of the shorter tiles of which one has read what this one reads: those between have all of it once.
    let (mut since, mut read) = (0, 0.0);
    for at in 0..walks.len() {
        while since < at && read - walks[since][1] >= 1.0 {
            read -= walks[since][1];
            since += 1;
        }
        let behind = walks[at][0] - walks[since][0];
        late += walks[at][2] * (1.0 - kept / behind.max(kept));
        bytes += walks[at][2];
        read += walks[at][1];
    }
    if bytes > 0.0 { late / bytes } else { 0.0 }
}

/// Tiles that run together walk K together: each wave reads its rows of one factor and its columns of the other. Of these L2
/// still holds a part where they are those of the wave before.
fn in_waves(
    plan: &Plan,
    view: &View,
    (tiles, shape): (&Tiles, &Shape),
    clusters: usize,
    asked: [f64; 2],
    rates: &Rates,
) -> [f64; 2] {
    let waves = (tiles.count().max(1) as f64 / clusters as f64).max(1.0);
    let (all, each) = (tiles.block_rows as f64, tiles.block_rows as f64 / waves);
    let rows = |count: f64| count * view.rows * view.along * view.bytes[0];
    let columns =
        |count: f64| shape.distinct(plan, count.ceil().max(1.0) as usize) * view.depth * view.along * view.bytes[1];
    let first = columns(each);
    let kept = (rates.wave * rates.l2_bytes / (rows(each) + first).max(1.0)).min(1.0);
    let later: f64 = (1..waves.ceil() as usize).map(|wave| columns(each.min(all - wave as f64 * each))).sum();
    [rows(all).min(asked[0]), (first + (1.0 - kept) * later).min(asked[1])]
}
