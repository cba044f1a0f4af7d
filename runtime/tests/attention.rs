//! Attention on the simulator: every kernel without a finding, its results those of an f64 reference.
#![allow(clippy::unwrap_used)]

use bsr_codegen::Plan;
use bsr_runtime::Element;
use bsr_runtime::attention::{HeadOrder, Mask, Shape, Sharing, Tensor, reference, simulate};
use bsr_runtime::simulated::Options;
use half::{bf16, f16};

const CAUSAL: &str = "score = \"|| if i >= j { s * scale } else { -inf }\"";

/// A spec beside `op = attention`, the sizes and the mask.
struct Case {
    spec: String,
    shape: Shape,
    order: HeadOrder,
    mask: Mask,
}

fn shape(batch: usize, (heads, key_heads): (usize, usize), (queries, keys): (usize, usize), columns: usize) -> Shape {
    Shape { batch, heads, key_heads, queries, keys, columns }
}

fn check<T: Element>(case: &Case) {
    let Case { spec, shape, order, mask } = case;
    let plan = Plan::new(&format!("op = attention, {spec}").parse().unwrap()).unwrap_or_else(|e| panic!("{spec}: {e}"));
    let Shape { batch, heads, key_heads, queries, keys, columns } = *shape;
    let q = Tensor::<T>::normal([batch, heads, queries, columns], *order, 1);
    let [k, v] = [2, 3].map(|seed| Tensor::<T>::normal([batch, key_heads, keys, columns], *order, seed));
    let scale = (columns as f32).sqrt().recip();
    let (output, sums, report) = simulate(&plan, [&q, &k, &v], mask, (scale, &[]), &Options::default()).unwrap();
    assert!(report.is_clean(), "{spec}: {:?}", report.findings);
    let score = plan.spec().score.map(|score| (score, &[][..]));
    let expected = reference(shape, mask, [&q, &k, &v], scale, score);
    let (mut wrong, mut whole) = (0.0, 0.0);
    for (place, sum) in sums.iter().enumerate() {
        let at = [place / (heads * queries), place / queries % heads, place % queries];
        let of_row = &expected.output[place * columns..(place + 1) * columns];
        for (found, expected) in output.row(at).iter().zip(of_row) {
            assert!(found.is_finite(), "{spec}: {at:?} {found}");
            wrong += (found.to_f64() - expected).powi(2);
            whole += expected.powi(2);
        }
        let (found, expected) = (f64::from(*sum), expected.sums[place]);
        assert!(found == expected || (found - expected).abs() < 2e-2, "{spec}: {at:?} sum {found}, not {expected}");
    }
    let error = (wrong / whole.max(1e-30)).sqrt();
    let bound = if T::DTYPE == bsr_codegen::Dtype::BF16 { 5e-3 } else { 8e-4 };
    assert!(error < bound, "{spec}: relative error {error}");
}

fn of<T: Element>(spec: &str, shape: Shape, mask: Mask) {
    check::<T>(&Case { spec: spec.to_owned(), shape, order: HeadOrder::HeadsFirst, mask });
}

#[test]
fn dense_attention() {
    let mask = Mask::full((128, 256), (128, 128)).unwrap();
    of::<bf16>("bm = 128, bn = 64, bk = 128, dtype = bf16", shape(1, (1, 1), (128, 256), 64), mask);
}

#[test]
fn causal_attention() {
    let mask = Mask::causal(300, 300, (128, 128)).unwrap();
    let spec = format!("bm = 128, bn = 128, bk = 128, {CAUSAL}");
    of::<f16>(&spec, shape(1, (2, 1), (300, 300), 128), mask);
}

#[test]
fn consumers_with_rows_of_their_own() {
    let _ = Sharing::All;
    let mask = Mask::random((450, 450), (64, 64), 0.4, 3).unwrap();
    of::<f16>("bm = 64, bn = 64, bk = 64", shape(2, (2, 2), (450, 450), 64), mask);
}
