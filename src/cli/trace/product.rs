//! A product or an SDDMM that is traced.

use std::rc::Rc;

use bsr::KernelSpec;
use bsr::bench::{InterleaveOptions, interleave};
use bsr::gpu::Device;
use bsr::simulated::Options;
use bsr_tuner::{Facts, Workload};

use super::super::case::Case;
use super::super::exit::Failure;
use super::super::operands::Operands;
use super::super::problem::DrawnProblem;
use super::super::progress::Progress;
use super::super::simulate;
use super::super::spec::Planned;
use super::super::verdict::CheckArgs;
use super::subject::{About, Both, OnGpu, Subject};

pub(super) struct Traced {
    problem: Rc<DrawnProblem>,
    check: CheckArgs,
}

impl Traced {
    pub(super) fn boxed(problem: DrawnProblem, check: CheckArgs) -> Box<dyn Subject> {
        Box::new(Self { problem: Rc::new(problem), check })
    }
}

impl Subject for Traced {
    fn about(&self, spec: &KernelSpec) -> Result<About, Failure> {
        let facts = self.problem.facts(spec)?;
        Ok(About {
            problem: self.problem.words(spec),
            sparse: (facts.name, self.problem.sparse_words(&facts)),
            flops: facts.structure.executed_flops(self.problem.sizes(spec).along),
        })
    }

    fn workload(&self, spec: &KernelSpec) -> Workload {
        self.problem.workload(&Facts::of(spec))
    }

    fn simulate(&self, probed: &Planned, options: &Options) -> Result<Option<Vec<u32>>, Failure> {
        let kernel = simulate::loaded(probed)?;
        let done = simulate::multiply(kernel.clone(), &self.problem, &self.check, options)?;
        done.judge(probed, self.check.tolerance(probed.spec(), done.longest, done.tolerance))?;
        Ok(kernel.records())
    }

    fn time(&self, device: &Device, (plain, probed): Both, options: &InterleaveOptions) -> Result<OnGpu, Failure> {
        let progress = Progress::new();
        let mut operands = Operands::new(&self.problem, device, self.check.rows, &progress);
        let mut cases = [Case::new(plain, &mut operands)?, Case::new(probed, &mut operands)?];
        progress.step("multiplying and comparing");
        for case in &mut cases {
            let tolerance = self.check.tolerance(case.planned.spec(), case.longest, case.tolerance);
            case.check()?.judge(case.planned.ptx.entry(), tolerance)?;
        }
        progress.done();
        let mut candidates: Vec<_> = cases.iter_mut().map(Case::candidate).collect();
        let timings = interleave(&mut candidates, options, device)?;
        drop(candidates);
        let Some(launcher) = cases[1].launcher() else {
            return Ok(OnGpu { timings, attributes: None, words: None });
        };
        Ok(OnGpu { timings, attributes: Some(launcher.function().attributes()?), words: launcher.records()? })
    }
}
