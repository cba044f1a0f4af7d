//! Whether operands fit a kernel: the same question for every device.

use bsr_codegen::epilogue::{Program, Reduction};
use bsr_codegen::{ClusterTile, Plan, Walk};

use super::KernelError;
use super::inputs::{self, Given};
use crate::epilogue::{Input, Inputs, Matrix};
use crate::gpu::{MOST_IN_X, MOST_IN_Y};
use crate::schedule::slices;
use crate::{Dtype, Layout, Scale, Scales, Structure};

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
    if b.layout != spec.b_layout && spec.b.bytes() == 1 {
        return Err(KernelError::AlongK { dtype: spec.b });
    }
    layout("B", "b_layout", b.layout, spec.b_layout)?;
    layout("C", "c_layout", c.layout, spec.c_layout)?;
    sizes(plan, a, b.cols)
}

/// Makes sure that scales are of the kernel's kind, and so many for A and for B as A times an `n`-column B takes.
/// Allocates nothing where they are.
///
/// # Errors
/// [`KernelError::Scales`], [`KernelError::ScaleCount`].
pub(crate) fn scales(
    plan: &Plan,
    a: &Structure,
    n: usize,
    found: Scale,
    counts: [usize; 2],
) -> Result<(), KernelError> {
    let expected = plan.spec().scale;
    if found != expected {
        return Err(KernelError::Scales { found, expected });
    }
    Ok(Scales::check_lengths(found, counts, a, n)?)
}

/// Makes sure that the plan's epilogue is given what it asks for, and tells how its second result is collected.
///
/// # Errors
/// [`KernelError::Epilogue`].
pub(crate) fn epilogue(plan: &Plan, shape: (usize, usize), inputs: &Inputs) -> Result<Option<Reduction>, KernelError> {
    let given = |name: &str| {
        inputs.get(name).map(|input| match input {
            Input::Vector(vector) => Given::Vector { dtype: vector.dtype(), len: vector.len() },
            Input::Matrix(matrix) | Input::Result(matrix) => {
                let (rows, cols) = matrix.shape();
                Given::Matrix { dtype: matrix.dtype(), layout: matrix.layout(), rows, cols }
            }
            Input::Scalar(_) => Given::Scalar,
        })
    };
    let reduction = inputs::program_of(plan).and_then(Program::reduction);
    inputs::check(plan, shape, given, inputs.names(), reduction.map(|_| shape.0))?;
    Ok(reduction)
}

/// The full operand that the plan's epilogue reads, where it is not C.
pub(crate) fn tile<'i>(plan: &Plan, inputs: &'i Inputs) -> Option<&'i Matrix> {
    let program = inputs::program_of(plan)?;
    let (at, _) = program.tile()?;
    match inputs.get(&program.inputs()[at].name) {
        Some(Input::Matrix(matrix)) => Some(matrix),
        _ => None,
    }
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

/// Makes sure that every coordinate of A times an `n`-column B fits the kernel's registers, and the kernel's grid a
/// launch.
///
/// # Errors
/// [`KernelError::TooLarge`], [`KernelError::Grid`].
pub(crate) fn sizes(plan: &Plan, a: &Structure, n: usize) -> Result<(), KernelError> {
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
    match plan.walk() {
        Walk::Tiles => Ok(()),
        Walk::Blocks => grid(&plan.cluster_tile(), a.nnzb() as u64, n as u64),
    }
}

/// Makes sure that one CTA for every part of a block and every tile of columns can be launched.
///
/// # Errors
/// [`KernelError::Grid`].
fn grid(tile: &ClusterTile, blocks: u64, n: u64) -> Result<(), KernelError> {
    let (slices, columns) = (u64::from(slices(tile)), u64::from(tile.columns));
    let parts = blocks * slices;
    if parts > MOST_IN_X.into() {
        return Err(KernelError::Grid {
            what: format!("{blocks} stored blocks x {slices} row slices"),
            value: parts,
            limit: MOST_IN_X,
            help: "split A by rows, or accumulate = register",
        });
    }
    let tiles = n.div_ceil(columns);
    if tiles > MOST_IN_Y.into() {
        return Err(KernelError::Grid {
            what: format!("the tiles of {n} columns of B, ceil({n} / {columns}),"),
            value: tiles,
            limit: MOST_IN_Y,
            help: "a larger bn, split B by columns, or accumulate = register",
        });
    }
    Ok(())
}

fn dtype(operand: &'static str, key: &'static str, found: Dtype, expected: Dtype) -> Result<(), KernelError> {
    if found == expected { Ok(()) } else { Err(KernelError::Dtype { operand, key, found, expected }) }
}

fn layout(operand: &'static str, key: &'static str, found: Layout, expected: Layout) -> Result<(), KernelError> {
    if found == expected { Ok(()) } else { Err(KernelError::Layout { operand, key, found, expected }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grid_of_blocks_has_room_for_what_the_hardware_takes() {
        let tile = ClusterTile { rows: 16, columns: 64, block_rows: 48, stages_per_block: (1, 1) };
        assert!(grid(&tile, 1 << 20, 65_535 * 64).is_ok());
        let wide = grid(&tile, 1, 65_535 * 64 + 1).expect_err("a tile too many").to_string();
        assert!(wide.contains("ceil(4194241 / 64), are 65536") && wide.contains("65536 > 65535"), "{wide}");
        let many = grid(&tile, 1 << 30, 1).expect_err("too many blocks").to_string();
        assert!(many.contains("1073741824 stored blocks x 3 row slices are 3221225472"), "{many}");
    }
}
