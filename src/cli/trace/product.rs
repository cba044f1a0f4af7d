//! A product or an SDDMM that records what it does: checked, timed beside the kernel without probes, and read.

use std::io::Write;
use std::rc::Rc;
use std::time::Duration;

use bsr::bench::{InterleaveOptions, interleave};
use bsr::gpu::Device;
use bsr::simulated::{Options, Schedule};
use bsr::timeline::Clock;

use super::super::case::Case;
use super::super::device::{self, Opened};
use super::super::exit::Failure;
use super::super::operands::Operands;
use super::super::problem::{Defaults, DrawnProblem, ProblemArgs};
use super::super::progress::Progress;
use super::super::verdict::CheckArgs;
use super::super::{line, say, simulate};
use super::{Both, Cost, Recorded, on_simulator};

/// # Errors
/// Wrong: a wrong result or a finding. Bad input: a problem that cannot be had.
pub(super) fn trace(
    both: Both,
    (problem, check): (&ProblemArgs, &CheckArgs),
    opened: Opened,
    out: &mut dyn Write,
) -> Result<Recorded, Failure> {
    let defaults = match opened {
        Opened::Simulator(_) => Defaults::simulator(both.0.block()),
        Opened::Gpu(_) => Defaults::GPU,
    };
    let problem = Rc::new(DrawnProblem::new(problem, defaults)?);
    let facts = problem.facts(both.0.spec())?;
    line(out, "problem", problem.words(both.0.spec()))?;
    line(out, facts.name, problem.sparse_words(&facts))?;
    out.flush()?;
    match opened {
        Opened::Gpu(device) => on(&device, both, &problem, check, out),
        Opened::Simulator(why) => {
            on_simulator(why.as_ref());
            let flops = facts.structure.executed_flops(problem.sizes(both.0.spec()).along);
            if let Some(warning) = simulate::warning(flops) {
                say(warning);
            }
            simulated(&both, &problem, check, out)
        }
    }
}

fn simulated(
    (_, probed): &Both,
    problem: &DrawnProblem,
    check: &CheckArgs,
    out: &mut dyn Write,
) -> Result<Recorded, Failure> {
    let options = Options { schedule: Schedule::Timed, seed: problem.seed, ..Options::default() };
    let kernel = simulate::loaded(probed)?;
    let done = simulate::multiply(kernel.clone(), problem, check, &options)?;
    line(
        out,
        "device",
        format_args!("the simulator: the PTX with probes on the CPU, schedule {}", simulate::order(&options)),
    )?;
    done.judge(probed, check.tolerance(probed.spec(), done.longest, done.tolerance))?;
    Ok(Recorded { words: kernel.records(), clock: Clock::Simulator, cost: None })
}

fn on(
    device: &Device,
    (planned, probed): Both,
    problem: &Rc<DrawnProblem>,
    check: &CheckArgs,
    out: &mut dyn Write,
) -> Result<Recorded, Failure> {
    let progress = Progress::new();
    let mut operands = Operands::new(problem, device, check.rows, &progress);
    let mut cases = [Case::new(planned, &mut operands)?, Case::new(probed, &mut operands)?];
    progress.step("multiplying and comparing");
    for case in &mut cases {
        let tolerance = check.tolerance(case.planned.spec(), case.longest, case.tolerance);
        case.check()?.judge(case.planned.ptx.entry(), tolerance)?;
    }
    progress.done();
    line(out, "device", device::words(device))?;
    let options = InterleaveOptions {
        min_repeats: 10,
        max_repeats: 50,
        time_limit: Duration::from_secs(2),
        ..InterleaveOptions::default()
    };
    let mut candidates: Vec<_> = cases.iter_mut().map(Case::candidate).collect();
    let timings = interleave(&mut candidates, &options, device)?;
    drop(candidates);
    let Some(launcher) = cases[1].launcher() else {
        return Ok(Recorded { words: None, clock: Clock::Gpu, cost: None });
    };
    let cost = Cost::new(&timings, &launcher.function().attributes()?);
    Ok(Recorded { words: launcher.records()?, clock: Clock::Gpu, cost })
}
