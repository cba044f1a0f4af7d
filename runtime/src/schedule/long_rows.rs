//! Split K of tiles that are much longer than the others, as those of the longest rows of a power law.
//!
//! The tiles of a column of C begin together and walk through K. While the longest of them does, the others end, and their CTAs
//! go on to the next columns. What the longest tile reads of the dense factor was then read long ago, and L2 has
//! other columns in its place. So such a tile is divided into parts that several CTAs compute at the same time, each not much
//! longer than L2 holds the column.
//!
//! A part comes before the one that collects it in the order in which tiles are assigned, and goes to a CTA of a lower
//! number. So no CTA waits for one of a higher number, and the launch ends even if not all CTAs run at the same time.

use std::cmp::Reverse;

use bsr_codegen::{Plan, SplitK};

use super::split_k::{Divisible, divide, in_parts, split};
use super::tiles::policy;
use super::{Clusters, Policy, most_in_order};

/// A tile is long if it takes so many times as long as they do on average.
const TIMES_AVERAGE: f64 = 1.5;
/// A part takes at most so many times as long as L2 holds a column: of 0.7, 1, 1.5 and 2.5 the fastest on an H200
/// (`benches/LOG.md`, section 51).
const TIMES_HELD: f64 = 1.5;
/// A part takes at least so many times as long as its sums take to be written, and to be added.
const TIMES_EXCHANGE: u64 = 3;

/// Divides the K of tiles as the spec says: of all of them in their order; of those that take longer than a limit from
/// [`longest_part`]; or by moving parts of some tiles of the lists that `whole` makes. The lists, and places in the workspace.
pub fn divide_k<T: Divisible>(
    spec: SplitK,
    longest: Option<u64>,
    all: impl Iterator<Item = T>,
    whole: impl FnOnce() -> Vec<Vec<T>>,
    clusters: usize,
) -> (Vec<Vec<T>>, u32) {
    let clusters = clusters.max(1);
    match (spec, longest) {
        (SplitK::Parts(parts), _) => divide(all, parts, clusters),
        (_, Some(limit)) => divide_long(&all.collect::<Vec<_>>(), limit, clusters),
        (SplitK::Auto | SplitK::Long | SplitK::Off, None) => {
            let mut lists = whole();
            lists.resize(lists.len().max(clusters), vec![]);
            split(lists)
        }
    }
}

/// How long a part of a tile may take, given the tiles of a column of C, how many such columns there are, and of how many of them L2
/// holds what is read of the dense factor. None where no tile takes longer, and where the spec divides no long tiles.
pub fn longest_part<T: Divisible>(
    plan: &Plan,
    column: impl FnOnce() -> Vec<T>,
    columns: usize,
    held: f64,
    clusters: usize,
) -> Option<u64> {
    let divides = plan.spec().split == SplitK::Long && policy(plan) != Policy::RoundRobin;
    if !divides || clusters < 2 || columns as f64 <= held {
        return None;
    }
    let column = column();
    let all: u64 = column.iter().map(T::cost).sum();
    let average = all as f64 / column.len().max(1) as f64;
    // As long as all clusters compute so many columns.
    let while_held = held * all as f64 / clusters as f64;
    let limit = (TIMES_HELD * while_held).max(TIMES_AVERAGE * average) as u64;
    column.iter().any(|tile| parts(tile, limit) > 1).then_some(limit)
}

/// The parts of a tile of which none shall take longer than `limit`.
fn parts<T: Divisible>(tile: &T, limit: u64) -> u32 {
    let costs = tile.costs();
    let limit = limit.max(TIMES_EXCHANGE * (costs.contribute + costs.collect)).max(costs.unit * u64::from(costs.least));
    (u64::from(tile.units()) * costs.unit).div_ceil(limit.max(1)).max(1) as u32
}

/// Assigns tiles in their order, with the long ones divided, so that all of `clusters` clusters finish together. The lists,
/// and the places of the workspace.
fn divide_long<T: Divisible>(tiles: &[T], limit: u64, clusters: usize) -> (Vec<Vec<T>>, u32) {
    let mean = tiles.iter().map(T::cost).sum::<u64>() / clusters.max(1) as u64;
    let of_share = |share| Assigned::with_share(tiles, share, limit, clusters);
    most_in_order(of_share, |assigned| assigned.finish, mean).map_or((vec![], 0), Assigned::into_lists)
}

/// Tiles and parts, each given to clusters that would be free first.
struct Assigned<T> {
    lists: Vec<Vec<T>>,
    clusters: Clusters,
    places: u32,
    finish: u64,
}

impl<T: Divisible> Assigned<T> {
    fn new(clusters: usize) -> Self {
        Self { lists: vec![vec![]; clusters], clusters: Clusters::idle(clusters), places: 0, finish: 0 }
    }

    /// The first share of the tiles in order, the others the longest first.
    fn with_share(tiles: &[T], share: f64, limit: u64, clusters: usize) -> Self {
        let (in_order, rest) = tiles.split_at((tiles.len() as f64 * share) as usize);
        let mut rest: Vec<&T> = rest.iter().collect();
        rest.sort_by_key(|tile| Reverse(tile.cost()));
        let mut assigned = Self::new(clusters);
        in_order.iter().chain(rest).for_each(|tile| assigned.add(tile, limit));
        assigned
    }

    /// The lists that have tiles, and the places of the workspace.
    fn into_lists(mut self) -> (Vec<Vec<T>>, u32) {
        self.lists.retain(|list| !list.is_empty());
        (self.lists, self.places)
    }

    fn add(&mut self, tile: &T, limit: u64) {
        let (own, others) = in_parts(tile, parts(tile, limit).min(self.lists.len() as u32), self.places);
        self.places += others.len() as u32;
        // The clusters that are free first, by their numbers: the last one collects.
        let mut taken: Vec<(usize, u64)> = (0..=others.len()).filter_map(|_| self.clusters.pop()).collect();
        taken.sort_unstable();
        let Some((last, busy)) = taken.pop() else { return };
        let collects = others.len() as u64 * tile.costs().collect;
        let ends = others.into_iter().zip(taken).map(|(part, (cluster, busy))| self.push(part, cluster, busy));
        let arrived = ends.max().unwrap_or(0);
        let waits = (arrived + collects).saturating_sub(busy + own.cost());
        self.push(own, last, busy + waits);
    }

    /// Gives a tile to a cluster that is busy until then. When it will have done it.
    fn push(&mut self, tile: T, cluster: usize, busy: u64) -> u64 {
        let end = busy + tile.cost();
        self.lists[cluster].push(tile);
        self.clusters.push(cluster, end);
        self.finish = self.finish.max(end);
        end
    }
}
