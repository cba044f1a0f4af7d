//! The scheduler: tiles with costs are assigned to clusters. Every list of work and the cost model assign tiles here.
//!
//! Costs are in any unit that all tiles of a launch have; [`super::costs`] has them.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

/// Shares of the tiles that are assigned in order, so that concurrent tiles share columns of B; largest first.
const SHARES_IN_ORDER: [f64; 5] = [0.875, 0.75, 0.5, 0.25, 0.0];
/// An assignment with a smaller share in order must finish earlier by this part to be worth its additional L2 misses.
const LEAST_GAIN: f64 = 0.01;
/// Swaps that are tried for each cluster.
const SWAPS: usize = 4;

/// Clusters, or CTAs, by when they are free: the earliest first, of several the one with the lowest number.
#[derive(Clone, Debug)]
pub(crate) struct Clusters {
    free: BinaryHeap<Reverse<(u64, usize)>>,
}

/// Clusters of these numbers, each with the time at which it is free.
impl FromIterator<(usize, u64)> for Clusters {
    fn from_iter<I: IntoIterator<Item = (usize, u64)>>(clusters: I) -> Self {
        Self { free: clusters.into_iter().map(|(cluster, time)| Reverse((time, cluster))).collect() }
    }
}

impl Clusters {
    /// So many clusters, all of which are free at 0.
    pub(crate) fn idle(count: usize) -> Self {
        (0..count).map(|cluster| (cluster, 0)).collect()
    }

    /// The cluster that is free first, which then is busy for so long; none of no clusters.
    fn next(&mut self, cost: u64) -> Option<usize> {
        let mut first = self.free.peek_mut()?;
        first.0.0 += cost;
        Some(first.0.1)
    }

    /// Takes out the cluster that is free first, and the time at which it is.
    pub(crate) fn pop(&mut self) -> Option<(usize, u64)> {
        self.free.pop().map(|Reverse((time, cluster))| (cluster, time))
    }

    /// Puts a cluster back that is free at this time.
    pub(crate) fn push(&mut self, cluster: usize, time: u64) {
        self.free.push(Reverse((time, cluster)));
    }

    /// When each cluster is free, by its number.
    pub(crate) fn times(&self) -> Vec<u64> {
        let mut times = vec![0; self.free.len()];
        self.free.iter().for_each(|Reverse((time, cluster))| times[*cluster] = *time);
        times
    }

    /// Assigns tiles in their order, each to the cluster that is free first: the tiles of each cluster, by its number, of
    /// which there are as many as clusters.
    pub(crate) fn assign<T>(&mut self, tiles: impl IntoIterator<Item = T>, cost: impl Fn(&T) -> u64) -> Vec<Vec<T>> {
        let mut lists: Vec<Vec<T>> = (0..self.free.len()).map(|_| vec![]).collect();
        for tile in tiles {
            if let Some(cluster) = self.next(cost(&tile)) {
                lists[cluster].push(tile);
            }
        }
        lists
    }
}

/// Which tile goes to which cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Tile `i` to cluster `i mod clusters`.
    RoundRobin,
    /// Each tile to the cluster that is free first.
    InOrder,
    /// An [`Assignment`] with the largest share in order that finishes about as early as any, by [`most_in_order`]. Tiles of
    /// one cost go in turn.
    Balanced,
}

/// Assigns tiles to so many clusters: the list of each.
pub fn assign<T: Clone>(tiles: Vec<T>, policy: Policy, cost: impl Fn(&T) -> u64, clusters: usize) -> Vec<Vec<T>> {
    match policy {
        Policy::Balanced if !is_even(tiles.iter().map(&cost)) => {
            let of_share = |share| Assignment::of_tiles(&tiles, share, &cost, clusters);
            most_in_order(of_share, Assignment::finish, 0).map(Assignment::into_lists).unwrap_or_default()
        }
        Policy::InOrder => Clusters::idle(clusters).assign(tiles, cost),
        Policy::RoundRobin | Policy::Balanced => {
            let mut lists = vec![vec![]; clusters];
            tiles.into_iter().enumerate().for_each(|(i, tile)| lists[i % clusters].push(tile));
            lists
        }
    }
}

/// Whether all of these are the same.
fn is_even(mut costs: impl Iterator<Item = u64>) -> bool {
    costs.next().is_none_or(|first| costs.all(|cost| cost == first))
}

/// Of the assignments of all shares in order that finish about as early as any, the one with the largest share. One that
/// finishes about at `early` is taken at once.
pub fn most_in_order<A>(of_share: impl Fn(f64) -> A, finish: impl Fn(&A) -> u64, early: u64) -> Option<A> {
    let is_about = |assignment: &A, least: u64| finish(assignment) <= (least as f64 * (1.0 + LEAST_GAIN)) as u64;
    let mut tried = vec![];
    for share in SHARES_IN_ORDER {
        let assignment = of_share(share);
        if is_about(&assignment, early) {
            return Some(assignment);
        }
        tried.push(assignment);
    }
    let earliest = tried.iter().map(&finish).min().unwrap_or(0);
    tried.into_iter().find(|assignment| is_about(assignment, earliest))
}

/// A tile of C by its row and column of tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its row of tiles.
    pub row: u32,
    /// Its column of tiles.
    pub column: u32,
}

/// The tiles of C: every column of tiles has the same rows.
#[derive(Clone, Copy, Debug)]
pub struct TileGrid<'c> {
    /// What the tile of each row costs.
    pub costs: &'c [u64],
    /// Columns of tiles.
    pub columns: usize,
    /// Columns of tiles that are computed together along a row.
    pub group: usize,
}

impl<'c> TileGrid<'c> {
    /// All tiles, along each row under `group` columns at a time. The direction alternates: down under the first group, up
    /// under the second, and so on, so that the rows of A that L2 still holds come first.
    pub fn order(&self) -> impl Iterator<Item = Place> + use<> {
        self.order_of(0..self.columns)
    }

    fn order_of(&self, columns: Range<usize>) -> impl Iterator<Item = Place> + use<> {
        let (rows, group, end) = (self.costs.len() as u32, self.group, columns.end);
        columns.step_by(group).enumerate().flat_map(move |(number, first)| {
            let columns = first as u32..(first + group).min(end) as u32;
            (0..rows).flat_map(move |at| {
                let row = if number % 2 == 0 { at } else { rows - 1 - at };
                columns.clone().map(move |column| Place { row, column })
            })
        })
    }

    /// Whether all tiles cost the same.
    pub fn is_even(&self) -> bool {
        is_even(self.costs.iter().copied())
    }

    /// What a tile costs.
    pub fn cost(&self, place: &Place) -> u64 {
        self.costs[place.row as usize]
    }

    /// Assigns the first columns in order, as large a share as this is of all.
    pub fn with_share(&self, share: f64, clusters: usize) -> Assignment<Place> {
        let first = (self.columns as f64 * share) as usize;
        let parts = [0..first, first..self.columns].map(|columns| self.order_of(columns));
        Assignment::new(parts, |place| self.cost(place), clusters)
    }

    /// Assigns all tiles, with shares in order that are shares of the columns, and swaps.
    pub(super) fn assign(&self, policy: Policy, clusters: usize) -> Vec<Vec<Place>> {
        if policy != Policy::Balanced || self.is_even() {
            return assign(self.order().collect(), policy, |place| self.cost(place), clusters);
        }
        let of_share = |share| {
            let mut assignment = self.with_share(share, clusters);
            assignment.swap_tiles();
            assignment
        };
        let chosen = most_in_order(of_share, Assignment::finish, 0);
        chosen.map(|assignment| assignment.sorted_by_key(|place| place.column)).unwrap_or_default()
    }
}

/// Tiles in two parts. The first goes in order, each tile to the cluster that is free first, so that concurrent tiles read the
/// same columns of B. The rest goes in descending order of cost, which leaves clusters within a tile of each other (Graham,
/// Bounds on Multiprocessing Timing Anomalies, 1969).
#[derive(Debug)]
pub struct Assignment<T> {
    in_order: Vec<Vec<T>>,
    /// With their costs. These tiles may be swapped between clusters.
    rest: Vec<Vec<(T, u64)>>,
    /// The cost of all tiles of each cluster.
    loads: Vec<u64>,
}

impl<T: Clone> Assignment<T> {
    fn new(parts: [impl Iterator<Item = T>; 2], cost: impl Fn(&T) -> u64, clusters: usize) -> Self {
        let mut clusters = Clusters::idle(clusters);
        let [first, rest] = parts;
        let in_order = clusters.assign(first, &cost);
        let mut rest: Vec<(T, u64)> = rest.map(|tile| (tile.clone(), cost(&tile))).collect();
        rest.sort_by_key(|(_, cost)| Reverse(*cost));
        let rest = clusters.assign(rest, |(_, cost)| *cost);
        Self { in_order, rest, loads: clusters.times() }
    }

    /// As large a share of the tiles in order as this is of all.
    pub fn of_tiles(tiles: &[T], share: f64, cost: impl Fn(&T) -> u64, clusters: usize) -> Self {
        let (first, rest) = tiles.split_at((tiles.len() as f64 * share) as usize);
        Self::new([first, rest].map(|part| part.iter().cloned()), cost, clusters)
    }

    /// When the last cluster finishes.
    pub fn finish(&self) -> u64 {
        self.loads.iter().copied().max().unwrap_or(0)
    }

    /// Swaps tiles between the busiest cluster and another as long as that lowers the finish.
    fn swap_tiles(&mut self) {
        for _ in 0..SWAPS * self.loads.len() {
            let Some(busiest) = (0..self.loads.len()).max_by_key(|c| self.loads[*c]) else { return };
            let Some((other, give, take)) = self.best_swap(busiest) else { return };
            let (given, taken) = (self.rest[busiest][give].clone(), self.rest[other][take].clone());
            let moved = given.1 - taken.1;
            self.loads[busiest] -= moved;
            self.loads[other] += moved;
            (self.rest[busiest][give], self.rest[other][take]) = (taken, given);
        }
    }

    /// The swap after which the later of the two clusters finishes earliest, if earlier than now.
    fn best_swap(&self, busiest: usize) -> Option<(usize, usize, usize)> {
        let most = self.loads[busiest];
        let (mut best, mut finish) = (None, most);
        let given = distinct(&self.rest[busiest]);
        for (other, load) in self.loads.iter().copied().enumerate() {
            // Of two clusters one finishes on average or later.
            if other == busiest || (most + load).div_ceil(2) >= finish {
                continue;
            }
            let taken = distinct(&self.rest[other]);
            let swaps = given.iter().flat_map(|(given, give)| {
                // The finish falls until half of the gap is moved, and rises from there.
                let half = taken.partition_point(|(taken, _)| 2 * given <= most - load + 2 * taken);
                let near = &taken[half.saturating_sub(1)..taken.len().min(half + 1)];
                near.iter().filter(move |(taken, _)| taken < given).map(move |(taken, take)| {
                    let moved = given - taken;
                    ((most - moved).max(load + moved), *give, *take)
                })
            });
            if let Some((after, give, take)) = swaps.min().filter(|(after, ..)| *after < finish) {
                (finish, best) = (after, Some((other, give, take)));
            }
        }
        best
    }

    /// The list of each cluster.
    pub fn into_lists(self) -> Vec<Vec<T>> {
        self.sorted_by_key(|_| ())
    }

    /// The list of each cluster, with the rest in the order of a key.
    pub fn sorted_by_key<K: Ord>(self, key: impl Fn(&T) -> K) -> Vec<Vec<T>> {
        let mut lists = self.in_order;
        for (list, mut rest) in lists.iter_mut().zip(self.rest) {
            rest.sort_by_key(|(tile, _)| key(tile));
            list.extend(rest.into_iter().map(|(tile, _)| tile));
        }
        lists
    }
}

/// The costs of tiles, each once with the first tile that has it, in descending order.
fn distinct<T>(tiles: &[(T, u64)]) -> Vec<(u64, usize)> {
    let mut costs: Vec<(u64, usize)> = tiles.iter().enumerate().map(|(at, (_, cost))| (*cost, at)).collect();
    costs.sort_by_key(|(cost, _)| Reverse(*cost));
    costs.dedup_by_key(|(cost, _)| *cost);
    costs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cluster_that_is_free_first_is_next_and_of_several_the_first() {
        let mut clusters = Clusters::idle(3);
        let taken = [5, 1, 2, 1, 1, 4, 1].map(|cost| clusters.next(cost));
        assert_eq!(taken, [0, 1, 2, 1, 1, 2, 1].map(Some));
        assert_eq!(clusters.times(), [5, 4, 6]);
        assert_eq!(Clusters::idle(0).next(1), None);
    }

    #[test]
    fn tiles_go_along_rows_under_groups_of_columns_down_and_up() {
        let grid = TileGrid { costs: &[1, 1], columns: 3, group: 2 };
        let order: Vec<[u32; 2]> = grid.order().map(|place| [place.row, place.column]).collect();
        assert_eq!(order, [[0, 0], [0, 1], [1, 0], [1, 1], [1, 2], [0, 2]]);
    }

    #[test]
    fn the_first_of_the_best_swaps_is_found() {
        let mut state = 1_u64;
        let mut draw = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        for _ in 0..2000 {
            let mut list = || (0..draw(6)).map(|_| ((), 1 + draw(12))).collect::<Vec<_>>();
            let rest = vec![list(), list(), list(), list()];
            let loads: Vec<u64> = rest.iter().map(|list| list.iter().map(|tile| tile.1).sum::<u64>()).collect();
            let busiest = (0..4).max_by_key(|c| loads[*c]).unwrap_or(0);
            let (mut best, mut finish) = (None, loads[busiest]);
            for other in (0..4).filter(|other| *other != busiest) {
                for (give, (_, given)) in rest[busiest].iter().enumerate() {
                    for (take, (_, taken)) in rest[other].iter().enumerate().filter(|(_, tile)| tile.1 < *given) {
                        let after = (loads[busiest] - (given - taken)).max(loads[other] + (given - taken));
                        if after < finish {
                            (finish, best) = (after, Some((other, give, take)));
                        }
                    }
                }
            }
            let assignment = Assignment { in_order: vec![vec![]; 4], rest, loads };
            assert_eq!(assignment.best_swap(busiest), best, "{assignment:?}");
        }
    }
}
