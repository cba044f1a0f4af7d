//! Instruction families against the ISA, through small kernels of one warp or two.

use bsr_simulator::{FindingKind, GlobalMemory, Launch, Options, Param, Report, Schedule, parse, simulate};

use crate::one_cta;

/// Runs `body` with `%rd0` = the buffer, `%r0` = the thread, `%rd1` = the thread's word of it; gives the words after.
fn run_with(threads: u32, words: &[u32], body: &str, options: &Options) -> (Report, Vec<u32>) {
    let text = format!(
        ".version 8.7\n.target sm_90a\n.address_size 64\n.extern .shared .align 1024 .b8 smem[];\n\
         .visible .entry k(.param .u64 data)\n.maxntid 1024, 1, 1\n{{\n\
         .reg .b16 %h<8>;\n.reg .b32 %r<32>;\n.reg .b64 %rd<16>;\n.reg .f32 %f<16>;\n.reg .pred %p<8>;\n\
         ld.param.u64 %rd0, [data];\ncvta.to.global.u64 %rd0, %rd0;\nmov.u32 %r0, %tid.x;\nmad.wide.u32 %rd1, %r0, 4, %rd0;\n\
         {body}\nret;\n}}\n"
    );
    let module = parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let mut memory = GlobalMemory::new();
    let id = memory.upload(words.iter().flat_map(|w| w.to_le_bytes()).collect(), 128);
    let launch = one_cta(threads, 16384, vec![Param::Buffer(id)]);
    let report = simulate(&module, "k", &launch, &mut memory, options).unwrap();
    let out = memory.bytes(id).chunks(4).map(|c| u32::from_le_bytes(c.try_into().unwrap())).collect();
    (report, out)
}

fn run(threads: u32, words: &[u32], body: &str) -> Vec<u32> {
    let (report, out) = run_with(threads, words, body, &Options::default());
    assert!(report.is_clean(), "{}", report.findings[0]);
    out
}

/// A race, or already the proof of one: the bytes were not there yet.
fn races(threads: u32, body: &str) {
    let kinds = [FindingKind::Race, FindingKind::UninitialisedRead];
    for seed in 0..8 {
        let (report, _) = run_with(threads, &[0; 64], body, &Options { seed, ..Options::default() });
        assert!(report.findings.iter().any(|f| kinds.contains(&f.kind)) || seed < 7, "{:?}", report.findings);
    }
}

fn finds(threads: u32, body: &str, kind: FindingKind) {
    for seed in 0..8 {
        let (report, _) = run_with(threads, &[0; 64], body, &Options { seed, ..Options::default() });
        if report.findings.iter().any(|f| f.kind == kind) {
            return;
        }
        if seed == 7 {
            panic!("no {kind:?} in {:?}", report.findings);
        }
    }
}

#[test]
fn divergent_threads_meet_again() {
    let body = "and.b32 %r1, %r0, 3;\nmov.u32 %r2, 0;\n$loop:\nsetp.ge.u32 %p0, %r2, %r1;\n@%p0 bra $out;\n\
                add.u32 %r2, %r2, 1;\nbra $loop;\n$out:\nvote.sync.ballot.b32 %r3, %p0, 0xffffffff;\nadd.u32 %r2, %r2, %r3;\nst.global.u32 [%rd1], %r2;";
    let out = run(32, &[0; 32], body);
    for (l, v) in out.iter().enumerate() {
        assert_eq!(*v, (l as u32 & 3).wrapping_sub(1), "lane {l}");
    }
}

#[test]
fn shuffles_votes_and_reductions() {
    let out = run(32, &[0; 32], "shfl.sync.bfly.b32 %r1|%p1, %r0, 1, 31, 0xffffffff;\nst.global.u32 [%rd1], %r1;");
    assert!(out.iter().enumerate().all(|(l, v)| *v == l as u32 ^ 1));
    let out = run(32, &[0; 32], "redux.sync.add.u32 %r1, %r0, 0xffffffff;\nst.global.u32 [%rd1], %r1;");
    assert!(out.iter().all(|v| *v == 496));
    let out = run(
        32,
        &[0; 32],
        "mov.u32 %r2, 0;\nelect.sync %r1|%p1, 0xffffffff;\n@%p1 mov.u32 %r2, 1;\nst.global.u32 [%rd1], %r2;",
    );
    assert_eq!(out.iter().sum::<u32>(), 1);
    let out =
        run(32, &[0; 32], "shr.u32 %r1, %r0, 4;\nmatch.any.sync.b32 %r2, %r1, 0xffffffff;\nst.global.u32 [%rd1], %r2;");
    assert_eq!((out[0], out[31]), (0xffff, 0xffff_0000));
}

#[test]
fn shared_memory_and_barriers() {
    let body = "mov.u32 %r1, smem;\nmad.lo.u32 %r2, %r0, 4, %r1;\nst.shared.u32 [%r2], %r0;\nbar.sync 0;\n\
                xor.b32 %r3, %r0, 63;\nmad.lo.u32 %r3, %r3, 4, %r1;\nld.shared.u32 %r4, [%r3];\nst.global.u32 [%rd1], %r4;";
    let out = run(64, &[0; 64], body);
    assert!(out.iter().enumerate().all(|(t, v)| *v == 63 - t as u32));
    finds(64, &body.replace("bar.sync 0;", ""), FindingKind::Race);
    finds(64, &body.replace("st.shared.u32 [%r2], %r0;", ""), FindingKind::UninitialisedRead);
    finds(64, &body.replace("[%r3];", "[%r3 + 16384];"), FindingKind::OutOfBounds);
    finds(64, &body.replace("[%r3];", "[%r3 + 2];"), FindingKind::Misaligned);
    finds(64, &body.replace("[%rd1]", "[%rd1 + 4096]"), FindingKind::OutOfBounds);
    finds(64, &body.replace("bar.sync 0;", "setp.lt.u32 %p0, %r0, 32;\n@%p0 bar.sync 0, 64;\n"), FindingKind::Deadlock);
    finds(64, &body.replace("bar.sync 0;", "setp.lt.u32 %p0, %r0, 40;\n@%p0 bar.sync 0;\n"), FindingKind::Divergence);
}

#[test]
fn within_a_warp_too_order_is_needed() {
    let body = "mov.u32 %r1, smem;\nmad.lo.u32 %r2, %r0, 4, %r1;\nst.shared.u32 [%r2], %r0;\nbar.warp.sync 0xffffffff;\n\
                xor.b32 %r3, %r0, 1;\nmad.lo.u32 %r3, %r3, 4, %r1;\nld.shared.u32 %r4, [%r3];\nst.global.u32 [%rd1], %r4;";
    run(32, &[0; 32], body);
    finds(32, &body.replace("bar.warp.sync 0xffffffff;", ""), FindingKind::Race);
}

/// Lanes that load the same word are checked together, and each of them counts.
#[test]
fn lanes_that_load_the_same_word_are_ordered_one_by_one() {
    let body = |store: u32, first: &str, then: &str, last: &str| {
        format!(
            "mov.u32 %r1, smem;\nsetp.eq.u32 %p0, %r0, {store};\nsetp.ne.u32 %p1, %r0, 7;\n@%p0 st.shared.u32 [%r1], 3;\n{first}\n\
             @%p1 ld.shared.u32 %r4, [%r1];\n{then}\n@%p0 st.shared.u32 [%r1], 4;\n{last}\n@%p1 st.global.u32 [%rd1], %r4;"
        )
    };
    let order = "bar.warp.sync 0xffffffff;";
    for store in [0, 1, 5, 31] {
        let out = run(32, &[0; 32], &body(store, order, order, ""));
        assert_eq!((out[0], out[7], out[31]), (3, 0, 3));
        finds(32, &body(store, "", order, ""), FindingKind::Race);
        finds(32, &body(store, order, "", ""), FindingKind::Race);
    }
    // The only lane that loads it is the one that stored it: program order is enough.
    let own = "mov.u32 %r1, smem;\nsetp.eq.u32 %p0, %r0, 9;\n@%p0 st.shared.u32 [%r1], 3;\n@%p0 ld.shared.u32 %r4, [%r1];\n\
               @%p0 st.shared.u32 [%r1], %r4;";
    run(32, &[0; 32], own);
}

#[test]
fn vectors_packs_and_conversions() {
    let body = "shl.b32 %r1, %r0, 4;\ncvt.u64.u32 %rd2, %r1;\nadd.u64 %rd2, %rd2, %rd0;\nsetp.ge.u32 %p0, %r0, 4;\n@%p0 exit;\n\
                ld.global.v4.u32 {%r2, %r3, %r4, %r5}, [%rd2];\nmov.b64 %rd3, {%r2, %r3};\nshr.u64 %rd3, %rd3, 32;\ncvt.u32.u64 %r2, %rd3;\n\
                mov.b32 {%h0, %h1}, %r4;\ncvt.f32.f16 %f0, %h0;\nadd.f32 %f0, %f0, 0f3F800000;\ncvt.rn.f16x2.f32 %r4, %f0, %f0;\n\
                st.global.v4.b32 [%rd2], {%r2, %r3, %r4, %r5};";
    let out = run(32, &[1, 7, 0x3c00, 9, 1, 8, 0x4000, 9, 0, 0, 0, 0, 0, 0, 0, 0], body);
    assert_eq!(out[..8], [7, 7, 0x4000_4000, 9, 8, 8, 0x4200_4200, 9]);
}

#[test]
fn atomics_of_all_threads() {
    let out = run(
        64,
        &[0; 64],
        "atom.global.add.u32 %r1, [%rd0], 1;\nred.global.max.u32 [%rd0 + 4], %r0;\natom.global.cas.b32 %r2, [%rd0 + 8], 0, %r0;",
    );
    assert_eq!((out[0], out[1]), (64, 63));
}

#[test]
fn mbarriers_of_threads() {
    let body = "mov.u32 %r1, smem;\nsetp.ne.u32 %p0, %r0, 0;\n@!%p0 mbarrier.init.shared::cta.b64 [%r1], 64;\nbar.sync 0;\n\
                mad.lo.u32 %r2, %r0, 4, %r1;\nst.shared.u32 [%r2 + 8], %r0;\nmbarrier.arrive.shared::cta.b64 _, [%r1];\n\
                $wait:\nmbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1], 0;\n@!%p1 bra $wait;\n\
                xor.b32 %r3, %r0, 63;\nmad.lo.u32 %r3, %r3, 4, %r1;\nld.shared.u32 %r4, [%r3 + 8];\nst.global.u32 [%rd1], %r4;";
    let out = run(64, &[0; 64], body);
    assert_eq!(out[0], 63);
    run(64, &[0; 64], &body.replace("try_wait", "test_wait"));
    finds(64, &body.replace("bar.sync 0;", ""), FindingKind::BarrierMisuse);
    finds(64, &body.replace("[%r1], 64", "[%r1], 65"), FindingKind::Deadlock);
    finds(64, &body.replace("[%r1], 64", "[%r1], 63"), FindingKind::Race);
    finds(64, &body.replace("_, [%r1];", "_, [%r1], 3;"), FindingKind::PhaseOverrun);
    finds(64, &body.replace("arrive.shared", "arrive.relaxed.cta.shared"), FindingKind::Race);
    races(64, &body.replace("[%r1], 0;\n@", "[%r1], 1;\n@"));
    finds(64, &body.replace("[%r2 + 8]", "[%r1 + 4]"), FindingKind::BarrierMisuse);
}

#[test]
fn cp_async_groups() {
    let body = "mov.u32 %r1, smem;\nmad.lo.u32 %r2, %r0, 4, %r1;\ncp.async.ca.shared.global [%r2], [%rd1], 4;\ncp.async.commit_group;\n\
                cp.async.wait_group 0;\nbar.sync 0;\nxor.b32 %r3, %r0, 31;\nmad.lo.u32 %r3, %r3, 4, %r1;\nld.shared.u32 %r4, [%r3];\nst.global.u32 [%rd1 + 128], %r4;";
    let words: Vec<u32> = (0..64).collect();
    let out = run(32, &words, body);
    assert_eq!((out[32], out[63]), (31, 0));
    races(32, &body.replace("cp.async.wait_group 0;", ""));
    finds(32, &body.replace("bar.sync 0;", ""), FindingKind::Race);
}

#[test]
fn bulk_copies_there_and_back() {
    let body = "mov.u32 %r1, smem;\nsetp.ne.u32 %p0, %r0, 0;\n@%p0 bra $end;\nmbarrier.init.shared::cta.b64 [%r1], 1;\nfence.proxy.async;\n\
                mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 128;\n\
                cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1 + 128], [%rd0], 128, [%r1];\n\
                $wait:\nmbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1], 0;\n@!%p1 bra $wait;\n\
                ld.shared.u32 %r2, [%r1 + 128];\nadd.u32 %r2, %r2, 100;\nst.shared.u32 [%r1 + 128], %r2;\nfence.proxy.async.shared::cta;\n\
                cp.async.bulk.global.shared::cta.bulk_group [%rd0 + 128], [%r1 + 128], 128;\ncp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\n$end:";
    let words: Vec<u32> = (5..69).collect();
    for schedule in [Schedule::Early, Schedule::Late, Schedule::Timed] {
        let (report, out) = run_with(32, &words, body, &Options { schedule, ..Options::default() });
        assert!(report.is_clean(), "{}", report.findings[0]);
        assert_eq!((out[32], out[33], out[63]), (105, 6, 36));
    }
    let add = "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%rd0 + 128]";
    let out = run(32, &words, &body.replace("cp.async.bulk.global.shared::cta.bulk_group [%rd0 + 128]", add));
    assert_eq!((out[32], out[33], out[63]), (37 + 105, 38 + 6, 68 + 36));
    finds(32, &body.replace("fence.proxy.async.shared::cta;", ""), FindingKind::MissingProxyFence);
    let other = body.replace("fence.proxy.async.shared::cta;", "fence.proxy.async.global;");
    finds(32, &other, FindingKind::MissingProxyFence);
    finds(32, &body.replace("fence.proxy.async;\n", ""), FindingKind::MissingInitFence);
    finds(32, &body.replace("cp.async.bulk.wait_group 0;", ""), FindingKind::ExitInFlight);
    races(32, &body.replace("@!%p1 bra $wait;", ""));
    finds(32, &body.replace("_, [%r1], 128", "_, [%r1], 64"), FindingKind::TransactionUnderflow);
}

#[test]
fn ldmatrix_undoes_stmatrix() {
    for trans in ["", ".trans"] {
        let body = format!(
            "mov.u32 %r1, smem;\nmad.lo.u32 %r2, %r0, 16, %r1;\nmad.lo.u32 %r4, %r0, 2, 1;\nshl.b32 %r3, %r4, 16;\nor.b32 %r3, %r3, %r0;\n\
             mov.u32 %r5, 5;\nmov.u32 %r6, 6;\nmov.u32 %r7, 7;\nstmatrix.sync.aligned.m8n8.x4{trans}.shared.b16 [%r2], {{%r3, %r5, %r6, %r7}};\nbar.warp.sync 0xffffffff;\n\
             ldmatrix.sync.aligned.m8n8.x4{trans}.shared.b16 {{%r8, %r9, %r10, %r11}}, [%r2];\nsub.u32 %r8, %r8, %r3;\nadd.u32 %r8, %r8, %r10;\nst.global.u32 [%rd1], %r8;"
        );
        assert!(run(32, &[0; 32], &body).iter().all(|v| *v == 6));
    }
    // Without .trans, lane l holds row l / 4, columns 2 (l % 4) and the next.
    let body = "mov.u32 %r1, smem;\nmad.lo.u32 %r2, %r0, 4, %r1;\nst.shared.u32 [%r2], %r0;\nbar.warp.sync 0xffffffff;\nand.b32 %r3, %r0, 7;\nmad.lo.u32 %r3, %r3, 16, %r1;\n\
                ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r4}, [%r3];\nst.global.u32 [%rd1], %r4;";
    assert!(run(32, &[0; 32], body).iter().enumerate().all(|(l, v)| *v == l as u32));
}

#[test]
fn mma_sync_multiplies() {
    // A = row index everywhere, B = 1: every element of D is 16 * row + C.
    let body = "shr.u32 %r1, %r0, 2;\ncvt.rn.f32.u32 %f0, %r1;\nadd.f32 %f1, %f0, 0f41000000;\ncvt.rn.f16x2.f32 %r2, %f0, %f0;\ncvt.rn.f16x2.f32 %r3, %f1, %f1;\n\
                mov.b32 %r4, 0x3c003c00;\nmov.f32 %f2, 0f3F800000;\n\
                mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f4, %f5, %f6, %f7}, {%r2, %r3, %r2, %r3}, {%r4, %r4}, {%f2, %f2, %f2, %f2};\n\
                add.f32 %f4, %f4, %f5;\nadd.f32 %f6, %f6, %f7;\nadd.f32 %f4, %f4, %f6;\ncvt.rzi.u32.f32 %r5, %f4;\nst.global.u32 [%rd1], %r5;";
    let out = run(32, &[0; 32], body);
    for (l, v) in out.iter().enumerate() {
        let row = l as u32 / 4;
        assert_eq!(*v, 2 * (16 * row + 1) + 2 * (16 * (row + 8) + 1));
    }
}

#[test]
fn wmma_multiplies() {
    // A and B are f16 at word 0 and 128; C = 0; D goes to word 256: D[i][j] = sum over k of A[i][k] * B[k][j].
    let half = |v: u32| u32::from(half::f16::from_f32(v as f32).to_bits());
    let a = |i: u32, k: u32| (i * 3 + k) % 7;
    let b = |k: u32, j: u32| (k + j * 5) % 6;
    let mut words = vec![0u32; 512];
    for i in 0..16 {
        for k in 0..8 {
            words[(i * 8 + k) as usize] = half(a(i, 2 * k)) | half(a(i, 2 * k + 1)) << 16;
            // B is stored by columns.
            words[(128 + i * 8 + k) as usize] = half(b(2 * k, i)) | half(b(2 * k + 1, i)) << 16;
        }
    }
    let regs = |from: u32| (from..from + 8).map(|i| format!("%r{i}")).collect::<Vec<_>>().join(", ");
    let floats = (0..8).map(|i| format!("%f{i}")).collect::<Vec<_>>().join(", ");
    let (ra, rb) = (regs(8), regs(16));
    let body = format!(
        "wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {{{ra}}}, [%rd0];\nwmma.load.b.sync.aligned.col.m16n16k16.global.f16 {{{rb}}}, [%rd0 + 512], 16;\n\
         wmma.load.c.sync.aligned.row.m16n16k16.global.f32 {{{floats}}}, [%rd0 + 1024];\n\
         wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 {{{floats}}}, {{{ra}}}, {{{rb}}}, {{{floats}}};\n\
         wmma.store.d.sync.aligned.row.m16n16k16.global.f32 [%rd0 + 1024], {{{floats}}};"
    );
    let out = run(32, &words, &body);
    for i in 0..16 {
        for j in 0..16 {
            let want: u32 = (0..16).map(|k| a(i, k) * b(k, j)).sum();
            assert_eq!(f32::from_bits(out[(256 + i * 16 + j) as usize]), want as f32, "{i}, {j}");
        }
    }
}

#[test]
fn register_budgets() {
    // 256 threads: 256 registers each at entry. The first warpgroup gives, the second takes.
    let body = "setp.lt.u32 %p0, %r0, 128;\n@%p0 bra $give;\nsetmaxnreg.inc.sync.aligned.u32 240;\nbra $end;\n$give:\nsetmaxnreg.dec.sync.aligned.u32 40;\n$end:";
    let kernel = |threads: u32, body: &str| {
        let text = format!(
            ".version 8.0\n.target sm_90a\n.visible .entry k()\n.maxntid {threads}, 1, 1\n{{\n.reg .b32 %r<2>;\n.reg .pred %p<2>;\nmov.u32 %r0, %tid.x;\n{body}\nret;\n}}\n"
        );
        let module = parse(&text).unwrap();
        let launch = one_cta(threads, 0, vec![]);
        simulate(&module, "k", &launch, &mut GlobalMemory::new(), &Options::default()).unwrap()
    };
    // 512 threads: 128 each at entry; 3 x 240 + 40 is more than 4 x 128.
    assert!(kernel(256, body).is_clean());
    // A kernel that requests no more than 160 is compiled for 160; of one that requests 240 elsewhere, 160 gives nothing.
    assert!(kernel(256, &body.replace("240", "160")).is_clean());
    let two = body.replace(".dec.sync.aligned.u32 40", ".inc.sync.aligned.u32 160");
    assert_eq!(kernel(256, &two).findings[0].kind, FindingKind::RegisterPool);
    assert_eq!(kernel(512, body).findings[0].kind, FindingKind::Deadlock);
    assert!(kernel(512, &body.replace("240", "152")).is_clean());
    assert_eq!(kernel(256, &body.replace("dec.", "inc.")).findings[0].kind, FindingKind::RegisterPool);
    // One warp of the warpgroup does not execute it.
    let skips = body.replace("$give:\n", "$give:\nsetp.lt.u32 %p1, %r0, 32;\n@%p1 bra $end;\n");
    let report = kernel(256, &skips);
    assert!(report.findings.iter().any(|f| f.kind == FindingKind::RegisterPool), "{:?}", report.findings);
    assert_eq!(
        kernel(512, &body.replace("dec.sync.aligned.u32 40", "dec.sync.aligned.u32 248")).findings[0].kind,
        FindingKind::RegisterPool
    );
}

#[test]
fn shared_memory_of_the_other_block() {
    let body = "mov.u32 %r1, smem;\nmov.u32 %r2, %cluster_ctarank;\nadd.u32 %r3, %r2, 40;\nst.shared.u32 [%r1], %r3;\n\
                barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;\nxor.b32 %r2, %r2, 1;\nmapa.shared::cluster.u32 %r4, %r1, %r2;\n\
                ld.shared::cluster.u32 %r5, [%r4];\nbarrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;\n\
                ld.param.u64 %rd0, [out];\nmov.u32 %r6, %ctaid.x;\nmad.wide.u32 %rd0, %r6, 4, %rd0;\nst.global.u32 [%rd0], %r5;";
    let cluster = |body: &str, seed: u64| {
        let text = format!(
            ".version 8.0\n.target sm_90a\n.extern .shared .align 16 .b8 smem[];\n.visible .entry k(.param .u64 out)\n{{\n.reg .b32 %r<8>;\n.reg .b64 %rd<2>;\n{body}\nret;\n}}\n"
        );
        let module = parse(&text).unwrap();
        let mut memory = GlobalMemory::new();
        let id = memory.alloc(8, 16);
        let launch = Launch {
            grid: [2, 1, 1],
            cluster: [2, 1, 1],
            block: [1, 1, 1],
            shared_bytes: 16,
            params: vec![Param::Buffer(id)],
        };
        let report = simulate(&module, "k", &launch, &mut memory, &Options { seed, ..Options::default() }).unwrap();
        (report, memory.bytes(id).to_vec())
    };
    let (report, out) = cluster(body, 0);
    assert!(report.is_clean(), "{}", report.findings[0]);
    assert_eq!((out[0], out[4]), (41, 40));
    let pair = "barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;\n";
    let without = |nth: usize| {
        let parts: Vec<&str> = body.split(pair).collect();
        if nth == 0 {
            format!("{}{}{pair}{}", parts[0], parts[1], parts[2])
        } else {
            format!("{}{pair}{}{}", parts[0], parts[1], parts[2])
        }
    };
    assert!((0..8).any(|s| !cluster(&without(0), s).0.is_clean()));
    assert!((0..32).any(|s| cluster(&without(1), s).0.findings.iter().any(|f| f.kind == FindingKind::ExitInFlight)));
    let (report, _) = cluster(&body.replace("arrive.release", "arrive.relaxed"), 0);
    assert_eq!(report.findings[0].kind, FindingKind::Race);
    let (report, _) = cluster(&body.replacen("barrier.cluster.arrive.release.aligned;\n", "", 1), 0);
    assert_eq!(report.findings[0].kind, FindingKind::ClusterBarrierMisuse);
}

#[test]
fn special_registers() {
    let out = run(
        64,
        &[0; 64],
        "mov.u32 %r1, %laneid;\nmov.u32 %r2, %warpid;\nmov.u32 %r3, %ntid.x;\nmad.lo.u32 %r1, %r2, 1000, %r1;\nadd.u32 %r1, %r1, %r3;\nst.global.u32 [%rd1], %r1;",
    );
    assert_eq!((out[5], out[40]), (69, 1072));
}

#[test]
fn endless_loops_and_traps_end() {
    let (report, _) = run_with(32, &[0; 32], "$l:\nbra $l;", &Options { max_steps: 10_000, ..Options::default() });
    assert_eq!(report.findings[0].kind, FindingKind::StepLimit);
    finds(32, "trap;", FindingKind::Trap);
    finds(32, "mov.u32 %r1, 0;\ndiv.u32 %r1, %r0, %r1;", FindingKind::Trap);
}

#[test]
fn clusters_do_not_share_bytes() {
    let text = ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 data)\n{\n.reg .b64 %rd<2>;\n.reg .b32 %r<2>;\n\
                ld.param.u64 %rd0, [data];\nmov.u32 %r0, %tid.x;\nmad.wide.u32 %rd0, %r0, 4, %rd0;\nst.global.u32 [%rd0], %r0;\nret;\n}\n";
    let module = parse(text).unwrap();
    let mut memory = GlobalMemory::new();
    let id = memory.alloc(128, 16);
    let launch = Launch {
        grid: [2, 1, 1],
        cluster: [1; 3],
        block: [32, 1, 1],
        shared_bytes: 0,
        params: vec![Param::Buffer(id)],
    };
    let report = simulate(&module, "k", &launch, &mut memory, &Options::default()).unwrap();
    assert_eq!(report.findings[0].kind, FindingKind::ClusterRace);
}

#[test]
fn registers_that_nothing_has_written_are_found_where_they_matter() {
    let kind = FindingKind::UninitialisedRegister;
    finds(32, "add.u32 %r5, %r4, 1;\nst.global.u32 [%rd1], %r5;", kind);
    finds(32, "@%p3 bra $out;\n$out:", kind);
    finds(32, "setp.eq.u32 %p0, %r4, 0;\n@%p0 st.global.u32 [%rd1], %r0;", kind);
    // One lane of a guarded write.
    finds(32, "setp.lt.u32 %p0, %r0, 31;\n@%p0 mov.u32 %r4, 1;\nst.global.u32 [%rd1], %r4;", kind);
    // A value that nobody uses, or that a select leaves out, does no harm.
    run(
        32,
        &[0; 32],
        "add.u32 %r5, %r4, 1;\nsetp.lt.u32 %p0, %r0, 32;\nselp.u32 %r6, %r0, %r5, %p0;\nst.global.u32 [%rd1], %r6;",
    );
    run(
        32,
        &[0; 32],
        "setp.lt.u32 %p0, %r0, 8;\n@%p0 mov.u32 %r4, 1;\nadd.u32 %r4, %r4, 1;\n@%p0 st.global.u32 [%rd1], %r4;",
    );
}

#[test]
fn a_constant_load_of_what_the_kernel_writes_is_found() {
    let kind = FindingKind::ReadOnlyPath;
    finds(32, "st.global.u32 [%rd1], %r0;\nld.global.nc.u32 %r4, [%rd1];", kind);
    finds(32, "ld.global.nc.u32 %r4, [%rd1];\nred.global.add.u32 [%rd1], 1;", kind);
    run(32, &[0; 64], "ld.global.nc.u32 %r4, [%rd1+128];\nst.global.u32 [%rd1], %r4;");
}

#[test]
fn a_matrix_load_orders_the_lanes_whose_rows_it_reads() {
    // Each lane writes 16 bytes; ldmatrix.x4 reads lane l's row at the address that lane l, or l ^ 1, gives.
    let body = |of: &str, between: &str| {
        format!(
            "mov.u32 %r1, smem;\nmad.lo.u32 %r2, %r0, 16, %r1;\nst.shared.v4.u32 [%r2], {{%r0, %r0, %r0, %r0}};\n{between}\n\
             xor.b32 %r3, %r0, {of};\nmad.lo.u32 %r3, %r3, 16, %r1;\n\
             ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{%r4, %r5, %r6, %r7}}, [%r3];"
        )
    };
    run(32, &[0; 32], &body("0", ""));
    run(32, &[0; 32], &body("1", "bar.warp.sync 0xffffffff;"));
    finds(32, &body("1", ""), FindingKind::Race);
}
