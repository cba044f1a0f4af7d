//! The product that every kernel is judged by: computed on the CPU, accumulated in `f64`.
//!
//! Elements are exact in `f64`, and so are products of two, since none has more than 24 significant bits: the only
//! rounding is that of the sum, and there is none in sums of `i8` products, which are exact below 2^53. Each element
//! of C adds its products in ascending order of the column of A, whatever the number of threads and whichever rows
//! are asked for. [`Scales`] multiply in `f64` too; those of blocks multiply the elements of A first, which rounds each
//! product once more.
//!
//! How far off a kernel may be is [`tolerance`] for the norm of all errors, and [`Bounds`] for each element.

mod bounds;
mod compare;
mod epilogue;
mod operations;
mod sddmm;
mod sddmm_epilogue;
mod tolerance;
mod verify;

use bsr_codegen::{Refusal, Scale};
use rayon::prelude::*;

pub use bounds::Bounds;
pub use compare::{Comparison, relative_error, unwritten};
pub use epilogue::{Fused, expected, fuse};
pub use operations::{product, product_rows};
pub use sddmm::{sddmm, sddmm_blocks};
pub use sddmm_epilogue::{complete_rows, expected_blocks, fuse_blocks};
pub(crate) use tolerance::{f32_sums, half_ulp, product_and_squares, short_sums};
pub use tolerance::{rounding, tolerance, tolerance_of};
pub use verify::WrongResult;

use crate::extents::inner;
use crate::{Bsr, DenseView, Element, Scales};

/// Rows of C that one task computes: enough to use a widened panel of B many times.
const TASK_ROWS: usize = 32;
/// Columns and rows of the panel of B that is widened at a time: 64 KiB of `f64`, and one group of columns that share
/// a scale.
const PANEL: (usize, usize) = (Scales::GROUP, 64);

/// A row that a matrix with `rows` rows does not have.
fn no_row(at: usize, row: usize, rows: usize) -> Refusal {
    Refusal::new(format!("rows[{at}] = {row} is not a row of a matrix with {rows} rows"))
        .help(format!("ask for rows in 0..{rows}"))
}

/// The product A * B as `rows * n` values, row by row, accumulated in `f64`; only stored blocks are multiplied.
///
/// # Errors
/// When B does not have as many rows as A has columns.
pub fn multiply<'b, A: Element, B: Element>(a: &Bsr<A>, b: impl Into<DenseView<'b, B>>) -> Result<Vec<f64>, Refusal> {
    let rows: Vec<usize> = (0..a.rows()).collect();
    multiply_rows(a, b, &rows)
}

/// The scaled product as `rows * n` values, row by row, accumulated in `f64`; see [`Scales`].
///
/// # Errors
/// When B does not have as many rows as A has columns, or the scales have other lengths than the operands ask for.
pub fn multiply_scaled<'b, A: Element, B: Element>(
    a: &Bsr<A>,
    b: impl Into<DenseView<'b, B>>,
    scales: &Scales,
) -> Result<Vec<f64>, Refusal> {
    let rows: Vec<usize> = (0..a.rows()).collect();
    multiply_rows_scaled(a, b, scales, &rows)
}

/// Chosen rows of the product A * B, in the order of `rows`: `rows.len() * n` values, row by row, each bit the
/// same as from [`multiply`].
///
/// # Errors
/// When B does not have as many rows as A has columns, or A does not have one of the rows.
pub fn multiply_rows<'b, A: Element, B: Element>(
    a: &Bsr<A>,
    b: impl Into<DenseView<'b, B>>,
    rows: &[usize],
) -> Result<Vec<f64>, Refusal> {
    multiply_rows_scaled(a, b, &Scales::NONE, rows)
}

/// Chosen rows of the scaled product, in the order of `rows`: `rows.len() * n` values, row by row, each bit the same
/// as from [`multiply_scaled`].
///
/// # Errors
/// As [`multiply_scaled`], and when A does not have one of the rows.
pub fn multiply_rows_scaled<'b, A: Element, B: Element>(
    a: &Bsr<A>,
    b: impl Into<DenseView<'b, B>>,
    scales: &Scales,
    rows: &[usize],
) -> Result<Vec<f64>, Refusal> {
    let b = b.into();
    let n = b.cols();
    if a.cols() != b.rows() {
        return Err(inner((a.rows(), a.cols()), (b.rows(), n)));
    }
    scales.check(a.structure(), n)?;
    if let Some(at) = rows.iter().position(|&row| row >= a.rows()) {
        return Err(no_row(at, rows[at], a.rows()));
    }
    let mut product = vec![0.0; rows.len() * n];
    if n == 0 {
        return Ok(product);
    }

    // One task for neighbouring entries of `rows` that lie in one block row: they share its blocks.
    let bm = a.block().0;
    let mut rest = &mut product[..];
    let mut tasks = Vec::new();
    for same_block_row in rows.chunk_by(|one, next| one / bm == next / bm) {
        for rows in same_block_row.chunks(TASK_ROWS) {
            let out;
            (out, rest) = rest.split_at_mut(rows.len() * n);
            tasks.push((rows, out));
        }
    }
    tasks.into_par_iter().for_each_init(Scratch::new, |scratch, (rows, out)| {
        add_rows(a, b, scales, rows, out, scratch);
        rows.iter().zip(out.chunks_exact_mut(n)).for_each(|(&row, out)| scale_row(scales, row, out));
    });
    Ok(product)
}

/// Widened parts of A and B.
struct Scratch {
    a: Vec<f64>,
    b: Vec<f64>,
    line: Vec<f64>,
}

impl Scratch {
    fn new() -> Self {
        let (width, depth) = PANEL;
        Self { a: vec![0.0; depth], b: vec![0.0; width * depth], line: vec![0.0; depth] }
    }
}

/// Adds to `out` the rows `rows` of A * B; all of them lie in one block row. Of the scales, only those of blocks have
/// a part in it.
fn add_rows<A: Element, B: Element>(
    a: &Bsr<A>,
    b: DenseView<'_, B>,
    scales: &Scales,
    rows: &[usize],
    out: &mut [f64],
    scratch: &mut Scratch,
) {
    let ((bm, bk), n) = (a.block(), b.cols());
    let block_row = rows[0] / bm;
    for first_col in (0..n).step_by(PANEL.0) {
        let width = PANEL.0.min(n - first_col);
        for block in a.blocks_of(block_row) {
            let block_col = a.col_idx()[block] as usize;
            let scale = block_scale(scales, block, block_col * n.div_ceil(PANEL.0) + first_col / PANEL.0);
            let first_k = block_col * bk;
            let depth = bk.min(a.cols() - first_k);
            for k in (0..depth).step_by(PANEL.1) {
                let depth = PANEL.1.min(depth - k);
                let panel = scratch.b.chunks_exact_mut(width).take(depth);
                widen_panel(b, first_k + k, first_col, panel, &mut scratch.line[..depth]);
                for (&row, out) in rows.iter().zip(out.chunks_exact_mut(n)) {
                    let a_row = &a.block_values(block)[(row % bm) * bk + k..][..depth];
                    A::widen(a_row, &mut scratch.a[..depth]);
                    if let Some(scale) = scale {
                        scratch.a[..depth].iter_mut().for_each(|value| *value *= scale);
                    }
                    add_row(&scratch.a[..depth], &scratch.b[..width * depth], &mut out[first_col..][..width]);
                }
            }
        }
    }
}

/// What a stored block's part of the sum is multiplied by, in group `group` of B's scales.
fn block_scale(scales: &Scales, block: usize, group: usize) -> Option<f64> {
    (scales.kind() == Scale::Block).then(|| f64::from(scales.a()[block]) * f64::from(scales.b()[group]))
}

/// Multiplies a row of sums by the scales that are the same for all of K.
fn scale_row(scales: &Scales, row: usize, out: &mut [f64]) {
    match scales.kind() {
        Scale::Unscaled | Scale::Block => {}
        Scale::Tensor => {
            let scale = f64::from(scales.a()[0]) * f64::from(scales.b()[0]);
            out.iter_mut().for_each(|sum| *sum *= scale);
        }
        Scale::RowCol => {
            let scale = f64::from(scales.a()[row]);
            out.iter_mut().zip(scales.b()).for_each(|(sum, &of_col)| *sum *= scale * f64::from(of_col));
        }
    }
}

/// Widens a part of B, `panel.len()` rows from row `first_row` on, columns from `first_col` on, row by row.
fn widen_panel<'p, B: Element>(
    b: DenseView<'_, B>,
    first_row: usize,
    first_col: usize,
    panel: impl ExactSizeIterator<Item = &'p mut [f64]>,
    line: &mut [f64],
) {
    let mut panel: Vec<&mut [f64]> = panel.collect();
    match b.layout() {
        bsr_codegen::Layout::RowMajor => {
            for (k, out) in panel.iter_mut().enumerate() {
                B::widen(&b.line(first_row + k)[first_col..][..out.len()], out);
            }
        }
        bsr_codegen::Layout::ColMajor => {
            for j in 0..panel[0].len() {
                B::widen(&b.line(first_col + j)[first_row..][..line.len()], line);
                panel.iter_mut().zip(&*line).for_each(|(out, &value)| out[j] = value);
            }
        }
    }
}

/// Adds to `out` the product of a row with a panel as wide as `out`, four steps of k at a time.
fn add_row(a: &[f64], panel: &[f64], out: &mut [f64]) {
    let width = out.len();
    let (fours, ones) = a.as_chunks::<4>();
    let (four_rows, one_rows) = panel.split_at(fours.len() * 4 * width);
    for (&[a0, a1, a2, a3], b) in fours.iter().zip(four_rows.chunks_exact(4 * width)) {
        let (b01, b23) = b.split_at(2 * width);
        let ((b0, b1), (b2, b3)) = (b01.split_at(width), b23.split_at(width));
        for ((((sum, b0), b1), b2), b3) in out.iter_mut().zip(b0).zip(b1).zip(b2).zip(b3) {
            *sum = *sum + a0 * b0 + a1 * b1 + a2 * b2 + a3 * b3;
        }
    }
    for (a, b) in ones.iter().zip(one_rows.chunks_exact(width)) {
        for (sum, b) in out.iter_mut().zip(b) {
            *sum += a * b;
        }
    }
}
