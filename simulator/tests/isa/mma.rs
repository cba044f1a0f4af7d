//! `mma.sync` of every type and shape, with the fragments of the ISA's tables.

use crate::formats::{Format, bytes, list, run, words};
use bsr_simulator::{Options, parse};

/// Row and column of element `i` of thread `lane`'s fragment of A, as the ISA's tables state them.
fn a_at(element: usize, lane: usize, i: usize) -> (usize, usize) {
    let (group, thread) = (lane / 4, lane % 4);
    match element {
        1 => {
            let row = if i < 4 || (8..12).contains(&i) { group } else { group + 8 };
            (row, thread * 4 + i % 4 + if i < 8 { 0 } else { 16 })
        }
        2 => {
            let row = if i < 2 || (4..6).contains(&i) { group } else { group + 8 };
            (row, thread * 2 + i % 2 + if i < 4 { 0 } else { 8 })
        }
        _ => (if i.is_multiple_of(2) { group } else { group + 8 }, if i < 2 { thread } else { thread + 4 }),
    }
}

fn b_at(element: usize, lane: usize, i: usize) -> (usize, usize) {
    let (group, thread) = (lane / 4, lane % 4);
    match element {
        1 => (thread * 4 + i % 4 + if i < 4 { 0 } else { 16 }, group),
        2 => (thread * 2 + i % 2 + if i < 2 { 0 } else { 8 }, group),
        _ => (thread + i * 4, group),
    }
}

pub(crate) fn c_at(lane: usize, i: usize) -> (usize, usize) {
    (if i < 2 { lane / 4 } else { lane / 4 + 8 }, lane % 4 * 2 + i % 2)
}

struct Shape {
    k: usize,
    a: Format,
    b: Format,
    /// f32, f16 or s32.
    c: &'static str,
    saturate: bool,
}

/// Runs one instruction. `c` gives the accumulator's words (or f16 bits) by row and column; gives D the same way.
fn multiply(s: &Shape, head: &str, c: impl Fn(usize, usize) -> u32) -> Vec<u32> {
    let e = s.a.bytes();
    let (na, nb) = (16 * s.k * e / 128, 8 * s.k * e / 128);
    let per = 4 / e;
    let lanes = |n: usize| (0..32).flat_map(move |l| (0..n).map(move |i| (l, i)));
    let a = bytes(s.a, lanes(na * per).map(|(l, i)| a_at(e, l, i)).map(|(m, k)| s.a.draw(m * s.k + k, 1)));
    let b = bytes(s.b, lanes(nb * per).map(|(l, i)| b_at(e, l, i)).map(|(k, n)| s.b.draw(n * s.k + k, 2)));
    let half = s.c == "f16";
    let acc = Format(if half { "f16" } else { "f32" });
    let start = bytes(acc, lanes(4).map(|(l, i)| c_at(l, i)).map(|(m, n)| c(m, n)));
    let nc = if half { 2 } else { 4 };
    let mut body = String::new();
    for (buffer, first, n) in [(0, 10, na), (1, 20, nb), (2, 30, nc)] {
        body += &format!("mad.wide.u32 %rd{}, %r0, {}, %rd{buffer};\n", 10 + buffer, n * 4);
        for i in 0..n {
            body += &format!("ld.global.b32 %r{}, [%rd{} + {}];\n", first + i, 10 + buffer, i * 4);
        }
    }
    let mut regs = list("%r", 30, nc);
    if s.c == "f32" {
        for i in 0..4 {
            body += &format!("mov.b32 %f{i}, %r{};\n", 30 + i);
        }
        regs = list("%f", 0, 4);
    }
    body += &format!(
        "mma.sync.aligned.m16n8k{}.row.col{}.{}.{}.{}.{} {regs}, {}, {}, {regs};\n",
        s.k,
        if s.saturate { ".satfinite" } else { "" },
        s.c,
        s.a.0,
        s.b.0,
        s.c,
        list("%r", 10, na),
        list("%r", 20, nb)
    );
    let part = if s.c == "f32" { "%f" } else { "%r3" };
    for i in 0..nc {
        body += &format!("st.global.b32 [%rd12 + {}], {part}{i};\n", i * 4);
    }
    let (report, out) = run(head, 32, &[a, b, start], &body, &Options::default());
    assert!(report.is_clean(), "{}", report.findings[0]);
    assert_eq!(report.cost.flops, 2 * 16 * 8 * s.k as u64);
    assert_eq!(report.cost.tensor_cycles, (16 * 8 * s.k * e / 2048) as u64);
    let mut d = vec![0; 128];
    for ((l, i), raw) in lanes(4).zip(out[2].chunks(acc.bytes())) {
        let (m, n) = c_at(l, i);
        d[m * 8 + n] = raw.iter().rev().fold(0, |v, b| v << 8 | u32::from(*b));
    }
    d
}

/// The sum of products, and of their sizes.
fn exact(s: &Shape, m: usize, n: usize) -> (f64, f64) {
    let products = (0..s.k).map(|k| s.a.value(s.a.draw(m * s.k + k, 1)) * s.b.value(s.b.draw(n * s.k + k, 2)));
    products.fold((0.0, 0.0), |(sum, size), p| (sum + p, size + p.abs()))
}

#[test]
fn floats_of_every_shape() {
    let sm75 = ".version 6.5\n.target sm_75";
    let sm80 = ".version 7.0\n.target sm_80";
    let sm89 = ".version 8.4\n.target sm_89";
    let sm87 = ".version 8.7\n.target sm_89";
    for (head, k, a, b, c) in [
        (sm75, 8, "f16", "f16", "f32"),
        (sm75, 8, "f16", "f16", "f16"),
        (sm80, 8, "bf16", "bf16", "f32"),
        (sm80, 4, "tf32", "tf32", "f32"),
        (sm80, 8, "tf32", "tf32", "f32"),
        (sm80, 16, "f16", "f16", "f32"),
        (sm80, 16, "f16", "f16", "f16"),
        (sm80, 16, "bf16", "bf16", "f32"),
        (sm89, 32, "e4m3", "e4m3", "f32"),
        (sm89, 32, "e4m3", "e5m2", "f32"),
        (sm89, 32, "e5m2", "e4m3", "f32"),
        (sm89, 32, "e5m2", "e5m2", "f32"),
        (sm87, 16, "e4m3", "e5m2", "f32"),
        (sm87, 16, "e5m2", "e4m3", "f16"),
        (sm87, 32, "e4m3", "e4m3", "f16"),
    ] {
        let s = Shape { k, a: Format(a), b: Format(b), c, saturate: false };
        let format = Format(c);
        let start = |m: usize, n: usize| format.draw(m * 8 + n, 3);
        let d = multiply(&s, head, start);
        for m in 0..16 {
            for n in 0..8 {
                let (sum, size) = exact(&s, m, n);
                let (want, got) = (sum + format.value(start(m, n)), format.value(d[m * 8 + n]));
                let ulp = if c == "f16" { 1e-3 } else { 1e-6 };
                assert!((got - want).abs() <= ulp * (size + 4.0), "{a} {b} {c} k{k} at {m}, {n}: {got}, not {want}");
            }
        }
    }
}

/// Products of f64, whose fragments have other rows and depths: the sums are those of Rust, with one rounding a product.
#[test]
fn doubles_of_every_shape() {
    let (sm80, sm90) = (".version 7.0\n.target sm_80", ".version 7.8\n.target sm_90");
    for (head, m, k) in [(sm80, 8, 4), (sm90, 8, 4), (sm90, 16, 4), (sm90, 16, 8), (sm90, 16, 16)] {
        let value = |row: usize, column: usize, seed: u32| {
            f64::from(Format("f32").draw(row * 64 + column, seed) >> 3) * 1.1 - 1.0e8 * f64::from(seed)
        };
        let halves = m / 8;
        let lanes = |n: usize| (0..32).flat_map(move |l| (0..n).map(move |i| (l / 4, l % 4, i)));
        let bytes = |values: Vec<f64>| values.into_iter().flat_map(f64::to_le_bytes).collect::<Vec<u8>>();
        let (na, nb, nc) = (k / 4 * halves, k / 4, 2 * halves);
        let c_at = |g: usize, t: usize, i: usize| (g + 8 * (i / 2), 2 * t + i % 2);
        let a = lanes(na).map(|(g, t, i)| value(g + 8 * (i % halves), t + 4 * (i / halves), 1)).collect();
        let b = lanes(nb).map(|(g, t, i)| value(t + 4 * i, g, 2)).collect();
        let c = lanes(nc).map(|(g, t, i)| c_at(g, t, i)).map(|(row, column)| value(row, column, 3)).collect();
        let mut body = ".reg .f64 %d<40>;\n".to_owned();
        for (buffer, first, n) in [(0, 0, na), (1, 10, nb), (2, 20, nc)] {
            body += &format!("mad.wide.u32 %rd{}, %r0, {}, %rd{buffer};\n", 10 + buffer, n * 8);
            for i in 0..n {
                body += &format!("ld.global.f64 %d{}, [%rd{} + {}];\n", first + i, 10 + buffer, i * 8);
            }
        }
        let sums = list("%d", 20, nc);
        body += &format!(
            "mma.sync.aligned.m{m}n8k{k}.row.col.f64.f64.f64.f64 {sums}, {}, {}, {sums};\n",
            list("%d", 0, na),
            list("%d", 10, nb)
        );
        for i in 0..nc {
            body += &format!("st.global.f64 [%rd12 + {}], %d{};\n", i * 8, 20 + i);
        }
        let (report, out) = run(head, 32, &[bytes(a), bytes(b), bytes(c)], &body, &Options::default());
        assert!(report.is_clean(), "{}", report.findings[0]);
        assert_eq!((report.cost.flops, report.cost.tensor_cycles), (2 * (m * 8 * k) as u64, (m * 8 * k / 128) as u64));
        for ((g, t, i), got) in lanes(nc).zip(out[2].chunks(8)) {
            let (row, column) = c_at(g, t, i);
            let want =
                (0..k).fold(value(row, column, 3), |sum, at| value(row, at, 1).mul_add(value(at, column, 2), sum));
            assert_eq!(
                f64::from_le_bytes(got.try_into().unwrap()).to_bits(),
                want.to_bits(),
                "m{m} k{k}: {row}, {column}"
            );
        }
    }
}

#[test]
fn integers_are_exact_and_wrap_or_stop() {
    let head = ".version 7.0\n.target sm_80";
    let mut stopped = 0;
    for k in [16, 32] {
        for (a, b) in [("s8", "s8"), ("s8", "u8"), ("u8", "s8"), ("u8", "u8")] {
            for saturate in [false, true] {
                let s = Shape { k, a: Format(a), b: Format(b), c: "s32", saturate };
                // Near both ends of the range.
                let start = |m: usize, n: usize| {
                    let end = if n.is_multiple_of(2) { i32::MAX } else { i32::MIN };
                    end.wrapping_sub(if n.is_multiple_of(2) { 1 } else { -1 } * (m as i32 * 4096)) as u32
                };
                let d = multiply(&s, head, start);
                for m in 0..16 {
                    for n in 0..8 {
                        let sum = exact(&s, m, n).0 as i64 + i64::from(start(m, n) as i32);
                        let clamped = sum.clamp(i64::from(i32::MIN), i64::from(i32::MAX));
                        stopped += u32::from(clamped != sum);
                        let want = if saturate { clamped as i32 } else { sum as i32 };
                        assert_eq!(d[m * 8 + n] as i32, want, "{a} {b} k{k} {saturate} at {m}, {n}");
                    }
                }
            }
        }
    }
    assert!(stopped > 200, "{stopped} sums left the range");
}

#[test]
fn what_is_no_shape_of_a_type_is_refused() {
    let refused = |instruction: &str| {
        let text = format!(
            ".version 8.7\n.target sm_90a\n.visible .entry k()\n{{\n.reg .b32 %r<20>;\n.reg .f32 %f<8>;\n{instruction}\nret;\n}}"
        );
        parse(&text).unwrap_err().to_string()
    };
    for (instruction, wanted) in [
        (
            "mma.sync.aligned.m16n8k8.row.col.f32.e4m3.e4m3.f32 {%f0, %f1, %f2, %f3}, {%r0}, {%r2}, {%f0, %f1, %f2, %f3};",
            "mma of .e4m3 is modelled as m16n8k16 and m16n8k32; this says m16n8k8",
        ),
        (
            "mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32 {%f0, %f1, %f2, %f3}, {%r0, %r1}, {%r2}, {%f0, %f1, %f2, %f3};",
            "this fragment has 8 registers; 4 are given",
        ),
        (
            "mma.sync.aligned.m16n8k16.row.row.f32.f16.f16.f32 {%f0, %f1, %f2, %f3}, {%r0, %r1, %r2, %r3}, {%r4, %r5}, {%f0, %f1, %f2, %f3};",
            "takes A by rows and B by columns",
        ),
        (
            "mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32 {%r0, %r1, %r2, %r3}, {%r4, %r5, %r6, %r7}, {%r8, %r9}, {%r0, %r1, %r2, %r3};",
            ".xor or .and",
        ),
        (
            "mma.sync.aligned.m16n8k8.row.col.s32.s8.s8.s32 {%r0, %r1, %r2, %r3}, {%r4}, {%r5}, {%r0, %r1, %r2, %r3};",
            "mma of .s8 is modelled as m8n8k16 and m16n8k16 and m16n8k32; this says m16n8k8",
        ),
        (
            "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%r0, %r1, %r2, %r3}, {%r4, %r5}, {%r6}, {%r0, %r1, %r2, %r3};",
            "this fragment has 4 registers; 2 are given",
        ),
        (
            "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%f0, %f1, %f2, %f3}, {%r4, %r5, %r6, %r7}, {%r8, %r9}, {%r0, %r1, %r2, %r3};",
            "`%f0` is a .f32 register where",
        ),
        ("mma.sync.aligned.m16n8k16.row.col.satfinite.f32.f16.f16.f32 {%f0}, {%r0}, {%r2}, {%f0};", "`.f32` of"),
    ] {
        let got = refused(instruction);
        assert!(got.contains(wanted), "{instruction}\n  wanted {wanted}\n  got    {got}");
    }
    assert!(words(&[1, 0, 0, 0]) == [1]);
}
