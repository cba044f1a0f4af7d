//! `bsr backend`: the child process of a sweep that checks and times kernels, so that one that hangs or faults ends only it.

use std::io::{stdin, stdout};

use bsr::KernelSpec;
use bsr::gpu::Device;
use bsr_tuner::backend::{Backend, CrashMode, Fake, Script, Sim, serve};

use super::backend::{GpuBackend, inject};
use super::exit::{Exit, Failure};

/// Answer a sweep's calls on standard input and output.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// gpu:N, sim, or what a script in BSR_FAKE says: fake, times made up; fault-injection:N, kernels broken on a GPU.
    device: String,
}

pub(super) fn run(args: &Args) -> Result<Exit, Failure> {
    let mut backend = backend(&args.device)?;
    // With the parent gone, nobody wants the answer.
    let orphaned = || std::process::exit(Exit::Wrong as i32);
    serve(backend.as_mut(), stdin(), stdout(), orphaned)
        .map_err(|error| Failure::wrong(format!("the sweep cannot be answered: {error}")))?;
    Ok(Exit::Done)
}

fn backend(device: &str) -> Result<Box<dyn Backend>, Failure> {
    match device {
        "sim" => Ok(Box::new(Sim::default())),
        "fake" => Ok(Box::new(Fake::new(script()?, 0, CrashMode::Real))),
        other => match other.split_once(':').map(|(kind, number)| (kind, number.parse())) {
            Some(("gpu", Ok(number))) => Ok(Box::new(GpuBackend::new(Device::open(number)?))),
            Some(("fault-injection", Ok(number))) => {
                let script = script()?;
                let edit = move |spec: &KernelSpec, ptx| inject(&script, &spec.to_string(), ptx);
                Ok(Box::new(GpuBackend::editing(Device::open(number)?, edit)))
            }
            _ => Err(Failure::new(Exit::NoDevice, format!("no backend `{other}`\n  help: gpu:0, or sim"))),
        },
    }
}

fn script() -> Result<Script, Failure> {
    let script = std::env::var("BSR_FAKE").unwrap_or_default();
    script.parse().map_err(Failure::bad_input)
}
