//! `wgmma` of 8-bit types: integers exactly, FP8 in all four mixes; A by descriptor and from registers.

use crate::formats::{Format, bytes, list, run, words};
use bsr_simulator::{Options, parse};

const K: usize = 32;
/// Where B lies in shared memory, after the 64 rows of A.
const B_AT: usize = 4096;

/// A matrix of rows of 32 bytes as core matrices of 8 rows by 16 bytes: two along k, then the next 8 rows.
fn cores(rows: usize, element: impl Fn(usize, usize) -> u32) -> Vec<u8> {
    let mut out = vec![0; rows * K];
    for row in 0..rows {
        for k in 0..K {
            out[row / 8 * 256 + k / 16 * 128 + row % 8 * 16 + k % 16] = element(row, k) as u8;
        }
    }
    out
}

/// D of one `wgmma` into accumulators that `start` gives by row and column.
fn multiply(
    n: usize,
    (d, a, b): (&str, Format, Format),
    suffix: &str,
    registers: bool,
    start: impl Fn(usize, usize) -> u32,
) -> Vec<u32> {
    let left = |m: usize, k: usize| a.draw(m * K + k, 1);
    let right = |n: usize, k: usize| b.draw(n * K + k, 2);
    let plain = bytes(a, (0..64 * K).map(|i| left(i / K, i % K)));
    // Row and column of accumulator i of a thread.
    let at = |t: usize, i: usize| (t / 32 * 16 + t % 32 / 4 + i / 2 % 2 * 8, i / 4 * 8 + t % 4 * 2 + i % 2);
    let places = || (0..128).flat_map(|t| (0..n / 2).map(move |i| (t, i))).map(|(t, i)| at(t, i));
    let acc = bytes(Format("f32"), places().map(|(m, n)| start(m, n)));
    let regs = if d == "f32" { list("%f", 0, n / 2) } else { list("%r", 40, n / 2) };
    let mut body = String::new();
    // Operands to shared memory, word by word.
    for (buffer, offset, size) in [(0, 0, 64 * K), (1, B_AT, n * K)] {
        body += &format!(
            "mov.u32 %r2, %r0;\n$copy{buffer}:\nmad.wide.u32 %rd10, %r2, 4, %rd{buffer};\nsetp.ge.u32 %p0, %r2, {words};\n\
             @%p0 bra $copied{buffer};\nld.global.b32 %r3, [%rd10];\nmad.lo.u32 %r4, %r2, 4, %r1;\nst.shared.b32 [%r4 + {offset}], %r3;\n\
             add.u32 %r2, %r2, 128;\nbra $copy{buffer};\n$copied{buffer}:\n",
            words = size / 4
        );
    }
    body += &format!(
        "bar.warp.sync 0xffffffff;\nfence.proxy.async.shared::cta;\nbar.sync 0;\nmad.wide.u32 %rd11, %r0, {}, %rd3;\n",
        n * 2
    );
    for i in 0..n / 2 {
        let ty = if d == "f32" { ("f32", format!("%f{i}")) } else { ("b32", format!("%r{}", 40 + i)) };
        body += &format!("ld.global.{} {}, [%rd11 + {}];\n", ty.0, ty.1, i * 4);
    }
    // Descriptors: 128 bytes between core matrices along k, 256 between groups of 8 rows.
    let desc = 128u64 >> 4 << 16 | 256u64 >> 4 << 32;
    body += &format!(
        "bfe.u32 %r5, %r1, 4, 14;\ncvt.u64.u32 %rd12, %r5;\nor.b64 %rd12, %rd12, {desc};\nadd.u64 %rd13, %rd12, {};\n",
        B_AT >> 4
    );
    let mut first = "%rd12".to_owned();
    if registers {
        body += "shr.u32 %r6, %r0, 5;\nshl.b32 %r6, %r6, 4;\nand.b32 %r7, %r0, 31;\nshr.u32 %r8, %r7, 2;\nadd.u32 %r6, %r6, %r8;\n\
                 and.b32 %r7, %r7, 3;\nshl.b32 %r7, %r7, 2;\nmad.lo.u32 %r6, %r6, 32, %r7;\ncvt.u64.u32 %rd14, %r6;\nadd.u64 %rd14, %rd14, %rd2;\n";
        for (i, (row, k)) in [(0, 0), (8, 0), (0, 16), (8, 16)].into_iter().enumerate() {
            body += &format!("ld.global.b32 %r{}, [%rd14 + {}];\n", 10 + i, row * K + k);
        }
        first = list("%r", 10, 4);
    }
    let scales = if d == "f32" { ", 1, 1" } else { "" };
    body += &format!(
        "setp.eq.u32 %p1, 0, 0;\nwgmma.fence.sync.aligned;\n\
         wgmma.mma_async.sync.aligned.m64n{n}k32.{d}.{}.{}{suffix} {regs}, {first}, %rd13, %p1{scales};\n\
         wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n",
        a.0, b.0
    );
    for i in 0..n / 2 {
        let name = if d == "f32" { format!("%f{i}") } else { format!("%r{}", 40 + i) };
        body += &format!("st.global.b32 [%rd11 + {}], {name};\n", i * 4);
    }
    let buffers = [cores(64, left), cores(n, right), plain, acc];
    let head = ".version 8.4\n.target sm_90a";
    let (report, out) = run(head, 128, &buffers, &body, &Options { seed: 3, ..Options::default() });
    assert!(report.is_clean(), "{}", report.findings[0]);
    assert_eq!(report.cost.tensor_cycles, n as u64 / 2);
    let mut all = vec![0; 64 * n];
    for ((m, column), v) in places().zip(words(&out[3])) {
        all[m * n + column] = v;
    }
    all
}

fn exact(a: Format, b: Format, m: usize, n: usize) -> (f64, f64) {
    let products = (0..K).map(|k| a.value(a.draw(m * K + k, 1)) * b.value(b.draw(n * K + k, 2)));
    products.fold((0.0, 0.0), |(s, t), p| (s + p, t + p.abs()))
}

fn integers(n: usize, a: &'static str, b: &'static str, saturate: bool, registers: bool) -> usize {
    let (a, b) = (Format(a), Format(b));
    let start = |m: usize, column: usize| {
        let near = (m as i32 * 3000) & 0xffff;
        (if column.is_multiple_of(2) { i32::MAX - near } else { i32::MIN + near }) as u32
    };
    let suffix = if saturate { ".satfinite" } else { "" };
    let d = multiply(n, ("s32", a, b), suffix, registers, start);
    let mut left = 0;
    for m in 0..64 {
        for column in 0..n {
            let sum = exact(a, b, m, column).0 as i64 + i64::from(start(m, column) as i32);
            let clamped = sum.clamp(i64::from(i32::MIN), i64::from(i32::MAX));
            left += usize::from(clamped != sum);
            let want = if saturate { clamped as i32 } else { sum as i32 };
            assert_eq!(d[m * n + column] as i32, want, "n {n} {a:?} {b:?} saturate {saturate} at {m}, {column}");
        }
    }
    left
}

#[test]
fn integers_of_every_width() {
    let mut widths = vec![8, 24];
    widths.extend((16..=256).step_by(16));
    for n in widths {
        assert!(integers(n, "s8", "s8", n % 32 == 0, false) > n);
    }
}

#[test]
fn integers_of_every_sign_and_from_registers() {
    for (a, b) in [("s8", "s8"), ("s8", "u8"), ("u8", "s8"), ("u8", "u8")] {
        for (saturate, registers) in [(false, false), (true, true)] {
            assert!(integers(48, a, b, saturate, registers) > 48);
        }
    }
}

#[test]
fn fp8_in_all_mixes() {
    for a in ["e4m3", "e5m2"] {
        for b in ["e4m3", "e5m2"] {
            for (n, registers) in [(8, true), (40, false), (136, true), (256, false)] {
                let (a, b) = (Format(a), Format(b));
                let start = |m: usize, column: usize| Format("f32").draw(m * n + column, 3);
                let d = multiply(n, ("f32", a, b), "", registers, start);
                for m in 0..64 {
                    for column in 0..n {
                        let (sum, size) = exact(a, b, m, column);
                        let want = sum + f64::from(f32::from_bits(start(m, column)));
                        let got = f64::from(f32::from_bits(d[m * n + column]));
                        assert!((got - want).abs() <= 1e-6 * (size + 4.0), "{a:?} {b:?} n {n}: {got}, not {want}");
                    }
                }
            }
        }
    }
}

#[test]
fn what_integers_do_not_have_is_refused() {
    let refused = |instruction: &str| {
        let text = format!(
            ".version 8.7\n.target sm_90a\n.visible .entry k()\n{{\n.reg .b32 %r<200>;\n.reg .b64 %rd<4>;\n.reg .f32 %f<8>;\n.reg .pred %p0;\n{instruction}\nret;\n}}"
        );
        parse(&text).unwrap_err().to_string()
    };
    let d = list("%r", 0, 20);
    for (instruction, wanted) in [
        (
            format!("wgmma.mma_async.sync.aligned.m64n40k32.s32.s8.s8 {d}, %rd0, %rd1, %p0;"),
            "wgmma of .s8 has n = 8, 24 or a multiple of 16; this says 40",
        ),
        (
            "wgmma.mma_async.sync.aligned.m64n8k32.s32.s8.s8 {%r0, %r1, %r2, %r3}, %rd0, %rd1, %p0, 1, 1;".into(),
            "takes 4 operands and has 6",
        ),
        (
            "wgmma.mma_async.sync.aligned.m64n8k16.s32.s8.s8 {%r0, %r1, %r2, %r3}, %rd0, %rd1, %p0;".into(),
            "wgmma of .s8 has k = 32; this says 16",
        ),
        (
            "wgmma.mma_async.sync.aligned.m64n8k32.s32.s8.s8 {%f0, %f1, %f2, %f3}, %rd0, %rd1, %p0;".into(),
            "`%f0` is a .f32 register",
        ),
    ] {
        let got = refused(&instruction);
        assert!(got.contains(wanted), "{instruction}\n  wanted {wanted}\n  got    {got}");
    }
}
