//! `wgmma.mma_async.sp` against the dense product of the matrix that A stands for.

use crate::formats::{Format, bytes, list, run, words};
use crate::sparse::{SparseRows, mixed};
use bsr_simulator::{FindingKind, Options, Report};

/// Where B lies in shared memory, after 64 rows of A of 32 bytes.
const B_AT: usize = 2048;
const N: usize = 16;

/// One instruction: the types of D and of both factors, and where A is.
struct Case {
    d: &'static str,
    a: Format,
    b: Format,
    selector: u32,
    registers: bool,
    /// A in shared memory has rows along its lines.
    across: bool,
    /// The places of the elements of row `.0` that are stored, in chunk `.1`.
    pick: fn(usize, usize) -> (usize, usize),
    /// An element of B by column and place along k.
    right: fn(Format, usize, usize) -> u32,
    /// The metadata of threads that the instruction reads, as they are given.
    spoil: fn(u32) -> u32,
}

const F16: Case = Case {
    d: "f32",
    a: Format("f16"),
    b: Format("f16"),
    selector: 0,
    registers: false,
    across: false,
    pick: mixed,
    right: |format, n, k| format.draw(n * 64 + k, 2),
    spoil: |metadata| metadata,
};

impl Case {
    /// Elements of a row of A, zeros included.
    fn k(&self) -> usize {
        64 / self.a.bytes()
    }

    fn rows(&self) -> SparseRows {
        SparseRows { format: self.a, k: self.k(), pick: self.pick }
    }

    /// The word that a thread of the warpgroup passes: the PTX ISA's figures for K = 16 and 32, and for K = 64. Threads that do
    /// not take part pass 0, which is not valid.
    fn metadata(&self, thread: usize) -> u32 {
        let (first, column) = (thread / 32 * 16 + thread % 32 / 4, thread % 4);
        let chunks = |row: usize, from: usize, count: usize| self.rows().metadata(row, from, count);
        let word = match self.a.bytes() {
            1 => chunks(first + column % 2 * 8, column / 2 * 8, 8),
            _ if column / 2 != self.selector as usize => return 0,
            _ => chunks(first, column % 2 * 4, 4) | chunks(first + 8, column % 2 * 4, 4) << 16,
        };
        (self.spoil)(word)
    }

    /// Lines of bytes as core matrices of 8 lines by 16 bytes: those along a line, then the next 8 lines.
    fn cores(lines: usize, line: usize, byte: impl Fn(usize, usize) -> u8) -> Vec<u8> {
        let mut out = vec![0; lines * line];
        for l in 0..lines {
            for i in 0..line {
                out[l / 8 * 8 * line + i / 16 * 128 + l % 8 * 16 + i % 16] = byte(l, i);
            }
        }
        out
    }

    fn run(&self) -> (Report, Vec<u32>) {
        let size = self.a.bytes();
        let stored = 32 / size;
        let element = |row: usize, i: usize| self.rows().element(row, i);
        let byte = |word: u32, i: usize| word.to_le_bytes()[i];
        let a = if self.across {
            Self::cores(stored, 64 * size, |k, i| byte(element(i / size, k), i % size))
        } else {
            Self::cores(64, 32, |row, i| byte(element(row, i / size), i % size))
        };
        let b = Self::cores(N, 64, |n, i| byte((self.right)(self.b, n, i / size), i % size));
        let plain = bytes(self.a, (0..64 * stored).map(|i| element(i / stored, i % stored)));
        let metadata = (0..128).flat_map(|t| self.metadata(t).to_le_bytes()).collect();
        let mut body = String::new();
        for (buffer, offset, size) in [(0, 0, a.len()), (1, B_AT, b.len())] {
            body += &format!(
                "mov.u32 %r2, %r0;\n$copy{buffer}:\nmad.wide.u32 %rd10, %r2, 4, %rd{buffer};\nsetp.ge.u32 %p0, %r2, {words};\n\
                 @%p0 bra $copied{buffer};\nld.global.b32 %r3, [%rd10];\nmad.lo.u32 %r4, %r2, 4, %r1;\nst.shared.b32 [%r4 + {offset}], %r3;\n\
                 add.u32 %r2, %r2, 128;\nbra $copy{buffer};\n$copied{buffer}:\n",
                words = size / 4
            );
        }
        // The threads that take part load metadata; the register of the others has no value.
        let taking_part = if size == 1 {
            "setp.eq.u32 %p2, 0, 0;".to_owned()
        } else {
            format!("bfe.u32 %r5, %r0, 1, 1;\nsetp.eq.u32 %p2, %r5, {};", self.selector)
        };
        body += &format!(
            "bar.warp.sync 0xffffffff;\nfence.proxy.async.shared::cta;\nbar.sync 0;\n{taking_part}\n\
             mad.wide.u32 %rd10, %r0, 4, %rd4;\n@%p2 ld.global.b32 %r9, [%rd10];\nmad.wide.u32 %rd11, %r0, {}, %rd3;\n",
            N * 2
        );
        // 128 bytes between core matrices along a line; the lines' groups of 8 are as long as 8 lines.
        let desc = |line: usize, mn_major: bool| {
            let (leading, stride) = if mn_major { (8 * line, 128) } else { (128, 8 * line) };
            (leading as u64) >> 4 << 16 | (stride as u64) >> 4 << 32
        };
        let a_line = if self.across { 64 * size } else { 32 };
        body += &format!(
            "bfe.u32 %r5, %r1, 4, 14;\ncvt.u64.u32 %rd12, %r5;\nor.b64 %rd13, %rd12, {};\nadd.u64 %rd13, %rd13, {};\nor.b64 %rd12, %rd12, {};\n",
            desc(64, false),
            B_AT >> 4,
            desc(a_line, self.across)
        );
        let mut first = "%rd12".to_owned();
        if self.registers {
            body += "shr.u32 %r6, %r0, 5;\nshl.b32 %r6, %r6, 4;\nand.b32 %r7, %r0, 31;\nshr.u32 %r8, %r7, 2;\nadd.u32 %r6, %r6, %r8;\n\
                     and.b32 %r7, %r7, 3;\nshl.b32 %r7, %r7, 2;\nmad.lo.u32 %r6, %r6, 32, %r7;\ncvt.u64.u32 %rd14, %r6;\nadd.u64 %rd14, %rd14, %rd2;\n";
            for (i, (row, at)) in [(0, 0), (8, 0), (0, 16), (8, 16)].into_iter().enumerate() {
                body += &format!("ld.global.b32 %r{}, [%rd14 + {}];\n", 10 + i, row * 32 + at);
            }
            first = list("%r", 10, 4);
        }
        let integers = self.d == "s32";
        let name = |i: usize| if integers { format!("%r{}", 40 + i) } else { format!("%f{i}") };
        let d = if integers { list("%r", 40, N / 2) } else { list("%f", 0, N / 2) };
        let scales = match (integers, size, self.registers) {
            (true, ..) => String::new(),
            (_, 2, false) => format!(", 1, 1, {}, 0", u32::from(self.across)),
            (_, 2, true) => ", 1, 1, 0".to_owned(),
            _ => ", 1, 1".to_owned(),
        };
        body += &format!(
            "setp.ne.u32 %p1, 0, 0;\nwgmma.fence.sync.aligned;\n\
             wgmma.mma_async.sp.sync.aligned.m64n{N}k{}.{}.{}.{} {d}, {first}, %rd13, %r9, {}, %p1{scales};\n\
             wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n",
            self.k(),
            self.d,
            self.a.0,
            self.b.0,
            self.selector
        );
        for i in 0..N / 2 {
            body += &format!("st.global.b32 [%rd11 + {}], {};\n", i * 4, name(i));
        }
        let buffers = [a, b, plain, vec![0; 64 * N * 4], metadata];
        let options = Options { seed: 3, ..Options::default() };
        let (report, out) = run(".version 8.4\n.target sm_90a", 128, &buffers, &body, &options);
        let mut all = vec![0; 64 * N];
        for (i, word) in words(&out[3]).into_iter().enumerate() {
            let (t, i) = (i / (N / 2), i % (N / 2));
            let (m, n) = (t / 32 * 16 + t % 32 / 4 + i / 2 % 2 * 8, i / 4 * 8 + t % 4 * 2 + i % 2);
            all[m * N + n] = word;
        }
        (report, all)
    }

    fn check(&self) {
        let (report, d) = self.run();
        assert!(report.is_clean(), "{}", report.findings[0]);
        // Twice the rate of a dense product.
        assert_eq!(report.cost.tensor_cycles, N as u64 / 2);
        for m in 0..64 {
            for n in 0..N {
                let (want, size) = self.rows().product(m, |k| self.b.value((self.right)(self.b, n, k)));
                let got = d[m * N + n];
                let got = if self.d == "s32" { f64::from(got as i32) } else { f64::from(f32::from_bits(got)) };
                let bound = if self.d == "s32" { 0.0 } else { 1e-6 * (size + 1.0) };
                let what = format!("{:?} {:?} selector {} registers {}", self.a, self.b, self.selector, self.registers);
                assert!((got - want).abs() <= bound, "{what}: {got}, not {want}, at {m}, {n}");
            }
        }
    }
}

#[test]
fn products_are_those_of_the_dense_matrix() {
    for registers in [false, true] {
        for selector in [0, 1] {
            for format in ["f16", "bf16", "tf32"] {
                Case { a: Format(format), b: Format(format), selector, registers, ..F16 }.check();
            }
        }
        for (a, b) in [("e4m3", "e5m2"), ("e5m2", "e5m2")] {
            Case { a: Format(a), b: Format(b), registers, ..F16 }.check();
        }
        for (a, b) in [("s8", "s8"), ("u8", "s8")] {
            Case { d: "s32", a: Format(a), b: Format(b), registers, ..F16 }.check();
        }
    }
    Case { across: true, ..F16 }.check();
}

/// What A does not have is not multiplied: an infinity beside it does no harm.
#[test]
fn what_is_not_stored_is_not_multiplied() {
    let right = |format: Format, n: usize, k: usize| if k % 4 < 2 { format.draw(n * 64 + k, 2) } else { 0x7c00 };
    Case { pick: |_, _| (1, 0), right, ..F16 }.check();
}

#[test]
fn metadata_that_say_nothing_are_found() {
    for (case, expected) in [
        (Case { spoil: |word| word & !0xf0 | 0xa0, ..F16 }, "columns 4 to 7, is 0b1010"),
        (Case { a: Format("tf32"), b: Format("tf32"), spoil: |word| word & !0xf, ..F16 }, "columns 0 to 1, is 0b0000"),
        (
            Case { a: Format("e4m3"), b: Format("e4m3"), spoil: |word| word | 0xf << 28, ..F16 },
            "columns 28 to 31, is 0b1111",
        ),
    ] {
        let (report, _) = case.run();
        let finding = &report.findings[0];
        assert_eq!(finding.kind, FindingKind::SparseMetadata);
        assert!(finding.message.contains(expected), "{}", finding.message);
    }
}
