//! Why a kernel cannot be loaded or launched, on a GPU and on the simulator.

#[cfg(feature = "simulator")]
use bsr_codegen::TensorMapError;
use bsr_codegen::{Dtype, Layout, Op, Refusal, Scale};
#[cfg(feature = "simulator")]
use bsr_simulator::{LaunchError, ParseError};

use crate::gpu::GpuError;

/// Why a kernel cannot be loaded or launched. Nothing was launched and nothing written.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum KernelError {
    /// The device or its driver.
    #[error(transparent)]
    Gpu(#[from] GpuError),
    /// No cluster of the kernel fits the device.
    #[error(
        "the kernel does not fit the device\n  0 clusters of {cluster} CTAs with {shared_bytes} B of shared memory each fit\n  help: a smaller bn, fewer stages{}",
        if *cluster > 1 { ", or cluster = 1" } else { "" }
    )]
    DoesNotFit {
        /// CTAs of a cluster.
        cluster: u32,
        /// Shared memory of a CTA.
        shared_bytes: u32,
    },
    /// An operand has another element type than the kernel was compiled for.
    #[error("{operand} is {found}, the kernel was compiled for {expected}\n  help: {key} = {found}, or cast {operand}")]
    Dtype {
        /// `"A"`, `"B"` or `"C"`.
        operand: &'static str,
        /// The spec key.
        key: &'static str,
        /// The matrix's element type.
        found: Dtype,
        /// The kernel's.
        expected: Dtype,
    },
    /// The matrix has other blocks than the kernel was compiled for.
    #[error(
        "the matrix has {found_m} x {found_k} blocks, the kernel multiplies {bm} x {bk} blocks\n  help: a kernel with bm = {found_m}, bk = {found_k}, or re-block the matrix"
    )]
    Block {
        /// Block rows of the matrix.
        found_m: usize,
        /// Block columns of the matrix.
        found_k: usize,
        /// Block rows of the kernel.
        bm: u32,
        /// Block columns of the kernel.
        bk: u32,
    },
    /// The shapes of A, B and C do not belong together.
    #[error(
        "the shapes do not multiply: A is {a_rows} x {a_cols}, B is {b_rows} x {b_cols}, C is {c_rows} x {c_cols}\n  help: {product}"
    )]
    #[allow(missing_docs)]
    Shapes {
        a_rows: usize,
        a_cols: usize,
        b_rows: usize,
        b_cols: usize,
        c_rows: usize,
        c_cols: usize,
        product: &'static str,
    },
    /// The kernel does not write a sparse result.
    #[error(
        "the kernel was compiled with op = {op}, and writes a dense result\n  help: a dense C, or a kernel with op = sdd"
    )]
    Result {
        /// The kernel's operation.
        op: Op,
    },
    /// Operands that are not those of a product, another number of scales than they have places for, or memory that kernels
    /// cannot address.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// Other matrices are sparse than the kernel was compiled for.
    #[error("the kernel was compiled with op = {expected}: {}\n  help: pass the matrices in this order, or take a kernel with another op", expected.operands())]
    Factors {
        /// The kernel's operation.
        expected: Op,
    },
    /// An operand is laid out in another order than the kernel was compiled for.
    #[error(
        "{operand} is {found}-major, the kernel reads it {expected}-major\n  help: {key} = {found}, or another copy of {operand}"
    )]
    Layout {
        /// `"A"`, `"B"` or `"C"`.
        operand: &'static str,
        /// The spec key.
        key: &'static str,
        /// The matrix's layout.
        found: Layout,
        /// The kernel's layout.
        expected: Layout,
    },
    /// An 8-bit dense factor that is not contiguous along K.
    #[error("{}", along_k_text(operand, *dtype, *expected))]
    AlongK {
        /// `"A"` or `"B"`.
        operand: &'static str,
        /// Its element type.
        dtype: Dtype,
        /// How it should lie.
        expected: Layout,
    },
    /// Scales for a kernel of another kind, or none for one that scales.
    #[error("{}", scales_text(*found, *expected))]
    Scales {
        /// What the launch passes.
        found: Scale,
        /// What the kernel was compiled for.
        expected: Scale,
    },
    /// The epilogue's parameters are not what the launch gives.
    #[error("{fact}\n  help: {help}")]
    Epilogue {
        /// What is given and what is asked for.
        fact: String,
        /// The remedy.
        help: String,
    },
    /// An order of rows that the kernel does not take, or none where it takes one.
    #[error("{fact}\n  help: {help}")]
    Order {
        /// What is given and what is asked for.
        fact: String,
        /// The remedy.
        help: &'static str,
    },
    /// More CTAs along one dimension than a grid has.
    #[error(
        "{what} are {value}, and this kernel has one CTA for each\n  {value} > {limit}, the most that a grid takes along this dimension\n  help: {help}"
    )]
    Grid {
        /// What, with the arithmetic.
        what: String,
        /// How many.
        value: u64,
        /// The most there can be.
        limit: u32,
        /// The remedy.
        help: &'static str,
    },
    /// A size that 32-bit tile coordinates cannot hold.
    #[error(
        "{what} = {value} is too large\n  {value} >= 2^{bits}; tile coordinates are 32-bit and need room for one tile more\n  help: split the problem"
    )]
    TooLarge {
        /// What.
        what: &'static str,
        /// How large.
        value: u64,
        /// The limit's exponent.
        bits: u32,
    },
    /// More stored blocks than a kernel of small blocks counts.
    #[error("A has {blocks} stored blocks\n  {blocks} >= 2^{bits}: {why}\n  help: {help}")]
    TooManyBlocks {
        /// How many.
        blocks: u64,
        /// The limit's exponent.
        bits: u32,
        /// What the limit is of.
        why: &'static str,
        /// The remedy.
        help: &'static str,
    },
    /// C is a window of a wider matrix whose other elements a launch would overwrite.
    #[error("C may be a window of a wider matrix, and its lines do not end on a 16-byte boundary\n  {line} elements of {bytes} B = {} B a line, lines {ld} elements apart; TMA writes whole 16-byte vectors, so the elements up to number {padded} of every line would be overwritten\n  help: a leading dimension of {padded}, or a window of {padded} elements a line", line * bytes)]
    Window {
        /// Elements of a line (a row of a row-major C, a column of a column-major one).
        line: usize,
        /// Bytes of an element.
        bytes: usize,
        /// Leading dimension in elements.
        ld: usize,
        /// Elements of a line rounded up to 16 bytes.
        padded: usize,
    },
    /// A launch of one product by a kernel for a list of them, or the other way round.
    #[error("{}", if *batch { "the kernel was compiled with batch = on and computes a list of products\n  help: `batch()` with one product in it, or a kernel with batch = off" } else { "the kernel was compiled for one product a launch\n  help: a kernel with batch = on, or a launch for each product" })]
    Batch {
        /// Whether the kernel was compiled with `batch = on`.
        batch: bool,
    },
    /// A problem of a batch that cannot be computed.
    #[error("problem {index} of the batch: {source}")]
    Problem {
        /// Its number, from 0.
        index: usize,
        /// Why.
        source: Box<KernelError>,
    },
    /// A kernel that does not take a pattern that lives on the GPU.
    #[error("the pattern lives on the GPU, and {why}\n  help: {help}; or a `DeviceBsr` with its structure on the host")]
    DevicePattern {
        /// What stands in the way.
        why: String,
        /// The remedy.
        help: &'static str,
    },
    /// A product whose work lists cannot be made on the GPU.
    #[error(transparent)]
    Lists(#[from] bsr_codegen::lists::ShapeError),
    /// A stack of matrices whose rows do not come out even.
    #[error("{operand} has {rows} rows, which are no {count} matrices of {}\n  {rows} / {count} = {:.2}\n  help: stack matrices of equal size one below another, or `push` each", if *unit == 1 { "equal size".to_owned() } else { format!("whole block rows of {unit}") }, *rows as f64 / *count as f64)]
    Stack {
        /// `"A"`, `"B"` or `"C"`.
        operand: &'static str,
        /// Its rows.
        rows: usize,
        /// Matrices that it should hold.
        count: usize,
        /// Rows that one of them must be a multiple of.
        unit: usize,
    },
    /// The C of one problem overlaps an operand or the C of another.
    #[error(
        "C of problem {index} overlaps {operand} of problem {other} in device memory\n  they begin at {c:#x} and {address:#x}; problems of a batch run in any order and at the same time\n  help: another buffer for one of them"
    )]
    BatchOverlap {
        /// The problem whose C is written.
        index: usize,
        /// What it overlaps.
        operand: &'static str,
        /// Of which problem.
        other: usize,
        /// Where that C begins.
        c: u64,
        /// Where the other begins.
        address: u64,
    },
    /// An operand that lies on another GPU than the kernel.
    #[error(
        "{operand} is on GPU {on}, and the kernel on GPU {kernel}\n  help: upload {operand} to GPU {kernel}, or load the kernel on GPU {on}"
    )]
    OtherDevice {
        /// The operand: `A`, `B` or `C`.
        operand: String,
        /// The number of the GPU that it lies on.
        on: usize,
        /// That of the kernel's GPU.
        kernel: usize,
    },
    /// A parameter of the kernel for which its launch has nothing.
    #[error(
        "the kernel reads `{parameter}`, and this launch has no such operand or list\n  help: a kernel of `batch = on` is launched by `batch()`, one of `op = attention` by an `attention::Launcher`, others by a `Launcher`"
    )]
    Argument {
        /// Its name in the PTX.
        parameter: &'static str,
    },
    /// C overlaps an operand that the kernel reads.
    #[error(
        "{result} overlaps {operand} in device memory\n  {result} is at {c:#x} .. {c_end:#x}, {operand} at {other:#x} .. {other_end:#x}; tiles of {result} are written while {operand} is still read\n  help: another buffer for {result}"
    )]
    #[allow(missing_docs)]
    Overlap { result: &'static str, operand: &'static str, c: u64, c_end: u64, other: u64, other_end: u64 },
}

bsr_codegen::message_as_debug!(KernelError);

impl KernelError {
    /// Whether there is no device that could be used; as [`GpuError::is_no_device`].
    pub fn is_no_device(&self) -> bool {
        matches!(self, Self::Gpu(error) if error.is_no_device())
    }
}

/// Why a multiplication could not be simulated. What the kernel does wrong is no error: see [`Report::findings`](bsr_simulator::Report::findings).
#[cfg(feature = "simulator")]
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum SimulatedError {
    /// The operands do not fit the kernel.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// The PTX is malformed, or uses what the simulator does not model.
    #[error(transparent)]
    Parse(#[from] ParseError),
    /// The PTX does not take the plan's launch: it has another entry, or other parameters or directives.
    #[error(
        "the PTX does not take its plan's launch: {0}\n  help: PTX that `bsr emit` wrote for the same spec takes it"
    )]
    Launch(#[from] LaunchError),
    /// The driver would not take a tensor map of the launch.
    #[error(transparent)]
    TensorMap(#[from] TensorMapError),
    /// The kernel wrote something else than zeros beyond the edge of a sparse result.
    #[error("the result is no block-sparse matrix: {0}")]
    Result(#[from] Refusal),
}

#[cfg(feature = "simulator")]
bsr_codegen::message_as_debug!(SimulatedError);

fn along_k_text(operand: &str, dtype: Dtype, expected: Layout) -> String {
    match operand {
        "A" => format!(
            "A is {}-major, and the kernel multiplies {dtype} with it {expected}-major\n  the tensor cores read 8-bit \
             operands along K alone, so every row of A[m, k] must be contiguous\n  help: transpose A once, \
             `a.to_layout(Layout::RowMajor)`",
            expected.flipped()
        ),
        _ => format!(
            "B is row-major, and the kernel multiplies {dtype} with it column-major\n  the tensor cores read 8-bit \
             operands along K alone, so every column of B[k, n] must be contiguous\n  help: transpose B once, \
             `b.to_layout(Layout::ColMajor)`, or take the B that `quantise` makes"
        ),
    }
}

fn scales_text(found: Scale, expected: Scale) -> String {
    match (found, expected) {
        (Scale::Unscaled, _) => format!(
            "the kernel was compiled with scale = {expected}, and the launch passes no scales\n  help: \
             `(&a, &b, &scales)` with scales of that kind, or a kernel with scale = none"
        ),
        (_, Scale::Unscaled) => format!(
            "the kernel was compiled without scales, and the launch passes some of kind {found}\n  help: a kernel \
             with scale = {found}, or `(&a, &b)` without any"
        ),
        _ => format!(
            "the kernel was compiled with scale = {expected}, and the launch passes scales of kind {found}\n  help: \
             a kernel with scale = {found}, or scales of kind {expected}"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_that_do_not_belong_to_the_kernel_are_told_with_the_remedy() {
        let text = |found, expected| KernelError::Scales { found, expected }.to_string();
        let missing = text(Scale::Unscaled, Scale::Block);
        assert!(missing.contains("scale = block") && missing.contains("help: `(&a, &b, &scales)`"), "{missing}");
        let unasked = text(Scale::Tensor, Scale::Unscaled);
        assert!(unasked.contains("kind tensor") && unasked.contains("help: a kernel with scale = tensor"), "{unasked}");
        let other = text(Scale::Tensor, Scale::RowCol);
        assert!(other.contains("scale = row_col") && other.contains("scales of kind row_col"), "{other}");
    }
}
