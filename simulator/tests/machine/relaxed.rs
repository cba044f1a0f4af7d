//! What a relaxed arrival at the cluster's barrier passes on: what fences before it have released, and nothing else.

use bsr_simulator::{FindingKind, GlobalMemory, Launch, Options, Param, Report, parse, simulate};

/// Each of two blocks initialises an mbarrier, executes `before` and a relaxed arrival, and arrives at the other's; then it
/// executes `after`. `%r5` is a word of its own, `%r6` that of the other block.
fn run(before: &str, after: &str) -> Report {
    let text = format!(
        ".version 8.0\n.target sm_90\n.address_size 64\n.extern .shared .align 16 .b8 smem[];\n\
         .visible .entry k(.param .u64 out) {{\n.reg .b32 %r<16>;\n.reg .b64 %rd<4>;\n.reg .pred %p<4>;\n\
         mov.u32 %r0, %tid.x;\nmov.u32 %r1, smem;\nmov.u32 %r2, %cluster_ctarank;\nxor.b32 %r2, %r2, 1;\n\
         mapa.shared::cluster.u32 %r3, %r1, %r2;\nmad.lo.u32 %r4, %r0, 4, 64;\nadd.u32 %r5, %r1, %r4;\nadd.u32 %r6, %r3, %r4;\n\
         setp.ne.u32 %p0, %r0, 0;\n@!%p0 mbarrier.init.shared::cta.b64 [%r1], 1;\n{before}\n\
         barrier.cluster.arrive.relaxed;\nbarrier.cluster.wait.acquire;\n\
         @!%p0 mbarrier.arrive.shared::cluster.b64 _, [%r3];\n\
         $again:\nmbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1], 0;\n@!%p1 bra $again;\n{after}\n\
         barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;\nret;\n}}\n"
    );
    let module = parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let mut memory = GlobalMemory::new();
    let out = memory.alloc(512, 16);
    let (grid, cluster, block) = ([2, 1, 1], [2, 1, 1], [64, 1, 1]);
    let launch = Launch { grid, cluster, block, shared_bytes: 512, params: vec![Param::Buffer(out)] };
    simulate(&module, "k", &launch, &mut memory, &Options::default()).unwrap()
}

const FENCE: &str = "fence.mbarrier_init.release.cluster;";

#[test]
fn initialised_mbarriers_are_known_after_their_fence() {
    let report = run(FENCE, "");
    assert!(report.is_clean(), "{}", report.findings[0]);
    let report = run("", "");
    assert!(report.findings.iter().any(|f| f.kind == FindingKind::BarrierMisuse), "{:?}", report.findings);
}

#[test]
fn data_is_known_after_a_fence_between_threads_alone() {
    let (store, load) = ("st.shared::cluster.u32 [%r6], %r0;", "ld.shared.u32 %r7, [%r5];");
    let report = run(&format!("{store}\n{FENCE}"), load);
    assert!(report.findings.iter().any(|f| f.kind == FindingKind::Race), "{:?}", report.findings);
    let report = run(&format!("{store}\n{FENCE}\nfence.acq_rel.cluster;"), load);
    assert!(report.is_clean(), "{}", report.findings[0]);
    let report = run(&format!("{store}\n{FENCE}\nfence.acq_rel.cta;"), load);
    assert!(!report.is_clean());
}

/// Thread 0 of block 0 arrives and exits. Thread 1 of each block stores a word of the other block before it arrives, and reads its
/// own after the barrier, which must not complete before all three others have arrived.
#[test]
fn a_thread_that_arrives_and_exits_is_counted_once() {
    let text = ".version 8.0\n.target sm_90\n.address_size 64\n.extern .shared .align 16 .b8 smem[];\n\
        .visible .entry k(.param .u64 out) {\n.reg .b32 %r<16>;\n.reg .b64 %rd<4>;\n.reg .pred %p<4>;\n\
        ld.param.u64 %rd0, [out];\nmov.u32 %r0, %tid.x;\nmov.u32 %r1, smem;\nmov.u32 %r2, %cluster_ctarank;\n\
        xor.b32 %r3, %r2, 1;\nmapa.shared::cluster.u32 %r4, %r1, %r3;\nsetp.ne.u32 %p0, %r0, 0;\n@%p0 bra $writer;\n\
        setp.ne.u32 %p1, %r2, 0;\n@%p1 bra $idle;\nbarrier.cluster.arrive.release;\nret;\n$writer:\nadd.u32 %r5, %r2, 7;\n\
        st.shared::cluster.u32 [%r4], %r5;\nbarrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;\n\
        ld.shared.u32 %r6, [%r1];\nmul.wide.u32 %rd1, %r2, 4;\nadd.s64 %rd0, %rd0, %rd1;\nst.global.u32 [%rd0], %r6;\n\
        barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;\nret;\n\
        $idle:\nbarrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;\n\
        barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;\nret;\n}\n";
    let module = parse(text).unwrap();
    for seed in 0..16 {
        let mut memory = GlobalMemory::new();
        let out = memory.alloc(8, 16);
        let (grid, cluster, block) = ([2, 1, 1], [2, 1, 1], [2, 1, 1]);
        let launch = Launch { grid, cluster, block, shared_bytes: 16, params: vec![Param::Buffer(out)] };
        let report = simulate(&module, "k", &launch, &mut memory, &Options { seed, ..Options::default() }).unwrap();
        assert!(report.is_clean(), "{:?}", report.findings);
        assert_eq!(memory.bytes(out), [8, 0, 0, 0, 7, 0, 0, 0]);
    }
}
