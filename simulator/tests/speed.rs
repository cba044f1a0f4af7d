//! The flagship's time, with and without the checker. Run in release: `cargo test --release -- --nocapture speed`.
#![allow(clippy::unwrap_used)]

#[path = "common/emitted.rs"]
mod emitted;

use std::time::Instant;

use bsr_runtime::Pattern;
use bsr_simulator::Options;
use emitted::{Case, assert_right, plan, run_own};

/// Block 512 x 112, M 1024, N 256, 4 blocks a row: under 5 s checked, under 1.5 s unchecked (release, 2 cores).
#[test]
fn speed_of_the_flagship() {
    let plan = plan("bm = 512, bn = 128, bk = 112");
    let case = Case::new(1024, 256, 784, Pattern::TopK(4));
    for (races, limit) in [(true, 5.0), (false, 1.5)] {
        let start = Instant::now();
        let done = run_own(&plan, &case, &Options { races, ..Options::default() });
        let took = start.elapsed().as_secs_f64();
        assert_right(&plan, &done, "flagship");
        println!(
            "races {races}: {took:.3} s for {} warp instructions and {} MFLOP",
            done.report.cost.steps,
            done.report.cost.flops / 1_000_000
        );
        assert!(cfg!(debug_assertions) || took < limit, "{took} s");
    }
}
