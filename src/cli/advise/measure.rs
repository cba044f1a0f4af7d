//! Times of kernels for each candidate, in turn with the dense library on the whole matrix.

use std::rc::Rc;
use std::time::Duration;

use bsr::advise::{Advice, Candidate, Measured, kernels};
use bsr::bench::{self, InterleaveOptions, Work, interleave};
use bsr::gpu::Device;
use bsr::read::Sparse;
use bsr::{Bsr, Dtype};
use bsr_trial::gpu::Case;
use bsr_trial::problem::DrawnProblem;
use bsr_trial::subject::Subject as _;
use bsr_trial::verify::{RowChoice, Verdict};

use super::super::dense::Dense;
use super::super::device;
use super::super::exit::{Exit, Failure};
use super::super::progress::Progress;
use super::super::spec::Planned;
use super::super::weights::{Weights, WeightsArgs};

/// Measures every candidate that a kernel takes, and says of the others why not.
///
/// # Errors
/// Those of the device, and matrices whose values cannot be had. A wrong result is told on stderr, not timed, and answered
/// with its exit code.
pub(super) fn all(
    advice: &mut Advice,
    weights: &Weights,
    args: &WeightsArgs,
    device: &Device,
    progress: &Progress,
) -> Result<Exit, Failure> {
    let (n, dtype, mut exit) = (advice.n, advice.dtype, Exit::Done);
    let mut dense = Dense::new(device, args.seed, false);
    for candidate in &mut advice.candidates {
        let [bm, bk] = candidate.block;
        let planned = match planned((bm, bk), n, dtype, device) {
            Ok(planned) => planned,
            Err(why) => {
                candidate.not_measured = Some(why);
                continue;
            }
        };
        if candidate.original.blocks == 0 {
            candidate.not_measured = Some("no block is stored".to_owned());
            continue;
        }
        progress.step(format!("measuring {bm}x{bk}"));
        match one(candidate, planned, weights, args, n, device, &mut dense, progress) {
            Ok((measured, right)) => {
                candidate.measured = measured;
                candidate.not_measured = candidate.measured.is_none().then(|| "the result was wrong".to_owned());
                exit = if right { exit } else { Exit::Wrong };
            }
            // It does not fit: others may.
            Err(failure) if failure.exit() == Exit::BadInput => {
                candidate.not_measured = Some(failure.first_line().to_owned());
            }
            Err(failure) => return Err(failure),
        }
    }
    advice.device = Some(device::words(device));
    Ok(exit)
}

/// The fastest right kernel for one candidate, and whether all were right.
#[expect(clippy::too_many_arguments, reason = "one step of the only caller")]
fn one(
    candidate: &Candidate,
    planned: Vec<Planned>,
    weights: &Weights,
    args: &WeightsArgs,
    n: usize,
    device: &Device,
    dense: &mut Dense,
    progress: &Progress,
) -> Result<(Option<Measured>, bool), Failure> {
    let problem = Rc::new(problem(candidate, weights, args, n)?);
    let mut operands = problem.on(device, RowChoice::Auto, &progress.steps());
    let is_right = |case: &Case, verdict: Verdict| {
        let spec = case.planned.spec();
        let verified = verdict.verify(&format!("{} ({spec})", case.planned.ptx.entry()), case.tolerance(None));
        verified.map_err(|failure| progress.hide(|| Failure::from(failure).report())).is_ok()
    };
    let (mut cases, asked) = (Vec::new(), planned.len());
    for planned in planned {
        let mut case = operands.case(planned)?;
        let verdict = case.run()?;
        if is_right(&case, verdict) {
            cases.push(case);
        }
    }
    let Some(first) = cases.first() else { return Ok((None, false)) };
    // The whole matrix as one block: the dense product of the same shape.
    let whole = Work { block: (first.work.m, first.work.k), nnzb: 1, ..first.work };
    let spec = *first.planned.spec();
    dense.add(&whole, &spec)?;
    let at = dense.equal(&whole, &spec);
    let options = InterleaveOptions {
        min_repeats: 20,
        max_repeats: 100,
        time_limit: Duration::from_secs(3),
        ..InterleaveOptions::default()
    };
    let count = cases.len();
    cases.iter_mut().try_for_each(Case::poison)?;
    let mut launches: Vec<bench::Candidate<'_>> = cases.iter_mut().map(Case::candidate).collect();
    launches.extend(dense.candidates().skip(at.unwrap_or(usize::MAX)).take(1));
    let timings = interleave(&mut launches, &options, device)?;
    drop(launches);
    let dense_us = timings.get(count).map(bench::Timing::median_us);
    let (mut fastest, mut right) = (None::<Measured>, 0);
    for (case, timing) in cases.iter().zip(&timings) {
        if !is_right(case, case.verdict()?) {
            continue;
        }
        right += 1;
        let us = timing.median_us();
        if fastest.as_ref().is_none_or(|fastest| us < fastest.us) {
            let useful_tflops = candidate.original.useful_flops / (us * 1e6);
            fastest = Some(Measured { spec: case.planned.spec().to_string(), us, dense_us, useful_tflops });
        }
    }
    Ok((fastest, right == asked))
}

/// The product with the blocks of the candidate alone, in the order of the file.
fn problem(candidate: &Candidate, weights: &Weights, args: &WeightsArgs, n: usize) -> Result<DrawnProblem, Failure> {
    let bad = |error| Failure::bad_input(format!("{}: {error}", args.place().display()));
    // Values that every type holds; what f32 holds of them is more than a measurement needs.
    let largest = weights.sparse.largest();
    let factor = if largest > 0.0 { 1.0 / largest } else { 1.0 };
    let (blocks, _): (Bsr<f32>, _) =
        weights.sparse.clone().scaled(factor).to_bsr_within(&candidate.original.structure).map_err(bad)?;
    Ok(DrawnProblem::of(&args.place(), Sparse::from_bsr(&blocks), n, args.seed)?)
}

/// Kernels for this block that the device runs.
///
/// # Errors
/// Why there is none.
fn planned(block: (usize, usize), n: usize, dtype: Dtype, device: &Device) -> Result<Vec<Planned>, String> {
    let plans = kernels(block, n, dtype)?;
    let target = plans[0].arch().target;
    let runs = plans.into_iter().filter(|plan| device.check_target(plan.arch().target).is_ok());
    let planned: Vec<Planned> = runs.map(Planned::from).collect();
    if planned.is_empty() { Err(format!("its kernels are for {target}")) } else { Ok(planned) }
}
