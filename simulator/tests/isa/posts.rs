//! `st.async` and `red.async` to another block of the cluster.

use bsr_simulator::{FindingKind, GlobalMemory, Launch, Options, Param, Report, parse, simulate};

/// Every thread of block 0 executes `post` with `%r5`, its place in block 1, `%r6`, an mbarrier there, and `%r0`, its number.
/// Block 1 waits for `bytes` and stores the 64 words that its shared memory starts with.
fn run(post: &str, bytes: u32, waits: bool) -> (Report, Vec<u32>) {
    let wait = if waits {
        "$again:\nmbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0;\n@!%p2 bra $again;\n"
    } else {
        ""
    };
    let text = format!(
        ".version 8.1\n.target sm_90\n.address_size 64\n.extern .shared .align 16 .b8 smem[];\n\
         .visible .entry k(.param .u64 out) {{\n.reg .b32 %r<16>;\n.reg .b64 %rd<4>;\n.reg .pred %p<4>;\n\
         mov.u32 %r0, %tid.x;\nmov.u32 %r1, smem;\nadd.u32 %r2, %r1, 256;\nmov.u32 %r3, %cluster_ctarank;\n\
         setp.ne.u32 %p0, %r0, 0;\n@!%p0 mbarrier.init.shared::cta.b64 [%r2], 1;\nmad.lo.u32 %r4, %r0, 8, %r1;\n\
         st.shared.v2.u32 [%r4], {{1, 1}};\nfence.mbarrier_init.release.cluster;\n\
         @!%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], {bytes};\nbar.warp.sync 0xffffffff;\n\
         barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;\nsetp.ne.u32 %p1, %r3, 0;\n@%p1 bra $reader;\n\
         mapa.shared::cluster.u32 %r5, %r4, 1;\nmapa.shared::cluster.u32 %r6, %r2, 1;\nmapa.shared::cluster.u32 %r7, %r1, 1;\n\
         {post}\nbra $end;\n$reader:\n{wait}ld.shared.v2.u32 {{%r8, %r9}}, [%r4];\nld.param.u64 %rd0, [out];\n\
         mad.wide.u32 %rd0, %r0, 8, %rd0;\nst.global.v2.u32 [%rd0], {{%r8, %r9}};\n$end:\n\
         barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;\nret;\n}}\n"
    );
    let module = parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let mut memory = GlobalMemory::new();
    let out = memory.alloc(256, 16);
    let (grid, cluster, block) = ([2, 1, 1], [2, 1, 1], [32, 1, 1]);
    let launch = Launch { grid, cluster, block, shared_bytes: 512, params: vec![Param::Buffer(out)] };
    let report = simulate(&module, "k", &launch, &mut memory, &Options::default()).unwrap();
    let words = memory.bytes(out).as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)).collect();
    (report, words)
}

const STORE: &str = "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.u32 [%r5], {%r0, %r0}, [%r6];";
const ADD: &str = "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%r7], %r0, [%r6];";

#[test]
fn the_mbarrier_tells_that_the_bytes_are_there() {
    let (report, words) = run(STORE, 256, true);
    assert!(report.is_clean(), "{}", report.findings[0]);
    assert_eq!(words, (0..64).map(|at| at / 2).collect::<Vec<u32>>());
    let (report, words) = run(ADD, 128, true);
    assert!(report.is_clean(), "{}", report.findings[0]);
    assert_eq!(words[..3], [1 + 31 * 16, 1, 1]);
    let (report, words) = run(&ADD.replace("add", "max"), 128, true);
    assert!(report.is_clean() && words[0] == 31);
}

#[test]
fn what_is_wrong_with_them_is_found() {
    let finds = |post: &str, bytes, waits, kind| {
        let (report, _) = run(post, bytes, waits);
        assert!(report.findings.iter().any(|f| f.kind == kind), "{kind:?}: {:?}", report.findings);
    };
    finds(STORE, 256, false, FindingKind::Race);
    finds(STORE, 512, true, FindingKind::Deadlock);
    // The phase ends when half of the bytes are there.
    finds(STORE, 128, true, FindingKind::Race);
    finds(&STORE.replace("[%r5]", "[%r4]"), 256, true, FindingKind::BarrierMisuse);
    finds(&STORE.replace("[%r5]", "[%r5+4]"), 256, true, FindingKind::Misaligned);
    // Plain stores to one word race; reductions do not.
    finds(&STORE.replace("[%r5]", "[%r7]"), 256, true, FindingKind::Race);
}
