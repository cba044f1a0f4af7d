//! Which device multiplies.

use std::str::FromStr;

use bsr::gpu::Device;

use super::exit::{Exit, Failure};

/// The `--device` option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DeviceChoice {
    /// The best there is: GPU 0.
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

impl DeviceChoice {
    /// Opens the device and makes sure that it runs code for `target`.
    ///
    /// # Errors
    /// No device: there is none, or it is of another architecture.
    pub(super) fn open(self, target: &str) -> Result<Device, Failure> {
        let ordinal = match self {
            Self::Auto => 0,
            Self::Gpu(ordinal) => ordinal,
            Self::Simulator => {
                return Err(Failure::new(
                    Exit::NoDevice,
                    "the simulator is not built into this version yet\n  help: --device gpu",
                ));
            }
        };
        let device = Device::open(ordinal)?;
        device.check_target(target)?;
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
