//! What can go wrong between the host and a GPU, said plainly.

use std::ffi::CStr;
use std::fmt;

use bsr_codegen::{Refusal, TensorMapError};
use cudarc::driver::result::DriverError;
use cudarc::driver::sys::{self, CUresult};

/// The lowest driver that knows tensor maps, clusters and PTX 8.0, as the driver counts: CUDA 12.0.
pub(crate) const LOWEST_DRIVER: u32 = 12_000;

/// An error of the device half of the runtime.
///
/// `Display` states the fact, the arithmetic where there is some, and the remedy.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum GpuError {
    /// `libcuda` is not on this machine (or is the toolkit's link-time stub).
    #[error(
        "no CUDA driver: libcuda could not be loaded\n  help: install the NVIDIA driver for CUDA 12.0 or newer; planning, emitting PTX and `simulate` work without it"
    )]
    NoDriver,

    /// The driver is older than the kernels need.
    #[error(
        "the CUDA driver is too old: it speaks CUDA {}.{}, these kernels need {}.{} (tensor maps, clusters, PTX 8.0)\n  help: install a newer NVIDIA driver",
        found / 1000, found % 1000 / 10, LOWEST_DRIVER / 1000, LOWEST_DRIVER % 1000 / 10
    )]
    DriverTooOld {
        /// What `cuDriverGetVersion` answered, for instance `11080`.
        found: u32,
    },

    /// The driver is there and sees no GPU.
    #[error(
        "no CUDA device: the driver is installed and sees no GPU\n  help: check `nvidia-smi` and CUDA_VISIBLE_DEVICES"
    )]
    NoDevice,

    /// The ordinal names no GPU.
    #[error("no CUDA device {ordinal}: the driver sees {count}, numbered from 0\n  help: use an ordinal below {count}")]
    NoSuchDevice {
        /// The ordinal that was asked for.
        ordinal: usize,
        /// How many devices there are.
        count: usize,
    },

    /// PTX for another architecture.
    #[error("this PTX is for {target}; {device} is sm_{}{}\n  help: {}", capability.0, capability.1, target_help(target, *capability))]
    WrongTarget {
        /// The `.target` of the PTX.
        target: String,
        /// The device's name.
        device: String,
        /// The device's compute capability.
        capability: (u32, u32),
    },

    /// PTX or an entry name with a NUL byte inside, which the driver would cut short.
    #[error("{what} contains a NUL byte at offset {offset}\n  help: pass text without NUL bytes")]
    NulByte {
        /// What was passed.
        what: &'static str,
        /// Where the byte stands.
        offset: usize,
    },

    /// An option of the driver's compiler that it does not have.
    #[error("`{what}` of {value} is out of range: {least} to {most}")]
    LoadOption {
        /// Which option.
        what: &'static str,
        /// The value that was asked for.
        value: u32,
        /// The least value that it takes.
        least: u32,
        /// The greatest.
        most: u32,
    },

    /// The driver's just-in-time compiler or linker refused a module.
    #[error("the driver refused the module: {driver}\n{log}")]
    Jit {
        /// Name and text of the driver's error.
        driver: String,
        /// The JIT's error log; under each line that names a PTX line, that line.
        log: String,
    },

    /// PTX of a version that the driver does not know yet.
    #[error(
        "the driver speaks CUDA {}.{} and does not know PTX {version}\n  help: install a newer NVIDIA driver, or compile for an older target with the spec key `arch`",
        cuda.0, cuda.1
    )]
    PtxVersion {
        /// The `.version` of the PTX.
        version: String,
        /// The CUDA version the driver speaks.
        cuda: (u32, u32),
    },

    /// Bytes that are not a whole cubin.
    #[error("these {bytes} bytes are no cubin: {why}\n  help: pass the whole file that ptxas wrote")]
    NotACubin {
        /// How many bytes were passed.
        bytes: usize,
        /// What is wrong with them.
        why: &'static str,
    },

    /// The module has no such entry.
    #[error("the module has no entry `{entry}`\n  help: pass the name that follows `.visible .entry` in its PTX")]
    NoSuchEntry {
        /// The name that was asked for.
        entry: String,
    },

    /// More shared memory than a block can have.
    #[error(
        "`{entry}` needs {dynamic} B of dynamic and {fixed} B of static shared memory = {} B a block; {device} allows {limit} B\n  help: fewer stages or a smaller tile",
        u64::from(*dynamic) + u64::from(*fixed)
    )]
    SharedMemory {
        /// The kernel.
        entry: String,
        /// Dynamic shared memory asked for, in bytes.
        dynamic: u32,
        /// Static shared memory of the kernel, in bytes.
        fixed: u32,
        /// The device's name.
        device: String,
        /// What a block can opt in to, in bytes.
        limit: u32,
    },

    /// A grid that cannot be launched.
    #[error(
        "a grid of {} x {} blocks of {block} threads in clusters of {cluster} cannot be launched: {why}",
        grid[0], grid[1]
    )]
    BadGrid {
        /// Blocks of the grid in x and y.
        grid: [u32; 2],
        /// Threads of a block.
        block: u32,
        /// Blocks of a cluster.
        cluster: u32,
        /// Fact and remedy.
        why: &'static str,
    },

    /// A tensor map the hardware cannot take.
    #[error(transparent)]
    TensorMap(#[from] TensorMapError),

    /// Foreign memory that kernels cannot address, or a pattern on the GPU that is wrong or cannot be there.
    #[error(transparent)]
    Refused(#[from] Refusal),

    /// A matrix whose pattern lives on the GPU, where one is asked for whose pattern the host knows.
    #[error(
        "the pattern of this matrix lives on the GPU, and {what} needs it on the host\n  help: `pattern.download()`, and a matrix of that structure"
    )]
    PatternOnDevice {
        /// What needs it.
        what: &'static str,
    },

    /// A host slice and a device buffer of different lengths.
    #[error("{host} elements on the host, {device} on the device\n  help: make them equal")]
    Length {
        /// Elements of the host slice.
        host: usize,
        /// Elements of the device buffer.
        device: usize,
    },

    /// An allocation larger than the address space.
    #[error("{len} elements of {size} B are more bytes than can be addressed")]
    TooLarge {
        /// Elements asked for.
        len: usize,
        /// Bytes of one element.
        size: usize,
    },

    /// The device has no room left.
    #[error(
        "out of device memory: {asked} B asked for, {free} B free of {total} B\n  help: free buffers, or use a smaller problem"
    )]
    OutOfMemory {
        /// Bytes asked for.
        asked: usize,
        /// Bytes free when it failed.
        free: usize,
        /// Bytes the device has.
        total: usize,
    },

    /// A copy or a fill of memory that this crate did not allocate.
    #[error(
        "the matrix lies in foreign memory, whose extent only its owner knows\n  help: copy or fill it with the library that allocated it"
    )]
    ForeignMemory,

    /// A matrix that came back from the device is not a valid host matrix.
    #[error("the downloaded matrix is not valid: {0}")]
    Download(String),

    /// `libcublasLt` is not on this machine.
    #[error(
        "no cuBLASLt: libcublasLt could not be loaded\n  help: install CUDA's cuBLAS library, or name its folder in LD_LIBRARY_PATH; only the dense baseline needs it"
    )]
    NoCublasLt,

    /// A call of cuBLASLt failed.
    #[error("{call} failed: {status}")]
    CublasLt {
        /// The function of the library.
        call: &'static str,
        /// Its status.
        status: String,
    },

    /// A dense problem that cuBLASLt cannot take.
    #[error("cuBLASLt cannot multiply {problem}: {why}")]
    DenseProblem {
        /// The problem in words.
        problem: String,
        /// Fact and remedy.
        why: String,
    },

    /// `libcusparse` is not on this machine.
    #[error(
        "no cuSPARSE: libcusparse could not be loaded\n  help: install CUDA's cuSPARSE library, or name its folder in LD_LIBRARY_PATH; only baselines need it"
    )]
    NoCusparse,

    /// A call of cuSPARSE failed.
    #[error("{call} failed: {status}")]
    Cusparse {
        /// The function of the library.
        call: &'static str,
        /// Its status.
        status: String,
    },

    /// A product that cuSPARSE does not have.
    #[error("cuSPARSE's {format} does not multiply this: {why}")]
    CusparseProblem {
        /// The format.
        format: &'static str,
        /// Fact and arithmetic.
        why: String,
    },

    /// A candidate of a measurement could not be launched, for a reason of its own.
    #[error("`{name}` cannot be launched: {error}")]
    Candidate {
        /// The candidate's name.
        name: String,
        /// Its error.
        error: Box<dyn std::error::Error + Send + Sync>,
    },

    /// A call of the driver failed.
    #[error("{call} failed: {name} ({text}){}", sticky_help(*code))]
    Driver {
        /// The function of the driver.
        call: &'static str,
        /// The driver's number of the error.
        code: u32,
        /// The driver's name of the error.
        name: String,
        /// The driver's text of the error.
        text: String,
    },
}

bsr_codegen::message_as_debug!(GpuError);

impl GpuError {
    /// Whether there is no device that could be used, as opposed to one on which something failed: no driver, no GPU, or
    /// none for which the kernel was compiled.
    pub fn is_no_device(&self) -> bool {
        matches!(
            self,
            Self::NoDriver
                | Self::DriverTooOld { .. }
                | Self::NoDevice
                | Self::NoSuchDevice { .. }
                | Self::WrongTarget { .. }
        )
    }
}

/// Where the target runs, and what runs on a device of this capability.
fn target_help(target: &str, capability: (u32, u32)) -> String {
    let runs = match target {
        "sm_90a" => "sm_90a runs on compute capability 9.0 alone: H100, H200, GH200",
        _ if target.ends_with('a') => "an architecture-specific target runs on its own compute capability alone",
        _ => "the target runs on its own compute capability and later ones",
    };
    let here = match capability {
        (8.., _) => "a kernel with `mma = mma_sync` is compiled for sm_80 and runs on all later GPUs",
        (7, _) => "kernels with `mma = wmma, arch = sm_70` or `mma = scalar` run on GPUs from sm_70 on",
        _ => "no kernel is compiled for GPUs before sm_70",
    };
    let beside = if target == "sm_90a" && capability >= (7, 0) {
        "\n  help: with `fallback = on` the attribute embeds such a kernel beside this one"
    } else {
        ""
    };
    format!("{runs}\n  help: {here}{beside}\n  help: `simulate` runs the same PTX on the CPU")
}

/// Errors after which the context answers every call with the same error.
fn sticky_help(code: u32) -> &'static str {
    const STICKY: [CUresult; 6] = [
        CUresult::CUDA_ERROR_ILLEGAL_ADDRESS,
        CUresult::CUDA_ERROR_MISALIGNED_ADDRESS,
        CUresult::CUDA_ERROR_ILLEGAL_INSTRUCTION,
        CUresult::CUDA_ERROR_LAUNCH_FAILED,
        CUresult::CUDA_ERROR_LAUNCH_TIMEOUT,
        CUresult::CUDA_ERROR_ASSERT,
    ];
    if STICKY.iter().any(|&error| error as u32 == code) {
        "\n  help: a kernel launched earlier failed and took the context with it; start a new process, and run it under compute-sanitizer to see where"
    } else {
        ""
    }
}

/// Turns a driver status into a result that names the call.
#[inline]
pub(crate) fn check(call: &'static str, status: CUresult) -> Result<(), GpuError> {
    if status == CUresult::CUDA_SUCCESS { Ok(()) } else { Err(driver_error(call, status)) }
}

/// Names the call of an error that cudarc returned.
pub(crate) fn named(call: &'static str) -> impl Fn(DriverError) -> GpuError {
    move |DriverError(status)| driver_error(call, status)
}

#[cold]
pub(crate) fn driver_error(call: &'static str, status: CUresult) -> GpuError {
    match status {
        CUresult::CUDA_ERROR_STUB_LIBRARY => GpuError::NoDriver,
        CUresult::CUDA_ERROR_NO_DEVICE => GpuError::NoDevice,
        _ => {
            let (name, text) = words(status);
            GpuError::Driver { call, code: status as u32, name, text }
        }
    }
}

/// The driver's name and text of one of its errors.
pub(crate) fn words(status: CUresult) -> (String, String) {
    let error = DriverError(status);
    let owned = |text: Result<&CStr, DriverError>| text.map(|t| t.to_string_lossy().into_owned());
    (
        owned(error.error_name()).unwrap_or_else(|_| format!("error {}", status as u32)),
        owned(error.error_string()).unwrap_or_else(|_| "no description".into()),
    )
}

/// A status of the driver, for messages that embed one.
pub(crate) struct Words(pub(crate) sys::CUresult);

impl fmt::Display for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, text) = words(self.0);
        write!(f, "{name} ({text})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_hardware_is_told_apart_from_failures() {
        assert!(GpuError::NoDriver.is_no_device());
        assert!(GpuError::DriverTooOld { found: 11_080 }.is_no_device());
        assert!(!GpuError::NoCublasLt.is_no_device());
    }

    #[test]
    fn a_gpu_of_another_architecture_is_told_what_runs_there() {
        let wrong = |target: &str, capability| GpuError::WrongTarget {
            target: target.into(),
            device: "a GPU".into(),
            capability,
        };
        for (capability, key) in [((12, 0), "mma = mma_sync"), ((8, 6), "mma = mma_sync"), ((7, 0), "arch = sm_70")] {
            let error = wrong("sm_90a", capability);
            let text = error.to_string();
            assert!(error.is_no_device() && text.contains(key) && text.contains("`simulate`"), "{text}");
        }
    }

    #[test]
    fn an_old_driver_is_named_by_its_version() {
        let text = GpuError::DriverTooOld { found: 11_080 }.to_string();
        assert!(text.contains("speaks CUDA 11.8, these kernels need 12.0"), "{text}");
    }

    #[test]
    fn a_sticky_error_says_that_the_context_is_gone() {
        let lost = sticky_help(CUresult::CUDA_ERROR_ILLEGAL_ADDRESS as u32);
        assert!(lost.contains("compute-sanitizer"));
        assert_eq!(sticky_help(CUresult::CUDA_ERROR_INVALID_VALUE as u32), "");
    }
}
