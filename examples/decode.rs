//! A stack of feed-forward layers at decode: few tokens, weights that are read from memory once.
//!
//! `cargo run --release --example decode -- [UP [DOWN]]`, where UP and DOWN are kernels such as `bm = 64, bn = 16, bk = 64,
//! pdl = early`. All layers are launched by one CUDA graph. Every layer has weights of its own, far more in all than the L2
//! cache holds. Without arguments a few kernels are compared; those that divide no sums must give the same bits.

use std::error::Error;
use std::process::ExitCode;

use bsr::bench::{Candidate, InterleaveOptions, interleave};
use bsr::gpu::{Device, DeviceBsr, DeviceDense, Graph, Stream, StreamRef};
use bsr::prelude::*;
use bsr::{KernelError, KernelSpec, Launcher, Plan};

const HIDDEN: usize = 4096;
const WIDE: usize = 11008;
const TOKENS: usize = 16;
const DENSITY: f64 = 0.25;
const LAYERS: usize = 16;

/// Kernels that are compared where none are given: of the products up and down.
const KERNELS: [[&str; 2]; 5] = [
    ["bm = 64, bn = 16, bk = 64", "bm = 64, bn = 16, bk = 64"],
    ["bm = 64, bn = 16, bk = 64, pdl = on", "bm = 64, bn = 16, bk = 64, pdl = on"],
    ["bm = 64, bn = 16, bk = 64, pdl = early", "bm = 64, bn = 16, bk = 64, pdl = early"],
    ["bm = 64, bn = 16, bk = 64, pdl = on", "bm = 64, bn = 16, bk = 64, pdl = on, split = 2"],
    ["bm = 64, bn = 16, bk = 64, pdl = early", "bm = 64, bn = 16, bk = 64, pdl = early, split = 2"],
];

/// The weights of a layer.
struct Layer {
    up: DeviceBsr<f16>,
    down: DeviceBsr<f16>,
}

/// The stack with the kernels of one candidate, captured.
struct Stack {
    name: String,
    graph: Graph,
}

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let device = match Device::open(0).and_then(|device| device.check_target("sm_90a").map(|()| device)) {
        Ok(device) => device,
        Err(none) => {
            println!("nothing is launched: {none}");
            return Ok(ExitCode::from(3));
        }
    };
    let given: Vec<String> = std::env::args().skip(1).collect();
    let kernels: Vec<[String; 2]> = match &given[..] {
        [] => KERNELS.map(|pair| pair.map(str::to_owned)).to_vec(),
        given => given.chunks(2).map(|pair| [pair[0].clone(), pair[pair.len() - 1].clone()]).collect(),
    };
    let block = kernels[0][0].parse::<KernelSpec>().map(|spec| (spec.bm as usize, spec.bk as usize))?;
    let layers = (0..LAYERS as u64).map(|at| layer(&device, block, at)).collect::<Result<Vec<_>, _>>()?;
    let bytes: usize = 2 * layers[0].up.structure().stored();

    let start = Dense::<f16>::normal(HIDDEN, TOKENS, Layout::RowMajor, 2);
    let start = DeviceDense::upload(&device, &start)?;
    let mut x = DeviceDense::<f16>::zeros(&device, HIDDEN, TOKENS, Layout::RowMajor)?;
    let mut y = DeviceDense::<f16>::zeros(&device, WIDE, TOKENS, Layout::RowMajor)?;
    let stream = Stream::new(&device)?;
    let (mut stacks, mut launchers, mut first) = (vec![], vec![], None);
    for pair in &kernels {
        let [up, down] = [load(&device, &pair[0])?, load(&device, &pair[1])?];
        for layer in &layers {
            up.prepare(&layer.up, TOKENS)?;
            down.prepare(&layer.down, TOKENS)?;
        }
        let capture = |stream: StreamRef<'_>| run([&up, &down], &layers, &start, (&mut x, &mut y), stream);
        let mut stack = Stack { name: pair.join(" | "), graph: Graph::capture(&stream, capture)? };
        let mut last = None;
        for _ in 0..10 {
            x.fill_bytes(0xFF)?;
            // SAFETY: weights and activations are alive and nothing else uses them.
            unsafe { stack.graph.launch(stream.handle())? };
            stream.synchronize()?;
            let bits = x.download()?;
            if last.as_ref().is_some_and(|last: &Dense<f16>| last.data() != bits.data()) {
                println!("{}: launches of one graph gave different bits", stack.name);
                return Ok(ExitCode::FAILURE);
            }
            last = Some(bits);
        }
        let divides = pair.iter().any(|spec| spec.contains("split"));
        if let Some(last) = last.filter(|_| !divides) {
            let first = first.get_or_insert_with(|| last.clone());
            if first.data() != last.data() {
                println!("{}: other bits than the first kernels", stack.name);
                return Ok(ExitCode::FAILURE);
            }
        }
        stacks.push(stack);
        launchers.push([up, down]);
    }

    let mut candidates: Vec<Candidate<'_>> = stacks
        .iter_mut()
        .map(|stack| {
            let graph = &mut stack.graph;
            // SAFETY: as above; graphs are launched one after the other in one stream.
            Candidate::new(stack.name.clone(), move |stream| unsafe { graph.launch(stream) })
        })
        .collect();
    let timings = interleave(&mut candidates, &InterleaveOptions::default(), &device)?;
    println!("{LAYERS} layers {HIDDEN} -> {WIDE} -> {HIDDEN}, {TOKENS} tokens, {:.1} MB a product", bytes as f64 / 1e6);
    for timing in &timings {
        let us = timing.median_us() / (2 * LAYERS) as f64;
        println!("{us:>6.2} us a product, {:>5.2} TB/s   {}", bytes as f64 / us / 1e6, timing.name);
    }
    Ok(ExitCode::SUCCESS)
}

fn load(device: &Device, spec: &str) -> Result<Launcher, Box<dyn Error>> {
    let plan = Plan::new(&spec.parse::<KernelSpec>()?)?;
    let ptx = plan.ptx();
    Ok(Launcher::load(device, &plan, ptx.text(), ptx.entry())?)
}

/// Weights whose products are of the size of what they multiply.
fn layer(device: &Device, block: (usize, usize), at: u64) -> Result<Layer, Box<dyn Error>> {
    let weights = |rows: usize, cols: usize, seed: u64| -> Result<DeviceBsr<f16>, Box<dyn Error>> {
        let drawn = Bsr::<f16>::generate(Pattern::Random(DENSITY), rows, cols, block, seed)?;
        let scale = 1.0 / (cols as f32 * DENSITY as f32).sqrt();
        let values = drawn.values().iter().map(|value| f16::from_f32(value.to_f32() * scale)).collect();
        Ok(DeviceBsr::upload(device, &Bsr::from_structure(drawn.structure().clone(), values)?)?)
    };
    Ok(Layer { up: weights(WIDE, HIDDEN, 2 * at)?, down: weights(HIDDEN, WIDE, 2 * at + 1)? })
}

/// Enqueues the stack: from `start` to y to x to y to x, layer by layer.
fn run(
    [up, down]: [&Launcher; 2],
    layers: &[Layer],
    start: &DeviceDense<f16>,
    (x, y): (&mut DeviceDense<f16>, &mut DeviceDense<f16>),
    stream: StreamRef<'_>,
) -> Result<(), KernelError> {
    for (at, layer) in layers.iter().enumerate() {
        let from = if at == 0 { start } else { &*x };
        up.launch(stream, (&layer.up, from), &mut *y)?;
        down.launch(stream, (&layer.down, &*y), &mut *x)?;
    }
    Ok(())
}
