//! What kernels without a tensor core use: grids of two dimensions, vector accesses, packed arithmetic, conversions,
//! atomic additions, and `cp.async` that reads less than it writes.

use crate::formats::{Format, run, words};
use bsr_simulator::{FindingKind, GlobalMemory, Launch, Options, Param, Schedule, parse, simulate};
use half::{bf16, f16};

const SM_70: &str = ".version 6.3\n.target sm_70";
const SM_80: &str = ".version 7.4\n.target sm_80";
const SM_90: &str = ".version 8.1\n.target sm_90";

/// Runs `body` in one warp on one buffer of words, `%rd5` the thread's word of it; gives the words after.
fn warp(head: &str, input: impl Fn(u32) -> u32, body: &str) -> Vec<u32> {
    let bytes = (0..256).flat_map(|i| input(i).to_le_bytes()).collect();
    let body = format!("mad.wide.u32 %rd5, %r0, 4, %rd0;\n{body}");
    let (report, out) = run(head, 32, &[bytes], &body, &Options::default());
    assert!(report.is_clean(), "{}", report.findings[0]);
    words(&out[0])
}

fn pair(low: f32, high: f32) -> u32 {
    u32::from(f16::from_f32(low).to_bits()) | u32::from(f16::from_f32(high).to_bits()) << 16
}

fn brain(low: f32, high: f32) -> u32 {
    u32::from(bf16::from_f32(low).to_bits()) | u32::from(bf16::from_f32(high).to_bits()) << 16
}

/// Every block of a 5 x 3 grid adds to the one word that all share and writes its own.
#[test]
fn grids_of_two_dimensions_and_static_shared_memory() {
    let text = ".version 6.0\n.target sm_70\n.address_size 64\n.shared .align 16 .b8 outer[64];\n\
        .visible .entry k(.param .u64 out, .param .u64 sum)\n{\n.reg .b32 %r<12>;\n.reg .b64 %rd<4>;\n.reg .f32 %f0;\n\
        .shared .align 16 .b8 inner[128];\n\
        ld.param.u64 %rd0, [out];\nld.param.u64 %rd1, [sum];\nmov.u32 %r0, %tid.x;\nmov.u32 %r1, %ctaid.x;\nmov.u32 %r2, %ctaid.y;\n\
        mov.u32 %r3, %nctaid.x;\nmov.u32 %r4, %nctaid.y;\nmad.lo.u32 %r5, %r2, %r3, %r1;\nmad.lo.u32 %r5, %r4, 100, %r5;\n\
        mov.u32 %r6, inner;\nmad.lo.u32 %r7, %r0, 4, %r6;\nst.shared.u32 [%r7], %r5;\nst.shared.u32 [outer], %r1;\nbar.sync 0;\n\
        xor.b32 %r8, %r0, 31;\nmad.lo.u32 %r8, %r8, 4, %r6;\nld.shared.u32 %r9, [%r8];\n\
        mad.lo.u32 %r10, %r2, %r3, %r1;\nmad.lo.u32 %r10, %r10, 32, %r0;\nmad.wide.u32 %rd0, %r10, 4, %rd0;\nst.global.u32 [%rd0], %r9;\n\
        cvt.rn.f32.u32 %f0, %r1;\nred.global.add.f32 [%rd1], %f0;\nret;\n}\n";
    let mut memory = GlobalMemory::new();
    let (out, sum) = (memory.alloc(15 * 32 * 4, 16), memory.alloc(4, 16));
    let launch = Launch {
        grid: [5, 3, 1],
        cluster: [1; 3],
        block: [32, 1, 1],
        shared_bytes: 0,
        params: vec![Param::Buffer(out), Param::Buffer(sum)],
    };
    let report = simulate(&parse(text).unwrap(), "k", &launch, &mut memory, &Options::default()).unwrap();
    assert!(report.is_clean(), "{}", report.findings[0]);
    for (i, v) in words(memory.bytes(out)).into_iter().enumerate() {
        assert_eq!(v, 300 + i as u32 / 32);
    }
    assert_eq!(f32::from_bits(words(memory.bytes(sum))[0]), 3.0 * 32.0 * 10.0);
}

#[test]
fn vector_loads_and_stores_of_read_only_data() {
    let body = "mad.wide.u32 %rd6, %r0, 16, %rd0;\nprefetch.global.L2 [%rd6];\nld.global.nc.L1::no_allocate.v4.u32 {%r10, %r11, %r12, %r13}, [%rd6];\n\
                ld.global.v2.b32 {%r14, %r15}, [%rd6 + 8];\nadd.u32 %r10, %r10, %r14;\nadd.u32 %r11, %r11, %r15;\nbar.warp.sync 0xffffffff;\n\
                mad.wide.u32 %rd7, %r0, 16, %rd0;\nst.global.v4.u32 [%rd7 + 512], {%r13, %r12, %r11, %r10};";
    let head = ".version 7.4\n.target sm_70";
    let out = warp(head, |i| i * i, body);
    for t in 0..32 {
        let v = |j: u32| (4 * t + j) * (4 * t + j);
        let want = [v(3), v(2), v(1) + v(3), v(0) + v(2)];
        assert_eq!(out[128 + 4 * t as usize..][..4], want);
    }
}

#[test]
fn packed_arithmetic() {
    let input = |i: u32| if i < 32 { pair(i as f32 * 0.25 - 4.0, 3.0 - i as f32) } else { 0 };
    let body = "ld.global.b32 %r10, [%rd5];\nmul.f16x2 %r11, %r10, %r10;\nmov.b32 %r12, 0x3c00b800;\nfma.rn.f16x2 %r11, %r10, %r12, %r11;\nst.global.b32 [%rd5], %r11;";
    for (i, v) in warp(SM_70, input, body).into_iter().take(32).enumerate() {
        let (x, y) = (i as f32 * 0.25 - 4.0, 3.0 - i as f32);
        assert_eq!(v, pair(x * x - 0.5 * x, y * y + y), "{i}");
    }
    let input = |i: u32| if i < 32 { brain(i as f32 * 0.25 - 4.0, 3.0 - i as f32) } else { 0 };
    let body = "ld.global.b32 %r10, [%rd5];\nmov.b32 %r12, 0x3f803f80;\nfma.rn.bf16x2 %r11, %r10, %r10, %r12;\nst.global.b32 [%rd5], %r11;";
    for (i, v) in warp(SM_80, input, body).into_iter().take(32).enumerate() {
        let (x, y) = (i as f32 * 0.25 - 4.0, 3.0 - i as f32);
        assert_eq!(v, brain(x * x + 1.0, y * y + 1.0), "{i}");
    }
}

#[test]
fn conversions_among_all_formats() {
    // f32 -> f16 and back, on the oldest target.
    let body =
        "ld.global.f32 %f0, [%rd5];\ncvt.rn.f16.f32 %h0, %f0;\ncvt.f32.f16 %f1, %h0;\nst.global.f32 [%rd5], %f1;";
    let value = |i: u32| i as f32 * 1.37 - 20.1;
    for (i, v) in warp(SM_70, |i| value(i).to_bits(), body).into_iter().take(32).enumerate() {
        assert_eq!(f32::from_bits(v), f16::from_f32(value(i as u32)).to_f32());
    }
    // bf16, by instruction and by shift; both ways of packing.
    for widen in ["cvt.f32.bf16 %f1, %h0;", "cvt.u32.u16 %r9, %h0;\nshl.b32 %r9, %r9, 16;\nmov.b32 %f1, %r9;"] {
        let body = format!(
            "ld.global.f32 %f0, [%rd5];\ncvt.rn.bf16x2.f32 %r10, %f0, %f0;\nmov.b32 {{%h0, %h1}}, %r10;\n{widen}\nst.global.f32 [%rd5], %f1;"
        );
        for (i, v) in warp(SM_80, |i| value(i).to_bits(), &body).into_iter().take(32).enumerate() {
            assert_eq!(f32::from_bits(v), bf16::from_f32(value(i as u32)).to_f32());
        }
    }
    // Integers: s32 -> f32, f32 -> s32 and s8 with saturation.
    let body = "ld.global.b32 %r10, [%rd5];\ncvt.rn.f32.s32 %f0, %r10;\nmul.f32 %f0, %f0, 0f3F000000;\ncvt.rni.s32.f32 %r11, %f0;\ncvt.sat.s8.s32 %r12, %r11;\nst.global.b32 [%rd5], %r12;";
    let count = |i: u32| (i as i32 - 16) * 33;
    for (i, v) in warp(SM_70, |i| count(i) as u32, body).into_iter().take(32).enumerate() {
        let half = (f64::from(count(i as u32)) * 0.5).round_ties_even();
        assert_eq!(f64::from(v as i32), half.clamp(-128.0, 127.0), "{i}");
    }
}

#[test]
fn e4m3_saturates_and_round_trips() {
    let body = "ld.global.f32 %f0, [%rd5];\nneg.f32 %f1, %f0;\ncvt.rn.satfinite.e4m3x2.f32 %h0, %f1, %f0;\ncvt.rn.f16x2.e4m3x2 %r10, %h0;\nst.global.b32 [%rd5], %r10;";
    let value = |i: u32| if i == 31 { 1e6 } else { 0.0017 * 1.6f32.powi(i as i32) };
    let finite: Vec<f64> = (0..127).map(|b| Format("e4m3").value(b)).collect();
    for (i, v) in warp(SM_90, |i| value(i).to_bits(), body).into_iter().take(32).enumerate() {
        let want = f64::from(value(i as u32));
        let got = f16::from_bits(v as u16).to_f64();
        assert_eq!(v >> 16 ^ v & 0xffff, 0x8000, "the first source is the upper half");
        let best = finite.iter().map(|f| (f - want).abs()).fold(f64::INFINITY, f64::min);
        assert_eq!((got - want).abs(), best, "{want} became {got}");
    }
}

#[test]
fn additions_of_vectors_in_global_memory() {
    let body = "and.b32 %r10, %r0, 1;\nmad.wide.u32 %rd6, %r10, 16, %rd0;\ncvt.rn.f32.u32 %f0, %r0;\nadd.f32 %f1, %f0, %f0;\n\
                red.relaxed.gpu.global.add.v4.f32 [%rd6], {%f0, %f1, %f0, %f1};\n\
                mov.b32 %r11, 0x3c004000;\nred.global.add.noftz.v2.f16x2 [%rd6 + 64], {%r11, %r11};";
    let out = warp(SM_90, |_| 0, body);
    for j in 0..2u32 {
        let sum: u32 = (0..16).map(|t| 2 * t + j).sum();
        let found = &out[4 * j as usize..][..4];
        assert_eq!(
            found.iter().map(|bits| f32::from_bits(*bits)).collect::<Vec<_>>(),
            [1, 2, 1, 2].map(|n| (n * sum) as f32)
        );
        assert_eq!(out[16 + 4 * j as usize..][..2], [pair(32.0, 16.0); 2]);
    }
    // A vector is aligned to its size.
    for (offset, is_clean) in [(8, true), (4, false)] {
        let body = format!("mov.f32 %f0, 0f3F800000;\nred.global.add.v2.f32 [%rd0 + {offset}], {{%f0, %f0}};");
        let (report, _) = run(SM_90, 1, &[vec![0; 64]], &body, &Options::default());
        assert_eq!(report.is_clean(), is_clean, "{:?}", report.findings);
    }
}

#[test]
fn atomic_additions_of_floats() {
    let body = "and.b32 %r10, %r0, 3;\nmad.wide.u32 %rd6, %r10, 4, %rd0;\ncvt.rn.f32.u32 %f0, %r0;\nred.global.add.f32 [%rd6], %f0;\n\
                mov.b32 %r11, 0x3c004000;\nred.global.add.noftz.f16x2 [%rd6 + 64], %r11;";
    let out = warp(SM_70, |_| 0, body);
    for j in 0..4u32 {
        let sum: u32 = (0..8).map(|t| 4 * t + j).sum();
        assert_eq!(f32::from_bits(out[j as usize]), sum as f32);
        assert_eq!(out[16 + j as usize], pair(16.0, 8.0));
    }
    // Without .noftz it is no PTX.
    let text = format!(
        "{SM_70}\n.visible .entry k()\n{{\n.reg .b32 %r0;\n.reg .b64 %rd0;\nred.global.add.f16x2 [%rd0], %r0;\nret;\n}}"
    );
    assert!(parse(&text).unwrap_err().message.contains("`.f16x2` of"));
}

#[test]
fn fma_is_counted() {
    let body =
        "mov.f32 %f0, 0f3F800000;\nfma.rn.f32 %f1, %f0, %f0, %f0;\nmov.b32 %r2, 0;\nfma.rn.f16x2 %r3, %r2, %r2, %r2;";
    let (report, _) = run(SM_70, 32, &[vec![0; 16]], body, &Options::default());
    assert_eq!((report.cost.flops, report.cost.tensor_cycles), (32 * (2 + 4), 0));
}

/// Thread t copies 16 bytes of which t / 2 are read; the rest is zero, and nothing beyond the source is touched.
#[test]
fn cp_async_reads_less_than_it_writes() {
    let source: Vec<u8> = (0..512 + 15).map(|i| (i % 251 + 1) as u8).collect();
    let body = "shr.u32 %r10, %r0, 1;\nmad.lo.u32 %r11, %r0, 16, %r1;\nmul.wide.u32 %rd6, %r0, 16;\nadd.u64 %rd6, %rd6, %rd0;\n\
                cp.async.cg.shared.global.L2::128B [%r11], [%rd6], 16, %r10;\ncp.async.commit_group;\ncp.async.wait_group 0;\n\
                ld.shared.v4.b32 {%r12, %r13, %r14, %r15}, [%r11];\nmul.wide.u32 %rd7, %r0, 16;\nadd.u64 %rd7, %rd7, %rd1;\nst.global.v4.b32 [%rd7], {%r12, %r13, %r14, %r15};";
    let exact = source[..31 * 16 + 15].to_vec();
    let buffers = [exact, vec![0xee; 512]];
    let (report, out) = run(SM_80, 32, &buffers, body, &Options::default());
    assert!(report.is_clean(), "{}", report.findings[0]);
    for (i, v) in out[1].iter().enumerate() {
        let (thread, byte) = (i / 16, i % 16);
        assert_eq!(*v, if byte < thread / 2 { source[i] } else { 0 }, "thread {thread} byte {byte}");
    }
    // One byte more than there is, and more than the copy holds.
    let one_more = body.replace("shr.u32 %r10, %r0, 1;", "mov.u32 %r10, 16;");
    let kind = |body: &str| run(SM_80, 32, &buffers, body, &Options::default()).0.findings[0].kind;
    assert_eq!(kind(&one_more), FindingKind::OutOfBounds);
    assert_eq!(kind(&body.replace("shr.u32 %r10, %r0, 1;", "mov.u32 %r10, 17;")), FindingKind::OutOfBounds);
    // A thread waits for its own copies only: another's bytes need a barrier, and its own need the wait.
    let neighbour = body
        .replace("[%r11];\nmul", "[%r9];\nmul")
        .replace("cp.async.wait", "xor.b32 %r9, %r0, 1;\nmad.lo.u32 %r9, %r9, 16, %r1;\ncp.async.wait");
    assert_eq!(kind(&neighbour), FindingKind::Race);
    let ordered = neighbour.replace("wait_group 0;\n", "wait_group 0;\nbar.warp.sync 0xffffffff;\n");
    assert!(run(SM_80, 32, &buffers, &ordered, &Options::default()).0.is_clean());
    let early = body.replace("cp.async.wait_group 0;\n", "");
    let found =
        |schedule| run(SM_80, 32, &buffers, &early, &Options { schedule, ..Options::default() }).0.findings[0].kind;
    assert_eq!(found(Schedule::Early), FindingKind::Race);
    assert_eq!(found(Schedule::Late), FindingKind::UninitialisedRead);
    // Two copies of one thread to one place: nothing orders them.
    let twice = body.replace("cp.async.commit", "cp.async.cg.shared.global [%r11], [%rd6], 16, %r10;\ncp.async.commit");
    assert_eq!(kind(&twice), FindingKind::Race);
    let waited =
        twice.replacen("\ncp.async.cg.shared.global [", "\ncp.async.wait_all;\ncp.async.cg.shared.global [", 1);
    assert!(run(SM_80, 32, &buffers, &waited, &Options::default()).0.is_clean());
}
