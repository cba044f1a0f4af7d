//! A hand-written kernel with everything the project's kernels use: clusters, multicast, an mbarrier ring, wgmma,
//! stmatrix and a tensor store.

use crate::common::{Gemm, half_values};
use bsr_simulator::{FindingKind, Options, Schedule};

#[test]
fn the_product_is_right_and_nothing_is_found_in_every_schedule() {
    let gemm = Gemm::new(128, 128, 256);
    for schedule in [Schedule::Early, Schedule::Late, Schedule::Timed, Schedule::Scrambled] {
        for seed in 0..8 {
            let (report, c) = gemm.run(&Options { seed, schedule, ..Options::default() });
            for f in &report.findings {
                println!("{f}");
            }
            assert!(report.is_clean(), "{schedule:?} seed {seed}");
            gemm.check(&c);
        }
    }
}

#[test]
fn ragged_edges_are_clipped() {
    let gemm = Gemm::new(72, 120, 136);
    let (report, c) = gemm.run(&Options::default());
    assert!(report.is_clean(), "{:#?}", report.findings);
    gemm.check(&c);
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let gemm = Gemm::new(128, 64, 192);
    let options = Options { seed: 11, ..Options::default() };
    let (a, _) = gemm.run(&options);
    let (b, _) = gemm.run(&options);
    assert_eq!(a.cost, b.cost);
}

#[test]
fn without_the_checker_the_product_is_the_same() {
    let gemm = Gemm::new(128, 128, 128);
    let (report, c) = gemm.run(&Options { races: false, ..Options::default() });
    assert!(report.is_clean());
    gemm.check(&c);
}

#[test]
fn a_trace_is_json() {
    let gemm = Gemm::new(128, 64, 128);
    let (report, _) = gemm.run(&Options { schedule: Schedule::Timed, trace: true, ..Options::default() });
    let trace = report.trace.unwrap();
    assert!(trace.contains("traceEvents") && trace.contains("wgmma") && trace.contains("copies"));
}

#[test]
fn a_missing_arrival_is_a_deadlock_that_names_the_barrier() {
    let mut gemm = Gemm::new(128, 64, 256);
    gemm.edit("    @%p6 mbarrier.arrive.shared::cluster.b64 _, [%r26+16];\n", "");
    let (report, _) = gemm.run(&Options::default());
    let f = report.findings.iter().find(|f| f.kind == FindingKind::Deadlock).unwrap();
    assert!(f.message.contains("1 of 2 arrivals"), "{f}");
    assert!(f.sides.iter().any(|s| s.text.contains("try_wait")), "{f}");
}

#[test]
fn values_are_not_trivial() {
    let v = half_values(64, 3);
    assert!(v.iter().any(|x| *x > 0.0) && v.iter().any(|x| *x < 0.0));
}
