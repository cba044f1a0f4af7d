//! Systems to solve.

use bsr_runtime::solve::{Method, Preconditioner, Solution};
use bsr_runtime::{Bsr, Dense, Element, Layout, Structure, reference};

/// A system, and how it is solved.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    pub(crate) rows: usize,
    pub(crate) side: usize,
    pub(crate) method: Method,
    pub(crate) preconditioner: Preconditioner,
}

/// Every method with every preconditioner on blocks of every size, with ragged edges, and one row alone.
pub(crate) fn cases() -> Vec<Case> {
    let mut cases = vec![];
    for method in Method::ALL {
        for preconditioner in [Preconditioner::None, Preconditioner::BlockJacobi] {
            let sizes = [(1, 1), (97, 1), (121, 2), (400, 3), (90, 4), (77, 5), (200, 6), (99, 7), (130, 8)];
            cases.extend(sizes.map(|(rows, side)| Case { rows, side, method, preconditioner }));
        }
    }
    cases
}

/// A value between -1 and 1 for each pair.
fn noise(row: usize, col: usize) -> f64 {
    let mixed = (row as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ (col as u64).wrapping_mul(0xC2B2_AE3D_27D4_EB4F);
    let mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    (mixed >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
}

impl Case {
    /// A matrix whose diagonal dominates by little, with scales that differ from row to row: symmetric and positive definite
    /// for conjugate gradients.
    pub(crate) fn matrix<T: Element>(&self) -> Bsr<T> {
        let (side, blocks) = (self.side, self.rows.div_ceil(self.side));
        let neighbours = |row: usize| {
            let mut columns: Vec<usize> = [-9, -1, 0, 1, 9]
                .into_iter()
                .filter_map(|step: isize| row.checked_add_signed(step).filter(|column| *column < blocks))
                .collect();
            columns.dedup();
            columns
        };
        let scale = |row: usize| 1.0 + (row % 13) as f64;
        let entry = |row: usize, col: usize| {
            if row >= self.rows || col >= self.rows {
                return 0.0;
            }
            let weight = (scale(row) * scale(col)).sqrt();
            if row == col {
                return weight * (3.2 * side as f64);
            }
            let symmetric = noise(row.min(col), row.max(col));
            let skewed = if self.method != Method::Cg { 0.4 * noise(row, col) } else { 0.0 };
            weight * (symmetric + skewed)
        };
        let (mut row_ptr, mut col_idx, mut values) = (vec![0], vec![], vec![]);
        for row in 0..blocks {
            for column in neighbours(row) {
                col_idx.push(column as i32);
                for i in 0..side {
                    values.extend((0..side).map(|j| T::from_f64(entry(row * side + i, column * side + j))));
                }
            }
            row_ptr.push(col_idx.len() as i32);
        }
        let structure = Structure::new(self.rows, self.rows, (side, side), row_ptr, col_idx).unwrap();
        Bsr::from_structure(structure, values).unwrap()
    }

    pub(crate) fn right_hand_side<T: Element>(&self) -> Vec<T> {
        (0..self.rows).map(|row| T::from_f64(noise(row, 1 << 20))).collect()
    }
}

/// One method after the other on blocks of 3 x 3 and 8 x 8, for values of other types than the vectors.
pub(crate) fn mixed_cases() -> impl Iterator<Item = Case> {
    cases().into_iter().filter(|case| [3, 8].contains(&case.side))
}

/// |b - A x| / |b| by the reference.
pub(crate) fn residual<V: Element, T: Element>(a: &Bsr<V>, solution: &Solution<T>, b: &[T]) -> f64 {
    let x = Dense::from_vec(a.rows(), 1, Layout::ColMajor, a.rows(), solution.x.clone()).unwrap();
    let product = reference::multiply(a, &x).unwrap();
    let norm = |values: &mut dyn Iterator<Item = f64>| values.map(|value| value * value).sum::<f64>().sqrt();
    let b = || b.iter().map(|value| value.to_f64());
    norm(&mut b().zip(&product).map(|(b, product)| b - product)) / norm(&mut b())
}
