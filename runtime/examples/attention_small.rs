//! Times attentions of few tiles: with the work list in memory and in the parameters of a launch, with and without clusters; and what a
//! launch costs the host. `cargo run --release -p bsr-runtime --example attention_small`.
//!
//! On the GPU every launch finds L2 cold and clean. Results must have the bits of the first kernel's. Host times are those of a call of
//! `Launcher::launch` on a plan, a pattern and tensors that are known, in a queue that is never full; below them is a launch of an
//! empty kernel with as many bytes of parameters by the driver alone.

use std::ffi::c_void;
use std::time::Instant;

use bsr_codegen::Plan;
use bsr_runtime::Element;
use bsr_runtime::attention::{DeviceTensor, HeadOrder, Launcher, Mask, Shape, Tensor};
use bsr_runtime::gpu::{Device, Event, Function, L2Flush, LaunchDims, Module, Stream, launch_params};
use half::bf16;

/// Heads, queries, and blocks of 64 keys of a row.
const SIZES: [(usize, usize, usize); 5] = [(8, 1024, 4), (4, 1024, 8), (1, 1024, 16), (4, 2048, 8), (2, 4096, 16)];
const VARIANTS: [&str; 8] = [
    "",
    "work_list = 8192",
    "work_list = 16384",
    "work_list = 30720",
    "pdl = on",
    "pdl = on, work_list = 16384",
    "cluster = 2",
    "cluster = 2, work_list = 16384",
];
const REPEATS: usize = 200;
/// Launches that are enqueued before the GPU is waited for, and how often.
const QUEUE: usize = 100;
const ROUNDS: usize = 25;

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let device = Device::open(0)?;
    println!("{} ({} multiprocessors), L2 cold and clean", device.info().name, device.sm_count());
    for (heads, queries, blocks) in SIZES {
        println!("{heads} heads, {queries} queries, {blocks} blocks of 64 x 64 a row, bf16, 128 columns");
        let shape = Shape { batch: 1, heads, key_heads: heads, queries, keys: queries, columns: 128 };
        let tensors =
            [1, 2, 3].map(|seed| Tensor::<bf16>::normal([1, heads, queries, 128], HeadOrder::HeadsFirst, seed));
        let [q, k, v] = tensors.each_ref().map(|tensor| DeviceTensor::upload(&device, tensor));
        let (there, mut first) = ([q?, k?, v?], None);
        for variant in VARIANTS {
            match time(&device, shape, &there, (variant, blocks), &mut first) {
                Ok(line) => println!("  {variant:<32} {line}"),
                Err(error) => println!("  {variant:<32} {}", error.to_string().lines().next().unwrap_or_default()),
            }
        }
    }
    for bytes in [0, 8192, 16_384, 30_720] {
        println!("the driver's launch with {bytes} B of a list: {:.2} us of the host", alone(&device, bytes)?);
    }
    Ok(())
}

fn time(
    device: &Device,
    shape: Shape,
    [q, k, v]: &[DeviceTensor<bf16>; 3],
    (variant, blocks): (&str, usize),
    first: &mut Option<Vec<u8>>,
) -> Result<String, Failure> {
    let keys = if variant.is_empty() { String::new() } else { format!(", {variant}") };
    let spec = format!("op = attention, bm = 64, bn = 128, bk = 64, dtype = bf16, consumers = 1{keys}");
    let (launcher, stream) = (Launcher::load(device, &Plan::new(&spec.parse()?)?)?, Stream::new(device)?);
    let side = shape.queries / 64;
    let scores: Vec<f32> = (0..side * side).map(|at| (at as f32 * 12.9898).sin()).collect();
    let mask = Mask::top_k((shape.queries, shape.keys), (64, 64), &scores, blocks)?;
    let pattern = launcher.pattern(&mask, shape)?;
    let mut output = DeviceTensor::<bf16>::uninit(device, q.sizes(), HeadOrder::HeadsFirst)?;
    output.fill_bytes(bf16::POISON_BYTE)?;
    let mut flush = L2Flush::new(device)?;
    let (begin, end) = (Event::new(device)?, Event::new(device)?);
    let mut launch = || launcher.launch(&stream, (q, k, v, 0.088), &pattern, &mut output, None);
    let mut times = vec![];
    for _ in 0..REPEATS {
        flush.flush(stream.handle())?;
        begin.record(stream.handle())?;
        launch()?;
        end.record(stream.handle())?;
        end.synchronize()?;
        times.push(1e3 * f64::from(begin.elapsed_ms(&end)?));
    }
    times.sort_by(f64::total_cmp);
    let host = host_us(&stream, || launch().map_err(Failure::from))?;
    let bits = bf16::to_bytes(output.download()?.data());
    // Slices of a cluster are added in another order.
    let same = variant.contains("cluster") || *first.get_or_insert_with(|| bits.clone()) == bits;
    let words = if same { "" } else { "  OTHER BITS" };
    Ok(format!("{:>6.2} us (least {:>6.2}), {host:.2} us of the host{words}", times[times.len() / 2], times[0]))
}

/// The least of some rounds of what a call costs the host.
fn host_us(stream: &Stream, mut call: impl FnMut() -> Result<(), Failure>) -> Result<f64, Failure> {
    let mut least = f64::INFINITY;
    for _ in 0..ROUNDS {
        let begin = Instant::now();
        for _ in 0..QUEUE {
            call()?;
        }
        least = least.min(1e6 * begin.elapsed().as_secs_f64() / QUEUE as f64);
        stream.synchronize()?;
    }
    Ok(least)
}

/// What the driver takes for a launch of an empty kernel with four tensor maps, ten addresses and a list.
fn alone(device: &Device, bytes: usize) -> Result<f64, Failure> {
    let maps = (0..4).map(|at| format!(".param .align 64 .b8 map{at}[128]"));
    let parameters = maps.chain((0..10).map(|at| format!(".param .u64 at{at}")));
    let list = (bytes > 0).then(|| format!(".param .align 16 .b8 list[{bytes}]"));
    let parameters: Vec<String> = parameters.chain(list).collect();
    let text = format!(
        ".version 8.1\n.target sm_90\n.address_size 64\n.visible .entry empty(\n{}\n)\n{{\n    ret;\n}}\n",
        parameters.join(",\n")
    );
    let (function, stream): (Function, _) = (Module::load(device, &text)?.function("empty")?, Stream::new(device)?);
    let dims = LaunchDims { grid: [128, 1], block: 256, cluster: 1, shared_bytes: 0, is_dependent: false };
    let zeros = vec![0_u64; 4096];
    let at: *mut c_void = zeros.as_ptr().cast_mut().cast();
    let mut values = vec![at; parameters.len()];
    host_us(&stream, || {
        // SAFETY: the kernel does nothing, and every parameter is read from 32 KiB of zeros.
        unsafe { launch_params(&function, dims, &mut values, stream.handle()) }.map_err(Failure::from)
    })
}
