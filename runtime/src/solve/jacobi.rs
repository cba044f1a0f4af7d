//! Block Jacobi: the inverses of the diagonal blocks.

use bsr_codegen::Refusal;

use crate::{Bsr, Element};

/// The inverses of the diagonal blocks in the type of the vectors, row-major, one after the other. Rows of a block beyond the
/// edge of the matrix have ones on the diagonal.
///
/// # Errors
/// The first block that has no inverse, by its block row.
pub fn inverses<V: Element, T: Element>(a: &Bsr<V>) -> Result<Vec<T>, Refusal> {
    let side = a.block().0;
    let mut inverses = Vec::with_capacity(a.block_rows() * side * side);
    for block_row in 0..a.block_rows() {
        let stored = a.blocks_of(block_row).find(|block| a.col_idx()[*block] as usize == block_row);
        let mut block = match stored {
            Some(stored) => a.block_values(stored).iter().map(|value| value.to_f64()).collect(),
            None => vec![0.0; side * side],
        };
        for row in (0..side).filter(|row| block_row * side + row >= a.rows()) {
            block[row * side + row] = 1.0;
        }
        let inverse = inverted(block, side).ok_or_else(|| singular(block_row, stored.is_some()))?;
        inverses.extend(inverse.into_iter().map(T::from_f64));
    }
    Ok(inverses)
}

fn singular(block_row: usize, is_stored: bool) -> Refusal {
    let what = if is_stored { "is singular" } else { "is not stored, and so zero" };
    Refusal::new(format!("block Jacobi: the diagonal block of block row {block_row} {what}"))
        .help("no preconditioner, or a matrix whose diagonal blocks have inverses")
}

/// The inverse of a row-major matrix by Gauss-Jordan elimination with partial pivoting; none where a pivot is as small as
/// rounding makes of zero, or not finite.
fn inverted(mut a: Vec<f64>, side: usize) -> Option<Vec<f64>> {
    let largest = a.iter().fold(0.0_f64, |most, value| most.max(value.abs()));
    let mut inverse = vec![0.0; side * side];
    (0..side).for_each(|at| inverse[at * side + at] = 1.0);
    for column in 0..side {
        let pivot = (column..side)
            .max_by(|one, other| a[one * side + column].abs().total_cmp(&a[other * side + column].abs()))?;
        let size = a[pivot * side + column].abs();
        if !(size.is_finite() && size > side as f64 * f64::EPSILON * largest) {
            return None;
        }
        for at in 0..side {
            a.swap(pivot * side + at, column * side + at);
            inverse.swap(pivot * side + at, column * side + at);
        }
        let by = a[column * side + column];
        for at in 0..side {
            a[column * side + at] /= by;
            inverse[column * side + at] /= by;
        }
        for row in (0..side).filter(|row| *row != column) {
            let factor = a[row * side + column];
            for at in 0..side {
                a[row * side + at] -= factor * a[column * side + at];
                inverse[row * side + at] -= factor * inverse[column * side + at];
            }
        }
    }
    Some(inverse)
}
