//! The simulator and the analytic model as a backend, without a GPU: the simulator shows on a small instance of a problem
//! whether a kernel is right, and [`predict`] says how long it would take on the whole problem.
//!
//! The simulator's cycles are no times: its cost model has no L2 cache, no contention between CTAs and no clock, and orders
//! kernels unlike a GPU. The analytic model is fitted to a GPU's measurements, so that it orders them.

use std::collections::HashMap;

use bsr_codegen::{KernelSpec, Plan};
use bsr_runtime::simulated::lists::ListKernels;
use bsr_runtime::simulated::{Finding, FindingKind, Options, Report};
use bsr_trial::Failure;
use bsr_trial::simulate::SimulatedKernel;
use bsr_trial::subject;
use bsr_trial::verify::RowChoice;

use super::{Backend, Candidate, Checked, Opened, Rounds, Timings, Trouble, instance};
use crate::model::{Card, predict};
use crate::{DeviceId, DeviceKind, TuningProblem, Verdict, Workload};

/// The simulator, which checks, and the analytic model, which predicts times.
pub struct Sim {
    card: Card,
    open: Option<Open>,
    /// Relative errors of what has been simulated.
    known: HashMap<KernelSpec, f64>,
}

/// What is predicted, and what is simulated for it.
struct Open {
    problem: TuningProblem,
    instance: Workload,
}

impl Default for Sim {
    fn default() -> Self {
        Self { card: Card::h200(), open: None, known: HashMap::new() }
    }
}

impl Sim {
    /// What is simulated in place of a workload.
    ///
    /// # Errors
    /// A workload that does not exist here.
    pub fn instance(workload: &Workload) -> Result<Workload, Trouble> {
        Ok(instance::of(workload)?)
    }

    /// The relative error of a right result.
    fn simulate(&mut self, candidate: &Candidate, at: usize) -> Result<f64, Trouble> {
        let Candidate::Kernel(spec) = candidate else {
            return Err(Trouble::with(Verdict::Refused, at, "the simulator runs no other library's kernels"));
        };
        if let Some(known) = self.known.get(spec) {
            return Ok(*known);
        }
        let workload = &self.open.as_ref().ok_or_else(|| Trouble::of_backend("no workload is open"))?.instance;
        let plan = planned(spec, at)?;
        let of_candidate = |trouble: Trouble| Trouble { candidate: Some(at), ..trouble };
        if spec.batch.is_on() {
            let why = "a kernel for lists of problems: the model has one problem";
            return Err(of_candidate(Failure::bad_input(why).into()));
        }
        let done = simulate(&plan, workload).map_err(of_candidate)?;
        self.known.insert(*spec, done);
        Ok(done)
    }

    /// Microseconds of a right kernel on the whole problem, as the model predicts them.
    fn predicted(&mut self, candidate: &Candidate, at: usize) -> Result<f64, Trouble> {
        self.simulate(candidate, at)?;
        match (candidate, &self.open) {
            (Candidate::Kernel(spec), Some(open)) => Ok(predict(&planned(spec, at)?, &open.problem, &self.card).us),
            _ => Err(Trouble::of_backend("no workload is open")),
        }
    }
}

fn planned(spec: &KernelSpec, at: usize) -> Result<Plan, Trouble> {
    Plan::new(spec).map_err(|errors| Trouble { candidate: Some(at), ..Failure::from(errors).into() })
}

impl Backend for Sim {
    fn open(&mut self, workload: &Workload) -> Result<Opened, Trouble> {
        let problem = TuningProblem::new(workload.clone(), &workload.structure()?);
        self.known.clear();
        self.open = Some(Open { problem: problem.clone(), instance: Self::instance(workload)? });
        let device = DeviceId {
            kind: DeviceKind::Sim,
            name: format!("model of the {}", self.card.name),
            driver: format!("bsr {}; results checked on the simulator", env!("CARGO_PKG_VERSION")),
        };
        Ok(Opened { problem, device, baselines: vec![] })
    }

    fn check(&mut self, candidate: &Candidate) -> Result<Checked, Trouble> {
        Ok(Checked { relative_error: Some(self.simulate(candidate, 0)?) })
    }

    /// One time each: the model has no noise.
    fn time(&mut self, candidates: &[Candidate], _: &Rounds) -> Result<Timings, Trouble> {
        let times = candidates.iter().enumerate();
        let times: Result<_, Trouble> = times.map(|(at, candidate)| Ok(vec![self.predicted(candidate, at)?])).collect();
        Ok(Timings { samples_us: times?, power: None })
    }
}

/// Runs a kernel on the simulator and compares: the relative error of a right result.
fn simulate(plan: &Plan, workload: &Workload) -> Result<f64, Trouble> {
    let ptx = plan.ptx();
    let kernel = SimulatedKernel::of_text(plan, ptx.text(), ptx.entry())?;
    let trial = subject::of_workload(workload)?.trial(plan, false)?;
    let drawn = trial.draw(RowChoice::All)?;
    let lists = ListKernels::own().map_err(Failure::from)?;
    let options = Options { seed: workload.seed, ..Options::default() };
    let ran = drawn.run(&trial.prepare(&kernel, &lists)?, &options)?;
    check_findings(&ran.report)?;
    ran.verdict.verify(ptx.entry(), drawn.tolerance(None))?;
    Ok(ran.verdict.comparison.relative)
}

/// Makes sure that the simulator found nothing.
fn check_findings(report: &Report) -> Result<(), Trouble> {
    let Some(finding) = report.findings.first() else { return Ok(()) };
    let more = report.findings.len() - 1;
    let message =
        format!("{finding}{}", if more > 0 { format!("\n    and {more} more findings") } else { String::new() });
    Err(Trouble::with(verdict(finding), 0, message))
}

/// What a finding would be on a GPU.
fn verdict(finding: &Finding) -> Verdict {
    match finding.kind {
        FindingKind::Deadlock | FindingKind::StepLimit => Verdict::Hang,
        FindingKind::OutOfBounds | FindingKind::Misaligned | FindingKind::TensorCopy | FindingKind::Trap => {
            Verdict::Fault
        }
        _ => Verdict::Wrong,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::super::instance::MOST_FLOPS;
    use super::*;
    use crate::Source;

    fn workload(facts: &str, (m, n, k): (usize, usize, usize), pattern: &str) -> Workload {
        Workload { facts: facts.parse().unwrap(), m, n, k, source: Source::Pattern(pattern.into()), seed: 3 }
    }

    fn kernel(spec: &str) -> Candidate {
        Candidate::Kernel(spec.parse().unwrap())
    }

    const ONCE: Rounds =
        Rounds { warmup_ms: 0, least: 1, most: 1, relative_ci: 0.1, limit: std::time::Duration::from_secs(1) };

    #[test]
    fn a_large_workload_has_a_small_instance_as_dense() {
        for (facts, shape, pattern) in [
            ("bm = 512, bk = 112", (8192, 8192, 8288), "topk:16"),
            ("bm = 128, bk = 128", (8192, 8192, 8192), "random:0.25"),
            ("bm = 64, bk = 64, op = sdd", (8192, 8192, 4096), "random:0.05"),
            ("bm = 32, bk = 64, op = dds, transpose = on", (4096, 4096, 2048), "random:0.1"),
        ] {
            let large = workload(facts, shape, pattern);
            let small = Sim::instance(&large).unwrap();
            let [was, is] = [&large, &small].map(|w| TuningProblem::new(w.clone(), &w.structure().unwrap()));
            assert!(is.executed_flops() <= 2 * MOST_FLOPS && is.executed_flops() > MOST_FLOPS / 16, "{small:?}");
            let ratio = is.features.density() / was.features.density();
            assert!((0.5..2.0).contains(&ratio), "{ratio} {small:?}");
            assert_eq!(Sim::instance(&small).unwrap(), small);
        }
    }

    #[test]
    fn attentions_are_simulated_in_part_and_predicted_whole() {
        let mut sim = Sim::default();
        let heads = crate::Heads { batch: 2, heads: 16, key_heads: 4 };
        for (facts, pattern) in [
            (
                "op = attention, bm = 64, bn = 32, bk = 64, dtype = bf16, score = \"|| if i >= j { s * scale } else { -inf }\"",
                "causal",
            ),
            (
                "op = attention, bm = 128, bn = 16, bk = 64, d = 32, score = \"|a: Rows<f32>, b: Cols<f32>| if a == b { s * scale } else { -inf }\"",
                "topk:8",
            ),
            ("op = attention_dq, bm = 64, bn = 32, bk = 64", "causal"),
            (
                "op = attention_dkv, bm = 128, bn = 32, bk = 64, d = 64, score = \"|a: Rows<f32>, b: Cols<f32>| if a == b { s * scale } else { -inf }\"",
                "topk:8",
            ),
        ] {
            let source = Source::Mask { pattern: pattern.to_owned(), heads };
            let facts: crate::Facts = facts.parse().unwrap();
            let large = Workload { facts, m: 4096, n: 2048, k: facts.spec(64).score_depth() as usize, source, seed: 3 };
            let small = Sim::instance(&large).unwrap();
            assert_eq!((small.m, small.n, small.source.heads().key_heads), (384, 384, 1));
            assert_eq!(Sim::instance(&small).unwrap(), small);
            let opened = sim.open(&large).unwrap();
            assert!(opened.problem.executed_flops() > 1 << 30);
            let candidate = Candidate::Kernel(facts.spec(64));
            assert!(sim.check(&candidate).unwrap().relative_error.unwrap() < 5e-3);
            let times = sim.time(&[candidate], &ONCE).unwrap().samples_us;
            assert!(times[0][0] > 5.0, "{times:?}");
        }
    }

    #[test]
    fn right_kernels_of_every_operation_have_the_time_that_the_model_predicts() {
        let mut sim = Sim::default();
        for (facts, more) in [
            ("bm = 64, bk = 32", ""),
            ("bm = 64, bk = 32, op = dds", ""),
            ("bm = 64, bk = 64, op = sdd", ""),
            ("bm = 64, bk = 64, op = sdd, epilogue = \"|x: Rows<f32>| (acc * x, row_sum(acc))\"", ""),
            ("bm = 64, bk = 64, dtype = e4m3, scale = row_col", ""),
            ("bm = 32, bk = 32", ", mma = mma_sync"),
        ] {
            let opened = sim.open(&workload(facts, (256, 128, 256), "random:0.5")).unwrap();
            assert_eq!(opened.device.kind, DeviceKind::Sim);
            let candidate = kernel(&format!("{facts}, bn = 64{more}"));
            let checked = sim.check(&candidate).unwrap_or_else(|trouble| panic!("{facts}{more}: {trouble}"));
            assert!(checked.relative_error.is_some_and(|error| error < 0.1), "{facts}");
            let times = sim.time(std::slice::from_ref(&candidate), &ONCE).unwrap().samples_us;
            let Candidate::Kernel(spec) = candidate else { panic!("{facts} is no kernel") };
            let wanted = predict(&Plan::new(&spec).unwrap(), &opened.problem, &Card::h200()).us;
            assert_eq!(times, [[wanted]], "{facts}");
        }
    }

    /// What is simulated is small; what is told, and what times are of, is what was asked for.
    #[test]
    fn the_problem_is_told_as_it_was_asked() {
        let mut sim = Sim::default();
        let asked = workload("bm = 64, bk = 64", (4096, 4096, 4096), "topk:16");
        let opened = sim.open(&asked).unwrap();
        assert_eq!(opened.problem.workload, asked);
        let instance = &sim.open.as_ref().unwrap().instance;
        assert!(instance.m * instance.n * instance.k < asked.m * asked.n * asked.k / 8, "{instance:?}");
    }

    #[test]
    fn a_baseline_is_refused() {
        let mut sim = Sim::default();
        sim.open(&workload("bm = 64, bk = 32", (128, 64, 64), "random:0.5")).unwrap();
        let trouble = sim.check(&Candidate::Baseline("cublaslt (dense)".into())).unwrap_err();
        assert_eq!((trouble.verdict, trouble.candidate), (Verdict::Refused, Some(0)));
    }
}
