//! `mma.sp.sync` of every type and shape against the dense product of the matrix that A stands for.

use crate::formats::{Format, bytes, list, run};
use crate::mma::c_at;
use crate::sparse::{SparseRows, ascending, mixed};
use bsr_simulator::{FindingKind, Options, Report, parse};

/// One instruction.
#[derive(Clone, Copy)]
struct Case {
    a: SparseRows,
    b: Format,
    /// f32, f16 or s32.
    c: &'static str,
    selector: usize,
    ordered: bool,
    saturate: bool,
    /// The metadata of threads that the instruction reads, as they are given.
    spoil: fn(u32) -> u32,
}

fn case(k: usize, a: &'static str, b: &'static str, c: &'static str, selector: usize) -> Case {
    let a = SparseRows { format: Format(a), k, pick: mixed };
    Case { a, b: Format(b), c, selector, ordered: false, saturate: false, spoil: |word| word }
}

impl Case {
    fn accumulator(&self) -> Format {
        Format(if self.c == "s32" { "f32" } else { self.c })
    }

    fn start(&self, m: usize, n: usize) -> u32 {
        match self.c {
            // Near both ends of the range.
            "s32" if n.is_multiple_of(2) => i32::MAX as u32 - m as u32 * 4096,
            "s32" => i32::MIN as u32 + m as u32 * 4096,
            _ => self.accumulator().draw(m * 8 + n, 3),
        }
    }

    /// The metadata of a thread, by the figures of the ISA; None if it has none.
    fn metadata(&self, lane: usize) -> Option<u32> {
        let (group, thread) = (lane / 4, lane % 4);
        let threads = self.a.k / self.a.chunk().0 / 4;
        let at = (thread / threads == self.selector).then_some(thread % threads)?;
        let word = if self.a.format.bytes() == 1 {
            // Eight chunks of one row; the next thread has those of the row below, and with 64 columns the next two the rest.
            self.a.metadata(group + at % 2 * 8, at / 2 * 8, 8)
        } else {
            self.a.metadata(group, at * 4, 4) | self.a.metadata(group + 8, at * 4, 4) << 16
        };
        Some((self.spoil)(word))
    }

    fn run(&self) -> (Report, Vec<u32>) {
        let (size, k) = (self.a.format.bytes(), self.a.k);
        let per = 4 / size;
        let (na, nb, half) = (k * size / 16, k * size / 16, self.c == "f16");
        let lanes = |n: usize| (0..32).flat_map(move |l| (0..n).map(move |i| (l, i)));
        // Register i: rows g and g + 8 in turn, with what is stored of the columns from t, then of the other half of k.
        let a_at = |l: usize, i: usize| {
            let (register, j) = (i / per, i % per);
            (l / 4 + register % 2 * 8, (l % 4 + register / 2 * 4) * per + j)
        };
        let b_at = |l: usize, i: usize| (l / 4, (l % 4 + i / per * 4) * per + i % per);
        let a = lanes(na * per).map(|(l, i)| a_at(l, i)).map(|(m, i)| self.a.element(m, i));
        let b = lanes(nb * per).map(|(l, i)| b_at(l, i)).map(|(n, at)| self.b.draw(n * k + at, 2));
        let start = lanes(4).map(|(l, i)| c_at(l, i)).map(|(m, n)| self.start(m, n));
        let metadata = (0..32).flat_map(|l| self.metadata(l).unwrap_or_default().to_le_bytes()).collect();
        let nc = if half { 2 } else { 4 };
        let mut body = String::new();
        for (buffer, first, n) in [(0, 10, na), (1, 20, nb), (2, 30, nc)] {
            body += &format!("mad.wide.u32 %rd{}, %r0, {}, %rd{buffer};\n", 10 + buffer, n * 4);
            for i in 0..n {
                body += &format!("ld.global.b32 %r{}, [%rd{} + {}];\n", first + i, 10 + buffer, i * 4);
            }
        }
        // The registers of threads that have no metadata have no value.
        let mask = (0..32).filter(|l| self.metadata(*l).is_some()).fold(0u32, |mask, l| mask | 1 << l);
        body += &format!(
            "mov.u32 %r2, {mask};\nshr.u32 %r2, %r2, %r0;\nand.b32 %r2, %r2, 1;\nsetp.ne.u32 %p0, %r2, 0;\n\
             mad.wide.u32 %rd14, %r0, 4, %rd3;\n@%p0 ld.global.b32 %r9, [%rd14];\n"
        );
        let mut regs = list("%r", 30, nc);
        if self.c == "f32" {
            body += &(0..4).map(|i| format!("mov.b32 %f{i}, %r{};\n", 30 + i)).collect::<String>();
            regs = list("%f", 0, 4);
        }
        body += &format!(
            "mma.sp{}.sync.aligned.m16n8k{k}.row.col{}.{c}.{}.{}.{c} {regs}, {}, {}, {regs}, %r9, {};\n",
            if self.ordered { "::ordered_metadata" } else { "" },
            if self.saturate { ".satfinite" } else { "" },
            self.a.format.0,
            self.b.0,
            list("%r", 10, na),
            list("%r", 20, nb),
            self.selector,
            c = self.c,
        );
        let part = if self.c == "f32" { "%f" } else { "%r3" };
        body += &(0..nc).map(|i| format!("st.global.b32 [%rd12 + {}], {part}{i};\n", i * 4)).collect::<String>();
        let acc = self.accumulator();
        let buffers = [bytes(self.a.format, a), bytes(self.b, b), bytes(acc, start), metadata];
        let (report, out) = run(".version 8.5\n.target sm_89", 32, &buffers, &body, &Options::default());
        let mut d = vec![0; 128];
        for ((l, i), raw) in lanes(4).zip(out[2].chunks(acc.bytes())) {
            let (m, n) = c_at(l, i);
            d[m * 8 + n] = raw.iter().rev().fold(0, |v, b| v << 8 | u32::from(*b));
        }
        (report, d)
    }

    fn check(&self) {
        let (report, d) = self.run();
        let Case { a: SparseRows { format, k, .. }, b, c, selector, .. } = *self;
        let what = format!("{format:?} {b:?} {c} k{k} selector {selector}");
        assert!(report.is_clean(), "{what}: {}", report.findings[0]);
        // Twice the rate of a dense product.
        assert_eq!(report.cost.tensor_cycles, (16 * 8 * k / 2 * format.bytes() / 2048) as u64);
        for m in 0..16 {
            for n in 0..8 {
                let (sum, size) = self.a.product(m, |at| b.value(b.draw(n * k + at, 2)));
                let (start, got) = (self.start(m, n), d[m * 8 + n]);
                if c == "s32" {
                    let all = sum as i64 + i64::from(start.cast_signed());
                    let stopped = all.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32;
                    let want = if self.saturate { stopped } else { all as i32 };
                    assert_eq!(got.cast_signed(), want, "{what} at {m}, {n}");
                } else {
                    let acc = self.accumulator();
                    let (want, got) = (sum + acc.value(start), acc.value(got));
                    let ulp = if c == "f16" { 1e-3 } else { 1e-6 };
                    assert!((got - want).abs() <= ulp * (size + 4.0), "{what} at {m}, {n}: {got}, not {want}");
                }
            }
        }
    }
}

/// Every type and shape, with every selector.
fn all() -> impl Iterator<Item = Case> {
    let shapes = [
        (16, "f16", "f16", "f32", 4),
        (16, "f16", "f16", "f16", 4),
        (16, "bf16", "bf16", "f32", 4),
        (32, "f16", "f16", "f32", 2),
        (32, "f16", "f16", "f16", 2),
        (32, "bf16", "bf16", "f32", 2),
        (8, "tf32", "tf32", "f32", 4),
        (16, "tf32", "tf32", "f32", 2),
        (32, "s8", "u8", "s32", 2),
        (32, "u8", "s8", "s32", 2),
        (64, "s8", "s8", "s32", 1),
        (64, "u8", "u8", "s32", 1),
        (64, "e4m3", "e4m3", "f32", 1),
        (64, "e4m3", "e5m2", "f32", 1),
        (64, "e5m2", "e4m3", "f32", 1),
        (64, "e5m2", "e5m2", "f32", 1),
    ];
    shapes.into_iter().flat_map(|(k, a, b, c, selectors)| (0..selectors).map(move |f| case(k, a, b, c, f)))
}

#[test]
fn products_are_those_of_the_dense_matrix() {
    for case in all() {
        case.check();
        Case { ordered: true, a: SparseRows { pick: ascending, ..case.a }, ..case }.check();
        if case.c == "s32" {
            Case { saturate: true, ..case }.check();
        }
    }
}

#[test]
fn metadata_that_say_nothing_are_found() {
    let ordered = |case: Case, pick| Case { ordered: true, a: SparseRows { pick, ..case.a }, ..case };
    for (case, expected) in [
        (
            Case { spoil: |word| word & !0xf0 | 0xa0, ..case(16, "f16", "f16", "f32", 3) },
            "columns 4 to 7, is 0b1010: of .f16",
        ),
        (
            Case { spoil: |word| word & !0xf, ..case(8, "tf32", "tf32", "f32", 0) },
            "columns 0 to 1, is 0b0000: of .tf32",
        ),
        (Case { spoil: |word| word | 0xf << 28, ..case(64, "e4m3", "e4m3", "f32", 0) }, "columns 28 to 31, is 0b1111"),
        // Row 0 has the pair (3, 0) in its chunk 2.
        (
            ordered(case(32, "s8", "s8", "s32", 1), mixed),
            "columns 8 to 11, is 0b0011: of .s8 two places in their order",
        ),
    ] {
        let (report, _) = case.run();
        let finding = &report.findings[0];
        assert_eq!(finding.kind, FindingKind::SparseMetadata);
        assert!(finding.message.contains(expected), "{}", finding.message);
    }
}

/// The threads that the selector names need metadata; the others have none in every case above.
#[test]
fn metadata_without_a_value_are_found() {
    let wrong = Case { selector: 1, ..case(16, "bf16", "bf16", "f32", 1) };
    let text = "mma.sp.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f0, %f0, %f0, %f0}, {%r0, %r0}, {%r0, %r0}, \
                {%f0, %f0, %f0, %f0}, %r9, 1;";
    assert!(wrong.metadata(1).is_some() && wrong.metadata(0).is_none());
    let body = format!(
        "mov.f32 %f0, 0f00000000;\n{}",
        text.replace("{%f0, %f0, %f0, %f0}, {%r0", "{%f0, %f1, %f2, %f3}, {%r0")
    );
    let (report, _) = run(".version 8.5\n.target sm_80", 32, &[], &body, &Options::default());
    let finding = &report.findings[0];
    assert_eq!((finding.kind, finding.sides[0].lanes), (FindingKind::UninitialisedRegister, 0x2222_2222));
}

#[test]
fn what_is_no_shape_of_a_type_is_refused() {
    let refused = |instruction: &str| {
        let text = format!(
            ".version 8.7\n.target sm_90a\n.visible .entry k()\n{{\n.reg .b32 %r<40>;\n.reg .f32 %f<8>;\n{instruction}\nret;\n}}"
        );
        parse(&text).unwrap_err().to_string()
    };
    let f32s = "{%f0, %f1, %f2, %f3}";
    let of = |shape: &str, types: &str, na: usize, nb: usize, rest: &str| {
        let (a, b) = (list("%r", 0, na), list("%r", 8, nb));
        refused(&format!("mma.sp.sync.aligned.{shape}.row.col.{types} {f32s}, {a}, {b}, {f32s}{rest};"))
    };
    for (got, wanted) in [
        (
            of("m16n8k8", "f32.f16.f16.f32", 2, 2, ", %r20, 0"),
            "sparse mma of .f16 is modelled as m16n8k16 and m16n8k32",
        ),
        (of("m16n8k32", "f32.e4m3.e4m3.f32", 2, 2, ", %r20, 0"), "sparse mma of .e4m3 is modelled as m16n8k64"),
        (of("m16n8k16", "f32.f16.f16.f32", 2, 2, ""), "takes 6 operands"),
        (of("m16n8k16", "f32.f16.f16.f32", 4, 2, ", %r20, 0"), "this fragment has 2 registers; 4 are given"),
        (
            of("m16n8k16", "f32.f16.f16.f32", 2, 2, ", %r20, 4"),
            "the sparsity selector of .f16 and k = 16 is 0 to 3; 4 is not",
        ),
        (
            of("m16n8k32", "f32.f16.f16.f32", 4, 4, ", %r20, 2"),
            "the sparsity selector of .f16 and k = 32 is 0 to 1; 2 is not",
        ),
        (of("m16n8k64", "f32.e5m2.e5m2.f32", 4, 4, ", %r20, 1"), "k = 64 is 0 to 0; 1 is not"),
    ] {
        assert!(got.contains(wanted), "wanted {wanted}\n  got {got}");
    }
}
