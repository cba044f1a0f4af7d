//! Instructions that compilers of CUDA C++ emit for intrinsics, and what is refused by name.

use bsr_simulator::{FindingKind, Options, parse};

use crate::formats::{Format, run, words};

const HEAD: &str = ".version 8.7\n.target sm_90a";

/// Numbers of two threads in three: whole ranges, and small ones with a sign.
fn number(l: usize, seed: u32) -> u32 {
    let drawn = Format("u32").draw(l, seed) ^ Format("u32").draw(l, seed + 50).rotate_left(17);
    if l.is_multiple_of(3) { ((drawn % 64) as i32 - 32).cast_unsigned() } else { drawn }
}

/// Runs `body` in 32 threads with `%r2`, `%r3`, `%r4` three numbers of each thread; gives their `%r10`.
fn compute(body: &str) -> Vec<u32> {
    let bytes = |seed| (0..32).flat_map(|l| number(l, seed).to_le_bytes()).collect::<Vec<u8>>();
    let text = format!(
        "mul.wide.u32 %rd10, %r0, 4;\nadd.u64 %rd11, %rd10, %rd0;\nadd.u64 %rd12, %rd10, %rd1;\nadd.u64 %rd13, %rd10, %rd2;\n\
         ld.global.b32 %r2, [%rd11];\nld.global.b32 %r3, [%rd12];\nld.global.b32 %r4, [%rd13];\n{body}\nst.global.b32 [%rd11], %r10;"
    );
    let (report, out) = run(HEAD, 32, &[bytes(1), bytes(2), bytes(3)], &text, &Options::default());
    assert!(report.is_clean(), "{body}: {}", report.findings[0]);
    words(&out[0])
}

type Reference = fn(u32, u32, u32) -> u32;

fn signed(v: u32) -> i64 {
    i64::from(v.cast_signed())
}

fn low24(v: u32) -> i64 {
    i64::from(v.cast_signed() << 8 >> 8)
}

fn clamp(v: i64) -> u32 {
    v.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32 as u32
}

fn halves(a: u32, b: u32, f: impl Fn(i16, i16) -> i16) -> u32 {
    let part = |shift: u32| u32::from(f((a >> shift) as i16, (b >> shift) as i16).cast_unsigned()) << shift;
    part(0) | part(16)
}

#[test]
fn integers() {
    let all: &[(&str, Reference)] = &[
        ("mul24.lo.u32 %r10, %r2, %r3;", |a, b, _| (u64::from(a & 0xff_ffff) * u64::from(b & 0xff_ffff)) as u32),
        ("mul24.hi.s32 %r10, %r2, %r3;", |a, b, _| ((low24(a) * low24(b)) >> 16) as u32),
        ("mad24.lo.s32 %r10, %r2, %r3, %r4;", |a, b, c| ((low24(a) * low24(b)) as u32).wrapping_add(c)),
        ("mad24.hi.sat.s32 %r10, %r2, %r3, %r4;", |a, b, c| clamp(((low24(a) * low24(b)) >> 16) + signed(c))),
        ("add.sat.s32 %r10, %r2, %r3;", |a, b, _| clamp(signed(a) + signed(b))),
        ("sub.sat.s32 %r10, %r2, %r3;", |a, b, _| clamp(signed(a) - signed(b))),
        ("mad.hi.sat.s32 %r10, %r2, %r3, %r4;", |a, b, c| clamp(((signed(a) * signed(b)) >> 32) + signed(c))),
        ("add.u16x2 %r10, %r2, %r3;", |a, b, _| halves(a, b, i16::wrapping_add)),
        ("min.s16x2 %r10, %r2, %r3;", |a, b, _| halves(a, b, i16::min)),
        ("max.u16x2 %r10, %r2, %r3;", |a, b, _| halves(a, b, |x, y| (x as u16).max(y as u16) as i16)),
        ("max.relu.s16x2 %r10, %r2, %r3;", |a, b, _| halves(a, b, |x, y| x.max(y).max(0))),
        ("min.relu.s32 %r10, %r2, %r3;", |a, b, _| signed(a).min(signed(b)).max(0) as u32),
        ("dp2a.lo.s32.u32 %r10, %r2, %r3, %r4;", |a, b, c| {
            let sum =
                i64::from(a as i16) * i64::from(b as u8) + i64::from((a >> 16) as i16) * i64::from((b >> 8) as u8);
            c.wrapping_add(sum as u32)
        }),
        ("dp2a.hi.u32.s32 %r10, %r2, %r3, %r4;", |a, b, c| {
            let sum = i64::from(a as u16) * i64::from((b >> 16) as i8)
                + i64::from((a >> 16) as u16) * i64::from((b >> 24) as i8);
            c.wrapping_add(sum as u32)
        }),
        ("slct.u32.s32 %r10, %r2, %r3, %r4;", |a, b, c| if signed(c) >= 0 { a } else { b }),
        ("cvt.pack.sat.s16.s32 %r10, %r2, %r3;", |a, b, _| {
            let one = |v: u32| u32::from(signed(v).clamp(-32768, 32767) as u16);
            one(a) << 16 | one(b)
        }),
        ("cvt.pack.sat.u8.s32.b32 %r10, %r2, %r3, %r4;", |a, b, c| {
            let one = |v: u32| signed(v).clamp(0, 255) as u32;
            c << 16 | one(a) << 8 | one(b)
        }),
        ("mov.u32 %r11, 0;\nlop3.or.b32 %r11|%p0, %r2, %r3, %r4, 0x80, %p1;\nselp.u32 %r10, 1, 0, %p0;", |a, b, c| {
            u32::from(a & b & c != 0)
        }),
        ("set.lt.and.u32.s32 %r10, %r2, %r3, %p2;", |a, b, _| if signed(a) < signed(b) { u32::MAX } else { 0 }),
        ("add.cc.u32 %r11, %r2, %r3;\naddc.u32 %r10, %r4, 0;", |a, b, c| {
            c.wrapping_add(u32::from(a.checked_add(b).is_none()))
        }),
        ("sub.cc.u32 %r11, %r2, %r3;\nsubc.u32 %r10, %r4, 0;", |a, b, c| c.wrapping_sub(u32::from(a < b))),
        ("mad.lo.cc.u32 %r11, %r2, %r3, %r4;\nmadc.hi.u32 %r10, %r2, %r3, 0;", |a, b, c| {
            ((u64::from(a) * u64::from(b) + u64::from(c)) >> 32) as u32
        }),
    ];
    for (instruction, reference) in all {
        let body = format!("setp.ne.u32 %p1, 0, 0;\nsetp.eq.u32 %p2, 0, 0;\n{instruction}");
        for (l, found) in compute(&body).into_iter().enumerate() {
            let [a, b, c] = [1, 2, 3].map(|seed| number(l, seed));
            assert_eq!(found, reference(a, b, c), "{instruction} of {a:#x}, {b:#x}, {c:#x}");
        }
    }
}

#[test]
fn floats_and_predicates() {
    let all: &[(&str, Reference)] = &[
        ("mov.b32 %f0, %r2;\nmov.b32 %f1, %r3;\ncopysign.f32 %f2, %f0, %f1;\nmov.b32 %r10, %f2;", |a, b, _| {
            a & 1 << 31 | b & !(1 << 31)
        }),
        ("mov.b32 %f0, %r2;\ntestp.notanumber.f32 %p0, %f0;\nselp.u32 %r10, 1, 0, %p0;", |a, _, _| {
            u32::from(f32::from_bits(a).is_nan())
        }),
        (
            "shr.u32 %r5, %r2, 9;\nmov.b32 %f0, %r5;\ntestp.subnormal.f32 %p0, %f0;\nselp.u32 %r10, 1, 0, %p0;",
            |a, _, _| u32::from(f32::from_bits(a >> 9).is_subnormal()),
        ),
        (
            "setp.ge.f16x2 %p0|%p1, %r2, %r3;\nselp.u32 %r10, 1, 0, %p0;\nselp.u32 %r11, 2, 0, %p1;\nor.b32 %r10, %r10, %r11;",
            |a, b, _| {
                let half = |v: u32, shift: u32| half::f16::from_bits((v >> shift) as u16).to_f32();
                u32::from(half(a, 0) >= half(b, 0)) | u32::from(half(a, 16) >= half(b, 16)) << 1
            },
        ),
        ("mov.u64 %rd14, %rd0;\nisspacep.global %p0, %rd14;\nselp.u32 %r10, 1, 0, %p0;", |_, _, _| 1),
        (
            "cvt.u64.u32 %rd14, %r1;\ncvta.shared.u64 %rd14, %rd14;\nisspacep.shared %p0, %rd14;\nisspacep.global %p1, %rd14;\n\
          selp.u32 %r10, 1, 0, %p0;\nselp.u32 %r11, 2, 0, %p1;\nor.b32 %r10, %r10, %r11;",
            |_, _, _| 1,
        ),
        (
            "and.b32 %r5, %r2, 0x3fffffff;\nand.b32 %r6, %r3, 0x3fffffff;\nxor.b32 %r5, %r5, %r4;\nand.b32 %r5, %r5, 0xbfffffff;\nmov.b32 %f0, %r5;\n\
          mov.b32 %f1, %r6;\nmin.xorsign.abs.f32 %f2, %f0, %f1;\nmov.b32 %r10, %f2;",
            |a, b, c| {
                let (a, b) = ((a & 0x3fff_ffff ^ c) & 0xbfff_ffff, b & 0x3fff_ffff);
                (a & !(1 << 31)).min(b & !(1 << 31)) | (a ^ b) & 1 << 31
            },
        ),
    ];
    for (body, reference) in all {
        for (l, found) in compute(body).into_iter().enumerate() {
            let [a, b, c] = [1, 2, 3].map(|seed| number(l, seed));
            assert_eq!(found, reference(a, b, c), "{body} of {a:#x}, {b:#x}, {c:#x}");
        }
    }
}

#[test]
fn memory() {
    // Two sums at once: each thread gets another old value.
    let body = "mov.f32 %f4, 0f3f800000;\natom.global.add.v2.f32 {%f1, %f2}, [%rd0], {%f4, %f4};\ncvt.rzi.u32.f32 %r2, %f2;\n\
                mul.wide.u32 %rd10, %r2, 4;\nadd.u64 %rd10, %rd10, %rd1;\nst.global.u32 [%rd10], 1;";
    let (report, out) = run(HEAD, 32, &[vec![0; 16], vec![0; 128]], body, &Options::default());
    assert!(report.is_clean(), "{}", report.findings[0]);
    assert_eq!(words(&out[0])[..3], [32f32.to_bits(), 32f32.to_bits(), 0]);
    assert_eq!(words(&out[1]), [1; 32]);
    // A halfword is exchanged by one thread alone.
    let body = "cvt.u16.u32 %h0, %r0;\nadd.u16 %h0, %h0, 1;\nmov.u16 %h1, 0;\natom.global.cas.b16 %h2, [%rd0 + 2], %h1, %h0;\n\
                setp.eq.u16 %p0, %h2, 0;\n@%p0 atom.global.add.u32 %r5, [%rd1], 1;";
    let (report, out) = run(HEAD, 32, &[vec![0; 8], vec![0; 4]], body, &Options::default());
    assert!(report.is_clean(), "{}", report.findings[0]);
    assert_eq!(words(&out[1]), [1]);
    assert!(out[0][..2] == [0, 0] && out[0][2] != 0);
    // What is ignored is zero, and not read.
    let body = "mad.lo.u32 %r2, %r0, 4, %r1;\nmul.wide.u32 %rd10, %r0, 4;\nadd.u64 %rd11, %rd10, %rd0;\nsetp.ge.u32 %p0, %r0, 16;\n\
                cp.async.ca.shared.global [%r2], [%rd11], 4, %p0;\ncp.async.wait_all;\nld.shared.u32 %r3, [%r2];\nadd.u64 %rd12, %rd10, %rd1;\n\
                st.global.u32 [%rd12], %r3;";
    let sixteen = (1..17u32).flat_map(u32::to_le_bytes).collect();
    let (report, out) = run(HEAD, 32, &[sixteen, vec![0xff; 128]], body, &Options::default());
    assert!(report.is_clean(), "{}", report.findings[0]);
    let want: Vec<u32> = (1..17).chain([0; 16]).collect();
    assert_eq!(words(&out[1]), want);
}

#[test]
fn the_state_of_an_mbarrier_has_its_pending_count() {
    let body = "mov.u32 %r10, 0;\nmov.u32 %r11, 0;\nsetp.ne.u32 %p0, %r0, 0;\n@%p0 bra $end;\nmbarrier.init.shared::cta.b64 [%r1], 3;\n\
                mbarrier.arrive.shared::cta.b64 %rd10, [%r1];\nmbarrier.arrive.shared::cta.b64 %rd11, [%r1], 2;\n\
                mbarrier.pending_count.b64 %r10, %rd10;\nmbarrier.pending_count.b64 %r11, %rd11;\n\
                mbarrier.test_wait.shared::cta.b64 %p1, [%r1], %rd11;\n@%p1 add.u32 %r11, %r11, 100;\nst.global.u32 [%rd0], %r10;\n\
                st.global.u32 [%rd0 + 4], %r11;\n$end:";
    let (report, out) = run(HEAD, 32, &[vec![0; 8]], body, &Options::default());
    assert!(report.is_clean(), "{}", report.findings[0]);
    assert_eq!(words(&out[0]), [3, 102]);
}

#[test]
fn a_carry_that_nobody_gave_is_undefined() {
    let (report, _) =
        run(HEAD, 32, &[vec![0; 128]], "addc.u32 %r2, %r0, 0;\nst.global.u32 [%rd0], %r2;", &Options::default());
    assert!(report.findings.iter().any(|f| f.kind == FindingKind::UninitialisedRegister), "{:?}", report.findings);
}

#[test]
fn refusals_have_a_reason() {
    for (instruction, reason) in [
        ("tex.2d.v4.f32.f32 {%f0, %f1, %f2, %f3}, [%rd0, {%f4, %f5}];", "`tex` is not modelled: textures"),
        ("suld.b.1d.b32.trap %r0, [%rd0, {%r1}];", "`suld` is not modelled: surfaces"),
        ("multimem.red.global.add.f32 [%rd0], %f0;", "memory of several GPUs"),
        ("vadd2.s32.s32.s32 %r0, %r1, %r2, %r3;", "video instructions"),
        ("alloca.u64 %rd0, 16;", "local memory has the size"),
        ("mov.u32 %r0, %envreg1;", "the special register `%envreg1` is not modelled"),
    ] {
        let text = format!(
            "{HEAD}\n.visible .entry k()\n{{\n.reg .b32 %r<8>;\n.reg .b64 %rd<4>;\n.reg .f32 %f<8>;\n{instruction}\nret;\n}}"
        );
        let message = parse(&text).unwrap_err().to_string();
        assert!(message.contains(reason), "{instruction}: {message}");
    }
}
