//! `bsr trace` of an attention: checked, timed beside the kernel without probes, and read.

use std::io::Write;
use std::rc::Rc;

use bsr::attention::SimulatedAttention;
use bsr::bench::{InterleaveOptions, interleave};
use bsr::gpu::Device;
use bsr::simulated::{Options, Schedule};
use bsr::timeline::Clock;
use bsr::{Dtype, bf16, f16};

use super::super::device::{self, Opened};
use super::super::dtypes::Number;
use super::super::exit::{Exit, Failure};
use super::super::problem::ProblemArgs;
use super::super::simulate::{findings_in_full, findings_in_words, order, warning};
use super::super::spec::Planned;
use super::super::trace::{Cost, Recorded, on_simulator};
use super::super::{line, say};
use super::problem::{Defaults, Problem, tolerance};
use super::run::{ROWS, Ready, uploaded};

/// What is asked for.
pub(in super::super) struct Trace<'t> {
    pub(in super::super) planned: &'t Planned,
    pub(in super::super) probed: &'t Planned,
    pub(in super::super) problem: &'t ProblemArgs,
}

/// # Errors
/// Wrong: a wrong result or a finding. Bad input: a problem that cannot be had.
pub(in super::super) fn trace(asked: &Trace<'_>, opened: Opened, out: &mut dyn Write) -> Result<Recorded, Failure> {
    let spec = asked.planned.spec();
    let defaults = match opened {
        Opened::Simulator(_) => Defaults::SIMULATOR,
        Opened::Gpu(_) => Defaults::GPU,
    };
    let problem = Problem::new(asked.problem, spec, defaults)?;
    line(out, "problem", problem.words())?;
    line(out, "mask", problem.mask_words())?;
    out.flush()?;
    match (opened, spec.a) {
        (Opened::Gpu(device), Dtype::BF16) => on::<bf16>(&device, asked, &problem, out),
        (Opened::Gpu(device), _) => on::<f16>(&device, asked, &problem, out),
        (Opened::Simulator(why), dtype) => {
            on_simulator(why.as_ref());
            if let Some(warning) = warning(problem.flops()) {
                say(warning);
            }
            match dtype {
                Dtype::BF16 => simulated::<bf16>(asked, &problem, out),
                _ => simulated::<f16>(asked, &problem, out),
            }
        }
    }
}

fn simulated<T: Number>(asked: &Trace<'_>, problem: &Problem, out: &mut dyn Write) -> Result<Recorded, Failure> {
    let probed = asked.probed;
    let options = Options { schedule: Schedule::Timed, seed: problem.seed, ..Options::default() };
    let kernel = SimulatedAttention::new(&probed.plan, probed.ptx.text(), probed.ptx.entry())?;
    let tensors = problem.tensors::<T>();
    let wanted = problem.wanted(probed.spec(), &tensors, usize::MAX);
    let (values, sums, report) = kernel.run(tensors.each_ref(), &problem.mask, problem.inputs(), &options)?;
    line(out, "device", format_args!("the simulator: the PTX with probes on the CPU, schedule {}", order(&options)))?;
    if !report.is_clean() {
        let words = findings_in_words(&report.findings);
        let text = format!("{words} in {}{}", probed.ptx.entry(), findings_in_full(&report.findings));
        return Err(Failure::new(Exit::Wrong, text));
    }
    wanted.judge(&values, &sums, tolerance(T::DTYPE))?;
    Ok(Recorded { words: kernel.records(), clock: Clock::Simulator, cost: None })
}

fn on<T: Number>(
    device: &Device,
    asked: &Trace<'_>,
    problem: &Problem,
    out: &mut dyn Write,
) -> Result<Recorded, Failure> {
    let host = problem.tensors::<T>();
    let wanted = problem.wanted(asked.planned.spec(), &host, ROWS);
    let tensors = Rc::new(uploaded(device, &host)?);
    let mut plain = Ready::of(device, asked.planned, (problem, Rc::clone(&tensors)), &wanted)?;
    let mut probed = Ready::of(device, asked.probed, (problem, tensors), &wanted)?;
    line(out, "device", device::words(device))?;
    let options = InterleaveOptions { min_repeats: 10, max_repeats: 50, ..InterleaveOptions::default() };
    let timings =
        interleave(&mut [plain.candidate("without probes"), probed.candidate("with probes")], &options, device)?;
    let launcher = probed.launcher();
    let cost = Cost::new(&timings, &launcher.function().attributes()?);
    Ok(Recorded { words: launcher.records()?, clock: Clock::Gpu, cost })
}
