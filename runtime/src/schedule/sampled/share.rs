//! Levelling: CTAs that would finish late hand the end of their last tile's K to those that would finish early.
//!
//! The tail of K is computed by another CTA, whose sums go through the workspace; the CTA that has the tile adds them to
//! its own and stores the blocks. All of the former begin K at 0 and stop at about the same place, so that they still
//! find each other's rows and columns in L2, and the tails are a small part of both factors, read again and again.
//! (Dividing the whole of the work into equal runs of K, tile after tile, would have every CTA at another place of K,
//! and both factors read from HBM as often as there are tiles.)

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::{Item, Role};

/// A stage of all slots and of half of them: the instruction of half the width multiplies a little slower.
const FULL: u64 = 20;
const HALF: u64 = 11;
/// Stages that a tile costs beside its own: the pipeline between two tiles is never quite full.
const TILE: u64 = 1;
/// The same for sums that go to the workspace, and for each part that is collected from there.
const CONTRIBUTE: u64 = 2;
const COLLECT: u64 = 3;
/// Fewest stages that are worth a part of their own.
const LEAST: u32 = 4;
/// Finishes that are tried, from the one that a perfect division would have on.
const TRIES: u64 = 64;
/// Sharing must finish this much earlier to be worth the traffic.
const WORTH: f64 = 0.02;

fn stage(item: &Item) -> u64 {
    if item.half { HALF } else { FULL }
}

/// What an item costs.
pub(super) fn cost(item: &Item) -> u64 {
    let more = match item.role {
        Role::Whole => TILE,
        Role::Contributes { .. } => TILE + CONTRIBUTE,
        Role::Collects { parts, .. } => TILE + COLLECT * u64::from(parts),
    };
    (u64::from(item.stages) + more) * stage(item)
}

fn load(list: &[Item]) -> u64 {
    list.iter().map(cost).sum()
}

/// A part of the K of a CTA's last item that another one computes.
#[derive(Clone, Copy, Debug)]
struct Part {
    from: usize,
    to: usize,
    first: u32,
    stages: u32,
}

/// Shares late CTAs' work with early ones, and tells how many places of the workspace that takes. CTAs without items are
/// left out. Those that contribute come first, and with their parts: nobody waits for a CTA of a higher number, so that
/// the launch ends even if not all of them run at once.
pub(super) fn share(mut lists: Vec<Vec<Item>>) -> (Vec<Vec<Item>>, u32) {
    let loads: Vec<u64> = lists.iter().map(|list| load(list)).collect();
    let (total, latest) = (loads.iter().sum::<u64>(), loads.iter().copied().max().unwrap_or(0));
    let earliest = total / loads.len().max(1) as u64;
    let step = (FULL / 2).max((latest - earliest) / TRIES);
    let worth = (latest as f64 * (1.0 - WORTH)) as u64;
    let mut finishes = (earliest..=worth).step_by(usize::try_from(step).unwrap_or(usize::MAX));
    let places = match finishes.find_map(|finish| parts(&lists, &loads, finish)) {
        Some(parts) => hand_over(&mut lists, &parts),
        None => 0,
    };
    lists.retain(|list| !list.is_empty());
    // Stable: CTAs that have no part in it stay in order.
    lists.sort_by_key(|list| !matches!(list[0].role, Role::Contributes { .. }));
    (lists, places)
}

/// The parts to hand over so that everybody is done at `finish`, if there are such.
fn parts(lists: &[Vec<Item>], loads: &[u64], finish: u64) -> Option<Vec<Part>> {
    let mut cuts = vec![];
    for (from, (list, load)) in lists.iter().zip(loads).enumerate().filter(|(_, (_, load))| **load > finish) {
        let item = list.last()?;
        let stages = (load + COLLECT * stage(item) - finish).div_ceil(stage(item));
        let stages = u32::try_from(stages).ok()?.max(LEAST);
        if stages >= item.stages {
            return None;
        }
        cuts.push((Part { from, to: from, first: item.stages - stages, stages }, stage(item)));
    }
    // The largest cut goes to whoever has most time.
    cuts.sort_by_key(|&(part, unit): &(Part, u64)| Reverse(u64::from(part.stages) * unit));
    let free = loads.iter().enumerate().filter(|(_, load)| **load <= finish).map(|(cta, load)| (finish - load, cta));
    let mut helpers: BinaryHeap<(u64, Reverse<usize>)> = free.map(|(time, cta)| (time, Reverse(cta))).collect();
    let mut parts = vec![];
    for (mut cut, unit) in cuts {
        while cut.stages > 0 {
            let (time, to) = helpers.pop()?;
            let room = (time / unit).saturating_sub(TILE + CONTRIBUTE).min(u64::from(u32::MAX)) as u32;
            if cut.stages > room {
                // One part more is to be collected, so that more must be handed over.
                let more = (COLLECT as u32).min(cut.first - 1);
                (cut.first, cut.stages) = (cut.first - more, cut.stages + more);
            }
            let stages = if cut.stages <= room { cut.stages } else { room.min(cut.stages - LEAST) };
            if stages < LEAST {
                return None;
            }
            cut.stages -= stages;
            parts.push(Part { to: to.0, first: cut.first + cut.stages, stages, ..cut });
            helpers.push((time - (u64::from(stages) + TILE + CONTRIBUTE) * unit, to));
        }
    }
    Some(parts)
}

/// Moves the parts to their CTAs' fronts; those of one tile have neighbouring places.
fn hand_over(lists: &mut [Vec<Item>], parts: &[Part]) -> u32 {
    for (place, part) in (0..).zip(parts) {
        let Some(item) = lists[part.from].last_mut() else { continue };
        item.role = match item.role {
            Role::Collects { parts, place } => Role::Collects { parts: parts + 1, place },
            _ => Role::Collects { parts: 1, place },
        };
        item.stages -= part.stages;
        let role = Role::Contributes { place };
        let handed = Item { first: part.first, stages: part.stages, role, ..item.clone() };
        lists[part.to].insert(0, handed);
    }
    parts.len() as u32
}
