//! The project's own kernels on the simulator, against the f64 reference.

use bsr_codegen::{Dtype, KernelSpec, Plan, Ptx};
use bsr_runtime::reference::{Comparison, multiply};
use bsr_runtime::simulated::Simulated;
use bsr_runtime::{Bsr, Dense, Element, Pattern, Results, Structure};
use bsr_simulator::{Options, Report};
use half::{bf16, f16};

/// A multiplication to run.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) m: usize,
    pub(crate) n: usize,
    pub(crate) k: usize,
    /// Blocks of every block row, or a pattern.
    pub(crate) blocks: Blocks,
    pub(crate) clusters: u32,
}

#[derive(Clone, Debug)]
pub(crate) enum Blocks {
    Pattern(Pattern),
    /// The number of blocks of each block row, at the first columns.
    Rows(Vec<usize>),
}

impl Case {
    pub(crate) fn new(m: usize, n: usize, k: usize, pattern: Pattern) -> Self {
        Self { m, n, k, blocks: Blocks::Pattern(pattern), clusters: 2 }
    }
}

/// What came of it.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) report: Report,
    /// Relative error, infinite where something is not a number.
    pub(crate) error: f64,
}

pub(crate) fn plan(spec: &str) -> Plan {
    let spec: KernelSpec = spec.parse().unwrap_or_else(|e| panic!("{e}"));
    Plan::new(&spec).unwrap_or_else(|e| panic!("{e}"))
}

/// Runs `text` (the plan's own PTX, or what somebody made of it).
pub(crate) fn run(plan: &Plan, text: &str, entry: &str, case: &Case, options: &Options) -> Done {
    let out = plan.spec().out;
    match (plan.spec().a, out) {
        (Dtype::F16, Dtype::F16) => typed::<f16, f16>(plan, text, entry, case, options),
        (Dtype::F16, Dtype::BF16) => typed::<f16, bf16>(plan, text, entry, case, options),
        (Dtype::F16, Dtype::F32) => typed::<f16, f32>(plan, text, entry, case, options),
        (Dtype::BF16, Dtype::BF16) => typed::<bf16, bf16>(plan, text, entry, case, options),
        (Dtype::BF16, Dtype::F16) => typed::<bf16, f16>(plan, text, entry, case, options),
        (Dtype::BF16, Dtype::F32) => typed::<bf16, f32>(plan, text, entry, case, options),
        (a, out) => panic!("{a} to {out} stands in the kernels' tests of the runtime"),
    }
}

pub(crate) fn run_own(plan: &Plan, case: &Case, options: &Options) -> Done {
    let ptx: Ptx = plan.ptx();
    run(plan, ptx.text(), ptx.entry(), case, options)
}

fn structure(case: &Case, block: (usize, usize)) -> Structure {
    match &case.blocks {
        Blocks::Pattern(p) => p.structure(case.m, case.k, block, 7).unwrap(),
        Blocks::Rows(rows) => {
            let mut row_ptr = vec![0];
            let mut columns = Vec::new();
            for n in rows {
                columns.extend(0..*n as i32);
                row_ptr.push(columns.len() as i32);
            }
            Structure::new(case.m, case.k, block, row_ptr, columns).unwrap()
        }
    }
}

fn typed<T: Element, O: Element>(plan: &Plan, text: &str, entry: &str, case: &Case, options: &Options) -> Done {
    let spec = plan.spec();
    let a = Bsr::<T>::normal(structure(case, (spec.bm as usize, spec.bk as usize)), 1);
    let b = Dense::<T>::normal(case.k, case.n, spec.b_layout, 2);
    let kernel = Simulated::new(plan, text, entry).unwrap_or_else(|e| panic!("{e}")).with_clusters(case.clusters);
    let (Results { c, .. }, report) = kernel.multiply::<O, _>((&a, &b), options).unwrap_or_else(|e| panic!("{e}"));
    let want = multiply(&a, &b).unwrap();
    let compared = Comparison::of_dense(&c, &want).unwrap();
    let error = if compared.not_finite > 0 { f64::INFINITY } else { compared.relative };
    Done { report, error }
}

/// The largest relative error of a right result.
pub(crate) fn tolerance(plan: &Plan) -> f64 {
    match plan.spec().out {
        Dtype::F16 => 2e-3,
        Dtype::BF16 => 1e-2,
        _ => 1e-5,
    }
}

/// Panics unless the run is clean and right.
pub(crate) fn assert_right(plan: &Plan, done: &Done, what: &str) {
    for f in &done.report.findings {
        eprintln!("{f}");
    }
    assert!(done.report.is_clean(), "{what}: {} findings", done.report.findings.len());
    assert!(done.error <= tolerance(plan), "{what}: relative error {}", done.error);
}
