//! When every cluster has done its list: the first stage, tile after tile, parts of K that wait for each other, the last wave.

use bsr_runtime::schedule::{Place, Role};

use super::assign::{Lists, Part};
use super::card::Card;
use super::rates::Rates;
use super::tile::Tile;
use super::tile_time::{Setting, Share, TileTime};
use super::tiles::Tiles;

/// What becomes of the lists.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Timeline {
    /// Microseconds until the last cluster has done.
    pub(super) us: f64,
    /// The same if all work were spread evenly over the clusters that fit.
    pub(super) even: f64,
    /// Of that, what a tile's parts take.
    pub(super) tensor: f64,
    pub(super) l2: f64,
    pub(super) barriers: f64,
    pub(super) latency: f64,
    pub(super) ends: f64,
}

/// From when to when every cluster computes each of its tiles, or parts of them, in microseconds.
pub(super) fn spans(
    rates: &Rates,
    setting: &Setting<'_>,
    (tiles, lists): (&Tiles, &Lists),
    partial_bytes: f64,
) -> Vec<Vec<[f64; 2]>> {
    let clock = Clock::new(rates, setting, (tiles, lists), partial_bytes);
    match lists {
        Lists::Whole(lists) => {
            let of = |list: &Vec<Place>| {
                let mut now = rates.start;
                let mut span = |at: &Place| {
                    let from = now;
                    now += clock.times[at.row as usize].us();
                    [from, now]
                };
                list.iter().map(&mut span).collect()
            };
            lists.iter().map(of).collect()
        }
        Lists::Parts { of, places } => {
            let mut arrived = vec![0.0; *places as usize];
            let mut spans = |list: &Vec<Part>| {
                let mut at = Progress::new(rates.start);
                let mut span = |part: &Part| {
                    let from = at.now;
                    clock.follow(&mut at, part, &mut arrived);
                    [from, at.now]
                };
                list.iter().map(&mut span).collect()
            };
            of.iter().map(&mut spans).collect()
        }
    }
}

/// Follows all lists, on a card that `places` CTAs fit.
pub(super) fn follow(
    rates: &Rates,
    setting: &Setting<'_>,
    (tiles, lists): (&Tiles, &Lists),
    partial_bytes: f64,
    places: f64,
) -> Timeline {
    let cluster = f64::from(setting.profile.cluster.max(1));
    let active = (lists.count() as f64 * cluster).max(1.0);
    let clock = Clock::new(rates, setting, (tiles, lists), partial_bytes);
    let mut ends = clock.ends(lists);
    ends.sort_by(f64::total_cmp);
    let us = eased(rates, setting, tiles, &ends, cluster);
    let sum = |of: &dyn Fn(&TileTime) -> f64| {
        clock.times.iter().map(of).sum::<f64>() * tiles.columns as f64 * cluster / places.max(active)
    };
    Timeline {
        us,
        even: sum(&TileTime::us),
        tensor: sum(&|time| time.tensor),
        l2: sum(&|time| time.l2),
        barriers: sum(&|time| time.barriers),
        latency: sum(&|time| time.latency),
        ends: sum(&|time| time.ends),
    }
}

/// What the items of lists take.
struct Clock<'c> {
    rates: &'c Rates,
    tiles: &'c Tiles,
    times: Vec<TileTime>,
    /// Microseconds in which partial sums are written, or read.
    exchange: f64,
    /// The store of the last tile.
    last: f64,
    /// Stages of the ring buffer.
    ring: f64,
}

/// How far a list is.
struct Progress {
    now: f64,
    /// For how long before nothing was multiplied, since sums were exchanged.
    gap: f64,
}

impl Progress {
    fn new(now: f64) -> Self {
        Self { now, gap: 0.0 }
    }
}

impl<'c> Clock<'c> {
    fn new(rates: &'c Rates, setting: &Setting<'_>, (tiles, lists): (&'c Tiles, &Lists), partial_bytes: f64) -> Self {
        let cluster = f64::from(setting.profile.cluster.max(1));
        let share = Share::new((lists.count() as f64 * cluster).max(1.0), setting.card, rates);
        Self {
            rates,
            tiles,
            times: tiles.column.iter().map(|tile| rates.tile(setting, tile, &share)).collect(),
            exchange: partial_bytes / cluster / rates.partial,
            last: rates.last_store(setting, &share),
            ring: f64::from(setting.profile.stages),
        }
    }

    /// When every cluster has done, if all of them ran from the first microsecond to the last.
    fn ends(&self, lists: &Lists) -> Vec<f64> {
        match lists {
            Lists::Whole(lists) => {
                let us: Vec<f64> = self.times.iter().map(TileTime::us).collect();
                let of = |list: &Vec<Place>| list.iter().map(|at| us[at.row as usize]).sum::<f64>();
                lists.iter().map(|list| self.rates.start + of(list) + self.last).collect()
            }
            Lists::Parts { of, places } => {
                let mut arrived = vec![0.0; *places as usize];
                of.iter().map(|list| self.end(list, &mut arrived)).collect()
            }
        }
    }

    fn end(&self, list: &[Part], arrived: &mut [f64]) -> f64 {
        let mut at = Progress::new(self.rates.start);
        list.iter().for_each(|part| self.follow(&mut at, part, arrived));
        let stores = list.last().is_some_and(|part| !matches!(part.role, Role::Contributes { .. }));
        at.now + if stores { self.last } else { 0.0 }
    }

    /// What comes next in a list, and when the sums of parts are in their places. They come from lists before this one, or from
    /// earlier in it.
    fn follow(&self, at: &mut Progress, part: &Part, arrived: &mut [f64]) {
        let (time, tile) = (&self.times[part.place.row as usize], self.tiles.at(part.place));
        let stages = self.fraction(part) * time.stages();
        // While sums were exchanged loads went on, as far as the ring buffer holds them: what is left of these stages is to
        // multiply.
        let ring = self.ring * time.stages() / tile.stages.max(1.0);
        let waits = (1.0 - time.tensor / time.stages().max(1e-9)).max(0.0);
        at.now += stages - at.gap.min(ring).min(stages) * waits;
        let multiplied = at.now;
        match part.role {
            Role::Whole => at.now += time.ends,
            Role::Contributes { place } => {
                at.now += self.rates.part + self.exchange;
                arrived.iter_mut().skip(place as usize).take(1).for_each(|arrived| *arrived = at.now);
            }
            Role::Collects { parts, place } => {
                let others = arrived.iter().skip(place as usize).take(parts as usize);
                let collect = self.rates.collect + self.exchange;
                at.now = others.fold(at.now, |now, arrived| now.max(*arrived) + collect);
                at.now += self.rates.exchange + time.ends;
            }
        }
        at.gap = if part.role == Role::Whole { 0.0 } else { at.now - multiplied };
    }

    fn fraction(&self, part: &Part) -> f64 {
        let all = self.tiles.at(part.place).units.max(1);
        f64::from(part.units.min(all)) / f64::from(all)
    }
}

/// When the last cluster has done, given when each would be done if none ever ended: those that are left have more of L2, of
/// device memory and of an SM.
fn eased(rates: &Rates, setting: &Setting<'_>, tiles: &Tiles, ends: &[f64], cluster: f64) -> f64 {
    let Some(first) = ends.first() else { return 0.0 };
    let mean = mean(&tiles.column);
    let us =
        |clusters: usize| rates.tile(setting, &mean, &Share::new(clusters as f64 * cluster, setting.card, rates)).us();
    let all = us(ends.len());
    let mut now = *first;
    let mut before = *first;
    for (done, end) in ends.iter().enumerate().skip(1) {
        let more = end - before;
        if more > 1e-3 {
            now += more * (us(ends.len() - done) / all).min(1.0);
            before = *end;
        }
    }
    now
}

/// The average tile.
fn mean(column: &[Tile]) -> Tile {
    let count = column.len().max(1) as f64;
    let sum = |of: &dyn Fn(&Tile) -> f64| column.iter().map(of).sum::<f64>() / count;
    Tile {
        flops: sum(&|tile| tile.flops),
        sparse: sum(&|tile| tile.sparse),
        dense: sum(&|tile| tile.dense),
        beyond: sum(&|tile| tile.beyond),
        stages: sum(&|tile| tile.stages),
        blocks: sum(&|tile| tile.blocks),
        lone: sum(&|tile| tile.lone),
        ..Tile::default()
    }
}

/// CTAs that run at a time. GPCs have different numbers of SMs, so that larger clusters leave some of them idle: an H200 has
/// room for 66 clusters of two and 30 of four.
pub(super) fn places(profile: &bsr_codegen::Profile, card: &Card) -> f64 {
    let sms = card.sms as f64;
    let usable = match profile.cluster {
        0..=2 => 1.0,
        3..=4 => 120.0 / 132.0,
        _ => 112.0 / 132.0,
    };
    let cluster = f64::from(profile.cluster.max(1));
    (sms * usable / cluster).floor().max(1.0) * cluster * f64::from(profile.resident.max(1))
}
