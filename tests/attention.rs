//! The attribute of an attention: what it makes is what text and TOML ask for, and it computes that.
#![allow(clippy::unwrap_used)]

use bsr::attention::{HeadOrder, Kernel as _, Mask, Tensor, reference};
use bsr::prelude::*;
use bsr::{KernelSpec, Plan};

#[bsr_kernel(op = attention, bm = 64, bn = 64, bk = 64)]
fn causal(q: Dense<bf16>, k: Dense<bf16>, v: Dense<bf16>, scale: f32) -> Dense<bf16> {
    if i >= j { s * scale } else { -inf }
}

#[bsr_kernel(op = attention, bm = 128, bn = 64, bk = 128, stages = 2)]
fn capped(q: Dense<f16>, k: Dense<f16>, v: Dense<f16>, scale: f32, cap: f32) -> Dense<f16> {
    cap * tanh(s * scale / cap)
}

#[bsr_kernel(op = attention, bm = 128, bn = 64, bk = 128)]
fn whole(q: Dense<f16>, k: Dense<f16>, v: Dense<f16>, scale: f32) -> Dense<f16>;

#[bsr_kernel(op = attention, bm = 128, bn = 32, bk = 64, dtype = bf16, score = "|| s * scale - 0.1 * abs(i - j)")]
struct Sloped;

#[test]
fn the_attribute_asks_for_what_text_does() {
    for (spec, text) in [
        (
            causal::SPEC,
            "op = attention, bm = 64, bn = 64, bk = 64, dtype = bf16, score = \"|| if i >= j { s * scale } else { -inf }\"",
        ),
        (
            capped::SPEC,
            "op = attention, bm = 128, bn = 64, bk = 128, stages = 2, score = \"|cap: f32| cap * tanh(s * scale / cap)\"",
        ),
        (whole::SPEC, "op = attention, bm = 128, bn = 64, bk = 128"),
        (
            Sloped::SPEC,
            "op = attention, bm = 128, bn = 32, bk = 64, dtype = bf16, score = \"|| s * scale - 0.1 * abs(i - j)\"",
        ),
    ] {
        assert_eq!(spec, text.parse::<KernelSpec>().unwrap());
    }
    assert_eq!(causal::plan(), &Plan::new(&causal::SPEC).unwrap());
    assert_eq!(causal::PTX, Plan::new(&causal::SPEC).unwrap().ptx().text());
}

#[test]
fn a_kernel_of_the_attribute_computes_on_the_simulator() {
    let tensor = |seed| Tensor::<bf16>::normal([1, 2, 150, 64], HeadOrder::RowsFirst, seed);
    let (q, k, v) = (tensor(1), tensor(2), tensor(3));
    let mask = Mask::causal(150, 150, (64, 64)).unwrap();
    let (o, sums, report) = causal::simulate([&q, &k, &v], &mask, (0.125, &[]), &Options::default()).unwrap();
    assert!(report.is_clean(), "{:?}", report.findings);
    let shape = bsr::attention::Shape { batch: 1, heads: 2, key_heads: 2, queries: 150, keys: 150, columns: 64 };
    let score = causal::SPEC.score.map(|score| (score, &[][..]));
    let expected = reference(&shape, &mask, [&q, &k, &v], 0.125, score);
    for (place, sum) in sums.iter().enumerate() {
        assert!((f64::from(*sum) - expected.sums[place]).abs() < 1e-3);
        let row = o.row([0, place / 150, place % 150]);
        let of_row = &expected.output[place * 64..(place + 1) * 64];
        assert!(row.iter().zip(of_row).all(|(found, expected)| (found.to_f32() - *expected as f32).abs() < 3e-2));
    }
}
