//! Which tiles each cluster computes, in which order: the lists of the tile scheduler, made in time for a prediction.
//!
//! `bsr_runtime::schedule` makes the real lists. These follow it: the order of the tiles, the share that is assigned in that
//! order, the longest of the rest first, divided K by the very same functions. What is left out are its swaps of
//! tiles between clusters, which level loads by less than a tile.

use bsr_codegen::{KernelKind, Plan, Profile, Schedule, SplitForm, SplitK, TileScheduler};
use bsr_runtime::schedule::{
    Costs, Divisible, Role, divide, divide_long, longest_part, record_costs, sddmm_costs, split,
};

use super::tiles::{Tile, Tiles};

/// A tile of the launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Which tile of the column, and which column.
    pub(super) tile: u32,
    pub(super) column: u32,
}

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

/// Shares of the tiles that are assigned in order; the largest that ends about as early as any is taken.
const IN_ORDER: [f64; 5] = [0.875, 0.75, 0.5, 0.25, 0.0];
/// See [`IN_ORDER`].
const WORTH: f64 = 0.01;
/// Costs are at most so large: what is free is found by counting.
const MOST_COST: u32 = 2048;

/// Lists the tiles for at most `clusters` clusters at a time.
pub(super) fn deal(plan: &Plan, profile: &Profile, tiles: &Tiles, clusters: usize) -> Lists {
    let clusters = clusters.max(1);
    let order = plan.spec().schedule;
    if profile.kind == KernelKind::Sddmm {
        let lists = match order {
            Some(Schedule::Strided) => in_turn(tiles, clusters),
            _ => in_order(tiles, clusters, tiles.count()),
        };
        return match order {
            Some(Schedule::Balanced) => divided(lists, tiles, clusters, exchange_of_sddmm),
            _ => Lists::Whole(lists),
        };
    }
    let Some(form) = plan.split_form() else { return Lists::Whole(balanced(plan, tiles, clusters)) };
    let costs = |tile: &Tile| costs(plan, &form, tile);
    match plan.spec().split {
        SplitK::Parts(parts) => {
            let all = order_of(tiles).map(|tile| SplitTile::new(tile, tiles, costs));
            let (lists, places) = divide(all, parts, clusters);
            Lists::parts(lists, places)
        }
        SplitK::Auto | SplitK::Long => match longest(plan, tiles, clusters, costs) {
            Some(limit) => {
                let all: Vec<SplitTile> = order_of(tiles).map(|tile| SplitTile::new(tile, tiles, costs)).collect();
                let (lists, places) = divide_long(&all, limit, clusters);
                Lists::parts(lists, places)
            }
            None => divided(balanced(plan, tiles, clusters), tiles, clusters, costs),
        },
        SplitK::Off => Lists::Whole(balanced(plan, tiles, clusters)),
    }
}

/// How long a part of a tile may take, where some tiles take longer.
fn longest(plan: &Plan, tiles: &Tiles, clusters: usize, costs: impl Fn(&Tile) -> Costs) -> Option<u64> {
    if plan.spec().split != SplitK::Long || plan.spec().schedule == Some(Schedule::Strided) {
        return None;
    }
    let tile = |tile: u32| SplitTile::new(Place { tile, column: 0 }, tiles, &costs);
    let column: Vec<SplitTile> = (0..tiles.column.len() as u32).map(tile).collect();
    longest_part(&column, tiles.columns, tiles.held, clusters)
}

/// All tiles, along each row under the columns that go together, down under the first ones, up under the next.
fn order_of(tiles: &Tiles) -> impl Iterator<Item = Place> + '_ {
    let (rows, together) = (tiles.column.len(), tiles.together.max(1));
    (0..tiles.columns.div_ceil(together)).flat_map(move |number| {
        let first = number * together;
        let columns = first..(first + together).min(tiles.columns);
        (0..rows).flat_map(move |at| {
            let row = if number % 2 == 0 { at } else { rows - 1 - at };
            columns.clone().map(move |column| Place { tile: row as u32, column: column as u32 })
        })
    })
}

fn in_turn(tiles: &Tiles, clusters: usize) -> Vec<Vec<Place>> {
    let clusters = clusters.min(tiles.count()).max(1);
    let mut lists = vec![Vec::with_capacity(tiles.count() / clusters + 1); clusters];
    order_of(tiles).enumerate().for_each(|(at, tile)| lists[at % clusters].push(tile));
    lists
}

fn balanced(plan: &Plan, tiles: &Tiles, clusters: usize) -> Vec<Vec<Place>> {
    let is_even = tiles.column.iter().all(|tile| tile.cost == tiles.column[0].cost);
    if is_even || plan.spec().schedule == Some(Schedule::Strided) {
        return in_turn(tiles, clusters);
    }
    let mut tried: Vec<(u64, Vec<Vec<Place>>)> = vec![];
    let mean: u64 = tiles.column.iter().map(|tile| u64::from(tile.cost)).sum::<u64>() * tiles.columns as u64;
    let mean = mean / clusters.min(tiles.count()).max(1) as u64;
    let within = |finish: u64, least: u64| finish as f64 <= least as f64 * (1.0 + WORTH);
    for share in IN_ORDER {
        // Of packed rows it is a share of the tiles, of others one of the columns.
        let first = match plan.tile_scheduler() {
            TileScheduler::SharedColumns(_) => (tiles.count() as f64 * share) as usize,
            _ => (tiles.columns as f64 * share) as usize * tiles.column.len(),
        };
        let lists = in_order(tiles, clusters, first);
        let load = |list: &Vec<Place>| list.iter().map(|at| u64::from(tiles.at(*at).cost)).sum::<u64>();
        let finish = lists.iter().map(load).max().unwrap_or(0);
        if within(finish, mean) {
            return lists;
        }
        tried.push((finish, lists));
    }
    let earliest = tried.iter().map(|(finish, _)| *finish).min().unwrap_or(0);
    tried.into_iter().find(|(finish, _)| within(*finish, earliest)).map(|(_, lists)| lists).unwrap_or_default()
}

/// The first tiles in order, the others the longest first, each to the cluster that would be free first.
fn in_order(tiles: &Tiles, clusters: usize, first: usize) -> Vec<Vec<Place>> {
    let most = tiles.column.iter().map(|tile| tile.cost).max().unwrap_or(0);
    let unit = most.div_ceil(MOST_COST).max(1);
    let cost = |at: Place| (tiles.at(at).cost / unit).max(1);
    let clusters = clusters.min(tiles.count()).max(1);
    let mut lists = vec![Vec::with_capacity(tiles.count() / clusters + 1); clusters];
    let mut free = Free::new(clusters, (most / unit).max(1));
    let mut assign = |at: Place| lists[free.next(cost(at))].push(at);
    order_of(tiles).take(first).for_each(&mut assign);
    let mut left: Vec<Place> = order_of(tiles).skip(first).collect();
    left.sort_by_key(|at| std::cmp::Reverse(tiles.at(*at).cost));
    left.into_iter().for_each(assign);
    lists
}

/// Clusters by when they are free: as many queues as the longest tile has units of time.
struct Free {
    at: Vec<Vec<usize>>,
    now: usize,
}

impl Free {
    fn new(clusters: usize, most: u32) -> Self {
        let mut at = vec![vec![]; most as usize + 1];
        at[0] = (0..clusters).rev().collect();
        Self { at, now: 0 }
    }

    /// The cluster that is free first, which then is busy for so long.
    fn next(&mut self, cost: u32) -> usize {
        let queues = self.at.len();
        loop {
            if let Some(cluster) = self.at[self.now].pop() {
                self.at[(self.now + cost as usize) % queues].push(cluster);
                return cluster;
            }
            self.now = (self.now + 1) % queues;
        }
    }
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

/// Parts of the last tiles go from late clusters to early ones.
fn divided(lists: Vec<Vec<Place>>, tiles: &Tiles, clusters: usize, costs: impl Fn(&Tile) -> Costs) -> Lists {
    let mut lists: Vec<Vec<SplitTile>> = lists
        .into_iter()
        .map(|mut list| {
            // The longest of the tiles of the last column is where K is divided.
            let from = list.len().saturating_sub(LAST);
            let longest = (from..list.len()).max_by_key(|at| tiles.at(list[*at]).units);
            longest.into_iter().for_each(|at| list[at..].rotate_left(1));
            list.into_iter().map(|tile| SplitTile::new(tile, tiles, &costs)).collect()
        })
        .collect();
    lists.resize(lists.len().max(clusters), vec![]);
    let (lists, places) = split(lists);
    Lists::parts(lists, places)
}

/// Tiles of a cluster that are about those of its last column.
const LAST: usize = 2;

/// As the runtime has them: `split_rows` and `shared_columns`.
fn costs(plan: &Plan, form: &SplitForm, tile: &Tile) -> Costs {
    let partial = u64::from(form.partial_bytes);
    match plan.tile_scheduler() {
        TileScheduler::SharedColumns(shared) => {
            let unit = u64::from(shared.b_bytes + shared.block_bytes).max(1);
            return Costs { unit, tile: unit, contribute: unit + partial, collect: unit + partial, least: 4 };
        }
        TileScheduler::StageMetadata(packing) => {
            let bytes = (u64::from(tile.cost) << 10).saturating_sub(u64::from(packing.b_panel_bytes));
            return record_costs(&packing, form, bytes, tile.units);
        }
        _ => {}
    }
    let steps = plan.cluster_tile().stages_per_block.0.max(1);
    let exchange = 20 + 20 * partial / u64::from(form.stage_bytes).max(1);
    let least = 4_u32.div_ceil(steps);
    Costs { unit: 20 * u64::from(steps), tile: 20, contribute: exchange, collect: exchange, least }
}

fn exchange_of_sddmm(tile: &Tile) -> Costs {
    let stage = u64::from(tile.cost) / u64::from(tile.units + 1).max(1);
    Costs { unit: stage, tile: stage, ..sddmm_costs(false) }
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
        let tiles = Tiles::new(&plan, &profile, &View::new(&spec, &problem), &known);
        let lists = deal(&plan, &profile, &tiles, CLUSTERS);
        let whole = |list: &Vec<Place>| list.iter().map(|at| u64::from(tiles.at(*at).cost)).sum::<u64>();
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
            let tiles = Tiles::new(&plan, &profile, &View::new(&spec, &problem), &Shape::of(&problem));
            let of_list: Vec<u32> = match deal(&plan, &profile, &tiles, CLUSTERS) {
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

    #[test]
    fn the_first_cluster_that_is_free_is_next() {
        let mut free = Free::new(3, 5);
        let taken: Vec<usize> = [5, 1, 2, 1, 1, 4, 1].map(|cost| free.next(cost)).to_vec();
        // The first is busy until 5; the second is free at 1, then at 2 and 3; the third at 2, then at 6.
        assert_eq!(taken[..4], [0, 1, 2, 1]);
        assert_eq!(taken[4..].iter().collect::<std::collections::HashSet<_>>().len(), 2);
    }
}
