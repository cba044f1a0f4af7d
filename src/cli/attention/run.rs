//! `bsr run` of an attention: once, on a GPU or on the simulator.

use std::io::Write;
use std::path::Path;
use std::rc::Rc;
use std::time::Instant;

use bsr::attention::{
    DeviceTensor, HeadOrder, Inputs, Launcher, Problem, SimulatedAttention, Tensor, UploadedVectors, Wanted, tolerance,
};
use bsr::bench::{Candidate, InterleaveOptions, Timing, interleave};
use bsr::gpu::{Device, DeviceBuffer, Stream};
use bsr::simulated::{Options, Schedule};
use bsr::{Dtype, bf16, f16};
use bsr_runtime::typed::Number;

use super::super::device::{self, Opened};
use super::super::exit::{Exit, Failure};
use super::super::problem::ProblemArgs;
use super::super::simulate::{findings_in_full, findings_in_words, order, warning};
use super::super::spec::Planned;
use super::super::{line, output, say};
use super::problem::{Defaults, asked};

/// Rows that are compared on a GPU.
pub(super) const ROWS: usize = 512;

/// What is asked for.
pub(in super::super) struct Run<'r> {
    pub(in super::super) planned: &'r Planned,
    pub(in super::super) problem: &'r ProblemArgs,
    pub(in super::super) trace: Option<&'r Path>,
}

/// Computes once and compares; on a GPU, times it too.
///
/// # Errors
/// Wrong: a wrong result or a finding. Bad input: a problem that cannot be had. No device.
pub(in super::super) fn run(
    asked: &Run<'_>,
    opened: Result<Opened, Failure>,
    out: &mut dyn Write,
) -> Result<Exit, Failure> {
    let Run { planned, .. } = *asked;
    let defaults = match opened {
        Ok(Opened::Simulator(_)) => Defaults::SIMULATOR,
        _ => Defaults::GPU,
    };
    let problem = super::problem::asked(asked.problem, planned.spec(), defaults)?;
    line(out, "spec", planned.spec())?;
    line(out, "problem", problem.words())?;
    line(out, "mask", problem.mask_words())?;
    line(out, "kernel", planned.words())?;
    match opened? {
        Opened::Gpu(device) => match planned.spec().a {
            Dtype::BF16 => on::<bf16>(&device, planned, &problem, out),
            _ => on::<f16>(&device, planned, &problem, out),
        },
        Opened::Simulator(why) => {
            out.flush()?;
            if let Some(none) = why {
                say(format_args!("no CUDA device ({}): running the PTX on the simulator", none.first_line()));
            }
            if let Some(warning) = warning(problem.flops()) {
                say(warning);
            }
            match planned.spec().a {
                Dtype::BF16 => simulate::<bf16>(asked, &problem, out),
                _ => simulate::<f16>(asked, &problem, out),
            }
        }
    }
}

fn simulate<T: Number>(asked: &Run<'_>, problem: &Problem, out: &mut dyn Write) -> Result<Exit, Failure> {
    let Run { planned, trace, .. } = *asked;
    let schedule = if trace.is_some() { Schedule::Timed } else { Schedule::Scrambled };
    let options = Options { schedule, seed: problem.seed, trace: trace.is_some(), ..Options::default() };
    let kernel = SimulatedAttention::new(&planned.plan, planned.ptx.text(), planned.ptx.entry())?;
    let tensors = problem.tensors::<T>();
    let wanted = problem.wanted(planned.spec(), &tensors, usize::MAX);
    let start = Instant::now();
    let (values, sums, report) = kernel.run(tensors.each_ref(), &problem.mask, problem.inputs(), &options)?;
    let took = start.elapsed().as_secs_f64();
    line(out, "device", format_args!("the simulator: this PTX on the CPU, schedule {}", order(&options)))?;
    line(out, "checked", format_args!("all {} rows against the f64 reference", wanted.rows.len()))?;
    if !report.is_clean() {
        let words = findings_in_words(&report.findings);
        let text = format!("{words} in {}{}", planned.ptx.entry(), findings_in_full(&report.findings));
        return Err(Failure::wrong(text));
    }
    let most = tolerance(T::DTYPE);
    let error = wanted.verify(&values, &sums)?;
    line(out, "result", format_args!("relative error {error:.1e}; a right one has at most {most:.1e}"))?;
    line(out, "findings", findings_in_words(&report.findings))?;
    let steps = report.cost.steps;
    line(
        out,
        "time",
        format_args!("{took:.2} s of the simulator for {steps} warp instructions; it says nothing of a GPU's"),
    )?;
    if let (Some(path), Some(text)) = (trace, &report.trace) {
        output::write_text(path, text)?;
        line(out, "trace", format_args!("{} B written to {}, for ui.perfetto.dev", text.len(), path.display()))?;
    }
    Ok(Exit::Done)
}

/// A kernel that was compared with the reference, and what it takes to launch it again.
pub(super) struct Ready<T: Number> {
    launcher: Launcher,
    pattern: bsr::attention::DevicePattern,
    tensors: Rc<[DeviceTensor<T>; 3]>,
    output: DeviceTensor<T>,
    scale: f32,
    scalars: Vec<f32>,
    vectors: UploadedVectors,
    sums: Vec<f32>,
    pub(super) error: f64,
}

impl<T: Number> Ready<T> {
    /// # Errors
    /// Wrong: a wrong result. Those of the device.
    pub(super) fn new(device: &Device, planned: &Planned, problem: &Problem) -> Result<Self, Failure> {
        let host = problem.tensors::<T>();
        let wanted = problem.wanted(planned.spec(), &host, ROWS);
        Self::of(device, planned, (problem, Rc::new(uploaded(device, &host)?)), &wanted)
    }

    /// The same of tensors that are on the device.
    ///
    /// # Errors
    /// As [`Ready::new`].
    pub(super) fn of(
        device: &Device,
        planned: &Planned,
        (problem, tensors): (&Problem, Rc<[DeviceTensor<T>; 3]>),
        wanted: &Wanted,
    ) -> Result<Self, Failure> {
        let launcher = planned.attention(device)?;
        let pattern = launcher.pattern(&problem.mask, problem.shape)?;
        let mut output = DeviceTensor::<T>::uninit(device, problem.output_sizes(), HeadOrder::HeadsFirst)?;
        output.fill_bytes(T::POISON_BYTE)?;
        let mut sums = DeviceBuffer::<f32>::uninit(device, problem.shape.rows())?;
        let stream = Stream::new(device)?;
        let vectors = UploadedVectors::new(device, &problem.vectors)?;
        let each = vectors.each();
        let inputs = Inputs::from((&tensors[0], &tensors[1], &tensors[2], problem.scale));
        let inputs = inputs.scalars(&problem.scalars).vectors(&each);
        launcher.launch(&stream, inputs, &pattern, &mut output, Some(&mut sums))?;
        stream.synchronize()?;
        let sums = sums.to_vec()?;
        let error = wanted.verify(&output.download()?, &sums)?;
        let (scale, scalars) = (problem.scale, problem.scalars.clone());
        Ok(Self { launcher, pattern, tensors, output, scale, scalars, vectors, sums, error })
    }

    /// Spoils the result, which the next launch must write anew.
    ///
    /// # Errors
    /// Those of the device.
    pub(super) fn poison(&mut self) -> Result<(), Failure> {
        Ok(self.output.fill_bytes(T::POISON_BYTE)?)
    }

    /// Compares what the last launch computed; sums are those of the first one.
    ///
    /// # Errors
    /// Wrong: a wrong result. Those of the device.
    pub(super) fn judge(&self, wanted: &Wanted) -> Result<f64, Failure> {
        Ok(wanted.verify(&self.output.download()?, &self.sums)?)
    }

    /// What launches the kernel.
    pub(super) fn launcher(&self) -> &Launcher {
        &self.launcher
    }

    /// The kernel as something that is timed.
    pub(super) fn candidate(&mut self, name: &str) -> Candidate<'_> {
        let Self { launcher, pattern, tensors, output, scale, scalars, vectors, .. } = self;
        let vectors = vectors.each();
        Candidate::new(name, move |stream| {
            let [q, k, v] = tensors.as_ref();
            let inputs = Inputs::from((q, k, v, *scale)).scalars(scalars).vectors(&vectors);
            launcher.launch(stream, inputs, pattern, output, None)
        })
    }
}

/// Q, K and V on a device.
///
/// # Errors
/// Those of the device.
pub(super) fn uploaded<T: Number>(device: &Device, host: &[Tensor<T>; 3]) -> Result<[DeviceTensor<T>; 3], Failure> {
    let [q, k, v] = host.each_ref().map(|tensor| DeviceTensor::upload(device, tensor));
    Ok([q?, k?, v?])
}

fn on<T: Number>(device: &Device, planned: &Planned, problem: &Problem, out: &mut dyn Write) -> Result<Exit, Failure> {
    let mut ready = Ready::<T>::new(device, planned, problem)?;
    line(out, "device", device::words(device))?;
    let most = tolerance(T::DTYPE);
    line(out, "result", format_args!("relative error {:.1e}; a right one has at most {most:.1e}", ready.error))?;
    let options = InterleaveOptions { min_repeats: 10, max_repeats: 100, ..InterleaveOptions::default() };
    let timings = interleave(&mut [ready.candidate(planned.ptx.entry())], &options, device)?;
    timings.iter().try_for_each(|timing| timed(timing, problem, out))?;
    Ok(Exit::Done)
}

/// Compares a kernel's result, and launches it again: for a profiler.
///
/// # Errors
/// Wrong: a wrong result. Bad input: a problem that cannot be had. Those of the device.
pub(in super::super) fn launch(
    device: &Device,
    planned: &Planned,
    args: &ProblemArgs,
    options: &InterleaveOptions,
) -> Result<(), Failure> {
    fn of<T: Number>(
        device: &Device,
        planned: &Planned,
        problem: &Problem,
        options: &InterleaveOptions,
    ) -> Result<(), Failure> {
        let mut ready = Ready::<T>::new(device, planned, problem)?;
        interleave(&mut [ready.candidate(planned.ptx.entry())], options, device)?;
        Ok(())
    }
    let problem = asked(args, planned.spec(), Defaults::GPU)?;
    match planned.spec().a {
        Dtype::BF16 => of::<bf16>(device, planned, &problem, options),
        _ => of::<f16>(device, planned, &problem, options),
    }
}

/// The time of a kernel, and its rate of executed work.
pub(super) fn timed(timing: &Timing, problem: &Problem, out: &mut dyn Write) -> Result<(), Failure> {
    let us = timing.summary();
    let words = format!(
        "{:.1} us, median of {} from a cold L2 cache (p10 {:.1}, p90 {:.1})",
        us.median, us.samples, us.p10, us.p90
    );
    line(out, "time", words)?;
    Ok(line(out, "rate", format_args!("{:.1} TFLOP/s executed", timing.tflops(problem.flops())))?)
}
