//! The lists of an attention, made on the simulator: the tiles and steps of the host's.

use std::collections::{BTreeMap, BTreeSet};

use bsr_codegen::lists::{AttentionLists, AttentionRequest, IndexWidth, ListKernel, PartialFlags};
use bsr_codegen::{AttentionTiles, Plan};
use bsr_runtime::Element;
use bsr_runtime::attention::{AttentionWork, BlockList, HeadOrder, Mask, Shape, Sharing, SimulatedAttention, Tensor};
use bsr_simulator::{BufferId, GlobalMemory, Options};
use half::f16;
use proptest::prelude::*;

use crate::simulate::{launch, upload, words};

fn tiles(bm: u32, bk: u32, keys: &str) -> AttentionTiles {
    let text = format!("bm = {bm}, bn = 64, bk = {bk}, op = attention{keys}");
    Plan::new(&text.parse().unwrap()).unwrap().attention_tiles().unwrap()
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
    let steps = alloc(4 * lists.slots());
    let (records, step_rows) =
        (alloc(4 * AttentionLists::RECORD_WORDS * lists.rows() as usize), alloc(8 * lists.rows() as usize));
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

fn by_place(own: &AttentionTiles, heads: &[u32], tiles: &[u32], steps: &[u32]) -> Tiles {
    assert_eq!(heads[0], 0);
    assert!(heads.windows(2).all(|pair| pair[0] < pair[1]), "{heads:?}");
    let (words, blocks) = (own.tile_words as usize, own.blocks as usize);
    let count = heads.last().copied().unwrap() as usize;
    let of_tile = |tile: &[u32]| {
        let mut rest = tile.to_vec();
        rest[4] = 0;
        let steps = &steps[tile[4] as usize * blocks..(tile[4] + tile[5]) as usize * blocks];
        ([tile[2], tile[1], tile[0]], (rest, steps.to_vec()))
    };
    let found: Tiles = tiles.chunks(words).take(count).map(of_tile).collect();
    assert_eq!(found.len(), count);
    found
}

fn compare(tiles: &AttentionTiles, shape: &Shape, mask: &Mask, by_places: bool, ctas: u32) {
    let part = if tiles.split.is_some() { &[0, 0, AttentionTiles::WHOLE, 0][..] } else { &[] };
    let words = tiles.tile_words as usize - part.len();
    let undivided = AttentionTiles { split: None, tile_words: words as u32, ..*tiles };
    let mut host = AttentionWork::new(&undivided, shape, mask, ctas).unwrap();
    host.tiles = host.tiles.chunks(words).flat_map(|tile| [tile, part].concat()).collect();
    let listed = list(tiles, shape, mask, Arrays::of(mask, by_places), ctas);
    assert_eq!(listed.wrong, None);
    let expected = by_place(tiles, &host.heads, &host.tiles, &host.steps);
    assert_eq!(by_place(tiles, &listed.heads, &listed.tiles, &listed.steps), expected);
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
        (consumers, wide) in (2..=3_u32, any::<bool>()),
    ) {
        let step = if wide && bk <= 64 { 2 * bk } else { bk.min(128) };
        let tiles = tiles(bm, bk, &format!(", consumers = {consumers}, k_step = {step}{more}"));
        prop_assert_eq!((tiles.consumers, tiles.blocks), (consumers, (step / bk).max(1)));
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
    for more in ["consumers = 2, k_step = 64", "consumers = 3, k_step = 128"] {
        compare(&tiles(64, 64, &format!(", {more}")), &shape, &mask, false, 3);
    }
}

#[test]
fn attentions_by_these_lists_are_those_by_the_hosts() {
    let shape = Shape { batch: 1, heads: 2, key_heads: 1, queries: 200, keys: 330, columns: 64 };
    let tensor = |heads, rows, seed| Tensor::<f16>::normal([1, heads, rows, 64], HeadOrder::HeadsFirst, seed);
    let (q, k, v) = (tensor(2, 200, 1), tensor(1, 330, 2), tensor(1, 330, 3));
    for (kind, block) in KINDS.into_iter().zip([(64, 64); 4]).chain([("consumers = 3, k_step = 128", (128, 128))]) {
        let score = "|| if i >= j { s * scale } else { -inf }";
        let (bm, bk) = block;
        let text = format!("bm = {bm}, bn = 64, bk = {bk}, op = attention, {kind}, score = \"{score}\"");
        let plan = Plan::new(&text.parse().unwrap()).unwrap();
        let tiles = plan.attention_tiles().unwrap();
        let mask = random((200, 330), (bm as usize, bk as usize), 0.6, Sharing::All, 1);
        let listed = list(&tiles, &shape, &mask, Arrays::of(&mask, false), 3);
        let work = AttentionWork { heads: listed.heads, tiles: listed.tiles, steps: listed.steps, places: 0 };
        let ptx = plan.ptx();
        let kernel = SimulatedAttention::new(&plan, ptx.text(), ptx.entry()).unwrap();
        let run = |kernel: SimulatedAttention| {
            let (output, sums, report) =
                kernel.run([&q, &k, &v], &mask, (0.125, &[][..]), &Options::default()).unwrap();
            assert!(report.is_clean(), "{text}: {report:?}");
            (f16::to_bytes(output.data()), f32::to_bytes(&sums))
        };
        assert!(run(kernel.clone()) == run(kernel.with_work(work)), "{text}");
    }
}

/// Kernels of each kind: two consumers and three, steps within a block and of two.
const KINDS: [&str; 4] = [
    "consumers = 2, k_step = 64",
    "consumers = 2, k_step = 128",
    "consumers = 3, k_step = 64",
    "consumers = 3, k_step = 128",
];

#[test]
fn wrong_rows_have_no_steps_and_are_told() {
    let sizes = (320, 640);
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
    for (kind, (row, change)) in KINDS.iter().flat_map(|kind| changes.map(|change| (kind, change))) {
        let tiles = tiles(64, 64, &format!(", {kind}"));
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
        let expected = by_place(&tiles, &host.heads, &host.tiles, &host.steps);
        assert_eq!(by_place(&tiles, &listed.heads, &listed.tiles, &listed.steps), expected, "{kind}");
    }
}

#[test]
fn rows_that_overlap_take_no_more_room_than_there_is() {
    let sizes = (640, 640);
    let shape = Shape { batch: 1, heads: 1, key_heads: 1, queries: 640, keys: 640, columns: 64 };
    let mask = Mask::full(sizes, (64, 64)).unwrap();
    // Every other row descends, and the others are all of the same blocks: each has ten steps, or five of two blocks. There is room
    // for 11 blocks, and where steps have two for a lone one of each set of consumers in a tile.
    for (kind, of_tile) in KINDS.into_iter().zip([10, 5, 10, 5]) {
        let tiles = tiles(64, 64, &format!(", {kind}"));
        let mut arrays = Arrays::of(&mask, false);
        arrays.row_ptr = vec![0, 10, 0, 10, 0, 10, 0, 10, 0, 10, 0];
        arrays.columns.truncate(11);
        arrays.partial.truncate(11);
        let listed = list(&tiles, &shape, &mask, arrays, 4);
        assert_eq!(listed.wrong, Some(1));
        let found = by_place(&tiles, &listed.heads, &listed.tiles, &listed.steps);
        let steps: Vec<usize> = found.values().map(|(_, words)| words.len() / tiles.blocks as usize).collect();
        assert!(steps.iter().all(|steps| [0, of_tile].contains(steps)), "{kind}: {steps:?}");
        let sum = steps.iter().sum::<usize>();
        assert!(sum >= of_tile && sum < steps.len() * of_tile && sum <= 11, "{kind}: {steps:?}");
    }
}

/// What the order of steps relies on: from any consumers' waits that occur, the sets of consumers that have steps left take turns in
/// rounds after at most two steps, and a round has each set once and at most three.
#[test]
fn sets_of_consumers_take_turns_in_short_rounds() {
    type State = (u32, [u32; 3]);
    let members = |set: u32| (0..3).filter(move |consumer| set >> consumer & 1 == 1);
    let step = |(open, waited): State| {
        let sets = (1..8_u32).filter(|set| open >> set & 1 == 1);
        let longest = |set: u32| members(set).map(|consumer| waited[consumer]).max();
        let next = sets.clone().max_by_key(|set| (longest(*set), set.count_ones(), 8 - set)).unwrap();
        let waits = |consumer: usize| sets.clone().any(|set| set >> consumer & 1 == 1) && next >> consumer & 1 == 0;
        let waited = std::array::from_fn(|consumer| if waits(consumer) { waited[consumer] + 1 } else { 0 });
        (next, (open, waited))
    };
    let mut known: BTreeSet<State> = BTreeSet::new();
    let mut open: Vec<State> = (1..128).map(|sets| (2 * sets, [0; 3])).collect();
    while let Some(state) = open.pop() {
        if state.0 != 0 && known.insert(state) {
            let (set, after) = step(state);
            open.extend([(after.0 & !(1 << set), after.1), after]);
        }
    }
    assert!(known.len() > 127);
    for state in known {
        let path: Vec<(u32, State)> =
            std::iter::successors(Some((0, state)), |(_, state)| Some(step(*state))).take(7).collect();
        let round = (1..=AttentionLists::ROUND as usize)
            .flat_map(|round| (0..=2).map(move |first| (first, round)))
            .find(|(first, round)| path[*first].1 == path[first + round].1);
        let (first, round) = round.unwrap_or_else(|| panic!("{state:?}: {path:?}"));
        let sets: BTreeSet<u32> = path[first + 1..=first + round].iter().map(|(set, _)| *set).collect();
        assert_eq!(sets.len(), round, "{state:?}: {path:?}");
    }
}
