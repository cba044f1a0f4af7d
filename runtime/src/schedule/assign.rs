//! Assigns tiles to clusters: in turn (static round-robin), or so that clusters finish together.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::{CostedTile, WorkTile};

/// Shares of the columns whose tiles are assigned in order, so that concurrent tiles share columns of B; largest first.
const IN_ORDER: [f64; 5] = [0.875, 0.75, 0.5, 0.25, 0.0];
/// An assignment with a smaller share must finish this much earlier to be worth its additional L2 misses.
const WORTH: f64 = 0.01;
/// Swaps that are tried for each cluster.
const SWAPS: usize = 4;

/// Static round-robin: tile `i` of the order goes to cluster `i mod clusters`.
pub(super) fn round_robin(rows: &[CostedTile], columns: &[u32], group: usize, clusters: usize) -> Vec<Vec<WorkTile>> {
    let mut lists = vec![vec![]; clusters];
    for (i, costed) in tile_order(rows, columns, group).enumerate() {
        lists[i % clusters].push(costed.tile);
    }
    lists
}

/// All tiles, along each block row under `group` columns of tiles at a time. The direction alternates: down under the
/// first group, up under the second, and so on, so that the rows of A that L2 still holds come first.
pub(super) fn tile_order<'a>(
    rows: &'a [CostedTile],
    columns: &'a [u32],
    group: usize,
) -> impl Iterator<Item = CostedTile> + 'a {
    columns.chunks(group).enumerate().flat_map(move |(number, together)| {
        (0..rows.len()).flat_map(move |i| {
            let row = if number % 2 == 0 { rows[i] } else { rows[rows.len() - 1 - i] };
            together.iter().map(move |column| CostedTile { tile: WorkTile { c_col: *column, ..row.tile }, ..row })
        })
    })
}

/// Assigns tiles of any kind with their costs. A first part goes in order to whichever cluster would be free first, the
/// remaining tiles in descending order of cost. Of the assignments that finish about as early as any, the one with the
/// largest first part is chosen.
pub(super) fn assign<T: Copy>(tiles: &[(T, u64)], clusters: usize, balanced: bool) -> Vec<Vec<T>> {
    let even = tiles.iter().all(|(_, cost)| *cost == tiles[0].1);
    if !balanced || even {
        let mut lists = vec![vec![]; clusters];
        tiles.iter().enumerate().for_each(|(i, (tile, _))| lists[i % clusters].push(*tile));
        return lists;
    }
    let with_share = |share: f64| {
        let (in_order, remaining) = tiles.split_at((tiles.len() as f64 * share) as usize);
        let mut remaining = remaining.to_vec();
        remaining.sort_by_key(|(_, cost)| Reverse(*cost));
        let mut lists = vec![vec![]; clusters];
        let mut free: BinaryHeap<Reverse<(u64, usize)>> = (0..clusters).map(|c| Reverse((0, c))).collect();
        let mut finish = 0;
        for (tile, cost) in in_order.iter().chain(&remaining) {
            let Reverse((busy, cluster)) = free.pop().unwrap_or(Reverse((0, 0)));
            free.push(Reverse((busy + cost, cluster)));
            finish = finish.max(busy + cost);
            lists[cluster].push(*tile);
        }
        (finish, lists)
    };
    most_in_order(with_share, |(finish, _)| *finish, 0).map(|(_, lists)| lists).unwrap_or_default()
}

/// Of the assignments of all shares in order that finish about as early as any, the one with the largest share. One that finishes
/// about at `early` is taken at once.
pub(super) fn most_in_order<A>(of_share: impl Fn(f64) -> A, finish: impl Fn(&A) -> u64, early: u64) -> Option<A> {
    let is_about = |assignment: &A, least: u64| finish(assignment) <= (least as f64 * (1.0 + WORTH)) as u64;
    let mut tried = vec![];
    for share in IN_ORDER {
        let assignment = of_share(share);
        if is_about(&assignment, early) {
            return Some(assignment);
        }
        tried.push(assignment);
    }
    let earliest = tried.iter().map(&finish).min().unwrap_or(0);
    tried.into_iter().find(|assignment| is_about(assignment, earliest))
}

/// The assignment with the largest part in order that finishes about as early as any.
pub(super) fn balanced(rows: &[CostedTile], columns: &[u32], group: usize, clusters: usize) -> Vec<Vec<WorkTile>> {
    if rows.iter().all(|row| row.cost == rows[0].cost) {
        return round_robin(rows, columns, group, clusters);
    }
    let of_share = |share: f64| {
        let parts = columns.split_at((columns.len() as f64 * share) as usize);
        let mut assignment = Assignment::new(rows, parts, group, clusters);
        assignment.swap_tiles();
        assignment
    };
    most_in_order(of_share, Assignment::finish, 0).map(Assignment::into_lists).unwrap_or_default()
}

/// Tiles assigned to clusters, and the total cost of each cluster.
struct Assignment {
    /// Assigned in order. These tiles stay with their clusters.
    in_order: Vec<Vec<WorkTile>>,
    /// Assigned in descending order of cost. These tiles may still be swapped between clusters.
    remaining: Vec<Vec<CostedTile>>,
    loads: Vec<u64>,
}

impl Assignment {
    /// The tiles of the first columns, `in_order`, go one after the other to whichever cluster would be free first, so
    /// that concurrent tiles read the same columns of B. The remaining tiles go in descending order of cost, which
    /// leaves clusters within a tile of each other (Graham, Bounds on Multiprocessing Timing Anomalies, 1969).
    fn new(rows: &[CostedTile], (in_order, remaining): (&[u32], &[u32]), group: usize, clusters: usize) -> Self {
        let mut assignment =
            Self { in_order: vec![vec![]; clusters], remaining: vec![vec![]; clusters], loads: vec![0; clusters] };
        let mut free: BinaryHeap<Reverse<(u64, usize)>> = (0..clusters).map(|c| Reverse((0, c))).collect();
        let mut next = |cost: u64| {
            let Reverse((busy, cluster)) = free.pop().unwrap_or(Reverse((0, 0)));
            free.push(Reverse((busy + cost, cluster)));
            cluster
        };
        for CostedTile { tile, cost } in tile_order(rows, in_order, group) {
            let cluster = next(cost);
            assignment.in_order[cluster].push(tile);
            assignment.loads[cluster] += cost;
        }
        let mut remaining: Vec<CostedTile> = tile_order(rows, remaining, group).collect();
        remaining.sort_by_key(|costed| Reverse(costed.cost));
        for costed in remaining {
            let cluster = next(costed.cost);
            assignment.loads[cluster] += costed.cost;
            assignment.remaining[cluster].push(costed);
        }
        assignment
    }

    /// When the last cluster finishes.
    fn finish(&self) -> u64 {
        self.loads.iter().copied().max().unwrap_or(0)
    }

    /// Swaps tiles between the busiest cluster and another as long as that lowers the finish.
    fn swap_tiles(&mut self) {
        for _ in 0..SWAPS * self.loads.len() {
            let Some(busiest) = (0..self.loads.len()).max_by_key(|c| self.loads[*c]) else { return };
            let Some((other, give, take)) = self.best_swap(busiest) else { return };
            let (given, taken) = (self.remaining[busiest][give], self.remaining[other][take]);
            self.remaining[busiest][give] = taken;
            self.remaining[other][take] = given;
            self.loads[busiest] -= given.cost - taken.cost;
            self.loads[other] += given.cost - taken.cost;
        }
    }

    /// The swap after which the later of the two clusters finishes earliest, if earlier than now.
    fn best_swap(&self, busiest: usize) -> Option<(usize, usize, usize)> {
        let mut best = None;
        let mut finish = self.loads[busiest];
        for other in (0..self.loads.len()).filter(|c| *c != busiest) {
            for (give, given) in distinct(&self.remaining[busiest]) {
                for (take, taken) in distinct(&self.remaining[other]) {
                    if given.cost > taken.cost {
                        let moved = given.cost - taken.cost;
                        let after = (self.loads[busiest] - moved).max(self.loads[other] + moved);
                        if after < finish {
                            (finish, best) = (after, Some((other, give, take)));
                        }
                    }
                }
            }
        }
        best
    }

    /// The lists, each in the order of its columns.
    fn into_lists(self) -> Vec<Vec<WorkTile>> {
        let mut lists = self.in_order;
        for (list, remaining) in lists.iter_mut().zip(self.remaining) {
            let mut remaining: Vec<WorkTile> = remaining.into_iter().map(|costed| costed.tile).collect();
            remaining.sort_by_key(|tile| tile.c_col);
            list.extend(remaining);
        }
        lists
    }
}

/// One tile of each cost, with its position in a list in descending order of cost.
fn distinct(tiles: &[CostedTile]) -> impl Iterator<Item = (usize, &CostedTile)> {
    tiles.iter().enumerate().filter(|(i, costed)| *i == 0 || tiles[i - 1].cost != costed.cost)
}
