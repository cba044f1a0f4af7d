//! `bsr calibrate`: measures a card, and fits the cost model to it.

use std::io::Write;
use std::time::Duration;

use bsr::bench::{Effort, measure_roofs};
use bsr::gpu::Device;
use bsr::roofs;
use bsr_tuner::Store;
use bsr_tuner::model::{self, Calibration, fitted_rates};
use bsr_tuner::pick::Table;
use bsr_tuner::search::rank_correlation;

use super::exit::{Exit, Failure};
use super::progress::Progress;
use super::{line, sweep};

/// Measure the GPU of this machine and fit the cost model to it: roofs and about thirty kernels, in at most two minutes.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bsr calibrate
  bsr explain \"bm = 64, bk = 64\" --m 4096 --n 4096 --k 4096 --pattern random:0.1

The measurements are stored in cards.json, next to the measured roofs, by the card's name and driver, and all later \
predictions for this card use them.")]
pub(super) struct Args {}

/// Kernels that differ in what the rates of a card decide.
const SPACE: &str = "swap = off, bn = [16, 64, 128, 256], cluster = [1, 2]";
/// Kernels of each product that are timed at most.
const KERNELS: usize = 8;
/// How long the kernels are timed.
const BUDGET: Duration = Duration::from_secs(80);

pub(super) fn run(_: &Args, out: &mut dyn Write) -> Result<Exit, Failure> {
    let folder = tempfile::tempdir()?;
    let database = folder.path().join("calibrate.db");
    let (roofs, sms) = {
        let device = Device::open(0)?;
        let progress = Progress::new();
        let roofs = measure_roofs(&device, Effort::Thorough, &mut |what| progress.step(format!("measuring {what}")))?;
        progress.done();
        (roofs, device.sm_count() as usize)
    };
    sweep::run(&sweep::Args::exhaustive("calibrate", SPACE, &database, KERNELS, BUDGET), out)?;
    let table = Table::best_of(&Store::existing(&database)?.records()?);
    let kernels = table.tuned().iter().flat_map(|tuned| {
        tuned.kernels().filter_map(|(spec, us)| Some((bsr::Plan::new(&spec).ok()?, tuned.problem.clone(), us)))
    });
    let kernels: Vec<_> = kernels.collect();
    if kernels.len() < LEAST {
        return Err(Failure::new(Exit::Wrong, format!("only {} kernels were timed: nothing is fitted", kernels.len())));
    }
    let card = model::for_gpu(&roofs.gpu, None).0.with_roofs(sms, &roofs);
    let fitted = card.with_rates(fitted_rates(&card, kernels.iter().cloned()));
    let measured: Vec<f64> = kernels.iter().map(|(.., us)| *us).collect();
    for (card, what) in [(&card, "before"), (&fitted, "fitted")] {
        let us = |(plan, problem, _): &(bsr::Plan, _, _)| model::predict(plan, problem, card).us;
        let predicted: Vec<f64> = kernels.iter().map(us).collect();
        let rank = rank_correlation(&predicted, &measured).unwrap_or(0.0);
        line(out, what, format_args!("rank correlation of {} predicted and measured times {rank:.2}", kernels.len()))?;
    }
    roofs::place_of_file().map_or(Ok(()), |path| roofs::remember(&path, roofs.clone()))?;
    let path = Calibration::new(&roofs, &fitted, kernels.len(), fitted.rates).remember()?;
    line(out, "card", format_args!("{}, driver {}: remembered in {}", roofs.gpu, roofs.driver, path.display()))?;
    Ok(Exit::Done)
}

/// Kernels that a fit needs.
const LEAST: usize = 10;
