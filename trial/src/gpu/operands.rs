//! The operands of a run, drawn once and shared by all kernels that can: the sparse factor by its blocks, the dense one
//! by its layout.

use std::any::Any;
use std::collections::HashMap;
use std::rc::Rc;

use bsr_codegen::{Dtype, Epilogue, KernelSpec, Layout, Op, Scale, Switch};
use bsr_runtime::gpu::{Device, DeviceBsr, DeviceDense, UploadedInputs};
use bsr_runtime::typed::Number;
use bsr_runtime::{Dense, Structure, reference};

use super::Steps;
use crate::Failure;
use crate::problem::{DrawnProblem, block_inputs, dense_layout, scales};
use crate::verify::{Expected, RowChoice, Rows, longest_sum};

/// The sparse factor of a product on the device, what else its kernel reads, and what rows of the product must be.
pub struct Left<A: Number> {
    /// The factor.
    pub a: Rc<DeviceBsr<A>>,
    /// What rows of the product must be.
    pub expected: Expected,
    /// What the kernel reads besides its factors.
    pub(super) inputs: UploadedInputs,
}

/// The pattern of SDDMM, and what its chosen blocks must be.
pub(super) struct Mask {
    pub structure: Structure,
    pub(super) expected: Expected,
    /// What the epilogue's parameters are given.
    pub(super) inputs: UploadedInputs,
}

/// Makes operands on one device for one problem.
pub struct Operands {
    problem: Rc<DrawnProblem>,
    device: Device,
    rows: RowChoice,
    steps: Steps,
    made: HashMap<Key, Rc<dyn Any>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Key {
    Sparse(Dtype, (usize, usize), Op, Switch),
    Product(Dtype, Dtype, (usize, usize), Scale, Op, Switch, Switch, Option<(Epilogue, Dtype, Layout)>),
    HostDense(Dtype, Op),
    DeviceDense(Dtype, Layout, Op),
    DeviceA(Dtype, Layout),
    Mask(Dtype, Dtype, (usize, usize), Switch, Option<(Epilogue, Dtype)>),
}

impl Operands {
    /// On one device, for one problem, of which so many rows are compared.
    pub fn new(problem: &Rc<DrawnProblem>, device: &Device, rows: RowChoice, steps: &Steps) -> Self {
        let (problem, device, steps) = (Rc::clone(problem), device.clone(), Rc::clone(steps));
        Self { problem, device, rows, steps, made: HashMap::new() }
    }

    /// The problem.
    pub(super) fn problem(&self) -> &DrawnProblem {
        &self.problem
    }

    /// The device.
    pub(super) fn device(&self) -> &Device {
        &self.device
    }

    /// Reports the step that begins.
    pub(super) fn step(&self, what: String) {
        (self.steps)(what);
    }

    /// The sparse factor in the blocks of `spec`, the scales, and the reference.
    pub fn left<A: Number, B: Number>(&mut self, spec: &KernelSpec) -> Result<Rc<Left<A>>, Failure> {
        let block = (spec.bm as usize, spec.bk as usize);
        let KernelSpec { op, transpose, permute, scale, .. } = *spec;
        let fused = spec.epilogue.map(|epilogue| (epilogue, spec.out, spec.c_layout));
        self.once(Key::Product(A::DTYPE, B::DTYPE, block, scale, op, transpose, permute, fused), |this| {
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
            let a = this
                .once(Key::Sparse(A::DTYPE, block, op, transpose), |this| Ok(DeviceBsr::upload(&this.device, &a)?))?;
            Ok(Left { a, expected: Expected::of_rows(rows, want), inputs })
        })
    }

    /// The dense factor in its layout; the same numbers in either.
    pub fn right<T: Number>(&mut self, spec: &KernelSpec) -> Result<Rc<DeviceDense<T>>, Failure> {
        let layout = dense_layout(spec);
        self.once(Key::DeviceDense(T::DTYPE, layout, spec.op), |this| {
            let b = this.host_dense::<T>(spec)?;
            this.step(format!("copying the dense factor, {layout}-major"));
            Ok(match b.layout() == layout {
                true => DeviceDense::upload(&this.device, &b)?,
                false => DeviceDense::upload(&this.device, &b.to_layout(layout))?,
            })
        })
    }

    /// A of a product of two dense factors, in its layout.
    pub(super) fn dense_a<T: Number>(&mut self, spec: &KernelSpec) -> Result<Rc<DeviceDense<T>>, Failure> {
        self.once(Key::DeviceA(T::DTYPE, spec.a_layout), |this| {
            this.step("drawing A".to_owned());
            Ok(DeviceDense::upload(&this.device, &this.problem.dense_a::<T>(spec).to_layout(spec.a_layout))?)
        })
    }

    /// The mask of SDDMM in the blocks of `spec`, and the reference.
    pub(super) fn mask<A: Number, B: Number>(&mut self, spec: &KernelSpec) -> Result<Rc<Mask>, Failure> {
        let block = (spec.bm as usize, spec.bk as usize);
        let fused = spec.epilogue.map(|epilogue| (epilogue, spec.out));
        self.once(Key::Mask(A::DTYPE, B::DTYPE, block, spec.transpose, fused), |this| {
            let structure = this.problem.facts(spec)?.structure;
            let rows = Rows::of_blocks(spec, &structure, this.problem.sizes(spec).k, this.rows);
            let inputs = block_inputs(spec, &structure, this.problem.seed);
            this.step(format!("reference of {rows} in f64"));
            let (a, b) = (this.problem.dense_a::<A>(spec), this.host_dense::<B>(spec)?);
            let want = reference::expected_blocks(spec, &a, &*b, &structure, &rows.list, &inputs)?;
            let inputs = UploadedInputs::upload(&this.device, &inputs)?;
            let expected = Expected::of_blocks(rows, want, &structure);
            Ok(Mask { structure, expected, inputs })
        })
    }

    fn host_dense<T: Number>(&mut self, spec: &KernelSpec) -> Result<Rc<Dense<T>>, Failure> {
        self.once(Key::HostDense(T::DTYPE, spec.op), |this| {
            this.step("drawing the dense factor".to_owned());
            Ok(this.problem.dense::<T>(spec))
        })
    }

    /// What stands under `key`, made at the first request.
    fn once<V: 'static>(
        &mut self,
        key: Key,
        make: impl FnOnce(&mut Self) -> Result<V, Failure>,
    ) -> Result<Rc<V>, Failure> {
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
