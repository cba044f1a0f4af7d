//! Mutants of the emitted kernels of every family: each must be found out by the default problems of `bsr check`.
//!
//! The mutants are made automatically: every operator is applied to statements all over the text, one at a time. A mutant
//! counts as found when a run reports anything or gives a wrong result. The survivors are listed with the reason why
//! they are harmless.
//!
//! A second set of operators, on other kernels, is held out: the simulator's model and the problems were made before it, and
//! not changed for one of its mutants alone.

use std::time::Instant;

use bsr_codegen::{KernelSpec, Plan};
use rayon::prelude::*;

use crate::hunt::{self, Hunt, Prey};
use crate::{classes, heldout, operators, trial};

/// Kernels of every family and operation.
const KERNELS: &[&str] = &[
    "bm = 64, bn = 64, bk = 64, consumers = 1, cluster = 4",
    "bm = 128, bn = 128, bk = 64",
    "bm = 128, bn = 64, bk = 112, cluster = 2, out = f32",
    "bm = 64, bn = 64, bk = 64, dtype = e4m3, out = f16",
    "bm = 64, bn = 64, bk = 32, op = dds",
    "bm = 64, bn = 64, bk = 32, epilogue = \"|bias: Cols<f32>| (relu(acc + bias), row_max(acc))\"",
    "bm = 64, bn = 32, bk = 64, batch = on",
    "bm = 16, bn = 64, bk = 16",
    "bm = 32, bn = 64, bk = 48, dtype = bf16",
    "bm = 24, bn = 64, bk = 32, pack = 2, split = 3",
    "bm = 64, bn = 32, bk = 64, batch = on, split = auto",
    "bm = 128, bn = 64, bk = 64, op = sdd, schedule = balanced",
    "bm = 32, bn = 64, bk = 32, op = sdd, schedule = balanced",
    "bm = 16, bn = 32, bk = 16, mma = mma_sync",
    "bm = 32, bn = 32, bk = 32, mma = wmma, arch = sm_70",
    "bm = 8, bn = 16, bk = 8, mma = scalar, dtype = f32",
    "bm = 16, bn = 32, bk = 16, mma = scalar, dtype = f32, accumulate = atomic",
    "bm = 64, bn = 64, bk = 64, pdl = on",
    "bm = 64, bn = 64, bk = 32, pdl = early, split = auto",
    "bm = 64, bn = 64, bk = 64, split = long",
    "bm = 64, bn = 64, bk = 32, swap = off, pack = 3",
    "bm = 16, bn = 32, bk = 16, mma = mma_sync, acc = f16, c_layout = col",
    "bm = 128, bn = 64, bk = 64, acc = f16, warps = (4, 2)",
];

/// Mutants that change nothing a kernel does: operator, words of the statement, and why.
const HARMLESS: &[(&str, &str, &str)] = &[
    ("drop a fence", "fence.acq_rel", "the release that follows orders as much"),
    ("drop wgmma synchronisation", "wgmma.fence", "no thread touches the accumulators between these operations"),
    ("drop setmaxnreg", "setmaxnreg.inc", "the compiler keeps to the registers that there are"),
    ("drop setmaxnreg", "setmaxnreg.dec", "the consumers ask for no more than they have at entry"),
    ("drop an xor", "@%p_t xor.b32", "the ring of stages never ends at this place"),
    ("eight registers more", "setmaxnreg.inc", "the pool has as many"),
    ("drop a zero", "mov.", "the register has been written before, and what it holds is not used"),
    ("one more", "named_barrier", "the barriers of the block have other numbers"),
    ("compare with one more", "tid", "another thread does it"),
    ("compare with one more", "%p_store_lead, %r_t, 0", "another thread does it"),
    ("do not wait", "bra", "an earlier wait has seen this phase complete"),
];

/// The same in some kernels, of which more is known: words of the spec, operator, words of the statement, and why.
const HARMLESS_IN: &[(&str, &str, &str, &str)] = &[
    ("consumers = 1", "subtract", "%r_work_c_row, %r_wg_row", "the only consumer's rows begin with the tile's"),
    (
        "cluster = 2",
        "one more",
        "add.u32 %r_t, %r_smem",
        "a descriptor has no place for the lowest four bits of an address",
    ),
    (
        "op = dds",
        "drop an xor",
        "xor.b32 %r_t, %r_parity, 1",
        "the stage before it in a pair has computed the same: the ring of stages ends after pairs",
    ),
    (
        "bm = 16, bn = 64, bk = 16",
        "the parity stays",
        "xor.b32 %r_parity, %r_parity, 1",
        "7 stages in a loop of two: the ring ends at each place in every other round, where the parity has the same value",
    ),
    (
        "mma = mma_sync",
        "drop a barrier",
        "bar.warp.sync",
        "bar.sync 0 of the next tile's stages stands between the last reads of the staging buffer and the next writes",
    ),
];

/// Mutants of one operator in one kernel.
const MOST: usize = if cfg!(debug_assertions) { 1 } else { 4 };

/// One mutant in so many is judged, unless `BSR_MUTANTS` asks for others.
const ONE_IN: usize = if cfg!(debug_assertions) { 72 } else { 1 };

pub(crate) fn planned(spec: &str) -> Plan {
    let parsed: KernelSpec = spec.parse().unwrap_or_else(|error| panic!("{error}"));
    Plan::new(&parsed).unwrap_or_else(|error| panic!("{error}"))
}

/// Kernels of every family and operation, none of them one of [`KERNELS`].
const HELD_OUT: &[&str] = &[
    "bm = 512, bn = 128, bk = 112",
    "bm = 128, bn = 256, bk = 64, cluster = 2",
    "bm = 64, bn = 128, bk = 48, dtype = bf16, b_layout = col, stages = 3",
    "bm = 128, bn = 64, bk = 64, dtype = e4m3, out = bf16, cluster = 2",
    "bm = 64, bn = 64, bk = 64, dtype = i8",
    "bm = 192, bn = 96, bk = 64, op = dds, transpose = on",
    "bm = 128, bn = 128, bk = 64, epilogue = \"|s: f32| (s * acc, row_sum(acc))\"",
    "bm = 64, bn = 64, bk = 32, permute = on, out = f32",
    "bm = 24, bn = 64, bk = 32",
    "bm = 48, bn = 128, bk = 64, transpose = on",
    "bm = 64, bn = 128, bk = 128, op = sdd",
    "bm = 16, bn = 64, bk = 32, op = sdd, schedule = balanced",
    "bm = 64, bn = 64, bk = 32, mma = mma_sync, dtype = bf16, out = f32",
    "bm = 32, bn = 64, bk = 64, mma = mma_sync, arch = sm_80",
    "bm = 16, bn = 32, bk = 32, mma = wmma, arch = sm_80",
    "bm = 16, bn = 32, bk = 8, mma = scalar, dtype = f32",
    "bm = 32, bn = 64, bk = 32, mma = scalar, dtype = f32",
    "bm = 128, bn = 64, bk = 64, pdl = early",
    "bm = 64, bn = 128, bk = 64, split = 3, cluster = 2",
    "bm = 128, bn = 64, bk = 64, swap = off, pack = 2, split = auto",
    "bm = 32, bn = 64, bk = 32, pdl = on",
];

/// Held-out mutants that change nothing a kernel does: operator, words of the statement, and why.
const HELD_OUT_HARMLESS: &[(&str, &str, &str)] = &[
    ("the parity twice", "@%p_t xor.b32", "the ring of stages never ends at this place"),
    ("do it twice", "@%p_t xor.b32", "the ring of stages never ends at this place"),
    ("do it twice", "xor.b32 %r_t, %r_parity", "the result is another register: it is the same the second time"),
    ("do it twice", "xor.b32 %r_t, %r_at", "the result is another register: it is the same the second time"),
    ("relax a release", "red.release.gpu", "the fence.acq_rel.gpu of the same thread before it orders as much"),
    ("coordinates swapped", "tensor.3d.global.shared", "a tile of whole blocks begins at row 0 and column 0 of each"),
    ("another predicate", "@%p_store_lead cp.async.bulk.wait_group.read", "the thread that stored has both predicates"),
    ("for every thread", "ld.shared.b", "what is read beyond the end of a line is not stored"),
    ("shift by one more", "%r_warp, %r_tid", "the kernel has one warp, number 0"),
    ("a factor one larger", "%r_warp_col, %r_warp_col", "the kernel has one warp in a row, number 0"),
    ("a factor one larger", "%r_staging, %r_warp", "the kernel has one warp, number 0"),
    ("do it twice", "bar.sync", "every thread of the barrier comes twice"),
    ("for every thread", "cp.async.bulk.wait_group", "the other threads have no copies to wait for"),
    ("for every thread", "cp.async.bulk.commit_group", "the other threads have no copies to commit"),
    ("for every thread", "@%p_both add.f32", "beyond the edge the sums are of zeros"),
    ("for every thread", "%r_work_c_row, %r_work_c_col", "no cluster is launched that has no work tile"),
    ("half of a mask", "%r_fused_col, %r_lane", "beyond the edge the sums are of zeros"),
    ("half of a mask", "%r_block_metadata, 255", "no tile has 128 block rows"),
    (
        "before, not after",
        "fence.mbarrier_init",
        "the last barrier is of this CTA's threads alone, which bar.sync orders",
    ),
    ("before, not after", "mov.", "what is computed does not depend on the wait"),
    ("before, not after", "mad.lo", "what is computed does not depend on the wait"),
    ("before, not after", "add.", "what is computed does not depend on the wait"),
    ("before, not after", "cp.async.bulk.tensor", "bytes may arrive before they are announced, until the thread does"),
    ("before, not after", "bar.sync", "the order of these two is free: a barrier follows"),
    ("a factor one larger", "%r_a_row_shift, %r_rank, 64", "rows are counted in pairs: the odd one is cut off"),
    ("a factor one larger", "%r_consumer", "the only consumer is number 0"),
];

/// A kernel, which is right itself, with its mutants by these operators.
fn prey<'k>(
    spec: &'k str,
    operators: &[(&str, operators::Change)],
    harmless: &'static [(&str, &str, &'static str)],
) -> Prey<'k> {
    prey_of(spec, operators, (harmless, MOST, 6))
}

/// The same with so many mutants of each operator, and at least so many of all.
fn prey_of<'k>(
    spec: &'k str,
    operators: &[(&str, operators::Change)],
    (harmless, most, least): (&'static [(&str, &str, &'static str)], usize, usize),
) -> Prey<'k> {
    let plan = planned(spec);
    let ptx = plan.ptx();
    let problems = trial::problems(&plan);
    let (fault, idle) = trial::check_all(&plan, &problems);
    assert_eq!(fault, None, "{spec}: the kernel itself");
    let mutants = operators::mutants(ptx.text(), operators, most);
    assert!(mutants.len() >= least, "{spec}: {} mutants", mutants.len());
    let why = move |name: &str| {
        let fits = |operator: &str, words: &str| name.starts_with(operator) && name.contains(words);
        let known = harmless.iter().find(|(operator, words, _)| fits(operator, words)).map(|(.., why)| *why);
        let here = HARMLESS_IN.iter().find(|(of, operator, words, _)| spec.contains(of) && fits(operator, words));
        // What nothing executes may be anything.
        let never = idle.iter().find(|(line, _)| name.contains(&format!(" @ {line}: ")));
        known.or(here.map(|(.., why)| *why)).or(never.map(|(_, why)| *why))
    };
    let judge = move |text: &str| trial::check(&plan, text, ptx.entry(), &problems);
    Prey { spec, mutants, judge: Box::new(judge), why: Box::new(why) }
}

/// At least 97 of 100 mutants that are not known to be harmless are found.
fn most_are_found(Hunt { all, equivalent, missed, .. }: &Hunt) {
    assert!(missed.len() * 100 <= 3 * (all - equivalent), "{} of {all} are missed: {missed:#?}", missed.len());
}

#[test]
fn mutants_of_every_family_are_found() {
    let prepare = |spec| prey(spec, operators::OPERATORS, HARMLESS);
    most_are_found(&hunt::hunt("main set", &some(KERNELS, 2), hunt::one_in(ONE_IN), prepare));
}

/// Without optimisation, every fifth kernel from this one on.
pub(crate) fn some(kernels: &[&'static str], first: usize) -> Vec<&'static str> {
    let (first, step) = if cfg!(debug_assertions) { (first, 5) } else { (0, 1) };
    kernels.iter().copied().skip(first).step_by(step).collect()
}

#[test]
fn mutants_that_are_held_out_are_found() {
    let prepare = |spec| prey(spec, heldout::OPERATORS, HELD_OUT_HARMLESS);
    most_are_found(&hunt::hunt("held-out set", &some(HELD_OUT, 2), hunt::one_in(ONE_IN), prepare));
}

/// Mutants of one class in one kernel; there are few places for them.
pub(crate) const MOST_OF_CLASS: usize = if cfg!(debug_assertions) { 2 } else { 12 };

#[test]
#[ignore = "a measure: cargo test --release -p bsr-simulator --test mutants -- --ignored --nocapture class"]
fn mutants_of_every_class_are_found() {
    let hunt = |(class, kernels, operators): &classes::Class| {
        let prepare = |spec| prey_of(spec, operators, (HARMLESS_OF_CLASSES, MOST_OF_CLASS, 2));
        hunt::hunt(class, kernels, hunt::one_in(1), prepare)
    };
    hunt::all_are_found(&classes::CLASSES.iter().map(hunt).collect::<Vec<_>>());
}

/// Those of classes: operator, words of the statement, and why.
const HARMLESS_OF_CLASSES: &[(&str, &str, &str)] = &[(
    "the problem of the tile before",
    "mov.u32 %r_problem, %r_",
    "tensor maps are fenced for every tile, not only where the problem is another",
)];

/// A number below `n`, drawn so that it is the same everywhere.
fn draw(state: &mut u64, n: usize) -> usize {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    ((*state >> 33) % n as u64) as usize
}

/// A spec of any family; many cannot be planned.
fn generated(state: &mut u64) -> String {
    let mut pick = |choices: &[&str]| choices[draw(state, choices.len())].to_owned();
    let sizes = ["8", "16", "24", "32", "48", "64", "64", "96", "128", "128", "192", "256"];
    let mut spec =
        format!("bm = {}, bn = {}, bk = {}", pick(&sizes), pick(&["16", "32", "64", "128", "256"]), pick(&sizes));
    let family = pick(&[
        "",
        "",
        "",
        ", op = sdd",
        ", op = dds",
        ", mma = mma_sync",
        ", mma = wmma",
        ", mma = scalar, dtype = f32",
    ]);
    spec += &family;
    if !family.contains("scalar") {
        spec += &pick(&["", "", ", dtype = bf16", ", dtype = e4m3, out = f16", ", dtype = i8"]);
    }
    spec += &pick(&["", "", "", ", out = f32"]);
    spec += &pick(&["", "", "", ", transpose = on"]);
    spec += &pick(&["", "", ", b_layout = col"]);
    spec += &pick(&["", "", ", c_layout = col"]);
    spec += &pick(&["", "", "", ", cluster = 2", ", cluster = 4"]);
    spec += &pick(&["", "", "", ", stages = 2", ", stages = 3", ", stages = 5"]);
    spec += &pick(&["", "", "", ", consumers = 1", ", consumers = 2"]);
    spec += &pick(&["", "", "", ", schedule = balanced", ", schedule = strided"]);
    spec += &pick(&["", "", "", "", ", batch = on", ", permute = on", ", accumulate = atomic", ", scale = tensor"]);
    spec += &pick(&["", "", "", "", ", epilogue = \"|s: f32| (relu(s * acc), row_max(acc))\""]);
    spec
}

/// Checks `count` specs that can be planned, or the share of them that `BSR_SHARD` asks for; none may be found fault with.
fn generated_specs_pass(count: usize, mut state: u64) {
    let mut specs = Vec::new();
    while specs.len() < count {
        let text = generated(&mut state);
        if let Ok(spec) = text.parse::<KernelSpec>()
            && let Ok(plan) = Plan::new(&spec)
        {
            specs.push((text, plan));
        }
    }
    let (start, specs) = (Instant::now(), hunt::shard(specs));
    let faults: Vec<_> = specs
        .par_iter()
        .with_max_len(1)
        .filter_map(|(text, plan)| {
            let start = Instant::now();
            let (fault, _) = trial::check_all(plan, &trial::problems(plan));
            println!("{:.1} s, {text}: {fault:?}", start.elapsed().as_secs_f64());
            fault.map(|fault| format!("{text}: {fault}"))
        })
        .collect();
    println!(
        "summary: {} specs, {} false alarms; {} threads, {:.0} s",
        specs.len(),
        faults.len(),
        rayon::current_num_threads(),
        start.elapsed().as_secs_f64()
    );
    assert!(faults.is_empty(), "{} specs, false alarms: {faults:#?}", specs.len());
}

/// Problems of a kernel of which a tile takes long are few, and execute all of it.
#[test]
#[cfg_attr(debug_assertions, ignore = "takes minutes without optimisation")]
fn kernels_of_which_a_tile_takes_long_pass() {
    for spec in [
        "bm = 448, bn = 512, bk = 240, dtype = e4m3, out = f16, cluster = 4, epilogue = \"|| silu(acc)\"",
        "bm = 512, bn = 384, bk = 512, transpose = on, batch = on, b_layout = col, cluster = 4",
    ] {
        let plan = planned(spec);
        assert_eq!(trial::check_all(&plan, &trial::problems(&plan)).0, None, "{spec}");
    }
}

#[test]
fn some_generated_specs_pass() {
    generated_specs_pass(if cfg!(debug_assertions) { 3 } else { 12 }, 1);
}

/// `BSR_SPECS` of them, 500 by default.
#[test]
#[ignore = "takes about an hour on two cores; cargo test --release -- --ignored"]
fn five_hundred_generated_specs_pass() {
    let count = std::env::var("BSR_SPECS").ok().and_then(|n| n.parse().ok()).unwrap_or(500);
    generated_specs_pass(count, 7);
}
