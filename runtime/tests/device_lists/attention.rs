//! The lists of an attention, made on the simulator: the tiles and steps of the host's.

use std::collections::BTreeSet;

use bsr_codegen::lists::AttentionLists;
use bsr_codegen::{AttentionTiles, Plan};
use bsr_runtime::Element;
use bsr_runtime::attention::{
    AttentionWork, BlockList, HeadOrder, ListedAttention, Mask, MaskArrays, Shape, Sharing, SimulatedAttention, Tensor,
    fault_of_lists, tiles_by_place,
};
use bsr_runtime::simulated::lists::ListKernels;
use bsr_simulator::Options;
use half::f16;
use proptest::prelude::*;

fn tiles(bm: u32, bk: u32, keys: &str) -> AttentionTiles {
    let text = format!("bm = {bm}, bn = 64, bk = {bk}, op = attention{keys}");
    Plan::new(&text.parse().unwrap()).unwrap().attention_tiles().unwrap()
}

fn list(tiles: &AttentionTiles, shape: &Shape, arrays: &MaskArrays, ctas: u32) -> ListedAttention {
    let kernels = ListKernels::own().unwrap();
    let listed = ListedAttention::new(&kernels, tiles, shape, (Sharing::All, arrays), ctas).unwrap();
    assert!(listed.findings.is_empty(), "{:#?}", listed.findings);
    listed
}

fn compare(tiles: &AttentionTiles, shape: &Shape, mask: &Mask, ctas: u32) {
    let kernels = ListKernels::own().unwrap();
    assert_eq!(fault_of_lists(&kernels, tiles, shape, mask, ctas).unwrap(), None);
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
        more in prop_oneof![Just(""), Just(", split = auto"), Just(", pack_heads = 2")],
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
        compare(&tiles, &shape, &mask, ctas);
    }
}

#[test]
fn many_columns_take_several_batches_of_words() {
    let shape = Shape { batch: 1, heads: 1, key_heads: 1, queries: 200, keys: 64 * 9000, columns: 64 };
    let mask = random((200, 64 * 9000), (64, 64), 0.05, Sharing::All, 1);
    for more in ["consumers = 2, k_step = 64", "consumers = 3, k_step = 128"] {
        compare(&tiles(64, 64, &format!(", {more}")), &shape, &mask, 3);
    }
}

#[test]
fn attentions_by_these_lists_are_those_by_the_hosts() {
    let tensor = |heads, rows, seed| Tensor::<f16>::normal([1, heads, rows, 64], HeadOrder::HeadsFirst, seed);
    let (q, k, v) = (tensor(2, 200, 1), tensor(1, 330, 2), tensor(1, 330, 3));
    for (kind, block) in KINDS.into_iter().zip([(64, 64); 4]).chain([("consumers = 3, k_step = 128", (128, 128))]) {
        let score = "|| if i >= j { s * scale } else { -inf }";
        let (bm, bk) = block;
        let text = format!("bm = {bm}, bn = 64, bk = {bk}, op = attention, {kind}, score = \"{score}\"");
        let plan = Plan::new(&text.parse().unwrap()).unwrap();
        let mask = random((200, 330), (bm as usize, bk as usize), 0.6, Sharing::All, 1);
        let ptx = plan.ptx();
        let kernel = SimulatedAttention::new(&plan, ptx.text(), ptx.entry()).unwrap();
        let run = |kernel: SimulatedAttention| {
            let (output, sums, report) =
                kernel.run([&q, &k, &v], &mask, (0.125, &[][..]), &Options::default()).unwrap();
            assert!(report.is_clean(), "{text}: {report:?}");
            (f16::to_bytes(output.data()), f32::to_bytes(&sums))
        };
        assert!(run(kernel.clone()) == run(kernel.with_device_mask(ListKernels::own().unwrap())), "{text}");
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
    type Change = fn(&mut MaskArrays);
    let changes: [(u32, Change); 4] = [
        (1, |arrays| arrays.columns[arrays.row_ptr[1] as usize] = 10),
        (1, |arrays| arrays.columns[arrays.row_ptr[1] as usize] = u32::MAX),
        (4, |arrays| arrays.row_ptr[5] += 1),
        (2, |arrays| arrays.columns.swap(arrays.row_ptr[2] as usize, arrays.row_ptr[2] as usize + 1)),
    ];
    for (kind, (row, change)) in KINDS.iter().flat_map(|kind| changes.map(|change| (kind, change))) {
        let tiles = tiles(64, 64, &format!(", {kind}"));
        let mut arrays = MaskArrays::by_block(&mask);
        change(&mut arrays);
        let listed = list(&tiles, &shape, &arrays, 3);
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
        let [listed, expected] = [&listed.work, &host].map(|work| tiles_by_place(&tiles, work).unwrap());
        assert_eq!(listed, expected, "{kind}");
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
        let mut arrays = MaskArrays::by_block(&mask);
        arrays.row_ptr = vec![0, 10, 0, 10, 0, 10, 0, 10, 0, 10, 0];
        arrays.columns.truncate(11);
        arrays.partial.truncate(11);
        let listed = list(&tiles, &shape, &arrays, 4);
        assert_eq!(listed.wrong, Some(1));
        let found = tiles_by_place(&tiles, &listed.work).unwrap();
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
