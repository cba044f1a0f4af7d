//! Tiles in waves: every cluster computes one tile of a wave, so that tiles which read the same blocks begin together.
//!
//! Clusters that traverse K from its beginning at the same time find in L2 what the others have just read; where they are at
//! different places, each reads from memory (`benches/LOG.md`, 88). So clusters must neither take tiles out of turn nor
//! drift apart: within a wave the longest tile goes to the cluster that lacks the most of its share of the work. The share
//! of a cluster that takes one tile more than others is in shorter tiles.
//!
//! Waves are assigned in spans. The tiles of a span go to as many lists as there are clusters, and then these lists go to the
//! clusters by the same rule. The kernels that do so on a GPU ([`PairLists`]) have the lists of all spans at the same time.

use std::cmp::Reverse;

use bsr_codegen::lists::PairLists;
use bsr_codegen::{Plan, Schedule};

use super::assign::Clusters;

/// The last tiles, in waves, which go to the cluster that is free first, the longest ones first: so all end together.
const LAST_WAVES: usize = PairLists::LAST_WAVES as usize;
/// Waves of a span.
const SPAN: usize = PairLists::SPAN as usize;

/// Assigns tiles with their costs, in this order, to at most so many clusters.
#[doc(hidden)]
pub fn assign<T>(plan: &Plan, tiles: Vec<(T, u64)>, clusters: u32) -> Vec<Vec<T>> {
    let clusters = (clusters as usize).min(tiles.len()).max(1);
    match plan.spec().schedule {
        Some(Schedule::Strided) => in_turn(tiles, clusters),
        Some(Schedule::Balanced) | None => balanced(tiles, clusters),
    }
}

fn in_turn<T>(tiles: Vec<(T, u64)>, clusters: usize) -> Vec<Vec<T>> {
    let mut lists: Vec<Vec<T>> = (0..clusters).map(|_| vec![]).collect();
    tiles.into_iter().enumerate().for_each(|(i, (tile, _))| lists[i % clusters].push(tile));
    lists
}

fn balanced<T>(mut tiles: Vec<(T, u64)>, clusters: usize) -> Vec<Vec<T>> {
    let shares = Shares::new(&tiles, clusters);
    let last = tiles.split_off((tiles.len() / clusters).saturating_sub(LAST_WAVES) * clusters);
    let (mut lists, mut waves, mut tiles) = (idle(clusters), 0, tiles.into_iter().peekable());
    while tiles.peek().is_some() {
        let mut span = idle(clusters);
        let first = waves;
        while waves - first < SPAN && tiles.peek().is_some() {
            waves += 1;
            let wave = tiles.by_ref().take(clusters).map(|(tile, cost)| (vec![tile], cost));
            shares.deal(wave.collect(), &mut span, waves - first);
        }
        shares.deal(span, &mut lists, waves);
    }
    assign_last(last, lists)
}

/// Tiles with the sum of their costs.
type List<T> = (Vec<T>, u64);

fn idle<T>(clusters: usize) -> Vec<List<T>> {
    (0..clusters).map(|_| (vec![], 0)).collect()
}

/// The share of a wave that each cluster has, in units of cost: what all tiles cost, divided by the clusters and the tiles of each.
struct Shares(Vec<u64>);

impl Shares {
    fn new<T>(tiles: &[(T, u64)], clusters: usize) -> Self {
        let (count, all) = (tiles.len(), tiles.iter().map(|(_, cost)| cost).sum::<u64>());
        let tiles = |cluster| (count / clusters + usize::from(cluster < count % clusters)).max(1);
        Self((0..clusters).map(|cluster| (all << PairLists::SHARE_BITS) / (clusters * tiles(cluster)) as u64).collect())
    }

    /// Gives each cluster one of these lists: the longest to the one that lacks the most of its share of so many waves.
    fn deal<T>(&self, mut lists: Vec<List<T>>, to: &mut [List<T>], waves: usize) {
        lists.sort_by_key(|(_, cost)| Reverse(*cost));
        let mut clusters: Vec<usize> = (0..to.len()).collect();
        let due = |cluster: usize| (waves as u64 * self.0[cluster]) >> PairLists::SHARE_BITS;
        clusters.sort_by_key(|cluster| to[*cluster].1 as i64 - due(*cluster) as i64);
        for ((tiles, cost), cluster) in lists.into_iter().zip(clusters) {
            to[cluster].0.extend(tiles);
            to[cluster].1 += cost;
        }
    }
}

/// The lists with the last tiles behind the others.
fn assign_last<T>(mut last: Vec<(T, u64)>, lists: Vec<List<T>>) -> Vec<Vec<T>> {
    let (mut lists, loads): (Vec<_>, Vec<_>) = lists.into_iter().unzip();
    last.sort_by_key(|(_, cost)| Reverse(*cost));
    let mut free: Clusters = loads.into_iter().enumerate().collect();
    for (list, more) in lists.iter_mut().zip(free.assign(last, |(_, cost)| *cost)) {
        list.extend(more.into_iter().map(|(tile, _)| tile));
    }
    lists
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1000 tiles of 8 to 24 units for 12 clusters.
    fn tiles() -> Vec<(usize, u64)> {
        (0..1000).map(|i| (i, 8 + (i as u64).wrapping_mul(2_654_435_761) % 17)).collect()
    }

    #[test]
    fn clusters_stay_together_and_end_together() {
        let (tiles, clusters) = (tiles(), 12);
        let lists = balanced(tiles.clone(), clusters);
        let mut all: Vec<usize> = lists.iter().flatten().copied().collect();
        all.sort_unstable();
        assert_eq!(all, (0..1000).collect::<Vec<_>>());
        for wave in 0..tiles.len() / clusters - LAST_WAVES {
            let began = |list: &Vec<usize>| list[..wave].iter().map(|tile| tiles[*tile].1).sum::<u64>();
            let times: Vec<u64> = lists.iter().map(began).collect();
            let (first, last) = (times.iter().min(), times.iter().max());
            // Little more than a tile is long.
            assert!(last.zip(first).is_some_and(|(last, first)| last - first <= 30), "{wave}: {times:?}");
            assert!(lists.iter().all(|list| list[wave] / clusters == wave));
        }
        let ends: Vec<u64> = lists.iter().map(|list| list.iter().map(|tile| tiles[*tile].1).sum()).collect();
        let mean = ends.iter().sum::<u64>() / clusters as u64;
        assert!(ends.iter().all(|end| end.abs_diff(mean) <= 8), "{ends:?}");
    }

    #[test]
    fn few_tiles_have_a_cluster_each() {
        let lists = balanced(vec![('a', 1), ('b', 2)], 2);
        assert_eq!(lists.iter().map(Vec::len).collect::<Vec<_>>(), [1, 1]);
        assert!(balanced(Vec::<(char, u64)>::new(), 1).concat().is_empty());
        assert_eq!(in_turn(tiles(), 7).iter().map(Vec::len).sum::<usize>(), 1000);
    }
}
