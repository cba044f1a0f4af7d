//! Factorisations of small matrices, as dense ones.

use crate::{Bsr, Layout};

/// The pivots of L D L^T in this order of the rows, without exchanges: their signs are those of the eigenvalues (Sylvester).
pub(super) fn pivots(matrix: &Bsr<f64>, order: &[usize]) -> Vec<f64> {
    let dense = matrix.to_dense(Layout::RowMajor);
    let mut rows: Vec<Vec<f64>> =
        order.iter().map(|&row| order.iter().map(|&col| dense.get(row, col).unwrap()).collect()).collect();
    eliminate(&mut rows);
    rows.iter().enumerate().map(|(at, row)| row[at]).collect()
}

/// The solution of a system, by elimination.
pub(super) fn solve(matrix: &Bsr<f64>, right: &[f64]) -> Vec<f64> {
    let (side, dense) = (matrix.rows(), matrix.to_dense(Layout::RowMajor));
    let row = |row: usize| (0..side).map(|col| dense.get(row, col).unwrap()).chain([right[row]]).collect();
    let mut rows: Vec<Vec<f64>> = (0..side).map(row).collect();
    eliminate(&mut rows);
    let mut solution = vec![0.0; side];
    for at in (0..side).rev() {
        let known: f64 = (at + 1..side).map(|col| rows[at][col] * solution[col]).sum();
        solution[at] = (rows[at][side] - known) / rows[at][at];
    }
    solution
}

/// Gauss's elimination without exchanges.
fn eliminate(rows: &mut [Vec<f64>]) {
    for at in 0..rows.len() {
        let (above, below) = rows.split_at_mut(at + 1);
        let pivot = &above[at];
        for row in below {
            let factor = row[at] / pivot[at];
            row[at..].iter_mut().zip(&pivot[at..]).for_each(|(value, term)| *value -= factor * term);
        }
    }
}

/// Whether Cholesky's factorisation exists.
pub(super) fn is_positive_definite(matrix: &Bsr<f64>) -> bool {
    let order: Vec<usize> = (0..matrix.rows()).collect();
    let most = matrix.values().iter().fold(0.0, |most: f64, value| most.max(value.abs()));
    pivots(matrix, &order).iter().all(|pivot| *pivot > 1e-10 * most)
}

#[test]
fn pivots_tell_signs_of_eigenvalues() {
    let of = |values: [f64; 4]| Bsr::new(2, 2, (2, 2), vec![0, 1], vec![0], values.to_vec()).unwrap();
    assert!(is_positive_definite(&of([2.0, 1.0, 1.0, 2.0])));
    assert!(!is_positive_definite(&of([1.0, 1.0, 1.0, 1.0])));
    assert_eq!(pivots(&of([1.0, 2.0, 2.0, 1.0]), &[0, 1]), [1.0, -3.0]);
}
