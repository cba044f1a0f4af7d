//! Tiles whose keys several CTAs share.
//!
//! A part of a tile's keys leaves its sums in a place of the workspace. The CTA that has the first part adds the others in
//! the order of their places, and stores O. Of more than four parts the first of each group collects its group, and the
//! first part of all collects these, so that no CTA adds many parts one after the other. The order is that of the list,
//! and the result is the same, bit by bit, in every launch.
//!
//! No CTA waits for one of a higher number, and within a CTA what others wait for comes first. So a launch ends even if
//! not all of its CTAs run at the same time.

use bsr_codegen::{AttentionTiles, SplitK};

use super::work::{Steps, Tile, longest_first};
use crate::schedule::Clusters;

/// The most parts of a tile: a thread of the collecting consumer waits for each.
const MOST_PARTS: u32 = 64;
/// Parts that one CTA collects alone.
const FLAT: u32 = 4;
/// Keys of the smallest part that `auto` makes.
const LEAST_KEYS: u64 = 256;
/// Tiles are divided where a launch then takes less than this part of its time.
const MOST_OF_UNDIVIDED: f64 = 0.97;
/// Parts of an equal share that `auto` tries as the length of a part, in sixteenths. A little more than a share makes one
/// part for every CTA of what a share would divide into two waves.
const LENGTHS: [u64; 11] = [24, 20, 18, 17, 16, 12, 8, 6, 4, 2, 1];
/// What a part costs beside its steps, and what it costs to pass sums on or to collect them, beside their elements, in keys;
/// elements that count as a key. One query against 65536 keys of 8 heads took 73 us on an H200 in 16 parts a head, one a
/// CTA, and 126 us in 64.
const PART_KEYS: u64 = 256;
const EXCHANGE_KEYS: u64 = 16;
const ELEMENTS_A_KEY: u64 = 512;
/// Halvings of the interval in which the end of a launch is sought.
const HALVINGS: usize = 10;

/// Which part of a tile's keys a work tile computes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Role {
    /// Parts to collect, and the first of their places.
    pub(super) collects: (u32, u32),
    /// The place that its sums go to; none of a tile that is stored in O.
    pub(super) to: Option<u32>,
}

impl Role {
    /// The words that a kernel reads.
    pub(super) fn words(self) -> [u32; 4] {
        [self.collects.0, self.collects.1, self.to.unwrap_or(AttentionTiles::WHOLE), 0]
    }
}

/// Tiles for each CTA, and places of the workspace.
pub(super) struct Divided {
    pub(super) lists: Vec<Vec<Tile>>,
    pub(super) places: u32,
}

/// Divides tiles; `None` where it is not worth it.
pub(super) fn divide(
    tiles: &AttentionTiles,
    parts: SplitK,
    groups: &[Vec<Tile>],
    steps: &[u32],
    ctas: u32,
) -> Option<Divided> {
    let all: Vec<Tile> = groups.iter().flatten().copied().collect();
    let ctas = ctas.max(1) as usize;
    match parts {
        SplitK::Off => None,
        SplitK::Parts(count) => {
            let cut = Cut::new(tiles, steps, &all, |_| count);
            (cut.places > 0).then(|| cut.assigned(tiles, ctas).1)
        }
        SplitK::Auto | SplitK::Long => {
            let share = all.iter().map(|tile| tile.cost(tiles)).sum::<u64>().div_ceil(ctas as u64).max(1);
            let mut idle = Clusters::idle(ctas);
            idle.assign(longest_first(all.clone(), tiles), |tile| tile.cost(tiles));
            let undivided = idle.times().into_iter().max().unwrap_or(0);
            let end = |factor: f64| (undivided as f64 * factor) as u64;
            if share >= end(MOST_OF_UNDIVIDED) {
                return None;
            }
            let candidates = LENGTHS.map(|sixteenths| {
                let length = (share * sixteenths / 16).max(LEAST_KEYS) as u32;
                let keys = |tile: &Tile| tile.steps.total * tiles.step;
                let cut = Cut::new(tiles, steps, &all, |tile| keys(tile).div_ceil(length).min(MOST_PARTS));
                cut.assigned(tiles, ctas)
            });
            let best = candidates.into_iter().min_by_key(|(end, _)| *end)?;
            (best.0 < end(MOST_OF_UNDIVIDED) && best.1.places > 0).then_some(best.1)
        }
    }
}

/// Tiles in parts: those that contribute alone, those that collect for others, those that collect and are stored, and those
/// that are whole.
#[derive(Default)]
struct Cut {
    /// With the numbers of their parts.
    leaves: Vec<(u32, Tile)>,
    collectors: Vec<Tile>,
    roots: Vec<Tile>,
    wholes: Vec<Tile>,
    places: u32,
}

impl Cut {
    fn new(tiles: &AttentionTiles, steps: &[u32], all: &[Tile], parts: impl Fn(&Tile) -> u32) -> Self {
        let mut cut = Self::default();
        for tile in all {
            match parts(tile).min(tile.steps.total) {
                0 | 1 => cut.wholes.push(*tile),
                parts => cut.add(tiles, steps, tile, parts),
            }
        }
        cut
    }

    fn add(&mut self, tiles: &AttentionTiles, steps: &[u32], tile: &Tile, parts: u32) {
        let bound = |part: u32| (u64::from(tile.steps.total) * u64::from(part) / u64::from(parts)) as u32;
        let part = |number: u32, role: Role| Tile {
            steps: part_of(tiles, steps, tile.steps, bound(number)..bound(number + 1)),
            role,
            ..*tile
        };
        let group = if parts <= FLAT { parts } else { parts.isqrt() + u32::from(parts.isqrt().pow(2) < parts) };
        let places = self.places;
        let mut next = places + group.min(parts) - 1 + parts.div_ceil(group) - 1;
        for leader in (0..parts).step_by(group as usize) {
            let size = group.min(parts - leader);
            // The first part of all has consecutive places for its group and for the other groups.
            let (first, to) = match leader {
                0 => (places, None),
                _ => (next, Some(places + group - 1 + leader / group - 1)),
            };
            let collects = match leader {
                0 => (size - 1 + parts.div_ceil(group) - 1, first),
                _ => (size - 1, first),
            };
            next += if leader == 0 { 0 } else { size - 1 };
            let role = Role { collects, to };
            match (leader, collects.0) {
                (0, _) => self.roots.push(part(0, role)),
                (_, 0) => self.leaves.push((leader, part(leader, role))),
                _ => self.collectors.push(part(leader, role)),
            }
            for number in 1..size {
                let role = Role { collects: (0, 0), to: Some(first + number - 1) };
                self.leaves.push((leader + number, part(leader + number, role)));
            }
        }
        self.places = next;
    }

    /// When the last CTA ends, and the lists. What is passed on comes first, what waits for it later; tiles that are whole go
    /// to the CTAs that have least to do.
    ///
    /// All second parts come before all third ones, and where each of these runs begins a CTA of its own, the parts of a tile
    /// have the same place in the lists of their CTAs, and end at about the same time by these costs.
    fn assigned(mut self, tiles: &AttentionTiles, ctas: usize) -> (u64, Divided) {
        self.leaves.sort_by_key(|(part, _)| *part);
        // Many short runs would leave many CTAs half empty.
        let is_flat = self.leaves.iter().all(|(part, _)| *part < FLAT);
        let of = |run: u32, tiles: &[Tile]| tiles.iter().map(|tile| (run, *tile)).collect::<Vec<_>>();
        let runs = [self.leaves, of(u32::MAX - 1, &self.collectors), of(u32::MAX, &self.roots)].concat();
        // Whether a part begins a run.
        let begins: Vec<bool> = (0..runs.len()).map(|at| is_flat && at > 0 && runs[at].0 != runs[at - 1].0).collect();
        let parts: Vec<Tile> = runs.into_iter().map(|(_, tile)| tile).collect();
        let costs: Vec<u64> = parts.iter().map(|tile| part_cost(tiles, tile)).collect();
        let wholes = longest_first(self.wholes, tiles);
        let each = || costs.iter().copied().chain(wholes.iter().map(|tile| tile.cost(tiles)));
        let (total, longest) = (each().sum::<u64>(), each().max().unwrap_or(0));
        let (mut least, mut most) = (longest.max(total / ctas as u64), total);
        // The wholes of every CTA, whose parts are in these bins, and when the last CTA ends.
        let with_wholes = |bins: &[usize]| {
            let mut free = loads(&costs, bins, ctas);
            let lists = free.assign(wholes.iter().copied(), |tile| tile.cost(tiles));
            (lists, free.times().into_iter().max().unwrap_or(0))
        };
        let fits = |most: u64, begins: &[bool]| {
            let bins = filled(&costs, begins, most, ctas)?;
            (with_wholes(&bins).1 <= most).then_some(bins)
        };
        for _ in 0..HALVINGS {
            let middle = least.midpoint(most);
            match fits(middle, &begins) {
                Some(_) => most = middle,
                None => least = middle,
            }
        }
        let bins = fits(most, &begins).or_else(|| fits(total, &vec![false; parts.len()]));
        let bins = bins.unwrap_or_else(|| vec![0; parts.len()]);
        let mut lists = vec![vec![]; ctas];
        let roots = parts.len() - self.roots.len();
        bins[..roots].iter().zip(&parts).for_each(|(bin, tile)| lists[*bin].push(*tile));
        lists.iter_mut().zip(with_wholes(&bins).0).for_each(|(list, wholes)| list.extend(wholes));
        bins[roots..].iter().zip(&parts[roots..]).for_each(|(bin, tile)| lists[*bin].push(*tile));
        (last_end(tiles, &lists, self.places), Divided { lists, places: self.places })
    }
}

/// When the last CTA ends, in keys. A CTA waits for parts of CTAs of lower numbers, or for earlier ones of its own.
fn last_end(tiles: &AttentionTiles, lists: &[Vec<Tile>], places: u32) -> u64 {
    let mut passed_on = vec![0; places as usize];
    let mut last = 0;
    for list in lists {
        let mut now = 0;
        for tile in list {
            let Role { collects: (count, first), to } = tile.role;
            let divided = count > 0 || to.is_some();
            now += if divided { part_cost(tiles, tile) } else { tile.cost(tiles) };
            let sources = &passed_on[first as usize..][..count as usize];
            now = sources.iter().copied().max().unwrap_or(0).max(now);
            if let Some(place) = to {
                passed_on[place as usize] = now;
            }
        }
        last = last.max(now);
    }
    last
}

/// A range of a tile's steps.
fn part_of(tiles: &AttentionTiles, words: &[u32], steps: Steps, range: std::ops::Range<u32>) -> Steps {
    let (first, total) = (steps.first + range.start, range.len() as u32);
    // The first word of a step says who computes it.
    let blocks = tiles.step_words() as usize;
    let own = words[first as usize * blocks..(first + total) as usize * blocks].iter().step_by(blocks);
    let count = |at: u32| own.clone().filter(|word| *word & AttentionTiles::STORED << at != 0).count() as u32;
    Steps { first, total, counts: std::array::from_fn(|at| count(at as u32)) }
}

/// What a part costs, in keys.
fn part_cost(tiles: &AttentionTiles, tile: &Tile) -> u64 {
    let exchange = EXCHANGE_KEYS + u64::from(tile.rows) * u64::from(tiles.columns) / ELEMENTS_A_KEY;
    tile.cost(tiles) + PART_KEYS + exchange * (u64::from(tile.role.collects.0) + u64::from(tile.role.to.is_some()))
}

/// Consecutive parts for each CTA, none with more than `most`: the CTA of every part, if there are enough. A part that begins
/// a run begins a CTA.
fn filled(costs: &[u64], begins: &[bool], most: u64, ctas: usize) -> Option<Vec<usize>> {
    let (mut cta, mut load) = (0, 0);
    let mut bins = vec![];
    for (cost, begins) in costs.iter().zip(begins) {
        if load > 0 && (*begins || load + cost > most) {
            (cta, load) = (cta + 1, 0);
        }
        load += cost;
        bins.push(cta);
    }
    (cta < ctas).then_some(bins)
}

/// When each CTA has done its parts.
fn loads(costs: &[u64], bins: &[usize], ctas: usize) -> Clusters {
    let mut loads = vec![0; ctas];
    bins.iter().zip(costs).for_each(|(bin, cost)| loads[*bin] += cost);
    loads.into_iter().enumerate().collect()
}
