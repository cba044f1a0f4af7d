//! Products and SDDMMs on a GPU: what [`Loaded`](crate::kernel::Loaded) and the `bsr` command share.

use bsr_codegen::Plan;
use bsr_codegen::epilogue::Program;

use super::{Batch, Launcher, listed};
use crate::Element;
use crate::call::arguments::{AnyArguments, AnyResults, HostCall, HostCallOf, UntypedCall, UntypedResults};
use crate::call::matrix::DeviceMatrix;
use crate::call::operation::Operation;
use crate::epilogue::Results;
use crate::error::KernelError;
use crate::gpu::{DeviceBsr, DeviceVector, Plain, Stream, StreamRef, UntypedBsr, UploadedInputs};
use crate::lists;
use crate::operation::check::{block, layout_of_blocks};
use crate::operation::{self, OnMatrices, program_of};

impl Launcher {
    /// Makes the work plan for a pattern ahead of the first launch: that of the sparse factor and `n` columns of the dense
    /// one (`n` rows where B is sparse), or that of a sparse result and `n` elements of K.
    ///
    /// # Errors
    /// As [`Launcher::launch`].
    pub fn prepare<T: Element + Plain>(&self, sparse: &DeviceBsr<T>, n: usize) -> Result<(), KernelError> {
        block(self.plan(), sparse.structure())?;
        operation::check_sizes(self.plan(), sparse.structure(), n)?;
        if let Some(pattern) = sparse.device_pattern() {
            listed::check(self.plan(), pattern)?;
            return self.machine().listed(self.plan(), pattern, n).map(drop);
        }
        if self.plan().reads_block_columns() {
            sparse.untyped().by_columns(self.device())?;
        }
        self.machine().work(self.plan(), &sparse.untyped(), n).map(drop)
    }

    /// Enqueues the kernels that check a matrix's pattern on the GPU and list its work for `n` columns of the dense factor
    /// (`n` rows where B is sparse, K where the result is), unless that is done: what a launch does ahead of itself. Nothing of
    /// a matrix whose pattern the host knows.
    ///
    /// # Errors
    /// As [`Launcher::prepare`].
    pub fn make_lists<T: Element + Plain>(
        &self,
        stream: StreamRef<'_>,
        sparse: &DeviceBsr<T>,
        n: usize,
    ) -> Result<(), KernelError> {
        let Some(pattern) = sparse.device_pattern() else { return Ok(()) };
        self.prepare(sparse, n)?;
        self.machine().list(self.plan(), stream, pattern, n).map(drop)
    }

    /// Whether a plan's kernel reads lists that are made on the GPU, as it must for a matrix whose pattern lives there.
    ///
    /// # Errors
    /// [`KernelError::DevicePattern`] with the key that stands in the way.
    pub fn takes_device_pattern(plan: &Plan) -> Result<(), KernelError> {
        lists::takes_device_pattern(plan)
    }

    /// Enqueues a product of any operation and any types on `stream`; see [`Loaded::launch`](crate::kernel::Loaded::launch). Where the program does
    /// not know before it runs which factor comes first, [`ByKind`](crate::kernel::arguments::ByKind) orders them.
    ///
    /// # Errors
    /// [`KernelError::Factors`] and [`KernelError::Result`] for matrices of another operation, [`KernelError::Dtype`] for other
    /// element types; what [`Loaded::launch`](crate::kernel::Loaded::launch) answers. Nothing is launched in these cases.
    pub fn launch<'i, 'r>(
        &self,
        stream: StreamRef<'_>,
        inputs: impl AnyArguments<'i>,
        results: impl AnyResults<'r>,
    ) -> Result<(), KernelError> {
        let (call, results) = (inputs.untyped(self.plan().spec().op), results.untyped());
        if self.plan().spec().batch.is_on() {
            return Err(KernelError::Batch { batch: true });
        }
        let operands = operands_of(self.plan(), &call, results)?;
        // SAFETY: the launch is one of this kernel. C and the second result are what the caller borrowed mutably for it; the
        // work plan was made for this pattern (by fingerprint, or on this stream ahead of the launch, of rows and columns that
        // are checked there) and this extent; the workspace is this stream's.
        unsafe { self.enqueue(&mut self.machine().on(stream), operands.operands(), operands.listed(self.plan())) }
    }

    /// Host matrices in, host results out: uploads, multiplies, waits, downloads; see [`Loaded::multiply`](crate::kernel::Loaded::multiply).
    ///
    /// # Errors
    /// As [`Launcher::launch`].
    pub fn multiply<O: Operation, A: Element + Plain, B: Element + Plain, C: Element + Plain>(
        &self,
        call: HostCallOf<'_, O, A, B>,
    ) -> Result<Results<<O::C<C> as DeviceMatrix>::Host>, KernelError> {
        let HostCall { a, b, pattern, inputs } = call;
        let (device, spec) = (self.device(), self.plan().spec());
        let stream = Stream::new(device)?;
        let (a, b) = (O::A::<A>::upload(device, a)?, O::B::<B>::upload_in(device, b, layout_of_blocks(spec, "B"))?);
        let uploaded = UploadedInputs::upload(device, &inputs)?;
        let shape = self.result_shape(&a, &b)?;
        let mut c = O::result::<C>((device, stream.handle()), spec, shape, pattern, &inputs)?;
        let reduction = program_of(self.plan()).and_then(Program::reduction);
        let mut rows = reduction.map(|_| DeviceVector::zeros(device, c.shape().0)).transpose()?;
        self.launch(stream.handle(), (&a, &b, uploaded.inputs()), (&mut c, rows.as_mut()))?;
        stream.synchronize()?;
        Ok(Results { c: c.download()?, rows: rows.map(|rows| rows.download()).transpose()? })
    }

    /// Rows and columns of C.
    ///
    /// # Errors
    /// [`KernelError::Factors`] where the kernel multiplies others.
    pub fn result_shape(&self, a: &impl DeviceMatrix, b: &impl DeviceMatrix) -> Result<(usize, usize), KernelError> {
        operation::result_shape(self.plan().spec(), a.untyped(), b.untyped())
    }

    /// A list of products for one launch.
    pub fn batch<'m>(&self) -> Batch<'_, 'm> {
        Batch::new(self)
    }
}

/// What a launch is given.
///
/// # Errors
/// [`KernelError::Factors`], [`KernelError::Result`].
fn operands_of<'i>(
    plan: &Plan,
    call: &'i UntypedCall<'i>,
    results: UntypedResults<'i>,
) -> Result<OnMatrices<'i, UntypedBsr<'i>>, KernelError> {
    OnMatrices::new(plan.spec().op, [call.a, call.b, results.c], &call.inputs, results.second)
}
