//! Kernels on a device: loaded once, prepared per pattern, launched on a caller's stream.

mod fallback;
mod typed_batch;

use std::marker::PhantomData;

use bsr_codegen::{KernelSpec, Plan};

pub use crate::call::arguments;
use crate::call::arguments::{Arguments, HostArguments, Returns};
pub use crate::call::matrix::{DeviceMatrix, HostMatrix};
pub use crate::call::operation::{self, Dds, Dsd, Dss, Operation, Sdd, Sss};
pub use crate::call::sample::Sample;
pub use crate::error::KernelError;
pub use crate::launcher::{Batch, Launcher, PreparedBatch};
pub use fallback::Fallback;
pub use typed_batch::TypedBatch;

use crate::Element;
use crate::epilogue::Results;
use crate::gpu::{Device, DeviceBsr, Plain, StreamRef};
#[cfg(feature = "simulator")]
use crate::simulated::{Options, Report, Simulated, SimulatedError};

/// A kernel that `#[bsr_kernel]` compiled: what the attribute implements on the item it stands on.
///
/// ```ignore
/// #[bsr_kernel(bm = 512, bn = 128, bk = 112)]
/// fn spmm(a: Bsr<f16>, b: Dense<f16>) -> Dense<f16>;
///
/// let kernel = spmm::load(&device)?;
/// kernel.launch(&stream, (&a, &b), &mut c)?;
/// ```
pub trait Kernel: Sized + 'static {
    /// Which matrices are sparse.
    type Op: Operation;
    /// Element type of A.
    type A: Element + Plain;
    /// Element type of B.
    type B: Element + Plain;
    /// Element type of C.
    type Out: Element + Plain;
    /// What it reads besides A and B: a type of [`arguments`].
    type Further: 'static;
    /// What it writes: [`Single`](arguments::Single), or [`CWithRows`](arguments::CWithRows) where an epilogue has a second
    /// result.
    type Returns: Returns;
    /// What was asked.
    const SPEC: KernelSpec;
    /// The PTX, made at compile time.
    const PTX: &'static str;
    /// The kernel's name in the PTX.
    const ENTRY: &'static str;
    /// Kernels of the same product for GPUs that do not run this one, the best first: those of `fallback = on`.
    const FALLBACKS: &'static [Fallback] = &[];

    /// The plan of [`Kernel::SPEC`].
    fn plan() -> &'static Plan;

    /// Loads the kernel on a device: the driver compiles the PTX. A device that does not run it loads the first of its
    /// [fallbacks](Kernel::FALLBACKS) that it runs, if there is one: [`Launcher::plan`] says which.
    ///
    /// # Errors
    /// [`KernelError::Gpu`] with the driver's log if it refuses the PTX, or if the device does not run code for the
    /// kernel's architecture; [`KernelError::DoesNotFit`].
    fn load(device: &Device) -> Result<Loaded<Self>, KernelError> {
        let fallback = match device.check_target(Self::plan().arch().target) {
            Ok(()) => None,
            Err(_) => {
                let gpu = device.info();
                Fallback::of_gpu(Self::FALLBACKS, gpu.compute_capability, gpu.shared_bytes_per_block)
            }
        };
        let launcher = match fallback {
            None => Launcher::load(device, Self::plan(), Self::PTX, Self::ENTRY)?,
            Some(fallback) => fallback.load(device)?,
        };
        Ok(Loaded { launcher, kernel: PhantomData })
    }

    /// Loads the kernel on the first GPU that runs it, or else on the first that runs one of its
    /// [fallbacks](Kernel::FALLBACKS); [`KernelError::is_no_device`] tells whether there is none.
    ///
    /// # Errors
    /// Those of [`Device::open_for`] and [`Kernel::load`].
    fn open() -> Result<Loaded<Self>, KernelError> {
        let opened = Device::open_for(Self::plan().arch().target).or_else(|error| {
            let others = Self::FALLBACKS.iter().map(|fallback| fallback.plan().arch().target);
            others.filter(|_| error.is_no_device()).find_map(|target| Device::open_for(target).ok()).ok_or(error)
        });
        Self::load(&opened?)
    }

    /// Multiplies host matrices on the simulator, which runs the same PTX on the CPU: the results are those of
    /// [`Loaded::multiply`] but for the last bits of sums, and the report lists every race, missing fence and misused barrier of
    /// the kernel. No GPU is needed, and nothing is said of speed.
    ///
    /// # Errors
    /// As [`Simulated::multiply`].
    #[cfg(feature = "simulator")]
    fn simulate<'h>(
        inputs: impl HostArguments<'h, Self::Op, Self::A, Self::B, Self::Further>,
        options: &Options,
    ) -> Result<(HostResults<Self>, Report), SimulatedError> {
        let kernel = Simulated::new(Self::plan(), Self::PTX, Self::ENTRY)?;
        let call = inputs.call().untyped(Self::SPEC.op);
        let (Results { c, rows }, report) = kernel.0.product::<Self::Out>(&call, options)?;
        let c = Self::Op::of_outcome(c, call.pattern, report.is_clean())?;
        Ok((Self::Returns::host(c, rows), report))
    }
}

/// A kernel's result in device memory.
pub type ResultOf<K> = <<K as Kernel>::Op as Operation>::C<<K as Kernel>::Out>;
/// Where a launch of a kernel writes: `&mut c`, or `(&mut c, &mut rows)` where its epilogue has a second result.
pub type PlacesOf<'r, K> = <<K as Kernel>::Returns as Returns>::Places<'r, ResultOf<K>>;
/// What a kernel computes, on the host: `c`, or `(c, rows)` where its epilogue has a second result.
pub type HostResults<K> = <<K as Kernel>::Returns as Returns>::Host<<ResultOf<K> as DeviceMatrix>::Host>;
/// A kernel's sparse matrix in device memory: a factor, or the result of `op = sdd`.
pub type SparseOf<K> =
    DeviceBsr<<<K as Kernel>::Op as Operation>::Sparse<<K as Kernel>::A, <K as Kernel>::B, <K as Kernel>::Out>>;

/// A kernel on a device, with the types of its operands.
#[derive(Debug)]
pub struct Loaded<K> {
    launcher: Launcher,
    kernel: PhantomData<fn() -> K>,
}

impl<K: Kernel> Loaded<K> {
    /// Makes the work plan for a pattern ahead of the first launch, which then allocates nothing: this is needed before a
    /// launch is captured into a CUDA graph. The pattern is that of the kernel's sparse matrix; `n` is the number of columns of
    /// B, the number of rows of A where B is sparse, and K where C is. A kernel on two sparse factors reads two patterns, which
    /// [`Launcher::prepare_pairs`] takes.
    ///
    /// # Errors
    /// As [`Loaded::launch`].
    pub fn prepare(&self, sparse: &SparseOf<K>, n: usize) -> Result<(), KernelError> {
        self.launcher.prepare(sparse, n)
    }

    /// Enqueues C = A * B on `stream` and returns at once. `inputs` is `(&a, &b)`, or `(&a, &b, further)` where the kernel reads
    /// [more](arguments); `results` is `&mut c`, or `(&mut c, &mut rows)` where its epilogue has a second result.
    ///
    /// ```ignore
    /// spmm.launch(&stream, (&a, &b), &mut c)?;
    /// ffn_up.launch(&stream, (&a, &b, ffn_up_inputs { bias: &bias, res: &res, alpha: 0.5 }), &mut c)?;
    /// normed.launch(&stream, (&a, &b), (&mut c, &mut rows))?;
    /// fp8.launch(&stream, (&a, &b, &scales), &mut c)?;
    /// reordered.launch(&stream, (&a, &b, &order), &mut c)?;
    /// accumulating.launch(&stream, (&a, &b, DeviceInputs::new().beta(0.5)), &mut c)?;
    /// ```
    ///
    /// A kernel of `op = sdd` writes the stored blocks of C, or with `transpose = on` those of C^T: all of their values, zeros
    /// where a block extends beyond the edge of the matrix. Rows and columns of an epilogue are then those of the stored
    /// matrix.
    ///
    /// The first launch for a pattern and a number of columns makes its work plan (host work and small allocations,
    /// among them the transposed index of a kernel that reads block columns); later ones allocate nothing. Nothing
    /// synchronizes. The matrices are borrowed only for the call: keep them alive until the stream has been
    /// synchronized. A kernel that stores by TMA writes C's padding up to the next 16 bytes of each line too, in whole
    /// 16-byte vectors; nothing beyond it is written, and by other kernels no padding of foreign memory at all.
    /// `accumulate = atomic` sets C to zero first, on the same stream. A second result is set to the start value of its
    /// reduction, on the same stream; several CTAs add to the sum of a row, in an order that differs from run to run, and with
    /// it the last bits may differ.
    ///
    /// # Errors
    /// Shapes, blocks or layouts that do not fit the kernel, sizes beyond 32-bit coordinates, C overlapping an operand (a
    /// full operand of an epilogue may be C itself), or the driver's refusal; [`KernelError::Scales`] and
    /// [`KernelError::Scales`] and [`KernelError::Refused`] for scales of another kind or number; [`KernelError::Epilogue`] for inputs that the epilogue
    /// does not take; [`KernelError::Order`] for an order of another number of rows. Nothing is launched in these cases.
    pub fn launch<'s, 'i>(
        &self,
        stream: impl Into<StreamRef<'s>>,
        inputs: impl Arguments<'i, K::Op, K::A, K::B, K::Further>,
        results: PlacesOf<'_, K>,
    ) -> Result<(), KernelError> {
        self.launcher.launch(stream.into(), inputs.call(), K::Returns::split(results))
    }

    /// Host matrices in, host results out: uploads, multiplies, waits, downloads. `inputs` are the tuples that
    /// [`Loaded::launch`] takes, of matrices on the host; of `op = sdd` the pattern of the result follows the factors,
    /// `(&a, &b, &pattern)` or `(&a, &b, &pattern, further)`. It gives `c`, or `(c, rows)` where the epilogue has a second result.
    ///
    /// # Errors
    /// As [`Loaded::launch`].
    pub fn multiply<'h>(
        &self,
        inputs: impl HostArguments<'h, K::Op, K::A, K::B, K::Further>,
    ) -> Result<HostResults<K>, KernelError> {
        let Results { c, rows } = self.launcher.multiply::<K::Op, K::A, K::B, K::Out>(inputs.call())?;
        Ok(K::Returns::host(c, rows))
    }

    /// A list of products for one launch of a kernel with `batch = on`.
    ///
    /// ```ignore
    /// let mut batch = kernel.batch();
    /// for ((a, b), c) in weights.iter().zip(&inputs).zip(&mut outputs) {
    ///     batch.push((a, b), c)?;
    /// }
    /// let batch = batch.prepare()?;
    /// batch.launch(&stream)?;
    /// ```
    pub fn batch<'m>(&self) -> TypedBatch<'_, 'm, K> {
        TypedBatch::new(self.launcher.batch())
    }

    /// The untyped launcher.
    pub fn launcher(&self) -> &Launcher {
        &self.launcher
    }
}
