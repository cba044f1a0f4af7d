//! The operands of a run, drawn once and shared by all kernels that can: the sparse factor by its blocks, the dense one
//! by its layout.

use std::any::Any;
use std::collections::HashMap;
use std::rc::Rc;

use bsr::gpu::{Device, DeviceBsr, DeviceDense, UploadedInputs};
use bsr::reference::Fused;
use bsr::{
    Dense, Dtype, Element, Epilogue, Inputs, KernelSpec, Layout, Op, Permutation, Scale, Scales, Structure, Switch,
    reference,
};
use bsr_runtime::typed::Number;

use super::exit::Failure;
use super::problem::DrawnProblem;
use super::progress::Progress;
use super::sampled;
use super::verdict::{Rows, RowsAsked, longest_sum};

/// The sparse factor of a product on the device, what else its kernel reads, and what rows of the product must be.
pub(super) struct Left<A: Number> {
    pub(super) a: Rc<DeviceBsr<A>>,
    pub(super) rows: Rows,
    pub(super) want: Fused,
    /// What the kernel reads besides its factors.
    pub(super) inputs: UploadedInputs,
    /// The most products that an element of C sums.
    pub(super) longest: usize,
}

/// The pattern of SDDMM, and what its chosen blocks must be.
pub(super) struct Mask {
    pub(super) structure: Structure,
    pub(super) rows: Rows,
    pub(super) want: Fused,
    /// What the epilogue's parameters are given.
    pub(super) inputs: UploadedInputs,
}

/// Makes operands on one device for one problem.
pub(super) struct Operands {
    problem: Rc<DrawnProblem>,
    device: Device,
    rows: RowsAsked,
    progress: Progress,
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
    pub(super) fn new(problem: &Rc<DrawnProblem>, device: &Device, rows: RowsAsked, progress: &Progress) -> Self {
        let (problem, device, progress) = (Rc::clone(problem), device.clone(), progress.clone());
        Self { problem, device, rows, progress, made: HashMap::new() }
    }

    /// The problem.
    pub(super) fn problem(&self) -> &DrawnProblem {
        &self.problem
    }

    /// The device.
    pub(super) fn device(&self) -> &Device {
        &self.device
    }

    /// What is going on.
    pub(super) fn progress(&self) -> &Progress {
        &self.progress
    }

    /// The sparse factor in the blocks of `spec`, the scales, and the reference.
    pub(super) fn left<A: Number, B: Number>(&mut self, spec: &KernelSpec) -> Result<Rc<Left<A>>, Failure> {
        let block = (spec.bm as usize, spec.bk as usize);
        let KernelSpec { op, transpose, permute, scale, .. } = *spec;
        let fused = spec.epilogue.map(|epilogue| (epilogue, spec.out, spec.c_layout));
        self.once(Key::Product(A::DTYPE, B::DTYPE, block, scale, op, transpose, permute, fused), |this| {
            let b = this.host_dense::<B>(spec)?;
            this.progress.step("drawing the sparse factor");
            let (a, _) = this.problem.sparse::<A>(spec)?;
            let sizes = this.problem.sizes(spec);
            let scales = scales::<A, B>(scale, a.structure(), sizes.along, this.problem.seed)?;
            let rows = Rows::choose(spec, a.structure(), &sizes, this.rows);
            this.progress.step(format!("reference of {rows} in f64"));
            let inputs = this.problem.inputs(spec).scales(scales);
            let longest = longest_sum(spec, a.structure());
            let want = reference::expected(spec, &a, &*b, &inputs, &rows.list, longest)?;
            let inputs = UploadedInputs::upload(&this.device, &inputs)?;
            let a = this
                .once(Key::Sparse(A::DTYPE, block, op, transpose), |this| Ok(DeviceBsr::upload(&this.device, &a)?))?;
            Ok(Left { a, rows, want, inputs, longest })
        })
    }

    /// The dense factor in its layout; the same numbers in either.
    pub(super) fn right<T: Number>(&mut self, spec: &KernelSpec) -> Result<Rc<DeviceDense<T>>, Failure> {
        let layout = dense_layout(spec);
        self.once(Key::DeviceDense(T::DTYPE, layout, spec.op), |this| {
            let b = this.host_dense::<T>(spec)?;
            this.progress.step(format!("copying the dense factor, {layout}-major"));
            Ok(match b.layout() == layout {
                true => DeviceDense::upload(&this.device, &b)?,
                false => DeviceDense::upload(&this.device, &b.to_layout(layout))?,
            })
        })
    }

    /// A of a product of two dense factors, in its layout.
    pub(super) fn dense_a<T: Number>(&mut self, spec: &KernelSpec) -> Result<Rc<DeviceDense<T>>, Failure> {
        self.once(Key::DeviceA(T::DTYPE, spec.a_layout), |this| {
            this.progress.step("drawing A");
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
            let inputs = sampled::inputs(spec, &structure, this.problem.seed);
            this.progress.step(format!("reference of {rows} in f64"));
            let (a, b) = (this.problem.dense_a::<A>(spec), this.host_dense::<B>(spec)?);
            let want = sampled::want(spec, (&a, &*b), &structure, &rows, &inputs)?;
            let inputs = UploadedInputs::upload(&this.device, &inputs)?;
            Ok(Mask { structure, rows, want, inputs })
        })
    }

    fn host_dense<T: Number>(&mut self, spec: &KernelSpec) -> Result<Rc<Dense<T>>, Failure> {
        self.once(Key::HostDense(T::DTYPE, spec.op), |this| {
            this.progress.step("drawing the dense factor");
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

/// How the dense factor lies.
pub(super) fn dense_layout(spec: &KernelSpec) -> Layout {
    if spec.op == Op::Dds { spec.a_layout } else { spec.b_layout }
}

/// Random inputs of the epilogue of `spec`, of which sums of products are some ten times as large, and where it asks for one
/// an order of rows: this one, or a random one.
pub(super) fn inputs(spec: &KernelSpec, (m, n): (usize, usize), order: Option<&Permutation>, seed: u64) -> Inputs {
    let drawn = spec.epilogue.map(|epilogue| Inputs::random(epilogue.program(), (m, n), spec.c_layout, seed));
    let inputs = drawn.unwrap_or_default();
    match spec.permute.is_on() {
        true => inputs.order(order.cloned().unwrap_or_else(|| Permutation::random(m, seed))),
        false => inputs,
    }
}

/// Random scales of a kind for A of this structure and `n` columns of B, such that scaled products are about as large
/// as those of numbers from N(0, 1): drawn i8 are 20 times as large.
///
/// # Errors
/// None, as long as scales are drawn from around 1.
pub(super) fn scales<A: Element, B: Element>(
    kind: Scale,
    a: &Structure,
    n: usize,
    seed: u64,
) -> Result<Scales, Failure> {
    let drawn = Scales::random(kind, a, n, seed);
    drawn.times(1.0 / A::SPREAD, 1.0 / B::SPREAD).map_err(Failure::wrong)
}
