//! Whether operands fit a kernel: the same question for every device.

use bsr_codegen::epilogue::Program;
use bsr_codegen::{ClusterTile, KernelSpec, Op, Plan, TileScheduler};

use super::KernelError;
use super::inputs::{self, Given};
use crate::epilogue::{Input, Inputs};
use crate::gpu::{MOST_IN_X, MOST_IN_Y, UntypedDense};
use crate::schedule::slices;
use crate::{Dense, Dtype, Element, Layout, Permutation, Scale, Scales, Structure};

/// Sizes stay below this power of two, so that a tile's coordinates and the coordinate that means "outside"
/// fit 32 bits.
pub(in crate::kernel) const COORDINATE_BITS: u32 = 30;
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

/// The extents of a product, by its factors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shapes {
    /// Rows and columns of C.
    pub(crate) result: (usize, usize),
    /// K.
    pub(crate) inner: usize,
    /// The extent of C along the dense factor: N, or M where B is sparse.
    pub(crate) along: usize,
    /// Whether both factors have this K.
    multiplies: bool,
}

impl Shapes {
    /// The product that `spec` says of these factors.
    pub(crate) fn of(spec: &KernelSpec, sparse: &Structure, dense: &Operand) -> Self {
        let (rows, cols) = match spec.transpose.is_on() {
            true => (sparse.cols(), sparse.rows()),
            false => (sparse.rows(), sparse.cols()),
        };
        match spec.op {
            Op::Dds => {
                Self { result: (dense.rows, cols), inner: rows, along: dense.rows, multiplies: dense.cols == rows }
            }
            _ => Self { result: (rows, dense.cols), inner: cols, along: dense.cols, multiplies: dense.rows == cols },
        }
    }
}

/// The names of the sparse factor and of the dense one.
pub(crate) fn names(spec: &KernelSpec) -> (&'static str, &'static str) {
    if spec.op == Op::Dds { ("B", "A") } else { ("A", "B") }
}

/// Makes sure that the sparse factor (its element type and structure), the dense one and C are what `plan` multiplies.
///
/// # Errors
/// Blocks, shapes, element types or layouts that do not fit, or sizes beyond 32-bit coordinates.
pub(crate) fn operands(
    plan: &Plan,
    (sparse_dtype, sparse): (Dtype, &Structure),
    dense: &Operand,
    c: &Operand,
) -> Result<Shapes, KernelError> {
    let spec = plan.spec();
    if spec.op == Op::Sdd {
        return Err(KernelError::Factors { expected: spec.op });
    }
    block(plan, sparse)?;
    let shapes = Shapes::of(spec, sparse, dense);
    if !shapes.multiplies || shapes.result != (c.rows, c.cols) {
        let (stored, other) = ((sparse.rows(), sparse.cols()), (dense.rows, dense.cols));
        let (a, b) = if spec.op == Op::Dds { (other, stored) } else { (stored, other) };
        return Err(KernelError::Shapes {
            a_rows: a.0,
            a_cols: a.1,
            b_rows: b.0,
            b_cols: b.1,
            c_rows: c.rows,
            c_cols: c.cols,
            product: product(spec),
        });
    }
    let transposed = spec.op == Op::Dds;
    let (a, b) = if transposed { (dense.dtype, sparse_dtype) } else { (sparse_dtype, dense.dtype) };
    dtype("A", "a", a, spec.a)?;
    dtype("B", "b", b, spec.b)?;
    dtype("C", "out", c.dtype, spec.out)?;
    let (operand, key, wanted) =
        if transposed { ("A", "a_layout", spec.a_layout) } else { ("B", "b_layout", spec.b_layout) };
    if dense.layout != wanted && spec.b.bytes() == 1 {
        return Err(KernelError::AlongK { operand, dtype: dense.dtype, expected: wanted });
    }
    layout(operand, key, dense.layout, wanted)?;
    layout("C", "c_layout", c.layout, spec.c_layout)?;
    sizes(plan, sparse, shapes.along)?;
    Ok(shapes)
}

/// What is multiplied, in the shapes of the operands as they are stored.
fn product(spec: &KernelSpec) -> &'static str {
    match (spec.op, spec.transpose.is_on()) {
        (Op::Dds, false) => "C[m, n] = A[m, k] * B[k, n] with B sparse",
        (Op::Dds, true) => "C[m, n] = A[m, k] * B^T with B[n, k] sparse, as it is stored",
        (_, true) => "C[m, n] = A^T * B[k, n] with A[k, m] as it is stored",
        (_, false) => "C[m, n] = A[m, k] * B[k, n]",
    }
}

/// Makes sure that scales are of the kernel's kind, and so many for A and for B as A times an `n`-column B takes. Kernels
/// whose factors depend on the shape have a sparse A.
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

/// Makes sure that the plan's epilogue is given what it asks for.
///
/// # Errors
/// [`KernelError::Epilogue`].
pub(crate) fn epilogue(plan: &Plan, shape: (usize, usize), inputs: &Inputs) -> Result<(), KernelError> {
    epilogue_of(plan, shape, None, inputs)
}

/// The same for an SDDMM whose blocks are those of `stored`.
///
/// # Errors
/// [`KernelError::Epilogue`].
pub(crate) fn sddmm_epilogue(plan: &Plan, stored: &Structure, inputs: &Inputs) -> Result<(), KernelError> {
    epilogue_of(plan, (stored.rows(), stored.cols()), Some(stored), inputs)
}

fn epilogue_of(
    plan: &Plan,
    shape: (usize, usize),
    stored: Option<&Structure>,
    inputs: &Inputs,
) -> Result<(), KernelError> {
    let given = |name: &str| {
        inputs.get(name).map(|input| match input {
            Input::Vector(vector) => Given::Vector { dtype: vector.dtype(), len: vector.len() },
            Input::Matrix(matrix) | Input::Result(matrix) => {
                let (rows, cols) = matrix.shape();
                Given::Matrix { dtype: matrix.dtype(), layout: matrix.layout(), rows, cols }
            }
            Input::Blocks(blocks) | Input::Held(blocks) => {
                Given::Blocks { dtype: blocks.dtype(), fits: stored == Some(blocks.structure()) }
            }
            Input::Scalar(_) => Given::Scalar,
        })
    };
    let reduction = inputs::program_of(plan).and_then(Program::reduction);
    inputs::check_order(plan, shape.0, inputs.rows_to().map(Permutation::len))?;
    inputs::check(plan, shape, given, inputs.names(), reduction.map(|_| shape.0))
}

/// Makes sure that the sparse factor has the kernel's blocks.
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

/// Makes sure that every coordinate of the product with `n` columns of the dense factor (`n` rows of A where B is
/// sparse) fits the kernel's registers, and the kernel's grid a launch.
///
/// # Errors
/// [`KernelError::TooLarge`], [`KernelError::Grid`].
pub(crate) fn sizes(plan: &Plan, a: &Structure, n: usize) -> Result<(), KernelError> {
    // Blocks of the transposed index are counted in rows of their columns.
    let (block, what_rows) = match plan.reads_block_columns() {
        true => (a.block().1, "stored blocks x block columns"),
        false => (a.block().0, "stored blocks x block rows"),
    };
    let rows_of_values = a.nnzb() as u64 * block as u64;
    let [rows, columns, along] = match plan.spec().op {
        Op::Dds => ["rows of B", "columns of B", "rows of A"],
        _ => ["rows of A", "columns of A", "columns of B"],
    };
    for (what, value, bits) in [
        (rows, a.rows() as u64, COORDINATE_BITS),
        (columns, a.cols() as u64, COORDINATE_BITS),
        (along, n as u64, COORDINATE_BITS),
        (what_rows, rows_of_values, VALUE_ROW_BITS),
    ] {
        if value >= 1 << bits {
            return Err(KernelError::TooLarge { what, value, bits });
        }
    }
    match plan.tile_scheduler() {
        TileScheduler::Static
        | TileScheduler::StageMetadata(_)
        | TileScheduler::SharedColumns(_)
        | TileScheduler::Sddmm => Ok(()),
        TileScheduler::Attention => Err(KernelError::Factors { expected: Op::Attention }),
        TileScheduler::CtaPerBlock => grid(&plan.cluster_tile(), a.nnzb() as u64, n as u64),
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
