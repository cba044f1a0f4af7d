//! What of the operands comes from device memory.

use bsr_codegen::{Plan, Profile};
use bsr_runtime::Structure;

use super::assign::Lists;
use super::pairs;
use super::reuse;
use super::shape::Shape;
use super::tile::Tile;
use super::tiles::Tiles;
use super::view::View;

/// The part of the requested bytes that L2 must fetch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Misses {
    /// Of the sparse operand.
    pub(super) sparse: f64,
    /// Of the dense one.
    pub(super) dense: f64,
    /// Bytes of the whole launch, those that are written included.
    pub(super) bytes: f64,
    /// The parts of the requests of both operands that L2 answers together with those of other CTAs.
    pub(super) joined: [f64; 2],
    /// Bytes of the result and of sums of parts that memory writes and reads, over those of the result.
    pub(super) results: f64,
}

impl Misses {
    /// Those of a launch with these lists, and so many bytes of a workspace, where L2 has room for `capacity` bytes.
    pub(super) fn new(
        (plan, profile): (&Plan, &Profile),
        (view, shape): (&View, &Shape),
        (tiles, lists): (&Tiles, &Lists),
        (workspace, capacity): (f64, f64),
    ) -> Self {
        let ctas = tiles.columns as f64 * f64::from(profile.cluster) * tiles.needed;
        let requests = |of: &dyn Fn(&Tile) -> f64| tiles.column.iter().map(of).sum::<f64>() * ctas;
        let requested = [requests(&|tile| tile.sparse), requests(&|tile| tile.dense)];
        let written = tiles.count() as f64 * f64::from(profile.cluster) * tiles.out * tiles.needed;
        let alone = |fetched| [fetched, [0.0; 2]];
        let [fetched, joined] = match (tiles.sampled, &tiles.pairs, shape.pairs()) {
            (true, ..) => alone(in_waves((plan, view), (tiles, shape), lists.count().max(1), requested, capacity)),
            (_, Some(pairs), Some(of)) => alone(pairs::traffic::fetched(tiles, pairs, of, lists, (view, capacity))),
            _ => {
                let stored = shape.structure().map_or(0, Structure::stored);
                reuse::fetched(tiles, lists, stored as f64 * view.bytes[0], capacity)
            }
        };
        let part =
            |fetched: f64, requested: f64| if requested > 0.0 { (fetched / requested).clamp(0.0, 1.0) } else { 0.0 };
        let [sparse, dense] = [0, 1].map(|which| part(fetched[which], requested[which]));
        // Sums of parts of K are written like the result (`benches/LOG.md`, 51), and come back if L2 does not hold them.
        let sums = workspace + (workspace - capacity).max(0.0);
        let bytes = sparse * requested[0] + dense * requested[1] + written + sums;
        Self { sparse, dense, bytes, joined, results: 1.0 + sums / written.max(1.0) }
    }
}

/// Tiles that run together traverse K together: each wave reads its rows of one factor and its columns of the other. Of these L2
/// still holds a part where they are those of the wave before.
fn in_waves(
    (plan, view): (&Plan, &View),
    (tiles, shape): (&Tiles, &Shape),
    clusters: usize,
    requested: [f64; 2],
    capacity: f64,
) -> [f64; 2] {
    let waves = (tiles.count().max(1) as f64 / clusters as f64).max(1.0);
    let (all, each) = (tiles.block_rows as f64, tiles.block_rows as f64 / waves);
    let rows = |count: f64| count * view.rows * view.dense_extent * view.bytes[0];
    let columns = |count: f64| {
        shape.distinct(plan, count.ceil().max(1.0) as usize) * view.depth * view.dense_extent * view.bytes[1]
    };
    let first = columns(each);
    let again = reuse::missed(rows(each) + first, capacity);
    let later: f64 = (1..waves.ceil() as usize).map(|wave| columns(each.min(all - wave as f64 * each))).sum();
    [rows(all).min(requested[0]), (first + again * later).min(requested[1])]
}
