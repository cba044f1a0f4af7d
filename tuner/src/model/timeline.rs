//! When every cluster has done its list: the first stage, tile after tile, parts of K that wait for each other, the last wave.

use bsr_runtime::schedule::Role;

use super::Card;
use super::deal::{Lists, Part};
use super::rates::{Rates, Setting, Share, TileTime};
use super::tiles::{Tile, Tiles};

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
    let cluster = f64::from(setting.profile.cluster.max(1));
    let share = Share::new((lists.count() as f64 * cluster).max(1.0), setting.card, rates);
    let times: Vec<TileTime> = tiles.column.iter().map(|tile| rates.tile(setting, tile, &share)).collect();
    let exchange = partial_bytes / cluster / rates.partial;
    let clock = Clock { rates, tiles, times: &times, exchange, last: 0.0 };
    let one_after_the_other = |durations: &mut dyn Iterator<Item = f64>| {
        let mut now = rates.first_stage();
        durations
            .map(|us| {
                let from = now;
                now += us;
                [from, now]
            })
            .collect()
    };
    match lists {
        Lists::Whole(lists) => {
            let of = |list: &Vec<u32>| one_after_the_other(&mut list.iter().map(|tile| times[*tile as usize].us()));
            lists.iter().map(of).collect()
        }
        Lists::Parts { of, .. } => {
            of.iter().map(|list| one_after_the_other(&mut list.iter().map(|part| clock.part(part)))).collect()
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
    let share = Share::new(active, setting.card, rates);
    let times: Vec<TileTime> = tiles.column.iter().map(|tile| rates.tile(setting, tile, &share)).collect();
    let exchange = partial_bytes / cluster / rates.partial;
    let clock = Clock { rates, tiles, times: &times, exchange, last: rates.last_store(setting, &share) };
    let mut ends = clock.ends(lists);
    ends.sort_by(f64::total_cmp);
    let us = eased(rates, setting, tiles, &ends, cluster);
    let sum = |of: &dyn Fn(&TileTime) -> f64| {
        times.iter().map(of).sum::<f64>() * tiles.columns as f64 * cluster / places.max(active)
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
    times: &'c [TileTime],
    /// Microseconds in which partial sums are written, or read.
    exchange: f64,
    /// The store of the last tile.
    last: f64,
}

impl Clock<'_> {
    /// When every cluster has done, if all of them ran from the first microsecond to the last.
    fn ends(&self, lists: &Lists) -> Vec<f64> {
        let first = self.rates.first_stage();
        let (lists, places) = match lists {
            Lists::Parts { of, places } => (of, *places),
            Lists::Whole(lists) => {
                let us: Vec<f64> = self.times.iter().map(TileTime::us).collect();
                let end = |list: &Vec<u32>| list.iter().map(|tile| us[*tile as usize]).sum::<f64>() + first + self.last;
                return lists.iter().map(end).collect();
            }
        };
        let mut arrived = vec![0.0_f64; places as usize];
        // Parts for others stand at the fronts of lists and wait for nothing.
        for list in lists {
            let mut now = first;
            for part in list {
                let Role::Contributes { place } = part.role else { break };
                now += self.part(part);
                if let Some(arrived) = arrived.get_mut(place as usize) {
                    *arrived = now;
                }
            }
        }
        lists.iter().map(|list| self.end(list, first, &arrived)).collect()
    }

    fn end(&self, list: &[Part], first: f64, arrived: &[f64]) -> f64 {
        let (mut now, mut last) = (first, 0.0);
        for part in list {
            now += self.part(part);
            last = self.last;
            match part.role {
                Role::Whole => {}
                Role::Contributes { .. } => last = 0.0,
                Role::Collects { parts, place } => {
                    let others = arrived.iter().skip(place as usize).take(parts as usize);
                    now = others.fold(now, |now, arrived| now.max(*arrived) + self.exchange);
                    now += self.rates.exchange;
                }
            }
        }
        now + last
    }

    fn part(&self, part: &Part) -> f64 {
        let time = &self.times[part.tile as usize];
        match part.role {
            Role::Whole => time.us(),
            Role::Contributes { .. } => self.fraction(part) * time.stages() + self.rates.part + self.exchange,
            Role::Collects { .. } => self.fraction(part) * time.stages() + time.ends,
        }
    }

    fn fraction(&self, part: &Part) -> f64 {
        let all = self.tiles.column[part.tile as usize].units.max(1);
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
        stages: sum(&|tile| tile.stages),
        blocks: sum(&|tile| tile.blocks),
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
