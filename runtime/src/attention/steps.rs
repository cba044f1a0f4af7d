//! The steps of one work tile: which keys, and which consumers compute them.

use std::collections::BTreeMap;

use bsr_codegen::AttentionTiles;

use super::Mask;

/// Consumers of the widest kernel.
const MOST_CONSUMERS: usize = 3;

/// The steps that each consumer computes.
pub(super) type Counts = [u32; MOST_CONSUMERS];

/// The steps of a tile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TileSteps {
    /// The words of each step.
    pub(super) words: Vec<u32>,
    pub(super) counts: Counts,
}

/// Runs of keys that the same consumers store: their numbers, and the consumers that compute scores in them.
type Runs = Vec<(u32, u32)>;

/// The steps of the tile of one pattern that begins with query `row`.
///
/// Runs are grouped by the consumers that store them, so that all runs of a step are of the same. The next step is one of
/// the consumer that has waited longest, and of the most others: a consumer holds V of its last step while it looks for its
/// next one, and never meets more than two steps of others between (one, if there are two consumers).
pub(super) fn of_tile(tiles: &AttentionTiles, mask: &Mask, pattern: usize, row: usize) -> TileSteps {
    let beyond = (mask.sizes().1 as u32).div_ceil(tiles.run());
    let mut open: Vec<(u32, std::vec::IntoIter<Vec<u32>>)> = groups(tiles, mask, pattern, row)
        .into_iter()
        .map(|(stored, runs)| (stored, steps_of(stored, &runs, tiles.blocks as usize, beyond).into_iter()))
        .collect();
    let mut of_tile = TileSteps::default();
    let mut waited = [0_u32; MOST_CONSUMERS];
    loop {
        open.retain(|(_, steps)| !steps.as_slice().is_empty());
        let longest = |stored: u32| consumers(stored).map(|consumer| waited[consumer]).max().unwrap_or(0);
        let next = open.iter_mut().max_by_key(|(stored, _)| (longest(*stored), stored.count_ones(), u32::MAX - stored));
        let Some((stored, words)) = next.and_then(|(stored, steps)| Some((*stored, steps.next()?))) else {
            return of_tile;
        };
        of_tile.words.extend(words);
        for (consumer, waited) in waited.iter_mut().enumerate() {
            let computes = stored >> consumer & 1;
            of_tile.counts[consumer] += computes;
            *waited = if computes == 1 { 0 } else { *waited + 1 };
        }
    }
}

fn consumers(stored: u32) -> impl Iterator<Item = usize> {
    (0..MOST_CONSUMERS).filter(move |consumer| stored >> consumer & 1 == 1)
}

/// The words of every step of runs that the same consumers store. Where the last one has no second run, it is one beyond the
/// last key, of which TMA makes zeros.
fn steps_of(stored: u32, runs: &Runs, blocks: usize, beyond: u32) -> Vec<Vec<u32>> {
    let word = |(number, partial): &(u32, u32)| {
        number | (stored * AttentionTiles::STORED) | (partial * AttentionTiles::PARTIAL)
    };
    let step = |runs: &[(u32, u32)]| {
        let mut words: Vec<u32> = runs.iter().map(word).collect();
        words.resize(blocks, beyond);
        words
    };
    runs.chunks(blocks).map(step).collect()
}

/// The runs of a tile, by the consumers that store them.
fn groups(tiles: &AttentionTiles, mask: &Mask, pattern: usize, row: usize) -> BTreeMap<u32, Runs> {
    let share = (tiles.rows / tiles.consumers) as usize;
    let mut of_run: BTreeMap<u32, [u32; 2]> = BTreeMap::new();
    for consumer in 0..tiles.consumers as usize {
        // Queries of a consumer that lie beyond the last one are computed with those of the row of blocks, if there are any.
        let query = if tiles.uniform { row } else { row + consumer * share };
        if query >= mask.sizes().0 {
            continue;
        }
        for (number, partial) in runs_of_row(tiles, mask, pattern, query / mask.block().0) {
            let [stored, scored] = of_run.entry(number).or_default();
            *stored |= 1 << consumer;
            *scored |= u32::from(partial) << consumer;
        }
    }
    let mut groups: BTreeMap<u32, Runs> = BTreeMap::new();
    for (number, [stored, scored]) in of_run {
        groups.entry(stored).or_default().push((number, scored));
    }
    groups
}

/// The runs of a row of blocks, and whether scores are computed in them. Those beyond the last key are left out.
fn runs_of_row(tiles: &AttentionTiles, mask: &Mask, pattern: usize, row: usize) -> impl Iterator<Item = (u32, bool)> {
    let run = tiles.run() as usize;
    let runs = tiles.block.1 as usize / run;
    let keys = mask.sizes().1;
    mask.lists()[pattern].row(row).flat_map(move |(column, partial)| {
        let first = column as usize * runs;
        (first..first + runs).filter(move |number| number * run < keys).map(move |number| (number as u32, partial))
    })
}
