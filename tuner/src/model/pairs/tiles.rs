//! The tiles of a product of two sparse factors.

use bsr_codegen::{Plan, Profile, SharedPairs, TileScheduler};
use bsr_runtime::schedule::pairs_tile;

use super::super::tile::{Tile, of_blocks};
use super::super::view::View;
use super::{PairShape, PairTiles, Sides, Union};

/// The tiles with what each of them loads and multiplies.
pub(in crate::model) fn tiles(
    plan: &Plan,
    profile: &Profile,
    view: &View,
    shape: &PairShape,
    clusters: usize,
) -> (Vec<Tile>, PairTiles) {
    let form = match plan.tile_scheduler() {
        TileScheduler::SharedPairs(form) => Some(form),
        _ => None,
    };
    let sides = form.map_or(Sides { high: 1, wide: 1, of_consumer: 1 }, |form| Sides {
        high: form.rows as usize,
        wide: form.columns as usize,
        of_consumer: (form.rows / form.consumers.max(1)) as usize,
    });
    let unions = shape.unions(sides, clusters as u32);
    let whole = plan.cluster_tile();
    let slices = if form.is_some() { 1 } else { whole.block_rows.div_ceil(whole.rows.max(1)) as usize };
    let (mut column, mut of) = (vec![], vec![]);
    for (number, union) in unions.tiles.iter().enumerate() {
        let tile = match form {
            Some(form) => shared(profile, view, &form, union),
            None => {
                let cost = whole.cost(union.pairs.into());
                Tile { cost, ..of_blocks(profile, view, f64::from(union.pairs)) }
            }
        };
        let is_there = |slice: &usize| union.row + slice * (whole.rows as usize) < shape.pairs.rows();
        for slice in (0..slices).filter(is_there) {
            of.push((number as u32, slice as u32));
            column.push(tile);
        }
    }
    (column, PairTiles { unions, slices, of, in_waves: !plan.spec().split.is_on() })
}

/// The tile of several blocks of C.
fn shared(profile: &Profile, view: &View, form: &SharedPairs, union: &Union) -> Tile {
    let (steps, gathered) = profile.stages_per_block;
    let [of_a, of_b] = union.loaded.map(f64::from);
    let columns = view.dense_extent;
    Tile {
        flops: 2.0 * f64::from(union.pairs) * view.rows * view.depth * columns,
        sparse: of_a * view.rows * view.depth * view.bytes[0],
        dense: of_b * view.depth * columns * view.bytes[1],
        // A tile without pairs has one record.
        stages: (f64::from(union.depths.max(1)) / f64::from(gathered.max(1))).ceil() * f64::from(steps),
        blocks: f64::from(union.pairs),
        lone: f64::from(union.lone * steps) / f64::from(gathered.max(1)),
        cost: pairs_tile(form, union.loaded.map(u64::from)),
        units: union.depths,
        ..Tile::default()
    }
}
