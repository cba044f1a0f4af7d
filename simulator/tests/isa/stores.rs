//! Copies to global memory that all lanes of a warp issue.

use bsr_simulator::{FindingKind, Options, Report};

use crate::formats::{self, words};

/// Each lane writes a word, and all of them copy the 32 words to the buffer.
fn run(order: &str, copy: &str, after: &str) -> (Report, Vec<u32>) {
    let body = format!(
        "mad.lo.u32 %r2, %r0, 4, %r1;\nadd.u32 %r3, %r0, 1;\nst.shared.u32 [%r2], %r3;\nfence.proxy.async.shared::cta;\n\
         {order}\n{copy}\ncp.async.bulk.commit_group;\n{after}"
    );
    let (report, out) = formats::run(".version 8.0\n.target sm_90", 32, &[vec![0; 128]], &body, &Options::default());
    (report, words(&out[0]))
}

const ORDER: &str = "bar.warp.sync 0xffffffff;";
const COPY: &str = "cp.async.bulk.global.shared::cta.bulk_group [%rd0], [%r1], 128;";
const WAIT: &str = "cp.async.bulk.wait_group.read 0;";

#[test]
fn lanes_that_store_the_same_are_one_store() {
    // Whoever waits may write the source again.
    let again = format!("{WAIT}\n{ORDER}\nst.shared.u32 [%r2], 0;");
    let (report, words) = run(ORDER, COPY, &again);
    assert!(report.is_clean(), "{}", report.findings[0]);
    assert_eq!(words, (1..33).collect::<Vec<u32>>());
    // The store relies on what each of the lanes knows.
    let (report, _) = run("", COPY, WAIT);
    assert!(report.findings.iter().any(|f| f.kind == FindingKind::Race), "{:?}", report.findings);
    let (report, _) = run(ORDER, COPY, "st.shared.u32 [%r2], 0;");
    assert!(!report.is_clean());
}

#[test]
fn reductions_are_as_many_as_there_are_lanes() {
    let add = COPY.replace("cp.async", "cp.reduce.async").replace("bulk_group", "bulk_group.add.u32");
    let (report, words) = run(ORDER, &add, WAIT);
    assert!(report.is_clean(), "{}", report.findings[0]);
    assert_eq!(words, (1..33).map(|n| 32 * n).collect::<Vec<u32>>());
}
