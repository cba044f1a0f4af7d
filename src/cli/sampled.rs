//! Sampled products: both factors dense, the stored blocks compared as rows of values.

use std::rc::Rc;

use bsr::gpu::{DeviceBsr, DeviceDense, GpuError, StreamRef};
use bsr::simulated::{Options, Report, Simulated};
use bsr::{Dense, Element, KernelError, KernelSpec, Launcher, Layout, Structure, reference};

use super::case::Product;
use super::dtypes::Number;
use super::exit::{Exit, Failure};
use super::operands::Operands;
use super::verdict::{Rows, Verdict};

/// A sampled product on a device, ready to be launched.
pub(super) struct Sampled {
    pub(super) product: Box<dyn Product>,
    pub(super) rows: Rows,
    pub(super) nnzb: usize,
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
    let structure = operands.problem().facts(spec)?.structure;
    let rows = Rows::of_blocks(&structure, operands.problem().sizes(spec).k, operands.rows());
    operands.progress().step(format!("reference of {rows} in f64"));
    let want = {
        let (host_a, host_b) = (operands.problem().dense_a::<A>(spec), operands.problem().dense::<B>(spec));
        want(spec, &host_a, &host_b, &structure, &rows)?
    };
    let c = DeviceBsr::<C>::zeros(operands.device(), &structure)?;
    let nnzb = structure.nnzb();
    let product = Box::new(On { launcher, a, b, c, rows: rows.clone(), want });
    Ok(Sampled { product, rows, nnzb })
}

/// What the chosen blocks must be, a row of values each.
///
/// # Errors
/// When the operands do not belong together.
pub(super) fn want<A: Element, B: Element>(
    spec: &KernelSpec,
    a: &Dense<A>,
    b: &Dense<B>,
    structure: &Structure,
    rows: &Rows,
) -> Result<Vec<f64>, Failure> {
    let (a, b) = (a.view(), b.view());
    Ok(match spec.transpose.is_on() {
        true => reference::sampled_blocks(b.transposed(), a.transposed(), structure, &rows.list)?,
        false => reference::sampled_blocks(a, b, structure, &rows.list)?,
    })
}

/// Multiplies on the simulator and compares all blocks.
///
/// # Errors
/// Those of the simulator.
pub(super) fn simulate<A: Element, B: Element, C: Element>(
    kernel: &Simulated,
    (a, b): (&Dense<A>, &Dense<B>),
    structure: &Structure,
    (rows, want): (&Rows, &[f64]),
    options: &Options,
) -> Result<(Verdict, Report), Failure> {
    let spec = kernel.plan().spec();
    let (a, b) = (a.to_layout(spec.a_layout), b.to_layout(spec.b_layout));
    let (values, report) = kernel.sample::<A, B, C>(&a, &b, structure, options)?;
    Ok((verdict(values, structure, rows, want)?, report))
}

fn verdict<C: Element>(values: Vec<C>, structure: &Structure, rows: &Rows, want: &[f64]) -> Result<Verdict, Failure> {
    let size = structure.block().0 * structure.block().1;
    let blocks = Dense::from_vec(structure.nnzb(), size, Layout::RowMajor, size, values)
        .map_err(|error| Failure::new(Exit::Wrong, error))?;
    Verdict::new(&blocks, rows, want)
}

struct On<A: Number, B: Number, C: Number> {
    launcher: Launcher,
    a: Rc<DeviceDense<A>>,
    b: Rc<DeviceDense<B>>,
    c: DeviceBsr<C>,
    rows: Rows,
    want: Vec<f64>,
}

impl<A: Number, B: Number, C: Number> Product for On<A, B, C> {
    fn poison(&mut self) -> Result<(), GpuError> {
        self.c.values_mut().fill_bytes(C::POISON_BYTE)
    }

    fn launch(&mut self, stream: StreamRef<'_>) -> Result<(), KernelError> {
        self.launcher.launch_sampled(stream, &*self.a, &*self.b, &mut self.c)
    }

    fn verdict(&self) -> Result<Verdict, Failure> {
        verdict(self.c.values().to_vec()?, self.c.structure(), &self.rows, &self.want)
    }
}
