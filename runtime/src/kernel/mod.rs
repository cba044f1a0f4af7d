//! Kernels on a device: loaded once, prepared per pattern, launched on a caller's stream.

mod batch;
mod error;
pub(crate) mod fit;
mod inputs;
mod launcher;
pub mod operation;
pub(crate) mod sddmm;

use std::marker::PhantomData;

use bsr_codegen::{KernelSpec, Plan};

pub use batch::{Batch, PreparedBatch, TypedBatch};
pub use error::KernelError;
pub(crate) use inputs::Given;
pub use launcher::Launcher;
pub use operation::{Dds, Dsd, Factor, Operation};

use crate::gpu::{
    Device, DeviceBsr, DeviceDense, DeviceInputs, DeviceOrder, DeviceScales, DeviceVector, Plain, Stream, StreamRef,
    UploadedInputs, held, initial,
};
use crate::{Bsr, Dense, Element, Inputs, Results, Scales, SddmmResults, Structure};

/// A kernel that `#[bsr_kernel]` compiled: what the attribute implements on the item it stands on.
///
/// ```ignore
/// #[bsr_kernel(bm = 512, bn = 128, bk = 112)]
/// fn spmm(a: Bsr<f16>, b: Dense<f16>) -> Dense<f16>;
///
/// let kernel = spmm::load(&device)?;
/// kernel.launch(&stream, &a, &b, &mut c)?;
/// ```
pub trait Kernel: Sized + 'static {
    /// Which operands are sparse.
    type Op: Operation;
    /// Element type of A.
    type A: Element + Plain;
    /// Element type of B.
    type B: Element + Plain;
    /// Element type of C.
    type Out: Element + Plain;
    /// What was asked.
    const SPEC: KernelSpec;
    /// The PTX, made at compile time.
    const PTX: &'static str;
    /// The kernel's name in the PTX.
    const ENTRY: &'static str;

    /// The plan of [`Kernel::SPEC`].
    fn plan() -> &'static Plan;

    /// Loads the kernel on a device: the driver compiles the PTX.
    ///
    /// # Errors
    /// [`KernelError::Gpu`] with the driver's log if it refuses the PTX, or if the device does not run code for the
    /// kernel's architecture; [`KernelError::DoesNotFit`].
    fn load(device: &Device) -> Result<Loaded<Self>, KernelError> {
        let launcher = Launcher::load(device, Self::plan(), Self::PTX, Self::ENTRY)?;
        Ok(Loaded { launcher, kernel: PhantomData })
    }
}

/// A kernel's first factor in device memory.
pub type FactorA<K> = <<K as Kernel>::Op as Operation>::A<<K as Kernel>::A>;
/// A kernel's second factor in device memory.
pub type FactorB<K> = <<K as Kernel>::Op as Operation>::B<<K as Kernel>::B>;
/// A kernel's sparse factor in device memory.
pub type SparseFactor<K> = DeviceBsr<<<K as Kernel>::Op as Operation>::Sparse<<K as Kernel>::A, <K as Kernel>::B>>;

/// A kernel on a device, with the types of its operands.
#[derive(Debug)]
pub struct Loaded<K> {
    launcher: Launcher,
    kernel: PhantomData<fn() -> K>,
}

impl<K: Kernel> Loaded<K> {
    /// Makes the work plan for a pattern and `n` columns of B (`n` rows of A where B is the sparse factor) ahead of the
    /// first launch, which then allocates nothing: this is needed before a launch is captured into a CUDA graph.
    ///
    /// # Errors
    /// As [`Loaded::launch`].
    pub fn prepare(&self, sparse: &SparseFactor<K>, n: usize) -> Result<(), KernelError> {
        self.launcher.prepare(sparse, n)
    }

    /// Enqueues C = A * B on `stream` and returns at once: A is a [`DeviceBsr`] and B a [`DeviceDense`], or the other
    /// way round in a kernel of `op = dds`.
    ///
    /// The first launch for a pattern and a number of columns makes its work plan (host work and small allocations,
    /// among them the transposed index of a kernel that reads block columns); later ones allocate nothing. Nothing
    /// synchronizes. The matrices are borrowed only for the call: keep them alive until the stream has been
    /// synchronized. A kernel that stores by TMA writes C's padding up to the next 16 bytes of each line too, in whole
    /// 16-byte vectors; nothing beyond it is written, and by other kernels no padding of foreign memory at all.
    /// `accumulate = atomic` sets C to zero first, on the same stream.
    ///
    /// # Errors
    /// Shapes, blocks or layouts that do not fit the kernel, a kernel that scales, sizes beyond 32-bit coordinates, C
    /// overlapping an operand, or the driver's refusal. Nothing is launched in these cases.
    pub fn launch<'s>(
        &self,
        stream: impl Into<StreamRef<'s>>,
        a: &FactorA<K>,
        b: &FactorB<K>,
        c: &mut DeviceDense<K::Out>,
    ) -> Result<(), KernelError> {
        self.launcher.launch(stream.into(), a, b, c)
    }

    /// As [`Loaded::launch`], with the scales of a kernel that was compiled with a `scale`: C is the scaled sum, made
    /// in f32 before it is rounded to C's type.
    ///
    /// # Errors
    /// As [`Loaded::launch`]; [`KernelError::Scales`] for scales of another kind than the kernel's, and
    /// [`KernelError::ScaleCount`] for another number of them than the operands have places for.
    pub fn launch_scaled<'s>(
        &self,
        stream: impl Into<StreamRef<'s>>,
        a: &FactorA<K>,
        b: &FactorB<K>,
        scales: &DeviceScales,
        c: &mut DeviceDense<K::Out>,
    ) -> Result<(), KernelError> {
        self.launcher.launch_scaled(stream.into(), a, b, scales, c)
    }

    /// A list of products for one launch of a kernel with `batch = on`.
    ///
    /// ```ignore
    /// let mut batch = kernel.batch();
    /// for ((a, b), c) in weights.iter().zip(&inputs).zip(&mut outputs) {
    ///     batch.push(a, b, c)?;
    /// }
    /// let batch = batch.prepare()?;
    /// batch.launch(&stream)?;
    /// ```
    pub fn batch<'m>(&self) -> TypedBatch<'_, 'm, K> {
        TypedBatch::new(self.launcher.batch())
    }

    /// As [`Loaded::launch`], with the further operands of a kernel with an epilogue: the `NAME_inputs` that the
    /// attribute makes, or [`DeviceInputs`] by name. A second result is set to the start value of its reduction on the
    /// same stream; several CTAs add to the sum of a row, in an order that differs from run to run, and with it the
    /// last bits may differ.
    ///
    /// # Errors
    /// As [`Loaded::launch`]; [`KernelError::Epilogue`] for inputs that the epilogue does not take, and
    /// [`KernelError::Overlap`] for one that lies where a result is written. A full operand may be C itself.
    pub fn launch_fused<'s, 'i>(
        &self,
        stream: impl Into<StreamRef<'s>>,
        a: &FactorA<K>,
        b: &FactorB<K>,
        inputs: impl Into<DeviceInputs<'i>>,
        c: &mut DeviceDense<K::Out>,
    ) -> Result<(), KernelError> {
        self.launcher.launch_fused(stream.into(), a, b, None, &inputs.into(), c)
    }

    /// Enqueues C = A * B + beta * C: a kernel with `beta = on`, whose epilogue reads C where it is written.
    ///
    /// # Errors
    /// As [`Loaded::launch_fused`]; [`KernelError::Epilogue`] for a kernel without it.
    pub fn launch_accumulate<'s>(
        &self,
        stream: impl Into<StreamRef<'s>>,
        a: &FactorA<K>,
        b: &FactorB<K>,
        beta: f32,
        c: &mut DeviceDense<K::Out>,
    ) -> Result<(), KernelError> {
        self.launch_fused(stream, a, b, DeviceInputs::new().result("c").scalar("beta", beta), c)
    }

    /// Enqueues C = A * B with each row written where `order` says: a kernel with `permute = on`.
    ///
    /// # Errors
    /// As [`Loaded::launch_fused`]; [`KernelError::Order`] for an order of another number of rows, or a kernel that takes
    /// none.
    pub fn launch_permuted<'s>(
        &self,
        stream: impl Into<StreamRef<'s>>,
        a: &FactorA<K>,
        b: &FactorB<K>,
        order: &DeviceOrder,
        c: &mut DeviceDense<K::Out>,
    ) -> Result<(), KernelError> {
        self.launch_fused(stream, a, b, DeviceInputs::new().order(order), c)
    }

    /// Host operands in, host results out: C, and the second result where the epilogue has one.
    ///
    /// # Errors
    /// As [`Loaded::launch_fused`].
    pub fn multiply_fused(
        &self,
        a: &<FactorA<K> as Factor>::Host,
        b: &<FactorB<K> as Factor>::Host,
        inputs: &Inputs,
    ) -> Result<Results<K::Out>, KernelError> {
        let device = self.launcher.device();
        let stream = Stream::new(device)?;
        let a = <FactorA<K> as Factor>::upload(device, a)?;
        let b = <FactorB<K> as Factor>::upload(device, b)?;
        let uploaded = UploadedInputs::upload(device, inputs)?;
        let (rows, cols) = self.launcher.result_shape(&a, &b)?;
        let mut c = match initial::<K::Out>(inputs) {
            Some(c) => DeviceDense::upload(device, &c)?,
            None => DeviceDense::zeros(device, rows, cols, K::SPEC.c_layout)?,
        };
        let reduction = K::SPEC.epilogue.and_then(|epilogue| epilogue.program().reduction());
        let mut second = reduction.map(|_| DeviceVector::zeros(device, rows)).transpose()?;
        let inputs = uploaded.inputs();
        let inputs = match &mut second {
            Some(second) => inputs.rows(second),
            None => inputs,
        };
        self.launch_fused(&stream, &a, &b, inputs, &mut c)?;
        stream.synchronize()?;
        let rows = second.map(|second| second.download()).transpose()?;
        Ok(Results { c: c.download()?, rows })
    }

    /// Host matrices in, host matrix out: uploads, multiplies, waits, downloads.
    ///
    /// # Errors
    /// As [`Loaded::launch`].
    pub fn multiply(
        &self,
        a: &<FactorA<K> as Factor>::Host,
        b: &<FactorB<K> as Factor>::Host,
    ) -> Result<Dense<K::Out>, KernelError> {
        self.multiply_scaled(a, b, &Scales::NONE)
    }

    /// As [`Loaded::multiply`], with the scales of a kernel that was compiled with a `scale`.
    ///
    /// # Errors
    /// As [`Loaded::launch_scaled`].
    pub fn multiply_scaled(
        &self,
        a: &<FactorA<K> as Factor>::Host,
        b: &<FactorB<K> as Factor>::Host,
        scales: &Scales,
    ) -> Result<Dense<K::Out>, KernelError> {
        let device = self.launcher.device();
        let stream = Stream::new(device)?;
        let a = <FactorA<K> as Factor>::upload(device, a)?;
        let b = <FactorB<K> as Factor>::upload(device, b)?;
        let scales = DeviceScales::upload(device, scales)?;
        let (rows, cols) = self.launcher.result_shape(&a, &b)?;
        let mut c = DeviceDense::zeros(device, rows, cols, K::SPEC.c_layout)?;
        self.launch_scaled(&stream, &a, &b, &scales, &mut c)?;
        stream.synchronize()?;
        Ok(c.download()?)
    }

    /// Makes the work plan of an SDDMM for a pattern and `k` elements of K ahead of the first launch, which then
    /// allocates nothing: this is needed before a launch is captured into a CUDA graph.
    ///
    /// # Errors
    /// As [`Loaded::launch_sampled`].
    pub fn prepare_sampled(&self, c: &DeviceBsr<K::Out>, k: usize) -> Result<(), KernelError> {
        self.launcher.prepare_sampled(c, k)
    }

    /// Enqueues the stored blocks of C = A * B on `stream` and returns at once: a kernel of `op = sdd`. With
    /// `transpose = on` the stored matrix is C^T.
    ///
    /// Every value of C is written, zeros where a block extends beyond the edge of the matrix. The rest is as in
    /// [`Loaded::launch`].
    ///
    /// # Errors
    /// A kernel of another operation; shapes, blocks or layouts that do not fit the kernel, sizes beyond 32-bit
    /// coordinates, C overlapping A or B, or the driver's refusal. Nothing is launched in these cases.
    pub fn launch_sampled<'s>(
        &self,
        stream: impl Into<StreamRef<'s>>,
        a: &DeviceDense<K::A>,
        b: &DeviceDense<K::B>,
        c: &mut DeviceBsr<K::Out>,
    ) -> Result<(), KernelError> {
        self.launcher.launch_sampled(stream.into(), a, b, c)
    }

    /// Host matrices and a pattern in, host matrix out: uploads, multiplies, waits, downloads. A kernel of `op = sdd`.
    ///
    /// # Errors
    /// As [`Loaded::launch_sampled`].
    pub fn multiply_sampled(
        &self,
        a: &Dense<K::A>,
        b: &Dense<K::B>,
        structure: &Structure,
    ) -> Result<Bsr<K::Out>, KernelError> {
        let device = self.launcher.device();
        let stream = Stream::new(device)?;
        let a = DeviceDense::upload(device, a)?;
        let b = DeviceDense::upload(device, b)?;
        let mut c = DeviceBsr::zeros(device, structure)?;
        self.launch_sampled(&stream, &a, &b, &mut c)?;
        stream.synchronize()?;
        Ok(c.download()?)
    }

    /// As [`Loaded::launch_sampled`], with the further operands of a kernel with an epilogue: the `NAME_inputs` that the
    /// attribute makes, or [`DeviceInputs`] by name. Rows and columns are those of the stored matrix. What a block has
    /// beyond its edge is written as zero, whatever the epilogue says, and has no part in the second result, which is set
    /// to the start value of its reduction on the same stream.
    ///
    /// # Errors
    /// As [`Loaded::launch_sampled`]; [`KernelError::Epilogue`] for inputs that the epilogue does not take, and
    /// [`KernelError::Overlap`] for one that lies where a result is written. A full operand may be C itself.
    pub fn launch_sampled_fused<'s, 'i>(
        &self,
        stream: impl Into<StreamRef<'s>>,
        a: &DeviceDense<K::A>,
        b: &DeviceDense<K::B>,
        inputs: impl Into<DeviceInputs<'i>>,
        c: &mut DeviceBsr<K::Out>,
    ) -> Result<(), KernelError> {
        self.launcher.launch_sampled_fused(stream.into(), a, b, &inputs.into(), c)
    }

    /// Host operands and a pattern in, host results out: the stored blocks, and the second result where the epilogue has
    /// one.
    ///
    /// # Errors
    /// As [`Loaded::launch_sampled_fused`].
    pub fn multiply_sampled_fused(
        &self,
        a: &Dense<K::A>,
        b: &Dense<K::B>,
        structure: &Structure,
        inputs: &Inputs,
    ) -> Result<SddmmResults<K::Out>, KernelError> {
        let device = self.launcher.device();
        let stream = Stream::new(device)?;
        let a = DeviceDense::upload(device, a)?;
        let b = DeviceDense::upload(device, b)?;
        let uploaded = UploadedInputs::upload(device, inputs)?;
        let mut c = DeviceBsr::zeros(device, structure)?;
        if let Some(values) = held::<K::Out>(inputs) {
            // A parameter of another shape is refused by the launch.
            if values.len() == structure.stored() {
                c.values_mut().upload_on(&values, stream.handle())?;
            }
        }
        let reduction = K::SPEC.epilogue.and_then(|epilogue| epilogue.program().reduction());
        let mut second = reduction.map(|_| DeviceVector::zeros(device, structure.rows())).transpose()?;
        let inputs = uploaded.inputs();
        let inputs = match &mut second {
            Some(second) => inputs.rows(second),
            None => inputs,
        };
        self.launch_sampled_fused(&stream, &a, &b, inputs, &mut c)?;
        stream.synchronize()?;
        let rows = second.map(|second| second.download()).transpose()?;
        Ok(SddmmResults { c: c.download()?, rows })
    }

    /// The untyped launcher.
    pub fn launcher(&self) -> &Launcher {
        &self.launcher
    }
}
