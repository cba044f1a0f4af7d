//! Split K where CTAs would not finish together: one that would finish late leaves the end of the K of one of its tiles to
//! CTAs that would finish early.
//!
//! The other CTA computes the partial sums of that part of K and writes them to the workspace. The CTA that has the
//! tile adds them to its own sums and stores the blocks. Parts for others come first in a list, and the tile that is
//! divided is the first one of its list that takes as long as its part: so the partial sums are there when they are added,
//! and the producer loads the next tile meanwhile. The parts that are moved are a small share of both factors and are read
//! again.
//!
//! (Stream-K would divide the whole of the work into equal runs of K, one tile after the other. Every CTA would then be
//! at another place of K, and both factors would be read from HBM as often as there are tiles.)

use std::cmp::Reverse;

use bsr_codegen::SplitForm;

use super::{Clusters, Costs, Policy, assign};

/// The number of finish times that are tried, beginning with the one of a perfect division.
const FINISHES: u64 = 64;
/// The division must finish earlier by this part to be worth its memory traffic.
const LEAST_GAIN: f64 = 0.02;

/// Which part of the K of an output tile a work tile computes, and where the other partial sums are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// All of K.
    #[default]
    Whole,
    /// A part of K for another cluster. The partial sums go to this place in the workspace.
    Contributes {
        /// The place.
        place: u32,
    },
    /// A part of K, to which the partial sums of other clusters are added.
    Collects {
        /// How many places.
        parts: u32,
        /// The first of them.
        place: u32,
    },
}

impl Role {
    /// The two words that a kernel reads: how much of K it is, and the first place.
    pub(super) fn words(self) -> [u32; 2] {
        match self {
            Self::Whole => [0, 0],
            Self::Contributes { place } => [SplitForm::CONTRIBUTES, place],
            Self::Collects { parts, place } => [parts, place],
        }
    }
}

/// A work tile whose K can be divided.
pub trait Divisible: Clone {
    /// Units of its K.
    fn units(&self) -> u32;
    /// What units, and what goes with them, cost.
    fn costs(&self) -> Costs;
    /// How much of K it is.
    fn role(&self) -> Role;
    /// The units from `first` on.
    fn part(&self, first: u32, units: u32, role: Role) -> Self;

    /// What the work tile costs.
    fn cost(&self) -> u64 {
        let costs = self.costs();
        let more = match self.role() {
            Role::Whole => 0,
            Role::Contributes { .. } => costs.contribute,
            Role::Collects { parts, .. } => costs.collect * u64::from(parts),
        };
        costs.whole(self.units()) + more
    }
}

fn load<T: Divisible>(list: &[T]) -> u64 {
    list.iter().map(T::cost).sum()
}

/// A part of the K of one of a CTA's tiles that another CTA computes.
#[derive(Clone, Copy, Debug)]
struct KPart {
    from: usize,
    /// Which tile of the list.
    tile: usize,
    to: usize,
    first: u32,
    units: u32,
}

/// Moves parts of K from late CTAs to early ones, and returns the lists and the number of places of the workspace that
/// this takes. CTAs without tiles are left out. CTAs that compute a part for another one come first, and compute these
/// parts first. So no CTA waits for one of a higher number, and the launch ends even if not all CTAs run at the same
/// time.
pub fn split<T: Divisible>(mut lists: Vec<Vec<T>>) -> (Vec<Vec<T>>, u32) {
    let loads: Vec<u64> = lists.iter().map(|list| load(list)).collect();
    let (total, latest) = (loads.iter().sum::<u64>(), loads.iter().copied().max().unwrap_or(0));
    let earliest = total / loads.len().max(1) as u64;
    let unit = lists.iter().flatten().map(|tile| tile.costs().unit).max().unwrap_or(1);
    let step = (unit / 2).max((latest - earliest) / FINISHES).max(1);
    let worth = (latest as f64 * (1.0 - LEAST_GAIN)) as u64;
    let mut finishes = (earliest..=worth).step_by(usize::try_from(step).unwrap_or(usize::MAX));
    let places = match finishes.find_map(|finish| parts(&lists, &loads, finish)) {
        Some(parts) => move_parts(&mut lists, &parts),
        None => 0,
    };
    lists.retain(|list| !list.is_empty());
    // The sort is stable: the other CTAs stay in order.
    lists.sort_by_key(|list| !matches!(list[0].role(), Role::Contributes { .. }));
    (lists, places)
}

/// The parts to move so that every CTA has finished at `finish`, if that is possible.
fn parts<T: Divisible>(lists: &[Vec<T>], loads: &[u64], finish: u64) -> Option<Vec<KPart>> {
    let mut cuts = vec![];
    for (from, (list, load)) in lists.iter().zip(loads).enumerate().filter(|(_, (_, load))| **load > finish) {
        let (tile, units) = divided_tile(list, load - finish)?;
        cuts.push((KPart { from, tile, to: from, first: list[tile].units() - units, units }, list[tile].costs()));
    }
    // The largest part goes to the CTA that is free first, and so has most time.
    cuts.sort_by_key(|&(part, costs): &(KPart, Costs)| Reverse(u64::from(part.units) * costs.unit));
    let early = loads.iter().enumerate().filter(|(_, load)| **load <= finish);
    let mut early: Clusters = early.map(|(cta, load)| (cta, *load)).collect();
    let mut parts = vec![];
    for (mut cut, costs) in cuts {
        while cut.units > 0 {
            let (to, busy) = early.pop()?;
            let overhead = costs.tile + costs.contribute;
            let fits = ((finish - busy).saturating_sub(overhead) / costs.unit).min(u64::from(u32::MAX)) as u32;
            if cut.units > fits {
                // One more part is to be read from the workspace, so that more units must be moved.
                let more = (costs.collect.div_ceil(costs.unit) as u32).min(cut.first - 1);
                (cut.first, cut.units) = (cut.first - more, cut.units + more);
            }
            let units = if cut.units <= fits { cut.units } else { fits.min(cut.units.saturating_sub(costs.least)) };
            if units < costs.least {
                return None;
            }
            cut.units -= units;
            parts.push(KPart { to, first: cut.first + cut.units, units, ..cut });
            early.push(to, busy + u64::from(units) * costs.unit + overhead);
        }
    }
    Some(parts)
}

/// The tile to divide where a list is `late`, and how many of its units to move: the first tile that takes, with those
/// before it, as long as the part that another CTA begins with; else the last one.
fn divided_tile<T: Divisible>(list: &[T], late: u64) -> Option<(usize, u32)> {
    let mut before = 0;
    let mut last = None;
    for (number, tile) in list.iter().enumerate() {
        let costs = tile.costs();
        let units = u32::try_from((late + costs.collect).div_ceil(costs.unit)).ok()?.max(costs.least);
        if units < tile.units() {
            let (kept, moved) = (u64::from(tile.units() - units) * costs.unit, u64::from(units) * costs.unit);
            if before + kept >= moved + costs.contribute {
                return Some((number, units));
            }
            last = Some((number, units));
        }
        before += tile.cost();
    }
    last
}

/// Moves the parts to the fronts of their CTAs' lists. The parts of one tile get consecutive places in the workspace.
fn move_parts<T: Divisible>(lists: &mut [Vec<T>], parts: &[KPart]) -> u32 {
    for (place, part) in (0..).zip(parts) {
        let tile = &mut lists[part.from][part.tile];
        let role = match tile.role() {
            Role::Collects { parts, place } => Role::Collects { parts: parts + 1, place },
            _ => Role::Collects { parts: 1, place },
        };
        let whole = tile.clone();
        // Parts are taken from the end of K: what stays begins at 0.
        *tile = whole.part(0, whole.units() - part.units, role);
        let contributed = whole.part(part.first, part.units, Role::Contributes { place });
        lists[part.to].insert(0, contributed);
    }
    parts.len() as u32
}

/// A tile in `parts` parts of about the same length, as far as it has units: the one that collects, and those of other clusters,
/// which have the places of the workspace from `place` on.
pub(super) fn in_parts<T: Divisible>(tile: &T, parts: u32, place: u32) -> (T, Vec<T>) {
    let units = tile.units();
    let parts = parts.min(units).max(1);
    let bound = |part: u32| (u64::from(units) * u64::from(part) / u64::from(parts)) as u32;
    let role = if parts > 1 { Role::Collects { parts: parts - 1, place } } else { Role::Whole };
    let other = |part: u32| {
        let role = Role::Contributes { place: place + part - 1 };
        tile.part(bound(part), bound(part + 1) - bound(part), role)
    };
    (tile.part(0, bound(1), role), (1..parts).map(other).collect())
}

/// Divides every tile into `parts` parts of about the same length, as far as it has units, and assigns them to
/// `clusters` lists; the number of places of the workspace comes with them.
///
/// The first lists have only parts for others, the last ones only what collects them, so that no cluster waits for one
/// of a higher number. A single list has the parts first.
pub(super) fn divide<T: Divisible>(tiles: impl Iterator<Item = T>, parts: u32, clusters: usize) -> (Vec<Vec<T>>, u32) {
    let (mut contributed, mut collected, mut places) = (vec![], vec![], 0);
    for tile in tiles {
        let (own, others) = in_parts(&tile, parts, places);
        places += others.len() as u32;
        collected.push(own);
        contributed.extend(others);
    }
    if clusters == 1 {
        contributed.extend(collected);
        return (vec![contributed], places);
    }
    // As many clusters for either as their shares of the work are, and at least one for each that there is.
    let (first, all) = (load(&contributed), load(&contributed) + load(&collected));
    let share = (clusters as u64 * first).checked_div(all).unwrap_or(0) as usize;
    let share = share.clamp(usize::from(places > 0), clusters - 1);
    let mut lists = assign(contributed, Policy::InOrder, T::cost, share);
    lists.extend(assign(collected, Policy::InOrder, T::cost, clusters - share));
    lists.retain(|list| !list.is_empty());
    (lists, places)
}
