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
use bsr_tuner::backend::{Backend, Candidate, Checked, Opened, Rounds, Timings, Trouble};
use bsr_tuner::{DeviceKind, TuningProblem, Verdict, Workload};

use super::attention::{self, OnDevice};
use super::case::Case;
use super::exit::{Exit, Failure};
use super::operands::Operands;
use super::problem::DrawnProblem;
use super::progress::Progress;
use super::spec::Planned;
use super::verdict::CheckArgs;
use baselines::Baselines;
pub(super) use compiler::keep_in;
pub(super) use fault_injection::inject;

/// One GPU and the workload that lies on it.
pub(super) struct GpuBackend {
    device: Device,
    edit: Edit,
    open: Option<Open>,
    /// The attention that is open in place of a product.
    attention: Option<Box<dyn OnDevice>>,
}

/// What is done to the text of a kernel before it is loaded.
type Edit = Rc<dyn Fn(&KernelSpec, Ptx) -> Ptx>;

/// A workload on the device.
struct Open {
    edit: Edit,
    operands: Operands,
    baselines: Baselines,
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
        Self { device, edit: Rc::new(edit), open: None, attention: None }
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
        let drawn = Rc::new(DrawnProblem::of_workload(workload)?);
        let structure = drawn.facts(&baselines::any_spec(workload))?.structure;
        let problem = TuningProblem::new(workload.clone(), &structure);
        let operands = Operands::new(&drawn, &self.device, CheckArgs::default().rows, &Progress::new());
        let baselines = Baselines::new(&self.device, &drawn, &problem)?;
        Ok((problem, Open { edit: Rc::clone(&self.edit), operands, baselines, cases: Vec::new() }))
    }

    /// Draws an attention; other libraries' are not timed beside it.
    fn open_attention(&mut self, workload: &Workload) -> Result<TuningProblem, Trouble> {
        let structure = bsr_tuner::backend::structure(workload)?;
        let opened = attention::open(&self.device, workload);
        self.attention = Some(opened.map_err(|failure| self.trouble(None, Bad::Failed(failure)))?);
        Ok(TuningProblem::new(workload.clone(), &structure))
    }

    /// Loads and checks a kernel of the attention that is open.
    fn check_attention(&mut self, candidate: &Candidate) -> Result<f64, Bad> {
        let (Candidate::Kernel(spec), Some(attention)) = (candidate, &mut self.attention) else {
            let message = format!("`{}` is no candidate here", candidate.name());
            return Err(Bad::Failed(Failure::bad_input(message)));
        };
        attention.check(&planned(spec, &self.edit)?).map_err(bad)
    }

    fn time_attention(&mut self, candidates: &[Candidate], options: &InterleaveOptions) -> Result<Timings, Trouble> {
        let mut kernels = vec![];
        for (at, candidate) in candidates.iter().enumerate() {
            self.check_attention(candidate).map_err(|bad| self.trouble(Some(at), bad))?;
            kernels.extend(match candidate {
                Candidate::Kernel(spec) => Some(*spec),
                Candidate::Baseline(_) => None,
            });
        }
        let Some(attention) = &mut self.attention else { return Err(Trouble::of_backend("no workload is open")) };
        let timed = attention.time(&kernels, options);
        let judged: Vec<Result<(), Failure>> = kernels.iter().map(|kernel| attention.judge(kernel)).collect();
        let times = timed.map_err(|failure| self.trouble(None, Bad::Failed(failure)))?;
        match judged.into_iter().enumerate().find_map(|(at, judged)| judged.err().map(|failure| (at, failure))) {
            Some((at, failure)) => Err(self.trouble(Some(at), bad(failure))),
            None => Ok(times),
        }
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
        let case = Case::new(planned, &mut self.operands)?;
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
            Candidate::Baseline(name) => self.baselines.ready(name, &mut self.operands),
        }
    }

    fn check(&mut self, candidate: &Candidate) -> Result<Option<f64>, Bad> {
        self.ready(candidate)?;
        match candidate {
            Candidate::Baseline(name) => self.baselines.check(name),
            Candidate::Kernel(_) => {
                let Some(case) = self.cases.last_mut() else { return Ok(None) };
                let verdict = case.check()?;
                judged(case, verdict).map(Some).inspect_err(|_| {
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
        for (name, launch) in self.baselines.launches() {
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

/// What an attention's failure says of its result.
fn bad(failure: Failure) -> Bad {
    if failure.exit() == Exit::Wrong { Bad::Wrong(failure) } else { Bad::Failed(failure) }
}

/// A kernel whose spec was told to a backend.
fn planned(spec: &KernelSpec, edit: &Edit) -> Result<Planned, Failure> {
    let plan = Plan::new(spec).map_err(Failure::bad_input)?;
    Ok(Planned { ptx: edit(spec, plan.ptx()), ..plan.into() })
}

/// The error of a right result.
fn judged(case: &Case, verdict: super::verdict::Verdict) -> Result<f64, Bad> {
    let tolerance = CheckArgs::default().tolerance(case.planned.spec(), case.longest, case.tolerance);
    verdict.judge(case.planned.ptx.entry(), tolerance).map_err(Bad::Wrong)?;
    Ok(verdict.comparison.relative)
}

impl Backend for GpuBackend {
    fn open(&mut self, workload: &Workload) -> Result<Opened, Trouble> {
        // What lies on the device from the workload before goes first.
        (self.open, self.attention) = (None, None);
        let info = self.device.info();
        let device = bsr_tuner::DeviceId { kind: DeviceKind::Gpu, name: info.name.clone(), driver: info.driver() };
        if workload.facts.is_attention() {
            return Ok(Opened { problem: self.open_attention(workload)?, device, baselines: vec![] });
        }
        let (problem, open) = self.draw(workload).map_err(|failure| self.trouble(None, Bad::Failed(failure)))?;
        let baselines = open.baselines.list();
        self.open = Some(open);
        Ok(Opened { problem, device, baselines })
    }

    fn compile(&mut self, kernel: &KernelSpec) -> Result<Option<f64>, Trouble> {
        let compiled =
            planned(kernel, &self.edit).and_then(|planned| compiler::compile(&self.device, planned.ptx.text()));
        compiled.map_err(|failure| self.trouble(Some(0), Bad::Failed(failure)))
    }

    fn check(&mut self, candidate: &Candidate) -> Result<Checked, Trouble> {
        if self.attention.is_some() {
            let checked = self.check_attention(candidate);
            return match checked {
                Ok(error) => Ok(Checked { relative_error: Some(error) }),
                Err(bad) => Err(self.trouble(Some(0), bad)),
            };
        }
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
        if self.attention.is_some() {
            return self.time_attention(candidates, &options);
        }
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
            let judged = case.map(|case| case.verdict().map_err(Bad::Failed).and_then(|verdict| judged(case, verdict)));
            if let Some(Err(bad)) = judged {
                return Err(self.trouble(Some(at), bad));
            }
        }
        Ok(Timings {
            samples_us: timings.into_iter().map(|timing| timing.samples_us).collect(),
            power: power.filter(Power::is_settled),
        })
    }
}
