//! Whether the operands of an SDDMM fit its kernel: the same question for every device.

use bsr_codegen::{Plan, TileScheduler};

use super::KernelError;
use super::fit::{self, COORDINATE_BITS, Operand};
use crate::{Dtype, Scale, Structure};

/// Makes sure that A, B and the stored matrix (its element type and structure) are what `plan` multiplies.
///
/// # Errors
/// A kernel of another operation; blocks, shapes, element types or layouts that do not fit, or sizes beyond 32-bit
/// coordinates.
pub(crate) fn operands(plan: &Plan, a: &Operand, b: &Operand, c: (Dtype, &Structure)) -> Result<(), KernelError> {
    let ((c_dtype, c), spec) = (c, plan.spec());
    if plan.tile_scheduler() != TileScheduler::Sddmm {
        return Err(KernelError::Result { op: spec.op });
    }
    fit::block(plan, c)?;
    let transposed = spec.transpose.is_on();
    let (rows, cols) = if transposed { (b.cols, a.rows) } else { (a.rows, b.cols) };
    if a.cols != b.rows || (rows, cols) != (c.rows(), c.cols()) {
        return Err(KernelError::Shapes {
            a_rows: a.rows,
            a_cols: a.cols,
            b_rows: b.rows,
            b_cols: b.cols,
            c_rows: c.rows(),
            c_cols: c.cols(),
            product: match transposed {
                true => "C^T[n, m] of C[m, n] = A[m, k] * B[k, n] is stored",
                false => "C[m, n] = A[m, k] * B[k, n] is stored",
            },
        });
    }
    fit::dtype("A", "a", a.dtype, spec.a)?;
    fit::dtype("B", "b", b.dtype, spec.b)?;
    fit::dtype("C", "out", c_dtype, spec.out)?;
    fit::layout("A", "a_layout", a.layout, spec.a_layout)?;
    fit::layout("B", "b_layout", b.layout, spec.b_layout)?;
    sizes(c, a.cols)
}

/// SDDMMs are not scaled: makes sure that no scales are given.
///
/// # Errors
/// [`KernelError::Scales`].
pub(crate) fn scales(plan: &Plan, found: Scale) -> Result<(), KernelError> {
    let expected = plan.spec().scale;
    if found == expected { Ok(()) } else { Err(KernelError::Scales { found, expected }) }
}

/// Makes sure that every coordinate fits the kernel's registers.
///
/// # Errors
/// [`KernelError::TooLarge`].
pub(crate) fn sizes(c: &Structure, k: usize) -> Result<(), KernelError> {
    for (what, value) in [
        ("rows of the stored matrix", c.rows()),
        ("columns of the stored matrix", c.cols()),
        ("columns of A", k),
        ("stored blocks", c.nnzb()),
    ] {
        if value as u64 >= 1 << COORDINATE_BITS {
            return Err(KernelError::TooLarge { what, value: value as u64, bits: COORDINATE_BITS });
        }
    }
    Ok(())
}
