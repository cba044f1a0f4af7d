//! One kernel with its operands, ready to be checked and timed.

use std::rc::Rc;

use bsr::arguments::ByKind;
use bsr::bench::{Candidate, Work};
use bsr::gpu::{Device, DeviceDense, DeviceVector, GpuError, Stream, StreamRef};
use bsr::{KernelError, KernelSpec, Launcher, Op};
use bsr_runtime::typed::{Number, Typed, with_types};

use super::exit::Failure;
use super::operands::{Left, Operands};
use super::problem::Sizes;
use super::sampled;
use super::spec::Planned;
use super::verdict::{Rows, Verdict, fused_tolerance, judge_second};

/// One kernel with its operands.
pub(super) struct Case {
    pub(super) planned: Planned,
    pub(super) work: Work,
    pub(super) rows: Rows,
    /// The most products that an element of C sums.
    pub(super) longest: usize,
    /// The greatest error of a right result, where the kernel has an epilogue.
    pub(super) tolerance: Option<f64>,
    device: Device,
    product: Box<dyn Product>,
}

/// A multiplication whose element types are known to itself alone.
pub(super) trait Product {
    /// Fills C with NaN, or with a number that no sum is.
    fn poison(&mut self) -> Result<(), GpuError>;
    /// Enqueues C = A * B.
    fn launch(&mut self, stream: StreamRef<'_>) -> Result<(), KernelError>;
    /// What launches, if it is a kernel of this project.
    fn launcher(&self) -> Option<&Launcher> {
        None
    }
    /// Copies C to the host and holds it against the reference.
    fn verdict(&self) -> Result<Verdict, Failure>;
}

impl Case {
    /// Has the driver compile the kernel, and makes the operands that are not there yet.
    ///
    /// # Errors
    /// Those of the device, and of a problem that cannot be had in the kernel's blocks.
    pub(super) fn new(planned: Planned, operands: &mut Operands) -> Result<Self, Failure> {
        let spec = *planned.spec();
        if spec.batch.is_on() {
            return Err(Failure::bad_input(
                "a kernel with batch = on is not launched on a GPU by this command: a program makes its list of products\n  \
                 help: `bsr run --device sim` and `bsr check` multiply a list on the simulator, of --batch products; batch = off otherwise",
            ));
        }
        with_types(&spec, Build { planned, operands })
    }

    /// Multiplies into a poisoned C and compares.
    ///
    /// # Errors
    /// Those of the device. A wrong result is a verdict, no error.
    pub(super) fn check(&mut self) -> Result<Verdict, Failure> {
        let stream = Stream::new(&self.device)?;
        self.product.poison()?;
        self.product.launch(stream.handle())?;
        stream.synchronize()?;
        self.product.verdict()
    }

    /// Poisons C, so that [`Case::verdict`] judges what is launched from now on.
    pub(super) fn poison(&mut self) -> Result<(), Failure> {
        Ok(self.product.poison()?)
    }

    /// Compares what C holds, after all work on the device.
    pub(super) fn verdict(&self) -> Result<Verdict, Failure> {
        self.product.verdict()
    }

    /// What launches the kernel.
    pub(super) fn launcher(&self) -> Option<&Launcher> {
        self.product.launcher()
    }

    /// The kernel as something to time.
    pub(super) fn candidate(&mut self) -> Candidate<'_> {
        let product = &mut self.product;
        Candidate::new(self.planned.spec().to_string(), move |stream: StreamRef<'_>| product.launch(stream))
    }
}

struct Build<'b> {
    planned: Planned,
    operands: &'b mut Operands,
}

impl Typed for Build<'_> {
    type Output = Case;
    type Error = Failure;

    fn run<A: Number, B: Number, C: Number>(self) -> Result<Case, Failure> {
        let Self { planned, operands } = self;
        let (device, spec) = (&operands.device().clone(), *planned.spec());
        operands.progress().step(format!("compiling {}", planned.ptx.entry()));
        let launcher = planned.launcher(device)?;
        if spec.op == Op::Sdd {
            let sampled::Sampled { product, mask } = sampled::build::<A, B, C>(launcher, &spec, operands)?;
            let (rows, nnzb, tolerance) =
                (mask.rows.clone(), mask.structure.nnzb(), fused_tolerance(&spec, &mask.want));
            let Sizes { m, n, k, .. } = operands.problem().sizes(&spec);
            let block = (spec.bm as usize, spec.bk as usize);
            let KernelSpec { op, transpose, a, b, out, .. } = spec;
            let work = Work { op, transpose, m, n, k, block, nnzb, a, b, out };
            return Ok(Case { planned, work, rows, longest: k, tolerance, device: device.clone(), product });
        }
        let left = operands.left::<A, B>(&spec)?;
        let right = operands.right::<B>(&spec)?;
        let Sizes { m, n, k, .. } = operands.problem().sizes(&spec);
        let c = DeviceDense::<C>::zeros(device, m, n, spec.c_layout)?;
        let work = Work {
            op: spec.op,
            transpose: spec.transpose,
            m,
            n,
            k,
            block: left.a.block(),
            nnzb: left.a.nnzb(),
            a: spec.a,
            b: spec.b,
            out: spec.out,
        };
        let (rows, longest) = (left.rows.clone(), left.longest);
        let tolerance = fused_tolerance(&spec, &left.want);
        let reduction = spec.epilogue.and_then(|epilogue| epilogue.program().reduction());
        let second = reduction.map(|_| DeviceVector::zeros(device, c.rows())).transpose()?;
        let product = Box::new(On { launcher, left, right, c, second });
        Ok(Case { planned, work, rows, longest, tolerance, device: device.clone(), product })
    }
}

struct On<A: Number, B: Number, C: Number> {
    launcher: Launcher,
    left: Rc<Left<A>>,
    right: Rc<DeviceDense<B>>,
    c: DeviceDense<C>,
    /// The epilogue's second result.
    second: Option<DeviceVector<f32>>,
}

impl<A: Number, B: Number, C: Number> Product for On<A, B, C> {
    fn poison(&mut self) -> Result<(), GpuError> {
        self.c.fill_bytes(C::POISON_BYTE)
    }

    fn launch(&mut self, stream: StreamRef<'_>) -> Result<(), KernelError> {
        let inputs = ByKind(&*self.left.a, &*self.right, self.left.inputs.inputs());
        self.launcher.launch(stream, inputs, (&mut self.c, self.second.as_mut()))
    }

    fn launcher(&self) -> Option<&Launcher> {
        Some(&self.launcher)
    }

    fn verdict(&self) -> Result<Verdict, Failure> {
        let second = self.second.as_ref().map(DeviceVector::download).transpose()?;
        let Left { rows, want, .. } = &*self.left;
        judge_second(second.as_deref(), rows, want)?;
        Verdict::new(&self.c.download()?, rows, want)
    }
}
