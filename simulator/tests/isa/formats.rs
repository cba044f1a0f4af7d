//! Element formats and a launch of one block, for tests of matrix instructions.

use bsr_simulator::{GlobalMemory, Options, Param, Report, parse, simulate};

use crate::one_cta;
use half::{bf16, f16};

/// A type of matrix elements, by its PTX name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Format(pub(crate) &'static str);

impl Format {
    pub(crate) fn bytes(self) -> usize {
        match self.0 {
            "s8" | "u8" | "e4m3" | "e5m2" => 1,
            "f16" | "bf16" => 2,
            _ => 4,
        }
    }

    /// The value of a bit pattern, by the formats' definitions.
    pub(crate) fn value(self, bits: u32) -> f64 {
        let float = |exponent: u32, mantissa: u32, bias: i32| {
            let sign = if bits >> (exponent + mantissa) & 1 == 1 { -1.0 } else { 1.0 };
            let e = (bits >> mantissa & ((1 << exponent) - 1)) as i32;
            let m = f64::from(bits & ((1 << mantissa) - 1)) / f64::from(1u32 << mantissa);
            sign * if e == 0 { m * 2f64.powi(1 - bias) } else { (1.0 + m) * 2f64.powi(e - bias) }
        };
        match self.0 {
            "s8" => f64::from(bits as u8 as i8),
            "u8" => f64::from(bits as u8),
            "e4m3" => float(4, 3, 7),
            "e5m2" => float(5, 2, 15),
            "f16" => float(5, 10, 15),
            "bf16" => float(8, 7, 127),
            _ => f64::from(f32::from_bits(bits)),
        }
    }

    /// Element `i` of an endless list: any integer, or a float of moderate size (never an infinity or NaN).
    pub(crate) fn draw(self, i: usize, seed: u32) -> u32 {
        let mut h = (i as u32).wrapping_mul(0x9e37_79b9) ^ seed.wrapping_mul(0x85eb_ca6b);
        h = (h ^ h >> 15).wrapping_mul(0x2c1b_3c6d);
        h ^= h >> 13;
        let small = f64::from(h % 2001) / 250.0 - 4.0;
        match self.0 {
            "s8" | "u8" => h & 0xff,
            // Exponents around the bias.
            "e4m3" => h & 0x80 | (h >> 8 & 7) << 3 | 0x20 | h >> 16 & 7,
            "e5m2" => h & 0x80 | (h >> 8 & 7) << 2 | 0x30 | h >> 16 & 3,
            "f16" => u32::from(f16::from_f64(small).to_bits()),
            "bf16" => u32::from(bf16::from_f64(small).to_bits()),
            "tf32" => (small as f32).to_bits() & !0x1fff,
            _ => (small as f32).to_bits(),
        }
    }
}

/// Elements to bytes.
pub(crate) fn bytes(format: Format, elements: impl Iterator<Item = u32>) -> Vec<u8> {
    elements.flat_map(|v| v.to_le_bytes().into_iter().take(format.bytes())).collect()
}

pub(crate) fn words(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks(4).map(|c| u32::from_le_bytes(c.try_into().unwrap())).collect()
}

/// `%r3, %r4, ...` in braces.
pub(crate) fn list(prefix: &str, from: usize, n: usize) -> String {
    let names: Vec<String> = (from..from + n).map(|i| format!("{prefix}{i}")).collect();
    format!("{{{}}}", names.join(", "))
}

/// Runs `body` in one block with `%rd0`, `%rd1`, ... the addresses of the buffers, `%r0` the thread and `%r1` shared
/// memory; gives the buffers after.
pub(crate) fn run(
    head: &str,
    threads: u32,
    buffers: &[Vec<u8>],
    body: &str,
    options: &Options,
) -> (Report, Vec<Vec<u8>>) {
    let mut text = format!("{head}\n.address_size 64\n.extern .shared .align 1024 .b8 smem[];\n.visible .entry k(");
    let names: Vec<String> = (0..buffers.len()).map(|i| format!(".param .u64 p{i}")).collect();
    text += &names.join(", ");
    text += ")\n.maxntid 1024, 1, 1\n{\n.reg .b16 %h<16>;\n.reg .b32 %r<200>;\n.reg .b64 %rd<20>;\n.reg .f32 %f<140>;\n.reg .pred %p<8>;\n";
    for i in 0..buffers.len() {
        text += &format!("ld.param.u64 %rd{i}, [p{i}];\ncvta.to.global.u64 %rd{i}, %rd{i};\n");
    }
    text += &format!("mov.u32 %r0, %tid.x;\nmov.u32 %r1, smem;\n{body}\nret;\n}}\n");
    let module = parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let mut memory = GlobalMemory::new();
    let ids: Vec<_> = buffers.iter().map(|b| memory.upload(b.clone(), 256)).collect();
    let launch = one_cta(threads, 32768, ids.iter().map(|id| Param::Buffer(*id)).collect());
    let report = simulate(&module, "k", &launch, &mut memory, options).unwrap_or_else(|e| panic!("{e}"));
    (report, ids.iter().map(|id| memory.bytes(*id).to_vec()).collect())
}
