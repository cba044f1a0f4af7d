//! What the problems of a check are made for is there, whatever the plan.
#![allow(clippy::unwrap_used)]

use super::long::Long;
use super::scale::{FAR_LINES, INDEX_BATCH};
use super::*;

/// Kernels of which a tile takes long: seven tiles cover the rows of a block, and two.
const LARGE: [&str; 2] = [
    "bm = 448, bn = 512, bk = 240, dtype = e4m3, out = f16, cluster = 4, epilogue = \"|| silu(acc)\"",
    "bm = 512, bn = 384, bk = 512, transpose = on, batch = on, b_layout = col, cluster = 4",
];

fn trial(plan: &Plan, index: usize) -> ProductTrial {
    let of =
        Of { words: |_, extents| format!("{extents:?}"), draw: |_, _| Err(Failure::wrong("nothing is drawn here")) };
    ProductTrial::new(plan, index, of).unwrap()
}

fn plan(spec: &str) -> Plan {
    Plan::new(&spec.parse().unwrap()).unwrap()
}

fn long(plan: &Plan, scale: &Scale) -> bool {
    Long::new(plan, scale.block, scale.tile).unwrap().passes_on_late(plan, scale.block).unwrap()
}

#[test]
fn every_kernel_has_problems_of_every_kind_in_every_round() {
    for spec in [
        "bm = 512, bn = 128, bk = 112",
        "bm = 64, bn = 16, bk = 16",
        "bm = 64, bn = 256, bk = 512",
        "bm = 64, bn = 64, bk = 48, dtype = e4m3, scale = block, accumulate = promoted",
        "bm = 16, bn = 32, bk = 16, mma = mma_sync",
        "bm = 8, bn = 16, bk = 8, mma = scalar, dtype = f32",
        "bm = 24, bn = 64, bk = 128, transpose = on",
        "bm = 112, bn = 64, bk = 128, op = dds",
        "bm = 128, bn = 64, bk = 72, op = dds, transpose = on",
        "bm = 128, bn = 64, bk = 64, op = sdd, schedule = balanced",
        "bm = 256, bn = 32, bk = 16, op = sdd, schedule = balanced",
        "bm = 128, bn = 64, bk = 64, split = auto",
        "bm = 64, bn = 64, bk = 16, split = 3, cluster = 2",
        "bm = 64, bn = 64, bk = 64, swap = off, pack = 3",
        "bm = 128, bn = 64, bk = 64, swap = off, pack = 2, split = auto",
        "bm = 16, bn = 64, bk = 16, split = auto",
        "bm = 24, bn = 128, bk = 200, split = 3",
        "bm = 64, bn = 256, bk = 64, split = long",
        "bm = 128, bn = 128, bk = 128, cluster = 2, transpose = on, split = long",
        "bm = 64, bn = 64, bk = 64, swap = off, pack = 2, split = long",
        "bm = 32, bn = 64, bk = 32, split = long",
        "bm = 512, bn = 256, bk = 112, split = long",
        "bm = 64, bn = 64, bk = 32, epilogue = \"|| (relu(acc), row_max(acc))\"",
        LARGE[0],
        LARGE[1],
    ] {
        let plan = plan(spec);
        let by_columns = plan.reads_block_columns();
        let scale = Scale::of(&plan);
        for index in 0..120 {
            let trial = trial(&plan, index);
            let Member { structure, n, .. } = &trial.members[0];
            let read = if by_columns { structure.transpose().unwrap() } else { structure.clone() };
            let a = &read;
            let even = (a.rows().is_multiple_of(a.block().0), a.cols().is_multiple_of(a.block().1));
            let longest = a.row_lengths().max().unwrap_or(0);
            let tiles = a.rows().div_ceil(scale.block.0 / scale.slices);
            let most = if scale.is_large() { 3 } else { 6 };
            match Kind::of(&plan, index) {
                Kind::Whole => assert_eq!(even, (true, true)),
                Kind::Ragged => assert_eq!(even, (false, false)),
                Kind::Uneven => {
                    assert!(longest > 3 * scale.ring && tiles > 3 * scale.pack);
                    assert!(a.row_lengths().any(|length| length == 0));
                }
                Kind::FullRow if scale.flop == 64 => assert_eq!(longest, a.block_cols()),
                Kind::FullRow => {
                    assert!(longest == a.block_cols() && longest > scale.parts * INDEX_BATCH);
                }
                Kind::EmptyRows => assert!(a.nnzb() > 0 && a.row_lengths().any(|length| length == 0)),
                Kind::Alone => {
                    assert!(longest == 1 && a.nnzb() > scale.pack && tiles >= most * scale.pack);
                    assert!(scale.pack == 1 || a.row_lengths().any(|length| length == 0));
                }
                Kind::Negative | Kind::LastPair => assert!(trial.negative),
                Kind::NoBlocks => assert_eq!(a.nnzb(), 0),
                Kind::OneColumn => assert_eq!(*n, 1),
                Kind::FarLines => {
                    assert!(trial.far && (*n).min(a.rows()).min(a.cols()) >= FAR_LINES - 7);
                }
                Kind::Split | Kind::SplitHalf => {
                    let work = bsr_runtime::schedule::WorkLists::new(&plan, structure, *n, trial.clusters);
                    assert!(work.workspace > 0 && trial.clusters > 1);
                }
                Kind::LongRows => {
                    assert!(long(&plan, &scale), "{spec}: no part comes after a whole tile");
                }
                Kind::DevicePattern => {
                    assert!(trial.listed && a.nnzb() > 0 && a.row_lengths().any(|length| length == 0));
                }
                Kind::Members => {
                    assert!(trial.members.len() > 2 && trial.clusters == 1);
                    assert!(trial.members.iter().all(|member| member.structure.nnzb() > 0));
                }
                Kind::Edge(_) => assert_eq!((a.nnzb(), trial.schedules), (1, 1)),
            }
            assert!(trial.schedules > 0);
        }
    }
}

#[test]
fn the_products_of_a_list_differ_in_pattern_values_and_extents() {
    for spec in ["bm = 64, bn = 64, bk = 64, batch = on", "bm = 128, bn = 64, bk = 64, op = sdd, batch = on"] {
        let plan = plan(spec);
        for index in 0..Kind::all(&plan).len() {
            let trial = trial(&plan, index);
            let [one, other, ..] = &trial.members[..] else { panic!("{spec}: {} products", trial.members.len()) };
            assert_ne!(one.seed, other.seed);
            // These are what they are: without a block, of one column, or of whole tiles.
            let fixed = matches!(Kind::of(&plan, index), Kind::NoBlocks | Kind::OneColumn | Kind::Whole);
            assert!(fixed || one.n != other.n, "{spec}: {index}");
            assert!(fixed || one.structure != other.structure, "{spec}: {index}");
        }
    }
    assert_eq!(trial(&plan("bm = 64, bn = 64, bk = 64"), 0).members.len(), 1);
}

/// A ring's place and parity are those of its first round again in the third.
#[test]
fn every_ring_goes_round_three_times() {
    for spec in [
        "bm = 64, bn = 64, bk = 64",
        "bm = 512, bn = 128, bk = 112",
        "bm = 64, bn = 16, bk = 16",
        "bm = 16, bn = 64, bk = 16",
        "bm = 64, bn = 64, bk = 64, swap = off, pack = 3",
        "bm = 128, bn = 64, bk = 64, op = sdd",
        "bm = 32, bn = 64, bk = 32, op = sdd",
        "bm = 16, bn = 32, bk = 16, mma = mma_sync",
        LARGE[0],
        LARGE[1],
    ] {
        let plan = plan(spec);
        let scale = Scale::of(&plan);
        let trials = |kind: Kind| {
            let at = Kind::all(&plan).iter().position(|one| *one == kind).unwrap();
            let trial = trial(&plan, at);
            let structure = trial.members[0].structure.clone();
            (if plan.reads_block_columns() { structure.transpose().unwrap() } else { structure }, trial)
        };
        let (full, _) = trials(Kind::FullRow);
        let (alone, trial) = trials(Kind::Alone);
        match scale.sparse_c {
            true => {
                let (_, whole) = trials(Kind::Whole);
                let stages = whole.members[0].n.div_ceil(scale.stage) * (whole.members[0].structure.nnzb() / 2);
                assert!(stages > 3 * scale.stages, "{spec}: {stages} stages");
                let tiles = alone.nnzb().div_ceil(trial.clusters as usize);
                assert!(tiles > 3 * (scale.stages + 3), "{spec}: {tiles} work tiles");
            }
            false => {
                let longest = full.row_lengths().max().unwrap();
                assert!(longest > 3 * scale.ring, "{spec}: {longest} blocks");
                // Two staging buffers, whatever a tile has of each.
                let tiles = alone.block_rows().div_ceil(scale.pack) * scale.slices;
                assert!(tiles.div_ceil(trial.clusters as usize) >= 3, "{spec}: {tiles} tiles");
            }
        }
    }
}

#[test]
fn rounds_differ_and_a_number_names_one_problem() {
    let plan = plan("bm = 128, bn = 128, bk = 64");
    let words = |index| trial(&plan, index).words();
    assert_eq!(words(1), words(1));
    assert_ne!(words(1), words(1 + Kind::all(&plan).len()));
}

#[test]
fn what_takes_long_is_run_in_fewer_schedules() {
    let schedules = |spec: &str| trial(&plan(spec), 3).schedules;
    assert!(schedules("bm = 16, bn = 64, bk = 16") > 100);
    assert!(schedules("bm = 512, bn = 256, bk = 512") < 4);
}

#[test]
fn kernels_of_which_a_block_takes_long_have_few_and_small_problems() {
    let effort = |spec: &str| {
        let plan = plan(spec);
        let trials = (0..Kind::all(&plan).len()).map(|index| trial(&plan, index));
        trials.map(|trial| trial.effort.saturating_mul(trial.schedules.min(4) as u64)).sum::<u64>()
    };
    assert!(effort("bm = 128, bn = 128, bk = 128, mma = scalar, dtype = f32") <= 11 * EFFORT);
    assert!(effort("bm = 512, bn = 496, bk = 112, mma = scalar, dtype = f32") <= 13 * EFFORT);
    // Tensor cores are simulated faster, and the problems of the largest tiles must still be of every kind.
    for large in LARGE {
        assert!(effort(large) <= 15 * EFFORT, "{large}: {}", effort(large) / EFFORT);
    }
}
