//! Page tables, checked and listed on the simulator: the work is that of the specification, word by word, and a wrong problem has no
//! keys.

use bsr_codegen::lists::specification::by_length;
use bsr_codegen::lists::{LengthLists, LengthRequest, WrongPages};
use bsr_codegen::{AttentionTiles, Plan};
use bsr_runtime::attention::{ListedPages, PageShape, Shape};
use bsr_runtime::simulated::lists::ListKernels;
use proptest::prelude::*;

fn tiles(keys: &str) -> AttentionTiles {
    let text = format!("op = attention, bm = 64, bn = 64, bk = 128, {keys}");
    Plan::new(&text.parse().unwrap()).unwrap().attention_tiles().unwrap()
}

/// A table of pages in order, and its sizes.
fn pages(lengths: &[i32], page: usize) -> (PageShape, Vec<i32>) {
    let width = (*lengths.iter().max().unwrap() as usize).div_ceil(page).max(1);
    let shape = PageShape { batch: lengths.len(), width, pages: lengths.len() * width, page };
    (shape, (0..shape.pages as i32).collect())
}

fn listed(
    tiles: &AttentionTiles,
    shape: &Shape,
    lengths: &[i32],
    (pages, table): (&PageShape, &[i32]),
    ctas: u32,
) -> ListedPages {
    let kernels = ListKernels::own().unwrap();
    let listed = ListedPages::new(&kernels, tiles, shape, (pages, table, lengths), ctas).unwrap();
    assert!(listed.findings.is_empty(), "{:#?}", listed.findings);
    listed
}

fn specified(
    tiles: &AttentionTiles,
    shape: &Shape,
    lengths: &[u32],
    pages: &PageShape,
    ctas: u32,
) -> (LengthLists, Vec<u32>, Vec<u32>) {
    let [batch, heads, key_heads, queries, width, pages] =
        [shape.batch, shape.heads, shape.key_heads, shape.queries, pages.width, pages.pages].map(|size| size as u32);
    let lists =
        LengthLists::new(&LengthRequest { tiles: *tiles, batch, heads, key_heads, queries, width, pages, ctas })
            .unwrap();
    let (starts, work) = by_length(&lists, lengths);
    (lists, starts, work)
}

fn shape_of(pages: &PageShape, [heads, key_heads, queries]: [usize; 3]) -> Shape {
    Shape { batch: pages.batch, heads, key_heads, queries, keys: pages.keys(), columns: 64 }
}

/// Every step of every tile is computed once, each place is written and read once, and no CTA waits for a later one.
fn sound(tiles: &AttentionTiles, lengths: &[u32], (heads, work): (&[u32], &[u32]), of: [usize; 3]) {
    let [heads_of_q, _, queries] = of;
    let words = tiles.tile_words as usize;
    let mut steps = std::collections::BTreeMap::<[u32; 3], Vec<(u32, u32)>>::new();
    let (mut written, mut read) = (vec![], vec![]);
    for (cta, bounds) in heads.windows(2).enumerate() {
        for (order, at) in (bounds[0]..bounds[1]).enumerate() {
            let tile = &work[at as usize * words..][..words];
            assert!(tile[5] > 0 && tile[tiles.length_word()] == lengths[tile[2] as usize]);
            steps.entry([tile[2], tile[1], tile[0]]).or_default().push((tile[4], tile[5]));
            if tiles.split.is_some() {
                let [count, first, to, _] = tile[words - 4..] else { unreachable!() };
                read.extend((first..first + count).map(|place| (place, cta, order)));
                if to != AttentionTiles::WHOLE {
                    written.push((to, cta, order));
                }
            }
        }
    }
    let rows = queries.div_ceil(tiles.rows as usize);
    assert_eq!(steps.len(), lengths.len() * heads_of_q / tiles.heads() as usize * rows);
    for (place, parts) in &mut steps {
        parts.sort_unstable();
        let total = lengths[place[0] as usize].div_ceil(tiles.step).max(1);
        let end = parts.iter().try_fold(0, |at, (from, count)| (*from == at).then_some(at + count));
        assert_eq!(end, Some(total), "{place:?}: {parts:?}");
        assert!(tiles.split.is_some() || parts.len() == 1);
    }
    written.sort_unstable();
    read.sort_unstable();
    assert_eq!(written.len(), read.len());
    for (writes, reads) in written.iter().zip(&read) {
        assert!(writes.0 == reads.0 && writes.0 < heads.len() as u32 - 1, "{writes:?} {reads:?}");
        assert!((writes.1, writes.2) < (reads.1, reads.2), "{writes:?} is read by {reads:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_work_is_that_of_the_specification(
        lengths in prop::collection::vec(prop_oneof![Just(0), 1..300_i32, 1..5000_i32], 1..70),
        page in prop_oneof![Just(16_usize), Just(64), Just(256)],
        ctas in 1..140_u32,
        (group, key_heads) in (prop_oneof![Just(1_usize), Just(4), Just(8)], 1..4_usize),
        queries in prop_oneof![Just(1_usize), 2..17_usize, 60..400_usize],
        (split, packed, consumers) in (any::<bool>(), any::<bool>(), 2..=3_u32),
    ) {
        let mut keys = format!("page = {page}, consumers = {consumers}");
        keys += if split { ", split = auto" } else { "" };
        keys += if packed && group > 1 { ", pack_heads = 4" } else { "" };
        let tiles = tiles(&keys);
        let (pages, table) = pages(&lengths, page);
        let shape = shape_of(&pages, [group * key_heads, key_heads, queries]);
        let found = listed(&tiles, &shape, &lengths, (&pages, &table), ctas);
        let given: Vec<u32> = lengths.iter().map(|length| length.cast_unsigned()).collect();
        prop_assert_eq!((&found.lengths, found.wrong), (&given, None));
        let (lists, heads, work) = specified(&tiles, &shape, &given, &pages, ctas);
        prop_assert!(work.len() <= lists.work_words());
        sound(&tiles, &given, (&heads, &work), [group * key_heads, key_heads, queries]);
        prop_assert_eq!((found.work.heads, found.work.tiles), (heads, work));
    }
}

#[test]
fn shares_differ_by_one_step() {
    let (tiles, lengths) = (tiles("page = 64, pack_heads = 4, split = auto"), [40_000, 3000, 17, 0, 9000]);
    let (pages, _) = pages(&lengths, 64);
    let shape = shape_of(&pages, [32, 8, 1]);
    let given = lengths.map(|length: i32| length.cast_unsigned());
    let (_, heads, work) = specified(&tiles, &shape, &given, &pages, 132);
    let words = tiles.tile_words as usize;
    let share = |bounds: &[u32]| (bounds[0]..bounds[1]).map(|at| work[at as usize * words + 5]).sum::<u32>();
    let shares: Vec<u32> = heads.windows(2).map(share).collect();
    assert!(shares.iter().max().unwrap() - shares.iter().min().unwrap() <= 1, "{shares:?}");
    let adds = work.chunks(words).map(|tile| tile[words - 4]).max().unwrap();
    assert!((2..=8).contains(&adds), "{adds} parts are added one after the other");
}

#[test]
fn wrong_problems_have_no_keys() {
    let (tiles, page) = (tiles("page = 16, split = auto"), 16);
    let right = [100, 33, 0, 48];
    let (pages, table) = pages(&right, page);
    let shape = shape_of(&pages, [2, 1, 1]);
    let most = pages.keys() as i32;
    let last = pages.pages as i32 - 1;
    // The problem, what is wrong in the table at an entry of it, or its length, and what is reported.
    let cases = [
        (0, Some((6, last + 1)), 100, Some((0, WrongPages::Page, last + 1))),
        (1, Some((0, -1)), 33, Some((1, WrongPages::Page, -1))),
        (1, Some((2, i32::MIN)), 33, Some((1, WrongPages::Page, i32::MIN))),
        (3, None, -5, Some((3, WrongPages::Length, -5))),
        (2, None, most + 1, Some((2, WrongPages::Length, most + 1))),
        // What no key is in may be anything.
        (1, Some((3, 1 << 30)), 33, None),
        (3, Some((3, -9)), 48, None),
        (3, None, most, None),
    ];
    for (problem, entry, length, wrong) in cases {
        let (mut table, mut lengths) = (table.clone(), right);
        lengths[problem] = length;
        if let Some((entry, value)) = entry {
            table[problem * pages.width + entry] = value;
        }
        let found = listed(&tiles, &shape, &lengths, (&pages, &table), 5);
        assert_eq!(found.wrong, wrong.map(|(problem, kind, value)| (problem as u32, kind, value)));
        let mut expected = lengths.map(|length| length.cast_unsigned());
        if wrong.is_some() {
            expected[problem] = 0;
        }
        assert_eq!(found.lengths, expected);
        let (_, heads, work) = specified(&tiles, &shape, &expected, &pages, 5);
        assert_eq!((found.work.heads, found.work.tiles), (heads, work));
    }
}
