//! Mutants of the emitted kernels of every family: each must be found out by the default problems of `bsr check`.
//!
//! The mutants are made automatically: every operator is applied to statements all over the text, one at a time. A mutant
//! counts as found when a run reports anything or gives a wrong result. The survivors are listed with the reason why
//! they are harmless.
#![allow(clippy::unwrap_used)]

// The problems are those of the command, which names the library by its own name.
extern crate self as bsr;

pub use bsr_codegen::{KernelSpec, Op, Plan};
pub use bsr_runtime::kernel::arguments;
pub use bsr_runtime::{
    Bsr, BsrError, Dense, Dtype, Element, Inputs, Layout, Permutation, Scales, Structure, e4m3, reference, simulated,
};
pub use half::{bf16, f16};

#[path = "common/operators.rs"]
mod operators;
#[path = "common/trial.rs"]
mod trial;
#[path = "../../src/cli/trials.rs"]
mod trials;

use rayon::prelude::*;

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
    "bm = 128, bn = 64, bk = 64, op = sdd, schedule = balanced",
    "bm = 32, bn = 64, bk = 32, op = sdd, schedule = balanced",
    "bm = 16, bn = 32, bk = 16, mma = mma_sync",
    "bm = 32, bn = 32, bk = 32, mma = wmma, arch = sm_70",
    "bm = 8, bn = 16, bk = 8, mma = scalar, dtype = f32",
    "bm = 16, bn = 32, bk = 16, mma = scalar, dtype = f32, accumulate = atomic",
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
    ("do not wait", "bra", "an earlier wait has seen this phase complete"),
];

/// Mutants of one operator in one kernel.
const MOST: usize = if cfg!(debug_assertions) { 1 } else { 4 };

/// Takes one mutant in so many; `BSR_MUTANTS=1` takes all.
fn one_in() -> usize {
    let asked = std::env::var("BSR_MUTANTS").ok().and_then(|n| n.parse().ok());
    asked.unwrap_or(if cfg!(debug_assertions) { 24 } else { 1 })
}

fn planned(spec: &str) -> Plan {
    let parsed: KernelSpec = spec.parse().unwrap_or_else(|error| panic!("{error}"));
    Plan::new(&parsed).unwrap_or_else(|error| panic!("{error}"))
}

/// At least 97 of 100 mutants that are not known to be harmless are found.
#[test]
fn mutants_of_every_family_are_found() {
    let only = std::env::var("BSR_KERNEL").ok();
    let (mut all, mut harmless, mut missed) = (0, 0, Vec::new());
    for (number, spec) in KERNELS.iter().enumerate() {
        if only.as_ref().is_some_and(|only| !spec.contains(only.as_str())) {
            continue;
        }
        let plan = planned(spec);
        let ptx = plan.ptx();
        let problems = trial::problems(&plan);
        assert_eq!(trial::check(&plan, ptx.text(), ptx.entry(), &problems), None, "{spec}: the kernel itself");
        let mutants = operators::mutants(ptx.text(), MOST);
        assert!(mutants.len() >= 6, "{spec}: {} mutants", mutants.len());
        let taken: Vec<_> = mutants.iter().skip(number % one_in()).step_by(one_in()).collect();
        let found: Vec<_> =
            taken.par_iter().map(|(_, text)| trial::check(&plan, text, ptx.entry(), &problems)).collect();
        all += taken.len();
        for ((name, _), found) in taken.into_iter().zip(found) {
            let why = HARMLESS.iter().find(|(operator, words, _)| name.starts_with(operator) && name.contains(words));
            match (found, why) {
                (Some(how), _) => println!("{spec}: {name}: {how}"),
                (None, Some((.., why))) => {
                    harmless += 1;
                    println!("HARMLESS {spec}: {name}: {why}");
                }
                (None, None) => {
                    println!("SURVIVES {spec}: {name}");
                    missed.push(format!("{spec}: {name}"));
                }
            }
        }
    }
    println!("{all} mutants, {harmless} harmless, {} missed: {missed:#?}", missed.len());
    assert!(missed.len() * 100 <= 3 * (all - harmless), "{} of {all} are missed: {missed:#?}", missed.len());
}

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

/// Checks `count` specs that can be planned; none may be found fault with.
fn generated_specs_pass(count: usize, mut state: u64) {
    let mut specs = Vec::new();
    while specs.len() < count {
        let text = generated(&mut state);
        if let Ok(spec) = text.parse::<KernelSpec>()
            && let Ok(plan) = Plan::new(&spec)
            && trial::has_types(&spec)
        {
            specs.push((text, plan));
        }
    }
    let faults: Vec<_> = specs
        .par_iter()
        .filter_map(|(text, plan)| {
            let ptx = plan.ptx();
            let fault = trial::check(plan, ptx.text(), ptx.entry(), &trial::problems(plan));
            println!("{text}: {fault:?}");
            fault.map(|fault| format!("{text}: {fault}"))
        })
        .collect();
    assert!(faults.is_empty(), "{count} specs, false alarms: {faults:#?}");
}

#[test]
fn some_generated_specs_pass() {
    generated_specs_pass(if cfg!(debug_assertions) { 3 } else { 12 }, 1);
}

/// `BSR_SPECS` of them, 500 by default.
#[test]
#[ignore = "takes an hour; cargo test --release -- --ignored"]
fn five_hundred_generated_specs_pass() {
    let count = std::env::var("BSR_SPECS").ok().and_then(|n| n.parse().ok()).unwrap_or(500);
    generated_specs_pass(count, 7);
}
