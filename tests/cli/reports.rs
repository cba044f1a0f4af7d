//! Defects of public reports, in small kernels of our own: the kernel passes, and with the defect `bsr sanitize` names it.

use std::fs;

use super::bsr;

/// A kernel, and the defect of a report.
struct Report {
    /// Where it was reported.
    of: &'static str,
    threads: u32,
    /// What is found.
    class: &'static str,
    /// The words that are replaced, and by which.
    defect: (&'static str, &'static str),
    /// `%r0` is the thread, `%r1` shared memory, `%rd0` the result, `%rd1` the input: 1024 words each. `map` is a tensor map of the
    /// result as 16 lines of 64 words, with boxes of half a line.
    body: &'static str,
}

const REPORTS: [Report; 9] = [
    // A loop stages an operand by all threads, and both warpgroups multiply by it. "The loop-back __syncthreads() is missing":
    // the warpgroup that is first overwrites the operand, which the other one still reads.
    Report {
        of: "tile-ai/tilelang#2613",
        threads: 256,
        class: "race",
        defect: ("bar.sync 1;", ""),
        body: "and.b32 %r2, %r0, 127;\nshr.u32 %r3, %r0, 7;\nmad.lo.u32 %r4, %r0, 8, %r1;\nmad.lo.u32 %r5, %r3, 256, %r1;\n\
               add.u32 %r5, %r5, 2048;\nmad.lo.u32 %r6, %r2, 2, %r5;\nshr.u32 %r7, %r1, 4;\ncvt.u64.u32 %rd2, %r7;\n\
               or.b64 %rd2, %rd2, 0x1000080000;\nshr.u32 %r7, %r5, 4;\ncvt.u64.u32 %rd3, %r7;\nor.b64 %rd3, %rd3, 0x1000080000;\n\
               mov.u32 %r8, 0;\n$loop:\nmad.lo.u32 %r9, %r8, 0x04000400, 0x3c003c00;\nst.shared.v2.u32 [%r4], {%r9, %r9};\n\
               cvt.u16.u32 %h0, %r9;\nst.shared.u16 [%r6], %h0;\nfence.proxy.async.shared::cta;\nbar.sync 0;\n\
               setp.ne.u32 %p0, %r8, 0;\nwgmma.fence.sync.aligned;\n\
               wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %rd2, %rd3, %p0, 1, 1, 0, 0;\n\
               wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\nbar.sync 1;\nadd.u32 %r8, %r8, 1;\n\
               setp.lt.u32 %p1, %r8, 2;\n@%p1 bra $loop;\ncvt.rzi.u32.f32 %r10, %f0;\nmad.wide.u32 %rd4, %r0, 4, %rd0;\n\
               st.global.u32 [%rd4], %r10;",
    },
    // 48 of 64 threads write, and all read. The compiler "silently drops a required __syncthreads() when the active-thread
    // count isn't a multiple of 32".
    Report {
        of: "tile-ai/tilelang#2556",
        threads: 64,
        class: "race",
        defect: ("bar.sync 0;", ""),
        body: "mad.lo.u32 %r2, %r0, 4, %r1;\nsetp.ge.u32 %p0, %r0, 48;\n@%p0 bra $skip;\nst.shared.u32 [%r2], %r0;\n$skip:\n\
               bar.sync 0;\nxor.b32 %r3, %r0, 32;\nsetp.ge.u32 %p1, %r3, 48;\n@%p1 bra $end;\nmad.lo.u32 %r4, %r3, 4, %r1;\n\
               ld.shared.u32 %r5, [%r4];\nmad.wide.u32 %rd2, %r0, 4, %rd0;\nst.global.u32 [%rd2], %r5;\n$end:",
    },
    // "A __syncthreads() orders execution but does not bridge proxies": the store reads what threads have written. The CUDA
    // programming guide has the fence, too (Using TMA to transfer one-dimensional arrays).
    Report {
        of: "MoonshotAI/FlashKDA#24",
        threads: 128,
        class: "missing-proxy-fence",
        defect: ("fence.proxy.async.shared::cta;", ""),
        body: "mad.lo.u32 %r2, %r0, 4, %r1;\nst.shared.u32 [%r2], %r0;\nfence.proxy.async.shared::cta;\nbar.sync 0;\n\
               setp.ne.u32 %p0, %r0, 0;\n@%p0 bra $end;\ncp.async.bulk.global.shared::cta.bulk_group [%rd0], [%r1], 512;\n\
               cp.async.bulk.commit_group;\ncp.async.bulk.wait_group.read 0;\n$end:",
    },
    // The second class of the same report: "mbarrier.init was used by TMA complete-tx without fence.mbarrier_init".
    Report {
        of: "MoonshotAI/FlashKDA#24",
        threads: 128,
        class: "own-init-fence",
        defect: ("fence.mbarrier_init.release.cluster;", ""),
        body: "setp.ne.u32 %p0, %r0, 0;\n@!%p0 mbarrier.init.shared::cta.b64 [%r1+1024], 1;\n\
               fence.mbarrier_init.release.cluster;\nbar.sync 0;\n@%p0 bra $wait;\n\
               mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1+1024], 512;\n\
               cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1], 512, [%r1+1024];\n$wait:\n\
               mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1+1024], 0;\n@!%p1 bra $wait;\nmad.lo.u32 %r2, %r0, 4, %r1;\n\
               ld.shared.u32 %r3, [%r2];\nmad.wide.u32 %rd2, %r0, 4, %rd0;\nst.global.u32 [%rd2], %r3;",
    },
    // compute-sanitizer on an attention's backward pass: a race of a write, and "Missing wait" at a barrier. The report has no
    // cause; here a producer loads the next stage without waiting until the consumers have released it, and overtakes them.
    Report {
        of: "NVIDIA/cutlass#2626",
        threads: 64,
        class: "mbarrier-phase",
        defect: ("@!%p2 bra $empty;", ""),
        body: "setp.ne.u32 %p0, %r0, 0;\nadd.u32 %r2, %r1, 1024;\nadd.u32 %r3, %r1, 1032;\n\
               @!%p0 mbarrier.init.shared::cta.b64 [%r2], 1;\n@!%p0 mbarrier.init.shared::cta.b64 [%r3], 32;\n\
               fence.mbarrier_init.release.cluster;\nbar.sync 0;\nmov.u32 %r4, 0;\nmov.u32 %r9, 0;\nsetp.ge.u32 %p1, %r0, 32;\n\
               @%p1 bra $consumer;\n@%p0 bra $end;\n$producer:\nand.b32 %r5, %r4, 1;\nxor.b32 %r5, %r5, 1;\n$empty:\n\
               mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3], %r5;\n@!%p2 bra $empty;\n\
               mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 128;\nmad.wide.u32 %rd2, %r4, 128, %rd1;\n\
               cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd2], 128, [%r2];\n\
               add.u32 %r4, %r4, 1;\nsetp.lt.u32 %p3, %r4, 4;\n@%p3 bra $producer;\nbra $end;\n$consumer:\nand.b32 %r5, %r4, 1;\n\
               $full:\nmbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], %r5;\n@!%p2 bra $full;\nsub.u32 %r6, %r0, 32;\n\
               mad.lo.u32 %r7, %r6, 4, %r1;\nld.shared.u32 %r8, [%r7];\nadd.u32 %r9, %r9, %r8;\n\
               mbarrier.arrive.shared::cta.b64 _, [%r3];\nadd.u32 %r4, %r4, 1;\nsetp.lt.u32 %p3, %r4, 4;\n@%p3 bra $consumer;\n\
               mad.wide.u32 %rd3, %r6, 4, %rd0;\nst.global.u32 [%rd3], %r9;\n$end:",
    },
    // A kernel of a programmatic dependent launch has "no calls to wait_on_dependent_grids()".
    Report {
        of: "NVIDIA/cutlass#2760",
        threads: 32,
        class: "grid-dependency",
        defect: ("griddepcontrol.wait;", ""),
        body: "griddepcontrol.wait;\nmad.wide.u32 %rd2, %r0, 4, %rd1;\nld.global.u32 %r2, [%rd2];\n\
               mad.wide.u32 %rd3, %r0, 4, %rd0;\nst.global.u32 [%rd3], %r2;",
    },
    // "Example 93 can overwrite shared maximum-reduction scratch before all four warps finish reading it."
    Report {
        of: "NVIDIA/cutlass#3597",
        threads: 128,
        class: "race",
        defect: ("bar.sync 1;", ""),
        body: "shr.u32 %r2, %r0, 5;\nand.b32 %r3, %r0, 31;\nsetp.ne.u32 %p0, %r3, 0;\nmad.lo.u32 %r4, %r2, 4, %r1;\n\
               @!%p0 st.shared.u32 [%r4], %r2;\nbar.sync 0;\nld.shared.v4.u32 {%r5, %r6, %r7, %r8}, [%r1];\nmax.u32 %r5, %r5, %r8;\n\
               bar.sync 1;\nadd.u32 %r9, %r2, 7;\n@!%p0 st.shared.u32 [%r4], %r9;\nbar.sync 0;\n\
               ld.shared.v4.u32 {%r6, %r7, %r8, %r9}, [%r1];\nadd.u32 %r5, %r5, %r9;\nmad.wide.u32 %rd2, %r0, 4, %rd0;\n\
               st.global.u32 [%rd2], %r5;",
    },
    // A store by TMA of part of a line: "a partial-region store whose innermost offset is not 16-byte aligned passes the gate", and the kernel
    // ends in an illegal instruction. The compiler writes the offset as the tensor's coordinate.
    Report {
        of: "tile-ai/tilelang#2527",
        threads: 32,
        class: "copy-start",
        defect: ("mov.u32 %r3, 4;", "mov.u32 %r3, 1;"),
        body: "mad.lo.u32 %r2, %r0, 4, %r1;\nst.shared.u32 [%r2], %r0;\nfence.proxy.async.shared::cta;\nbar.sync 0;\n\
               mov.b64 %rd2, map;\ncvta.param.u64 %rd2, %rd2;\nmov.u32 %r3, 4;\nmov.u32 %r4, 2;\nsetp.ne.u32 %p0, %r0, 0;\n@%p0 bra $end;\n\
               cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd2, {%r3, %r4}], [%r1];\ncp.async.bulk.commit_group;\n\
               cp.async.bulk.wait_group.read 0;\n$end:",
    },
    // A tile is written and "read back from other lanes without a warp barrier".
    Report {
        of: "JustVugg/colibri#1099",
        threads: 32,
        class: "race",
        defect: ("bar.warp.sync 0xffffffff;", ""),
        body: "mad.lo.u32 %r2, %r0, 4, %r1;\nst.shared.u32 [%r2], %r0;\nbar.warp.sync 0xffffffff;\nxor.b32 %r3, %r0, 5;\n\
               mad.lo.u32 %r3, %r3, 4, %r1;\nld.shared.u32 %r4, [%r3];\nmad.wide.u32 %rd2, %r0, 4, %rd0;\n\
               st.global.u32 [%rd2], %r4;",
    },
];

#[test]
fn defects_of_public_reports_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let (ptx, launch) = (folder.path().join("kernel.ptx"), folder.path().join("launch.toml"));
    for Report { of, threads, class, defect: (find, put), body } in REPORTS {
        let dependent = class == "grid-dependency";
        let words = |values: &str| format!("type = \"u32\"\nshape = [1024]\nvalues = {values}\nalign = 128\n");
        fs::write(
            &launch,
            format!(
                "grid = 1\nblock = {threads}\nshared = 4096\ndependent = {dependent}\n[buffers.out]\n{}[buffers.in]\n{}\
                 [[params]]\nbuffer = \"out\"\n[[params]]\nbuffer = \"in\"\n\
                 [[params]]\ntensor_map = {{ buffer = \"out\", dims = [64, 16], strides = [256], box = [32, 1] }}\n",
                words("0"),
                words("\"index\"")
            ),
        )
        .unwrap();
        let found = |body: &str| {
            fs::write(
                &ptx,
                format!(
                    ".version 8.0\n.target sm_90a\n.address_size 64\n.extern .shared .align 1024 .b8 smem[];\n\
                     .visible .entry k(.param .u64 out, .param .u64 in, .param .align 64 .b8 map[128]) {{\n.reg .b16 %h<2>;\n.reg .b32 %r<16>;\n.reg .b64 %rd<8>;\n\
                     .reg .f32 %f<4>;\n.reg .pred %p<4>;\nmov.u32 %r0, %tid.x;\nmov.u32 %r1, smem;\nld.param.u64 %rd0, [out];\n\
                     ld.param.u64 %rd1, [in];\n{body}\nret;\n}}\n"
                ),
            )
            .unwrap();
            let args = ["sanitize", ptx.to_str().unwrap(), "--launch", launch.to_str().unwrap(), "--format", "json"];
            let assert = bsr(&args).assert();
            let report: serde_json::Value = serde_json::from_slice(&assert.get_output().stdout).unwrap();
            let all = report["findings"].as_array().unwrap().iter();
            all.map(|finding| finding["class"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(found(body), Vec::<String>::new(), "{of}: the kernel itself");
        assert!(body.contains(find), "{of}");
        let classes = found(&body.replacen(find, put, 1));
        assert!(classes.iter().any(|found| found == class), "{of}: {classes:?}");
    }
}
