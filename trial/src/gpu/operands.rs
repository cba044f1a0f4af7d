//! The operands of a run, drawn once and shared by all kernels that can: the sparse factor by its blocks, the dense one
//! by its layout.

use std::any::Any;
use std::collections::HashMap;
use std::fmt::Debug;
use std::rc::Rc;

use bsr_codegen::KernelSpec;
use bsr_runtime::bench::Work;
use bsr_runtime::gpu::{Device, DeviceBsr, DeviceDense, UploadedInputs};
use bsr_runtime::typed::Number;
use bsr_runtime::{Dense, Launcher, reference};

use super::{Case, Launch, Steps};
use crate::problem::{DrawnProblem, Sizes, dense_layout, scales};
use crate::verify::{Expected, RowChoice, Rows, longest_sum};
use crate::{Failure, Planned};

/// The sparse factor of a product on the device, what else its kernel reads, and what rows of the product must be.
pub struct Left<A: Number> {
    /// The factor.
    pub a: Rc<DeviceBsr<A>>,
    /// What rows of the product must be.
    pub expected: Expected,
    /// What the kernel reads besides its factors.
    pub(super) inputs: UploadedInputs,
}

/// Makes operands on one device for one problem.
pub struct Operands {
    problem: Rc<DrawnProblem>,
    device: Device,
    rows: RowChoice,
    steps: Steps,
    made: HashMap<(&'static str, String), Rc<dyn Any>>,
}

/// A case but for what all of them have.
pub(crate) struct Multiplied {
    pub(crate) nnzb: usize,
    /// Multiplications, where they do not follow from the stored blocks.
    pub(crate) products: Option<u64>,
    pub(crate) expected: Expected,
    pub(crate) launch: Box<dyn Launch>,
}

impl Operands {
    /// On one device, for one problem, of which so many rows are compared.
    pub fn new(problem: &Rc<DrawnProblem>, device: &Device, rows: RowChoice, steps: &Steps) -> Self {
        let (problem, device, steps) = (Rc::clone(problem), device.clone(), Rc::clone(steps));
        Self { problem, device, rows, steps, made: HashMap::new() }
    }

    /// The problem.
    pub(crate) fn problem(&self) -> &DrawnProblem {
        &self.problem
    }

    /// The device.
    pub(crate) fn device(&self) -> &Device {
        &self.device
    }

    /// Which rows are compared.
    pub(crate) fn rows(&self) -> RowChoice {
        self.rows
    }

    /// Reports the step that begins.
    pub(crate) fn step(&self, what: String) {
        (self.steps)(what);
    }

    /// The sparse factor in the blocks of `spec`, the scales, and the reference.
    pub fn left<A: Number, B: Number>(&mut self, spec: &KernelSpec) -> Result<Rc<Left<A>>, Failure> {
        let block = (spec.bm as usize, spec.bk as usize);
        let KernelSpec { op, transpose, permute, scale, .. } = *spec;
        let fused = spec.epilogue.map(|epilogue| (epilogue, spec.out, spec.c_layout));
        let kind = (B::DTYPE, block, scale, op, transpose, permute, fused, reference::rounding(spec));
        self.once("product", (A::DTYPE, kind), |this| {
            let b = this.host_dense::<B>(spec)?;
            this.step("drawing the sparse factor".to_owned());
            let (a, _) = this.problem.sparse::<A>(spec)?;
            let sizes = this.problem.sizes(spec);
            let scales = scales::<A, B>(scale, a.structure(), sizes.along, this.problem.seed)?;
            let rows = Rows::choose(spec, a.structure(), (sizes.m, sizes.along), this.rows);
            this.step(format!("reference of {rows} in f64"));
            let inputs = this.problem.inputs(spec).scales(scales);
            let want = reference::expected(spec, &a, &*b, &inputs, &rows.list, longest_sum(spec, a.structure()))?;
            let inputs = UploadedInputs::upload(&this.device, &inputs)?;
            let a =
                this.once("sparse", (A::DTYPE, block, op, transpose), |this| Ok(DeviceBsr::upload(&this.device, &a)?))?;
            Ok(Left { a, expected: Expected::of_rows(rows, want), inputs })
        })
    }

    /// The dense factor in its layout; the same numbers in either.
    pub fn right<T: Number>(&mut self, spec: &KernelSpec) -> Result<Rc<DeviceDense<T>>, Failure> {
        let layout = dense_layout(spec);
        self.once("dense", (T::DTYPE, layout, spec.op), |this| {
            let b = this.host_dense::<T>(spec)?;
            this.step(format!("copying the dense factor, {layout}-major"));
            Ok(match b.layout() == layout {
                true => DeviceDense::upload(&this.device, &b)?,
                false => DeviceDense::upload(&this.device, &b.to_layout(layout))?,
            })
        })
    }

    /// Loads a kernel.
    pub(crate) fn launcher(&self, planned: &Planned) -> Result<Launcher, Failure> {
        if planned.spec().batch.is_on() {
            return Err(Failure::bad_input(
                "a kernel with batch = on is not launched on a GPU by this command: a program makes its list of products\n  \
                 help: `bsr run --device sim` and `bsr check` multiply a list on the simulator, of --batch products; batch = off otherwise",
            ));
        }
        self.step(format!("compiling {}", planned.ptx.entry()));
        planned.launcher(&self.device)
    }

    /// Rows and columns of C.
    pub(crate) fn rows_and_columns(&self, spec: &KernelSpec) -> (usize, usize) {
        let Sizes { m, n, .. } = self.problem.sizes(spec);
        (m, n)
    }

    /// A kernel with its operands.
    pub(crate) fn case_of(&self, planned: Planned, multiplied: Multiplied) -> Case {
        let Multiplied { nnzb, products, expected, launch } = multiplied;
        let Sizes { m, n, k, .. } = self.problem.sizes(planned.spec());
        let KernelSpec { op, transpose, a, b, out, .. } = *planned.spec();
        let work = Work { op, transpose, m, n, k, block: planned.block(), nnzb, products, a, b, out };
        let (rows, tolerance) = (expected.rows, expected.want.tolerance);
        let (flops, bytes) = (work.executed_flops(), work.compulsory_bytes());
        Case { planned, rows, work, flops, bytes, tolerance, device: self.device.clone(), launch }
    }

    /// The dense factor on the host; of two the second.
    pub(crate) fn host_dense<T: Number>(&mut self, spec: &KernelSpec) -> Result<Rc<Dense<T>>, Failure> {
        self.once("host dense", (T::DTYPE, spec.op), |this| {
            this.step("drawing the dense factor".to_owned());
            Ok(this.problem.dense::<T>(spec))
        })
    }

    /// An operand of this name and of what tells it from others of the name, made at the first request.
    pub(crate) fn once<V: 'static>(
        &mut self,
        name: &'static str,
        facts: impl Debug,
        make: impl FnOnce(&mut Self) -> Result<V, Failure>,
    ) -> Result<Rc<V>, Failure> {
        let key = (name, format!("{facts:?}"));
        if let Some(made) = self.made.get(&key)
            && let Ok(made) = Rc::clone(made).downcast::<V>()
        {
            return Ok(made);
        }
        let made = Rc::new(make(self)?);
        self.made.insert(key, Rc::<V>::clone(&made));
        Ok(made)
    }
}
