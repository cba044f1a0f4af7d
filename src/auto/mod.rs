//! Kernels that are chosen when their operands are known.
//!
//! ```no_run
//! use bsr::prelude::*;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (device, a) = (Device::open(0)?, Bsr::<f16>::generate(Pattern::Random(0.1), 4096, 4096, (64, 64), 0)?);
//! let (a, stream) = (DeviceBsr::upload(&device, &a)?, Stream::new(&device)?);
//! let b = DeviceDense::upload(&device, &Dense::<f16>::normal(4096, 1024, Layout::RowMajor, 1))?;
//! let mut c = DeviceDense::<f16>::zeros(&device, 4096, 1024, Layout::RowMajor)?;
//!
//! let product = Auto::<Dsd, f16, f16, f16>::new(&device);
//! product.launch(&stream, (&a, &b), &mut c)?;
//! println!("{}", product.explain((&a, &b))?);
//! # Ok(())
//! # }
//! ```

mod attention;
mod blocks;
mod error;
mod factors;
mod measure;

use std::collections::HashMap;
use std::marker::PhantomData;
use std::sync::{Arc, PoisonError, RwLock};

use bsr_codegen::{Dtype, KernelSpec, Layout, Operand, Plan, Scale};
use bsr_runtime::extents::sparse_operand;
use bsr_runtime::gpu::{Device, Fingerprint, Plain, StreamRef};
use bsr_runtime::kernel::arguments::{Arguments, ByName, Returns, Single};
use bsr_runtime::kernel::{DeviceMatrix, Operation};
use bsr_runtime::{Element, Extents, Kernel, KernelError, Launcher, Structure};
use bsr_tuner::pick::{Choice, Measure, Tuner};
use bsr_tuner::{Facts, TuningProblem, Workload};

#[doc(hidden)]
pub use attention::choose_among;
pub use attention::{AutoAttention, AutoPattern, TunableAttention, tune_attention};
pub use blocks::tune_attention_blocks;
#[doc(hidden)]
pub use blocks::{expected_us, fastest, of_fastest_blocks};
pub use error::AutoError;
pub use factors::Factors;

/// A product of the operation `O` whose kernel is [chosen](Tuner) for the operands it is given: by what was tuned, or by the
/// cost model, or by timing a few on them. Kernels are planned, rendered and compiled when they are first needed, and kept.
/// Threads may share it. `R` is what it [returns](crate::arguments::Returns), and `F` what it
/// [reads](crate::arguments) besides A and B.
///
/// Kernels with an epilogue, scales or an order of rows are not timed: what is predicted is taken instead.
#[derive(Debug)]
pub struct Auto<O, A, B, C, R = Single, F = ByName> {
    device: Device,
    tuner: Arc<Tuner>,
    template: KernelSpec,
    chosen: RwLock<HashMap<Place, Arc<Ready>>>,
    types: PhantomData<Types<O, A, B, C, R, F>>,
}

type Types<O, A, B, C, R, F> = fn(O, A, B) -> (C, R, F);

/// A pattern, and what tells it from others.
type Stored<'p> = (&'p Structure, Fingerprint);

/// What a kernel that is ready is found by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Place {
    /// Those of A, B and C, of which one or more are sparse.
    patterns: [Option<Fingerprint>; 3],
    /// The extent that the pattern does not say.
    dense_extent: usize,
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
}

impl<O: Operation, A: Element + Plain, B: Element + Plain, C: Element + Plain, R: Returns, F> Auto<O, A, B, C, R, F> {
    /// The product as `template` says it - transposed or not, layouts, sums - but for its operation, its types and its block,
    /// which the operands say, and its choices, which `tuner` makes.
    pub fn with(device: &Device, tuner: Arc<Tuner>, template: KernelSpec) -> Self {
        let b_layout = if A::DTYPE.bytes() == 1 { Layout::ColMajor } else { template.b_layout };
        let template = template.op(O::OP).a(A::DTYPE).b(B::DTYPE).out(C::DTYPE);
        let template = template.acc(A::DTYPE.accumulator()).b_layout(b_layout);
        Self { device: device.clone(), tuner, template, chosen: RwLock::default(), types: PhantomData }
    }

    /// Enqueues C = A * B with the kernel that is chosen for these operands: `(&a, &b)` and `&mut c`, and the rest as in
    /// [`Loaded::launch`](crate::Loaded::launch). The first call for a pattern and shape chooses, compiles and, where the tuner
    /// says so, measures: it waits for the device.
    ///
    /// # Errors
    /// [`AutoError`].
    pub fn launch<'s, 'i>(
        &self,
        stream: impl Into<StreamRef<'s>>,
        inputs: impl Arguments<'i, O, A, B, F>,
        results: R::Places<'_, O::C<C>>,
    ) -> Result<(), AutoError> {
        let (call, (c, rows)) = (inputs.call(), R::split(results));
        let ready = self.ready(call.a, call.b, c.pattern())?;
        Ok(ready.launcher.launch(stream.into(), call, (c, rows))?)
    }

    /// The kernel for these factors, `(&a, &b)`, and how it was chosen. A sparse result, whose pattern is needed, follows them:
    /// `(&a, &b, &c)`.
    ///
    /// # Errors
    /// As [`Auto::launch`].
    pub fn explain<'i>(&self, factors: impl Factors<'i, O, A, B, C>) -> Result<Arc<Choice>, AutoError> {
        let (a, b, c) = factors.split();
        Ok(Arc::clone(&self.ready(a, b, c.and_then(DeviceMatrix::pattern))?.choice))
    }

    /// The tuner.
    pub fn tuner(&self) -> &Tuner {
        &self.tuner
    }

    fn ready(&self, a: &O::A<A>, b: &O::B<B>, stored: Option<Stored<'_>>) -> Result<Arc<Ready>, AutoError> {
        let all = [a.pattern(), b.pattern(), stored];
        let (sparse, dense_extent) = match sparse_operand(O::OP) {
            Operand::A => (all[0], b.shape().1),
            Operand::B => (all[1], a.shape().0),
            _ => (all[2], a.shape().1),
        };
        let (structure, pattern) = sparse.ok_or(KernelError::Factors { expected: O::OP })?;
        let place = Place { patterns: all.map(|stored| Some(stored?.1)), dense_extent };
        if let Some(ready) = self.chosen.read().unwrap_or_else(PoisonError::into_inner).get(&place) {
            return Ok(Arc::clone(ready));
        }
        let pattern_of_c = stored.map(|(structure, _)| structure);
        let (problem, pattern) = match (O::OP.is_of_pairs(), all[1]) {
            (true, Some((b, _))) => {
                let problem = TuningProblem::of_pairs(&Facts::of(&self.template), structure, b, pattern_of_c);
                let patterns = place.patterns.into_iter().flatten();
                (problem.map_err(KernelError::from)?, Fingerprint::of_all(patterns))
            }
            _ => (self.problem(structure, dense_extent), pattern),
        };
        let Workload { facts, m, n, k, .. } = problem.workload;
        let mut measure =
            |specs: &[KernelSpec]| measure::times::<O, A, B, C>(&self.device, (a, b, pattern_of_c), specs);
        let measure: Option<&mut Measure<'_>> = if self.is_plain() { Some(&mut measure) } else { None };
        let known = (facts, (m, n, k), *pattern.bytes());
        let choice = self.tuner.choose(known, || problem, measure)?;
        let plan = Plan::new(&choice.spec)?;
        let ptx = plan.ptx();
        let launcher = Launcher::load(&self.device, &plan, ptx.text(), ptx.entry())?;
        let ready = Arc::new(Ready { launcher, choice });
        let mut chosen = self.chosen.write().unwrap_or_else(PoisonError::into_inner);
        Ok(Arc::clone(chosen.entry(place).or_insert(ready)))
    }

    /// Whether a kernel reads its factors alone and writes their product as it is.
    fn is_plain(&self) -> bool {
        let KernelSpec { epilogue, scale, permute, .. } = self.template;
        epilogue.is_none() && scale == Scale::Unscaled && !permute.is_on()
    }

    /// What the operands say of the problem.
    fn problem(&self, structure: &Structure, dense_extent: usize) -> TuningProblem {
        let (bm, bk) = structure.block();
        let template = self.template.bm(bm as u32).bk(bk as u32).counting(structure.nnzb() as u64);
        let Extents { m, n, k } = Extents::of_stored(&template, (structure.rows(), structure.cols()), dense_extent);
        TuningProblem::new(Workload::given(Facts::of(&template), (m, n, k)), structure)
    }
}

/// A tuner for a device, with the table that comes with the crate: see [`Tuner::on`]. It does
/// [as the environment says](Tuner::by_environment): `BSR_TUNING`, `BSR_TUNED`, `BSR_LOG`.
pub fn tuner(device: &Device) -> Tuner {
    Tuner::on(device).by_environment()
}

/// The kernel for C = A * B with a sparse A of this structure and `n` columns of B, all of type `dtype`: what
/// [`Auto`] would take on this device.
///
/// # Errors
/// [`AutoError::Pick`] where no kernel can be planned.
pub fn tune(device: &Device, a: &Structure, n: usize, dtype: Dtype) -> Result<Arc<Choice>, AutoError> {
    let (bm, bk) = a.block();
    let spec = KernelSpec::new(bm as u32, 64, bk as u32).with_dtype(dtype).counting(a.nnzb() as u64);
    let (m, k) = (a.rows(), a.cols());
    let workload = Workload::given(Facts::of(&spec), (m, n, k));
    let known = (workload.facts, (m, n, k), *Fingerprint::of(a).bytes());
    Ok(tuner(device).choose(known, || TuningProblem::new(workload, a), None)?)
}

/// A kernel of the attribute whose choices - the width of the dense tile, stages, clusters - are left to a tuner: its block,
/// types, layouts and operation stay.
pub trait Tunable: Kernel {
    /// The kernel as a product whose choices are made for its operands.
    fn auto(device: &Device) -> KernelAuto<Self> {
        Self::auto_with(device, Arc::new(tuner(device)))
    }

    /// As [`Tunable::auto`], with a tuner that others share.
    fn auto_with(device: &Device, tuner: Arc<Tuner>) -> KernelAuto<Self> {
        Auto::with(device, tuner, Self::SPEC)
    }
}

/// A kernel of the attribute as a [product](Auto) whose choices are made for its operands.
pub type KernelAuto<K> = Auto<
    <K as Kernel>::Op,
    <K as Kernel>::A,
    <K as Kernel>::B,
    <K as Kernel>::Out,
    <K as Kernel>::Returns,
    <K as Kernel>::Further,
>;

impl<K: Kernel> Tunable for K {}
