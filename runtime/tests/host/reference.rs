//! The reference multiply against the plainest possible one, and the measure of error.

use bsr_runtime::reference::{self, Comparison, relative_error};
use bsr_runtime::{Bsr, Dense, Element, Layout, Pattern, Scale, Scales, e4m3, e5m2};
use half::{bf16, f16};

/// Three loops over all elements, those of blocks that are not stored left out.
fn plain<A: Element, B: Element>(a: &Bsr<A>, b: &Dense<B>) -> Vec<f64> {
    let (bm, bk) = a.block();
    let (dense_a, dense_b) = (a.to_dense(Layout::RowMajor).to_f64(), b.to_f64());
    let n = b.cols();
    let mut c = vec![0.0; a.rows() * n];
    for i in 0..a.rows() {
        let stored = &a.col_idx()[a.blocks_of(i / bm)];
        for k in (0..a.cols()).filter(|&k| stored.contains(&((k / bk) as i32))) {
            for j in 0..n {
                c[i * n + j] += dense_a[i * a.cols() + k] * dense_b[k * n + j];
            }
        }
    }
    c
}

fn agrees_with_plain<A: Element, B: Element>() {
    for (m, n, k, block) in [
        (70, 50, 90, (16, 32)),
        (33, 1, 300, (64, 112)),
        (70, 259, 65, (8, 3)),
        (5, 7, 1, (16, 16)),
        (40, 9, 130, (40, 130)),
    ] {
        for pattern in [Pattern::Random(0.4), Pattern::Causal, Pattern::PowerLaw(0.2)] {
            let a = Bsr::<A>::generate(pattern, m, k, block, 1).unwrap();
            for layout in [Layout::RowMajor, Layout::ColMajor] {
                let b = Dense::<B>::normal(k, n, layout, 2);
                let c = reference::multiply(&a, &b).unwrap();
                assert_eq!(c, plain(&a, &b), "{m} x {n} x {k}, {block:?}, {pattern}, {layout}");
            }
        }
    }
}

#[test]
fn products_of_all_types_are_those_of_three_loops() {
    agrees_with_plain::<f16, f16>();
    agrees_with_plain::<bf16, bf16>();
    agrees_with_plain::<f32, f32>();
    agrees_with_plain::<f16, f32>();
    agrees_with_plain::<e4m3, e4m3>();
    agrees_with_plain::<e4m3, e5m2>();
    agrees_with_plain::<e5m2, e4m3>();
    agrees_with_plain::<e5m2, e5m2>();
    agrees_with_plain::<i8, i8>();
}

#[test]
fn integer_products_are_exact() {
    let a = Bsr::<i8>::generate(Pattern::Random(0.5), 33, 700, (8, 32), 1).unwrap();
    let b = Dense::<i8>::normal(700, 41, Layout::ColMajor, 2);
    let dense_a = a.to_dense(Layout::RowMajor);
    let want = (0..33 * 41).map(|at| {
        let product = |k| i64::from(dense_a.get(at / 41, k).unwrap()) * i64::from(b.get(k, at % 41).unwrap());
        (0..700).map(product).sum::<i64>()
    });
    let want: Vec<f64> = want.map(|sum| sum as f64).collect();
    assert_eq!(reference::multiply(&a, &b).unwrap(), want);
    // One off in a million is a wrong result.
    let mut got = Dense::from_fn(33, 41, Layout::RowMajor, |row, col| want[row * 41 + col] as i32);
    let tolerance = reference::tolerance(bsr_runtime::Dtype::I8, bsr_runtime::Dtype::I32, 700, None);
    assert!(Comparison::of_dense(&got, &want).unwrap().passes(tolerance));
    got.data_mut()[100] += 1;
    assert!(!Comparison::of_dense(&got, &want).unwrap().passes(tolerance));
}

/// The scaled product by its definition, element by element.
fn plain_scaled<A: Element, B: Element>(a: &Bsr<A>, b: &Dense<B>, scales: &Scales) -> Vec<f64> {
    let ((bm, bk), n) = (a.block(), b.cols());
    let (of_a, of_b) = (|at: usize| f64::from(scales.a()[at]), |at: usize| f64::from(scales.b()[at]));
    let mut c = vec![0.0; a.rows() * n];
    for (i, j) in (0..a.rows()).flat_map(|i| (0..n).map(move |j| (i, j))) {
        for block in a.blocks_of(i / bm) {
            let column = a.col_idx()[block] as usize;
            let mut part = 0.0;
            for k in (column * bk..(column + 1) * bk).take_while(|&k| k < a.cols()) {
                let at = block * bm * bk + (i % bm) * bk + k % bk;
                part += a.values()[at].to_f64() * b.get(k, j).unwrap().to_f64();
            }
            c[i * n + j] += part
                * match scales.kind() {
                    Scale::Unscaled => 1.0,
                    Scale::Tensor => of_a(0) * of_b(0),
                    Scale::RowCol => of_a(i) * of_b(j),
                    Scale::Block => of_a(block) * of_b(column * n.div_ceil(128) + j / 128),
                };
        }
    }
    c
}

#[test]
fn scales_multiply_the_sums_they_belong_to() {
    for (m, n, k, block) in [(70, 300, 90, (16, 32)), (33, 1, 300, (64, 112)), (40, 129, 200, (8, 200))] {
        let a = Bsr::<e4m3>::generate(Pattern::Random(0.5), m, k, block, 1).unwrap();
        for kind in [Scale::Unscaled, Scale::Tensor, Scale::RowCol, Scale::Block] {
            let scales = Scales::random(kind, a.structure(), n, 3);
            for layout in [Layout::RowMajor, Layout::ColMajor] {
                let b = Dense::<e5m2>::normal(k, n, layout, 2);
                let got = reference::multiply_scaled(&a, &b, &scales).unwrap();
                let error = relative_error(&got, &plain_scaled(&a, &b, &scales));
                assert!(error < 1e-14, "{m} x {n} x {k}, {kind}, {layout}: {error}");
                let rows = [m - 1, 0, m / 2];
                let expected: Vec<f64> = rows.iter().flat_map(|&r| got[r * n..][..n].to_vec()).collect();
                assert_eq!(reference::multiply_rows_scaled(&a, &b, &scales, &rows).unwrap(), expected);
            }
        }
        let (b, too_few) =
            (Dense::<e5m2>::zeros(k, n, Layout::RowMajor), Scales::row_col(vec![1.0; m], vec![]).unwrap());
        let refused = reference::multiply_scaled(&a, &b, &too_few).unwrap_err();
        assert!(refused.to_string().contains("scale = row_col"), "{refused}");
    }
}

#[test]
fn a_saturating_result_is_asked_for_what_it_can_hold() {
    let want = [1e6, -449.0, 3.0, 448.0];
    let got = Dense::from_fn(2, 2, Layout::RowMajor, |r, c| <e4m3 as Element>::from_f64(want[r * 2 + c]));
    assert_eq!(Comparison::of_dense(&got, &want).unwrap().relative, 0.0);
    let wrong = Dense::filled(2, 2, Layout::RowMajor, e4m3::MAX);
    let compared = Comparison::of_dense(&wrong, &want).unwrap();
    assert_eq!((compared.worst, compared.want), (Some((0, 1)), -448.0));
    assert!(!Comparison::of_dense(&got, &[1e6, -449.0, f64::NAN, 448.0]).unwrap().passes(1.0));
    // f16 does not saturate: what it cannot hold is infinite, and no result.
    let half = Dense::from_fn(2, 2, Layout::RowMajor, |r, c| <f16 as Element>::from_f64(want[r * 2 + c]));
    assert_eq!(Comparison::of_dense(&half, &want).unwrap().not_finite, 1);
}

#[test]
fn chosen_rows_have_the_same_bits_in_the_order_asked_for() {
    let a = Bsr::<f32>::generate(Pattern::Random(0.5), 200, 150, (48, 20), 3).unwrap();
    let b = Dense::<f32>::normal(150, 77, Layout::ColMajor, 4);
    let all = reference::multiply(&a, &b).unwrap();
    let rows = [199, 0, 47, 48, 49, 48, 150, 3];
    let expected: Vec<f64> = rows.iter().flat_map(|&r| all[r * 77..][..77].to_vec()).collect();
    assert_eq!(reference::multiply_rows(&a, &b, &rows).unwrap(), expected);

    let alone = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    assert_eq!(alone.install(|| reference::multiply(&a, &b).unwrap()), all);
    assert_eq!(reference::multiply_rows(&a, &b, &[]).unwrap(), Vec::<f64>::new());
}

#[test]
fn a_part_of_b_can_be_multiplied() {
    let a = Bsr::<f16>::generate(Pattern::TopK(2), 64, 60, (16, 16), 3).unwrap();
    let b = Dense::<f16>::normal(80, 40, Layout::RowMajor, 4);
    let part = b.view().part(10..70, 5..36).unwrap();
    let copy = part.to_dense(Layout::RowMajor);
    assert_eq!(reference::multiply(&a, part).unwrap(), plain(&a, &copy));
}

#[test]
fn empty_rows_and_empty_matrices_give_zeros() {
    let b = Dense::<f16>::normal(32, 9, Layout::RowMajor, 1);
    let a = Bsr::<f16>::generate(Pattern::Random(0.0), 40, 32, (16, 16), 1).unwrap();
    assert_eq!(reference::multiply(&a, &b).unwrap(), vec![0.0; 360]);
    let no_columns = Dense::<f16>::zeros(32, 0, Layout::RowMajor);
    assert!(reference::multiply(&a, &no_columns).unwrap().is_empty());
    let no_rows = Bsr::<f16>::generate(Pattern::Causal, 0, 32, (16, 16), 1).unwrap();
    assert!(reference::multiply(&no_rows, &b).unwrap().is_empty());
    let no_k = Bsr::<f16>::generate(Pattern::Causal, 3, 0, (16, 16), 1).unwrap();
    assert_eq!(reference::multiply(&no_k, &Dense::<f16>::zeros(0, 2, Layout::ColMajor)).unwrap(), [0.0; 6]);
}

#[test]
fn nan_and_infinity_propagate_through_stored_blocks_only() {
    // Block (0, 0) stored, block (0, 1) not.
    let a = Bsr::<f32>::new(2, 4, (2, 2), vec![0, 1], vec![0], vec![1.0, 0.0, 2.0, 3.0]).unwrap();
    let b =
        |row: usize, value: f32| Dense::from_fn(4, 1, Layout::RowMajor, move |r, _| if r == row { value } else { 1.0 });
    let c = reference::multiply(&a, &b(1, f32::INFINITY)).unwrap();
    assert!(c[0].is_nan() && c[1] == f64::INFINITY, "0 * inf is NaN: {c:?}");
    assert_eq!(reference::multiply(&a, &b(2, f32::NAN)).unwrap(), [1.0, 5.0]);
}

#[test]
fn operands_that_do_not_fit_are_refused() {
    let a = Bsr::<f16>::generate(Pattern::Causal, 40, 32, (16, 16), 1).unwrap();
    let b = Dense::<f16>::zeros(33, 9, Layout::RowMajor);
    let refused = reference::multiply(&a, &b).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "A is 40 x 32, B is 33 x 9\n  the columns of A are the rows of B\n  help: give B 32 rows"
    );
    let b = Dense::<f16>::zeros(32, 9, Layout::RowMajor);
    let refused = reference::multiply_rows(&a, &b, &[0, 40]).unwrap_err();
    assert!(refused.to_string().contains("rows[1] = 40 is not a row of a matrix with 40 rows"), "{refused}");
}

#[test]
fn the_error_is_relative_in_the_frobenius_norm() {
    // Differences 3 and 4 against norms 6 and 8: 5 / 10.
    assert_eq!(relative_error(&[9.0, 12.0], &[6.0, 8.0]), 0.5);
    let c = Comparison::new(&[9.0, 0.0, 0.0, 12.0], &[6.0, 0.0, 0.0, 8.0], 2).unwrap();
    assert_eq!((c.relative, c.max_abs, c.worst, c.got, c.want), (0.5, 4.0, Some((1, 1)), 12.0, 8.0));
    assert!(c.passes(0.5) && !c.passes(0.499));
    assert_eq!(c.to_string(), "relative error 5.000e-1, largest difference 4.000e0 at row 1, column 1: got 12, want 8");
}

#[test]
fn nothing_that_is_not_finite_ever_passes() {
    for (got, want) in [(f64::NAN, 1.0), (1.0, f64::NAN), (f64::NAN, f64::NAN), (f64::INFINITY, f64::INFINITY)] {
        let c = Comparison::new(&[1.0, got, 5.0], &[1.0, want, 2.0], 3).unwrap();
        assert!(!c.passes(f64::INFINITY) && !c.passes(1e300) && c.relative == f64::INFINITY);
        assert_eq!((c.not_finite, c.worst, c.max_abs), (1, Some((0, 1)), f64::INFINITY));
        assert_eq!(relative_error(&[got], &[want]), f64::INFINITY);
    }
}

#[test]
fn a_reference_of_zeros_is_met_by_zeros_only() {
    assert_eq!(relative_error(&[0.0, -0.0], &[0.0, 0.0]), 0.0);
    assert_eq!(relative_error(&[0.0, 1e-30], &[0.0, 0.0]), f64::INFINITY);
    assert_eq!(relative_error(&[], &[]), 0.0);
}

#[test]
fn results_of_another_size_never_pass() {
    assert_eq!(relative_error(&[1.0], &[1.0, 1.0]), f64::INFINITY);
    let refused = Comparison::new(&[1.0; 3], &[1.0; 3], 2).unwrap_err();
    assert!(refused.to_string().contains("3 elements against 1 * 2 = 2 wanted"), "{refused}");
    let dense = Dense::<f32>::zeros(3, 2, Layout::RowMajor);
    assert!(Comparison::of_dense(&dense, &[0.0; 5]).is_err());
    let refused = Comparison::of_rows(&dense, &[3], &[0.0; 2]).unwrap_err();
    assert!(refused.to_string().contains("rows[0] = 3 is not a row"), "{refused}");
}

#[test]
fn matrices_are_compared_by_place_not_by_memory() {
    let value = |row: usize, col: usize| (row * 10 + col) as f32;
    let want: Vec<f64> = (0..15).map(|at| f64::from(value(at / 3, at % 3))).collect();
    for layout in [Layout::RowMajor, Layout::ColMajor] {
        let mut dense = Dense::from_fn(5, 3, layout, value);
        assert_eq!(Comparison::of_dense(&dense, &want).unwrap().relative, 0.0);
        let rows = [4, 1];
        let chosen: Vec<f64> = rows.iter().flat_map(|&r| want[r * 3..][..3].to_vec()).collect();
        assert_eq!(Comparison::of_rows(&dense, &rows, &chosen).unwrap().relative, 0.0);

        let ld = dense.ld();
        let at = if layout == Layout::RowMajor { ld + 2 } else { 2 * ld + 1 };
        dense.data_mut()[at] += 0.5;
        let c = Comparison::of_dense(&dense, &want).unwrap();
        assert_eq!((c.worst, c.max_abs), (Some((1, 2)), 0.5));
        assert_eq!(Comparison::of_rows(&dense, &rows, &chosen).unwrap().worst, Some((1, 2)));
    }
}

#[test]
fn f16_rounding_is_seen_at_its_size() {
    let a = Bsr::<f16>::generate(Pattern::Random(0.3), 96, 128, (32, 16), 5).unwrap();
    let b = Dense::<f16>::normal(128, 64, Layout::RowMajor, 6);
    let want = reference::multiply(&a, &b).unwrap();
    let got = Dense::from_fn(96, 64, Layout::RowMajor, |r, c| <f16 as Element>::from_f64(want[r * 64 + c]));
    let c = Comparison::of_dense(&got, &want).unwrap();
    // A uniform relative rounding error of at most 2^-11 has a root mean square of about 2^-11 / sqrt(3) / 1.4.
    assert!((1e-4..3e-4).contains(&c.relative), "{c}");
}
