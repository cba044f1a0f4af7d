//! Values: special ones, conversions, and generated ones.

use bsr_runtime::{Blocks, Bsr, Dense, Layout, Pattern};
use half::{bf16, f16};

use super::parts::Parts;

#[test]
fn nan_and_infinity_are_values_like_others_inside_the_matrix() {
    let mut parts = Parts::example();
    parts.values[0] = f32::NAN;
    parts.values[1] = f32::INFINITY;
    let a = parts.build().unwrap();
    assert!(a.values()[0].is_nan());
    // A block of NaN is not a block of zeros.
    let nan = Dense::from_fn(4, 4, Layout::RowMajor, |row, _| if row < 2 { f16::NAN } else { f16::ZERO });
    assert_eq!(Bsr::from_dense(&nan, (2, 4), Blocks::Above(1e9)).unwrap().row_ptr(), [0, 1, 1]);
}

#[test]
fn a_threshold_keeps_blocks_whole() {
    let dense = Dense::from_fn(4, 6, Layout::ColMajor, |row, col| (row * 6 + col) as f32 / 10.0);
    // The largest values of the blocks are 0.8, 1.1, 2.0 and 2.3.
    let kept = |threshold| Bsr::from_dense(&dense, (2, 3), Blocks::Above(threshold)).unwrap().col_idx().to_vec();
    assert_eq!(kept(1.0), [1, 0, 1]);
    assert_eq!(kept(2.1), [1]);
    assert_eq!(kept(-1.0), [0, 1, 0, 1]);
    assert_eq!(Bsr::from_dense(&dense, (2, 3), Blocks::All).unwrap().nnzb(), 4);
    let a = Bsr::from_dense(&dense, (2, 3), Blocks::Above(2.1)).unwrap();
    assert_eq!(a.values(), [1.5, 1.6, 1.7, 2.1, 2.2, 2.3]);

    let refused = Bsr::from_dense_mask(&dense, (2, 3), &[true; 3]).unwrap_err();
    assert!(refused.to_string().contains("2 * 2 = 4"), "{refused}");
    let refused = Bsr::from_dense(&dense, (0, 3), Blocks::NonZero).unwrap_err();
    assert!(refused.to_string().contains("the block is 0 x 3"), "{refused}");
}

#[test]
fn a_part_of_a_dense_matrix_can_be_blocked() {
    let dense = Dense::from_fn(9, 9, Layout::RowMajor, |row, col| (row * 9 + col) as f32);
    let part = dense.view().part(1..4, 2..9).unwrap();
    let a = Bsr::from_dense(part, (2, 3), Blocks::NonZero).unwrap();
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
    let large = Parts { values: vec![1e6], ..large }.build().unwrap();
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

    let drawn: Vec<f64> = a.values().iter().map(|v| v.to_f64()).filter(|v| *v != 0.0).collect();
    let variance = drawn.iter().map(|v| v * v).sum::<f64>() / drawn.len() as f64;
    assert!((variance - 1.0).abs() < 0.02, "variance {variance}");
    // B of the same seed is another draw.
    let b = Dense::<f16>::normal(64, 48, Layout::RowMajor, 9);
    assert_ne!(b.data()[..48], a.values()[..48]);
}
