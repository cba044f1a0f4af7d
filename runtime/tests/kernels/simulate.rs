//! The kernels of a table on the simulator: the same rows, each on one small problem. Needs no GPU.

use std::collections::BTreeSet;
use std::time::Instant;

use bsr_codegen::{KernelSpec, TileScheduler};
use bsr_runtime::kernel::arguments::ByKind;
use bsr_runtime::simulated::{Fp8Accumulate, Options, Simulated};
use bsr_runtime::typed::{Number, Typed, with_types};
use bsr_runtime::{Dense, Layout, Results};
use rayon::prelude::*;

use crate::case::{Case, Factors, Failure};
use crate::run::{Judged, Worst};
use crate::tell;

/// Clusters that share a small problem: each has several tiles.
const CLUSTERS: u32 = 2;

/// Whether the simulator runs every kernel of a table, which `BSR_EVERY_KERNEL` asks for: its few seconds a hundred kernels add up
/// over all tables.
pub(crate) fn every_kernel() -> bool {
    std::env::var_os("BSR_EVERY_KERNEL").is_some()
}

/// Runs the kernels of a table, each once: one in `stride` shares, or [all](every_kernel).
///
/// # Panics
/// When kernels fail, after all have run, with one paragraph for each.
pub(crate) fn simulate_table(name: &str, cases: &[Case], stride: usize) {
    let mut met = BTreeSet::new();
    let kernels: Vec<Case> = cases.iter().filter(|case| met.insert(case.spec)).map(Case::small).collect();
    simulate(name, &kernels, stride, CLUSTERS);
}

/// Runs cases as they are, with so many clusters.
///
/// # Panics
/// As [`simulate_table`].
pub(crate) fn simulate(name: &str, kernels: &[Case], stride: usize, clusters: u32) {
    let start = Instant::now();
    let stride = if every_kernel() { 1 } else { stride };
    let chosen: Vec<&Case> = kernels.iter().step_by(stride).collect();
    let run = |case: &&Case| with_types(&case.spec, Simulate { case, clusters });
    let outcomes: Vec<_> = chosen.par_iter().map(|case| (*case, run(case))).collect();
    let (mut worst, mut failures) = (Worst::default(), vec![]);
    for (case, outcome) in &outcomes {
        match outcome {
            Ok(judged) => worst.add(case, judged),
            Err(error) => failures.push(format!("{case}\n    {error}")),
        }
    }
    tell(format_args!(
        "{name}, simulated: {} of {} kernels, {} failures; largest errors: {worst}; {:.1} s",
        chosen.len(),
        kernels.len(),
        failures.len(),
        start.elapsed().as_secs_f64()
    ));
    assert!(
        failures.is_empty(),
        "{name}: {} of {} kernels failed\n\n{}",
        failures.len(),
        chosen.len(),
        failures.join("\n\n")
    );
}

struct Simulate<'r> {
    case: &'r Case,
    clusters: u32,
}

impl Typed for Simulate<'_> {
    type Output = Judged;
    type Error = Failure;

    fn run<A: Number, B: Number, C: Number>(self) -> Result<Judged, Failure> {
        let case = self.case;
        let plan = case.plan()?;
        let ptx = plan.ptx();
        let kernel = Simulated::new(&plan, ptx.text(), ptx.entry())?.with_clusters(self.clusters);
        let Factors { a, b, scales, inputs, want } = case.factors::<A, B>()?;
        let (Results { c, rows }, report) =
            kernel.multiply::<C, _>(ByKind(&a, &b, inputs.scales(scales)), &options(&case.spec))?;
        if let Some(first) = report.findings.first() {
            return Err(format!("{} findings, the first: {first}", report.findings.len()).into());
        }
        // What C is given to add to has padding of its own.
        if !plan.stores_by_tma() && !case.spec.beta().is_on() {
            unpadded(&c)?;
        }
        if plan.tile_scheduler() == TileScheduler::Static && report.cost.steps == 0 {
            return Err("nothing was simulated".into());
        }
        Judged::of(&c, rows.as_deref(), &want)
    }
}

/// FP8 is summed as Hopper's tensor core does.
fn options(spec: &KernelSpec) -> Options {
    let fp8 = if spec.a.is_fp8() { Fp8Accumulate::Reduced } else { Fp8Accumulate::Single };
    Options { fp8, seed: u64::from(spec.bm + spec.bn + spec.bk), ..Options::default() }
}

/// An error if the padding behind a line was written.
fn unpadded<C: Number>(c: &Dense<C>) -> Result<(), Failure> {
    let line = if c.layout() == Layout::RowMajor { c.cols() } else { c.rows() };
    for (index, whole) in c.data().chunks(c.ld()).enumerate() {
        let padding = C::to_bytes(&whole[line..]);
        if let Some(at) = padding.iter().position(|byte| *byte != C::POISON_BYTE) {
            return Err(format!("the padding of line {index} was written, {at} B behind its {line} elements").into());
        }
    }
    Ok(())
}
