//! Products of two block-sparse matrices on a GPU.

use std::rc::Rc;

use bsr_codegen::KernelSpec;
use bsr_runtime::gpu::{DeviceBsr, DeviceDense, DeviceVector, StreamRef, UploadedInputs};
use bsr_runtime::typed::{Number, Typed, with_types};
use bsr_runtime::{Launcher, reference};

use super::factors::Factors;
use super::patterns::{Patterns, multiplications};
use crate::gpu::{Case, Launch, Multiplied, Operands, Recorded};
use crate::verify::{Expected, Verdict};
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
        let on_device = factors::<A, B>(operands, &spec)?;
        let (m, n) = operands.rows_and_columns(&spec);
        let (device, bn) = (operands.device(), spec.bn as usize);
        let (c, written) = match &on_device.host.c {
            Some(pattern) => (Target::Blocks(DeviceBsr::<C>::zeros(device, pattern)?), pattern.stored()),
            None => (Target::Dense(DeviceDense::<C>::zeros(device, m, n, spec.c_layout)?), m * n),
        };
        let has_second = on_device.host.expected.want.rows.is_some();
        let second = has_second.then(|| DeviceVector::zeros(device, m)).transpose()?;
        let (pairs, nnzb) = (on_device.pairs, on_device.a.nnzb());
        let stored = on_device.host.a.values().len() * A::DTYPE.bytes() as usize
            + on_device.b.nnzb() * spec.bk as usize * bn * B::DTYPE.bytes() as usize;
        // A pair has a number of a block of either factor.
        let bytes = (stored + written * C::DTYPE.bytes() as usize) as u64 + 8 * pairs;
        let expected = on_device.host.expected.clone();
        let launch = Box::new(Spgemm { launcher, on_device, c, second });
        let products = Some(multiplications(&spec, pairs));
        let case = operands.case_of(planned, Multiplied { nnzb, products, expected, launch });
        Ok(Case { bytes, ..case })
    }
}

/// The factors on the host and on the device.
struct OnDevice<A: Number, B: Number> {
    host: Factors<A, B>,
    a: DeviceBsr<A>,
    b: DeviceBsr<B>,
    pairs: u64,
    inputs: UploadedInputs,
}

/// The factors in the blocks of `spec`, and the reference.
fn factors<A: Number, B: Number>(operands: &mut Operands, spec: &KernelSpec) -> Result<Rc<OnDevice<A, B>>, Failure> {
    let KernelSpec { op, bm, bn, bk, .. } = *spec;
    let fused = spec.epilogue.map(|epilogue| (epilogue, spec.out, spec.c_layout));
    let kind = (spec.b_layout, spec.scale, fused, reference::rounding(spec));
    operands.once("pairs", (A::DTYPE, B::DTYPE, bm, bn, bk, op, kind), |this| {
        this.step("drawing the factors".to_owned());
        let (a, _) = this.problem().sparse::<A>(spec)?;
        let whole = this.host_dense::<B>(spec)?;
        let seed = this.problem().seed;
        let patterns = Patterns::of_density(spec, a.structure(), whole.cols(), seed)?;
        let pairs = patterns.pairs(a.structure())?;
        this.step(format!("reference of {pairs} pairs of blocks in f64"));
        let host = Factors::new(spec, (a, &*whole), patterns, seed, this.rows())?;
        let a = DeviceBsr::upload(this.device(), &host.a)?;
        let b = DeviceBsr::upload_in(this.device(), &host.b, spec.b_layout)?;
        let inputs = UploadedInputs::upload(this.device(), &host.inputs)?;
        Ok(OnDevice { host, a, b, pairs, inputs })
    })
}

/// C on the device.
enum Target<C: Number> {
    Dense(DeviceDense<C>),
    Blocks(DeviceBsr<C>),
}

struct Spgemm<A: Number, B: Number, C: Number> {
    launcher: Launcher,
    on_device: Rc<OnDevice<A, B>>,
    c: Target<C>,
    /// The epilogue's second result.
    second: Option<DeviceVector<f32>>,
}

impl<A: Number, B: Number, C: Number> Spgemm<A, B, C> {
    fn expected(&self) -> &Expected {
        &self.on_device.host.expected
    }
}

impl<A: Number, B: Number, C: Number> Launch for Spgemm<A, B, C> {
    fn poison(&mut self) -> Result<(), Failure> {
        match &mut self.c {
            Target::Dense(c) => c.fill_bytes(C::POISON_BYTE)?,
            Target::Blocks(c) => c.values_mut().fill_bytes(C::POISON_BYTE)?,
        }
        Ok(())
    }

    fn launch(&mut self, stream: StreamRef<'_>) -> Result<(), Failure> {
        let OnDevice { a, b, inputs, .. } = &*self.on_device;
        let (inputs, second) = ((a, b, inputs.inputs()), self.second.as_mut());
        match &mut self.c {
            Target::Dense(c) => self.launcher.launch(stream, inputs, (c, second))?,
            Target::Blocks(c) => self.launcher.launch(stream, inputs, (c, second))?,
        }
        Ok(())
    }

    fn verdict(&self) -> Result<Verdict, Failure> {
        let second = self.second.as_ref().map(DeviceVector::download).transpose()?;
        let verdict = match &self.c {
            Target::Dense(c) => Verdict::new(&c.download()?, self.expected())?,
            Target::Blocks(c) => Verdict::of_blocks(c.values().to_vec()?, c.structure(), self.expected())?,
        };
        verdict.with_second(second.as_deref(), self.expected())
    }

    fn recorded(&self) -> Result<Option<Recorded>, Failure> {
        Ok(Some((self.launcher.function().attributes()?, self.launcher.records()?)))
    }
}
