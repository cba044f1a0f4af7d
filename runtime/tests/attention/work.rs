//! The lists of work: every block of every head once, in tiles that the CTAs share evenly.

use std::collections::BTreeSet;

use bsr_codegen::{AttentionTiles, Plan};
use bsr_runtime::attention::{AttentionWork, Mask, Shape};
use proptest::prelude::*;

fn tiles(bm: u32, bk: u32, keys: &str) -> AttentionTiles {
    let text = format!("bm = {bm}, bn = 64, bk = {bk}, op = attention{keys}");
    Plan::new(&text.parse().unwrap()).unwrap().attention_tiles().unwrap()
}

/// Every (problem, head, row of 64 queries, run of keys, partial) that the lists hold.
fn computed(tiles: &AttentionTiles, work: &AttentionWork, keys: usize) -> Vec<(u32, u32, u32, u32, bool)> {
    let mut all = vec![];
    for tile in work.tiles.chunks(tiles.tile_words as usize) {
        let blocks = tiles.blocks as usize;
        let steps: Vec<&[u32]> =
            work.steps[tile[4] as usize * blocks..(tile[4] + tile[5]) as usize * blocks].chunks(blocks).collect();
        for consumer in 0..tiles.consumers {
            let stores = |word: u32| word & AttentionTiles::STORED << consumer != 0;
            let own: Vec<usize> = (0..steps.len()).filter(|at| stores(steps[*at][0])).collect();
            assert_eq!(own.len() as u32, tile[6 + consumer as usize]);
            // A consumer holds V of its last step while it looks for its next one: few are between.
            let most = tiles.consumers as usize;
            assert!(own.first().is_none_or(|first| *first < most), "{own:?}");
            assert!(own.windows(2).all(|pair| pair[1] - pair[0] <= most), "{own:?}");
            for word in own.iter().flat_map(|at| steps[*at].iter().copied()) {
                let number = word & AttentionTiles::NUMBER;
                if stores(word) {
                    let partial = word & AttentionTiles::PARTIAL << consumer != 0;
                    all.push((tile[2], tile[1], tile[0] / 64 + consumer, number, partial));
                } else {
                    assert!((number * tiles.run()) as usize >= keys, "a run that nobody stores is beyond the keys");
                }
            }
        }
    }
    all
}

/// Makes sure that every place gets sums once and is read once, later, and by a CTA that waits for none of a higher number;
/// tells how many tiles are stored.
fn stored(tiles: &AttentionTiles, work: &AttentionWork) -> usize {
    let words = tiles.tile_words as usize;
    if tiles.split.is_none() {
        assert_eq!(work.places, 0);
        return work.tiles.len() / words;
    }
    let mut given = vec![false; work.places as usize];
    let mut read = given.clone();
    let mut stored = 0;
    for tile in work.tiles.chunks(words) {
        let [parts, place, to, _] = *tile.last_chunk().unwrap();
        assert!(tile[5] > 0 || (parts, to) == (0, AttentionTiles::WHOLE), "a part without keys: {tile:?}");
        for place in place..place + parts {
            assert!(given[place as usize] && !std::mem::replace(&mut read[place as usize], true), "{tile:?}");
        }
        match to {
            AttentionTiles::WHOLE => stored += 1,
            place => assert!(!std::mem::replace(&mut given[place as usize], true), "{tile:?}"),
        }
    }
    assert!(read.into_iter().all(|read| read));
    stored
}

proptest! {
    #[test]
    fn every_stored_block_is_computed_once(
        (bm, bk) in prop_oneof![Just((64, 64)), Just((128, 128)), Just((192, 96)), Just((128, 64)), Just((64, 256))],
        chosen in prop_oneof![Just(""), Just(", consumers = 2"), Just(", k_step = 32")],
        queries in 1..700_usize,
        keys in 1..700_usize,
        density in 0.0..1.0_f64,
        ctas in 1..9_u32,
        split in prop_oneof![Just(""), Just(", split = auto"), Just(", split = 2"), Just(", split = 7"), Just(", split = 16")],
    ) {
        let tiles = tiles(bm, bk, &format!("{chosen}{split}"));
        let mask = Mask::random((queries, keys), (bm as usize, bk as usize), density, 3).unwrap();
        let shape = Shape { batch: 2, heads: 4, key_heads: 2, queries, keys, columns: 64 };
        let work = AttentionWork::new(&tiles, &shape, &mask, ctas).unwrap();
        let found = computed(&tiles, &work, keys);
        let mut expected = BTreeSet::new();
        for (problem, head) in (0..2).flat_map(|problem| (0..4).map(move |head| (problem, head))) {
            for row in 0..queries.div_ceil(64) {
                for (column, partial) in mask.lists()[0].row(row * 64 / bm as usize) {
                    let first = column * (bk / tiles.run());
                    for run in (first..first + bk / tiles.run()).filter(|run| ((run * tiles.run()) as usize) < keys) {
                        expected.insert((problem, head, row as u32, run, partial));
                    }
                }
            }
        }
        // Rows beyond the last query are computed with a row of blocks that has others, and not stored.
        let beyond = |row: u32| row as usize * 64 >= queries;
        let unique: BTreeSet<_> = found.iter().copied().filter(|(_, _, row, ..)| !beyond(*row)).collect();
        prop_assert_eq!(found.iter().filter(|(_, _, row, ..)| !beyond(*row)).count(), unique.len());
        prop_assert_eq!(unique, expected);
        let total = work.tiles.len() / tiles.tile_words as usize;
        prop_assert_eq!(stored(&tiles, &work), 8 * queries.div_ceil(tiles.rows as usize));
        prop_assert_eq!((work.heads[0], work.heads.last().copied()), (0, Some(total as u32)));
        prop_assert!(work.heads.windows(2).all(|pair| pair[0] < pair[1]) && work.ctas() <= ctas);
    }
}

#[test]
fn long_tiles_come_first_and_the_sum_is_even() {
    let tiles = tiles(128, 128, ", consumers = 2");
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

/// The steps of the busiest CTA, and of all.
fn loads(tiles: &AttentionTiles, work: &AttentionWork) -> (u32, u32) {
    let words = tiles.tile_words as usize;
    let of_cta = |ends: &[u32]| (ends[0]..ends[1]).map(|tile| work.tiles[words * tile as usize + 5]).sum::<u32>();
    let loads: Vec<u32> = work.heads.windows(2).map(of_cta).collect();
    (loads.iter().max().copied().unwrap(), loads.iter().sum())
}

#[test]
fn few_long_rows_fill_the_card() {
    let tiles = tiles(64, 128, ", split = auto");
    for (shape, most) in [
        // One query of 8 key heads, and of one; 2 heads of a triangle; 140 tiles on 132 CTAs.
        (Shape { batch: 1, heads: 8, key_heads: 8, queries: 1, keys: 65536, columns: 64 }, 1.15),
        (Shape { batch: 1, heads: 1, key_heads: 1, queries: 16, keys: 65536, columns: 64 }, 2.1),
        (Shape { batch: 1, heads: 2, key_heads: 2, queries: 4096, keys: 4096, columns: 64 }, 1.7),
        (Shape { batch: 5, heads: 28, key_heads: 28, queries: 1, keys: 8192, columns: 64 }, 1.2),
    ] {
        let mask = Mask::causal(shape.queries, shape.keys, (64, 128)).unwrap();
        let mask = if shape.queries == shape.keys {
            mask
        } else {
            Mask::full((shape.queries, shape.keys), (64, 128)).unwrap()
        };
        let work = AttentionWork::new(&tiles, &shape, &mask, 132).unwrap();
        let (busiest, all) = loads(&tiles, &work);
        stored(&tiles, &work);
        assert!(f64::from(busiest) < most * f64::from(all) / 132.0 + 1.0, "{shape:?}: {busiest} of {all}");
    }
}

#[test]
fn what_is_even_is_not_divided() {
    let tiles = tiles(128, 128, ", split = auto");
    let mask = Mask::full((4096, 4096), (128, 128)).unwrap();
    let shape = Shape { batch: 4, heads: 33, key_heads: 33, queries: 4096, keys: 4096, columns: 64 };
    assert_eq!(AttentionWork::new(&tiles, &shape, &mask, 132).unwrap().places, 0);
}
