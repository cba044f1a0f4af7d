//! The lists of an attention, made on the simulator: the tiles and steps of the host's.

use std::collections::BTreeMap;

use bsr_codegen::lists::{AttentionLists, AttentionRequest, IndexWidth, ListKernel, PartialFlags};
use bsr_codegen::{AttentionTiles, Plan};
use bsr_runtime::attention::{AttentionWork, BlockList, Mask, Shape, Sharing};
use bsr_simulator::{BufferId, GlobalMemory};
use proptest::prelude::*;

use crate::simulate::{launch, upload, words};

fn tiles(bm: u32, bk: u32, keys: &str) -> AttentionTiles {
    let step = if bk > 128 { 128 } else { bk };
    let text = format!("bm = {bm}, bn = 64, bk = {bk}, op = attention, consumers = 2, k_step = {step}{keys}");
    Plan::new(&text.parse().unwrap()).unwrap().attention_tiles().unwrap()
}

#[test]
fn kernels_whose_steps_they_cannot_list_are_refused() {
    let of = |text: &str| Plan::new(&format!("op = attention, bn = 64, {text}").parse().unwrap()).unwrap();
    for (text, remedy) in
        [("bm = 128, bk = 128", "consumers = 2"), ("bm = 64, bk = 64, consumers = 2", "a k_step that divides bk")]
    {
        let request = AttentionRequest {
            tiles: of(text).attention_tiles().unwrap(),
            batch: 1,
            heads: 1,
            key_heads: 1,
            queries: 256,
            keys: 256,
            by: (false, false),
            capacity: 4,
            ctas: 1,
            together: 1,
        };
        let error = AttentionLists::new(&request).unwrap_err();
        assert_eq!((error.most < error.value, error.help), (true, remedy), "{error}");
    }
}

/// Heads, tiles and steps that the kernels list, and the first wrong row.
struct Listed {
    heads: Vec<u32>,
    tiles: Vec<u32>,
    steps: Vec<u32>,
    wrong: Option<u32>,
}

fn bytes(memory: &mut GlobalMemory, bytes: Vec<u8>) -> BufferId {
    if bytes.is_empty() { memory.alloc(16, 256) } else { memory.upload(bytes, 256) }
}

/// Row pointers, columns and flags of all patterns, which may be wrong.
struct Arrays {
    row_ptr: Vec<u32>,
    columns: Vec<u32>,
    partial: Vec<u8>,
    by_place: bool,
}

impl Arrays {
    fn of(mask: &Mask, by_place: bool) -> Self {
        let (mut row_ptr, mut columns, mut partial) = (vec![0], vec![], vec![]);
        for list in mask.lists() {
            row_ptr.extend(list.indptr[1..].iter().map(|end| columns.len() as u32 + end));
            columns.extend(&list.indices);
            partial.extend(list.partial.iter().map(|partial| u8::from(*partial)));
        }
        if by_place {
            let (_, block_columns) = mask.blocks();
            let mut bytes = vec![0; (row_ptr.len() - 1) * block_columns];
            for (row, ends) in row_ptr.windows(2).enumerate() {
                for at in ends[0] as usize..ends[1] as usize {
                    bytes[row * block_columns + columns[at] as usize] = 1 + partial[at];
                }
            }
            partial = bytes;
        }
        Self { row_ptr, columns, partial, by_place }
    }
}

/// Lists twice in the same memory: the second time is what a launch after a change finds.
fn list(tiles: &AttentionTiles, shape: &Shape, mask: &Mask, arrays: Arrays, ctas: u32) -> Listed {
    let [batch, heads, key_heads, queries, keys] =
        [shape.batch, shape.heads, shape.key_heads, shape.queries, shape.keys].map(|size| size as u32);
    let by = match mask.sharing() {
        Sharing::All => (false, false),
        Sharing::ByHead => (true, false),
        Sharing::ByProblem => (false, true),
        Sharing::ByBoth => (true, true),
    };
    let capacity = arrays.columns.len() as u32;
    let request =
        AttentionRequest { tiles: *tiles, batch, heads, key_heads, queries, keys, by, capacity, ctas, together: 2 };
    let lists = AttentionLists::new(&request).unwrap();
    let mut memory = GlobalMemory::new();
    let (block_rows, block_columns) = (arrays.row_ptr.len() as u32 - 1, mask.blocks().1 as u32);
    let row_ptr = upload(&mut memory, arrays.row_ptr);
    let col_idx = upload(&mut memory, arrays.columns);
    let partial = bytes(&mut memory, arrays.partial);
    let error = upload(&mut memory, [u32::MAX; 2]);
    let room = upload(&mut memory, [0; 2]);
    let mut alloc = |bytes: usize| memory.alloc(bytes.max(16), 256);
    let (rows, columns) = (alloc(8 * block_rows as usize), alloc(4 * capacity as usize));
    let values = alloc(8 * block_rows as usize);
    let steps = alloc(4 * lists.slots() as usize);
    let (records, step_rows) = (alloc(16 * lists.rows() as usize), alloc(8 * lists.rows() as usize));
    let (lengths, dealt) = (alloc(4 * lists.assign.head_words()), alloc(lists.assign.work_bytes()));
    let notes = alloc(4 * lists.assign.tiles() as usize);
    let (head, work) = (alloc(4 * (lists.ctas() as usize + 1)), alloc(lists.work_bytes()));
    let flags = if arrays.by_place { PartialFlags::ByPlace } else { PartialFlags::ByBlock };
    for _ in 0..2 {
        let check = ListKernel::Check(IndexWidth::I32);
        let pointers = [row_ptr, col_idx, rows, columns, error, values];
        launch(&mut memory, check, (check.grid(block_rows, 1), 0), &pointers, &[block_rows, block_columns, capacity]);
        let (by_steps, by_tiles) = (ListKernel::AttentionSteps, ListKernel::AttentionTiles);
        let grid = (by_steps.grid(lists.rows(), 1), lists.steps_shared_bytes());
        let pointers = [rows, columns, partial, room, steps, records, step_rows];
        launch(&mut memory, by_steps, grid, &pointers, &lists.steps_numbers(flags));
        let grid = (lists.assign.ctas(), lists.assign.shared_bytes());
        let pointers = [step_rows, steps, lengths, dealt, notes];
        launch(&mut memory, ListKernel::Assign, grid, &pointers, &lists.assign.numbers());
        let grid = (by_tiles.grid(1, lists.ctas()), 64);
        let pointers = [lengths, dealt, records, room, head, work];
        launch(&mut memory, by_tiles, grid, &pointers, &lists.tiles_numbers());
    }
    let error = words(&memory, error);
    Listed {
        heads: words(&memory, head)[..lists.ctas() as usize + 1].to_vec(),
        tiles: words(&memory, work),
        steps: words(&memory, steps),
        wrong: (error != [u32::MAX; 2]).then(|| error[1]),
    }
}

/// The words of every tile but its first step, and its steps, by problem, head and query.
type Tiles = BTreeMap<[u32; 3], (Vec<u32>, Vec<u32>)>;

fn by_place(words: usize, heads: &[u32], tiles: &[u32], steps: &[u32]) -> Tiles {
    assert_eq!(heads[0], 0);
    assert!(heads.windows(2).all(|pair| pair[0] < pair[1]), "{heads:?}");
    let count = heads.last().copied().unwrap() as usize;
    let of_tile = |tile: &[u32]| {
        let mut rest = tile.to_vec();
        rest[4] = 0;
        ([tile[2], tile[1], tile[0]], (rest, steps[tile[4] as usize..(tile[4] + tile[5]) as usize].to_vec()))
    };
    let found: Tiles = tiles.chunks(words).take(count).map(of_tile).collect();
    assert_eq!(found.len(), count);
    found
}

fn compare(tiles: &AttentionTiles, shape: &Shape, mask: &Mask, by_places: bool, ctas: u32) {
    let undivided = AttentionTiles { split: None, ..*tiles };
    let mut host = AttentionWork::new(&AttentionTiles { tile_words: 8, ..undivided }, shape, mask, ctas).unwrap();
    if tiles.tile_words == 12 {
        let part = [0, 0, AttentionTiles::WHOLE, 0];
        host.tiles = host.tiles.chunks(8).flat_map(|tile| [tile, &part].concat()).collect();
    }
    let listed = list(tiles, shape, mask, Arrays::of(mask, by_places), ctas);
    assert_eq!(listed.wrong, None);
    let words = tiles.tile_words as usize;
    let expected = by_place(words, &host.heads, &host.tiles, &host.steps);
    assert_eq!(by_place(words, &listed.heads, &listed.tiles, &listed.steps), expected);
    assert!(listed.heads.len() as u32 - 1 <= ctas);
}

/// Each block with some probability, a third of them partial.
fn random(sizes: (usize, usize), block: (usize, usize), density: f64, sharing: Sharing, patterns: usize) -> Mask {
    let lists = (0..patterns as u64).map(|seed| {
        let mut list = Mask::random(sizes, block, density, seed).unwrap().lists()[0].clone();
        list.partial =
            list.indices.iter().enumerate().map(|(at, column)| (at as u32 + column).is_multiple_of(3)).collect();
        list
    });
    let lists: Vec<BlockList> = lists.collect();
    Mask::new(sizes, block, sharing, lists).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn tiles_and_steps_are_the_hosts(
        (bm, bk) in prop_oneof![Just((64, 64)), Just((128, 128)), Just((192, 96)), Just((64, 256)), Just((256, 64))],
        queries in 1..900_usize,
        keys in 1..1500_usize,
        density in 0.0..1.0_f64,
        sharing in prop_oneof![Just(Sharing::All), Just(Sharing::ByHead), Just(Sharing::ByProblem), Just(Sharing::ByBoth)],
        ctas in 1..40_u32,
        (by_places, more) in (any::<bool>(), prop_oneof![Just(""), Just(", split = auto"), Just(", pack = 2")]),
    ) {
        let tiles = tiles(bm, bk, more);
        let sharing = match sharing {
            Sharing::ByHead | Sharing::ByBoth if tiles.packed.is_some() => Sharing::ByProblem,
            sharing => sharing,
        };
        let shape = Shape { batch: 2, heads: 4, key_heads: 2, queries, keys, columns: 64 };
        let mask = random((queries, keys), (bm as usize, bk as usize), density, sharing, sharing.patterns(2, 4));
        compare(&tiles, &shape, &mask, by_places, ctas);
    }
}

#[test]
fn many_columns_take_several_batches_of_words() {
    let shape = Shape { batch: 1, heads: 1, key_heads: 1, queries: 200, keys: 64 * 9000, columns: 64 };
    let mask = random((200, 64 * 9000), (64, 64), 0.05, Sharing::All, 1);
    compare(&tiles(64, 64, ""), &shape, &mask, false, 3);
}

#[test]
fn wrong_rows_have_no_steps_and_are_told() {
    let (tiles, sizes) = (tiles(64, 64, ""), (320, 640));
    let shape = Shape { batch: 1, heads: 2, key_heads: 1, queries: 320, keys: 640, columns: 64 };
    let mask = random(sizes, (64, 64), 0.6, Sharing::All, 1);
    let rows: Vec<Vec<(u32, bool)>> = (0..5).map(|row| mask.lists()[0].row(row).collect()).collect();
    type Change = fn(&mut Arrays);
    let changes: [(u32, Change); 4] = [
        (1, |arrays| arrays.columns[arrays.row_ptr[1] as usize] = 10),
        (1, |arrays| arrays.columns[arrays.row_ptr[1] as usize] = u32::MAX),
        (4, |arrays| arrays.row_ptr[5] += 1),
        (2, |arrays| arrays.columns.swap(arrays.row_ptr[2] as usize, arrays.row_ptr[2] as usize + 1)),
    ];
    for (row, change) in changes {
        let mut arrays = Arrays::of(&mask, false);
        change(&mut arrays);
        let listed = list(&tiles, &shape, &mask, arrays, 3);
        assert_eq!(listed.wrong, Some(row));
        let mut left = BlockList { indptr: vec![0], ..BlockList::default() };
        for (number, blocks) in rows.iter().enumerate().map(|(number, blocks)| (number as u32, blocks)) {
            let kept = blocks.iter().filter(|_| number != row);
            kept.for_each(|(column, partial)| {
                left.indices.push(*column);
                left.partial.push(*partial);
            });
            left.indptr.push(left.indices.len() as u32);
        }
        let left = Mask::new(sizes, (64, 64), Sharing::All, vec![left]).unwrap();
        let host = AttentionWork::new(&tiles, &shape, &left, 3).unwrap();
        let expected = by_place(8, &host.heads, &host.tiles, &host.steps);
        assert_eq!(by_place(8, &listed.heads, &listed.tiles, &listed.steps), expected);
    }
}

#[test]
fn rows_that_overlap_take_no_more_room_than_there_is() {
    let (tiles, sizes) = (tiles(64, 64, ""), (640, 640));
    let shape = Shape { batch: 1, heads: 1, key_heads: 1, queries: 640, keys: 640, columns: 64 };
    let mask = Mask::full(sizes, (64, 64)).unwrap();
    let mut arrays = Arrays::of(&mask, false);
    // Row pointers 0, 40, 0, 40, ..: every other row descends, and the others are all of the same blocks, which do not ascend.
    arrays.row_ptr = vec![0, 10, 0, 10, 0, 10, 0, 10, 0, 10, 0];
    arrays.columns.truncate(11);
    arrays.partial.truncate(11);
    let listed = list(&tiles, &shape, &mask, arrays, 4);
    assert_eq!(listed.wrong, Some(1));
    let found = by_place(8, &listed.heads, &listed.tiles, &listed.steps);
    let steps: Vec<usize> = found.values().map(|(_, steps)| steps.len()).collect();
    // Room for 11 blocks and so many steps of either consumer: two tiles of 10 steps find some.
    assert_eq!(steps.iter().filter(|steps| **steps == 10).count(), 1 + usize::from(steps.iter().sum::<usize>() == 20));
    assert!(steps.iter().all(|steps| matches!(steps, 0 | 10)) && steps.iter().sum::<usize>() <= 22, "{steps:?}");
}
