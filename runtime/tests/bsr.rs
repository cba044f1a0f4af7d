//! Block-sparse matrices: what is accepted, what is refused and how, and the way to dense and back.

#![allow(clippy::unwrap_used)]

use bsr_runtime::{Bsr, BsrError, Dense, Layout, Pattern, Structure};
use half::{bf16, f16};
use proptest::prelude::*;

/// The arguments of `Bsr::new`, to be bent before use.
#[derive(Clone, Debug)]
struct Parts {
    rows: usize,
    cols: usize,
    block: (usize, usize),
    row_ptr: Vec<i32>,
    col_idx: Vec<i32>,
    values: Vec<f32>,
}

impl Parts {
    /// The blocks whose flag is set, row by row; every element inside the matrix is its place plus one.
    fn new(
        rows: usize,
        cols: usize,
        block: (usize, usize),
        stored: impl Fn(usize) -> bool,
    ) -> Self {
        let (bm, bk) = block;
        let mut parts = Self {
            rows,
            cols,
            block,
            row_ptr: vec![0],
            col_idx: vec![],
            values: vec![],
        };
        let block_cols = cols.div_ceil(bk);
        for i in 0..rows.div_ceil(bm) {
            for j in (0..block_cols).filter(|j| stored(i * block_cols + j)) {
                parts.col_idx.push(j as i32);
                for (row, col) in (0..bm * bk).map(|at| (i * bm + at / bk, j * bk + at % bk)) {
                    parts.values.push(if row < rows && col < cols {
                        (row * cols + col + 1) as f32
                    } else {
                        0.0
                    });
                }
            }
            parts.row_ptr.push(parts.col_idx.len() as i32);
        }
        parts
    }

    fn build(self) -> Result<Bsr<f32>, BsrError> {
        Bsr::new(
            self.rows,
            self.cols,
            self.block,
            self.row_ptr,
            self.col_idx,
            self.values,
        )
    }

    /// Two block rows of 2 x 3 blocks over 3 x 7 elements: blocks at (0, 0), (0, 2), (1, 1), (1, 2).
    fn example() -> Self {
        Self::new(3, 7, (2, 3), |at| [0, 2, 4, 5].contains(&at))
    }
}

#[test]
fn the_example_is_what_it_says() {
    let a = Parts::example().build().unwrap();
    assert_eq!((a.rows(), a.cols(), a.block()), (3, 7, (2, 3)));
    assert_eq!((a.block_rows(), a.block_cols(), a.nnzb()), (2, 3, 4));
    assert_eq!(
        (a.row_ptr(), a.col_idx()),
        (&[0, 2, 4][..], &[0, 2, 1, 2][..])
    );
    assert_eq!(
        (a.blocks_of(1), a.row_lengths().collect::<Vec<_>>()),
        (2..4, vec![2, 2])
    );
    assert_eq!(a.block_values(1), [7.0, 0.0, 0.0, 14.0, 0.0, 0.0]);
    assert_eq!(a.density(), 4.0 / 6.0);
    assert_eq!(a.executed_flops(10), 2 * 4 * 2 * 3 * 10);
}

#[test]
fn matrices_without_blocks_are_matrices() {
    for (rows, cols) in [(0, 0), (0, 9), (9, 0), (9, 9)] {
        let a = Parts::new(rows, cols, (4, 2), |_| false).build().unwrap();
        assert_eq!((a.nnzb(), a.density(), a.executed_flops(5)), (0, 0.0, 0));
        assert_eq!(
            a.to_dense(Layout::RowMajor).to_f64(),
            vec![0.0; rows * cols]
        );
        assert_eq!(
            Bsr::from_dense(&a.to_dense(Layout::ColMajor), (4, 2), 0.0).unwrap(),
            a
        );
    }
}

/// Ways to spoil a valid matrix, each with the error that must name it.
const CORRUPTIONS: [(&str, fn(&mut Parts) -> Option<()>, fn(&BsrError) -> bool); 16] = [
    (
        "no block height",
        |p| {
            p.block.0 = 0;
            Some(())
        },
        |e| matches!(e, BsrError::ZeroBlock { bm: 0, .. }),
    ),
    (
        "no block width",
        |p| {
            p.block.1 = 0;
            Some(())
        },
        |e| matches!(e, BsrError::ZeroBlock { bk: 0, .. }),
    ),
    (
        "rows beyond 32 bits",
        |p| {
            p.rows = 1 << 31;
            Some(())
        },
        |e| matches!(e, BsrError::TooLarge { what: "rows", .. }),
    ),
    (
        "row_ptr too short",
        |p| p.row_ptr.pop().map(drop),
        |e| matches!(e, BsrError::RowPtrLength { .. }),
    ),
    (
        "row_ptr too long",
        |p| {
            p.row_ptr.push(p.col_idx.len() as i32);
            Some(())
        },
        |e| matches!(e, BsrError::RowPtrLength { .. }),
    ),
    (
        "row_ptr not from 0",
        |p| {
            p.row_ptr[0] = 1;
            Some(())
        },
        |e| matches!(e, BsrError::RowPtrStart { got: 1 }),
    ),
    (
        "row_ptr negative",
        |p| {
            *p.row_ptr.get_mut(1)? = -1;
            Some(())
        },
        |e| {
            matches!(
                e,
                BsrError::RowPtrDecreasing {
                    block_row: 0,
                    end: -1,
                    ..
                }
            )
        },
    ),
    (
        "row_ptr decreasing",
        |p| {
            let at = (2..p.row_ptr.len()).find(|&at| p.row_ptr[at - 1] > 0)?;
            p.row_ptr[at] = p.row_ptr[at - 1] - 1;
            Some(())
        },
        |e| matches!(e, BsrError::RowPtrDecreasing { .. }),
    ),
    (
        "row_ptr ends early",
        |p| {
            p.col_idx.push(0);
            Some(())
        },
        |e| matches!(e, BsrError::RowPtrEnd { .. }),
    ),
    (
        "column negative",
        |p| {
            *p.col_idx.first_mut()? = -1;
            Some(())
        },
        |e| {
            matches!(
                e,
                BsrError::ColumnOutOfRange {
                    at: 0,
                    column: -1,
                    ..
                }
            )
        },
    ),
    (
        "column too large",
        |p| {
            *p.col_idx.last_mut()? = p.cols.div_ceil(p.block.1) as i32;
            Some(())
        },
        |e| matches!(e, BsrError::ColumnOutOfRange { .. }),
    ),
    (
        "columns swapped",
        |p| {
            let at = p.neighbours()?;
            p.col_idx.swap(at - 1, at);
            Some(())
        },
        |e| matches!(e, BsrError::Unsorted { .. }),
    ),
    (
        "column twice",
        |p| {
            let at = p.neighbours()?;
            p.col_idx[at] = p.col_idx[at - 1];
            Some(())
        },
        |e| matches!(e, BsrError::Duplicate { .. }),
    ),
    (
        "a value missing",
        |p| p.values.pop().map(drop),
        |e| matches!(e, BsrError::ValuesLength { .. }),
    ),
    (
        "a value too many",
        |p| {
            p.values.push(0.0);
            Some(())
        },
        |e| matches!(e, BsrError::ValuesLength { .. }),
    ),
    (
        "NaN in the padding",
        |p| {
            let at = p.padding()?;
            p.values[at] = f32::NAN;
            Some(())
        },
        |e| matches!(e, BsrError::PaddingNotZero { value, .. } if value.is_nan()),
    ),
];

impl Parts {
    /// The position of a column index that follows another in its block row.
    fn neighbours(&self) -> Option<usize> {
        let long = self
            .row_ptr
            .windows(2)
            .find(|ends| ends[1] - ends[0] >= 2)?;
        Some(long[0] as usize + 1)
    }

    /// The position of a value outside the matrix: zero, as no value inside is.
    fn padding(&self) -> Option<usize> {
        self.values.iter().position(|&v| v == 0.0)
    }
}

#[test]
fn every_corruption_of_the_example_is_named() {
    for (name, corrupt, names_it) in CORRUPTIONS {
        let mut parts = Parts::example();
        corrupt(&mut parts).unwrap_or_else(|| panic!("the example can be spoilt by: {name}"));
        let error = parts.build().unwrap_err();
        assert!(names_it(&error), "{name}: {error:?}");
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
            prop_assert_eq!(&Bsr::from_dense(&dense, block, 0.0).unwrap(), &a);
            let mask = &stored[..a.block_rows() * a.block_cols()];
            prop_assert_eq!(&Bsr::from_dense_mask(&dense, block, mask).unwrap(), &a);
        }

        for (name, corrupt, names_it) in CORRUPTIONS {
            let mut parts = parts.clone();
            if corrupt(&mut parts).is_some() {
                let error = parts.build();
                prop_assert!(error.as_ref().is_err_and(names_it), "{}: {:?}", name, error);
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
        "20 values, but 4 blocks of 2 x 3 have 4 * 2 * 3 = 24; \
         store every block whole, blocks that hang over the edge of the matrix too"
    );
    assert_eq!(
        refusal(|p| p.col_idx[3] = 3),
        "col_idx[3] = 3 in block row 1 is outside 0..3: 7 columns in blocks of 3 make 3 block columns; \
         count columns in blocks, from 0"
    );
    assert_eq!(
        refusal(|p| p.row_ptr[2] = 1),
        "row_ptr[2] = 1 is less than row_ptr[1] = 2, so block row 1 would hold 1 - 2 = -1 blocks; \
         make row_ptr the running sum of the block row lengths"
    );
    // Block 1 is at column 2: its columns are 6, 7 and 8 of 7.
    assert_eq!(
        refusal(|p| p.values[6 + 4] = 2.5),
        "values[10] = 2.5 in block 1 lies at row 1, column 7 of a 3 x 7 matrix; \
         the part of a block beyond the edge is multiplied too: set it to zero"
    );
}

#[test]
fn offsets_beyond_32_bits_are_refused() {
    // 2048 blocks of 2^20 rows: exactly 2^31 value rows, one too many.
    let columns = |count: usize| (0..count as i32).map(|at| at % 2).collect::<Vec<_>>();
    let row_ptr: Vec<i32> = (0..=1024).map(|row| row * 2).collect();
    let refused =
        Structure::new(1 << 30, 2, (1 << 20, 1), row_ptr.clone(), columns(2048)).unwrap_err();
    assert_eq!(
        refused,
        BsrError::OffsetOverflow {
            nnzb: 2048,
            bm: 1 << 20
        }
    );
    assert!(
        refused
            .to_string()
            .contains("2048 * 1048576 = 2147483648 value rows"),
        "{refused}"
    );

    let one_less: Vec<i32> = row_ptr.into_iter().map(|end| end.min(2047)).collect();
    assert!(Structure::new(1 << 30, 2, (1 << 20, 1), one_less, columns(2047)).is_ok());
}

#[test]
fn nan_and_infinity_are_values_like_others_inside_the_matrix() {
    let mut parts = Parts::example();
    parts.values[0] = f32::NAN;
    parts.values[1] = f32::INFINITY;
    let a = parts.build().unwrap();
    assert!(a.values()[0].is_nan());
    // A block of NaN is not a block of zeros.
    let nan = Dense::from_fn(4, 4, Layout::RowMajor, |row, _| {
        if row < 2 { f16::NAN } else { f16::ZERO }
    });
    assert_eq!(
        Bsr::from_dense(&nan, (2, 4), 1e9).unwrap().row_ptr(),
        [0, 1, 1]
    );
}

#[test]
fn a_threshold_keeps_blocks_whole() {
    let dense = Dense::from_fn(4, 6, Layout::ColMajor, |row, col| {
        (row * 6 + col) as f32 / 10.0
    });
    // The largest values of the blocks are 0.8, 1.1, 2.0 and 2.3.
    let kept = |threshold| {
        Bsr::from_dense(&dense, (2, 3), threshold)
            .unwrap()
            .col_idx()
            .to_vec()
    };
    assert_eq!(kept(1.0), [1, 0, 1]);
    assert_eq!(kept(2.1), [1]);
    assert_eq!(kept(-1.0), [0, 1, 0, 1]);
    let a = Bsr::from_dense(&dense, (2, 3), 2.1).unwrap();
    assert_eq!(a.values(), [1.5, 1.6, 1.7, 2.1, 2.2, 2.3]);

    let refused = Bsr::from_dense_mask(&dense, (2, 3), &[true; 3]).unwrap_err();
    assert_eq!(
        refused,
        BsrError::MaskLength {
            got: 3,
            block_rows: 2,
            block_cols: 2
        }
    );
    assert_eq!(
        Bsr::from_dense(&dense, (0, 3), 0.0).unwrap_err(),
        BsrError::ZeroBlock { bm: 0, bk: 3 }
    );
}

#[test]
fn a_part_of_a_dense_matrix_can_be_blocked() {
    let dense = Dense::from_fn(9, 9, Layout::RowMajor, |row, col| (row * 9 + col) as f32);
    let part = dense.view().part(1..4, 2..9).unwrap();
    let a = Bsr::from_dense(part, (2, 3), 0.0).unwrap();
    assert_eq!(a.to_dense(Layout::RowMajor).to_f64(), part.to_f64());
}

#[test]
fn casting_keeps_the_blocks_and_rounds_the_values() {
    let a = Bsr::<f32>::generate(Pattern::Random(0.5), 50, 70, (16, 8), 3).unwrap();
    let narrow = a.cast::<bf16>();
    assert_eq!(narrow.structure(), a.structure());
    for (wide, narrow) in a.values().iter().zip(narrow.values()) {
        assert_eq!(*narrow, bf16::from_f32(*wide));
    }
    let large = Parts::new(1, 1, (1, 1), |_| true);
    let large = Parts {
        values: vec![1e6],
        ..large
    }
    .build()
    .unwrap();
    assert_eq!(large.cast::<f16>().values(), [f16::INFINITY]);
}

#[test]
fn generated_values_are_normal_inside_and_zero_outside() {
    let a = Bsr::<f16>::generate(Pattern::Random(0.7), 1000, 777, (64, 48), 9).unwrap();
    let again = rayon::ThreadPoolBuilder::new()
        .num_threads(3)
        .build()
        .unwrap()
        .install(|| Bsr::<f16>::generate(Pattern::Random(0.7), 1000, 777, (64, 48), 9).unwrap());
    assert_eq!(a, again);
    // Validation looks at the padding.
    let (structure, values) = a.clone().into_parts();
    assert_eq!(Bsr::from_structure(structure, values).as_ref(), Ok(&a));

    let drawn: Vec<f64> = a
        .values()
        .iter()
        .map(|v| v.to_f64())
        .filter(|v| *v != 0.0)
        .collect();
    let variance = drawn.iter().map(|v| v * v).sum::<f64>() / drawn.len() as f64;
    assert!((variance - 1.0).abs() < 0.02, "variance {variance}");
    // B of the same seed is another draw.
    let b = Dense::<f16>::normal(64, 48, Layout::RowMajor, 9);
    assert_ne!(b.data()[..48], a.values()[..48]);
}
