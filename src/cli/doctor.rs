//! `bsr doctor`: what works on this machine, and what to do about the rest.

use std::io::Write;
use std::path::Path;

use bsr::Mma;
use bsr::gpu::cublaslt::CublasLt;
use bsr::gpu::{Device, GpuError};
use bsr_tuner::Store;

use super::exit::{Exit, Failure};
use super::ptxas::Ptxas;
use super::sweep::DATABASE;
use super::{line, roofs, spec};

/// The kernel that is loaded to see whether a device runs those of an instruction: about the smallest there is.
const SMALLEST: &str = "bm = 64, bn = 64, bk = 64";

/// Report what works on this machine: driver, GPUs, dense library, ptxas.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Exit with 3 unless a GPU runs the kernels.
    #[arg(long)]
    require_gpu: bool,
    /// Measure the roofs of the first GPU (about 20 seconds) and store them for `bsr bench` and the report.
    #[arg(long)]
    roofs: bool,
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> Result<Exit, Failure> {
    let mut remedies = Vec::new();
    line(out, "bsr", env!("CARGO_PKG_VERSION"))?;
    let gpu = gpus(out, &mut remedies)?;
    let dense = dense_library(gpu.as_ref().map(|usable| &usable.device), out, &mut remedies)?;
    let ptxas = ptxas(out, &mut remedies)?;
    files(out)?;

    writeln!(out)?;
    for (command, works) in [
        ("bsr plan", true),
        ("bsr emit", true),
        ("bsr emit --cubin", ptxas),
        ("bsr run, on the simulator", true),
        ("bsr check", true),
    ] {
        print_status(out, works, command)?;
    }
    let any = gpu.as_ref().map(|usable| usable.runs.as_slice()).unwrap_or_default();
    print_status(out, !any.is_empty(), "bsr run --device gpu")?;
    for mma in Mma::ALL {
        print_status(out, any.contains(&mma), &format!("bsr run --device gpu, mma = {mma}"))?;
    }
    print_status(out, !any.is_empty(), "bsr bench")?;
    print_status(out, !any.is_empty() && dense, "bsr bench, ratio to the dense library")?;
    if !remedies.is_empty() {
        writeln!(out)?;
    }
    remedies.iter().try_for_each(|remedy| writeln!(out, "help: {remedy}"))?;
    if args.roofs {
        let Some(Usable { device, .. }) = &gpu else {
            return Err(Failure::new(
                Exit::NoDevice,
                "no roofs were measured: no GPU runs the kernels\n  help: the lines above say what is missing",
            ));
        };
        roofs::measure(device, out)?;
    }
    Ok(if args.require_gpu && gpu.is_none() { Exit::NoDevice } else { Exit::Done })
}

/// What commands read by default: measured roofs, and the database of sweeps.
fn files(out: &mut dyn Write) -> Result<(), Failure> {
    let place =
        bsr::roofs::place_of_file().map_or("nowhere: there is no HOME".to_owned(), |path| path.display().to_string());
    let measured = match roofs::remembered() {
        Ok(all) if all.is_empty() => "none measured; `bsr doctor --roofs` does".to_owned(),
        Ok(all) => {
            all.iter().map(|roofs| format!("{}, driver {}", roofs.gpu, roofs.driver)).collect::<Vec<_>>().join("; ")
        }
        Err(error) => error.to_string(),
    };
    line(out, "roofs", format_args!("{place}: {measured}"))?;
    let records = match Path::new(DATABASE).exists() {
        false => "not there; `bsr sweep` makes it".to_owned(),
        true => match Store::existing(DATABASE).and_then(|store| store.len()) {
            Ok(count) => format!("{count} records"),
            Err(error) => error.to_string().lines().next().unwrap_or_default().to_owned(),
        },
    };
    Ok(line(out, "database", format_args!("{DATABASE} in this folder: {records}"))?)
}

fn print_status(out: &mut dyn Write, works: bool, command: &str) -> Result<(), Failure> {
    Ok(writeln!(out, "{}  {command}", if works { "works " } else { "cannot" })?)
}

/// A GPU, and the instructions whose kernels it runs.
struct Usable {
    device: Device,
    runs: Vec<Mma>,
}

/// Lists the GPUs; the first that runs kernels of the most kinds.
fn gpus(out: &mut dyn Write, remedies: &mut Vec<String>) -> Result<Option<Usable>, Failure> {
    let count = match Device::count() {
        Ok(count) => count,
        Err(error) => {
            line(out, "GPU", first_line(&error, remedies))?;
            return Ok(None);
        }
    };
    let mut best: Option<Usable> = None;
    for ordinal in 0..count {
        let device = match Device::open(ordinal) {
            Ok(device) => device,
            Err(error) => {
                line(out, "GPU", format_args!("{ordinal}: {}", first_line(&error, remedies)))?;
                continue;
            }
        };
        let info = device.info();
        if ordinal == 0 {
            line(out, "driver", info.driver())?;
        }
        let (major, minor) = info.compute_capability;
        let memory = info.total_memory as f64 / f64::from(1 << 30);
        let (runs, refusals) = loads(&device);
        line(
            out,
            "GPU",
            format_args!(
                "{ordinal}: {}, compute capability {major}.{minor}, {} SMs, {memory:.0} GiB: {}",
                info.name,
                info.sm_count,
                verdict(&runs)
            ),
        )?;
        for (mma, failure) in refusals {
            line(out, "", format_args!("no {mma}: {}", failure.first_line()))?;
        }
        if best.as_ref().is_none_or(|best| runs.len() > best.runs.len()) && !runs.is_empty() {
            best = Some(Usable { device, runs });
        }
    }
    if best.is_none() {
        remedies.push("run --device gpu and bench need a GPU of compute capability 7.0 or above".to_owned());
    }
    Ok(best)
}

fn verdict(runs: &[Mma]) -> String {
    let words: Vec<&str> = runs.iter().map(|mma| mma.as_str()).collect();
    match words.as_slice() {
        [] => "runs no kernels".to_owned(),
        [one] => format!("runs {one} kernels"),
        [most @ .., last] => format!("runs {} and {last} kernels", most.join(", ")),
    }
}

/// Has the driver compile a small kernel of each kind: those that it takes, and why not the others.
fn loads(device: &Device) -> (Vec<Mma>, Vec<(Mma, Failure)>) {
    let (mut runs, mut refusals) = (vec![], vec![]);
    for mma in Mma::ALL {
        match load(device, mma) {
            Ok(()) => runs.push(mma),
            Err(failure) => refusals.push((mma, failure)),
        }
    }
    (runs, refusals)
}

fn load(device: &Device, mma: Mma) -> Result<(), Failure> {
    let planned = spec::plan(&format!("{SMALLEST}, mma = {mma}"))?;
    planned.launcher(device)?;
    Ok(())
}

fn dense_library(gpu: Option<&Device>, out: &mut dyn Write, remedies: &mut Vec<String>) -> Result<bool, Failure> {
    let found = match gpu {
        Some(device) => CublasLt::new(device).map(|library| library.version()),
        None if CublasLt::is_available() => Ok("found; its version can be asked for on a GPU alone".to_owned()),
        None => Err(GpuError::NoCublasLt),
    };
    match &found {
        Ok(version) => line(out, "cuBLASLt", version)?,
        Err(error) => line(out, "cuBLASLt", first_line(error, remedies))?,
    }
    Ok(found.is_ok())
}

fn ptxas(out: &mut dyn Write, remedies: &mut Vec<String>) -> Result<bool, Failure> {
    match Ptxas::find() {
        Ok(ptxas) => {
            let version = ptxas.version().unwrap_or_else(|| "of unknown version".to_owned());
            line(out, "ptxas", format_args!("{version}, {}", ptxas.path().display()))?;
            Ok(true)
        }
        Err(missing) => {
            line(out, "ptxas", first_line(&missing.into_report(), remedies))?;
            Ok(false)
        }
    }
}

/// The fact; the remedies under it are kept for the end.
fn first_line(error: &dyn std::fmt::Display, remedies: &mut Vec<String>) -> String {
    let text = error.to_string();
    let mut lines = text.lines();
    let fact = lines.next().unwrap_or_default();
    remedies.extend(lines.filter_map(|line| line.trim().strip_prefix("help: ")).map(str::to_owned));
    fact.strip_prefix("error: ").unwrap_or(fact).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_gpu_runs_is_one_sentence() {
        assert_eq!(verdict(&[]), "runs no kernels");
        assert_eq!(verdict(&[Mma::Scalar]), "runs scalar kernels");
        assert_eq!(verdict(&Mma::ALL), "runs wgmma, mma_sync, wmma and scalar kernels");
    }
}
