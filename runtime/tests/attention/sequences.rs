//! Sequences of different lengths, packed along the rows: their pairs, and the kernels on them.

use std::ops::Range;

use bsr_runtime::attention::{BlockList, HeadOrder, Mask, Sequences};
use bsr_trial::attention::Problem;
use half::{bf16, f16};

use crate::device::device;
use crate::table::{Case, case, shape};
use crate::{gradient, simulated};

/// The score that reads the ends of each query's range.
const RANGE: &str = "score = \"|first_key: Rows<f32>, end_key: Rows<f32>| if j >= first_key { if j < end_key { s * scale } else { \
                     -inf } } else { -inf }\"";

/// Lengths of queries and keys.
type Lengths = &'static [(usize, usize)];

/// Sequences that end within a block and at its edge, of one token, of none, with more keys than queries and with fewer.
const MIXED: Lengths = &[(70, 70), (1, 130), (0, 40), (58, 58), (30, 0), (90, 25), (3, 3), (64, 128)];
const SAME: Lengths = &[(100, 100), (28, 28), (128, 128), (1, 1), (1, 1), (75, 75)];
const DECODE: Lengths = &[(1, 190), (1, 3), (1, 0), (1, 257), (1, 64)];

fn starts(lengths: impl Iterator<Item = usize>) -> Vec<usize> {
    let ends = lengths.scan(0, |end, length| {
        *end += length;
        Some(*end)
    });
    std::iter::once(0).chain(ends).collect()
}

/// The sequences, and so many rows behind them.
fn sequences(lengths: Lengths, behind: usize) -> Sequences {
    let [queries, keys] = [starts(lengths.iter().map(|of| of.0)), starts(lengths.iter().map(|of| of.1))];
    let sizes = (queries.last().unwrap() + behind, keys.last().unwrap() + behind);
    Sequences::new(&queries, &keys, sizes).unwrap()
}

/// A window, as FlashAttention's: places before and after; -1 is no limit.
type Window = (i64, i64);

/// Whether a pair counts by the definition of FlashAttention: query i of a sequence attends to keys between i + keys - queries - before
/// and i + keys - queries + after.
fn counts(lengths: Lengths, (before, after): Window, query: usize, key: usize) -> bool {
    let (mut first_query, mut first_key) = (0, 0);
    for (queries, keys) in lengths {
        if (first_query..first_query + queries).contains(&query) && (first_key..first_key + keys).contains(&key) {
            let [i, j, queries, keys] =
                [query - first_query, key - first_key, *queries, *keys].map(|number| number as i64);
            let place = i + keys - queries;
            return (before < 0 || j >= place - before) && (after < 0 || j <= place + after);
        }
        (first_query, first_key) = (first_query + queries, first_key + keys);
    }
    false
}

const WINDOWS: [Window; 6] = [(-1, -1), (-1, 0), (40, 0), (5, 9), (-1, 3), (0, -1)];

fn under(sequences: Sequences, (before, after): Window) -> Sequences {
    let limit = |places: i64| usize::try_from(places).ok();
    match (before, after) {
        (-1, 0) => sequences.causal(),
        _ => sequences.window(limit(before), limit(after)),
    }
}

#[test]
fn the_pairs_are_those_of_flash_attention() {
    for lengths in [MIXED, SAME, DECODE, &[], &[(0, 0), (0, 5)]] {
        for window in WINDOWS {
            let packed = under(sequences(lengths, 9), window);
            let ranges = packed.ranges();
            let keys = lengths.iter().map(|of| of.1).sum::<usize>() + 9;
            let pairs: Vec<bool> = (0..ranges.len())
                .flat_map(|query| (0..keys).map(move |key| counts(lengths, window, query, key)))
                .collect();
            for (query, range) in ranges.iter().enumerate() {
                let found: Vec<bool> = (0..keys).map(|key| range.contains(&key)).collect();
                assert_eq!(found, pairs[query * keys..(query + 1) * keys], "{lengths:?}, {window:?}: query {query}");
            }
            assert_eq!(packed.pairs(), pairs.iter().filter(|counts| **counts).count() as u64);
            for block in [(64, 64), (128, 128), (64, 128), (192, 16), (7, 5)] {
                let mask = Mask::from_pairs((ranges.len(), keys), block, &pairs).unwrap();
                assert_eq!(packed.mask(block).unwrap(), mask, "{lengths:?}, {window:?}, {block:?}");
            }
        }
    }
}

/// A sequence stores the blocks that its tokens are in, and no block is stored of two whose ranges are apart.
#[test]
fn no_block_is_stored_without_a_pair() {
    let lengths: Vec<usize> = (0..40).map(|at| 1 + at * 389 % 1000).collect();
    let starts = starts(lengths.iter().copied());
    let total = *starts.last().unwrap();
    let packed = Sequences::new(&starts, &starts, (total, total)).unwrap().causal();
    let padded: usize = 40 * lengths.iter().max().unwrap().pow(2);
    for (block, most) in [((64, 64), 1.35), ((128, 128), 1.7)] {
        let mask = packed.mask(block).unwrap();
        let stored = mask.pairs(1, 1);
        let ratio = stored as f64 / packed.pairs() as f64;
        assert!(ratio > 1.0 && ratio < most, "{ratio} of the pairs that count in blocks of {block:?}");
        assert!((stored as usize) < padded / 2, "{stored} pairs of {padded} with padding");
        assert!(mask.lists()[0].indices.len() < mask.blocks().0 * mask.blocks().1 / 10);
    }
}

fn cases() -> Vec<Case> {
    let mut cases = vec![];
    let mut add = |spec: &str, (lengths, behind): (Lengths, usize), window: Window, heads: [usize; 2]| {
        let spec = format!("{spec}, {RANGE}");
        let kernel: bsr_codegen::KernelSpec = format!("op = attention, {spec}").parse().unwrap();
        let packed = under(sequences(lengths, behind), window);
        let mask = packed.mask((kernel.bm as usize, kernel.bk as usize)).unwrap();
        let (queries, keys) = mask.sizes();
        let order = [HeadOrder::RowsFirst, HeadOrder::HeadsFirst][cases.len() % 2];
        let vectors = packed.vectors().to_vec();
        let shape = shape(1, heads, [queries, keys], kernel.bn as usize);
        cases.push(Case { order, vectors, ..case(&spec, shape, mask) });
    };
    for (at, window) in WINDOWS.into_iter().enumerate() {
        let (bm, bk) = [(64, 64), (128, 128), (64, 128)][at % 3];
        let (dtype, columns) = (["f16", "bf16"][at % 2], [64, 128, 32][at / 2]);
        let spec = format!("bm = {bm}, bn = {columns}, bk = {bk}, dtype = {dtype}");
        add(&spec, (MIXED, 0), window, [2, 1]);
        add(&spec, (SAME, 13 * at), window, [1, 1]);
    }
    add("bm = 128, bn = 64, bk = 128, consumers = 1", (SAME, 0), (-1, 0), [2, 2]);
    add("bm = 192, bn = 64, bk = 64, consumers = 3, dtype = bf16", (MIXED, 5), (40, 0), [1, 1]);
    // A step of decoding of each: one row of blocks, whose keys CTAs divide.
    for split in ["", ", split = 3", ", split = auto"] {
        add(&format!("bm = 64, bn = 64, bk = 64, dtype = bf16, sinks = on{split}"), (DECODE, 0), (-1, 0), [4, 2]);
    }
    add("bm = 64, bn = 128, bk = 64, d = 192, dtype = bf16", (MIXED, 0), (-1, 0), [2, 1]);
    add("bm = 64, bn = 64, bk = 64, mma = mma_sync", (MIXED, 0), (-1, 0), [4, 2]);
    add("bm = 128, bn = 32, bk = 64, mma = mma_sync, dtype = bf16", (SAME, 3), (5, 9), [1, 1]);
    cases
}

#[test]
fn sequences_on_the_simulator() {
    simulated::run(cases());
}

#[test]
fn sequences_on_a_gpu() {
    let Some((_turn, device)) = device() else { return };
    crate::gpu::run(&device, cases().into_iter());
}

fn gradients() -> Vec<gradient::Case> {
    let mut cases = vec![];
    let specs: [&'static str; 3] = [
        "bm = 64, bn = 64, bk = 64, score = \"|first_key: Rows<f32>, end_key: Rows<f32>| if j >= first_key { if j < end_key { s * scale \
         } else { -inf } } else { -inf }\"",
        "bm = 128, bn = 128, bk = 128, dtype = bf16, score = \"|first_key: Rows<f32>, end_key: Rows<f32>| if j >= first_key { if j < \
         end_key { s * scale } else { -inf } } else { -inf }\"",
        "bm = 64, bn = 64, bk = 128, score = \"|first_key: Rows<f32>, end_key: Rows<f32>| if j >= first_key { if j < end_key { 5 * \
         tanh(s * scale / 5) } else { -inf } } else { -inf }\"",
    ];
    for (at, (lengths, window)) in
        [(MIXED, (-1, -1)), (MIXED, (-1, 0)), (SAME, (-1, 0)), (SAME, (40, 0))].into_iter().enumerate()
    {
        let text = specs[at % 3];
        let spec = gradient::spec(text);
        let packed = under(sequences(lengths, 7 * at), window);
        let block = (spec.bm as usize, spec.bk as usize);
        let mut mask = packed.mask(block).unwrap();
        if at % 3 == 2 {
            // A soft cap is computed in every block.
            let list = BlockList { partial: vec![true; mask.stored()], ..mask.lists()[0].clone() };
            mask = Mask::new(mask.sizes(), block, mask.sharing(), vec![list]).unwrap();
        }
        let (queries, keys) = mask.sizes();
        let shape = shape(1, [2, 1 + at % 2], [queries, keys], spec.bn as usize);
        let mut problem = Problem::new(&spec, shape, mask, "sequences").unwrap();
        problem.vectors = packed.vectors().to_vec();
        problem.seed = at as u64;
        cases.push(gradient::Case { spec: text, problem, with_lse_gradient: at % 2 == 1, with_score: false });
    }
    cases
}

#[test]
fn gradients_of_sequences_on_the_simulator() {
    gradient::all_right(&gradients(), |number, case| match gradient::spec(case.spec).a {
        bsr_codegen::Dtype::BF16 => gradient::simulate::<bf16>(number, case),
        _ => gradient::simulate::<f16>(number, case),
    });
}

#[test]
fn gradients_of_sequences_on_a_gpu() {
    let Some((_turn, device)) = device() else { return };
    gradient::all_right(&gradients(), |_, case| match gradient::spec(case.spec).a {
        bsr_codegen::Dtype::BF16 => gradient::launch::<bf16>(&device, case),
        _ => gradient::launch::<f16>(&device, case),
    });
}

#[test]
fn what_are_no_sequences_is_refused_in_words() {
    let refused = |queries: &[usize], keys: &[usize], sizes, words: &str| {
        let error = Sequences::new(queries, keys, sizes).unwrap_err().to_string();
        assert!(error.contains(words) && error.contains("help: "), "{words}: {error}");
    };
    refused(&[0, 5, 3], &[0, 1, 2], (9, 9), "the starts of queries descend: 3 follows 5\n  sequence 1 would");
    refused(&[0, 5], &[1, 5], (9, 9), "2 starts of keys, from Some(1)");
    refused(&[0, 5], &[0, 12], (9, 9), "up to 9 rows");
    refused(&[], &[0], (9, 9), "0 starts of queries");
    refused(&[0, 5], &[0, 5, 6], (9, 9), "1 sequences of queries and 2 of keys");
    refused(&[0, 1], &[0, 1], (1, (1 << 24) + 1), "16777217 keys are too many");
    let beyond: Vec<Range<usize>> = vec![0..3, 2..11];
    let error = Mask::by_ranges(10, (2, 2), &beyond).unwrap_err().to_string();
    assert!(error.contains("query 1 attends to keys 2..11 of 10"), "{error}");
}
