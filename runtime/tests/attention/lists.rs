//! Kernels whose work list is in the parameters of a launch.
#![allow(clippy::unwrap_used)]

use bsr_codegen::Plan;
use bsr_runtime::attention::{AttentionWork, HeadOrder, Mask, Tensor, simulate};
use bsr_runtime::simulated::Options;
use half::f16;

use crate::table::{CAUSAL, Case, case, shape, with_empty_rows};

/// Lists that fit and that nearly fill their parameter, one tile a CTA and several, steps of one block and of two, rows without blocks, more
/// than 32 steps, and what else reads steps: clusters, divided keys, heads that share tiles, scores, neighbouring blocks.
pub(crate) fn cases() -> Vec<Case> {
    let mut cases = vec![];
    for (number, keys) in [
        "work_list = 2048",
        "work_list = 2048, consumers = 1, pdl = on",
        "work_list = 8192, bk = 32",
        "work_list = 8192, cluster = 2",
        "work_list = 8192, split = 2, sinks = on",
        "work_list = 30720, pack_heads = 2",
        "work_list = 8192, stages = 2, k_step = 32",
    ]
    .into_iter()
    .enumerate()
    {
        let order = [HeadOrder::HeadsFirst, HeadOrder::RowsFirst][number % 2];
        let bk = if keys.contains("bk = 32") { 32 } else { 64 };
        let keys = keys.replace(", bk = 32", "");
        let spec = format!("bm = 64, bn = 64, bk = {bk}, {keys}");
        if bk == 64 {
            cases.push(Case { order, ..case(&spec, shape(1, [2, 1], [490, 490], 64), with_empty_rows()) });
        }
        let mask = Mask::causal(200, 200, (64, bk)).unwrap();
        cases.push(Case { order, ..case(&format!("{spec}, {CAUSAL}"), shape(1, [4, 2], [200, 200], 64), mask) });
        let mask = Mask::random((150, 2300), (64, bk), 0.6, number as u64).unwrap();
        cases.push(case(&spec, shape(1, [2, 1], [150, 2300], 64), mask));
    }
    cases
}

/// A list that its parameter is too short for is refused with the bytes that it needs, and a kernel with as many takes it.
#[test]
fn lists_that_do_not_fit_are_refused() {
    let mask = Mask::random((640, 640), (64, 64), 0.7, 3).unwrap();
    let [q, k, v] = [1, 2, 3].map(|seed| Tensor::<f16>::normal([1, 2, 640, 64], HeadOrder::HeadsFirst, seed));
    let plan = |bytes: usize| {
        let spec = format!("op = attention, bm = 64, bn = 64, bk = 64, work_list = {bytes}");
        Plan::new(&spec.parse().unwrap()).unwrap()
    };
    let tiles = plan(256).attention_tiles().unwrap();
    let work = AttentionWork::new(&tiles, &shape(1, [2, 2], [640, 640], 64), &mask, 3).unwrap();
    let needed = work.parameter_bytes();
    let run = |bytes: usize| simulate(&plan(bytes), [&q, &k, &v], &mask, 0.125, &Options::default());
    let error = run(needed - 16).unwrap_err().to_string();
    assert!(error.contains(&format!("{needed} B, and the parameter of the kernel {}", needed - 16)), "{error}");
    assert!(error.contains("help: a kernel without `work_list`"), "{error}");
    let (_, _, report) = run(needed).unwrap();
    assert!(report.is_clean());
}
