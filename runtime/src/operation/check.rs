//! What the checks of all operations have in common.

use bsr_codegen::{Dtype, KernelSpec, Layout, Plan, Refusal};

use crate::error::KernelError;
use crate::gpu::UntypedDense;
use crate::{Dense, Element, Structure};

/// Sizes stay below this power of two, so that a tile's coordinates and the coordinate that means "outside"
/// fit 32 bits.
pub(crate) const COORDINATE_BITS: u32 = 30;
/// What is asked of a dense operand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operand {
    pub(crate) dtype: Dtype,
    pub(crate) layout: Layout,
    pub(crate) rows: usize,
    pub(crate) cols: usize,
}

impl<P> From<&UntypedDense<P>> for Operand {
    fn from(dense: &UntypedDense<P>) -> Self {
        let UntypedDense { dtype, layout, rows, cols, .. } = *dense;
        Self { dtype, layout, rows, cols }
    }
}

impl<T: Element> From<&Dense<T>> for Operand {
    fn from(dense: &Dense<T>) -> Self {
        Self { dtype: T::DTYPE, layout: dense.layout(), rows: dense.rows(), cols: dense.cols() }
    }
}

/// Makes sure that the sparse matrix has the kernel's blocks.
///
/// # Errors
/// [`KernelError::Block`].
pub(crate) fn block(plan: &Plan, a: &Structure) -> Result<(), KernelError> {
    let spec = plan.spec();
    let (found_m, found_k) = a.block();
    if (found_m, found_k) == (spec.bm as usize, spec.bk as usize) {
        Ok(())
    } else {
        Err(KernelError::Block { found_m, found_k, bm: spec.bm, bk: spec.bk })
    }
}

pub(super) fn dtype(
    operand: &'static str,
    key: &'static str,
    found: Dtype,
    expected: Dtype,
) -> Result<(), KernelError> {
    if found == expected { Ok(()) } else { Err(KernelError::Dtype { operand, key, found, expected }) }
}

pub(super) fn layout(
    operand: &'static str,
    key: &'static str,
    found: Layout,
    expected: Layout,
) -> Result<(), KernelError> {
    if found == expected { Ok(()) } else { Err(KernelError::Layout { operand, key, found, expected }) }
}

/// How the elements of a block of an operand lie as a kernel reads or writes them.
pub(crate) fn layout_of_blocks(spec: &KernelSpec, operand: &str) -> Layout {
    if operand == "B" && spec.op.is_of_pairs() { spec.b_layout } else { Layout::RowMajor }
}

/// Makes sure that they lie so, where it is known how they do.
///
/// # Errors
/// How they lie.
pub(crate) fn block_layout(plan: &Plan, operand: &str, found: Option<Layout>) -> Result<(), KernelError> {
    let expected = layout_of_blocks(plan.spec(), operand);
    let line = |layout| if layout == Layout::RowMajor { "row by row" } else { "column by column" };
    let help = match expected {
        Layout::RowMajor => "`DeviceBsr::upload`",
        Layout::ColMajor => "`DeviceBsr::upload_in(&device, &b, Layout::ColMajor)`",
    };
    match found {
        Some(found) if found != expected => {
            let fact =
                format!("the blocks of {operand} are stored {}, the kernel has them {}", line(found), line(expected));
            Err(Refusal::new(fact).help(help).into())
        }
        _ => Ok(()),
    }
}
