//! `wmma` in all shapes, types, layouts and spaces.

use crate::formats::{Format, list, run};
use bsr_simulator::{FindingKind, Options, Report, parse};

const K: usize = 16;

#[derive(Clone, Copy, Debug)]
struct Case {
    m: usize,
    n: usize,
    /// A and B; C; D.
    ab: &'static str,
    c: &'static str,
    d: &'static str,
    /// Row-major: A, B, C, D.
    rows: [bool; 4],
    /// `.global`, `.shared`, or generic addresses of shared memory.
    space: &'static str,
    /// Elements between lines beyond their length.
    extra: usize,
}

fn word(row: bool) -> &'static str {
    if row { "row" } else { "col" }
}

/// A matrix in memory: bytes, and elements from line to line.
fn lay_out(format: Format, rows: usize, columns: usize, by_rows: bool, extra: usize, seed: u32) -> (Vec<u8>, usize) {
    let (lines, length) = if by_rows { (rows, columns) } else { (columns, rows) };
    let (stride, e) = (length + extra, format.bytes());
    let mut out = vec![0xff; lines * stride * e];
    for line in 0..lines {
        for i in 0..length {
            let (r, c) = if by_rows { (line, i) } else { (i, line) };
            let at = (line * stride + i) * e;
            out[at..at + e].copy_from_slice(&format.draw(r * columns + c, seed).to_le_bytes()[..e]);
        }
    }
    (out, stride)
}

/// Registers of a fragment, as the ISA's table has them.
fn registers(format: &str, elements: usize, accumulator: bool) -> usize {
    match format {
        "f32" => 8,
        "f16" if accumulator => 4,
        "f16" => 8,
        _ => elements / 64,
    }
}

/// Where the four matrices lie in shared memory.
const AT: [usize; 4] = [0, 4096, 8192, 16384];

fn kernel(case: &Case, sizes: [usize; 4], strides: [usize; 4], swapped: bool) -> String {
    let Case { m, n, ab, c, d, rows, space, .. } = *case;
    let shape = format!("m{m}n{n}k16");
    let mut body = String::new();
    let shared = space != ".global";
    let address = |i: usize| match space {
        ".global" => format!("%rd{i}"),
        ".shared" => format!("%r{}", 2 + i),
        _ => format!("%rd{}", 4 + i),
    };
    for i in 0..4 {
        body += &format!("add.u32 %r{}, %r1, {};\n", 2 + i, AT[i]);
        body += &format!("cvt.u64.u32 %rd{}, %r{};\ncvta.shared.u64 %rd{0}, %rd{0};\n", 4 + i, 2 + i);
        // All four matrices, D too: what lies between its lines is compared afterwards.
        if shared {
            body += &format!(
                "mov.u32 %r6, %r0;\n$in{i}:\nsetp.ge.u32 %p0, %r6, {};\n@%p0 bra $there{i};\nmad.wide.u32 %rd8, %r6, 4, %rd{i};\n\
                 ld.global.b32 %r7, [%rd8];\nmad.lo.u32 %r8, %r6, 4, %r{};\nst.shared.b32 [%r8], %r7;\nadd.u32 %r6, %r6, 64;\nbra $in{i};\n$there{i}:\n",
                sizes[i] / 4,
                2 + i
            );
        }
    }
    body += "bar.sync 0;\nsetp.ge.u32 %p1, %r0, 32;\n@%p1 bra $multiplied;\n";
    let fragments = [
        list("%r", 20, registers(ab, m * K, false)),
        list("%r", 40, registers(ab, K * n, false)),
        if c == "f32" { list("%f", 0, 8) } else { list("%r", 60, 4) },
        if d == "f32" { list("%f", 10, 8) } else { list("%r", 70, 4) },
    ];
    for (i, (operand, ty)) in [("a", ab), ("b", ab), ("c", c)].into_iter().enumerate() {
        body += &format!(
            "wmma.load.{operand}.sync.aligned.{}.{shape}{space}.{ty} {}, [{}], {};\n",
            word(rows[i]),
            fragments[i],
            address(i),
            strides[i]
        );
    }
    let types = if ab == "bf16" { "f32.bf16.bf16.f32".into() } else { format!("{d}.{c}") };
    body += &format!(
        "wmma.mma.sync.aligned.{}.{}.{shape}.{types} {}, {}, {}, {};\n",
        word(rows[0] != swapped),
        word(rows[1]),
        fragments[3],
        fragments[0],
        fragments[1],
        fragments[2]
    );
    body += &format!(
        "wmma.store.d.sync.aligned.{}.{shape}{space}.{d} [{}], {}, {};\n$multiplied:\n",
        word(rows[3]),
        address(3),
        fragments[3],
        strides[3]
    );
    if shared {
        body += &format!(
            "bar.sync 0;\nmov.u32 %r6, %r0;\n$out:\nsetp.ge.u32 %p0, %r6, {};\n@%p0 bra $done;\nmad.wide.u32 %rd8, %r6, 4, %rd3;\n\
             mad.lo.u32 %r8, %r6, 4, %r5;\nld.shared.b32 %r7, [%r8];\nst.global.b32 [%rd8], %r7;\nadd.u32 %r6, %r6, 64;\nbra $out;\n$done:\n",
            sizes[3] / 4
        );
    }
    body
}

/// The largest error, relative to the sizes of the products; bytes between the lines of D are compared too.
fn error(case: &Case, swapped: bool) -> f64 {
    let Case { m, n, rows, extra, .. } = *case;
    let [ab, c, d] = [case.ab, case.c, case.d].map(Format);
    let parts = [
        lay_out(ab, m, K, rows[0], extra, 1),
        lay_out(ab, K, n, rows[1], extra, 2),
        lay_out(c, m, n, rows[2], extra, 3),
        lay_out(d, m, n, rows[3], extra, 4),
    ];
    let strides = [0, 1, 2, 3].map(|i: usize| parts[i].1);
    let buffers = parts.map(|p| p.0);
    let sizes = [0, 1, 2, 3].map(|i: usize| buffers[i].len());
    let head = if case.ab == "bf16" { ".version 7.0\n.target sm_80" } else { ".version 6.3\n.target sm_70" };
    let body = kernel(case, sizes, strides, swapped);
    let (report, out) = run(head, 64, &buffers, &body, &Options::default());
    assert!(report.is_clean(), "{case:?}\n{}", report.findings[0]);
    let (e, mut worst) = (d.bytes(), 0f64);
    let mut expected = buffers[3].clone();
    for row in 0..m {
        for column in 0..n {
            let products = (0..K).map(|k| ab.value(ab.draw(row * K + k, 1)) * ab.value(ab.draw(k * n + column, 2)));
            let (sum, size) = products.fold((0.0, 1.0), |(s, t), p| (s + p, t + p.abs()));
            let want = sum + c.value(c.draw(row * n + column, 3));
            let at = if rows[3] { row * strides[3] + column } else { column * strides[3] + row } * e;
            let raw = out[3][at..at + e].iter().rev().fold(0, |v, b| v << 8 | u32::from(*b));
            worst = worst.max((d.value(raw) - want).abs() / size);
            expected[at..at + e].copy_from_slice(&out[3][at..at + e]);
        }
    }
    assert_eq!(out[3], expected, "{case:?}: only D's own elements are written");
    worst
}

fn all() -> Vec<Case> {
    let mut out = Vec::new();
    for (m, n) in [(16, 16), (32, 8), (8, 32)] {
        for (ab, c, d) in [
            ("f16", "f32", "f32"),
            ("f16", "f16", "f16"),
            ("f16", "f32", "f16"),
            ("f16", "f16", "f32"),
            ("bf16", "f32", "f32"),
        ] {
            for bits in 0..16 {
                let rows = [0, 1, 2, 3].map(|i| bits >> i & 1 == 0);
                let space = [".global", ".shared", ""][(bits + m) % 3];
                out.push(Case { m, n, ab, c, d, rows, space, extra: if bits % 3 == 0 { 0 } else { 16 } });
            }
        }
    }
    out
}

#[test]
fn every_shape_type_layout_and_space() {
    for case in all() {
        let worst = error(&case, false);
        assert!(worst < if case.d == "f16" { 1e-3 } else { 1e-6 }, "{case:?}: {worst}");
    }
}

/// The layout in `wmma.mma` must be the one that the fragment was loaded with.
#[test]
fn a_layout_that_was_not_loaded_gives_a_wrong_product() {
    for case in all().into_iter().filter(|c| c.extra == 0) {
        assert!(error(&case, true) > 0.01, "{case:?}");
    }
}

fn report(body: &str, threads: u32) -> Report {
    let reports = (0..8).map(|seed| {
        let buffers = [vec![0; 4096], vec![0; 4096]];
        run(".version 7.0\n.target sm_80", threads, &buffers, body, &Options { seed, ..Options::default() }).0
    });
    let mut last = Report::default();
    for r in reports {
        if !r.is_clean() {
            return r;
        }
        last = r;
    }
    last
}

#[test]
fn lines_are_aligned_and_addresses_uniform() {
    let load = |address: &str, stride: u32| {
        format!("wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {}, [{address}], {stride};", list("%r", 20, 8))
    };
    assert!(report(&load("%rd0", 16), 32).is_clean());
    assert_eq!(report(&load("%rd0 + 16", 16), 32).findings[0].kind, FindingKind::Misaligned);
    assert!(report(&load("%rd0", 24), 32).is_clean());
    assert_eq!(report(&load("%rd0", 20), 32).findings[0].kind, FindingKind::Misaligned);
    assert_eq!(report(&load("%rd0", 256), 32).findings[0].kind, FindingKind::OutOfBounds);
    let each = format!("mad.wide.u32 %rd5, %r0, 32, %rd0;\n{}", load("%rd5", 16));
    assert_eq!(report(&each, 32).findings[0].kind, FindingKind::Divergence);
    // A line of 8 elements has 16 bytes.
    let narrow = "wmma.load.b.sync.aligned.row.m32n8k16.global.bf16 {%r20, %r21}, [%rd0 + 16], 24;";
    assert!(report(narrow, 32).is_clean());
}

#[test]
fn a_fragment_read_before_the_barrier_is_a_race() {
    let zeros: String = (0..8).map(|i| format!("mov.f32 %f{i}, 0f00000000;\n")).collect();
    let body = format!(
        "{zeros}setp.ge.u32 %p0, %r0, 32;\n@%p0 bra $wait;\n\
         wmma.store.d.sync.aligned.row.m16n16k16.shared.f32 [%r1], {}, 16;\n$wait:\nbar.sync 0;\n\
         wmma.load.c.sync.aligned.row.m16n16k16.shared.f32 {}, [%r1], 16;",
        list("%f", 0, 8),
        list("%f", 10, 8)
    );
    assert!(report(&body, 64).is_clean());
    let kind = report(&body.replace("bar.sync 0;\n", ""), 64).findings[0].kind;
    assert!(matches!(kind, FindingKind::Race | FindingKind::UninitialisedRead), "{kind:?}");
}

#[test]
fn fragments_have_the_registers_that_the_isa_says() {
    for (shape, a, b) in [("m16n16k16", 4, 4), ("m32n8k16", 8, 2), ("m8n32k16", 2, 8)] {
        for (operand, n) in [("a", a), ("b", b)] {
            for (ty, n) in [("bf16", n), ("f16", 8)] {
                for have in [n, n + 1] {
                    let text = format!(
                        ".version 7.0\n.target sm_80\n.visible .entry k(.param .u64 p)\n{{\n.reg .b32 %r<20>;\n.reg .b64 %rd0;\n\
                         ld.param.u64 %rd0, [p];\nwmma.load.{operand}.sync.aligned.row.{shape}.global.{ty} {}, [%rd0];\nret;\n}}",
                        list("%r", 0, have)
                    );
                    assert_eq!(parse(&text).is_ok(), have == n, "{shape} {operand} {ty} {have}");
                }
            }
        }
    }
}
