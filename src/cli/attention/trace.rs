//! An attention that is traced.

use std::rc::Rc;

use bsr::attention::{Problem, SimulatedAttention};
use bsr::bench::{InterleaveOptions, interleave};
use bsr::gpu::Device;
use bsr::simulated::Options;
use bsr::{Dtype, KernelSpec, bf16, f16};
use bsr_runtime::typed::Number;
use bsr_tuner::{Facts, Workload};

use super::super::exit::Failure;
use super::super::simulate::{findings_in_full, findings_in_words};
use super::super::spec::Planned;
use super::super::trace::{About, Both, OnGpu, Subject};
use super::problem::of_workload;
use super::run::{ROWS, Ready, uploaded};

/// The attention of a workload; blocks and types are those of each kernel.
pub(in super::super) struct Traced(pub(in super::super) Workload);

impl Traced {
    fn problem(&self, spec: &KernelSpec) -> Result<Problem, Failure> {
        of_workload(&self.workload(spec), spec)
    }
}

impl Subject for Traced {
    fn about(&self, spec: &KernelSpec) -> Result<About, Failure> {
        let problem = self.problem(spec)?;
        Ok(About { problem: problem.words(), sparse: ("mask", problem.mask_words()), flops: problem.flops() })
    }

    fn workload(&self, spec: &KernelSpec) -> Workload {
        Workload { facts: Facts::of(spec), k: spec.score_depth() as usize, ..self.0.clone() }
    }

    fn simulate(&self, probed: &Planned, options: &Options) -> Result<Option<Vec<u32>>, Failure> {
        let problem = self.problem(probed.spec())?;
        match probed.spec().a {
            Dtype::BF16 => simulated::<bf16>(probed, &problem, options),
            _ => simulated::<f16>(probed, &problem, options),
        }
    }

    fn time(&self, device: &Device, both: Both, options: &InterleaveOptions) -> Result<OnGpu, Failure> {
        let problem = self.problem(both.0.spec())?;
        match both.0.spec().a {
            Dtype::BF16 => timed::<bf16>(device, &both, &problem, options),
            _ => timed::<f16>(device, &both, &problem, options),
        }
    }
}

fn simulated<T: Number>(probed: &Planned, problem: &Problem, options: &Options) -> Result<Option<Vec<u32>>, Failure> {
    let kernel = SimulatedAttention::new(&probed.plan, probed.ptx.text(), probed.ptx.entry())?;
    let tensors = problem.tensors::<T>();
    let wanted = problem.wanted(probed.spec(), &tensors, usize::MAX);
    let (values, sums, report) = kernel.run(tensors.each_ref(), &problem.mask, problem.inputs(), options)?;
    if !report.is_clean() {
        let words = findings_in_words(&report.findings);
        let text = format!("{words} in {}{}", probed.ptx.entry(), findings_in_full(&report.findings));
        return Err(Failure::wrong(text));
    }
    wanted.verify(&values, &sums)?;
    Ok(kernel.records())
}

fn timed<T: Number>(
    device: &Device,
    (plain, probed): &Both,
    problem: &Problem,
    options: &InterleaveOptions,
) -> Result<OnGpu, Failure> {
    let host = problem.tensors::<T>();
    let wanted = problem.wanted(plain.spec(), &host, ROWS);
    let tensors = Rc::new(uploaded(device, &host)?);
    let mut plain = Ready::of(device, plain, (problem, Rc::clone(&tensors)), &wanted)?;
    let mut probed = Ready::of(device, probed, (problem, tensors), &wanted)?;
    let timings =
        interleave(&mut [plain.candidate("without probes"), probed.candidate("with probes")], options, device)?;
    let launcher = probed.launcher();
    Ok(OnGpu { timings, attributes: Some(launcher.function().attributes()?), words: launcher.records()? })
}
