//! Every operand layout of `wgmma`, on tiles that tensor copies have written.

use bsr_simulator::{
    BufferId, GlobalMemory, Launch, Options, Param, Swizzle, TensorElement, TensorMapDesc, parse, simulate,
};

use crate::one_cta;
use half::f16;

const K: u32 = 64;

/// An operand with `mn` rows or columns.
#[derive(Clone, Copy, Debug)]
struct Operand {
    mn: u32,
    /// Swizzle span in bytes, 16 for none.
    span: u32,
    mn_major: bool,
}

impl Operand {
    fn elements(self) -> u32 {
        self.span / 2
    }

    /// (panels, bytes of a panel)
    fn panels(self) -> (u32, u32) {
        if self.mn_major {
            (self.mn.div_ceil(self.elements()), K * self.span)
        } else {
            (K / self.elements(), self.mn * self.span)
        }
    }

    fn bytes(self) -> u32 {
        let (n, bytes) = self.panels();
        n * bytes
    }

    /// (leading, stride) in bytes.
    fn offsets(self) -> (u32, u32) {
        let panel = self.panels().1;
        match (self.mn_major, self.span) {
            (false, 16) => (panel, 128),
            (true, 16) => (128, panel),
            (false, s) => (16, 8 * s),
            (true, s) => (panel, 8 * s),
        }
    }

    /// Start of k step `j`, from the operand's first byte.
    fn step(self, j: u32) -> u32 {
        if self.mn_major {
            return j * 16 * self.span;
        }
        let k = 16 * j;
        k / self.elements() * self.panels().1 + k % self.elements() * 2
    }

    fn descriptor(self) -> u64 {
        let (leading, stride) = self.offsets();
        let mode: u64 = match self.span {
            128 => 1,
            64 => 2,
            32 => 3,
            _ => 0,
        };
        u64::from(leading >> 4) << 16 | u64::from(stride >> 4) << 32 | mode << 62
    }

    fn loads(self, name: &str, at: u32) -> String {
        let (n, bytes) = self.panels();
        let mut out = String::new();
        for p in 0..n {
            out += &format!(
                "add.u32 %r2, %r1, {};\nmov.u32 %r3, {};\ncp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [{name}, {{%r3, %r4}}], [%r5];\n",
                at + p * bytes,
                p * self.elements()
            );
        }
        out
    }

    fn map(self, memory: &mut GlobalMemory, value: impl Fn(u32, u32) -> f32) -> TensorMapDesc {
        // In memory the major direction is contiguous, padded to a multiple of 8 elements.
        let (inner, outer) = if self.mn_major { (self.mn, K) } else { (K, self.mn) };
        let pitch = inner.next_multiple_of(8);
        let mut bytes = vec![0u8; (pitch * outer * 2) as usize];
        for o in 0..outer {
            for i in 0..inner {
                let (mn, k) = if self.mn_major { (i, o) } else { (o, i) };
                let at = ((o * pitch + i) * 2) as usize;
                bytes[at..at + 2].copy_from_slice(&f16::from_f32(value(mn, k)).to_le_bytes());
            }
        }
        let id = memory.upload(bytes, 128);
        let span = if self.span == 16 { 0 } else { self.span };
        let swizzle = Swizzle::from_span(span).unwrap();
        let dims = [u64::from(inner), u64::from(outer)];
        TensorMapDesc::matrix(id, TensorElement::F16, dims, u64::from(pitch) * 2, [self.elements(), outer], swizzle)
    }
}

fn a(m: u32, k: u32) -> f32 {
    let v = (m.wrapping_mul(2_654_435_761) ^ k.wrapping_mul(40_503).wrapping_add(m * 77)) % 4093;
    f16::from_f32((v as f32 - 2046.0) / 517.0).to_f32()
}

fn b(n: u32, k: u32) -> f32 {
    let v = (n.wrapping_mul(2_246_822_519) ^ k.wrapping_mul(30_011).wrapping_add(n * 91)) % 4091;
    f16::from_f32((v as f32 - 2045.0) / 611.0).to_f32()
}

/// The type of D: f32, or f16, of which a register has two neighbouring columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sum {
    F32,
    F16,
}

impl Sum {
    fn bytes(self) -> u32 {
        if self == Self::F16 { 2 } else { 4 }
    }

    fn name(self) -> &'static str {
        if self == Self::F16 { "f16" } else { "f32" }
    }

    /// From the thread's registers to its places in D, `n` columns wide, at `%rd4`.
    fn stores(self, n: u32) -> String {
        let registers = 0..n / 4;
        match self {
            Self::F32 => registers
                .map(|i| format!("st.global.v2.f32 [%rd4 + {}], {{%f{}, %f{}}};\n", 4 * pair(n, i), 2 * i, 2 * i + 1))
                .collect(),
            Self::F16 => registers.map(|i| format!("st.global.b32 [%rd4 + {}], %h{i};\n", 2 * pair(n, i))).collect(),
        }
    }
}

/// Where in D, from the thread's first element on, pair `i` of its columns is.
fn pair(n: u32, i: u32) -> u32 {
    i / 2 * 8 + i % 2 * 8 * n
}

fn kernel(left: Operand, right: Operand, registers: bool, sum: Sum) -> String {
    let n = right.mn;
    let accs: Vec<String> = match sum {
        Sum::F32 => (0..n / 2).map(|i| format!("%f{i}")).collect(),
        Sum::F16 => (0..n / 4).map(|i| format!("%h{i}")).collect(),
    };
    let accs = accs.join(", ");
    let b_at = left.bytes().next_multiple_of(1024);
    let bar = b_at + right.bytes().next_multiple_of(1024);
    let mut text = format!(
        ".version 8.0\n.target sm_90a\n.address_size 64\n.extern .shared .align 1024 .b8 smem[];\n\
         .visible .entry k(.param .align 64 .b8 ma[128], .param .align 64 .b8 mb[128], .param .u64 out, .param .u64 a_values)\n.maxntid 128, 1, 1\n{{\n\
         .reg .b32 %r<32>;\n.reg .b64 %rd<16>;\n.reg .f32 %f<{}>;\n.reg .b32 %h<64>;\n.reg .pred %p<4>;\n\
         mov.u32 %r0, %tid.x;\nmov.u32 %r1, smem;\nmov.u32 %r4, 0;\nadd.u32 %r5, %r1, {bar};\n\
         mov.b64 %rd0, ma;\ncvta.param.u64 %rd0, %rd0;\nmov.b64 %rd1, mb;\ncvta.param.u64 %rd1, %rd1;\n\
         setp.ne.u32 %p0, %r0, 0;\n@%p0 bra $made;\nmbarrier.init.shared::cta.b64 [%r5], 1;\nfence.proxy.async;\n\
         mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r5], {};\n",
        n / 2,
        left.bytes() + right.bytes()
    );
    text += &left.loads("%rd0", 0);
    text += &right.loads("%rd1", b_at);
    text += "$made:\nbar.sync 0;\n$wait:\nmbarrier.try_wait.parity.shared::cta.b64 %p1, [%r5], 0;\n@!%p1 bra $wait;\nsetp.ne.u32 %p2, 0, 0;\n";
    // Row of this thread, column pair.
    text += "shr.u32 %r6, %r0, 5;\nshl.b32 %r6, %r6, 4;\nand.b32 %r7, %r0, 31;\nshr.u32 %r8, %r7, 2;\nadd.u32 %r6, %r6, %r8;\nand.b32 %r7, %r7, 3;\nshl.b32 %r7, %r7, 1;\n";
    for j in 0..K / 16 {
        text += &format!(
            "add.u32 %r9, %r1, {};\nbfe.u32 %r9, %r9, 4, 14;\ncvt.u64.u32 %rd2, %r9;\nor.b64 %rd2, %rd2, {};\n",
            left.step(j),
            left.descriptor()
        );
        text += &format!(
            "add.u32 %r9, %r1, {};\nbfe.u32 %r9, %r9, 4, 14;\ncvt.u64.u32 %rd3, %r9;\nor.b64 %rd3, %rd3, {};\n",
            b_at + right.step(j),
            right.descriptor()
        );
        let mut a_operand = "%rd2".to_owned();
        if registers {
            // a_values: half [64][K], row-major.
            text += &format!(
                "ld.param.u64 %rd5, [a_values];\nmad.lo.u32 %r9, %r6, {K}, %r7;\nadd.u32 %r9, %r9, {};\nmad.wide.u32 %rd5, %r9, 2, %rd5;\n",
                16 * j
            );
            for (i, (row, column)) in [(0, 0), (8, 0), (0, 8), (8, 8)].into_iter().enumerate() {
                text +=
                    &format!("ld.global.b32 %r{}, [%rd5 + {}];\n", 20 + 4 * j as usize % 4 + i, (row * K + column) * 2);
            }
            a_operand = "{%r20, %r21, %r22, %r23}".to_owned();
        }
        let trans = if registers {
            format!("{}", u8::from(right.mn_major))
        } else {
            format!("{}, {}", u8::from(left.mn_major), u8::from(right.mn_major))
        };
        text += &format!(
            "wgmma.fence.sync.aligned;\nwgmma.mma_async.sync.aligned.m64n{n}k16.{}.f16.f16 {{{accs}}}, {a_operand}, %rd3, %p2, 1, 1, {trans};\nsetp.eq.u32 %p2, 0, 0;\n",
            sum.name()
        );
        text += "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n";
    }
    text += &format!(
        "ld.param.u64 %rd4, [out];\nmad.lo.u32 %r10, %r6, {n}, %r7;\nmad.wide.u32 %rd4, %r10, {}, %rd4;\n",
        sum.bytes()
    );
    text + &sum.stores(n) + "ret;\n}\n"
}

/// A case on the simulator: its launch, its memory after the run, and the output.
struct Ran {
    text: String,
    launch: Launch,
    memory: GlobalMemory,
    out: BufferId,
    values: BufferId,
}

fn run(left: Operand, right: Operand, registers: bool, sum: Sum) -> Ran {
    let text = kernel(left, right, registers, sum);
    let module = parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let mut memory = GlobalMemory::new();
    let (ma, mb) = (left.map(&mut memory, a), right.map(&mut memory, b));
    let out = memory.alloc((64 * right.mn * sum.bytes()) as usize, 128);
    let values = (0..64 * K).flat_map(|i| f16::from_f32(a(i / K, i % K)).to_le_bytes()).collect();
    let values = memory.upload(values, 128);
    let launch = one_cta(
        128,
        left.bytes().next_multiple_of(1024) + right.bytes().next_multiple_of(1024) + 16,
        vec![Param::TensorMap(ma), Param::TensorMap(mb), Param::Buffer(out), Param::Buffer(values)],
    );
    let report = simulate(&module, "k", &launch, &mut memory, &Options { seed: 5, ..Options::default() }).unwrap();
    assert!(report.is_clean(), "{left:?} {right:?}\n{}", report.findings[0]);
    Ran { text, launch, memory, out, values }
}

fn check(left: Operand, right: Operand, registers: bool) {
    let ran = run(left, right, registers, Sum::F32);
    for m in 0..64 {
        for n in 0..right.mn {
            let at = ((m * right.mn + n) * 4) as usize;
            let got = f32::from_le_bytes(ran.memory.bytes(ran.out)[at..at + 4].try_into().unwrap());
            let products = (0..K).map(|k| f64::from(a(m, k)) * f64::from(b(n, k)));
            let (want, size) = products.fold((0.0, 0.0), |(s, t), p| (s + p, t + p.abs()));
            let off = (f64::from(got) - want).abs();
            assert!(off <= 1e-6 * size, "{left:?} {right:?} registers {registers} at {m}, {n}: {got}, not {want}");
        }
    }
}

fn all_cases(widths: &[u32]) -> Vec<(Operand, Operand, bool)> {
    let mut out = Vec::new();
    for a_span in [16, 32, 64, 128] {
        for b_span in [16, 32, 64, 128] {
            for mn in widths {
                for (a_major, b_major) in [(false, false), (false, true), (true, false), (true, true)] {
                    let left = Operand { mn: 64, span: a_span, mn_major: a_major };
                    out.push((left, Operand { mn: *mn, span: b_span, mn_major: b_major }, false));
                }
            }
        }
    }
    for mn_major in [false, true] {
        let left = Operand { mn: 64, span: 128, mn_major: false };
        out.push((left, Operand { mn: 64, span: 128, mn_major }, true));
    }
    out
}

#[test]
fn all_layouts_of_both_operands_and_a_from_registers() {
    for (left, right, registers) in all_cases(&[8, 24, 64, 136, 256]) {
        check(left, right, registers);
    }
}

/// Sums of f16 are made in single precision within an instruction and rounded by each: to the nearest, ties to even.
#[test]
fn sums_of_f16_are_rounded_once_an_instruction() {
    for (n, registers) in [(8, false), (24, false), (64, true), (256, false)] {
        let (left, right) = [64, n].map(|mn| Operand { mn, span: 128, mn_major: false }).into();
        let ran = run(left, right, registers, Sum::F16);
        for (m, n) in (0..64).flat_map(|m| (0..right.mn).map(move |n| (m, n))) {
            let at = ((m * right.mn + n) * 2) as usize;
            let got = f16::from_le_bytes(ran.memory.bytes(ran.out)[at..at + 2].try_into().unwrap());
            let instruction = |sum: f16, j: u32| {
                f16::from_f32((16 * j..16 * j + 16).fold(sum.to_f32(), |sum, k| sum + a(m, k) * b(n, k)))
            };
            assert_eq!(got, (0..K / 16).fold(f16::ZERO, instruction), "n = {}, at {m}, {n}", right.mn);
        }
    }
}

/// Writes kernels, inputs and the simulator's output to `$BSR_SIM_DUMP`, for `tests/device/agree.cu`.
#[test]
#[ignore = "feeds a comparison on a GPU"]
fn dump_for_a_device() {
    let dir = std::path::PathBuf::from(std::env::var_os("BSR_SIM_DUMP").unwrap());
    std::fs::create_dir_all(&dir).unwrap();
    let mut list = String::new();
    for (id, (left, right, registers)) in all_cases(&[24, 136]).into_iter().enumerate() {
        let ran = run(left, right, registers, Sum::F32);
        list += &format!("{id} {} {}", ran.launch.shared_bytes, right.mn);
        let mut parts = Vec::new();
        for p in &ran.launch.params[..2] {
            let Param::TensorMap(m) = p else { unreachable!() };
            let code = [Swizzle::None, Swizzle::B32, Swizzle::B64, Swizzle::B128].iter().position(|s| *s == m.swizzle);
            let (d, s, x) = (&m.dims, &m.strides, &m.box_dims);
            list += &format!(" {} {} {} {} {} {}", d[0], d[1], s[0], x[0], x[1], code.unwrap());
            parts.push(ran.memory.bytes(m.buffer));
        }
        list += "\n";
        parts.extend([ran.memory.bytes(ran.values), ran.memory.bytes(ran.out)]);
        let mut blob = Vec::new();
        for part in parts {
            blob.extend((part.len() as u32).to_le_bytes());
            blob.extend(part);
        }
        std::fs::write(dir.join(format!("{id}.ptx")), &ran.text).unwrap();
        std::fs::write(dir.join(format!("{id}.bin")), blob).unwrap();
    }
    std::fs::write(dir.join("list"), list).unwrap();
}
