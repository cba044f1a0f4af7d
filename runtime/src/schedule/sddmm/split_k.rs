//! Split-K for the last tiles: a CTA that would finish late leaves the end of its last tile's K to CTAs that would
//! finish early.
//!
//! The other CTA computes the partial sums of that part of K and writes them to the workspace. The CTA that has the
//! tile adds them to its own sums and stores the blocks. All CTAs that have tiles begin K at 0 and stop at about the
//! same place, so that concurrent tiles still find each other's rows and columns in L2. The parts that are moved are a
//! small share of both factors and are read again.
//!
//! (Stream-K would divide the whole of the work into equal runs of K, one tile after the other. Every CTA would then be
//! at another place of K, and both factors would be read from HBM as often as there are tiles.)

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::{Role, SddmmWorkTile};

/// The cost of a stage with all column groups and with half of them. The instruction of half the width multiplies a
/// little slower for its size.
const FULL: u64 = 20;
const HALF: u64 = 11;
/// Stages that a tile costs in addition to its own, because the pipeline is not full between two tiles.
const TILE: u64 = 1;
/// The same for partial sums that are written to the workspace, and for each part that is read from there.
const CONTRIBUTE: u64 = 2;
const COLLECT: u64 = 3;
/// The smallest number of stages that is worth a part of its own.
const LEAST: u32 = 4;
/// The number of finish times that are tried, beginning with the one of a perfect division.
const TRIES: u64 = 64;
/// The division must finish this much earlier to be worth its memory traffic.
const WORTH: f64 = 0.02;

fn stage(tile: &SddmmWorkTile) -> u64 {
    if tile.half { HALF } else { FULL }
}

/// The cost of a work tile.
pub(super) fn cost(tile: &SddmmWorkTile) -> u64 {
    let more = match tile.role {
        Role::Whole => TILE,
        Role::Contributes { .. } => TILE + CONTRIBUTE,
        Role::Collects { parts, .. } => TILE + COLLECT * u64::from(parts),
    };
    (u64::from(tile.stages) + more) * stage(tile)
}

fn load(list: &[SddmmWorkTile]) -> u64 {
    list.iter().map(cost).sum()
}

/// A part of the K of a CTA's last tile that another CTA computes.
#[derive(Clone, Copy, Debug)]
struct KPart {
    from: usize,
    to: usize,
    first: u32,
    stages: u32,
}

/// Moves parts of K from late CTAs to early ones, and returns the lists and the number of places of the workspace that
/// this takes. CTAs without tiles are left out. CTAs that compute a part for another one come first, and compute these
/// parts first. So no CTA waits for one of a higher number, and the launch ends even if not all CTAs run at the same
/// time.
pub(super) fn split(mut lists: Vec<Vec<SddmmWorkTile>>) -> (Vec<Vec<SddmmWorkTile>>, u32) {
    let loads: Vec<u64> = lists.iter().map(|list| load(list)).collect();
    let (total, latest) = (loads.iter().sum::<u64>(), loads.iter().copied().max().unwrap_or(0));
    let earliest = total / loads.len().max(1) as u64;
    let step = (FULL / 2).max((latest - earliest) / TRIES);
    let worth = (latest as f64 * (1.0 - WORTH)) as u64;
    let mut finishes = (earliest..=worth).step_by(usize::try_from(step).unwrap_or(usize::MAX));
    let places = match finishes.find_map(|finish| parts(&lists, &loads, finish)) {
        Some(parts) => move_parts(&mut lists, &parts),
        None => 0,
    };
    lists.retain(|list| !list.is_empty());
    // The sort is stable: the other CTAs stay in order.
    lists.sort_by_key(|list| !matches!(list[0].role, Role::Contributes { .. }));
    (lists, places)
}

/// The parts to move so that every CTA has finished at `finish`, if that is possible.
fn parts(lists: &[Vec<SddmmWorkTile>], loads: &[u64], finish: u64) -> Option<Vec<KPart>> {
    let mut cuts = vec![];
    for (from, (list, load)) in lists.iter().zip(loads).enumerate().filter(|(_, (_, load))| **load > finish) {
        let tile = list.last()?;
        let stages = (load + COLLECT * stage(tile) - finish).div_ceil(stage(tile));
        let stages = u32::try_from(stages).ok()?.max(LEAST);
        if stages >= tile.stages {
            return None;
        }
        cuts.push((KPart { from, to: from, first: tile.stages - stages, stages }, stage(tile)));
    }
    // The largest part goes to the CTA that has most time.
    cuts.sort_by_key(|&(part, unit): &(KPart, u64)| Reverse(u64::from(part.stages) * unit));
    let free = loads.iter().enumerate().filter(|(_, load)| **load <= finish).map(|(cta, load)| (finish - load, cta));
    let mut early: BinaryHeap<(u64, Reverse<usize>)> = free.map(|(time, cta)| (time, Reverse(cta))).collect();
    let mut parts = vec![];
    for (mut cut, unit) in cuts {
        while cut.stages > 0 {
            let (time, to) = early.pop()?;
            let fits = (time / unit).saturating_sub(TILE + CONTRIBUTE).min(u64::from(u32::MAX)) as u32;
            if cut.stages > fits {
                // One more part is to be read from the workspace, so that more stages must be moved.
                let more = (COLLECT as u32).min(cut.first - 1);
                (cut.first, cut.stages) = (cut.first - more, cut.stages + more);
            }
            let stages = if cut.stages <= fits { cut.stages } else { fits.min(cut.stages - LEAST) };
            if stages < LEAST {
                return None;
            }
            cut.stages -= stages;
            parts.push(KPart { to: to.0, first: cut.first + cut.stages, stages, ..cut });
            early.push((time - (u64::from(stages) + TILE + CONTRIBUTE) * unit, to));
        }
    }
    Some(parts)
}

/// Moves the parts to the fronts of their CTAs' lists. The parts of one tile get consecutive places in the workspace.
fn move_parts(lists: &mut [Vec<SddmmWorkTile>], parts: &[KPart]) -> u32 {
    for (place, part) in (0..).zip(parts) {
        let Some(tile) = lists[part.from].last_mut() else { continue };
        tile.role = match tile.role {
            Role::Collects { parts, place } => Role::Collects { parts: parts + 1, place },
            _ => Role::Collects { parts: 1, place },
        };
        tile.stages -= part.stages;
        let role = Role::Contributes { place };
        let part_tile = SddmmWorkTile { first: part.first, stages: part.stages, role, ..tile.clone() };
        lists[part.to].insert(0, part_tile);
    }
    parts.len() as u32
}
