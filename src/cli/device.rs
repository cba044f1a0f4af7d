//! Which device multiplies.

use std::str::FromStr;

use bsr::gpu::Device;

use super::exit::{Exit, Failure};

/// The `--device` option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DeviceChoice {
    /// The best there is: GPU 0, or the simulator where there is none.
    Auto,
    /// The GPU of this number.
    Gpu(usize),
    /// The simulator, on the CPU.
    Simulator,
}

impl FromStr for DeviceChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "gpu" => Ok(Self::Gpu(0)),
            "sim" => Ok(Self::Simulator),
            _ => text
                .strip_prefix("gpu:")
                .and_then(|ordinal| ordinal.parse().ok())
                .map(Self::Gpu)
                .ok_or_else(|| "write auto, gpu, gpu:1 (the second GPU) or sim".to_owned()),
        }
    }
}

/// What multiplies.
#[derive(Debug)]
pub(super) enum Opened {
    Gpu(Device),
    /// The simulator, and why not a GPU where that was left open.
    Simulator(Option<Failure>),
}

impl DeviceChoice {
    /// Opens a GPU that runs code for `target`, or takes the simulator: where it is asked for, and for `auto` where
    /// there is no such GPU.
    ///
    /// # Errors
    /// No device: the GPU asked for is not there, or is of another architecture.
    pub(super) fn open(self, target: &str) -> Result<Opened, Failure> {
        match self {
            Self::Simulator => Ok(Opened::Simulator(None)),
            Self::Gpu(_) => self.gpu(target).map(Opened::Gpu),
            Self::Auto => match self.gpu(target) {
                Ok(device) => Ok(Opened::Gpu(device)),
                Err(none) if none.exit() == Exit::NoDevice => Ok(Opened::Simulator(Some(none))),
                Err(failure) => Err(failure),
            },
        }
    }

    /// Opens a GPU that runs code for `target`; as [`DeviceChoice::gpu_for`].
    pub(super) fn gpu(self, target: &str) -> Result<Device, Failure> {
        self.gpu_for([target])
    }

    /// Opens a GPU that runs code for all of these targets: for `auto` the first that runs the first target's.
    ///
    /// # Errors
    /// No device: there is none, or it is of another architecture. Bad input: the simulator, which measures nothing.
    pub(super) fn gpu_for<'t>(self, targets: impl IntoIterator<Item = &'t str>) -> Result<Device, Failure> {
        let targets: Vec<&str> = targets.into_iter().collect();
        let device = match (self, targets.first()) {
            (Self::Auto, Some(target)) => Device::open_for(target)?,
            (Self::Auto, None) => Device::open(0)?,
            (Self::Gpu(ordinal), _) => Device::open(ordinal)?,
            (Self::Simulator, _) => {
                return Err(Failure::bad_input(
                    "the simulator measures nothing: its time is not the kernel's\n  help: --device gpu; or `bsr run \
                     --device sim` for the numbers alone",
                ));
            }
        };
        targets.into_iter().try_for_each(|target| device.check_target(target))?;
        Ok(device)
    }
}

/// The device in a few words: its name and its driver.
pub(super) fn words(device: &Device) -> String {
    format!("{}, driver {}", device.info().name, device.info().driver())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_named_by_a_word_and_a_number() {
        assert_eq!("auto".parse(), Ok(DeviceChoice::Auto));
        assert_eq!("gpu".parse(), Ok(DeviceChoice::Gpu(0)));
        assert_eq!("gpu:3".parse(), Ok(DeviceChoice::Gpu(3)));
        assert_eq!("sim".parse(), Ok(DeviceChoice::Simulator));
        for wrong in ["cuda", "gpu:", "gpu:-1", ""] {
            assert!(wrong.parse::<DeviceChoice>().is_err(), "{wrong}");
        }
    }
}
