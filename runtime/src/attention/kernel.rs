//! Kernels of attention that are known when a program is compiled.

use std::marker::PhantomData;
use std::sync::Arc;

use bsr_codegen::Plan;

use super::launcher::{DevicePattern, DeviceTensor, Inputs, Launcher};
#[cfg(feature = "simulator")]
use super::simulate::{SimulatedAttention, Simulation};
use super::{AttentionError, DeviceMask, DevicePages, Mask, Shape};
#[cfg(feature = "simulator")]
use super::{ScoreInputs, Tensor};
use crate::Element;
use crate::gpu::{Device, DeviceBuffer, Plain, StreamRef};
#[cfg(feature = "simulator")]
use crate::simulated::Options;

/// A kernel of attention: what `#[bsr_kernel(op = attention, ..)]` makes of a function.
pub trait AttentionKernel: Sized + 'static {
    /// The element type of Q, K and V.
    type Element: Element + Plain;
    /// That of O: the same, or of 16 bits where Q, K and V have 8.
    type Output: Element + Plain;
    /// The kernel's text.
    const PTX: &'static str;
    /// Its name in the text.
    const ENTRY: &'static str;

    /// Every number of the kernel.
    fn plan() -> &'static Plan;

    /// Loads the kernel on a device.
    ///
    /// # Errors
    /// The driver's, with its log if it refuses the PTX.
    fn load(device: &Device) -> Result<Loaded<Self>, AttentionError> {
        let launcher = Launcher::load_text(device, Self::plan(), Self::PTX, Self::ENTRY)?;
        Ok(Loaded { launcher, kernel: PhantomData })
    }

    /// Loads the kernel on the first GPU that runs it; [`AttentionError::is_no_device`] tells whether there is none.
    ///
    /// # Errors
    /// Those of [`Device::open_for`] and [`AttentionKernel::load`].
    fn open() -> Result<Loaded<Self>, AttentionError> {
        Self::load(&Device::open_for(Self::plan().arch().target)?)
    }

    /// Computes an attention of host tensors on the simulator, which runs the same PTX on the CPU: O, each query's LSE (the
    /// logarithm of its sum of exponentials), and every race, missing fence and misused barrier of the kernel. `inputs` is the
    /// scale, or [all that the score reads](ScoreInputs).
    ///
    /// # Errors
    /// As [`SimulatedAttention::run`].
    #[cfg(feature = "simulator")]
    fn simulate<'n>(
        tensors: [&Tensor<Self::Element>; 3],
        mask: &Mask,
        inputs: impl Into<ScoreInputs<'n>>,
        options: &Options,
    ) -> Result<Simulation<Self::Output>, AttentionError> {
        SimulatedAttention::new(Self::plan(), Self::PTX, Self::ENTRY)?.run_into(tensors, mask, inputs, options)
    }
}

/// A kernel of attention on a device, with the type of its tensors.
#[derive(Debug)]
pub struct Loaded<K> {
    launcher: Launcher,
    kernel: PhantomData<fn() -> K>,
}

impl<K: AttentionKernel> Loaded<K> {
    /// Makes the work of a mask for tensors of one shape.
    ///
    /// # Errors
    /// A mask that does not fit the kernel or the shape.
    pub fn pattern(&self, mask: &Mask, shape: Shape) -> Result<DevicePattern, AttentionError> {
        self.launcher.pattern(mask, shape)
    }

    /// Allocates what launches with a mask that lives on the GPU need.
    ///
    /// # Errors
    /// As [`Launcher::device_pattern`].
    pub fn device_pattern(&self, mask: &Arc<DeviceMask>, shape: Shape) -> Result<DevicePattern, AttentionError> {
        self.launcher.device_pattern(mask, shape)
    }

    /// Allocates what launches with K and V in pages need.
    ///
    /// # Errors
    /// As [`Launcher::paged`].
    pub fn paged(&self, pages: &Arc<DevicePages>, shape: Shape) -> Result<DevicePattern, AttentionError> {
        self.launcher.paged(pages, shape)
    }

    /// Enqueues O = softmax(scale * Q K^T) V on `stream` and returns at once.
    ///
    /// ```ignore
    /// attend.launch(&stream, (&q, &k, &v, 0.125), &pattern, &mut o)?;
    /// ```
    ///
    /// # Errors
    /// As [`Launcher::launch`].
    pub fn launch<'s, 'i>(
        &self,
        stream: impl Into<StreamRef<'s>>,
        inputs: impl Into<Inputs<'i, K::Element>>,
        pattern: &DevicePattern,
        output: &mut DeviceTensor<K::Output>,
    ) -> Result<(), AttentionError> {
        self.launcher.launch(stream, inputs, pattern, output, None)
    }

    /// The same; `lse` gets each query's LSE, the natural logarithm of its sum of exponentials: `[batch, heads, queries]`.
    ///
    /// # Errors
    /// As [`Launcher::launch`].
    pub fn launch_with_lse<'s, 'i>(
        &self,
        stream: impl Into<StreamRef<'s>>,
        inputs: impl Into<Inputs<'i, K::Element>>,
        pattern: &DevicePattern,
        output: &mut DeviceTensor<K::Output>,
        lse: &mut DeviceBuffer<f32>,
    ) -> Result<(), AttentionError> {
        self.launcher.launch(stream, inputs, pattern, output, Some(lse))
    }

    /// The untyped launcher.
    pub fn launcher(&self) -> &Launcher {
        &self.launcher
    }
}
