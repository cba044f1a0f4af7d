#![allow(clippy::unwrap_used)]

use half::f16;

use super::*;

const BOTH: [Layout; 2] = [Layout::RowMajor, Layout::ColMajor];

/// An element that tells its place.
fn place(row: usize, col: usize) -> f32 {
    (100 * row + col) as f32
}

#[test]
fn lines_are_padded_to_16_bytes() {
    assert_eq!([0, 1, 7, 8, 9].map(Dense::<f16>::padded_ld), [8, 8, 8, 8, 16]);
    assert_eq!([0, 1, 4, 5].map(Dense::<f32>::padded_ld), [4, 4, 4, 8]);
    let column = Dense::<f16>::zeros(5, 1, Layout::RowMajor);
    assert_eq!((column.ld(), column.data().len()), (8, 40));
    let column = Dense::<f16>::zeros(5, 1, Layout::ColMajor);
    assert_eq!((column.ld(), column.data().len()), (8, 8));
}

#[test]
fn elements_lie_where_the_layout_says_and_the_padding_is_zero() {
    for layout in BOTH {
        let matrix = Dense::from_fn(3, 5, layout, place);
        for (row, col) in (0..3).flat_map(|row| (0..5).map(move |col| (row, col))) {
            assert_eq!(matrix.get(row, col), Some(place(row, col)));
            let at = match layout {
                Layout::RowMajor => row * 8 + col,
                Layout::ColMajor => col * 4 + row,
            };
            assert_eq!(matrix.data()[at], place(row, col));
        }
        assert_eq!((matrix.get(3, 0), matrix.get(0, 5)), (None, None));
        let shown: f32 = (0..3).flat_map(|row| (0..5).map(move |col| place(row, col))).sum();
        assert_eq!(matrix.data().iter().sum::<f32>(), shown);
    }
}

#[test]
fn to_f64_is_row_major_without_gaps() {
    let expected: Vec<f64> = (0..3).flat_map(|r| (0..5).map(move |c| f64::from(place(r, c)))).collect();
    for layout in BOTH {
        assert_eq!(Dense::from_fn(3, 5, layout, place).to_f64(), expected);
    }
}

#[test]
fn another_layout_holds_the_same_matrix() {
    for (from, to) in [(BOTH[0], BOTH[1]), (BOTH[1], BOTH[0]), (BOTH[0], BOTH[0]), (BOTH[1], BOTH[1])] {
        let matrix = Dense::from_fn(7, 3, from, place);
        let other = matrix.to_layout(to);
        assert_eq!((other.layout(), other.ld()), (to, if to == Layout::RowMajor { 4 } else { 8 }));
        assert_eq!(other.data(), Dense::from_fn(7, 3, to, place).data());
    }
}

#[test]
fn foreign_memory_is_taken_as_it_is_or_refused_with_numbers() {
    // Two lines of three, four apart, and nothing after the last element.
    let memory: Vec<f32> = (0..7).map(|v| v as f32).collect();
    let matrix = Dense::from_vec(2, 3, Layout::RowMajor, 4, memory.clone()).unwrap();
    assert_eq!(matrix.to_f64(), [0.0, 1.0, 2.0, 4.0, 5.0, 6.0]);
    let matrix = Dense::from_vec(3, 2, Layout::ColMajor, 4, memory.clone()).unwrap();
    assert_eq!(matrix.to_f64(), [0.0, 4.0, 1.0, 5.0, 2.0, 6.0]);

    let short = Dense::from_vec(2, 3, Layout::RowMajor, 5, memory.clone()).unwrap_err();
    assert!(short.to_string().contains("(2 - 1) * 5 + 3 = 8\n  help: give 1 more"), "{short}");
    let narrow = Dense::from_vec(2, 3, Layout::RowMajor, 2, memory.clone()).unwrap_err();
    assert!(narrow.to_string().contains("give ld >= 3 (4 is the next one"), "{narrow}");
    let huge = Dense::from_vec(usize::MAX, 3, Layout::RowMajor, 1 << 40, memory).unwrap_err();
    assert!(huge.to_string().contains("beyond the address space"), "{huge}");
}

#[test]
fn padding_repacks_only_what_needs_it() {
    let tight = Dense::from_vec(2, 3, Layout::RowMajor, 3, vec![1f32, 2., 3., 4., 5., 6.]).unwrap().padded();
    assert_eq!((tight.ld(), tight.data()), (4, &[1f32, 2., 3., 0., 4., 5., 6., 0.][..]));
    let wide = Dense::from_vec(2, 3, Layout::RowMajor, 12, vec![1f32; 24]).unwrap().padded();
    assert_eq!(wide.ld(), 12);
}

#[test]
fn a_part_and_a_transpose_share_the_memory() {
    for layout in BOTH {
        let matrix = Dense::from_fn(6, 7, layout, place);
        let part = matrix.view().part(2..5, 3..7).unwrap();
        assert_eq!((part.rows(), part.cols(), part.ld()), (3, 4, matrix.ld()));
        assert_eq!(part.get(1, 2), Some(place(3, 5)));
        assert_eq!(part.get(3, 0), None);
        let transposed = part.transposed();
        assert_eq!((transposed.get(2, 1), transposed.get(0, 3)), (Some(place(3, 5)), None));
        let copy = part.to_dense(Layout::RowMajor);
        assert_eq!(copy.to_f64(), Dense::from_fn(3, 4, layout, |r, c| place(r + 2, c + 3)).to_f64());
        assert!(matrix.view().part(6..6, 7..7).unwrap().to_f64().is_empty());
    }
    let matrix = Dense::from_fn(6, 7, Layout::RowMajor, place);
    let outside = matrix.view().part(0..6, 5..8).unwrap_err();
    assert!(outside.to_string().contains("columns 5..8"), "{outside}");
    #[allow(clippy::reversed_empty_ranges)]
    let reversed = matrix.view().part(3..2, 0..1).unwrap_err();
    assert!(reversed.to_string().contains("rows 3..2 is not a part of a matrix with 6 rows"), "{reversed}");
}

#[test]
fn normal_depends_on_the_seed_alone() {
    let matrix = || Dense::<f16>::normal(33, 17, Layout::RowMajor, 5);
    let alone = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap().install(matrix);
    let many = rayon::ThreadPoolBuilder::new().num_threads(7).build().unwrap().install(matrix);
    assert_eq!(alone.data(), many.data());

    let transposed = Dense::<f16>::normal(17, 33, Layout::ColMajor, 5);
    assert_eq!(alone.data(), transposed.data());
    let other = Dense::<f16>::normal(33, 17, Layout::RowMajor, 6);
    let same = alone.to_f64().iter().zip(other.to_f64()).filter(|(a, b)| **a == *b).count();
    assert!(same < 10, "{same} of 561 elements agree between two seeds");
}

#[test]
fn cast_rounds_each_element_once() {
    let matrix = Dense::from_vec(1, 3, Layout::ColMajor, 4, vec![1.0f32, 0., 0., 0., 1e6, 0., 0., 0., 2049.0]).unwrap();
    assert_eq!(matrix.cast::<f16>().to_f64(), [1.0, f64::INFINITY, 2048.0]);
}

#[test]
fn matrices_without_elements() {
    for layout in BOTH {
        for (rows, cols) in [(0, 0), (0, 5), (5, 0)] {
            let matrix = Dense::<f32>::normal(rows, cols, layout, 1);
            assert_eq!((matrix.to_f64().len(), matrix.get(0, 0)), (0, None));
            assert_eq!(matrix.to_layout(BOTH[0]).cast::<f16>().rows(), rows);
        }
    }
}
