//! Products with a dense result: C = A B with one sparse factor.

use arrayvec::ArrayVec;
use bsr_codegen::{ClusterTile, Dtype, IndexWidth, KernelSpec, LaunchShape, Op, Plan, Problem, TileScheduler};

use super::check::{COORDINATE_BITS, Operand, block, dtype, layout};
use super::inputs::{self, program_of};
use super::{MatrixOperands, Operands, further};
use crate::bind::Slots;
use crate::epilogue::Supplied;
use crate::error::KernelError;
use crate::gpu::{DeviceInput, DeviceInputs, MOST_IN_X, MOST_IN_Y, Stored, UntypedDense, UntypedVector};
use crate::schedule::slices;
use crate::{Scales, Structure};

/// As [`COORDINATE_BITS`], for the rows of A's values, one below another.
const VALUE_ROW_BITS: u32 = 31;

/// The operands of a product.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Product<'a, S: Stored> {
    pub(crate) sparse: S,
    pub(crate) dense: UntypedDense<S::Address>,
    pub(crate) c: UntypedDense<S::Address>,
    /// What else the kernel reads.
    pub(crate) inputs: &'a DeviceInputs<'a, S::Address>,
    /// Where the epilogue's second result goes.
    pub(crate) second: Option<UntypedVector<S::Address>>,
}

impl<S: Stored> Product<'_, S> {
    /// Its extents.
    pub(crate) fn shapes(&self, plan: &Plan) -> Shapes {
        Shapes::of(plan.spec(), self.sparse.structure(), &Operand::from(&self.dense))
    }
}

/// Elements from one line to the next of the full operand that the epilogue reads, where it reads a matrix that is not C.
pub(super) fn tile_line<A: Copy>(plan: &Plan, inputs: &DeviceInputs<'_, A>) -> Option<usize> {
    let program = program_of(plan)?;
    let (at, _) = program.tile()?;
    match inputs.get(&program.inputs()[at].name)? {
        DeviceInput::Matrix(matrix) => Some(matrix.ld),
        _ => None,
    }
}

impl<S: Stored> Operands for Product<'_, S> {
    type Address = S::Address;

    fn is_empty(&self) -> bool {
        self.c.rows == 0 || self.c.cols == 0
    }

    fn sum(&self, plan: &Plan) -> Option<(&UntypedDense<S::Address>, bool)> {
        (plan.tile_scheduler() == TileScheduler::CtaPerBlock).then(|| (&self.c, self.sparse.places() > 0))
    }

    fn second(&self) -> Option<UntypedVector<S::Address>> {
        self.second
    }

    fn launch(&self, plan: &Plan, grid: [u32; 2]) -> LaunchShape {
        plan.launch(&self.problem(plan), grid)
    }

    fn slots(&self, plan: &Plan) -> Slots<S::Address> {
        let c = self.c.ptr;
        let (sparse, dense) = match self.sparse.places() {
            // Without stored blocks nothing is read: any valid address serves as A and B.
            0 => (c, c),
            _ => (self.sparse.values(), self.dense.ptr),
        };
        let (a, b) = if plan.spec().op == Op::Dds { (dense, sparse) } else { (sparse, dense) };
        let mut slots = Slots::factors(a, b, c);
        further(&mut slots, plan, c, self.inputs, self.second);
        slots
    }
}

impl<S: Stored> MatrixOperands for Product<'_, S> {
    fn check(&self, plan: &Plan) -> Result<(), KernelError> {
        let (dense, c) = (Operand::from(&self.dense), Operand::from(&self.c));
        let (sparse, second) = ((self.sparse.dtype(), self.sparse.structure()), self.second.map(|second| second.len));
        check(plan, sparse, [&dense, &c], &(self.inputs, None), second).map(drop)
    }

    fn pattern(&self, plan: &Plan) -> (&Structure, usize) {
        (self.sparse.structure(), self.shapes(plan).along)
    }

    fn problem(&self, plan: &Plan) -> Problem {
        let Self { sparse, dense, c, .. } = self;
        Problem {
            m: c.rows as u64,
            n: c.cols as u64,
            k: self.shapes(plan).inner as u64,
            nnzb: sparse.places() as u64,
            lda: dense.ld as u64,
            ldb: dense.ld as u64,
            ldc: c.ld as u64,
            ldt: tile_line(plan, self.inputs).unwrap_or(c.ld) as u64,
        }
    }

    fn dense(&self, plan: &Plan) -> ArrayVec<(&'static str, &UntypedDense<S::Address>), 2> {
        [(names(plan.spec()).1, &self.dense), ("C", &self.c)].into()
    }

    fn blocks(&self, plan: &Plan) -> ArrayVec<(&'static str, &dyn Stored<Address = S::Address>), 3> {
        [(names(plan.spec()).0, &self.sparse as _)].into_iter().collect()
    }

    fn inputs(&self) -> &DeviceInputs<'_, S::Address> {
        self.inputs
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
fn names(spec: &KernelSpec) -> (&'static str, &'static str) {
    if spec.op == Op::Dds { ("B", "A") } else { ("A", "B") }
}

/// Makes sure that the sparse factor (its element type and structure), the dense one, C and what is supplied besides are what
/// `plan` multiplies. `second` is the length of the second result. Allocates nothing where they are.
///
/// # Errors
/// Blocks, shapes, element types, layouts, scales or operands of the epilogue that do not fit, or sizes beyond 32-bit
/// coordinates.
pub(crate) fn check(
    plan: &Plan,
    (sparse_dtype, sparse): (Dtype, &Structure),
    [dense, c]: [&Operand; 2],
    supplied: &impl Supplied,
    second: Option<usize>,
) -> Result<Shapes, KernelError> {
    let spec = plan.spec();
    if !matches!(spec.op, Op::Dsd | Op::Dds) {
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
    let ((found, counts), expected) = (supplied.scales(), spec.scale);
    if found != expected {
        return Err(KernelError::Scales { found, expected });
    }
    Scales::check_lengths(found, counts, sparse, shapes.along)?;
    inputs::check(plan, shapes.result, supplied, second)?;
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

/// Makes sure that every coordinate of the product with `n` columns of the dense factor (`n` rows of A where B is
/// sparse) fits the kernel's registers, and the kernel's grid a launch.
///
/// # Errors
/// [`KernelError::TooLarge`], [`KernelError::TooManyBlocks`], [`KernelError::Grid`].
pub(crate) fn sizes(plan: &Plan, a: &Structure, n: usize) -> Result<(), KernelError> {
    let [rows, columns, along] = match plan.spec().op {
        Op::Dds => ["rows of B", "columns of B", "rows of A"],
        _ => ["rows of A", "columns of A", "columns of B"],
    };
    for (what, value, bits) in [
        (rows, a.rows() as u64, COORDINATE_BITS),
        (columns, a.cols() as u64, COORDINATE_BITS),
        (along, n as u64, COORDINATE_BITS),
    ] {
        if value >= 1 << bits {
            return Err(KernelError::TooLarge { what, value, bits });
        }
    }
    blocks(plan, a.nnzb() as u64, a.block())?;
    match plan.tile_scheduler() {
        TileScheduler::CtaPerBlock => grid(&plan.cluster_tile(), a.nnzb() as u64, n as u64),
        TileScheduler::BlockRows { .. } => column_tiles(&plan.cluster_tile(), n as u64),
        _ => Ok(()),
    }
}

/// Makes sure that what a kernel counts of so many stored blocks fits its registers: the rows of their values, of a transposed
/// index the columns. Small blocks are counted themselves, and their values addressed in 64 bits.
///
/// # Errors
/// [`KernelError::TooLarge`], [`KernelError::TooManyBlocks`].
fn blocks(plan: &Plan, nnzb: u64, (bm, bk): (usize, usize)) -> Result<(), KernelError> {
    let is_small = matches!(plan.tile_scheduler(), TileScheduler::BlockRows { .. });
    let (bits, why, help) = match (is_small, plan.reads_block_columns(), plan.spec().row_ptr) {
        (false, by_columns, _) => {
            let (what, side) =
                if by_columns { ("stored blocks x block columns", bk) } else { ("stored blocks x block rows", bm) };
            let value = nnzb.saturating_mul(side as u64);
            let fits = value < 1 << VALUE_ROW_BITS;
            return if fits { Ok(()) } else { Err(KernelError::TooLarge { what, value, bits: VALUE_ROW_BITS }) };
        }
        (true, true, _) => (
            31,
            "the blocks of a block column are found by their numbers, which have 32 bits",
            "split A by columns, or transpose = off with a transposed copy",
        ),
        (true, false, IndexWidth::I32) => (32, "row_ptr = i32 counts blocks in 32 bits", "row_ptr = i64"),
        (true, false, IndexWidth::I64) => return Ok(()),
    };
    if nnzb >= 1 << bits { Err(KernelError::TooManyBlocks { blocks: nnzb, bits, why, help }) } else { Ok(()) }
}

/// Makes sure that one CTA for every part of a block and every tile of columns can be launched.
///
/// # Errors
/// [`KernelError::Grid`].
fn grid(tile: &ClusterTile, blocks: u64, n: u64) -> Result<(), KernelError> {
    let slices = u64::from(slices(tile));
    let parts = blocks * slices;
    if parts > MOST_IN_X.into() {
        return Err(KernelError::Grid {
            what: format!("{blocks} stored blocks x {slices} row slices"),
            value: parts,
            limit: MOST_IN_X,
            help: "split A by rows, or accumulate = register",
        });
    }
    column_tiles(tile, n)
}

/// The same for the tiles of columns alone.
///
/// # Errors
/// [`KernelError::Grid`].
fn column_tiles(tile: &ClusterTile, n: u64) -> Result<(), KernelError> {
    let columns = u64::from(tile.columns);
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of small blocks is bounded by how they are counted, that of others by the rows of their values.
    #[test]
    fn small_blocks_count_blocks_and_others_rows_of_values() {
        let refused = |text: &str, nnzb| {
            let plan = Plan::new(&text.parse().expect("a spec")).expect("a plan");
            let block = (plan.spec().bm as usize, plan.spec().bk as usize);
            blocks(&plan, nnzb, block).err().map(|error| error.to_string())
        };
        let small = "bm = 8, bn = 1, bk = 8, mma = scalar, a = f16, b = f32";
        assert_eq!(refused(small, (1 << 32) - 1), None);
        let error = refused(small, 1 << 32).expect("too many blocks");
        assert!(error.contains("4294967296 >= 2^32") && error.contains("help: row_ptr = i64"), "{error}");
        assert_eq!(refused(&format!("{small}, row_ptr = i64"), 5 << 32), None);
        let transposed = format!("{small}, transpose = on");
        assert_eq!(refused(&transposed, (1 << 31) - 1), None);
        let error = refused(&transposed, 1 << 31).expect("too many blocks");
        assert!(error.contains("2147483648 >= 2^31") && error.contains("split A by columns"), "{error}");
        let large = "bm = 64, bn = 64, bk = 32, mma = scalar";
        assert_eq!(refused(large, (1 << 25) - 1), None);
        let error = refused(large, 1 << 25).expect("too many rows of values");
        assert!(error.contains("stored blocks x block rows = 2147483648"), "{error}");
        // Blocks that two families take: the other one counts rows of values.
        assert!(refused("bm = 8, bn = 16, bk = 8, mma = scalar", 1 << 28).is_some());
    }

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
