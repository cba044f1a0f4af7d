//! Valid matrices are accepted, spoilt ones refused by name.

use bsr_runtime::{Blocks, Bsr, Layout, Structure};
use proptest::prelude::*;

use super::corruption::CORRUPTIONS;
use super::parts::Parts;

#[test]
fn the_example_is_what_it_says() {
    let a = Parts::example().build().unwrap();
    assert_eq!((a.rows(), a.cols(), a.block()), (3, 7, (2, 3)));
    assert_eq!((a.block_rows(), a.block_cols(), a.nnzb()), (2, 3, 4));
    assert_eq!((a.row_ptr(), a.col_idx()), (&[0, 2, 4][..], &[0, 2, 1, 2][..]));
    assert_eq!((a.blocks_of(1), a.row_lengths().collect::<Vec<_>>()), (2..4, vec![2, 2]));
    assert_eq!(a.block_values(1), [7.0, 0.0, 0.0, 14.0, 0.0, 0.0]);
    assert_eq!(a.density(), 4.0 / 6.0);
    assert_eq!(a.executed_flops(10), 2 * 4 * 2 * 3 * 10);
}

#[test]
fn matrices_without_blocks_are_matrices() {
    for (rows, cols) in [(0, 0), (0, 9), (9, 0), (9, 9)] {
        let a = Parts::new(rows, cols, (4, 2), |_| false).build().unwrap();
        assert_eq!((a.nnzb(), a.density(), a.executed_flops(5)), (0, 0.0, 0));
        assert_eq!(a.to_dense(Layout::RowMajor).to_f64(), vec![0.0; rows * cols]);
        assert_eq!(Bsr::from_dense(&a.to_dense(Layout::ColMajor), (4, 2), Blocks::NonZero).unwrap(), a);
    }
}

#[test]
fn every_corruption_of_the_example_is_named() {
    for (name, corrupt, words) in CORRUPTIONS {
        let mut parts = Parts::example();
        corrupt(&mut parts).unwrap_or_else(|| panic!("the example can be spoilt by: {name}"));
        let error = parts.build().unwrap_err();
        assert!(error.to_string().contains(words), "{name}: {error:?}");
    }
}

proptest! {
    #[test]
    fn valid_matrices_are_accepted_and_every_corruption_refused_by_name(
        rows in 0usize..30, cols in 0usize..30, block in (1usize..9, 1usize..9),
        stored in prop::collection::vec(any::<bool>(), 900),
    ) {
        let parts = Parts::new(rows, cols, block, |at| stored[at]);
        let a = parts.clone().build();
        prop_assert!(a.is_ok(), "{a:?}");
        let a = a.unwrap();
        let block_cols = cols.div_ceil(block.1);
        let expected: Vec<f64> = (0..rows * cols)
            .map(|at| (at / cols / block.0) * block_cols + at % cols / block.1)
            .enumerate()
            .map(|(at, of)| if stored[of] { (at + 1) as f64 } else { 0.0 })
            .collect();
        for layout in [Layout::RowMajor, Layout::ColMajor] {
            let dense = a.to_dense(layout);
            prop_assert_eq!(dense.to_f64(), expected.clone());
            prop_assert_eq!(&Bsr::from_dense(&dense, block, Blocks::NonZero).unwrap(), &a);
            let mask = &stored[..a.block_rows() * a.block_cols()];
            prop_assert_eq!(&Bsr::from_dense_mask(&dense, block, mask).unwrap(), &a);
        }

        for (name, corrupt, words) in CORRUPTIONS {
            let mut parts = parts.clone();
            if corrupt(&mut parts).is_some() {
                let error = parts.build();
                let is_named = error.as_ref().is_err_and(|error| error.to_string().contains(words));
                prop_assert!(is_named, "{}: {:?}", name, error);
            }
        }
    }
}

#[test]
fn an_error_states_the_place_the_arithmetic_and_the_remedy() {
    let refusal = |corrupt: fn(&mut Parts)| {
        let mut parts = Parts::example();
        corrupt(&mut parts);
        parts.build().unwrap_err().to_string()
    };
    assert_eq!(
        refusal(|p| p.values.truncate(20)),
        "20 values, but 4 blocks of 2 x 3 have 4 * 2 * 3 = 24\n  help: \
         store every block whole, blocks that extend beyond the edge of the matrix too"
    );
    assert_eq!(
        refusal(|p| p.col_idx[3] = 3),
        "col_idx[3] = 3 in block row 1 is outside 0..3\n  7 columns in blocks of 3 make 3 block columns\n  help: \
         count columns in blocks, from 0"
    );
    assert_eq!(
        refusal(|p| p.row_ptr[2] = 1),
        "row_ptr[2] = 1 is less than row_ptr[1] = 2\n  block row 1 would hold 1 - 2 = -1 blocks\n  help: \
         make row_ptr the running sum of the block row lengths"
    );
    // Block 1 is at column 2: its columns are 6, 7 and 8 of 7.
    assert_eq!(
        refusal(|p| p.values[6 + 4] = 2.5),
        "values[10] = 2.5 in block 1 is at row 1, column 7 of a 3 x 7 matrix\n  \
         the part of a block beyond the edge is multiplied too\n  help: set it to zero"
    );
}

#[test]
fn offsets_beyond_32_bits_are_refused() {
    // 2048 blocks of 2^20 rows: exactly 2^31 value rows, one too many.
    let columns = |count: usize| (0..count as i32).map(|at| at % 2).collect::<Vec<_>>();
    let row_ptr: Vec<i32> = (0..=1024).map(|row| row * 2).collect();
    let refused = Structure::new(1 << 30, 2, (1 << 20, 1), row_ptr.clone(), columns(2048)).unwrap_err();
    assert!(refused.to_string().contains("2048 * 1048576 = 2147483648 value rows"), "{refused}");

    let one_less: Vec<i32> = row_ptr.into_iter().map(|end| end.min(2047)).collect();
    assert!(Structure::new(1 << 30, 2, (1 << 20, 1), one_less, columns(2047)).is_ok());
}

#[test]
fn row_pointers_may_have_64_bits() {
    let narrow = Structure::new(3, 7, (2, 3), vec![0, 2, 4], vec![0, 2, 1, 2]).unwrap();
    let wide = |end: i64| Structure::new(3, 7, (2, 3), vec![0, 2, end], vec![0, 2, 1, 2]);
    assert_eq!(wide(4).unwrap(), narrow);
    assert_eq!(narrow.row_ptr(), [0_i64, 2, 4]);
    // The lower half alone would be right.
    let refused = wide(4 + (1 << 32)).unwrap_err().to_string();
    assert!(refused.contains("4294967300 stored blocks, but col_idx has 4 entries"), "{refused}");
    let refused = wide(i64::MIN).unwrap_err().to_string();
    assert!(refused.contains("-9223372036854775808 is less than"), "{refused}");
}
