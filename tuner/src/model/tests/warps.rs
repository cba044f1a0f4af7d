//! Kernels of warps: their order, and what the compiler is told.

use bsr_codegen::{KernelSpec, Op, Plan};

use super::super::{Card, predict};
use super::measured::{CUBE, SAMPLED};
use super::problem;

/// Microseconds of kernels of warps in blocks of 128 x 128 at a quarter.
fn of_warps(text: &str) -> f64 {
    let spec: KernelSpec = format!("bm = 128, bk = 128, {text}").parse().unwrap();
    let size = if spec.op == Op::Sdd { SAMPLED } else { CUBE };
    predict(&Plan::new(&spec).unwrap(), &problem(&spec, size, "random:0.25"), &Card::h200()).us
}

/// Kernels of warps are in the order in which they were measured (`benches/LOG.md`, 18, 89, 92 and 99), the fastest first.
#[test]
fn kernels_of_warps_are_in_the_order_that_was_measured() {
    let orders: [&[&str]; 7] = [
        &[
            "bn = 256, mma = mma_sync, load = tma",
            "bn = 128, mma = mma_sync, load = tma, warps = (2, 2)",
            "bn = 256, mma = mma_sync, load = producer, arch = sm_90a",
            "bn = 256, mma = wmma",
            "bn = 256, mma = wmma, load = producer, arch = sm_90a",
            "bn = 128, mma = wmma",
            "bn = 128, mma = wmma, arch = sm_70",
        ],
        &[
            "bn = 256, mma = mma_sync, load = tma",
            "bn = 256, mma = mma_sync, load = tma, k_step = 32, stages = 8",
            "bn = 256, mma = mma_sync, load = tma, warps = (1, 8)",
            "bn = 256, mma = mma_sync, load = tma, cta_m = 64, warps = (1, 4)",
            "bn = 256, mma = mma_sync, load = tma, schedule = strided",
        ],
        &["bn = 256, mma = mma_sync", "bn = 128, mma = mma_sync", "bn = 128, mma = mma_sync, warps = (2, 4)"],
        &["bn = 256, mma = mma_sync, transpose = on, load = tma", "bn = 256, mma = mma_sync, transpose = on"],
        &["bn = 256, mma = mma_sync, op = dds, load = tma", "bn = 256, mma = mma_sync, op = dds"],
        &[
            "bn = 256, mma = mma_sync, load = tma",
            "bn = 256, mma = mma_sync, load = tma, beta = on",
            "bn = 256, mma = mma_sync",
            "bn = 256, mma = mma_sync, beta = on",
        ],
        &[
            "bn = 128, op = sdd, mma = mma_sync, load = tma, warps = (2, 2)",
            "bn = 256, op = sdd, mma = mma_sync, load = tma",
            "bn = 256, op = sdd, mma = mma_sync",
            "bn = 256, op = sdd, mma = wmma",
        ],
    ];
    for order in orders {
        let times: Vec<f64> = order.iter().map(|text| of_warps(text)).collect();
        assert!(times.is_sorted_by(|x, y| x < y), "{order:?}: {times:?}");
    }
}

/// Of what the compiler is told the model knows what `maxnreg` does: CTAs that share an SM, and registers that it takes from threads
/// that need them, which makes kernels several times slower (`benches/LOG.md`, 99).
#[test]
fn a_level_of_optimization_changes_no_prediction_and_maxnreg_does() {
    for (text, most, [before, after], slower) in [
        ("bn = 256, mma = mma_sync", 168, [1, 1], 2.0),
        ("bn = 128, mma = mma_sync", 96, [2, 2], 5.0),
        ("bn = 128, mma = mma_sync, warps = (2, 4)", 128, [1, 2], 1.0),
    ] {
        let limited = format!("{text}, maxnreg = {most}");
        let resident = [text, limited.as_str()]
            .map(|text| Plan::new(&format!("bm = 128, bk = 128, {text}").parse().unwrap()).unwrap().profile().resident);
        assert_eq!(resident, [before, after], "{limited}");
        assert_eq!(of_warps(&format!("{text}, opt_level = 3")), of_warps(text), "{text}");
        assert!(of_warps(&limited) > slower * of_warps(text), "{limited}: {} us", of_warps(&limited));
    }
}
