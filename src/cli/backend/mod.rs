//! A GPU as a backend: operands of one workload, kernels that are checked and timed on it, other libraries beside them.

mod baselines;
mod compiler;
mod fault_injection;

use std::rc::Rc;
use std::time::Duration;

use bsr::bench::{self, InterleaveOptions, Power, interleave_watched};
use bsr::gpu::Device;
use bsr::{KernelSpec, Plan};
use bsr_codegen::emit::Ptx;
use bsr_trial::gpu::{Case, OnDevice};
use bsr_trial::subject;
use bsr_trial::verify::{RowChoice, Verdict as OfResult};
use bsr_tuner::backend::{Backend, Candidate, Checked, Opened, Rounds, Timings, Trouble};
use bsr_tuner::{DeviceKind, TuningProblem, Verdict, Workload};

use super::exit::Failure;
use super::progress::Progress;
use super::spec::Planned;
use baselines::Baselines;
pub(super) use compiler::keep_in;
pub(super) use fault_injection::inject;

/// One GPU and the workload that lies on it.
pub(super) struct GpuBackend {
    device: Device,
    edit: Edit,
    open: Option<Open>,
}

/// What is done to the text of a kernel before it is loaded.
type Edit = Rc<dyn Fn(&KernelSpec, Ptx) -> Ptx>;

/// A workload on the device.
struct Open {
    edit: Edit,
    operands: Box<dyn OnDevice>,
    /// Other libraries on the same product; none beside an attention.
    baselines: Option<Baselines>,
    /// Checked kernels, the one used last at the end.
    cases: Vec<Case>,
}

/// Most kernels that stay loaded, each with a C of its own.
const LOADED: usize = 48;

/// Why there is no good result: it is there and wrong, or it is not there.
enum Bad {
    Wrong(Failure),
    Failed(Failure),
}

impl<E: Into<Failure>> From<E> for Bad {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

impl GpuBackend {
    pub(super) fn new(device: Device) -> Self {
        Self::editing(device, |_, ptx| ptx)
    }

    /// A backend that edits the text of its kernels before it loads them: fault injection, for tests.
    pub(super) fn editing(device: Device, edit: impl Fn(&KernelSpec, Ptx) -> Ptx + 'static) -> Self {
        Self { device, edit: Rc::new(edit), open: None }
    }

    /// What to make of a failure of a candidate, or of the backend.
    fn trouble(&self, candidate: Option<usize>, bad: Bad) -> Trouble {
        let (verdict, failure) = match bad {
            Bad::Wrong(failure) => (Verdict::Wrong, failure),
            Bad::Failed(failure) => (Verdict::Refused, failure),
        };
        // An error that the context keeps answers every call: nothing can be done here any more.
        let lost = self.device.synchronize().is_err();
        let report = failure.into_report();
        let message = report.strip_prefix("error: ").unwrap_or(&report).to_owned();
        Trouble { verdict: if lost { Verdict::Fault } else { verdict }, candidate, message, lost }
    }

    fn draw(&self, workload: &Workload) -> Result<(TuningProblem, Open), Failure> {
        let (subject, spec) = (subject::of_workload(workload)?, baselines::any_spec(workload));
        let about = subject.about(&spec)?;
        let problem = TuningProblem::new(workload.clone(), &about.structure);
        let baselines = about.has_dense.then(|| Baselines::new(&self.device, &problem)).transpose()?;
        let operands = subject.on(&self.device, RowChoice::Auto, &Progress::new().steps());
        Ok((problem, Open { edit: Rc::clone(&self.edit), operands, baselines, cases: Vec::new() }))
    }

    fn opened(&mut self) -> Result<&mut Open, Trouble> {
        self.open.as_mut().ok_or_else(|| Trouble {
            verdict: Verdict::Refused,
            candidate: None,
            message: "no workload is open".to_owned(),
            lost: true,
        })
    }
}

impl Open {
    /// Loads a kernel, if it is not there, and moves it to the end.
    fn load(&mut self, spec: &KernelSpec) -> Result<(), Failure> {
        if let Some(at) = self.cases.iter().position(|case| case.planned.spec() == spec) {
            let case = self.cases.remove(at);
            self.cases.push(case);
            return Ok(());
        }
        let planned = planned(spec, &self.edit)?;
        let case = self.operands.case(planned)?;
        if self.cases.len() >= LOADED {
            self.cases.remove(0);
        }
        self.cases.push(case);
        Ok(())
    }

    /// Has a candidate where it can be launched.
    fn ready(&mut self, candidate: &Candidate) -> Result<(), Failure> {
        match candidate {
            Candidate::Kernel(spec) => self.load(spec),
            Candidate::Baseline(name) => match (&mut self.baselines, self.operands.product()) {
                (Some(baselines), Some(operands)) => baselines.ready(name, operands),
                _ => Err(Failure::bad_input(format!("`{name}` is no candidate here"))),
            },
        }
    }

    fn check(&mut self, candidate: &Candidate) -> Result<Option<f64>, Bad> {
        self.ready(candidate)?;
        match candidate {
            Candidate::Baseline(name) => self.baselines.as_mut().map_or(Ok(None), |baselines| baselines.check(name)),
            Candidate::Kernel(_) => {
                let Some(case) = self.cases.last_mut() else { return Ok(None) };
                let verdict = case.run()?;
                verified(case, verdict).map(Some).inspect_err(|_| {
                    self.cases.pop();
                })
            }
        }
    }

    /// Everything that is timed, in the order of `candidates`, launches poisoned results.
    fn launches(&mut self, candidates: &[Candidate]) -> Result<Vec<bench::Candidate<'_>>, Failure> {
        let place = |name: &str| candidates.iter().position(|candidate| candidate.name() == name);
        let mut launches: Vec<Option<bench::Candidate<'_>>> = candidates.iter().map(|_| None).collect();
        for case in &mut self.cases {
            if let Some(at) = place(&case.planned.spec().to_string()) {
                case.poison()?;
                launches[at] = Some(case.candidate());
            }
        }
        for (name, launch) in self.baselines.iter_mut().flat_map(Baselines::launches) {
            if let Some(at) = place(&name) {
                launches[at] = Some(launch);
            }
        }
        let missing = launches.iter().position(Option::is_none);
        match missing {
            Some(at) => Err(Failure::bad_input(format!("`{}` is no candidate here", candidates[at].name()))),
            None => Ok(launches.into_iter().flatten().collect()),
        }
    }
}

/// A kernel whose spec was told to a backend.
fn planned(spec: &KernelSpec, edit: &Edit) -> Result<Planned, Failure> {
    let plan = Plan::new(spec).map_err(Failure::bad_input)?;
    Ok(Planned { ptx: edit(spec, plan.ptx()), ..plan.into() })
}

/// The error of a right result.
fn verified(case: &Case, verdict: OfResult) -> Result<f64, Bad> {
    let verified = verdict.verify(case.planned.ptx.entry(), case.tolerance(None));
    verified.map_err(|failure| Bad::Wrong(failure.into()))?;
    Ok(verdict.comparison.relative)
}

impl Backend for GpuBackend {
    fn open(&mut self, workload: &Workload) -> Result<Opened, Trouble> {
        // What is on the device from the workload before goes first.
        self.open = None;
        let info = self.device.info();
        let device = bsr_tuner::DeviceId { kind: DeviceKind::Gpu, name: info.name.clone(), driver: info.driver() };
        let (problem, open) = self.draw(workload).map_err(|failure| self.trouble(None, Bad::Failed(failure)))?;
        let baselines = open.baselines.as_ref().map(Baselines::list).unwrap_or_default();
        self.open = Some(open);
        Ok(Opened { problem, device, baselines })
    }

    fn compile(&mut self, kernel: &KernelSpec) -> Result<Option<f64>, Trouble> {
        let compiled = planned(kernel, &self.edit).and_then(|planned| compiler::compile(&self.device, &planned));
        compiled.map_err(|failure| self.trouble(Some(0), Bad::Failed(failure)))
    }

    fn check(&mut self, candidate: &Candidate) -> Result<Checked, Trouble> {
        let checked = self.opened()?.check(candidate);
        checked.map(|relative_error| Checked { relative_error }).map_err(|bad| self.trouble(Some(0), bad))
    }

    fn time(&mut self, candidates: &[Candidate], rounds: &Rounds) -> Result<Timings, Trouble> {
        let device = self.device.clone();
        let options = InterleaveOptions {
            warmup: Duration::from_millis(rounds.warmup_ms),
            min_repeats: rounds.least,
            max_repeats: rounds.most,
            target_relative_ci: rounds.relative_ci,
            time_limit: rounds.limit,
            cold: true,
        };
        for (at, candidate) in candidates.iter().enumerate() {
            if let Err(failure) = self.opened()?.ready(candidate) {
                return Err(self.trouble(Some(at), Bad::Failed(failure)));
            }
        }
        let open = self.opened()?;
        let timed = open.launches(candidates).and_then(|mut all| Ok(interleave_watched(&mut all, &options, &device)?));
        let (timings, power) = timed.map_err(|failure| self.trouble(None, Bad::Failed(failure)))?;
        for (at, candidate) in candidates.iter().enumerate() {
            let case = self.opened()?.cases.iter().find(|case| case.planned.spec().to_string() == candidate.name());
            let verified = case.map(|case| verified(case, case.verdict()?));
            if let Some(Err(bad)) = verified {
                return Err(self.trouble(Some(at), bad));
            }
        }
        Ok(Timings {
            samples_us: timings.into_iter().map(|timing| timing.samples_us).collect(),
            power: power.filter(Power::is_settled),
        })
    }
}
