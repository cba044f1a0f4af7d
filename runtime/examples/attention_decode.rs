//! Times attention where whole rows do not fill a GPU: few queries against a long cache, and few heads with rows of very
//! different lengths. `cargo run --release -p bsr-runtime --example attention_decode`.
//!
//! Every launch finds L2 cold and clean. Rates are of the bytes of K and V, each read once, and of executed work: 4 operations
//! for every pair of a query and a key in stored blocks and every column of a head. Every kernel's result is compared with
//! an f64 reference on some rows, and with its own first launch on every bit, before it is timed.

use std::sync::Arc;

use bsr_codegen::Plan;
use bsr_runtime::Element;
use bsr_runtime::attention::{
    DevicePages, DevicePattern, DeviceTensor, HeadOrder, HostPages, Launcher, Mask, PageShape, Shape, Tensor,
    reference_rows,
};
use bsr_runtime::gpu::{Device, DeviceBuffer, Event, L2Flush, Stream};
use half::bf16;

const COLUMNS: usize = 128;
/// Query heads and key heads of the cache.
const HEADS: [usize; 2] = [32, 8];
/// Launches whose bits are compared with those of the first.
const SAME: usize = 10;
/// What the specs of a case add to its block.
const DECODE: [&str; 10] = [
    "",
    ", split = auto",
    ", pack_heads = 4",
    ", pack_heads = 4, split = auto",
    ", pack_heads = 4, split = 8",
    ", pack_heads = 4, split = 16",
    ", pack_heads = 4, split = auto, k_step = 64",
    ", pack_heads = 4, split = auto, k_step = 64, stages = 3",
    ", pack_heads = 4, split = auto, page = 64",
    ", pack_heads = 4, split = auto, page = 16",
];
const SKEWED: [&str; 4] = ["", ", split = auto", ", split = 2", ", split = 4"];

/// What is asked for on the command line.
struct Options {
    /// Names of cases must contain it.
    only: String,
    repeats: usize,
    /// Cases whose K and V take more GiB are left out.
    gib: usize,
}

/// Tensors of one shape, and what is timed with them.
struct Case {
    name: String,
    shape: Shape,
    mask: Mask,
    block: (usize, usize),
    keys: &'static [&'static str],
}

/// A page table, K and V.
type Paged = (Arc<DevicePages>, [DeviceTensor<bf16>; 2]);

/// Tensors on the host.
struct Operands {
    q: Tensor<bf16>,
    /// K and V of one problem, which all problems have.
    one: [Tensor<bf16>; 2],
    /// Those of all problems on the device, behind Q.
    there: [DeviceTensor<bf16>; 3],
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let options = options()?;
    let device = Device::open(0)?;
    println!("{} ({} multiprocessors), L2 cold and clean", device.info().name, device.sm_count());
    for case in cases()?.into_iter().filter(|case| case.name.contains(&options.only)) {
        if bytes(&case.shape) > options.gib << 30 {
            println!(
                "{}: left out, K and V take {:.1} GiB (--gib)",
                case.name,
                bytes(&case.shape) as f64 / 2_f64.powi(30)
            );
            continue;
        }
        let operands = Operands::new(&device, &case.shape)?;
        for keys in case.keys {
            let (bm, bk) = case.block;
            let spec = format!("bm = {bm}, bn = {COLUMNS}, bk = {bk}, op = attention, dtype = bf16{keys}");
            match time(&device, &options, &case, &operands, &spec) {
                Ok(line) => println!("{:<34} {:<52} {line}", case.name, keys.trim_start_matches(", ")),
                Err(error) => println!("{:<34} {:<52} {error}", case.name, keys),
            }
        }
    }
    Ok(())
}

fn options() -> Result<Options, String> {
    let mut options = Options { only: String::new(), repeats: 30, gib: 8 };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words.next().ok_or_else(|| format!("{word} takes a value"))?;
        let number = || value.parse::<usize>().map_err(|error| format!("{word} {value}: {error}"));
        match word.as_str() {
            "--only" => options.only = value,
            "--repeats" => options.repeats = number()?.max(1),
            "--gib" => options.gib = number()?,
            _ => return Err(format!("{word}: there are --only, --repeats and --gib")),
        }
    }
    Ok(options)
}

fn cases() -> Result<Vec<Case>, Box<dyn std::error::Error>> {
    let mut cases = vec![];
    for (batch, queries) in [(1, 1), (4, 1), (16, 1), (64, 1), (1, 8), (4, 16)] {
        for keys in [4096, 16_384, 65_536] {
            let [heads, key_heads] = HEADS;
            cases.push(Case {
                name: format!("decode {batch} x {queries} against {keys}"),
                shape: Shape { batch, heads, key_heads, queries, keys, columns: COLUMNS },
                mask: Mask::full((queries, keys), (64, 128))?,
                block: (64, 128),
                keys: &DECODE,
            });
        }
    }
    for (heads, rows) in [(1, 8192), (2, 8192), (2, 16_384), (4, 16_384)] {
        cases.push(Case {
            name: format!("triangle {rows}, {heads} heads"),
            shape: Shape { batch: 1, heads, key_heads: heads, queries: rows, keys: rows, columns: COLUMNS },
            mask: Mask::lower_triangle((rows, rows), (128, 128))?,
            block: (128, 128),
            keys: &SKEWED,
        });
    }
    Ok(cases)
}

/// Bytes of K and V.
fn bytes(shape: &Shape) -> usize {
    2 * 2 * shape.batch * shape.key_heads * shape.keys * shape.columns
}

impl Operands {
    fn new(device: &Device, shape: &Shape) -> Result<Self, Box<dyn std::error::Error>> {
        let Shape { batch, heads, key_heads, queries, keys, columns } = *shape;
        let order = HeadOrder::HeadsFirst;
        let q = Tensor::normal([batch, heads, queries, columns], order, 1);
        let one = [2, 3].map(|seed| Tensor::<bf16>::normal([1, key_heads, keys, columns], order, seed));
        let of_all = |one: &Tensor<bf16>| -> Result<_, Box<dyn std::error::Error>> {
            let all = Tensor::from_vec([batch, key_heads, keys, columns], order, one.data().repeat(batch))?;
            Ok(DeviceTensor::upload(device, &all)?)
        };
        let there = [DeviceTensor::upload(device, &q)?, of_all(&one[0])?, of_all(&one[1])?];
        Ok(Self { q, one, there })
    }

    /// The relative error of some rows of O; of their logarithms, whether they are right.
    fn error(&self, case: &Case, output: &Tensor<bf16>, sums: &[f32]) -> Result<f64, String> {
        let Shape { batch, heads, queries, .. } = case.shape;
        let scale = (COLUMNS as f32).sqrt().recip();
        let (mut wrong, mut whole) = (0.0, 0.0);
        for (problem, head, query) in [(0, 0, 0), (0, heads - 1, queries - 1), (batch - 1, heads / 2, queries / 2)] {
            let q = in_place(self.q.row([problem, head, query]), &case.shape, [head, query])?;
            let shape = Shape { batch: 1, ..case.shape };
            let [k, v] = &self.one;
            let expected = reference_rows(&shape, &case.mask, [&q, k, v], scale, None, [[0, head, query]]);
            for (found, expected) in output.row([problem, head, query]).iter().zip(&expected.output) {
                wrong += (found.to_f64() - expected).powi(2);
                whole += expected.powi(2);
            }
            let found = f64::from(sums[(problem * heads + head) * queries + query]);
            let differ = (found - expected.lse[0]).abs();
            if differ.is_nan() || differ > 1e-2 {
                return Err(format!("the sum of row {query} of head {head} is {found}, not {}", expected.lse[0]));
            }
        }
        let error = (wrong / whole).sqrt();
        if error < 5e-3 { Ok(error) } else { Err(format!("the relative error is {error:.1e}, beyond 5e-3")) }
    }
}

/// A Q of one problem that has only this row.
fn in_place(row: &[bf16], shape: &Shape, [head, query]: [usize; 2]) -> Result<Tensor<bf16>, String> {
    let sizes = [1, shape.heads, shape.queries, shape.columns];
    let mut data = vec![bf16::ZERO; sizes.iter().product()];
    let at = (head * shape.queries + query) * shape.columns;
    data[at..at + shape.columns].copy_from_slice(row);
    Tensor::from_vec(sizes, HeadOrder::HeadsFirst, data).map_err(|error| error.to_string())
}

/// K and V of all problems in pages of their own, whose order is not that of the keys.
fn in_pages(
    device: &Device,
    case: &Case,
    operands: &Operands,
    page: usize,
) -> Result<Paged, Box<dyn std::error::Error>> {
    let [k, v] = &operands.one;
    let (batch, one) = (case.shape.batch, HostPages::new(k, v, &[case.shape.keys], page)?);
    let of_all = |one: &Tensor<bf16>| -> Result<_, Box<dyn std::error::Error>> {
        let [pages, heads, rows, columns] = one.sizes();
        let all = Tensor::from_vec([batch * pages, heads, rows, columns], one.order(), one.data().repeat(batch))?;
        Ok(DeviceTensor::upload(device, &all)?)
    };
    let of_problem = |problem: usize| one.table.iter().map(move |entry| entry + (problem * one.shape.pages) as i32);
    let table: Vec<i32> = (0..batch).flat_map(of_problem).collect();
    let shape = PageShape { batch, pages: batch * one.shape.pages, ..one.shape };
    let pages = DevicePages::upload(device, shape, &table, &one.lengths.repeat(batch))?;
    Ok((Arc::new(pages), [of_all(&one.keys)?, of_all(&one.values)?]))
}

fn time(
    device: &Device,
    options: &Options,
    case: &Case,
    operands: &Operands,
    spec: &str,
) -> Result<String, Box<dyn std::error::Error>> {
    let launcher = Launcher::load(device, &Plan::new(&spec.parse()?)?)?;
    let paged = launcher.plan().spec().page.map(|page| in_pages(device, case, operands, page as usize)).transpose()?;
    let pattern = match &paged {
        Some((pages, _)) => launcher.paged(pages, case.shape)?,
        None => launcher.pattern(&case.mask, case.shape)?,
    };
    let mut output = DeviceTensor::<bf16>::uninit(device, operands.q.sizes(), HeadOrder::HeadsFirst)?;
    let mut sums = DeviceBuffer::<f32>::uninit(device, case.shape.rows())?;
    let stream = Stream::new(device)?;
    let [q, k, v] = &operands.there;
    let [k, v] = paged.as_ref().map_or([k, v], |(_, tensors)| tensors.each_ref());
    let scale = (COLUMNS as f32).sqrt().recip();
    let launch = |output: &mut DeviceTensor<bf16>, sums: Option<&mut DeviceBuffer<f32>>, pattern: &DevicePattern| {
        launcher.launch(&stream, (q, k, v, scale), pattern, output, sums)
    };
    let mut first: Option<Vec<u8>> = None;
    let mut error = 0.0;
    for _ in 0..SAME {
        output.fill_bytes(bf16::POISON_BYTE)?;
        sums.fill_bytes(0xFF)?;
        launch(&mut output, Some(&mut sums), &pattern)?;
        stream.synchronize()?;
        let found = output.download()?;
        if first.is_none() {
            error = operands.error(case, &found, &sums.to_vec()?)?;
        }
        let bits = bf16::to_bytes(found.data());
        if *first.get_or_insert_with(|| bits.clone()) != bits {
            return Err("two launches gave different bits".into());
        }
    }
    let mut flush = L2Flush::new(device)?;
    let (begin, end) = (Event::new(device)?, Event::new(device)?);
    let mut times = vec![];
    for _ in 0..options.repeats {
        flush.flush(stream.handle())?;
        begin.record(stream.handle())?;
        launch(&mut output, None, &pattern)?;
        end.record(stream.handle())?;
        end.synchronize()?;
        times.push(1e3 * f64::from(begin.elapsed_ms(&end)?));
    }
    times.sort_by(f64::total_cmp);
    let us = times[times.len() / 2];
    let work = 4.0 * case.mask.pairs(case.shape.batch, case.shape.heads) as f64 * COLUMNS as f64;
    Ok(format!(
        "{us:>9.1} us {:>7.0} GB/s {:>7.1} TFLOP/s (least {:>8.1} us)  error {error:.1e}",
        bytes(&case.shape) as f64 / us / 1e3,
        work / us / 1e6,
        times[0]
    ))
}
