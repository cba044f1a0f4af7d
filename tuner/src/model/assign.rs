//! Which tiles each cluster computes, in which order: the lists of the tile scheduler, made in time for a prediction.
//!
//! `bsr_runtime::schedule` makes the real lists. These are made by the very same functions with the same costs. What is left out
//! are the swaps of tiles between clusters, which level loads by less than a tile, and the smaller shares in order once clusters
//! finish about together.

use bsr_codegen::{Plan, Schedule, SplitForm, SplitK, TileScheduler};
use bsr_runtime::schedule::{
    self, Assignment, Costs, Divisible, Place, Policy, Role, TileGrid, divide_k, longest_part, most_in_order, split,
};

use super::tile::Tile;
use super::tiles::Tiles;

/// A tile, or a part of its K.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Part {
    pub(super) place: Place,
    /// Where in its K, and how much of it, in its units.
    pub(super) first: u32,
    pub(super) units: u32,
    pub(super) role: Role,
}

/// The lists of all clusters.
#[derive(Clone, Debug)]
pub(super) enum Lists {
    /// Tiles with all of their K.
    Whole(Vec<Vec<Place>>),
    /// Parts of them, and places in the workspace.
    Parts {
        /// The lists.
        of: Vec<Vec<Part>>,
        /// The places.
        places: u32,
    },
}

impl Lists {
    /// Clusters that have one.
    pub(super) fn count(&self) -> usize {
        match self {
            Self::Whole(lists) => lists.len(),
            Self::Parts { of, .. } => of.len(),
        }
    }

    /// Places in the workspace.
    pub(super) fn places(&self) -> u32 {
        match self {
            Self::Whole(_) => 0,
            Self::Parts { places, .. } => *places,
        }
    }

    fn parts(lists: Vec<Vec<SplitTile>>, places: u32) -> Self {
        let of = lists.into_iter().map(|list| list.into_iter().map(|tile| tile.part).collect()).collect();
        Self::Parts { of, places }
    }
}

/// Lists the tiles for at most `clusters` clusters at a time.
pub(super) fn assign(plan: &Plan, tiles: &Tiles, clusters: usize) -> Lists {
    let clusters = clusters.max(1);
    let costs: Vec<u64> = tiles.column.iter().map(|tile| tile.cost).collect();
    let grid = TileGrid { costs: &costs, columns: tiles.columns, group: tiles.together.max(1) };
    let order = plan.spec().schedule;
    if tiles.sampled {
        let policy = if order == Some(Schedule::Strided) { Policy::RoundRobin } else { Policy::InOrder };
        let lists = listed(&grid, policy, clusters);
        if order != Some(Schedule::Balanced) {
            return Lists::Whole(lists);
        }
        let mut lists = divisible(lists, tiles, exchange_of_sddmm);
        lists.resize(clusters.max(lists.len()), vec![]);
        let (lists, places) = split(lists);
        return Lists::parts(lists, places);
    }
    // Tiles of pairs are computed in waves, unless parts of them are moved.
    if tiles.pairs.is_some() && !plan.spec().split.is_on() {
        let order = grid.order().map(|place| (place, grid.cost(&place))).collect();
        return Lists::Whole(schedule::in_waves(plan, order, clusters as u32));
    }
    let whole = || balanced(plan, &grid, clusters);
    let Some(form) = plan.split_form().filter(|_| plan.spec().split != SplitK::Off) else {
        return Lists::Whole(whole());
    };
    let costs = |tile: &Tile| part_costs(plan, &form, tile);
    let of = |place| SplitTile::new(place, tiles, costs);
    let column = || (0..tiles.column.len() as u32).map(|row| of(Place { row, column: 0 })).collect();
    let limit = longest_part(plan, column, tiles.columns, tiles.columns_held, clusters);
    let whole = || divisible(whole(), tiles, costs);
    let (lists, places) = divide_k(plan.spec().split, limit, grid.order().map(of), whole, clusters);
    Lists::parts(lists, places)
}

/// Of clusters no more than there are tiles.
fn listed(grid: &TileGrid<'_>, policy: Policy, clusters: usize) -> Vec<Vec<Place>> {
    let order: Vec<Place> = grid.order().collect();
    let clusters = clusters.min(order.len()).max(1);
    schedule::assign(order, policy, |place| grid.cost(place), clusters)
}

fn balanced(plan: &Plan, grid: &TileGrid<'_>, clusters: usize) -> Vec<Vec<Place>> {
    if grid.is_even() || plan.spec().schedule == Some(Schedule::Strided) {
        return listed(grid, Policy::RoundRobin, clusters);
    }
    let order: Vec<Place> = grid.order().collect();
    let clusters = clusters.min(order.len()).max(1);
    let mean = grid.costs.iter().sum::<u64>() * grid.columns as u64 / clusters as u64;
    let chosen = |of_share: &dyn Fn(f64) -> Assignment<Place>| most_in_order(of_share, Assignment::finish, mean);
    match plan.tile_scheduler() {
        // Of packed rows it is a share of the tiles, of others one of the columns, and the rest is in the order of these.
        TileScheduler::SharedColumns(_) => {
            let of_share = |share| Assignment::of_tiles(&order, share, |place| grid.cost(place), clusters);
            chosen(&of_share).map(Assignment::into_lists)
        }
        _ => {
            let of_share = |share| grid.with_share(share, clusters);
            chosen(&of_share).map(|assignment| assignment.sorted_by_key(|place| place.column))
        }
    }
    .unwrap_or_default()
}

/// A tile as the functions take it that divide K.
#[derive(Clone)]
struct SplitTile {
    part: Part,
    costs: Costs,
}

impl SplitTile {
    fn new(place: Place, tiles: &Tiles, costs: impl Fn(&Tile) -> Costs) -> Self {
        let of = tiles.at(place);
        Self { part: Part { place, first: 0, units: of.units, role: Role::Whole }, costs: costs(of) }
    }
}

impl Divisible for SplitTile {
    fn units(&self) -> u32 {
        self.part.units
    }

    fn costs(&self) -> Costs {
        self.costs
    }

    fn role(&self) -> Role {
        self.part.role
    }

    fn part(&self, first: u32, units: u32, role: Role) -> Self {
        Self { part: Part { first: self.part.first + first, units, role, ..self.part }, costs: self.costs }
    }
}

/// Lists of whole tiles whose K can be divided: that of the longest of the last column first.
fn divisible(lists: Vec<Vec<Place>>, tiles: &Tiles, costs: impl Fn(&Tile) -> Costs) -> Vec<Vec<SplitTile>> {
    let of = |mut list: Vec<Place>| {
        let from = list.len().saturating_sub(LAST);
        let longest = (from..list.len()).max_by_key(|at| tiles.at(list[*at]).units);
        longest.into_iter().for_each(|at| list[at..].rotate_left(1));
        list.into_iter().map(|tile| SplitTile::new(tile, tiles, &costs)).collect()
    };
    lists.into_iter().map(of).collect()
}

/// Tiles of a cluster that are about those of its last column.
const LAST: usize = 2;

/// What parts of a tile cost.
fn part_costs(plan: &Plan, form: &SplitForm, tile: &Tile) -> Costs {
    match plan.tile_scheduler() {
        TileScheduler::SharedColumns(shared) => Costs::of_union(&shared, form),
        TileScheduler::StageMetadata(packing) => {
            let bytes = (tile.cost << 10).saturating_sub(u64::from(packing.b_panel_bytes));
            Costs::of_records(&packing, form, bytes, tile.units)
        }
        _ => Costs::of_blocks(&plan.cluster_tile(), form),
    }
}

fn exchange_of_sddmm(tile: &Tile) -> Costs {
    let stage = tile.cost / u64::from(tile.units + 1);
    Costs { unit: stage, tile: stage, ..Costs::of_sddmm(false) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use bsr_codegen::{KernelSpec, Plan};
    use bsr_runtime::schedule::{WorkLists, WorkPlan, WorkTile};
    use bsr_runtime::{Pattern, Structure};

    use super::super::shape::Shape;
    use super::super::view::View;
    use super::*;
    use crate::{Facts, Source, TuningProblem, Workload};

    const CLUSTERS: usize = 66;

    fn problem(spec: &KernelSpec, (m, n, k): (usize, usize, usize), words: &str) -> (TuningProblem, Structure) {
        let facts = Facts::of(spec);
        let structure = words.parse::<Pattern>().unwrap().structure(m, k, facts.block(), 0).unwrap();
        let workload = Workload { facts, m, n, k, source: Source::Pattern(words.to_owned()), seed: 0 };
        (TuningProblem::new(workload, &structure), structure)
    }

    /// The costs of all clusters: those of the real lists, and those of these.
    fn loads(text: &str, shape: (usize, usize, usize), words: &str) -> [Vec<u64>; 2] {
        let spec: KernelSpec = text.parse().unwrap();
        let plan = Plan::new(&spec).unwrap();
        let (problem, structure) = problem(&spec, shape, words);
        let (steps, gathered) = plan.cluster_tile().stages_per_block;
        let cost = |blocks: u32| u64::from(blocks.div_ceil(gathered).max(1) * steps + 1);
        let real = WorkPlan::new(&plan, &structure, shape.1, CLUSTERS as u32);
        let of = |list: &[WorkTile]| list.iter().map(|tile| cost(tile.blocks)).sum::<u64>();
        let profile = plan.profile();
        let known = Shape::of(&problem);
        let tiles = Tiles::new(&plan, &profile, &View::new(&spec, &problem), &known, CLUSTERS);
        let lists = assign(&plan, &tiles, CLUSTERS);
        let whole = |list: &Vec<Place>| list.iter().map(|at| tiles.at(*at).cost).sum::<u64>();
        let part = |part: &Part| u64::from(part.units.max(1) * steps + 1);
        let light = match &lists {
            Lists::Whole(lists) => lists.iter().map(whole).collect(),
            Lists::Parts { of, .. } => of.iter().map(|list| list.iter().map(part).sum::<u64>()).collect(),
        };
        [real.lists().map(of).collect(), light]
    }

    #[test]
    fn clusters_have_as_much_to_do_as_in_the_real_lists() {
        for (text, shape, words) in [
            ("bm = 128, bn = 256, bk = 128", (8192, 8192, 8192), "random:0.25"),
            ("bm = 128, bn = 256, bk = 128, schedule = strided", (8192, 8192, 8192), "random:0.03"),
            ("bm = 64, bn = 256, bk = 64, cluster = 2", (12288, 6144, 12288), "powerlaw:0.06"),
            ("bm = 128, bn = 192, bk = 128", (12288, 6144, 12288), "window:0.05"),
            ("bm = 512, bn = 256, bk = 112", (8192, 8192, 8288), "topk:16"),
            ("bm = 64, bn = 64, bk = 64", (1024, 100, 4096), "random:0.1"),
            ("bm = 128, bn = 16, bk = 128, split = 3", (4096, 16, 14336), "random:0.25"),
            ("bm = 128, bn = 16, bk = 128, split = auto", (4096, 16, 14336), "random:0.25"),
            ("bm = 64, bn = 256, bk = 64, split = auto", (4096, 4096, 4096), "random:0.125"),
        ] {
            let [real, light] = loads(text, shape, words);
            let [sums, most] = [
                [&real, &light].map(|loads| loads.iter().sum::<u64>()),
                [&real, &light].map(|loads| loads.iter().copied().max().unwrap()),
            ];
            let ratio = most[1] as f64 / most[0] as f64;
            assert!((0.93..1.08).contains(&ratio), "{text}: {most:?} at most");
            let ratio = sums[1] as f64 / sums[0] as f64;
            assert!((0.98..1.02).contains(&ratio), "{text}: {sums:?} in all");
        }
    }

    #[test]
    fn clusters_have_as_many_records_as_in_the_real_lists() {
        for (text, shape, words) in [
            ("bm = 32, bn = 128, bk = 32", (4096, 300, 4096), "powerlaw:0.1"),
            ("bm = 32, bn = 128, bk = 32, split = auto", (2048, 100, 4096), "random:0.1"),
            ("bm = 16, bn = 64, bk = 16, split = 4", (1024, 64, 4096), "random:0.25"),
        ] {
            let spec: KernelSpec = text.parse().unwrap();
            let plan = Plan::new(&spec).unwrap();
            let (problem, structure) = problem(&spec, shape, words);
            let real = WorkLists::new(&plan, &structure, shape.1, CLUSTERS as u32);
            let profile = plan.profile();
            let tiles = Tiles::new(&plan, &profile, &View::new(&spec, &problem), &Shape::of(&problem), CLUSTERS);
            let of_list: Vec<u32> = match assign(&plan, &tiles, CLUSTERS) {
                Lists::Whole(lists) => {
                    let units = |list: &Vec<Place>| list.iter().map(|at| tiles.at(*at).units).sum();
                    lists.iter().map(units).collect()
                }
                Lists::Parts { of, places } => {
                    assert!(places > 0 && real.workspace > 0, "{text}");
                    of.iter().map(|list| list.iter().map(|part| part.units).sum()).collect()
                }
            };
            let of_head: Vec<u32> = real.heads.chunks(2).map(|head| head[1]).collect();
            assert_eq!(of_list.iter().sum::<u32>(), of_head.iter().sum::<u32>(), "{text}");
            let most = [of_list, of_head].map(|records| f64::from(records.into_iter().max().unwrap()));
            assert!((0.93..1.08).contains(&(most[0] / most[1])), "{text}: {most:?}");
        }
    }
}
