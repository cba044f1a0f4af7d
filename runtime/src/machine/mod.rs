//! Where kernels run: a GPU, or the simulator.

mod gpu;
mod lists;
#[cfg(feature = "simulator")]
mod sim;

use std::fmt::Debug;
use std::sync::Arc;

use arrayvec::ArrayVec;
use bsr_codegen::{LaunchShape, StridedMap, TensorMap};

use crate::error::KernelError;
use crate::gpu::{MOST_PARAMETERS, UntypedDense, UntypedVector};
pub(crate) use gpu::OnStream;
pub(crate) use lists::{Lists, Work};
#[cfg(feature = "simulator")]
pub(crate) use sim::{ALIGN, Sim, upload};

/// The values of a kernel's parameters on a machine, in order.
pub(crate) type Bound<S> = ArrayVec<<S as Session>::Value, MOST_PARAMETERS>;

/// A kernel on a machine for one launch: with a stream of a GPU, or with memory of the simulator.
pub(crate) trait Session {
    /// Where something is in its memory.
    type Address: Copy + Debug;
    /// What it takes as the value of a parameter.
    type Value;
    /// Why it refuses a launch.
    type Error: From<KernelError>;

    /// An address as a parameter.
    fn pointer(at: Self::Address) -> Self::Value;
    /// 64 bits that are no address as a parameter.
    fn bits(bits: u64) -> Self::Value;
    /// A 32-bit number as a parameter.
    fn number(number: u32) -> Self::Value;
    /// An f32 as a parameter.
    fn float(number: f32) -> Self::Value;

    /// Words as a parameter that has as many.
    fn words(words: Arc<[u32]>) -> Self::Value;

    /// A tensor map of memory at an address.
    ///
    /// # Errors
    /// What the hardware cannot take.
    fn map(&self, at: Self::Address, map: &TensorMap) -> Result<Self::Value, Self::Error>;

    /// The same of rank 4.
    ///
    /// # Errors
    /// As [`Session::map`].
    fn strided(&self, at: Self::Address, map: &StridedMap) -> Result<Self::Value, Self::Error>;

    /// The address of a tensor that a kernel reads or writes in vectors.
    ///
    /// # Errors
    /// As [`Session::map`].
    fn rows(&self, at: Self::Address, map: &StridedMap) -> Result<Self::Value, Self::Error>;

    /// Sets every element of a matrix to zero, ahead of the launch.
    ///
    /// # Errors
    /// The driver's.
    ///
    /// # Safety
    /// The memory must be alive until this is done, with nothing else using it meanwhile.
    unsafe fn zero(&mut self, matrix: &UntypedDense<Self::Address>) -> Result<(), Self::Error>;

    /// Sets every element of an f32 vector, ahead of the launch.
    ///
    /// # Errors
    /// The driver's.
    ///
    /// # Safety
    /// As [`Session::zero`]; the vector must be of f32.
    unsafe fn fill(&mut self, vector: UntypedVector<Self::Address>, value: f32) -> Result<(), Self::Error>;

    /// Launches the kernel.
    ///
    /// # Errors
    /// The driver's, or the simulator's; what a kernel does wrong there is no error, but part of its report.
    ///
    /// # Safety
    /// The values must be those of the kernel's parameters, and what they point to must be alive until the kernel is done,
    /// with nothing else using what it writes.
    unsafe fn launch(&mut self, shape: &LaunchShape, values: &Bound<Self>) -> Result<(), Self::Error>
    where
        Self: Sized;
}
