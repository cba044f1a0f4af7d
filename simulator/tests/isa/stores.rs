//! Copies to global memory that all lanes of a warp issue.

use bsr_simulator::{FindingKind, GlobalMemory, Launch, Options, Param, Report, parse, simulate};

/// Each lane writes a word, and all of them copy the 32 words to `out`.
fn run(order: &str, copy: &str, after: &str) -> (Report, Vec<u32>) {
    let text = format!(
        ".version 8.0\n.target sm_90\n.address_size 64\n.extern .shared .align 128 .b8 smem[];\n\
         .visible .entry k(.param .u64 out) {{\n.reg .b32 %r<8>;\n.reg .b64 %rd<4>;\n\
         mov.u32 %r0, %tid.x;\nmov.u32 %r1, smem;\nmad.lo.u32 %r2, %r0, 4, %r1;\nadd.u32 %r3, %r0, 1;\nld.param.u64 %rd0, [out];\n\
         st.shared.u32 [%r2], %r3;\nfence.proxy.async.shared::cta;\n{order}\n{copy}\ncp.async.bulk.commit_group;\n{after}\nret;\n}}\n"
    );
    let module = parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let mut memory = GlobalMemory::new();
    let out = memory.alloc(128, 128);
    let (grid, cluster, block) = ([1; 3], [1; 3], [32, 1, 1]);
    let launch = Launch { grid, cluster, block, shared_bytes: 128, params: vec![Param::Buffer(out)] };
    let report = simulate(&module, "k", &launch, &mut memory, &Options::default()).unwrap();
    let words = memory.bytes(out).as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)).collect();
    (report, words)
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
