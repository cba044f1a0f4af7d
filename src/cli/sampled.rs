//! SDDMM: both factors are dense, and the stored blocks are compared as rows of values.

use std::rc::Rc;

use bsr::gpu::{DeviceBsr, DeviceDense, DeviceVector, GpuError, StreamRef};
use bsr::reference::Fused;
use bsr::simulated::{Options, Simulated};
use bsr::{Dense, Element, Inputs, KernelError, KernelSpec, Launcher, Layout, Structure, reference};
use bsr_runtime::typed::Number;

use super::case::Product;
use super::exit::Failure;
use super::operands::{Mask, Operands};
use super::product::{Ran, worst};
use super::verdict::{Rows, RowsAsked, Verdict, judge_second};

/// A sampled product on a device, ready to be launched, and what it must be.
pub(super) struct Sampled {
    pub(super) product: Box<dyn Product>,
    pub(super) mask: Rc<Mask>,
}

/// Makes the operands that are not there yet.
///
/// # Errors
/// Those of the device, and of a pattern that cannot be had in the kernel's blocks.
pub(super) fn build<A: Number, B: Number, C: Number>(
    launcher: Launcher,
    spec: &KernelSpec,
    operands: &mut Operands,
) -> Result<Sampled, Failure> {
    let (a, b) = (operands.dense_a::<A>(spec)?, operands.right::<B>(spec)?);
    let mask = operands.mask::<A, B>(spec)?;
    let second = mask.want.rows.as_ref().map(|_| DeviceVector::zeros(operands.device(), mask.structure.rows()));
    let c = DeviceBsr::<C>::zeros(operands.device(), &mask.structure)?;
    let product = Box::new(On { launcher, a, b, c, second: second.transpose()?, mask: Rc::clone(&mask) });
    Ok(Sampled { product, mask })
}

/// Random inputs of the epilogue of `spec`.
pub(super) fn inputs(spec: &KernelSpec, structure: &Structure, seed: u64) -> Inputs {
    let drawn = |epilogue: bsr::Epilogue| Inputs::random_blocks(epilogue.program(), structure, seed);
    spec.epilogue.map(drawn).unwrap_or_default()
}

/// What the chosen blocks must be, a row of values each, and what rows of which all blocks are chosen collect.
///
/// # Errors
/// When the operands do not belong together.
pub(super) fn want<A: Element, B: Element>(
    spec: &KernelSpec,
    (a, b): (&Dense<A>, &Dense<B>),
    structure: &Structure,
    rows: &Rows,
    inputs: &Inputs,
) -> Result<Fused, Failure> {
    Ok(reference::expected_blocks(spec, a, b, structure, &rows.list, inputs)?)
}

/// The factors of an SDDMM, where its blocks are, and what chosen ones must be.
pub(super) struct Drawn<A: Element, B: Element> {
    a: Dense<A>,
    b: Dense<B>,
    structure: Structure,
    inputs: Inputs,
    pub(super) rows: Rows,
    pub(super) want: Fused,
}

impl<A: Element, B: Element> Drawn<A, B> {
    /// The reference of the blocks `rows` of the product of `a` with `b`, which are brought into the kernel's layouts.
    ///
    /// # Errors
    /// When the operands do not belong together.
    pub(super) fn new(
        spec: &KernelSpec,
        (a, b): (Dense<A>, Dense<B>),
        structure: Structure,
        seed: u64,
        asked: RowsAsked,
    ) -> Result<Self, Failure> {
        let rows = Rows::of_blocks(spec, &structure, a.cols(), asked);
        let inputs = inputs(spec, &structure, seed);
        let want = want(spec, (&a, &b), &structure, &rows, &inputs)?;
        let (a, b) = (a.to_layout(spec.a_layout), b.to_layout(spec.b_layout));
        Ok(Self { a, b, structure, inputs, rows, want })
    }

    /// The most products that an element sums.
    pub(super) fn longest(&self) -> usize {
        self.a.cols()
    }
}

/// Multiplies on the simulator and compares the chosen blocks: one product, or of a kernel for lists all of them in one
/// launch, of which the worst result is judged.
///
/// # Errors
/// Those of the simulator.
pub(super) fn simulate<A: Element, B: Element, C: Element>(
    kernel: &Simulated,
    problems: &[Drawn<A, B>],
    options: &Options,
) -> Result<Ran, Failure> {
    if kernel.plan().spec().batch.is_on() {
        let list = problems.iter().map(|Drawn { a, b, structure, .. }| (a, b, structure));
        let (results, report) = kernel.multiply_batch::<C, _>(list, options)?;
        let verdicts = results.into_iter().zip(problems);
        let verdicts = verdicts.map(|(c, drawn)| verdict(c, &drawn.structure, &drawn.rows, &drawn.want));
        return Ok(Ran { verdict: worst(verdicts)?, report, second: None });
    }
    let Drawn { a, b, structure, inputs, rows, want } = &problems[0];
    let (results, report) = kernel.multiply::<C, _>((a, b, structure, inputs), options)?;
    let second = match report.is_clean() {
        true => judge_rows(results.rows.as_deref(), structure, rows, want).err(),
        false => None,
    };
    Ok(Ran { verdict: verdict(results.c, structure, rows, want)?, report, second })
}

/// Holds a second result against the reference, in the rows of which all blocks are among the chosen ones.
fn judge_rows(got: Option<&[f32]>, structure: &Structure, rows: &Rows, want: &Fused) -> Result<(), Failure> {
    if got.is_none() {
        return Ok(());
    }
    let complete = Rows { list: reference::complete_rows(structure, &rows.list), of: structure.rows(), unit: "rows" };
    judge_second(got, &complete, want)
}

fn verdict<C: Element>(values: Vec<C>, structure: &Structure, rows: &Rows, want: &Fused) -> Result<Verdict, Failure> {
    let size = structure.block().0 * structure.block().1;
    let blocks = Dense::from_vec(structure.nnzb(), size, Layout::RowMajor, size, values).map_err(Failure::wrong)?;
    Verdict::of_blocks(&blocks, structure, rows, want)
}

struct On<A: Number, B: Number, C: Number> {
    launcher: Launcher,
    a: Rc<DeviceDense<A>>,
    b: Rc<DeviceDense<B>>,
    c: DeviceBsr<C>,
    /// The epilogue's second result.
    second: Option<DeviceVector<f32>>,
    mask: Rc<Mask>,
}

impl<A: Number, B: Number, C: Number> Product for On<A, B, C> {
    fn poison(&mut self) -> Result<(), GpuError> {
        self.c.values_mut().fill_bytes(C::POISON_BYTE)
    }

    fn launch(&mut self, stream: StreamRef<'_>) -> Result<(), KernelError> {
        let inputs = (&*self.a, &*self.b, self.mask.inputs.inputs());
        self.launcher.launch(stream, inputs, (&mut self.c, self.second.as_mut()))
    }

    fn launcher(&self) -> Option<&Launcher> {
        Some(&self.launcher)
    }

    fn verdict(&self) -> Result<Verdict, Failure> {
        let second = self.second.as_ref().map(DeviceVector::download).transpose()?;
        let Mask { rows, want, .. } = &*self.mask;
        judge_rows(second.as_deref(), self.c.structure(), rows, want)?;
        verdict(self.c.values().to_vec()?, self.c.structure(), rows, want)
    }
}
