//! What does not belong together is refused, with the arithmetic.

use bsr_codegen::Plan;
use bsr_runtime::attention::{
    AttentionError, Factors, HeadOrder, HostVector, Mask, ScoreInputs, Sharing, SimulatedAttention, Tensor, simulate,
};
use bsr_runtime::e4m3;
use bsr_runtime::simulated::Options;
use half::{bf16, f16};

fn plan(text: &str) -> Plan {
    Plan::new(&text.parse().unwrap()).unwrap()
}

fn tensor(heads: usize, rows: usize, columns: usize) -> Tensor<f16> {
    Tensor::normal([1, heads, rows, columns], HeadOrder::HeadsFirst, 1)
}

fn refused(plan: &Plan, tensors: [&Tensor<f16>; 3], mask: &Mask, numbers: (f32, &[f32]), words: &str) {
    let error = simulate(plan, tensors, mask, numbers, &Options::default()).unwrap_err().to_string();
    assert!(error.contains(words) && error.contains("help: "), "{words}: {error}");
}

#[test]
fn operands_that_do_not_fit_are_refused() {
    let kernel = plan("bm = 64, bn = 64, bk = 64, op = attention");
    let mask = Mask::full((100, 80), (64, 64)).unwrap();
    let (q, k) = (tensor(4, 100, 64), tensor(2, 80, 64));
    let numbers = (0.125, &[][..]);
    refused(&kernel, [&q, &k, &tensor(2, 81, 64)], &mask, numbers, "do not belong together");
    refused(&kernel, [&q, &tensor(3, 80, 64), &tensor(3, 80, 64)], &mask, numbers, "4 heads of Q cannot share 3");
    let (wide_q, wide_k) = (tensor(4, 100, 128), tensor(2, 80, 128));
    refused(&kernel, [&wide_q, &wide_k, &wide_k], &mask, numbers, "heads of 128 columns");
    refused(&kernel, [&q, &k, &k], &Mask::full((100, 81), (64, 64)).unwrap(), numbers, "100 queries x 81 keys");
    refused(&kernel, [&q, &k, &k], &Mask::full((100, 80), (64, 128)).unwrap(), numbers, "64 x 128 blocks");
    let by_head = Mask::new((100, 80), (64, 64), Sharing::ByHead, mask.lists().to_vec()).unwrap();
    refused(&kernel, [&q, &k, &k], &by_head, numbers, "1 patterns, not 4");
    let packed = plan("bm = 64, bn = 64, bk = 64, op = attention, pack_heads = 4");
    refused(&packed, [&q, &k, &k], &mask, numbers, "2 heads that share a head of K are not tiles of 4");
    let packed = plan("bm = 64, bn = 64, bk = 64, op = attention, pack_heads = 2");
    let each = Mask::new((100, 80), (64, 64), Sharing::ByHead, [mask.lists(); 4].concat()).unwrap();
    refused(&packed, [&q, &k, &k], &each, numbers, "a pattern for each head");
    for scale in [0.0, -1.0, f32::NAN, f32::INFINITY] {
        refused(&kernel, [&q, &k, &k], &mask, (scale, &[]), "a scale of");
    }
    refused(&kernel, [&q, &k, &k], &mask, (0.125, &[1.0]), "takes 0 numbers, and 1 are given");
    let sloped = plan("bm = 64, bn = 64, bk = 64, op = attention, score = \"|slope: f32| s * scale - slope * j\"");
    refused(&sloped, [&q, &k, &k], &mask, numbers, "one for each of `slope`");
}

#[test]
fn vectors_that_do_not_fit_are_refused() {
    let score = "|a: Rows<f32>, b: Cols<f16>, h: Heads<f32>| s * scale + a * b * h";
    let kernel = plan(&format!("bm = 64, bn = 64, bk = 64, op = attention, score = \"{score}\""));
    let mask = Mask::full((100, 80), (64, 64)).unwrap();
    let of = |batch, heads, rows| Tensor::<f16>::normal([batch, heads, rows, 64], HeadOrder::HeadsFirst, 1);
    let (q, k) = (of(2, 4, 100), of(2, 2, 80));
    let wide = |len: usize| HostVector::from(vec![0.5_f32; len]);
    let narrow = |len: usize| HostVector::from(vec![f16::ONE; len]);
    let run = |vectors: &[HostVector]| {
        let inputs = ScoreInputs::new(0.125).vectors(vectors);
        simulate(&kernel, [&q, &k, &k], &mask, inputs, &Options::default())
    };
    let refused = |vectors: &[HostVector], words: &str| {
        let error = run(vectors).unwrap_err().to_string();
        assert!(error.contains(words) && error.contains("help: "), "{words}: {error}");
    };
    refused(&[], "reads 3 vectors, and 0 are given");
    refused(&[wide(100), narrow(80)], "one for each of `a, b, h`, in this order");
    refused(&[wide(100), wide(80), wide(4)], "`b` is a vector of f32, and the score reads Cols<f16>");
    refused(&[wide(99), narrow(80), wide(4)], "`a` has 99 elements\n  100 queries x 1 parts");
    refused(&[wide(100), narrow(81), wide(4)], "`b` has 81 elements\n  80 keys x 1 parts");
    refused(&[wide(100), narrow(80), wide(2)], "`h` has 2 elements\n  1 for each part x 4 parts (ByHead");
    refused(&[wide(100).shared(Sharing::ByProblem), narrow(80), wide(4)], "100 queries x 2 parts (ByProblem");
    refused(&[wide(100), narrow(80).shared(Sharing::ByBoth), wide(4)], "80 keys x 8 parts (ByBoth");
    let fitting = [wide(200).shared(Sharing::ByProblem), narrow(640).shared(Sharing::ByBoth), wide(4)];
    assert!(run(&fitting).unwrap().2.is_clean());
}

#[test]
fn sinks_that_do_not_fit_are_refused() {
    let mask = Mask::full((100, 80), (64, 64)).unwrap();
    let (q, k) = (tensor(4, 100, 64), tensor(2, 80, 64));
    let [with, without] =
        ["on", "off"].map(|sinks| plan(&format!("bm = 64, bn = 64, bk = 64, op = attention, sinks = {sinks}")));
    let refused = |plan: &Plan, sinks: Option<&[f32]>, words: &str| {
        let inputs = ScoreInputs::new(0.125).sinks(sinks);
        let error = simulate(plan, [&q, &k, &k], &mask, inputs, &Options::default()).unwrap_err().to_string();
        assert!(error.contains(words), "{words}: {error}");
    };
    refused(&with, None, "no sinks are given\n  the kernel, with sinks = on, takes sinks of 4 heads");
    refused(&with, Some(&[0.0; 2]), "sinks of 2 heads are given");
    refused(&without, Some(&[0.0; 4]), "takes no sinks\n  help: a kernel with sinks = on");
}

#[test]
fn columns_that_do_not_fit_are_refused() {
    let mask = Mask::full((100, 80), (64, 64)).unwrap();
    let numbers = (0.125, &[][..]);
    let kernel = plan("bm = 64, bn = 64, bk = 64, d = 96, op = attention");
    let (q, k) = (tensor(2, 100, 64), tensor(2, 80, 64));
    refused(&kernel, [&q, &k, &k], &mask, numbers, "Q and K have 64 columns, and the kernel was compiled for 96");
    let (wide_q, wide_k) = (tensor(2, 100, 96), tensor(2, 80, 96));
    refused(&kernel, [&wide_q, &wide_k, &wide_k], &mask, numbers, "heads of 96 columns");
    refused(&kernel, [&wide_q, &k, &k], &mask, numbers, "do not belong together");
    let plain = plan("bm = 64, bn = 64, bk = 64, op = attention");
    refused(&plain, [&wide_q, &wide_k, &k], &mask, numbers, "a kernel with d = 96");
}

#[test]
fn kernels_of_other_types_and_operations_are_refused() {
    let (q, mask) = (tensor(1, 64, 64), Mask::full((64, 64), (64, 64)).unwrap());
    let other = plan("bm = 64, bn = 64, bk = 64, op = attention, dtype = bf16");
    refused(&other, [&q, &q, &q], &mask, (0.125, &[]), "Q is f16, the kernel was compiled for bf16");
    let product = plan("bm = 64, bn = 64, bk = 64");
    refused(&product, [&q, &q, &q], &mask, (0.125, &[]), "op = dsd");
    let narrow = Tensor::<bf16>::normal([1, 1, 2, 4], HeadOrder::RowsFirst, 1).into_data();
    let error = Tensor::from_vec([1, 1, 2, 5], HeadOrder::RowsFirst, narrow).unwrap_err();
    assert!(matches!(error, AttentionError::Size { .. }), "{error}");
}

#[test]
fn factors_that_do_not_fit_are_refused() {
    let with = plan("bm = 64, bn = 64, bk = 64, op = attention, dtype = e4m3, scale = tensor");
    let without = plan("bm = 64, bn = 64, bk = 64, op = attention, dtype = e4m3");
    let mask = Mask::full((100, 80), (64, 64)).unwrap();
    let of = |heads, rows| Tensor::<e4m3>::normal([3, heads, rows, 64], HeadOrder::HeadsFirst, 1);
    let (q, k) = (of(4, 100), of(2, 80));
    let factors = |count: usize| Factors::new(vec![1.0; count], vec![1.0; count], vec![1.0; count]).unwrap();
    let run = |plan: &Plan, factors: Option<&Factors>| {
        let ptx = plan.ptx();
        let kernel = SimulatedAttention::new(plan, ptx.text(), ptx.entry()).unwrap();
        let inputs = ScoreInputs::new(0.125).factors(factors);
        kernel.run_into::<_, bf16>([&q, &k, &k], &mask, inputs, &Options::default()).map(|(_, _, report)| report)
    };
    for count in [1, 2, 6] {
        assert!(run(&with, Some(&factors(count))).unwrap().is_clean());
    }
    for (plan, given, words) in [
        (&with, Some(factors(4)), "one of a tensor, 2 of its heads of K, or 3 x 2 = 6"),
        (&with, None, "no factors of Q, K and V are given"),
        (&without, Some(factors(1)), "takes none"),
    ] {
        let error = run(plan, given.as_ref()).unwrap_err().to_string();
        assert!(error.contains(words) && error.contains("help: "), "{words}: {error}");
    }
    for wrong in [0.0, -1.0, f32::NAN] {
        let error = Factors::new(vec![1.0], vec![wrong], vec![1.0]).unwrap_err().to_string();
        assert!(error.contains("factor 0 of K is"), "{error}");
    }
    assert!(Factors::new(vec![1.0], vec![1.0; 2], vec![1.0]).is_err());
    // O has 16 bits.
    let error = simulate(&without, [&q, &k, &k], &mask, 0.125, &Options::default()).unwrap_err().to_string();
    assert!(error.contains("O is e4m3, the kernel was compiled for bf16"), "{error}");
}
