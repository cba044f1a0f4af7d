//! Structures of parameters with tensor maps inside, and tensor maps that a kernel copies, changes and releases.

use bsr_simulator::{
    FindingKind, GlobalMemory, Launch, Options, Param, Report, Swizzle, TensorElement, TensorMapDesc, parse, simulate,
};

/// Two blocks of a cluster. Block 0 copies the map of the structure to shared memory, points it to the second half of the
/// data and releases it at `out + 256`; then both fence it, load 32 words through it and store each, plus a number of the
/// structure, at `out + 128 * rank`.
fn text(release: &str, fence: &str) -> String {
    format!(
        ".version 8.3\n.target sm_90a\n.address_size 64\n.extern .shared .align 1024 .b8 smem[];\n\
         .visible .entry k(.param .align 64 .b8 p[208]) {{\n.reg .b32 %r<16>;\n.reg .b64 %rd<16>;\n.reg .pred %p<4>;\n\
         mov.u32 %r0, %tid.x;\nmov.u32 %r1, smem;\nadd.u32 %r2, %r1, 256;\nadd.u32 %r3, %r1, 512;\nmov.u32 %r4, %cluster_ctarank;\n\
         mov.b64 %rd0, p;\ncvta.param.u64 %rd0, %rd0;\nadd.s64 %rd0, %rd0, 64;\nld.param.u64 %rd1, [p+192];\n\
         ld.param.u32 %r5, [p+200];\nld.param.u64 %rd2, [p+8];\nadd.s64 %rd3, %rd1, 256;\n\
         setp.ne.u32 %p0, %r0, 0;\n@!%p0 mbarrier.init.shared::cta.b64 [%r2], 1;\nfence.mbarrier_init.release.cluster;\n\
         setp.ne.u32 %p1, %r4, 0;\n@%p1 bra $made;\nsetp.gt.u32 %p2, %r0, 7;\nmad.wide.u32 %rd4, %r0, 16, %rd0;\n\
         mad.lo.u32 %r6, %r0, 16, %r3;\n@!%p2 ld.v4.u32 {{%r8, %r9, %r10, %r11}}, [%rd4];\n\
         @!%p2 st.shared.v4.u32 [%r6], {{%r8, %r9, %r10, %r11}};\nbar.warp.sync 0xffffffff;\n\
         @!%p0 tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%r3], %rd2;\nbar.warp.sync 0xffffffff;\n\
         {release}\n$made:\nbar.warp.sync 0xffffffff;\nbarrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;\n\
         {fence}\n@%p0 bra $wait;\nmbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 128;\n\
         cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd3, {{0}}], [%r2];\n$wait:\n\
         bar.warp.sync 0xffffffff;\n$again:\nmbarrier.try_wait.parity.shared::cta.b64 %p3, [%r2], 0;\n@!%p3 bra $again;\n\
         mad.lo.u32 %r7, %r0, 4, %r1;\nld.shared.u32 %r8, [%r7];\nadd.u32 %r8, %r8, %r5;\nmad.lo.u32 %r9, %r4, 32, %r0;\n\
         mad.wide.u32 %rd5, %r9, 4, %rd1;\nst.global.u32 [%rd5], %r8;\nret;\n}}\n"
    )
}

const RELEASE: &str =
    "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%rd3], [%r3], 128;";
const FENCE: &str = "fence.proxy.tensormap::generic.acquire.gpu [%rd3], 128;";

fn run_at(text: &str, place: u32) -> Result<(Report, Vec<u32>), String> {
    let module = parse(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let mut memory = GlobalMemory::new();
    let data = memory.upload((0..64u32).flat_map(u32::to_le_bytes).collect(), 128);
    let out = memory.alloc(512, 128);
    let map = TensorMapDesc {
        buffer: data,
        offset: 0,
        element: TensorElement::B32,
        dims: vec![32],
        strides: vec![],
        box_dims: vec![32],
        element_strides: vec![1],
        swizzle: Swizzle::None,
        im2col: None,
        fill_nan: false,
    };
    let fields = vec![
        (8, Param::BufferAt(data, 128)),
        (place, Param::TensorMap(map)),
        (192, Param::Buffer(out)),
        (200, Param::U32(1000)),
    ];
    let (grid, cluster, block) = ([2, 1, 1], [2, 1, 1], [32, 1, 1]);
    let launch = Launch { grid, cluster, block, shared_bytes: 1024, params: vec![Param::Structure(208, fields)] };
    let report = simulate(&module, "k", &launch, &mut memory, &Options::default()).map_err(|e| e.to_string())?;
    let words = memory.bytes(out)[..256].as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)).collect();
    Ok((report, words))
}

fn run(text: &str) -> (Report, Vec<u32>) {
    run_at(text, 64).unwrap()
}

#[test]
fn a_map_of_a_structure_is_copied_changed_and_used() {
    let (report, words) = run(&text(RELEASE, FENCE));
    assert!(report.is_clean(), "{}", report.findings[0]);
    assert_eq!(words, (0..64).map(|at| 1032 + at % 32).collect::<Vec<u32>>());
    let refused = run_at(&text(RELEASE, FENCE), 80).unwrap_err();
    assert!(refused.contains("parameter 0 `p`: at 80: a tensor map parameter is aligned to 64 bytes"), "{refused}");
    let refused = run_at(&text(RELEASE, FENCE), 128).unwrap_err();
    assert!(refused.contains("at 128: 128 + 128 bytes = 256, and it has 208"), "{refused}");
}

#[test]
fn scopes_of_release_and_fence_reach_the_other_block() {
    let found = |release: &str, fence: &str| {
        let (report, _) = run(&text(release, fence));
        report.findings.first().map(|f| (f.kind, f.to_string()))
    };
    let with = |text: &str, scope: &str| text.replace(".gpu", scope);
    assert_eq!(found(&with(RELEASE, ".cluster"), &with(FENCE, ".cluster")), None);
    for (release, fence) in [(with(RELEASE, ".cta"), FENCE.to_owned()), (RELEASE.to_owned(), with(FENCE, ".cta"))] {
        let (kind, message) = found(&release, &fence).unwrap();
        assert_eq!(kind, FindingKind::TensorCopy);
        assert!(message.contains("with the scope of one block"), "{message}");
    }
}

/// The other way to make a map: in global memory, with a fence that releases it.
#[test]
fn a_map_that_is_changed_in_global_memory_is_released() {
    let copied = format!("{RELEASE}\n@!%p0 tensormap.replace.tile.global_address.global.b1024.b64 [%rd3], %rd2;");
    let released = format!("{copied}\nfence.proxy.tensormap::generic.release.gpu;");
    let (report, words) = run(&text(&released, FENCE));
    assert!(report.is_clean() && words[0] == 1032, "{:?}", report.findings);
    let (report, _) = run(&text(&copied, FENCE));
    assert!(report.findings[0].message.contains("written and not released"), "{}", report.findings[0]);
}

/// As in the warps of CUTLASS's epilogues that do not store.
#[test]
fn a_fence_of_nothing_is_told_and_orders_nothing() {
    let idle = "mov.b64 %rd6, 0;\nfence.proxy.tensormap::generic.acquire.gpu [%rd6], 128;";
    let (report, words) = run(&text(RELEASE, &format!("{idle}\n{FENCE}")));
    assert_eq!((report.findings.len(), report.findings[0].kind, words[0]), (1, FindingKind::IdleFence, 1032));
    let (report, _) = run(&text(RELEASE, idle));
    assert!(report.findings.iter().any(|f| f.kind == FindingKind::TensorCopy), "{:?}", report.findings);
}
