//! The GPU: devices, modules, memory, tensor maps, launches, streams, events and graphs.
//!
//! Everything here goes through the CUDA driver, which is loaded when the first device is opened: the
//! program builds and starts where there is none, and [`Device::open`] says so in words.
//!
//! ```no_run
//! use bsr_runtime::gpu::{Device, DeviceBuffer, Module, Stream};
//!
//! # fn main() -> Result<(), bsr_runtime::gpu::GpuError> {
//! # let ptx = "";
//! let device = Device::open(0)?;
//! let module = Module::load(&device, ptx)?;
//! let function = module.function("kernel")?;
//! let stream = Stream::new(&device)?;
//! let numbers = DeviceBuffer::from_slice(&device, &[1.0_f32, 2.0])?;
//! println!("{:?}, {} registers", device, function.attributes()?.registers);
//! # let _ = (stream, numbers);
//! # Ok(())
//! # }
//! ```
//!
//! # Order and lifetimes
//! Functions whose name ends in `_on`, and launches, enqueue on a stream; everything else is done when it
//! returns. Buffers, modules and streams hold the device they were made on. A launch does not hold the
//! buffers it works on: its caller keeps them alive, which is why launches are `unsafe`.

mod bsr;
mod buffer;
mod capture;
mod context_order;
mod cubin;
pub mod cublaslt;
#[cfg(feature = "cusparse")]
pub mod cusparse;
mod dense;
mod device;
mod error;
mod event;
mod fingerprint;
mod foreign;
mod graph;
mod inputs;
mod jit_log;
mod l2;
mod launch;
mod library;
mod module;
#[cfg(feature = "nccl")]
pub mod nccl;
pub(crate) mod nvml;
mod order;
mod pattern;
mod scales;
mod stream;
mod symbol;
#[doc(hidden)]
pub mod tensor_map;
mod vector;

pub use bsr::DeviceBsr;
pub(crate) use bsr::{Stored, UntypedBsr};
pub use bsr_codegen::{LaunchShape, Operand, TensorMap, target_runs_on};
pub use buffer::{DeviceBuffer, DevicePtr, Plain};
pub(crate) use capture::Relaxed;
pub use context_order::ContextOrder;
pub use cudarc::driver::sys::{CUstream, CUtensorMap};
pub use dense::DeviceDense;
pub(crate) use dense::UntypedDense;
pub use device::{Device, DeviceInfo};
pub use error::GpuError;
pub use event::Event;
pub use fingerprint::Fingerprint;
pub use graph::Graph;
pub(crate) use inputs::{DeviceInput, NO_INPUTS, held, initial};
pub use inputs::{DeviceInputs, UploadedInputs};
pub use l2::L2Flush;
pub use launch::{LaunchDims, Value, Values, launch, launch_params};
pub(crate) use launch::{MOST_IN_X, MOST_IN_Y, MOST_PARAMETERS};
pub use module::{Function, FunctionAttributes, LoadOptions, Module};
pub use order::DeviceOrder;
#[cfg(feature = "simulator")]
pub(crate) use order::UntypedOrder;
pub(crate) use pattern::{CheckedIndex, ListKernels, Made};
pub use pattern::{DevicePattern, IndexWidth, PatternShape};
pub use scales::DeviceScales;
#[cfg(feature = "simulator")]
pub(crate) use scales::{Range, UntypedScales};
pub use stream::{Stream, StreamRef};
#[doc(hidden)]
pub use tensor_map::TensorMapCache;
pub use tensor_map::{TensorMapError, TensorMapFault};
pub use vector::DeviceVector;
pub(crate) use vector::UntypedVector;
