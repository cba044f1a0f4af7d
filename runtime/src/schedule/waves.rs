//! Tiles in waves: every cluster computes one tile of a wave, so that tiles which read the same blocks begin together.
//!
//! Clusters that traverse K from its beginning at the same time find in L2 what the others have just read; where they are at
//! different places, each reads from memory (`benches/LOG.md`, 88). So clusters must neither take tiles out of turn nor
//! drift apart: within a wave the longest tile goes to the cluster that has had the least of its share of the work. The share
//! of a cluster that takes one tile more than others is in shorter tiles.

use std::cmp::Reverse;

use bsr_codegen::{Plan, Schedule};

use super::assign::Clusters;

/// The last tiles, in waves, which go to the cluster that is free first, the longest ones first: so all end together.
const LAST_WAVES: usize = 2;

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
    let (count, share) = (tiles.len(), tiles.iter().map(|(_, cost)| cost).sum::<u64>() / clusters as u64);
    let whole = (tiles.len() / clusters).saturating_sub(LAST_WAVES) * clusters;
    let mut last = tiles.split_off(whole);
    let mut lists: Vec<Vec<T>> = (0..clusters).map(|_| vec![]).collect();
    let mut loads = vec![0_u64; clusters];
    let counts = |cluster| (count / clusters + usize::from(cluster < count % clusters)) as u64;
    let mut tiles = tiles.into_iter();
    for number in 0..whole as u64 / clusters as u64 {
        let mut wave: Vec<(T, u64)> = tiles.by_ref().take(clusters).collect();
        wave.sort_by_key(|(_, cost)| Reverse(*cost));
        let mut idle: Vec<usize> = (0..clusters).collect();
        // What it has had beyond its share of the waves so far.
        idle.sort_by_key(|cluster| loads[*cluster] as i64 - (number * share / counts(*cluster)) as i64);
        for ((tile, cost), cluster) in wave.into_iter().zip(idle) {
            loads[cluster] += cost;
            lists[cluster].push(tile);
        }
    }
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
