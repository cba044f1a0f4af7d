//! Kernels that are chosen when their operands are known.
//!
//! ```no_run
//! use bsr::prelude::*;
//! use bsr::{Auto, Dsd};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (device, a) = (Device::open(0)?, Bsr::<f16>::generate(Pattern::Random(0.1), 4096, 4096, (64, 64), 0)?);
//! let (a, stream) = (DeviceBsr::upload(&device, &a)?, Stream::new(&device)?);
//! let b = DeviceDense::upload(&device, &Dense::<f16>::normal(4096, 1024, Layout::RowMajor, 1))?;
//! let mut c = DeviceDense::<f16>::zeros(&device, 4096, 1024, Layout::RowMajor)?;
//!
//! let product = Auto::<Dsd, f16, f16, f16>::new(&device);
//! product.launch(&stream, &a, &b, &mut c)?;
//! println!("{}", product.explain(&a, &b)?);
//! # Ok(())
//! # }
//! ```

mod chooser;
mod error;
mod measure;

use std::collections::HashMap;
use std::marker::PhantomData;
use std::sync::{Arc, PoisonError, RwLock};

use bsr_codegen::{Dtype, KernelSpec, Layout, Op, Plan};
use bsr_runtime::gpu::{Device, DeviceDense, Fingerprint, Plain, StreamRef};
use bsr_runtime::kernel::{Factor, Operation};
use bsr_runtime::{Element, Kernel, Launcher, Structure};
use bsr_tuner::pick::{Choice, Gpu, Tuner};
use bsr_tuner::{Facts, TuningProblem, Workload};

pub use error::AutoError;

/// A product of the operation `O` whose kernel is [chosen](Tuner) for the operands it is given: by what was tuned, or by the
/// cost model, or by timing a few on them. Kernels are planned, rendered and compiled when they are first needed, and kept.
/// Threads may share it.
#[derive(Debug)]
pub struct Auto<O, A, B, C> {
    device: Device,
    tuner: Arc<Tuner>,
    template: KernelSpec,
    chosen: RwLock<HashMap<Place, Arc<Ready>>>,
    types: PhantomData<fn(O, A, B) -> C>,
}

/// What a kernel that is ready is found by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Place {
    pattern: Fingerprint,
    dense: (usize, usize),
}

#[derive(Debug)]
struct Ready {
    launcher: Launcher,
    choice: Arc<Choice>,
}

impl<O: Operation, A: Element + Plain, B: Element + Plain, C: Element + Plain> Auto<O, A, B, C> {
    /// The product of these types with row-major dense matrices (B column-major where it has 8 bits), and a tuner of its own.
    pub fn new(device: &Device) -> Self {
        Self::with(device, Arc::new(tuner(device)), KernelSpec::new(64, 64, 64))
    }

    /// The product as `template` says it - transposed or not, layouts, sums - but for its operation, its types and its block,
    /// which the operands say, and its choices, which `tuner` makes.
    pub fn with(device: &Device, tuner: Arc<Tuner>, template: KernelSpec) -> Self {
        let b_layout = if A::DTYPE.bytes() == 1 { Layout::ColMajor } else { template.b_layout };
        let template = template.op(O::OP).a(A::DTYPE).b(B::DTYPE).out(C::DTYPE);
        let template = template.acc(A::DTYPE.accumulator()).b_layout(b_layout);
        Self { device: device.clone(), tuner, template, chosen: RwLock::default(), types: PhantomData }
    }

    /// Enqueues C = A * B with the kernel that is chosen for these operands; the rest is as in
    /// [`Loaded::launch`](crate::Loaded::launch). The first call for a pattern and shape chooses, compiles and, where the tuner
    /// says so, measures: it waits for the device.
    ///
    /// # Errors
    /// [`AutoError`].
    pub fn launch<'s>(
        &self,
        stream: impl Into<StreamRef<'s>>,
        a: &O::A<A>,
        b: &O::B<B>,
        c: &mut DeviceDense<C>,
    ) -> Result<(), AutoError> {
        Ok(self.ready(a, b)?.launcher.launch(stream.into(), a, b, c)?)
    }

    /// The kernel for these operands, and how it was chosen.
    ///
    /// # Errors
    /// As [`Auto::launch`].
    pub fn explain(&self, a: &O::A<A>, b: &O::B<B>) -> Result<Arc<Choice>, AutoError> {
        Ok(Arc::clone(&self.ready(a, b)?.choice))
    }

    /// The tuner.
    pub fn tuner(&self) -> &Tuner {
        &self.tuner
    }

    fn ready(&self, a: &O::A<A>, b: &O::B<B>) -> Result<Arc<Ready>, AutoError> {
        let ((structure, pattern), dense) = match (a.pattern(), b.pattern()) {
            (Some(sparse), None) => (sparse, b.shape()),
            (None, Some(sparse)) => (sparse, a.shape()),
            _ => return Err(AutoError::Operation(O::OP)),
        };
        let place = Place { pattern, dense };
        if let Some(ready) = self.chosen.read().unwrap_or_else(PoisonError::into_inner).get(&place) {
            return Ok(Arc::clone(ready));
        }
        let problem = self.problem(structure, dense);
        let Workload { facts, m, n, k, .. } = problem.workload;
        let mut measure = |specs: &[KernelSpec]| measure::times::<O, A, B, C>(&self.device, a, b, specs);
        let known = (facts, (m, n, k), *pattern.bytes());
        let choice = self.tuner.choose(known, || problem, Some(&mut measure))?;
        let plan = Plan::new(&choice.spec)?;
        let ptx = plan.ptx();
        let launcher = Launcher::load(&self.device, &plan, ptx.text(), ptx.entry())?;
        let ready = Arc::new(Ready { launcher, choice });
        let mut chosen = self.chosen.write().unwrap_or_else(PoisonError::into_inner);
        Ok(Arc::clone(chosen.entry(place).or_insert(ready)))
    }

    /// What the operands say of the problem.
    fn problem(&self, structure: &Structure, dense: (usize, usize)) -> TuningProblem {
        let (bm, bk) = structure.block();
        let template = self.template.bm(bm as u32).bk(bk as u32);
        let stored = (structure.rows(), structure.cols());
        let (rows, cols) = if template.transpose.is_on() { (stored.1, stored.0) } else { stored };
        let (m, n, k) = if O::OP == Op::Dds { (dense.0, cols, rows) } else { (rows, dense.1, cols) };
        TuningProblem::new(Workload::given(Facts::of(&template), (m, n, k)), structure)
    }
}

/// A tuner for a device, with the table that comes with the crate.
pub fn tuner(device: &Device) -> Tuner {
    Tuner::new(Gpu::from(device.info()))
}

/// The kernel for C = A * B with a sparse A of this structure and `n` columns of B, all of type `dtype`: what
/// [`Auto`] would take on this device.
///
/// # Errors
/// [`AutoError::Pick`] where no kernel can be planned.
pub fn tune(device: &Device, a: &Structure, n: usize, dtype: Dtype) -> Result<Arc<Choice>, AutoError> {
    let (bm, bk) = a.block();
    let spec = KernelSpec::new(bm as u32, 64, bk as u32).with_dtype(dtype);
    let (m, k) = (a.rows(), a.cols());
    let workload = Workload::given(Facts::of(&spec), (m, n, k));
    let known = (workload.facts, (m, n, k), *Fingerprint::of(a).bytes());
    Ok(tuner(device).choose(known, || TuningProblem::new(workload, a), None)?)
}

/// A kernel of the attribute whose choices - the width of the dense tile, stages, clusters - are left to a tuner: its block,
/// types, layouts and operation stay.
pub trait Tunable: Kernel {
    /// The kernel as a product whose choices are made for its operands.
    fn auto(device: &Device) -> Auto<Self::Op, Self::A, Self::B, Self::Out> {
        Self::auto_with(device, Arc::new(tuner(device)))
    }

    /// As [`Tunable::auto`], with a tuner that others share.
    fn auto_with(device: &Device, tuner: Arc<Tuner>) -> Auto<Self::Op, Self::A, Self::B, Self::Out> {
        Auto::with(device, tuner, Self::SPEC)
    }
}

impl<K: Kernel> Tunable for K {}
