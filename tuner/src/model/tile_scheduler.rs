//! How long the busiest SM works: waves of tiles, their spread, the longest of them.

use bsr_codegen::{KernelKind, Op, Plan, Profile, Schedule, SplitK};

use super::Card;
use super::tiles::{Tiles, View};

/// What the tile scheduler makes of the tiles.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scheduled {
    /// Microseconds of the busiest SM.
    pub(super) us: f64,
    /// CTAs that run at a time.
    pub(super) places: f64,
}

/// Row lengths even out over a dynamic queue of tiles where their spread, over so many tiles, is this part of a tile.
const EVEN: f64 = 0.5;

/// Microseconds that it takes to pass on the sums of a part of a tile: two trips to L2 and a flag (`benches/LOG.md`, 29).
const EXCHANGE_US: f64 = 2.0;

/// Standard deviations that the longest of the sums of rows which `schedule = strided` makes is beyond the mean. In FP8 at a
/// density of 0.125 it was 0.2 of them, in f16 at 0.25 2 (`benches/LOG.md`, 14 and 2).
const STRIDED: f64 = 0.8;

pub(super) fn schedule(
    plan: &Plan,
    profile: &Profile,
    view: &View,
    tiles: &Tiles,
    tile_us: f64,
    card: &Card,
) -> Scheduled {
    let places = places(profile, card);
    let count = tiles.count();
    if count <= 0.0 || view.along <= 0.0 {
        return Scheduled { us: 0.0, places };
    }
    // Tiles that share an SM take turns.
    let tile_us = tile_us * f64::from(profile.resident);
    let each = count / places;
    let (each, tile_us, places) = match plan.spec().split {
        SplitK::Off => (each, tile_us, places),
        // Every CTA has as much to do, and some of them a part of another one's tile.
        SplitK::Auto => {
            let us = each * tile_us + EXCHANGE_US;
            return Scheduled { us, places: places / f64::from(profile.resident) };
        }
        SplitK::Parts(parts) => {
            let parts = f64::from(parts);
            (each * parts, tile_us / parts + EXCHANGE_US, places)
        }
    };
    let longest = tile_us * tiles.longest;
    if profile.kind == KernelKind::Atomic {
        let us = each.max(1.0) * tile_us;
        return Scheduled { us, places: places / f64::from(profile.resident) };
    }
    let strided = plan.spec().schedule == Some(Schedule::Strided) && plan.spec().op != Op::Sdd;
    let waves = each.ceil() * tile_us;
    let us = if strided {
        // Scheduled in turn, some have a tile more than others, whatever the tiles are.
        waves * (1.0 + STRIDED * tiles.spread / each.max(1.0).sqrt())
    } else {
        let uneven = tiles.spread * each.sqrt();
        let whole = (1.0 - uneven / EVEN).clamp(0.0, 1.0);
        whole * waves + (1.0 - whole) * each * tile_us
    };
    let us = us.max(longest);
    Scheduled { us, places: places / f64::from(profile.resident) }
}

/// CTAs that run at a time. GPCs have different numbers of SMs, so that larger clusters leave some of them idle: an H200 has
/// room for 66 clusters of two and 30 of four.
fn places(profile: &Profile, card: &Card) -> f64 {
    let sms = card.sms as f64;
    let usable = match profile.cluster {
        0..=2 => 1.0,
        3..=4 => 120.0 / 132.0,
        _ => 112.0 / 132.0,
    };
    (sms * usable / f64::from(profile.cluster)).floor().max(1.0)
        * f64::from(profile.cluster)
        * f64::from(profile.resident.max(1))
}
