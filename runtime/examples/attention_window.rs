//! Times attention in a narrow window, with sinks: 64 heads over 8, heads of 64 columns, as GPT-OSS has them.
//! `cargo run --release -p bsr-runtime --example attention_window`.
//!
//! Every launch finds L2 cold and clean. Every kernel's result is compared with an f64 reference on some rows before it is timed, and its
//! bits with those of its first launch. `--columns` and `--window` say other heads and windows; all other arguments are timed in place of
//! the list: what they add to `op = attention, bn = 64, dtype = bf16, sinks = on, score = ..`.

use bsr_codegen::{Epilogue, KernelSpec, Plan};
use bsr_runtime::Element;
use bsr_runtime::attention::{
    DevicePattern, DeviceTensor, HeadOrder, Inputs, Launcher, Mask, ScoreInputs, Shape, Tensor, reference_of,
};
use bsr_runtime::gpu::{Device, DeviceBuffer, DeviceVector, Event, L2Flush, Stream};
use half::bf16;

/// What is timed, and what is compared with the reference.
const TIMED: Shape = Shape { batch: 2, heads: 64, key_heads: 8, queries: 32_768, keys: 32_768, columns: 64 };
const COMPARED: Shape = Shape { batch: 2, heads: 16, key_heads: 2, queries: 1500, keys: 1500, columns: 64 };
const REPEATS: usize = 40;
const VARIANTS: [&str; 14] = [
    "bm = 128, bk = 128",
    "bm = 128, bk = 64",
    "bm = 64, bk = 64, pack_heads = 8",
    "bm = 16, bk = 16, pack_heads = 8, k_step = 80, consumers = 2",
    "bm = 24, bk = 16, pack_heads = 8, k_step = 80, consumers = 3",
    "bm = 24, bk = 16, pack_heads = 8, k_step = 96, consumers = 3",
    "bm = 24, bk = 16, pack_heads = 8, k_step = 128, consumers = 3",
    "bm = 24, bk = 32, pack_heads = 8, k_step = 96, consumers = 3",
    "bm = 48, bk = 16, pack_heads = 4, k_step = 96, consumers = 3",
    "bm = 48, bk = 16, pack_heads = 4, k_step = 80, consumers = 3",
    "bm = 48, bk = 32, pack_heads = 4, k_step = 96, consumers = 3",
    "bm = 96, bk = 16, pack_heads = 2, k_step = 80, consumers = 3",
    "bm = 96, bk = 32, pack_heads = 2, k_step = 128, consumers = 3",
    "bm = 192, bk = 32, k_step = 128, consumers = 3",
];

type Failure = Box<dyn std::error::Error>;

/// Q, K and V on the host and the device, and keys of the window.
struct Operands {
    shape: Shape,
    window: usize,
    host: [Tensor<bf16>; 3],
    there: [DeviceTensor<bf16>; 3],
}

fn main() -> Result<(), Failure> {
    let mut given: Vec<String> = std::env::args().skip(1).collect();
    let mut number = |flag: &str, otherwise: usize| -> Result<usize, Failure> {
        let Some(at) = given.iter().position(|word| word == flag) else { return Ok(otherwise) };
        let value = given.drain(at..given.len().min(at + 2)).nth(1).ok_or_else(|| format!("{flag} takes a number"))?;
        Ok(value.parse()?)
    };
    let (columns, window) = (number("--columns", TIMED.columns)?, number("--window", 128)?);
    let variants = if given.is_empty() { VARIANTS.map(str::to_owned).to_vec() } else { given };
    let device = Device::open(0)?;
    println!("{} ({} multiprocessors), L2 cold and clean", device.info().name, device.sm_count());
    let (timed, compared) = (
        Operands::new(&device, Shape { columns, ..TIMED }, window)?,
        Operands::new(&device, Shape { columns, ..COMPARED }, window)?,
    );
    for variant in variants {
        match compare(&device, &compared, &variant).and_then(|error| Ok((error, time(&device, &timed, &variant)?))) {
            Ok((error, line)) => println!("{variant:<64} {line}  error {error:.1e}"),
            Err(error) => println!("{variant:<64} {error}"),
        }
    }
    Ok(())
}

impl Operands {
    /// Heads have the same rows in turn, so that they are soon drawn.
    fn new(device: &Device, shape: Shape, window: usize) -> Result<Self, Failure> {
        let of = |heads: usize, rows: usize, seed| -> Result<Tensor<bf16>, Failure> {
            let one = Tensor::<bf16>::normal([1, 2, rows, shape.columns], HeadOrder::HeadsFirst, seed);
            let data = one.data().repeat(shape.batch * heads / 2);
            Ok(Tensor::from_vec([shape.batch, heads, rows, shape.columns], HeadOrder::HeadsFirst, data)?)
        };
        let (heads, keys) = (shape.key_heads, shape.keys);
        let host = [of(shape.heads, shape.queries, 1)?, of(heads, keys, 2)?, of(heads, keys, 3)?];
        let [q, k, v] = host.each_ref().map(|tensor| DeviceTensor::upload(device, tensor));
        let there = [q?, k?, v?];
        Ok(Self { shape, window, host, there })
    }

    fn scale(&self) -> f32 {
        (self.shape.columns as f32).sqrt().recip()
    }

    fn sinks(&self) -> Vec<f32> {
        (0..self.shape.heads).map(|head| head as f32 / 16.0 - 2.0).collect()
    }
}

/// A kernel and the work of the window.
struct Ready {
    spec: KernelSpec,
    mask: Mask,
    launcher: Launcher,
    pattern: DevicePattern,
    sinks: DeviceVector<f32>,
    stream: Stream,
    output: DeviceTensor<bf16>,
}

impl Ready {
    fn new(device: &Device, operands: &Operands, variant: &str) -> Result<Self, Failure> {
        let rule = format!(
            "|| if i >= j {{ if i - j < {} {{ s * scale }} else {{ -inf }} }} else {{ -inf }}",
            operands.window
        );
        let columns = operands.shape.columns;
        let of = format!("op = attention, bn = {columns}, dtype = bf16, sinks = on, score = \"{rule}\", {variant}");
        let (spec, shape): (KernelSpec, _) = (of.parse()?, operands.shape);
        let mask =
            Mask::window((shape.queries, shape.keys), (spec.bm as usize, spec.bk as usize), operands.window - 1, 0)?;
        let launcher = Launcher::load(device, &Plan::new(&spec)?)?;
        let pattern = launcher.pattern(&mask, shape)?;
        let sinks = DeviceVector::upload(device, &operands.sinks())?;
        let output = DeviceTensor::uninit(device, operands.host[0].sizes(), HeadOrder::HeadsFirst)?;
        Ok(Self { spec, mask, launcher, pattern, sinks, stream: Stream::new(device)?, output })
    }

    fn launch(&mut self, operands: &Operands, sums: Option<&mut DeviceBuffer<f32>>) -> Result<(), Failure> {
        let [q, k, v] = &operands.there;
        let inputs = Inputs::from((q, k, v, operands.scale())).sinks(&self.sinks);
        Ok(self.launcher.launch(&self.stream, inputs, &self.pattern, &mut self.output, sums)?)
    }
}

/// The relative error of a kernel; two launches must give the same bits.
fn compare(device: &Device, operands: &Operands, variant: &str) -> Result<f64, Failure> {
    let mut ready = Ready::new(device, operands, variant)?;
    let mut sums = DeviceBuffer::<f32>::uninit(device, operands.shape.rows())?;
    let mut found = vec![];
    for _ in 0..2 {
        ready.output.fill_bytes(bf16::POISON_BYTE)?;
        sums.fill_bytes(0xFF)?;
        ready.launch(operands, Some(&mut sums))?;
        ready.stream.synchronize()?;
        found.push(bf16::to_bytes(ready.output.download()?.data()));
    }
    if found[0] != found[1] {
        return Err("two launches gave different bits".into());
    }
    let sinks = operands.sinks();
    let inputs = ScoreInputs::new(operands.scale()).sinks(&sinks[..]);
    wrong(operands, &ready.mask, ready.spec.score, &inputs, &ready.output.download()?, &sums.to_vec()?)
}

fn time(device: &Device, operands: &Operands, variant: &str) -> Result<String, Failure> {
    let mut ready = Ready::new(device, operands, variant)?;
    let mut flush = L2Flush::new(device)?;
    let (begin, end) = (Event::new(device)?, Event::new(device)?);
    let mut times = vec![];
    for _ in 0..REPEATS {
        flush.flush(ready.stream.handle())?;
        begin.record(ready.stream.handle())?;
        ready.launch(operands, None)?;
        end.record(ready.stream.handle())?;
        end.synchronize()?;
        times.push(1e3 * f64::from(begin.elapsed_ms(&end)?));
    }
    times.sort_by(f64::total_cmp);
    let pairs = ready.mask.pairs(operands.shape.batch, operands.shape.heads) as f64 / operands.shape.rows() as f64;
    Ok(format!("{:>8.1} us (least {:>7.1})  {pairs:>5.1} keys a query", times[times.len() / 2], times[0]))
}

/// The relative error of some rows of O, whose LSE must be right.
fn wrong(
    operands: &Operands,
    mask: &Mask,
    score: Option<Epilogue>,
    inputs: &ScoreInputs<'_>,
    output: &Tensor<bf16>,
    sums: &[f32],
) -> Result<f64, Failure> {
    let Shape { batch, heads, queries, .. } = operands.shape;
    let rows = (0..queries).step_by(37).chain([queries - 1]).enumerate();
    let rows = rows.map(|(at, query)| [at % batch, 7 * at % heads, query]);
    let (mut wrong, mut whole) = (0.0, 0.0);
    for row in rows {
        let expected = reference_of(&operands.shape, mask, operands.host.each_ref(), score, inputs, [row]);
        for (found, expected) in output.row(row).iter().zip(&expected.output) {
            wrong += (found.to_f64() - expected).powi(2);
            whole += expected.powi(2);
        }
        let found = f64::from(sums[(row[0] * heads + row[1]) * queries + row[2]]);
        let differ = (found - expected.lse[0]).abs();
        if differ.is_nan() || differ > 1e-2 {
            return Err(format!("LSE of {row:?} is {found}, not {}", expected.lse[0]).into());
        }
    }
    let error = f64::sqrt(wrong / whole);
    if error < 5e-3 { Ok(error) } else { Err(format!("the relative error is {error:.1e}, beyond 5e-3").into()) }
}
