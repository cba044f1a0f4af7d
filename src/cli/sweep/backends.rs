//! `--device` and `--devices`: which backends measure, each in a child process of its own.

use std::str::FromStr;

use bsr_tuner::backend::{Backend, CompilePool, Limits, Remote};
use bsr_tuner::sweep::{Compiler, PlainCompiler};

use super::super::exit::{Exit, Failure};
use super::super::{invocation, say};

/// The `--device` option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BackendKind {
    Auto,
    Gpu,
    Sim,
    /// For tests: times that a script in `BSR_FAKE` says.
    Fake,
    /// For tests: a GPU, and kernels that the script breaks.
    FaultInjection,
}

impl FromStr for BackendKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "gpu" => Ok(Self::Gpu),
            "sim" => Ok(Self::Sim),
            "fake" => Ok(Self::Fake),
            "fault-injection" => Ok(Self::FaultInjection),
            _ => Err("write auto, gpu or sim; --devices says which GPUs".to_owned()),
        }
    }
}

/// The `--devices` option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Devices {
    All,
    These(Vec<usize>),
}

impl FromStr for Devices {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "write all, or numbers of GPUs: 0,3".to_owned();
        if text == "all" {
            return Ok(Self::All);
        }
        let numbers: Vec<usize> =
            text.split(',').map(|word| word.trim().parse().map_err(|_| wrong())).collect::<Result<_, _>>()?;
        match numbers.iter().enumerate().any(|(at, number)| numbers[..at].contains(number)) {
            true => Err("a GPU is named twice".to_owned()),
            false => Ok(Self::These(numbers)),
        }
    }
}

/// What measures, and what compiles for it.
pub(super) struct Backends {
    pub(super) backends: Vec<Box<dyn Backend + Send>>,
    pub(super) compiler: Box<dyn Compiler>,
}

impl Devices {
    /// The first of the GPUs.
    ///
    /// # Errors
    /// No device.
    pub(super) fn first(&self) -> Result<bsr::gpu::Device, Failure> {
        let number = match self {
            Self::All => 0,
            Self::These(numbers) => numbers.first().copied().unwrap_or(0),
        };
        Ok(bsr::gpu::Device::open(number)?)
    }
}

impl BackendKind {
    /// What `auto` stands for on this machine.
    pub(super) fn resolve(self) -> Self {
        match self {
            Self::Auto if bsr::gpu::Device::is_available() => Self::Gpu,
            Self::Auto => {
                say("no CUDA device: the simulator checks kernels, and their times are predicted");
                Self::Sim
            }
            other => other,
        }
    }

    /// A backend for each of the devices, and what compiles for them: of GPUs, processes of the driver.
    ///
    /// # Errors
    /// No device; a number that no GPU has.
    pub(super) fn backends(self, devices: &Devices, limits: Limits) -> Result<Backends, Failure> {
        let numbers = match (self, devices) {
            (Self::Sim, Devices::All) => vec![0],
            (Self::Gpu | Self::FaultInjection, devices) => {
                let count = bsr::gpu::Device::count()?;
                let numbers = match devices {
                    Devices::All => (0..count).collect(),
                    Devices::These(numbers) => numbers.clone(),
                };
                if let Some(missing) = numbers.iter().find(|number| **number >= count) {
                    let message =
                        format!("there is no GPU {missing}: {count} GPUs, numbered from 0\n  help: --devices all");
                    return Err(Failure::new(Exit::NoDevice, message));
                }
                numbers
            }
            (_, Devices::All) => vec![0],
            (_, Devices::These(numbers)) => numbers.clone(),
        };
        let again = invocation::again()
            .map_err(|error| Failure::wrong(format!("cannot find this program to start backends: {error}")))?;
        let remote = move |number: usize| {
            let (again, name) = (again.clone(), self.name(number));
            let command = move || {
                let mut command = again();
                command.args(["backend", &name]);
                command
            };
            Remote::new(command, limits)
        };
        let backend = |number: &usize| -> Box<dyn Backend + Send> { Box::new(remote(*number)) };
        let backends = numbers.iter().map(backend).collect();
        let compiler: Box<dyn Compiler> = match self {
            Self::Sim => Box::new(PlainCompiler),
            _ => Box::new(CompilePool::new(move |count| remote(numbers[count % numbers.len()]))),
        };
        Ok(Backends { backends, compiler })
    }

    /// What `bsr backend` is told.
    fn name(self, number: usize) -> String {
        match self {
            Self::Sim => "sim".to_owned(),
            Self::Fake => "fake".to_owned(),
            Self::FaultInjection => format!("fault-injection:{number}"),
            Self::Auto | Self::Gpu => format!("gpu:{number}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_numbers_or_all() {
        assert_eq!("all".parse(), Ok(Devices::All));
        assert_eq!("0,3".parse(), Ok(Devices::These(vec![0, 3])));
        for wrong in ["", "0,", "a", "1,1", "-1"] {
            assert!(wrong.parse::<Devices>().is_err(), "{wrong}");
        }
    }
}
