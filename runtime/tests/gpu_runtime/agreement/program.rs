//! A small PTX program with what it is given, and the simulator's run of it.

use bsr_simulator::{
    GlobalMemory, Im2col, Launch, Options, Param, Swizzle, TensorElement, TensorMapDesc, parse, simulate,
};
use half::{bf16, f16};

/// Bytes of dynamic shared memory of every program.
pub(crate) const SHARED: u32 = 32768;

/// One block. The kernel `k` takes the tensor maps, and then the addresses of the buffers.
pub(crate) struct Program {
    pub(crate) name: String,
    pub(crate) text: String,
    pub(crate) threads: u32,
    pub(crate) maps: Vec<Map>,
    pub(crate) buffers: Vec<Vec<u8>>,
}

/// A tensor map of the first buffer.
#[derive(Clone)]
pub(crate) struct Map {
    pub(crate) element: TensorElement,
    pub(crate) dims: Vec<u64>,
    pub(crate) strides: Vec<u64>,
    pub(crate) box_dims: Vec<u32>,
    pub(crate) steps: Vec<u32>,
    pub(crate) corners: Option<(Vec<i32>, Vec<i32>)>,
    pub(crate) swizzle: Swizzle,
    pub(crate) fill_nan: bool,
}

impl Map {
    /// Bytes from the first element to the end of the last line, with its padding.
    pub(crate) fn bytes(&self) -> usize {
        let outer = self.dims.last().copied().unwrap_or(1) * self.strides.last().copied().unwrap_or(0);
        outer.max(self.dims[0] * u64::from(self.element.bytes())).next_multiple_of(16) as usize
    }
}

impl Program {
    /// `body` has `%rd0`, `%rd1`, .. for the addresses of the buffers, `%map` for that of the map, `%r0` for the thread and
    /// `%r1` for shared memory.
    pub(crate) fn new(name: String, threads: u32, maps: Vec<Map>, buffers: Vec<Vec<u8>>, body: &str) -> Self {
        let of_maps = (0..maps.len()).map(|i| format!(".param .align 64 .b8 map{i}[128]"));
        let params: Vec<String> = of_maps.chain((0..buffers.len()).map(|i| format!(".param .u64 p{i}"))).collect();
        let mut text = format!(
            ".version 8.7\n.target sm_90a\n.address_size 64\n.extern .shared .align 1024 .b8 smem[];\n.visible .entry k({})\n\
             .maxntid {threads}, 1, 1\n{{\n.reg .b16 %h<16>;\n.reg .b32 %r<200>;\n.reg .b64 %rd<30>;\n.reg .b64 %map;\n\
             .reg .f32 %f<140>;\n.reg .pred %p<8>;\n",
            params.join(", ")
        );
        for i in 0..buffers.len() {
            text += &format!("ld.param.u64 %rd{i}, [p{i}];\ncvta.to.global.u64 %rd{i}, %rd{i};\n");
        }
        if !maps.is_empty() {
            text += "mov.b64 %map, map0;\ncvta.param.u64 %map, %map;\n";
        }
        text += &format!("mov.u32 %r0, %tid.x;\nmov.u32 %r1, smem;\n{body}\nret;\n}}\n");
        Self { name, text, threads, maps, buffers }
    }

    /// What the simulator leaves in the buffers.
    pub(crate) fn simulated(&self) -> Vec<Vec<u8>> {
        self.judged().unwrap_or_else(|finding| panic!("{}: {finding}\n{}", self.name, self.text))
    }

    /// The same, or what it finds.
    pub(crate) fn judged(&self) -> Result<Vec<Vec<u8>>, String> {
        let module = parse(&self.text).unwrap_or_else(|error| panic!("{}: {error}\n{}", self.name, self.text));
        let mut memory = GlobalMemory::new();
        let ids: Vec<_> = self.buffers.iter().map(|bytes| memory.upload(bytes.clone(), 256)).collect();
        let map = |map: &Map| {
            Param::TensorMap(TensorMapDesc {
                buffer: ids[0],
                offset: 0,
                element: map.element,
                dims: map.dims.clone(),
                strides: map.strides.clone(),
                box_dims: map.box_dims.clone(),
                element_strides: map.steps.clone(),
                im2col: map.corners.clone().map(|(lower, upper)| Im2col { lower, upper }),
                swizzle: map.swizzle,
                fill_nan: map.fill_nan,
            })
        };
        let params = self.maps.iter().map(map).chain(ids.iter().map(|id| Param::Buffer(*id))).collect();
        let block = [self.threads, 1, 1];
        let launch = Launch { grid: [1; 3], cluster: [1; 3], block, shared_bytes: SHARED, params };
        let report = simulate(&module, "k", &launch, &mut memory, &Options::default()).unwrap();
        match report.findings.first() {
            Some(finding) => Err(finding.to_string().lines().next().unwrap_or_default().to_owned()),
            None => Ok(ids.iter().map(|id| memory.bytes(*id).to_vec()).collect()),
        }
    }
}

/// Number `i` of an endless list of small whole numbers, -4 to 4: sums of their products are exact in every type.
pub(crate) fn small(i: usize, seed: u32) -> i32 {
    (mixed(i, seed) % 9) as i32 - 4
}

/// Number `i` of an endless list of words.
pub(crate) fn mixed(i: usize, seed: u32) -> u32 {
    let mut h = (i as u32).wrapping_mul(0x9e37_79b9) ^ seed.wrapping_mul(0x85eb_ca6b);
    h = (h ^ h >> 15).wrapping_mul(0x2c1b_3c6d);
    h ^ h >> 13
}

/// The bytes of a small number in a type of PTX.
pub(crate) fn encoded(ty: &str, value: i32) -> Vec<u8> {
    let fp8 = |magnitudes: [u8; 5]| magnitudes[value.unsigned_abs() as usize] | if value < 0 { 0x80 } else { 0 };
    match ty {
        "u8" => vec![value.unsigned_abs() as u8],
        "s8" => vec![value as u8],
        // Two of 4 bits; the sign bit of a number that has none is a value, too.
        "u4" => vec![value.unsigned_abs() as u8 * 0x31],
        "s4" => vec![((value as u8) << 4) | ((3 - value) as u8 & 0xf)],
        "e4m3" => vec![fp8([0, 0x38, 0x40, 0x44, 0x48])],
        "e5m2" => vec![fp8([0, 0x3c, 0x40, 0x42, 0x44])],
        "f16" => f16::from_f32(value as f32).to_bits().to_le_bytes().to_vec(),
        "bf16" => bf16::from_f32(value as f32).to_bits().to_le_bytes().to_vec(),
        "s32" | "u32" => value.to_le_bytes().to_vec(),
        _ => (value as f32).to_le_bytes().to_vec(),
    }
}

/// `bytes` bytes of small numbers.
pub(crate) fn numbers(ty: &str, bytes: usize, seed: u32) -> Vec<u8> {
    (0..).flat_map(|i| encoded(ty, small(i, seed))).take(bytes).collect()
}

/// `%r3, %r4, ...` in braces.
pub(crate) fn list(prefix: &str, from: usize, n: usize) -> String {
    let names: Vec<String> = (from..from + n).map(|i| format!("{prefix}{i}")).collect();
    format!("{{{}}}", names.join(", "))
}

/// Loads `n` registers from `%r{first}` on from a thread's part of a buffer.
pub(crate) fn load(buffer: usize, first: usize, n: usize) -> String {
    let address = format!("mad.wide.u32 %rd20, %r0, {}, %rd{buffer};\n", n * 4);
    (0..n).fold(address, |all, i| all + &format!("ld.global.b32 %r{}, [%rd20 + {}];\n", first + i, i * 4))
}

/// Stores them.
pub(crate) fn store(buffer: usize, first: usize, n: usize) -> String {
    let address = format!("mad.wide.u32 %rd20, %r0, {}, %rd{buffer};\n", n * 4);
    (0..n).fold(address, |all, i| all + &format!("st.global.b32 [%rd20 + {}], %r{};\n", i * 4, first + i))
}

/// Copies a buffer to `offset` of shared memory, word by word.
pub(crate) fn to_shared(buffer: usize, words: usize, offset: usize, threads: usize) -> String {
    format!(
        "mov.u32 %r2, %r0;\n$copy{buffer}:\nsetp.ge.u32 %p0, %r2, {words};\n@%p0 bra $copied{buffer};\nmad.wide.u32 %rd20, %r2, 4, %rd{buffer};\n\
         ld.global.b32 %r3, [%rd20];\nmad.lo.u32 %r4, %r2, 4, %r1;\nst.shared.b32 [%r4 + {offset}], %r3;\nadd.u32 %r2, %r2, {threads};\n\
         bra $copy{buffer};\n$copied{buffer}:\n"
    )
}
