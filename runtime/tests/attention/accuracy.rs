//! How exact O is: beside an unfused attention whose softmax is in f32, with inputs of the same type.

use std::fmt::Write;

use bsr_codegen::Dtype;
use bsr_runtime::Element;
use bsr_runtime::attention::{HeadOrder, Mask, Shape, SimulatedAttention, Tensor};
use bsr_runtime::simulated::Options;
use half::{bf16, f16};

use crate::device::device;
use crate::table::{CAUSAL, Case};
use crate::{Operands, expected, gpu, plan};

/// The error of O, in those of an unfused attention.
const MOST: f64 = 1.5;

/// Head dimensions, types and masks, in sizes for the simulator or for a GPU.
fn cases(sizes: [usize; 2]) -> Vec<Case> {
    let mut cases = vec![];
    let heads = [(64, 64, 128), (128, 128, 128), (64, 64, 64), (128, 128, 64), (192, 128, 128)];
    let of_warps = heads.iter().filter(|(depth, ..)| *depth <= 128).map(|head| (head, ", mma = mma_sync"));
    for ((depth, columns, block), mma) in heads.iter().map(|head| (head, "")).chain(of_warps) {
        let (depth, columns, block) = (*depth, *columns, *block);
        for dtype in ["f16", "bf16"] {
            for causal in [false, true] {
                let mut spec = format!("bm = {block}, bn = {columns}, bk = {block}, dtype = {dtype}, d = {depth}{mma}");
                let shape = Shape { batch: 1, heads: 1, key_heads: 1, queries: sizes[0], keys: sizes[1], columns };
                let mut mask = Mask::random((sizes[0], sizes[1]), (block, block), 0.6, 3).unwrap();
                if causal {
                    write!(spec, ", {CAUSAL}").unwrap();
                    mask = Mask::causal(sizes[0], sizes[1], (block, block)).unwrap();
                }
                cases.push(Case {
                    spec,
                    shape,
                    order: HeadOrder::HeadsFirst,
                    mask,
                    scalars: &[],
                    vectors: vec![],
                    lengths: None,
                    steepness: 1.0,
                });
            }
        }
    }
    cases
}

/// An attention that stores its probabilities: products and softmax in f32, probabilities and O rounded to the type.
fn unfused<T: Element>(case: &Case, operands: &Operands<T>) -> Vec<f64> {
    let Shape { queries, keys, columns, .. } = case.shape;
    let [q, k, v] = operands.each();
    let is_causal = case.spec.contains(CAUSAL);
    let (bm, bk) = case.mask.block();
    let mut output = vec![];
    for query in 0..queries {
        let stored: Vec<u32> = case.mask.lists()[0].row(query / bm).map(|(column, _)| column).collect();
        let counts = |key: &usize| stored.contains(&((key / bk) as u32)) && (!is_causal || query >= *key);
        let scores: Vec<(usize, f32)> = (0..keys)
            .filter(counts)
            .map(|key| {
                let pairs = q.row([0, 0, query]).iter().zip(k.row([0, 0, key]));
                (
                    key,
                    pairs.fold(0.0_f32, |sum, (a, b)| (a.to_f64() as f32).mul_add(b.to_f64() as f32, sum))
                        * operands.scale,
                )
            })
            .collect();
        let greatest = scores.iter().fold(f32::NEG_INFINITY, |greatest, (_, score)| greatest.max(*score));
        let weights: Vec<f32> = scores.iter().map(|(_, score)| (score - greatest).exp()).collect();
        let sum: f32 = weights.iter().sum();
        let mut row = vec![0.0_f32; columns];
        for ((key, _), weight) in scores.iter().zip(weights) {
            let probability = T::from_f64(f64::from(weight / sum)).to_f64() as f32;
            for (to, value) in row.iter_mut().zip(v.row([0, 0, *key])) {
                *to = probability.mul_add(value.to_f64() as f32, *to);
            }
        }
        output.extend(row.into_iter().map(|value| T::from_f64(f64::from(value)).to_f64()));
    }
    output
}

fn relative(found: impl Iterator<Item = f64>, expected: &[f64]) -> f64 {
    let (mut wrong, mut whole) = (0.0, 0.0);
    for (found, expected) in found.zip(expected) {
        wrong += (found - expected).powi(2);
        whole += expected.powi(2);
    }
    (wrong / whole).sqrt()
}

/// The errors of O and of an unfused attention, as a line, and whether the first is at most [`MOST`] times the second.
fn judge<T: Element>(case: &Case, operands: &Operands<T>, output: &Tensor<T>) -> (String, bool) {
    let right = expected(case, operands).output;
    let rows = (0..case.shape.queries).flat_map(|query| output.row([0, 0, query]).iter().map(|value| value.to_f64()));
    let (fused, unfused) = (relative(rows, &right), relative(unfused(case, operands).into_iter(), &right));
    let ratio = fused / unfused;
    (format!("{}: {fused:.2e}, unfused {unfused:.2e}: {ratio:.2}", case.spec), ratio <= MOST)
}

/// Prints a line of each case, and fails with those that do not pass.
fn all_pass(lines: impl Iterator<Item = (String, bool)>) {
    let failed: Vec<String> = lines
        .filter_map(|(line, passes)| {
            println!("{line}");
            (!passes).then_some(line)
        })
        .collect();
    assert!(failed.is_empty(), "more than {MOST} times the error of an unfused softmax:\n{}", failed.join("\n"));
}

#[test]
fn o_is_as_exact_as_an_unfused_softmax_in_f32() {
    all_pass(cases([140, 260]).iter().map(|case| match plan(case).spec().a {
        Dtype::BF16 => simulated::<bf16>(case),
        _ => simulated::<f16>(case),
    }));
}

#[test]
fn o_of_a_gpu_is_as_exact_as_an_unfused_softmax_in_f32() {
    let Some((_turn, device)) = device() else { return };
    all_pass(cases([600, 1500]).iter().map(|case| match plan(case).spec().a {
        Dtype::BF16 => judge(case, &Operands::<bf16>::new(case), &gpu::launch::<bf16, _>(&device, case).unwrap()),
        _ => judge(case, &Operands::<f16>::new(case), &gpu::launch::<f16, _>(&device, case).unwrap()),
    }));
}

fn simulated<T: Element>(case: &Case) -> (String, bool) {
    let (plan, operands) = (plan(case), Operands::<T>::new(case));
    let ptx = plan.ptx();
    let kernel = SimulatedAttention::new(&plan, ptx.text(), ptx.entry()).unwrap();
    let run = kernel.run(operands.each(), &case.mask, operands.inputs(case), &Options::default());
    let (output, _, report) = run.unwrap();
    assert!(report.is_clean(), "{:#?}", report.findings);
    judge(case, &operands, &output)
}
