//! Whether operands fit a kernel: the same question for every device.

use bsr_codegen::Plan;

use super::KernelError;
use crate::{Dtype, Layout, Structure};

/// Sizes stay below this power of two, so that a tile's coordinates and the coordinate that means "outside"
/// fit 32 bits.
const COORDINATE_BITS: u32 = 30;
/// The same for the rows of A's values, one below another.
const VALUE_ROW_BITS: u32 = 31;

/// What is asked of a dense operand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operand {
    pub(crate) dtype: Dtype,
    pub(crate) layout: Layout,
    pub(crate) rows: usize,
    pub(crate) cols: usize,
}

/// Makes sure that A (its element type and structure), B and C are what `plan` multiplies.
///
/// # Errors
/// Blocks, shapes, element types or layouts that do not fit, or sizes beyond 32-bit coordinates.
pub(crate) fn operands(plan: &Plan, a: (Dtype, &Structure), b: &Operand, c: &Operand) -> Result<(), KernelError> {
    let ((a_dtype, a), spec) = (a, plan.spec());
    block(plan, a)?;
    if a.cols() != b.rows || a.rows() != c.rows || b.cols != c.cols {
        return Err(KernelError::Shapes {
            a_rows: a.rows(),
            a_cols: a.cols(),
            b_rows: b.rows,
            b_cols: b.cols,
            c_rows: c.rows,
            c_cols: c.cols,
        });
    }
    dtype("A", "a", a_dtype, spec.a)?;
    dtype("B", "b", b.dtype, spec.b)?;
    dtype("C", "out", c.dtype, spec.out)?;
    layout("B", "b_layout", b.layout, spec.b_layout)?;
    layout("C", "c_layout", c.layout, spec.c_layout)?;
    sizes(a, b.cols)
}

/// Makes sure that A has the kernel's blocks.
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

/// Makes sure that every coordinate of A times an `n`-column B fits the kernel's registers.
///
/// # Errors
/// [`KernelError::TooLarge`].
pub(crate) fn sizes(a: &Structure, n: usize) -> Result<(), KernelError> {
    let rows_of_values = a.nnzb() as u64 * a.block().0 as u64;
    for (what, value, bits) in [
        ("rows of A", a.rows() as u64, COORDINATE_BITS),
        ("columns of A", a.cols() as u64, COORDINATE_BITS),
        ("columns of B", n as u64, COORDINATE_BITS),
        ("stored blocks x block rows", rows_of_values, VALUE_ROW_BITS),
    ] {
        if value >= 1 << bits {
            return Err(KernelError::TooLarge { what, value, bits });
        }
    }
    Ok(())
}

fn dtype(operand: &'static str, key: &'static str, found: Dtype, expected: Dtype) -> Result<(), KernelError> {
    if found == expected { Ok(()) } else { Err(KernelError::Dtype { operand, key, found, expected }) }
}

fn layout(operand: &'static str, key: &'static str, found: Layout, expected: Layout) -> Result<(), KernelError> {
    if found == expected { Ok(()) } else { Err(KernelError::Layout { operand, key, found, expected }) }
}
