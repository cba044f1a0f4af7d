//! Times of kernels for each candidate, in turn with the dense library on the whole matrix.

use bsr::advise::{Advice, Candidate, Measured};
use bsr::bench::{self, InterleaveOptions, Work, interleave};
use bsr::gpu::Device;
use bsr::read::Sparse;
use bsr::{Bsr, KernelSpec, Plan};
use std::time::Duration;

use super::super::case::Case;
use super::super::dense::Dense;
use super::super::device;
use super::super::exit::{Exit, Failure};
use super::super::operands::Operands;
use super::super::problem::Problem;
use super::super::progress::Progress;
use super::super::spec::Planned;
use super::super::verdict::{RowsAsked, longest_sum};
use super::super::weights::{Weights, WeightsArgs};

/// Kernels that are tried for one block.
const KERNELS: usize = 3;

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
    let (n, mut exit) = (advice.n, Exit::Done);
    let mut dense = Dense::new(device, args.seed, false);
    for candidate in &mut advice.candidates {
        let [bm, bk] = candidate.block;
        let planned = match kernels((bm, bk), n, device) {
            Ok(planned) => planned,
            Err(why) => {
                candidate.not_measured = Some(why);
                continue;
            }
        };
        if candidate.given.blocks == 0 {
            candidate.not_measured = Some("no block is stored".to_owned());
            continue;
        }
        progress.step(format!("measuring {bm}x{bk}"));
        let (measured, right) = one(candidate, planned, weights, args, n, device, &mut dense, progress)?;
        candidate.measured = measured;
        if !right {
            exit = Exit::Wrong;
        }
        if candidate.measured.is_none() {
            candidate.not_measured = Some("the result was wrong".to_owned());
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
    dense: &mut Dense<'_>,
    progress: &Progress,
) -> Result<(Option<Measured>, bool), Failure> {
    let problem = problem(candidate, weights, args, n)?;
    let mut operands = Operands::new(&problem, device, RowsAsked::Auto, progress);
    let (mut cases, mut right) = (Vec::new(), true);
    for planned in planned {
        let spec = *planned.spec();
        let mut case = Case::new(planned, &mut operands)?;
        let tolerance = bsr::reference::tolerance_of(&spec, longest_sum(&candidate.given.structure));
        match case.check()?.judge(&format!("{} ({spec})", case.planned.ptx.entry()), tolerance) {
            Ok(()) => cases.push(case),
            Err(failure) => {
                progress.hide(|| failure.report());
                right = false;
            }
        }
    }
    let Some(first) = cases.first() else { return Ok((None, right)) };
    // The whole matrix as one block: the dense product of the same shape.
    let whole = Work { block: (problem.m(), problem.k()), nnzb: 1, ..first.work };
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
    let mut launches: Vec<bench::Candidate<'_>> = cases.iter_mut().map(Case::candidate).collect();
    launches.extend(dense.candidates().skip(at.unwrap_or(usize::MAX)).take(1));
    let timings = interleave(&mut launches, &options, device)?;
    drop(launches);
    let dense_us = timings.get(count).map(bench::Timing::median_us);
    let ours = cases.iter().zip(&timings).map(|(case, timing)| (case.planned.spec().to_string(), timing.median_us()));
    let fastest = ours.min_by(|x, y| x.1.total_cmp(&y.1)).map(|(spec, us)| {
        let given = &candidate.given;
        let useful_tflops = given.useful_tflops * given.predicted.us / us;
        Measured { spec, us, dense_us, useful_tflops }
    });
    Ok((fastest, right))
}

/// The product with the blocks of the candidate alone, in the order of the file.
fn problem(candidate: &Candidate, weights: &Weights, args: &WeightsArgs, n: usize) -> Result<Problem, Failure> {
    let bad = |error| Failure::new(Exit::BadInput, format!("{}: {error}", args.file.display()));
    // Values that f16 holds; what f32 holds of them is more than a measurement needs.
    let largest = weights.sparse.largest();
    let factor = if largest > 0.0 { 1.0 / largest } else { 1.0 };
    let (blocks, _): (Bsr<f32>, _) =
        weights.sparse.clone().scaled(factor).to_bsr_within(&candidate.given.structure).map_err(bad)?;
    Problem::of(&args.file, Sparse::from_bsr(&blocks), n, args.seed)
}

/// Kernels for this block that the device runs: the fast family first, of each the widest tiles that can be had and that
/// N fills.
///
/// # Errors
/// Why no kernel takes the block.
fn kernels((bm, bk): (usize, usize), n: usize, device: &Device) -> Result<Vec<Planned>, String> {
    let widths = [512, 256, 128, 64, 32, 16].into_iter().filter(|&bn| bn <= n.next_power_of_two().max(16));
    let (mut planned, mut refused) = (Vec::new(), None);
    for more in [", cluster = 2", "", ", mma = mma_sync"] {
        // A slower family only where the faster one takes nothing.
        if more.contains("mma_sync") && !planned.is_empty() {
            break;
        }
        let before = planned.len();
        for bn in widths.clone() {
            let Ok(spec) = format!("bm = {bm}, bn = {bn}, bk = {bk}{more}").parse::<KernelSpec>() else { continue };
            match Plan::new(&spec) {
                Ok(plan) if device.check_target(plan.arch().target).is_ok() => {
                    let ptx = plan.ptx();
                    planned.push(Planned { plan, ptx });
                }
                Ok(plan) => {
                    refused.get_or_insert(format!("its kernel is for {}", plan.arch().target));
                }
                Err(errors) => {
                    let why = errors.iter().next().map(|error| error.to_string().replace("\n  ", ": "));
                    refused = refused.or(why);
                }
            }
            // Without clusters one width is enough.
            if planned.len() > before + usize::from(!more.is_empty()) {
                break;
            }
        }
    }
    planned.truncate(KERNELS);
    match planned.is_empty() {
        true => Err(refused.unwrap_or_else(|| "no kernel takes this block".to_owned())),
        false => Ok(planned),
    }
}
