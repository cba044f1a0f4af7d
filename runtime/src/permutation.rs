//! An order of rows, checked once.

use bsr_codegen::{Layout, Refusal};
use rand::seq::SliceRandom;

use crate::random::Streams;
use crate::{Dense, Element};

/// An order of the rows of a matrix: row `i` of the reordered matrix is row `as_slice()[i]` of the original.
///
/// Every row stands in it exactly once, by construction. If `A' = P A` are reordered rows, then `A' B` are the rows of
/// `A B` in the same order, and [`undo`](Self::undo) brings them back.
///
/// ```
/// use bsr_runtime::{Dense, Layout, Permutation};
///
/// let order = Permutation::new(vec![2, 0, 1])?;
/// let original = Dense::from_fn(3, 1, Layout::RowMajor, |row, _| row as f32);
/// let reordered = order.apply(&original)?;
/// assert_eq!(reordered.to_f64(), [2.0, 0.0, 1.0]);
/// assert_eq!(order.undo(&reordered)?.to_f64(), [0.0, 1.0, 2.0]);
/// assert_eq!(order.inverse().as_slice(), [1, 2, 0]);
/// # Ok::<(), bsr_codegen::Refusal>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Permutation(Vec<u32>);

impl Permutation {
    /// Checks and takes the original row of each row of the reordered matrix.
    ///
    /// # Errors
    /// When a row is missing, named twice or not one of `0..rows.len()`.
    pub fn new(rows: Vec<u32>) -> Result<Self, Refusal> {
        let mut at = vec![usize::MAX; rows.len()];
        for (position, &row) in rows.iter().enumerate() {
            let Some(seen) = at.get_mut(row as usize) else {
                return Err(outside(position, i64::from(row), rows.len()));
            };
            if *seen != usize::MAX {
                return Err(Refusal::new(format!("positions {seen} and {position} both name row {row}"))
                    .help("name each row once"));
            }
            *seen = position;
        }
        Ok(Self(rows))
    }

    /// As [`new`](Self::new), from the signed numbers that files hold.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn from_signed(rows: &[i64]) -> Result<Self, Refusal> {
        let row = |(position, &row): (usize, &i64)| u32::try_from(row).map_err(|_| outside(position, row, rows.len()));
        Self::new(rows.iter().enumerate().map(row).collect::<Result<_, _>>()?)
    }

    /// The order in which `rows` rows stay where they are.
    ///
    /// # Panics
    /// When there are 2^32 rows or more, which no matrix has.
    pub fn identity(rows: usize) -> Self {
        let rows = u32::try_from(rows).expect("no matrix has 2^32 rows");
        Self((0..rows).collect())
    }

    /// A random order, the same for the same seed on every platform.
    ///
    /// # Panics
    /// When there are 2^32 rows or more, which no matrix has.
    pub fn random(rows: usize, seed: u64) -> Self {
        let mut order = Self::identity(rows);
        order.0.shuffle(&mut Streams::new(seed, b"row.ordr").get(0));
        order
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// For each row of the reordered matrix, its row in the original: where a kernel that undoes the order stores it.
    pub fn as_slice(&self) -> &[u32] {
        &self.0
    }

    /// Whether every row stays where it is.
    pub fn is_identity(&self) -> bool {
        self.0.iter().enumerate().all(|(at, &row)| at == row as usize)
    }

    /// The order that takes this one back: for each row of the original, its row in the reordered matrix.
    pub fn inverse(&self) -> Self {
        let mut inverse = vec![0; self.0.len()];
        for (at, &row) in (0u32..).zip(&self.0) {
            inverse[row as usize] = at;
        }
        Self(inverse)
    }

    /// This order, and then `next` on its result.
    ///
    /// # Errors
    /// When the two have different numbers of rows.
    pub fn then(&self, next: &Self) -> Result<Self, Refusal> {
        next.check_rows(self.len())?;
        Ok(Self(next.0.iter().map(|&row| self.0[row as usize]).collect()))
    }

    /// The rows of `original` in this order.
    ///
    /// # Errors
    /// When the matrix has another number of rows.
    pub fn apply<T: Element>(&self, original: &Dense<T>) -> Result<Dense<T>, Refusal> {
        self.check_rows(original.rows())?;
        let view = original.view();
        let mut reordered = Dense::zeros(original.rows(), original.cols(), original.layout());
        reordered.for_each_line(|index, line| match original.layout() {
            Layout::RowMajor => line.copy_from_slice(view.line(self.0[index] as usize)),
            Layout::ColMajor => {
                let column = view.line(index);
                line.iter_mut().zip(&self.0).for_each(|(slot, &row)| *slot = column[row as usize]);
            }
        });
        Ok(reordered)
    }

    /// The rows of a reordered matrix, for instance of a product with one, in the original order.
    ///
    /// # Errors
    /// When the matrix has another number of rows.
    pub fn undo<T: Element>(&self, reordered: &Dense<T>) -> Result<Dense<T>, Refusal> {
        self.inverse().apply(reordered)
    }

    /// Refuses a matrix with another number of rows.
    pub(crate) fn check_rows(&self, rows: usize) -> Result<(), Refusal> {
        match self.len() == rows {
            true => Ok(()),
            false => Err(Refusal::new(format!("the matrix has {rows} rows, the order {}", self.len()))
                .help("take the order that was made for the matrix")),
        }
    }
}

/// A row that is not there.
fn outside(position: usize, row: i64, rows: usize) -> Refusal {
    Refusal::new(format!("position {position} names row {row}, not one of 0..{rows}"))
        .help(format!("name each of the {rows} rows once"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn what_is_no_permutation_is_refused() {
        let outside = Permutation::new(vec![0, 3, 1]).unwrap_err();
        assert!(outside.to_string().contains("position 1 names row 3, not one of 0..3"), "{outside}");
        let negative = Permutation::from_signed(&[0, 1, -1]).unwrap_err();
        assert!(negative.to_string().contains("position 2 names row -1, not one of 0..3"), "{negative}");
        let twice = Permutation::new(vec![1, 0, 1]).unwrap_err();
        assert!(twice.to_string().contains("positions 0 and 2 both name row 1"), "{twice}");
        let other = Permutation::identity(4).apply(&Dense::<f32>::zeros(3, 2, Layout::RowMajor)).unwrap_err();
        assert!(other.to_string().contains("the matrix has 3 rows, the order 4"), "{other}");
        assert!(Permutation::new(Vec::new()).unwrap().is_identity());
    }

    #[test]
    fn orders_compose_and_come_back_in_both_layouts() {
        let first = Permutation::new(vec![2, 0, 3, 1]).unwrap();
        let second = Permutation::new(vec![1, 3, 2, 0]).unwrap();
        assert!(first.then(&first.inverse()).unwrap().is_identity());
        assert!(first.inverse().then(&first).unwrap().is_identity());
        for layout in [Layout::RowMajor, Layout::ColMajor] {
            let original = Dense::<f32>::normal(4, 3, layout, 1);
            let both = second.apply(&first.apply(&original).unwrap()).unwrap();
            assert_eq!(both.to_f64(), first.then(&second).unwrap().apply(&original).unwrap().to_f64());
            assert_eq!(first.undo(&first.apply(&original).unwrap()).unwrap().to_f64(), original.to_f64());
            assert_eq!(first.apply(&original).unwrap().get(0, 2), original.get(2, 2));
        }
    }
}
