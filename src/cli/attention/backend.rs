//! Attentions of a workload on a GPU, for `bsr sweep`: kernels that are checked and timed on the same tensors.

use std::rc::Rc;

use bsr::attention::{DeviceTensor, Problem, Wanted};
use bsr::bench::{InterleaveOptions, Power, interleave_watched};
use bsr::gpu::Device;
use bsr::{Dtype, KernelSpec, bf16, f16};
use bsr_runtime::typed::Number;
use bsr_tuner::Workload;
use bsr_tuner::backend::Timings;

use super::super::exit::Failure;
use super::super::spec::Planned;
use super::problem::of_workload;
use super::run::{ROWS, Ready, uploaded};

/// Most kernels that stay loaded, each with an O of its own.
const LOADED: usize = 24;

/// A workload's attention on a device.
pub(in super::super) trait OnDevice {
    /// Loads a kernel, if it is not there, and compares its result: the relative error.
    ///
    /// # Errors
    /// Wrong: a wrong result. Those of the device.
    fn check(&mut self, planned: &Planned) -> Result<f64, Failure>;

    /// Times kernels that were checked in turn.
    ///
    /// # Errors
    /// Those of the device.
    fn time(&mut self, kernels: &[KernelSpec], options: &InterleaveOptions) -> Result<Timings, Failure>;

    /// Compares what the last launch of a kernel computed.
    ///
    /// # Errors
    /// As [`OnDevice::check`].
    fn judge(&self, kernel: &KernelSpec) -> Result<(), Failure>;
}

/// Draws the tensors of a workload.
///
/// # Errors
/// Bad input: a pattern that cannot be had. Those of the device.
pub(in super::super) fn open(device: &Device, workload: &Workload) -> Result<Box<dyn OnDevice>, Failure> {
    Ok(match workload.facts.spec(64).a {
        Dtype::BF16 => Box::new(Open::<bf16>::new(device, workload)?),
        _ => Box::new(Open::<f16>::new(device, workload)?),
    })
}

struct Open<T: Number> {
    device: Device,
    problem: Problem,
    tensors: Rc<[DeviceTensor<T>; 3]>,
    wanted: Wanted,
    /// Checked kernels, the one used last at the end.
    ready: Vec<(KernelSpec, Ready<T>)>,
}

impl<T: Number> Open<T> {
    fn new(device: &Device, workload: &Workload) -> Result<Self, Failure> {
        let spec = workload.facts.spec(64);
        let problem = of_workload(workload, &spec)?;
        let host = problem.tensors::<T>();
        let wanted = problem.wanted(&spec, &host, ROWS);
        let tensors = Rc::new(uploaded(device, &host)?);
        Ok(Self { device: device.clone(), problem, tensors, wanted, ready: vec![] })
    }
}

impl<T: Number> OnDevice for Open<T> {
    fn check(&mut self, planned: &Planned) -> Result<f64, Failure> {
        let spec = planned.spec();
        if let Some(at) = self.ready.iter().position(|(known, _)| known == spec) {
            let known = self.ready.remove(at);
            let error = known.1.error;
            self.ready.push(known);
            return Ok(error);
        }
        let ready = Ready::of(&self.device, planned, (&self.problem, Rc::clone(&self.tensors)), &self.wanted)?;
        if self.ready.len() >= LOADED {
            self.ready.remove(0);
        }
        let error = ready.error;
        self.ready.push((*spec, ready));
        Ok(error)
    }

    fn time(&mut self, kernels: &[KernelSpec], options: &InterleaveOptions) -> Result<Timings, Failure> {
        let mut launches: Vec<_> = vec![];
        for (spec, ready) in &mut self.ready {
            if let Some(at) = kernels.iter().position(|kernel| kernel == spec) {
                ready.poison()?;
                launches.push((at, ready.candidate(&spec.to_string())));
            }
        }
        launches.sort_by_key(|(at, _)| *at);
        let mut candidates: Vec<_> = launches.into_iter().map(|(_, candidate)| candidate).collect();
        let (timings, power) = interleave_watched(&mut candidates, options, &self.device)?;
        Ok(Timings {
            samples_us: timings.into_iter().map(|timing| timing.samples_us).collect(),
            power: power.filter(Power::is_settled),
        })
    }

    fn judge(&self, kernel: &KernelSpec) -> Result<(), Failure> {
        match self.ready.iter().find(|(known, _)| known == kernel) {
            Some((_, ready)) => ready.judge(&self.wanted).map(|_| ()),
            None => Ok(()),
        }
    }
}
