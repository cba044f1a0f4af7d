//! Round trips, edges, and what is refused.

#![allow(clippy::unwrap_used)]

use bsr_codegen::{Dtype, Layout, Scale};
use half::{bf16, f16};

use super::*;
use crate::{Pattern, Structure, e4m3, e5m2, reference};

const KINDS: [Scale; 4] = [Scale::Unscaled, Scale::Tensor, Scale::RowCol, Scale::Block];

/// The scale of every stored value of A.
fn scales_of_a(a: &Structure, kind: Scale, scales: &[f32]) -> Vec<f64> {
    let (bm, bk) = a.block();
    let mut each = Vec::new();
    for block_row in 0..a.block_rows() {
        for block in a.blocks_of(block_row) {
            each.extend((0..bm * bk).map(|at| match kind {
                Scale::Unscaled => 1.0,
                Scale::Tensor => f64::from(scales[0]),
                Scale::RowCol => scales.get(block_row * bm + at / bk).map_or(1.0, |scale| f64::from(*scale)),
                Scale::Block => f64::from(scales[block]),
            }));
        }
    }
    each
}

/// Half of the distance between neighbours around `quotient`.
fn half_step<T: Narrow>(quotient: f64) -> f64 {
    let exponent = |least: i32| (quotient.abs().log2().floor() as i32).max(least);
    match T::DTYPE {
        Dtype::E4M3 => f64::powi(2.0, exponent(-6) - 4),
        Dtype::E5M2 => f64::powi(2.0, exponent(-14) - 3),
        _ => 0.5,
    }
}

/// Each value comes back to within half a step of its type at its scale.
fn round_trip<T: Narrow, S: Element>() {
    // Values of 1e-3 to 1e3, so that scales differ; the matrix ends inside a block.
    let structure = Pattern::Random(0.6).structure(70, 90, (16, 32), 3).unwrap();
    let spread = |value: f64, at: usize| S::from_f64(value * f64::powi(10.0, (at % 7) as i32 - 3));
    let normal = Bsr::<f32>::normal(structure.clone(), 4).into_parts().1;
    let values = normal.iter().enumerate().map(|(at, v)| spread(v.to_f64(), at / 512)).collect();
    let a = Bsr::<S>::from_structure(structure, values).unwrap();
    let normal = Dense::<f32>::normal(90, 300, Layout::RowMajor, 5).to_f64();
    for kind in KINDS {
        // Without scales, what fits the type comes back.
        let fits = |value: f64| kind != Scale::Unscaled || value.abs() <= T::LARGEST;
        let (narrowed, scales) = bsr::<T, S>(&a, kind, NanPolicy::Refuse).unwrap();
        assert_eq!(narrowed.structure(), a.structure());
        assert_eq!(scales.len(), Scales::lengths(kind, a.structure(), 300)[0]);
        let each = scales_of_a(a.structure(), kind, &scales);
        for ((got, want), scale) in
            narrowed.values().iter().zip(a.values()).zip(each).filter(|(v, _)| fits(v.1.to_f64()))
        {
            let off = (got.to_f64() - want.to_f64() / scale).abs();
            assert!(off <= half_step::<T>(want.to_f64() / scale) * 1.0001, "{kind}: {got} * {scale} of {want}");
        }
        for layout in [Layout::RowMajor, Layout::ColMajor] {
            let b =
                Dense::<S>::from_fn(90, 300, layout, |row, col| spread(normal[row * 300 + col], row / 16 + col / 64));
            let (narrowed, scales) = dense::<T, S>(&b, kind, 32, NanPolicy::Refuse).unwrap();
            assert_eq!((narrowed.layout(), narrowed.ld()), (Layout::ColMajor, 96));
            assert_eq!(scales.len(), Scales::lengths(kind, a.structure(), 300)[1]);
            for (row, col) in (0..90).flat_map(|row| (0..300).map(move |col| (row, col))) {
                let scale = match kind {
                    Scale::Unscaled => 1.0,
                    Scale::Tensor => f64::from(scales[0]),
                    Scale::RowCol => f64::from(scales[col]),
                    Scale::Block => f64::from(scales[row / 32 * 3 + col / 128]),
                };
                let (got, want) = (narrowed.get(row, col).unwrap().to_f64(), b.get(row, col).unwrap().to_f64());
                let near = (got - want / scale).abs() <= half_step::<T>(want / scale) * 1.0001;
                assert!(near || !fits(want), "{kind} {layout}: {got} * {scale} of {want} at {row}, {col}");
            }
        }
    }
}

#[test]
fn every_value_comes_back_to_half_a_step() {
    round_trip::<e4m3, f32>();
    round_trip::<e5m2, f32>();
    round_trip::<i8, f32>();
    round_trip::<e4m3, f16>();
    round_trip::<i8, bf16>();
}

#[test]
fn the_largest_of_every_group_becomes_the_largest_of_the_type() {
    let a = Bsr::<f32>::generate(Pattern::Random(0.5), 64, 128, (16, 32), 1).unwrap();
    let (narrowed, scales) = bsr::<e4m3, _>(&a, Scale::Block, NanPolicy::Refuse).unwrap();
    for (block, scale) in scales.iter().enumerate() {
        let most = |values: &mut dyn Iterator<Item = f64>| values.fold(0.0, |most: f64, v| most.max(v.abs()));
        let want = most(&mut a.block_values(block).iter().map(|v| v.to_f64()));
        assert_eq!(most(&mut narrowed.block_values(block).iter().map(|v| v.to_f64())), 448.0);
        assert_eq!(*scale, (want / 448.0) as f32);
    }
    let (narrowed, scales) =
        dense::<i8, f32>(&Dense::filled(3, 2, Layout::RowMajor, -254.0), Scale::RowCol, 1, NanPolicy::Refuse).unwrap();
    assert_eq!((narrowed.to_f64(), scales), (vec![-127.0; 6], vec![2.0; 2]));
}

#[test]
fn scaled_products_of_quantised_operands_are_the_products_that_were_meant() {
    fn check<A: Narrow, B: Narrow>(most: f64) {
        let a = Bsr::<f32>::generate(Pattern::Random(0.5), 100, 200, (32, 48), 1).unwrap();
        let b = Dense::<f32>::normal(200, 150, Layout::RowMajor, 2);
        let want = reference::multiply(&a, &b).unwrap();
        for kind in [Scale::Tensor, Scale::RowCol, Scale::Block] {
            let narrowed: Quantised<A, B> = quantise(&a, &b, kind).unwrap();
            assert_eq!(narrowed.scales.kind(), kind);
            let got = reference::multiply_scaled(&narrowed.a, &narrowed.b, &narrowed.scales).unwrap();
            let error = reference::relative_error(&got, &want);
            assert!(error < most && error > most / 8.0, "{} x {}, {kind}: {error}", A::DTYPE, B::DTYPE);
        }
    }
    // Two factors, each off by 0.4 of half an ulp in the mean.
    check::<e4m3, e4m3>(0.045);
    check::<e4m3, e5m2>(0.07);
    check::<e5m2, e5m2>(0.09);
    check::<i8, i8>(0.02);
}

#[test]
fn groups_of_zeros_have_scale_one_and_tiny_ones_can_be_divided_by() {
    let a = Bsr::<f32>::new(4, 2, (2, 2), vec![0, 1, 2], vec![0, 0], vec![0., 0., 0., 0., 3., 0., 0., 0.]).unwrap();
    let (narrowed, scales) = bsr::<i8, _>(&a, Scale::Block, NanPolicy::Refuse).unwrap();
    assert_eq!((scales[0], narrowed.values()), (1.0, &[0, 0, 0, 0, 127, 0, 0, 0][..]));
    let (_, scales) = bsr::<i8, _>(&a, Scale::RowCol, NanPolicy::Refuse).unwrap();
    assert_eq!(scales, [1.0, 1.0, (3.0 / 127.0) as f32, 1.0]);

    let tiny = Dense::filled(1, 1, Layout::RowMajor, f32::from_bits(1));
    let (narrowed, scales) = dense::<e4m3, f32>(&tiny, Scale::Tensor, 16, NanPolicy::Refuse).unwrap();
    assert_eq!((scales, narrowed.to_f64()), (vec![f32::MIN_POSITIVE], vec![0.0]));
    let huge = Dense::filled(1, 1, Layout::RowMajor, f32::MAX);
    let (narrowed, scales) = dense::<e5m2, f32>(&huge, Scale::Tensor, 16, NanPolicy::Refuse).unwrap();
    assert_eq!(narrowed.to_f64(), [57_344.0]);
    assert!(scales[0].is_finite());
    let none = Dense::<f32>::zeros(0, 5, Layout::RowMajor);
    assert_eq!(dense::<i8, f32>(&none, Scale::Block, 16, NanPolicy::Refuse).unwrap().1, Vec::<f32>::new());
}

#[test]
fn without_scales_what_lies_beyond_the_range_saturates() {
    let b = Dense::from_fn(1, 4, Layout::RowMajor, |_, col| [1e6_f32, -449.0, 0.3, -1e-9][col]);
    let (narrowed, scales) = dense::<e4m3, f32>(&b, Scale::Unscaled, 16, NanPolicy::Refuse).unwrap();
    assert_eq!((narrowed.to_f64(), scales.len()), (vec![448.0, -448.0, 0.3125, -0.0], 0));
    let (narrowed, _) = dense::<i8, f32>(&b, Scale::Unscaled, 16, NanPolicy::Refuse).unwrap();
    assert_eq!(narrowed.to_f64(), [127.0, -128.0, 0.0, 0.0]);
}

#[test]
fn what_is_not_finite_is_refused_with_its_place_or_kept() {
    // The second block of the last block row, second row, first column: row 3, column 4.
    let mut values = vec![1.0_f32; 16];
    (values[14], values[15]) = (f32::NAN, f32::INFINITY);
    let a = Bsr::new(4, 6, (2, 2), vec![0, 1, 4], vec![1, 0, 1, 2], values).unwrap();
    let refused = bsr::<e4m3, _>(&a, Scale::Tensor, NanPolicy::Refuse).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "A[3, 4] = NaN, which e4m3 cannot hold at any scale\n  help: replace it, or keep it with NanPolicy::Keep (an infinity \
         saturates)"
    );
    let (kept, scales) = bsr::<e4m3, _>(&a, Scale::Tensor, NanPolicy::Keep).unwrap();
    assert_eq!(scales, [(1.0 / 448.0) as f32], "neither has a say in the scale");
    assert!(kept.values()[14].is_nan());
    assert_eq!((kept.values()[13], kept.values()[15]), (e4m3::MAX, e4m3::MAX));
    let refused = bsr::<i8, _>(&a, Scale::Tensor, NanPolicy::Keep).unwrap_err();
    assert!(refused.to_string().ends_with("replace it: integers have no NaN"), "{refused}");

    let b = Dense::from_fn(3, 2, Layout::RowMajor, |row, col| if (row, col) == (2, 1) { -f32::INFINITY } else { 0.5 });
    let refused = dense::<i8, f32>(&b, Scale::RowCol, 2, NanPolicy::Refuse).unwrap_err();
    assert!(refused.to_string().starts_with("B[2, 1] = -inf, which i8 cannot hold"), "{refused}");
    let (kept, scales) = dense::<i8, f32>(&b, Scale::RowCol, 2, NanPolicy::Keep).unwrap();
    assert_eq!((kept.get(2, 1), scales), (Some(-128), vec![(0.5 / 127.0) as f32; 2]));
    assert!(quantise::<e4m3, e4m3, _, _>(&a, &Dense::<f32>::zeros(6, 1, Layout::RowMajor), Scale::Tensor).is_err());
}

#[test]
fn operands_that_do_not_fit_are_refused() {
    let a = Bsr::<f16>::generate(Pattern::Causal, 32, 32, (16, 16), 1).unwrap();
    let refused = quantise::<i8, i8, _, _>(&a, &Dense::<f32>::zeros(33, 2, Layout::RowMajor), Scale::Tensor);
    assert_eq!(
        refused.unwrap_err().to_string(),
        "A is 32 x 32, B is 33 x 2\n  the columns of A are the rows of B\n  help: give B 32 rows"
    );
    let b = Dense::<f32>::zeros(33, 2, Layout::RowMajor);
    let refused = dense::<i8, f32>(&b, Scale::Block, 0, NanPolicy::Refuse).unwrap_err();
    assert!(refused.to_string().starts_with("groups of bk = 0 rows"), "{refused}");
}
