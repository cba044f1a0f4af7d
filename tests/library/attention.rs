//! The attribute of an attention: what it makes is what text and TOML ask for, and it computes that.
use bsr::attention::{Coverage, HeadOrder, HostVector, Mask, ScoreInputs, Tensor, reference, reference_of};
use bsr::prelude::*;
use bsr::{KernelSpec, Plan};

#[bsr_kernel(op = attention, bm = 64, bn = 64, bk = 64)]
fn causal(q: Dense<bf16>, k: Dense<bf16>, v: Dense<bf16>, scale: f32) -> Dense<bf16> {
    if i >= j { s * scale } else { -inf }
}

#[bsr_kernel(op = attention, bm = 64, bn = 64, bk = 64, mma = mma_sync, arch = sm_89)]
fn on_ada(q: Dense<bf16>, k: Dense<bf16>, v: Dense<bf16>, scale: f32) -> Dense<bf16> {
    if i >= j { s * scale } else { -inf }
}

#[bsr_kernel(op = attention, bm = 128, bn = 64, bk = 128, stages = 2)]
fn capped(q: Dense<f16>, k: Dense<f16>, v: Dense<f16>, scale: f32, cap: f32) -> Dense<f16> {
    cap * tanh(s * scale / cap)
}

#[bsr_kernel(op = attention, bm = 128, bn = 64, bk = 128)]
fn whole(q: Dense<f16>, k: Dense<f16>, v: Dense<f16>, scale: f32) -> Dense<f16>;

#[bsr_kernel(op = attention, bm = 64, bn = 32, bk = 64, d = 48)]
fn documents(
    q: Dense<f16>,
    k: Dense<f16>,
    v: Dense<f16>,
    scale: f32,
    of_query: Rows<f32>,
    of_key: Cols<f32>,
    slopes: Heads<bf16>,
) -> Dense<f16> {
    if of_query == of_key { s * scale - slopes * abs(i - j) } else { -inf }
}

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
        (
            documents::SPEC,
            "op = attention, bm = 64, bn = 32, bk = 64, d = 48, score = \"|of_query: Rows<f32>, of_key: Cols<f32>, slopes: \
             Heads<bf16>| if of_query == of_key { s * scale - slopes * abs(i - j) } else { -inf }\"",
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
fn kernels_of_the_attribute_compute_on_the_simulator() {
    let tensor = |seed| Tensor::<bf16>::normal([1, 2, 150, 64], HeadOrder::RowsFirst, seed);
    let (q, k, v) = (tensor(1), tensor(2), tensor(3));
    let mask = Mask::causal(150, 150, (64, 64)).unwrap();
    let options = Options::default();
    let of_hopper = causal::simulate([&q, &k, &v], &mask, 0.125, &options).unwrap();
    let of_ada = on_ada::simulate([&q, &k, &v], &mask, 0.125, &options).unwrap();
    let shape = bsr::attention::Shape { batch: 1, heads: 2, key_heads: 2, queries: 150, keys: 150, columns: 64 };
    let score = causal::SPEC.score.map(|score| (score, &[][..]));
    let expected = reference(&shape, &mask, [&q, &k, &v], 0.125, score);
    for (o, lse, report) in [of_hopper, of_ada] {
        assert!(report.is_clean(), "{:?}", report.findings);
        for (place, lse) in lse.iter().enumerate() {
            assert!((f64::from(*lse) - expected.lse[place]).abs() < 1e-3);
            let row = o.row([0, place / 150, place % 150]);
            let of_row = &expected.output[place * 64..(place + 1) * 64];
            assert!(row.iter().zip(of_row).all(|(found, expected)| (found.to_f32() - *expected as f32).abs() < 3e-2));
        }
    }
}

#[test]
fn a_score_reads_vectors() {
    let tensor = |rows, columns, seed| Tensor::<f16>::normal([1, 2, rows, columns], HeadOrder::HeadsFirst, seed);
    let (q, k, v) = (tensor(70, 48, 1), tensor(90, 48, 2), tensor(90, 32, 3));
    let mask = Mask::by_rule((70, 90), (64, 64), |_, _| Coverage::Partial).unwrap();
    let documents_of = |len: usize| HostVector::from((0..len).map(|at| (at / 33) as f32).collect::<Vec<f32>>());
    let slopes = HostVector::from([0.1, 0.02].map(bf16::from_f32).to_vec());
    let vectors = [documents_of(70), documents_of(90), slopes];
    let inputs = ScoreInputs::new(0.14).vectors(&vectors);
    let (o, _, report) = documents::simulate([&q, &k, &v], &mask, inputs, &Options::default()).unwrap();
    assert!(report.is_clean(), "{:?}", report.findings);
    let shape = bsr::attention::Shape { batch: 1, heads: 2, key_heads: 2, queries: 70, keys: 90, columns: 32 };
    let rows = (0..140).map(|place| [0, place / 70, place % 70]);
    let expected = reference_of(&shape, &mask, [&q, &k, &v], documents::SPEC.score, &inputs, rows);
    for (found, expected) in o.data().iter().zip(&expected.output) {
        assert!((found.to_f64() - expected).abs() < 4e-3, "{found}, not {expected}");
    }
    let error = documents::simulate([&q, &k, &v], &mask, 0.14, &Options::default()).unwrap_err().to_string();
    assert!(
        error.contains("reads 3 vectors, and 0 are given") && error.contains("`of_query, of_key, slopes`"),
        "{error}"
    );
}
