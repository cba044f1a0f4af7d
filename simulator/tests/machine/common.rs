//! The hand-written GEMM and its reference.

use bsr_simulator::{
    GlobalMemory, Launch, Options, Param, Report, Swizzle, TensorElement, TensorMapDesc, parse, simulate,
};
use half::f16;

/// The kernel's text.
pub(crate) const GEMM: &str = include_str!("../kernels/gemm.ptx");

/// C[m, n] = A[m, k] * B[k, n], half precision in and out.
pub(crate) struct Gemm {
    pub(crate) m: usize,
    pub(crate) n: usize,
    pub(crate) k: usize,
    pub(crate) text: String,
    pub(crate) a: Vec<f32>,
    pub(crate) b: Vec<f32>,
}

/// Small values that half precision holds exactly; a sum of a few hundred products is exact in single precision.
pub(crate) fn half_values(n: usize, seed: u64) -> Vec<f32> {
    let mut s = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..n)
        .map(|_| {
            s ^= s << 13;
            s ^= s >> 7;
            s ^= s << 17;
            ((s % 17) as f32 - 8.0) / 8.0
        })
        .collect()
}

fn bytes(values: &[f32], columns: usize, pitch: usize) -> Vec<u8> {
    let mut out = vec![0u8; values.len() / columns * pitch];
    for (row, line) in out.chunks_mut(pitch).zip(values.chunks(columns)) {
        for (slot, v) in row.chunks_mut(2).zip(line) {
            slot.copy_from_slice(&f16::from_f32(*v).to_le_bytes());
        }
    }
    out
}

fn pitch(columns: usize) -> usize {
    (columns * 2).next_multiple_of(16)
}

impl Gemm {
    pub(crate) fn new(m: usize, n: usize, k: usize) -> Self {
        Self { m, n, k, text: GEMM.to_owned(), a: half_values(m * k, 1), b: half_values(k * n, 2) }
    }

    /// Replaces a piece of the text that must be there.
    pub(crate) fn edit(&mut self, from: &str, to: &str) {
        assert!(self.text.contains(from), "{from}");
        self.text = self.text.replace(from, to);
    }

    pub(crate) fn run(&self, options: &Options) -> (Report, Vec<f32>) {
        let module = parse(&self.text).unwrap_or_else(|e| panic!("{e}"));
        let mut memory = GlobalMemory::new();
        let (pa, pb) = (pitch(self.k), pitch(self.n));
        let a = memory.upload(bytes(&self.a, self.k, pa), 128);
        let b = memory.upload(bytes(&self.b, self.n, pb), 128);
        let c = memory.upload(vec![0xff; self.m * pb], 128);
        let map = |id, columns: usize, rows: usize, pitch: usize, boxed| {
            let dims = [columns as u64, rows as u64];
            TensorMapDesc::matrix(id, TensorElement::F16, dims, pitch as u64, boxed, Swizzle::B128)
        };
        let grid = [(self.m.div_ceil(64)).next_multiple_of(2) as u32, self.n.div_ceil(64) as u32, 1];
        let launch = Launch {
            grid,
            cluster: [2, 1, 1],
            block: [256, 1, 1],
            shared_bytes: 40960 + 32,
            params: vec![
                Param::TensorMap(map(a, self.k, self.m, pa, [64, 64])),
                Param::TensorMap(map(b, self.n, self.k, pb, [64, 32])),
                Param::TensorMap(map(c, self.n, self.m, pb, [64, 64])),
                Param::U32(self.k.div_ceil(64) as u32),
            ],
        };
        let report = simulate(&module, "gemm", &launch, &mut memory, options).unwrap_or_else(|e| panic!("{e}"));
        let mut out = Vec::new();
        for row in memory.bytes(c).chunks(pb) {
            out.extend(row.chunks(2).take(self.n).map(|p| f16::from_le_bytes([p[0], p[1]]).to_f32()));
        }
        (report, out)
    }

    /// Panics unless `c` is the product, rounded to half precision.
    pub(crate) fn check(&self, c: &[f32]) {
        if let Some(at) = self.wrong(c) {
            panic!("row {} column {} is wrong", at / self.n, at % self.n);
        }
    }

    /// The first wrong element.
    pub(crate) fn wrong(&self, c: &[f32]) -> Option<usize> {
        for i in 0..self.m {
            for j in 0..self.n {
                let sum: f64 =
                    (0..self.k).map(|x| f64::from(self.a[i * self.k + x]) * f64::from(self.b[x * self.n + j])).sum();
                if f16::from_f64(sum).to_f32() != c[i * self.n + j] {
                    return Some(i * self.n + j);
                }
            }
        }
        None
    }
}
