//! Blocked-ELL of block compressed rows.

use crate::{Element, Structure};

/// What marks a block that is not there.
const MISSING: i32 = -1;

/// A matrix with equally many blocks in every block row.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Ell<T> {
    /// Blocks of a block row: those of the longest.
    pub(super) width: usize,
    /// The block columns, block row after block row; [`MISSING`] at the end of shorter ones.
    pub(super) columns: Vec<i32>,
    /// The values: rows of the matrix one after the other, each as long as all blocks of a block row.
    pub(super) values: Vec<T>,
}

impl<T: Element> Ell<T> {
    /// Pads a matrix in square blocks with zeros.
    pub(super) fn new(structure: &Structure, stored: &[T]) -> Self {
        let (rows, side) = (structure.block_rows(), structure.block().0);
        let width = structure.row_lengths().max().unwrap_or(0);
        let mut columns = vec![MISSING; rows * width];
        let mut values = vec![T::ZERO; rows * side * width * side];
        for row in 0..rows {
            for (at, block) in structure.blocks_of(row).enumerate() {
                columns[row * width + at] = structure.col_idx()[block];
                for line in 0..side {
                    let from = &stored[(block * side + line) * side..][..side];
                    values[((row * side + line) * width + at) * side..][..side].copy_from_slice(from);
                }
            }
        }
        Self { width, columns, values }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn rows_are_padded_to_the_longest_and_values_go_by_rows() {
        let structure = Structure::new(6, 6, (2, 2), vec![0, 2, 2, 3], vec![0, 2, 1]).unwrap();
        let stored: Vec<f32> = (1..=12).map(|value| value as f32).collect();
        let ell = Ell::new(&structure, &stored);
        assert_eq!((ell.width, ell.columns), (2, vec![0, 2, -1, -1, 1, -1]));
        let rows: Vec<&[f32]> = ell.values.chunks(4).collect();
        assert_eq!(rows[0], [1.0, 2.0, 5.0, 6.0]);
        assert_eq!(rows[1], [3.0, 4.0, 7.0, 8.0]);
        assert_eq!((rows[2], rows[3]), (&[0.0; 4][..], &[0.0; 4][..]));
        assert_eq!(rows[4], [9.0, 10.0, 0.0, 0.0]);
        assert_eq!(rows[5], [11.0, 12.0, 0.0, 0.0]);
    }

    #[test]
    fn without_blocks_there_is_nothing() {
        let ell = Ell::<f32>::new(&Structure::empty(4, 4, (2, 2)).unwrap(), &[]);
        assert_eq!((ell.width, ell.columns.len(), ell.values.len()), (0, 0, 0));
    }
}
