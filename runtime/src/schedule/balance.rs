//! Dealing tiles to clusters.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::{Tile, WorkItem};

/// Shares of the columns to deal for locality, most local first.
const LOCAL: [f64; 5] = [0.875, 0.75, 0.5, 0.25, 0.0];
/// A less local deal must finish this much earlier to be worth its L2 misses.
const WORTH: f64 = 0.01;
/// Rounds of levelling for each cluster.
const LEVELLING: usize = 4;

/// Tile `i` of the walk goes to cluster `i mod clusters`.
pub(super) fn strided(rows: &[Tile], columns: &[u32], group: usize, clusters: usize) -> Vec<Vec<WorkItem>> {
    let mut lists = vec![vec![]; clusters];
    for (i, tile) in walk(rows, columns, group).enumerate() {
        lists[i % clusters].push(tile.item);
    }
    lists
}

/// All tiles, along each block row under `group` columns of tiles at a time: down under the first group, up under
/// the second, and so on, so that what L2 still holds of A is met first.
pub(super) fn walk<'a>(rows: &'a [Tile], columns: &'a [u32], group: usize) -> impl Iterator<Item = Tile> + 'a {
    columns.chunks(group).enumerate().flat_map(move |(number, together)| {
        (0..rows.len()).flat_map(move |i| {
            let row = if number % 2 == 0 { rows[i] } else { rows[rows.len() - 1 - i] };
            together.iter().map(move |column| Tile { item: WorkItem { c_col: *column, ..row.item }, ..row })
        })
    })
}

/// Deals tiles of any kind with their costs: their first part in order to whichever cluster would be free first, the rest
/// longest first; of such deals the one with the longest first part that finishes about as early as any.
pub(super) fn deal<T: Copy>(tiles: &[(T, u64)], clusters: usize, balanced: bool) -> Vec<Vec<T>> {
    let even = tiles.iter().all(|(_, cost)| *cost == tiles[0].1);
    if !balanced || even {
        let mut lists = vec![vec![]; clusters];
        tiles.iter().enumerate().for_each(|(i, (tile, _))| lists[i % clusters].push(*tile));
        return lists;
    }
    let dealt = |share: f64| {
        let (local, late) = tiles.split_at((tiles.len() as f64 * share) as usize);
        let mut late = late.to_vec();
        late.sort_by_key(|(_, cost)| Reverse(*cost));
        let mut lists = vec![vec![]; clusters];
        let mut free: BinaryHeap<Reverse<(u64, usize)>> = (0..clusters).map(|c| Reverse((0, c))).collect();
        let mut finish = 0;
        for (tile, cost) in local.iter().chain(&late) {
            let Reverse((busy, cluster)) = free.pop().unwrap_or(Reverse((0, 0)));
            free.push(Reverse((busy + cost, cluster)));
            finish = finish.max(busy + cost);
            lists[cluster].push(*tile);
        }
        (finish, lists)
    };
    let deals: Vec<_> = LOCAL.iter().map(|share| dealt(*share)).collect();
    let earliest = deals.iter().map(|(finish, _)| *finish).min().unwrap_or(0);
    let limit = (earliest as f64 * (1.0 + WORTH)) as u64;
    deals.into_iter().find(|(finish, _)| *finish <= limit).map(|(_, lists)| lists).unwrap_or_default()
}

/// The most local deal that finishes about as early as any.
pub(super) fn balanced(rows: &[Tile], columns: &[u32], group: usize, clusters: usize) -> Vec<Vec<WorkItem>> {
    if rows.iter().all(|row| row.cost == rows[0].cost) {
        return strided(rows, columns, group, clusters);
    }
    let deals: Vec<Deal> = LOCAL
        .iter()
        .map(|share| {
            let mut deal = Deal::new(rows, columns.split_at((columns.len() as f64 * share) as usize), group, clusters);
            deal.level();
            deal
        })
        .collect();
    let earliest = deals.iter().map(Deal::finish).min().unwrap_or(0);
    let limit = (earliest as f64 * (1.0 + WORTH)) as u64;
    let chosen = deals.into_iter().find(|deal| deal.finish() <= limit);
    chosen.map(Deal::into_lists).unwrap_or_default()
}

/// Tiles dealt to clusters, and what each has to do.
struct Deal {
    /// Dealt in order: these stay.
    local: Vec<Vec<WorkItem>>,
    /// Dealt longest first: these may still change hands.
    late: Vec<Vec<Tile>>,
    loads: Vec<u64>,
}

impl Deal {
    /// The tiles of the first columns, `local`, go one after the other to whichever cluster would be free first, so
    /// that tiles that run at the same time read the same columns of B. The rest go longest tile first, which
    /// leaves clusters within a tile of each other (Graham, Bounds on Multiprocessing Timing Anomalies, 1969).
    fn new(rows: &[Tile], (local, late): (&[u32], &[u32]), group: usize, clusters: usize) -> Self {
        let mut deal = Self { local: vec![vec![]; clusters], late: vec![vec![]; clusters], loads: vec![0; clusters] };
        let mut free: BinaryHeap<Reverse<(u64, usize)>> = (0..clusters).map(|c| Reverse((0, c))).collect();
        let mut next = |cost: u64| {
            let Reverse((busy, cluster)) = free.pop().unwrap_or(Reverse((0, 0)));
            free.push(Reverse((busy + cost, cluster)));
            cluster
        };
        for tile in walk(rows, local, group) {
            let cluster = next(tile.cost);
            deal.local[cluster].push(tile.item);
            deal.loads[cluster] += tile.cost;
        }
        let mut late: Vec<Tile> = walk(rows, late, group).collect();
        late.sort_by_key(|tile| Reverse(tile.cost));
        for tile in late {
            let cluster = next(tile.cost);
            deal.loads[cluster] += tile.cost;
            deal.late[cluster].push(tile);
        }
        deal
    }

    /// When the last cluster finishes.
    fn finish(&self) -> u64 {
        self.loads.iter().copied().max().unwrap_or(0)
    }

    /// Swaps tiles between the busiest cluster and another as long as that lowers the finish.
    fn level(&mut self) {
        for _ in 0..LEVELLING * self.loads.len() {
            let Some(busiest) = (0..self.loads.len()).max_by_key(|c| self.loads[*c]) else { return };
            let Some((other, give, take)) = self.best_swap(busiest) else { return };
            let (given, taken) = (self.late[busiest][give], self.late[other][take]);
            self.late[busiest][give] = taken;
            self.late[other][take] = given;
            self.loads[busiest] -= given.cost - taken.cost;
            self.loads[other] += given.cost - taken.cost;
        }
    }

    /// The swap after which the later of the two clusters finishes earliest, if earlier than now.
    fn best_swap(&self, busiest: usize) -> Option<(usize, usize, usize)> {
        let mut best = None;
        let mut finish = self.loads[busiest];
        for other in (0..self.loads.len()).filter(|c| *c != busiest) {
            for (give, given) in distinct(&self.late[busiest]) {
                for (take, taken) in distinct(&self.late[other]) {
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
    fn into_lists(self) -> Vec<Vec<WorkItem>> {
        let mut lists = self.local;
        for (list, late) in lists.iter_mut().zip(self.late) {
            let mut late: Vec<WorkItem> = late.into_iter().map(|tile| tile.item).collect();
            late.sort_by_key(|item| item.c_col);
            list.extend(late);
        }
        lists
    }
}

/// One tile of each cost: neighbours in a list that was dealt longest first.
fn distinct(tiles: &[Tile]) -> impl Iterator<Item = (usize, &Tile)> {
    tiles.iter().enumerate().filter(|(i, tile)| *i == 0 || tiles[i - 1].cost != tile.cost)
}
