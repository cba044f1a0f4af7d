//! SDDMMs on a GPU.

use std::rc::Rc;

use bsr_codegen::KernelSpec;
use bsr_runtime::gpu::{DeviceBsr, DeviceDense, DeviceVector, StreamRef, UploadedInputs};
use bsr_runtime::typed::{Number, Typed, with_types};
use bsr_runtime::{Launcher, Structure, reference};

use super::inputs::block_inputs;
use crate::gpu::{Case, Launch, Multiplied, Operands, Recorded};
use crate::verify::{Expected, Rows, Verdict};
use crate::{Failure, Planned};

/// A kernel on the operands of its problem.
pub(super) fn build(operands: &mut Operands, planned: Planned) -> Result<Case, Failure> {
    let spec = *planned.spec();
    with_types(&spec, Build(operands, planned))
}

struct Build<'b>(&'b mut Operands, Planned);

impl Typed for Build<'_> {
    type Output = Case;
    type Error = Failure;

    fn run<A: Number, B: Number, C: Number>(self) -> Result<Case, Failure> {
        let Self(operands, planned) = self;
        let spec = *planned.spec();
        let launcher = operands.launcher(&planned)?;
        let (a, b) = (first::<A>(operands, &spec)?, operands.right::<B>(&spec)?);
        let mask = mask::<A, B>(operands, &spec)?;
        let has_second = mask.expected.want.rows.is_some();
        let second = has_second.then(|| DeviceVector::zeros(operands.device(), mask.structure.rows())).transpose()?;
        let c = DeviceBsr::<C>::zeros(operands.device(), &mask.structure)?;
        let (nnzb, expected) = (mask.structure.nnzb(), mask.expected.clone());
        let launch = Box::new(Sddmm { launcher, a, b, c, second, mask });
        Ok(operands.case_of(planned, Multiplied { nnzb, products: None, expected, launch }))
    }
}

/// The pattern, and what its chosen blocks must be.
struct Mask {
    structure: Structure,
    expected: Expected,
    /// What the epilogue's parameters are given.
    inputs: UploadedInputs,
}

/// A in its layout.
fn first<T: Number>(operands: &mut Operands, spec: &KernelSpec) -> Result<Rc<DeviceDense<T>>, Failure> {
    operands.once("A", (T::DTYPE, spec.a_layout), |this| {
        this.step("drawing A".to_owned());
        Ok(DeviceDense::upload(this.device(), &this.problem().dense_a::<T>(spec).to_layout(spec.a_layout))?)
    })
}

/// The pattern in the blocks of `spec`, and the reference.
fn mask<A: Number, B: Number>(operands: &mut Operands, spec: &KernelSpec) -> Result<Rc<Mask>, Failure> {
    let fused = spec.epilogue.map(|epilogue| (epilogue, spec.out));
    let kind = (A::DTYPE, B::DTYPE, spec.bm, spec.bk, spec.transpose, fused, reference::rounding(spec));
    operands.once("mask", kind, |this| {
        let structure = this.problem().facts(spec)?.structure;
        let rows = Rows::of_blocks(spec, &structure, this.problem().sizes(spec).k, this.rows());
        let inputs = block_inputs(spec, &structure, this.problem().seed);
        this.step(format!("reference of {rows} in f64"));
        let (a, b) = (this.problem().dense_a::<A>(spec), this.host_dense::<B>(spec)?);
        let want = reference::expected_blocks(spec, &a, &*b, &structure, &rows.list, &inputs)?;
        let inputs = UploadedInputs::upload(this.device(), &inputs)?;
        let expected = Expected::of_blocks(rows, want, &structure);
        Ok(Mask { structure, expected, inputs })
    })
}

struct Sddmm<A: Number, B: Number, C: Number> {
    launcher: Launcher,
    a: Rc<DeviceDense<A>>,
    b: Rc<DeviceDense<B>>,
    c: DeviceBsr<C>,
    /// The epilogue's second result.
    second: Option<DeviceVector<f32>>,
    mask: Rc<Mask>,
}

impl<A: Number, B: Number, C: Number> Launch for Sddmm<A, B, C> {
    fn poison(&mut self) -> Result<(), Failure> {
        Ok(self.c.values_mut().fill_bytes(C::POISON_BYTE)?)
    }

    fn launch(&mut self, stream: StreamRef<'_>) -> Result<(), Failure> {
        let inputs = (&*self.a, &*self.b, self.mask.inputs.inputs());
        Ok(self.launcher.launch(stream, inputs, (&mut self.c, self.second.as_mut()))?)
    }

    fn verdict(&self) -> Result<Verdict, Failure> {
        let second = self.second.as_ref().map(DeviceVector::download).transpose()?;
        let verdict = Verdict::of_blocks(self.c.values().to_vec()?, self.c.structure(), &self.mask.expected)?;
        match &second {
            Some(second) => verdict.with_second(Some(second), &self.mask.expected),
            None => Ok(verdict),
        }
    }

    fn recorded(&self) -> Result<Option<Recorded>, Failure> {
        Ok(Some((self.launcher.function().attributes()?, self.launcher.records()?)))
    }
}
