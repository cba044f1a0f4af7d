//! The reference of every operation: each is the product of a block-sparse matrix with a dense one, or its transpose.

use bsr_codegen::{KernelSpec, Layout, Op, Refusal};

use super::{multiply_rows_scaled, no_row};
use crate::extents::inner;
use crate::{Bsr, Dense, DenseView, Element, Scales};

/// The product that `spec` says of its sparse factor and its dense one, A and B of `dsd`, B and A of `dds`: all rows of
/// C one after the other, accumulated in `f64`; only stored blocks are multiplied.
///
/// # Errors
/// When the factors do not multiply, or the scales have other lengths than they ask for.
pub fn product<'d, S: Element, D: Element>(
    spec: &KernelSpec,
    sparse: &Bsr<S>,
    dense: impl Into<DenseView<'d, D>>,
    scales: &Scales,
) -> Result<Vec<f64>, Refusal> {
    let dense = dense.into();
    let rows = match (spec.op, spec.transpose.is_on()) {
        (Op::Dds, _) => dense.rows(),
        (_, true) => sparse.cols(),
        (_, false) => sparse.rows(),
    };
    let all: Vec<usize> = (0..rows).collect();
    product_rows(spec, sparse, dense, scales, &all)
}

/// Chosen rows of [`product`], in the order of `rows`, each bit the same.
///
/// # Errors
/// As [`product`], and when C does not have one of the rows.
pub fn product_rows<'d, S: Element, D: Element>(
    spec: &KernelSpec,
    sparse: &Bsr<S>,
    dense: impl Into<DenseView<'d, D>>,
    scales: &Scales,
    rows: &[usize],
) -> Result<Vec<f64>, Refusal> {
    let dense = dense.into();
    let transposed;
    // A^T of A^T B, and B^T of C^T = B^T A^T.
    let left = if spec.transpose.is_on() == (spec.op == Op::Dds) {
        sparse
    } else {
        transposed = sparse.transpose()?;
        &transposed
    };
    if spec.op != Op::Dds {
        return multiply_rows_scaled(left, dense, scales, rows);
    }
    if left.cols() != dense.cols() {
        return Err(inner((dense.rows(), dense.cols()), (left.cols(), left.rows())));
    }
    if let Some(at) = rows.iter().position(|&row| row >= dense.rows()) {
        return Err(no_row(at, rows[at], dense.rows()));
    }
    // Zero stands for what a view does not have, and it has all of its rows.
    let pick = |row: usize, col: usize| dense.get(rows[row], col).unwrap_or(D::ZERO);
    let chosen = Dense::from_fn(rows.len(), dense.cols(), Layout::RowMajor, pick);
    let all: Vec<usize> = (0..left.rows()).collect();
    let turned = multiply_rows_scaled(left, chosen.view().transposed(), scales, &all)?;
    let n = left.rows();
    let mut product = vec![0.0; turned.len()];
    for (col, line) in turned.chunks_exact(rows.len().max(1)).enumerate() {
        line.iter().enumerate().for_each(|(row, value)| product[row * n + col] = *value);
    }
    Ok(product)
}
