//! `bsr doctor`: what works on this machine, and what to do about the rest.

use std::io::Write;

use bsr::gpu::cublaslt::CublasLt;
use bsr::gpu::{Device, GpuError};
use bsr::{Arch, Launcher};

use super::exit::{Exit, Failure};
use super::ptxas::Ptxas;
use super::{line, spec};

/// The kernel that is loaded to see whether the driver takes our PTX: the smallest there is.
const SMALLEST: &str = "bm = 64, bn = 64, bk = 64";

/// Tell what works on this machine: driver, GPUs, dense library, ptxas.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Exit with 3 unless a GPU runs the kernels.
    #[arg(long)]
    require_gpu: bool,
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> Result<Exit, Failure> {
    let mut remedies = Vec::new();
    line(out, "bsr", env!("CARGO_PKG_VERSION"))?;
    let gpu = gpus(out, &mut remedies)?;
    let dense = dense_library(gpu.as_ref(), out, &mut remedies)?;
    let ptxas = ptxas(out, &mut remedies)?;

    writeln!(out)?;
    let gpu = gpu.is_some();
    for (command, works) in [
        ("bsr plan", true),
        ("bsr emit", true),
        ("bsr emit --cubin", ptxas),
        ("bsr run, on the simulator", true),
        ("bsr check", true),
        ("bsr run --device gpu", gpu),
        ("bsr bench", gpu),
        ("bsr bench, ratio to the dense library", gpu && dense),
    ] {
        writeln!(out, "{}  {command}", if works { "works " } else { "cannot" })?;
    }
    if !remedies.is_empty() {
        writeln!(out)?;
    }
    remedies.iter().try_for_each(|remedy| writeln!(out, "help: {remedy}"))?;
    Ok(if args.require_gpu && !gpu { Exit::NoDevice } else { Exit::Done })
}

/// Lists the GPUs; the first that loads a kernel.
fn gpus(out: &mut dyn Write, remedies: &mut Vec<String>) -> Result<Option<Device>, Failure> {
    let count = match Device::count() {
        Ok(count) => count,
        Err(error) => {
            line(out, "GPU", first_line(&error, remedies))?;
            return Ok(None);
        }
    };
    let mut usable = None;
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
        let loads = loads(&device);
        let verdict = match &loads {
            Ok(()) => "runs sm_90a kernels",
            Err(failure) => failure.first_line(),
        };
        line(
            out,
            "GPU",
            format_args!(
                "{ordinal}: {}, compute capability {major}.{minor}, {} SMs, {memory:.0} GiB: {verdict}",
                info.name, info.sm_count
            ),
        )?;
        if usable.is_none() && loads.is_ok() {
            usable = Some(device);
        }
    }
    if usable.is_none() {
        remedies
            .push("run --device gpu and bench need a GPU of compute capability 9.0: H100, H200 or GH200".to_owned());
    }
    Ok(usable)
}

/// Has the driver compile the smallest kernel.
fn loads(device: &Device) -> Result<(), Failure> {
    device.check_target(Arch::SM_90A.target)?;
    let planned = spec::plan(SMALLEST)?;
    Launcher::load(device, &planned.plan, planned.ptx.text(), planned.ptx.entry())?;
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
