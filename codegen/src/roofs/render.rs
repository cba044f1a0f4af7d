//! The text of a kernel's module.

use serde::Serialize;

use super::RoofKernel;
use crate::Dtype;
use crate::arch::Arch;
use crate::emit::{finished, templates};
use crate::hopper::wgmma::{self, Sums, WGMMA_M};

/// The context of `roofs/module.ptx.tera`.
#[derive(Serialize)]
struct Module {
    arch: Arch,
    comment: &'static str,
    entry: String,
    shared: bool,
    parameters: Vec<String>,
    threads: u32,
    registers: Vec<String>,
    body: String,
}

pub(super) fn ptx(kernel: RoofKernel) -> String {
    let (registers, body) = finished(&body(kernel));
    let module = Module {
        arch: kernel.arch(),
        comment: comment(kernel),
        entry: kernel.entry(),
        shared: kernel.shared_bytes() > 0,
        parameters: parameters(kernel),
        threads: kernel.threads(),
        registers,
        body,
    };
    templates::render("roofs/module.ptx", &module)
}

fn comment(kernel: RoofKernel) -> &'static str {
    match kernel {
        RoofKernel::Read => "Reads device memory at its peak rate.",
        RoofKernel::Copy => "Copies device memory at its peak rate.",
        RoofKernel::L2 => "Copies from L2 to shared memory at the peak rate.",
        RoofKernel::Tensor(_) => "Multiplies at the peak rate of the tensor cores.",
        RoofKernel::Empty => "Measures the time of a launch.",
    }
}

fn parameters(kernel: RoofKernel) -> Vec<String> {
    let pointers = kernel.pointers().iter().map(|name| format!(".param .u64 {name}"));
    let numbers = kernel.numbers().iter().map(|name| format!(".param .u32 {name}"));
    let mut lines: Vec<String> = pointers.chain(numbers).collect();
    let others = lines.len().saturating_sub(1);
    lines[..others].iter_mut().for_each(|line| line.push(','));
    lines
}

fn body(kernel: RoofKernel) -> String {
    match kernel {
        RoofKernel::Read => templates::render("roofs/read.ptx", &Stream::new()),
        RoofKernel::Copy => templates::render("roofs/copy.ptx", &Stream::new()),
        RoofKernel::L2 => templates::render("roofs/l2.ptx", &Ring::new()),
        RoofKernel::Tensor(dtype) => templates::render("roofs/tensor.ptx", &Tensor::new(dtype)),
        RoofKernel::Empty => templates::render("roofs/empty.ptx", &Nothing {}),
    }
}

#[derive(Serialize)]
struct Nothing {}

/// Tiles that a CTA loads with all of its threads.
#[derive(Serialize)]
struct Stream {
    tile_bytes: u32,
    loads: Vec<Load>,
}

/// A vector of four registers, and its offset from the thread's first one.
#[derive(Serialize)]
struct Load {
    registers: String,
    words: Vec<String>,
    offset: u32,
}

impl Stream {
    fn new() -> Self {
        let load = |number: u32| {
            let words: Vec<String> = (4 * number..4 * number + 4).map(|word| format!("%r_word{word}")).collect();
            Load { registers: words.join(", "), words, offset: number * RoofKernel::TILE_BYTES / RoofKernel::LOADS }
        };
        Self { tile_bytes: RoofKernel::TILE_BYTES, loads: (0..RoofKernel::LOADS).map(load).collect() }
    }
}

/// The ring that bulk copies fill.
#[derive(Serialize)]
struct Ring {
    chunk_bytes: u32,
    chunks: u32,
    ring_bytes: u32,
    barriers: Vec<u32>,
}

impl Ring {
    fn new() -> Self {
        let (chunks, chunk_bytes) = (RoofKernel::CHUNKS, RoofKernel::CHUNK_BYTES);
        Self { chunk_bytes, chunks, ring_bytes: chunks * chunk_bytes, barriers: (0..chunks).map(|n| 8 * n).collect() }
    }
}

/// The product of one round: the instructions of a warpgroup.
#[derive(Serialize)]
struct Tensor {
    shape: String,
    modifiers: String,
    sums: String,
    accumulators: Vec<String>,
    /// Bytes of both operands, of A, and from one warpgroup's rows of A to the next one's.
    operand_bytes: u32,
    a_bytes: u32,
    a_stride: u32,
    descriptor: String,
    steps: Vec<Step>,
    is_integer: bool,
    zero: &'static str,
}

/// The offsets of an instruction's operands from the first ones, in units of 16 bytes.
#[derive(Serialize)]
struct Step {
    a: u32,
    b: u32,
}

impl Tensor {
    fn new(dtype: Dtype) -> Self {
        let is_integer = dtype == Dtype::I8;
        let sums = Sums { stem: "acc", dtype: dtype.accumulator() };
        let count = WGMMA_M * RoofKernel::COLUMNS / 128;
        // Rows of 128 bytes of K in the 128-byte swizzle: groups of 8 rows are 1024 bytes, and 32 bytes of K are one instruction.
        let span = RoofKernel::SLAB_K_BYTES;
        let descriptor: u64 = 1 << 16 | u64::from(8 * span / 16) << 32 | 1 << 62;
        let k_major = (crate::plan::Major::K, crate::plan::Major::K);
        let steps = (0..RoofKernel::SLABS).flat_map(|slab| {
            (0..span / 32).map(move |k| Step {
                a: (slab * RoofKernel::ROWS * span + 32 * k) / 16,
                b: (slab * RoofKernel::COLUMNS * span + 32 * k) / 16,
            })
        });
        Self {
            shape: wgmma::shape(RoofKernel::COLUMNS, sums.dtype, (dtype, dtype)),
            modifiers: wgmma::modifiers(dtype, k_major),
            sums: sums.list(0..count),
            accumulators: (0..count).map(|i| sums.name(i)).collect(),
            operand_bytes: RoofKernel::OPERAND_BYTES.iter().sum(),
            a_bytes: RoofKernel::OPERAND_BYTES[0],
            a_stride: WGMMA_M * span,
            descriptor: format!("{descriptor:#018x}"),
            steps: steps.collect(),
            is_integer,
            zero: if is_integer { "mov.u32" } else { "mov.f32" },
        }
    }
}
