//! The index by block column, and the transposed matrix.

use bsr_runtime::{Bsr, Layout, Structure};
use proptest::prelude::*;

use super::parts::Parts;

#[test]
fn the_index_lists_every_block_of_a_column_from_top_to_bottom() {
    let a = Parts::example().build().unwrap();
    let index = a.structure().transposed().unwrap();
    assert_eq!(index.row_ptr(), [0, 1, 2, 4]);
    assert_eq!(index.col_idx(), [0, 1, 0, 1]);
    assert_eq!(index.block_idx(), [0, 2, 1, 3]);
}

#[test]
fn a_matrix_without_blocks_has_an_index_without_blocks() {
    let empty = Structure::empty(100, 70, (16, 32)).unwrap();
    assert_eq!(empty.transposed().unwrap().row_ptr(), [0; 4]);
    assert_eq!(empty.transpose().unwrap().block(), (32, 16));
}

/// The index is a cache: it makes no difference between structures.
#[test]
fn a_structure_whose_index_was_made_is_the_same() {
    let (one, other) = (Parts::example().build().unwrap(), Parts::example().build().unwrap());
    one.structure().transposed().unwrap();
    assert_eq!(one.structure(), other.structure());
    assert_eq!(one.structure().clone().transposed().unwrap(), other.structure().transposed().unwrap());
}

#[test]
fn transposed_blocks_that_cannot_be_counted_are_refused() {
    // 3 blocks of 2^30 columns are 3 * 2^30 rows of the transposed matrix's values.
    let wide = Structure::new(3, 1 << 30, (1, 1 << 30), vec![0, 1, 2, 3], vec![0, 0, 0]).unwrap();
    let refused = wide.transpose().unwrap_err().to_string();
    assert!(refused.contains("3 * 1073741824 = 3221225472") && refused.contains("split the matrix"), "{refused}");
}

proptest! {
    #[test]
    fn the_transposed_matrix_has_rows_for_columns(
        (rows, cols) in (0usize..40, 0usize..40),
        block in (1usize..9, 1usize..9),
        stored in proptest::collection::vec(any::<bool>(), 1..64),
    ) {
        let a: Bsr<f32> = Parts::new(rows, cols, block, |at| stored[at % stored.len()]).build().unwrap();
        let transposed = a.transpose().unwrap();
        prop_assert_eq!((transposed.rows(), transposed.cols(), transposed.block()), (cols, rows, (block.1, block.0)));
        let (there, back) = (a.to_dense(Layout::RowMajor), transposed.to_dense(Layout::RowMajor));
        for row in 0..rows {
            for col in 0..cols {
                prop_assert_eq!(there.get(row, col), back.get(col, row));
            }
        }
        prop_assert_eq!(transposed.transpose().unwrap(), a);
    }
}
