//! The lists of work: every block of every head once, in tiles that the CTAs share evenly.

use std::collections::BTreeSet;

use bsr_codegen::{AttentionTiles, Plan};
use bsr_runtime::attention::{AttentionWork, Mask, Shape};
use proptest::prelude::*;

fn tiles(bm: u32, bk: u32) -> AttentionTiles {
    let text = format!("bm = {bm}, bn = 64, bk = {bk}, op = attention");
    Plan::new(&text.parse().unwrap()).unwrap().attention_tiles().unwrap()
}

/// Every (problem, head, row of 64 queries, step, partial) that the lists hold.
fn computed(tiles: &AttentionTiles, work: &AttentionWork) -> Vec<(u32, u32, u32, u32, bool)> {
    let mut all = vec![];
    for tile in work.tiles.chunks(8) {
        let steps = &work.steps[tile[4] as usize..(tile[4] + tile[5]) as usize];
        for consumer in 0..2 {
            let own: Vec<u32> =
                steps.iter().copied().filter(|word| word & AttentionTiles::STORED << consumer != 0).collect();
            assert_eq!(own.len() as u32, tile[6 + consumer as usize]);
            let row = tile[0] / 64 + consumer;
            let partial = |word: u32| word & AttentionTiles::PARTIAL << consumer != 0;
            all.extend(own.iter().map(|word| (tile[2], tile[1], row, word & AttentionTiles::NUMBER, partial(*word))));
        }
        // A consumer holds V of its last step while it looks for its next one: there is never more than one between.
        for consumer in 0..2 {
            let stored: Vec<usize> =
                (0..steps.len()).filter(|at| steps[*at] & AttentionTiles::STORED << consumer != 0).collect();
            assert!(stored.first().is_none_or(|first| *first <= 1), "{stored:?}");
            assert!(stored.windows(2).all(|pair| pair[1] - pair[0] <= 2), "{stored:?}");
        }
    }
    assert_eq!(tiles.tile_words, 8);
    all
}

proptest! {
    #[test]
    fn every_stored_block_is_computed_once(
        (bm, bk) in prop_oneof![Just((64, 64)), Just((128, 128)), Just((192, 96)), Just((128, 64)), Just((64, 256))],
        queries in 1..700_usize,
        keys in 1..700_usize,
        density in 0.0..1.0_f64,
        ctas in 1..9_u32,
    ) {
        let tiles = tiles(bm, bk);
        let mask = Mask::random((queries, keys), (bm as usize, bk as usize), density, 3).unwrap();
        let shape = Shape { batch: 2, heads: 4, key_heads: 2, queries, keys, columns: 64 };
        let work = AttentionWork::new(&tiles, &shape, &mask, ctas).unwrap();
        let found = computed(&tiles, &work);
        let mut expected = BTreeSet::new();
        for (problem, head) in (0..2).flat_map(|problem| (0..4).map(move |head| (problem, head))) {
            for row in 0..queries.div_ceil(64) {
                for (column, partial) in mask.lists()[0].row(row * 64 / bm as usize) {
                    let first = column * (bk / tiles.step);
                    for step in first..first + bk / tiles.step {
                        let end = (step + 1) as usize * tiles.step as usize;
                        if end < keys + tiles.step as usize {
                            expected.insert((problem, head, row as u32, step, partial));
                        }
                    }
                }
            }
        }
        // Rows beyond the last query are computed with a row of blocks that has others, and not stored.
        let beyond = |row: u32| row as usize * 64 >= queries;
        let unique: BTreeSet<_> = found.iter().copied().filter(|(_, _, row, ..)| !beyond(*row)).collect();
        prop_assert_eq!(found.iter().filter(|(_, _, row, ..)| !beyond(*row)).count(), unique.len());
        prop_assert_eq!(unique, expected);
        let total = work.tiles.len() / 8;
        prop_assert_eq!(total, 8 * queries.div_ceil(128));
        prop_assert_eq!((work.heads[0], work.heads.last().copied()), (0, Some(total as u32)));
        prop_assert!(work.heads.windows(2).all(|pair| pair[0] < pair[1]) && work.ctas() <= ctas);
    }
}

#[test]
fn long_tiles_come_first_and_the_sum_is_even() {
    let tiles = tiles(128, 128);
    let mask = Mask::lower_triangle((128 * 64, 128 * 64), (128, 128)).unwrap();
    let shape = Shape { batch: 1, heads: 8, key_heads: 8, queries: 128 * 64, keys: 128 * 64, columns: 64 };
    let work = AttentionWork::new(&tiles, &shape, &mask, 132).unwrap();
    let of_cta = |cta: usize| {
        let range = work.heads[cta] as usize..work.heads[cta + 1] as usize;
        range.map(|tile| work.tiles[8 * tile + 5]).sum::<u32>()
    };
    let loads: Vec<u32> = (0..132).map(of_cta).collect();
    let (least, most) = (loads.iter().min().unwrap(), loads.iter().max().unwrap());
    assert!(most - least <= 3, "{least} .. {most}");
}
