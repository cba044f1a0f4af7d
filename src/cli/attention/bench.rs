//! `bsr bench` of attentions: kernels in turn on one problem.

use std::io::Write;
use std::path::Path;

use bsr::attention::Problem;
use bsr::bench::{InterleaveOptions, Power, Timing, interleave_watched};
use bsr::gpu::Device;
use bsr::roofs::{Limit, Roofs};
use bsr::{Dtype, bf16, f16};
use bsr_runtime::typed::Number;
use bsr_tuner::{Facts, TuningProblem};
use serde_json::json;

use super::super::device;
use super::super::exit::{Exit, Failure};
use super::super::problem::ProblemArgs;
use super::super::spec::Planned;
use super::super::{line, output, roofs};
use super::problem::{Defaults, asked, structure, workload};
use super::run::{Ready, timed};

/// Checks kernels, then times them in turn.
///
/// # Errors
/// Wrong: a wrong result. Bad input: kernels of several types. Those of the device.
pub(in super::super) fn bench(
    planned: &[Planned],
    args: &ProblemArgs,
    (device, options): (&Device, &InterleaveOptions),
    json: Option<&Path>,
    out: &mut dyn Write,
) -> Result<Exit, Failure> {
    let Some(first) = planned.first() else { return Ok(Exit::Done) };
    if let Some(other) =
        planned.iter().find(|other| other.spec().a != first.spec().a || other.spec().op != first.spec().op)
    {
        let message = format!(
            "{} and {} are not compared\n  help: attentions of one type in one run",
            first.spec(),
            other.spec()
        );
        return Err(Failure::bad_input(message));
    }
    match first.spec().a {
        Dtype::BF16 => in_turn::<bf16>(planned, args, (device, options), json, out),
        _ => in_turn::<f16>(planned, args, (device, options), json, out),
    }
}

fn in_turn<T: Number>(
    planned: &[Planned],
    args: &ProblemArgs,
    (device, options): (&Device, &InterleaveOptions),
    json: Option<&Path>,
    out: &mut dyn Write,
) -> Result<Exit, Failure> {
    let problems: Vec<Problem> =
        planned.iter().map(|planned| asked(args, planned.spec(), Defaults::GPU)).collect::<Result<_, _>>()?;
    let mut ready: Vec<Ready<T>> = planned
        .iter()
        .zip(&problems)
        .map(|(planned, problem)| Ready::new(device, planned, problem))
        .collect::<Result<_, _>>()?;
    let errors: Vec<f64> = ready.iter().map(|ready| ready.error).collect();
    let mut candidates: Vec<_> =
        ready.iter_mut().zip(planned).map(|(ready, planned)| ready.candidate(planned.ptx.entry())).collect();
    let (timings, power) = interleave_watched(&mut candidates, options, device)?;
    line(out, "device", device::words(device))?;
    if let Some(power) = &power {
        line(out, "power", power.words())?;
    }
    let roofs = roofs::of(device);
    let mut records = String::new();
    for (((planned, problem), timing), error) in planned.iter().zip(&problems).zip(&timings).zip(errors) {
        line(out, "spec", planned.spec())?;
        line(out, "kernel", planned.words())?;
        line(out, "problem", problem.words())?;
        line(out, "mask", problem.mask_words())?;
        line(out, "result", format_args!("relative error {error:.1e}"))?;
        timed(timing, problem, out)?;
        let limit = limit(planned, args, timing, &roofs)?;
        if let Some(limit) = &limit {
            line(out, "limit", limit.to_string().replace('\n', "\n          "))?;
        }
        records.push_str(&record(planned, problem, (timing, limit, power.as_ref()), error, device));
        records.push('\n');
    }
    if let Some(path) = json {
        output::write_text(path, &records)?;
    }
    Ok(Exit::Done)
}

/// What limits a kernel.
fn limit(planned: &Planned, args: &ProblemArgs, timing: &Timing, roofs: &Roofs) -> Result<Option<Limit>, Failure> {
    let workload = workload(args, &Facts::of(planned.spec()), Defaults::GPU)?;
    let structure = structure(&workload)?;
    let problem = TuningProblem::new(workload, &structure);
    Ok(roofs::limit_of(planned, &problem, timing.median_us(), roofs, Some(&structure)))
}

fn record(
    planned: &Planned,
    problem: &Problem,
    (timing, limit, power): (&Timing, Option<Limit>, Option<&Power>),
    error: f64,
    device: &Device,
) -> String {
    let us = timing.summary();
    let shape = &problem.shape;
    json!({
        "spec": planned.spec().to_string(),
        "problem": {
            "batch": shape.batch, "heads": shape.heads, "key_heads": shape.key_heads, "queries": shape.queries,
            "keys": shape.keys, "columns": shape.columns, "pattern": problem.pattern, "seed": problem.seed,
            "stored_blocks": problem.mask.stored(),
        },
        "ptx": planned.ptx.fingerprint(),
        "gpu": device.info().name,
        "driver": device.info().driver(),
        "executed_flops": problem.flops(),
        "time_us": { "median": us.median, "p10": us.p10, "p90": us.p90, "min": us.min, "samples": us.samples },
        "tflops": timing.tflops(problem.flops()),
        "relative_error": error,
        "limit": limit,
        "power": power,
    })
    .to_string()
}
