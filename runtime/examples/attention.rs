//! Times block-sparse attention on a GPU: `cargo run --release -p bsr-runtime --example attention -- --json times.json`.
//!
//! Every kernel's result is compared with an f64 reference on some rows before it is timed. Rates are of executed work: 4
//! operations for every pair of a stored block and every column of a head.

use std::fmt::Write as _;

use bsr_codegen::{KernelSpec, Plan};
use bsr_runtime::Element;
use bsr_runtime::attention::{AttentionError, DeviceTensor, HeadOrder, Launcher, Mask, Shape, Tensor, reference_rows};
use bsr_runtime::gpu::{Device, DeviceBuffer, Event, Stream};
use half::bf16;

const CAUSAL: &str = "score = \"|| if i >= j { s * scale } else { -inf }\"";
/// Rows of each head that are compared with the reference.
const ROWS: usize = 5;
const WARM_UPS: usize = 3;

/// What is asked for on the command line.
struct Options {
    queries: usize,
    heads: usize,
    repeats: usize,
    /// Names of cases must contain it.
    only: String,
    /// Further keys of every spec.
    keys: String,
    json: Option<String>,
}

/// Kernels that a case is timed with: what their specs add. The fastest counts.
const KERNELS: [&str; 4] = ["", ", k_step = 64", ", consumers = 3, k_step = 64", ", consumers = 2"];

/// One mask.
#[derive(Clone)]
struct Case {
    name: &'static str,
    spec: String,
    mask: Mask,
}

/// A case's result.
struct Timed {
    name: String,
    spec: String,
    keys: String,
    error: f64,
    us: f64,
    least_us: f64,
    tflops: f64,
    stored: usize,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let options = options()?;
    let device = Device::open(0)?;
    println!("{} ({} multiprocessors)", device.info().name, device.sm_count());
    let mut timed = vec![];
    for columns in [128, 64] {
        let shape = Shape {
            batch: 1,
            heads: options.heads,
            key_heads: options.heads,
            queries: options.queries,
            keys: options.queries,
            columns,
        };
        let sizes = [1, options.heads, options.queries, columns];
        let host = [1, 2, 3].map(|seed| Tensor::<bf16>::normal(sizes, HeadOrder::HeadsFirst, seed));
        let on_device = |tensor| DeviceTensor::upload(&device, tensor);
        let tensors = [on_device(&host[0])?, on_device(&host[1])?, on_device(&host[2])?];
        for side in [128, 64] {
            for case in cases(&options, side, columns)? {
                let name = format!("d {columns}, blocks {side} x {side}, {}", case.name);
                if !name.contains(&options.only) {
                    continue;
                }
                let mut best: Option<Timed> = None;
                for keys in KERNELS {
                    let case = Case { spec: format!("{}{keys}", case.spec), ..case.clone() };
                    match time(&device, &options, &shape, &host, &tensors, &case) {
                        Ok(Some(result)) if best.as_ref().is_none_or(|best| result.us < best.us) => best = Some(result),
                        Ok(_) => {}
                        Err(error) => println!("{name:<48} {error}"),
                    }
                }
                if let Some(best) = best {
                    println!(
                        "{name:<48} {:>9.1} us {:>7.1} TFLOP/s (best {:>7.1})  error {:.1e}  {}",
                        best.us,
                        best.tflops,
                        best.tflops * best.us / best.least_us,
                        best.error,
                        best.keys
                    );
                    timed.push(Timed { name, ..best });
                }
            }
        }
    }
    if let Some(path) = &options.json {
        std::fs::write(path, json(&options, &timed))?;
    }
    Ok(())
}

fn options() -> Result<Options, String> {
    let mut options =
        Options { queries: 16_384, heads: 16, repeats: 20, only: String::new(), keys: String::new(), json: None };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words.next().ok_or_else(|| format!("{word} takes a value"))?;
        let number = || value.parse::<usize>().map_err(|error| format!("{word} {value}: {error}"));
        match word.as_str() {
            "--queries" => options.queries = number()?,
            "--heads" => options.heads = number()?,
            "--repeats" => options.repeats = number()?,
            "--only" => options.only = value,
            "--keys" => options.keys = value,
            "--json" => options.json = Some(value),
            _ => return Err(format!("{word}: there are --queries, --heads, --repeats, --only, --keys and --json")),
        }
    }
    Ok(options)
}

fn cases(options: &Options, side: usize, columns: usize) -> Result<Vec<Case>, AttentionError> {
    let (sizes, block) = ((options.queries, options.queries), (side, side));
    let keys = if options.keys.is_empty() { String::new() } else { format!(", {}", options.keys) };
    let spec = format!("bm = {side}, bn = {columns}, bk = {side}, op = attention, dtype = bf16{keys}");
    let case = |name, mask| Case { name, spec: spec.clone(), mask };
    Ok(vec![
        case("full", Mask::full(sizes, block)?),
        case("random 25 % and diagonal", Mask::random(sizes, block, 0.25, 1)?),
        case("window of 9 blocks", Mask::block_window(sizes, block, 4)?),
        case("lower triangle of blocks", Mask::lower_triangle(sizes, block)?),
        Case {
            name: "causal",
            spec: format!("{spec}, {CAUSAL}"),
            mask: Mask::causal(options.queries, options.queries, block)?,
        },
    ])
}

fn time(
    device: &Device,
    options: &Options,
    shape: &Shape,
    host: &[Tensor<bf16>; 3],
    [q, k, v]: &[DeviceTensor<bf16>; 3],
    case: &Case,
) -> Result<Option<Timed>, Box<dyn std::error::Error>> {
    let spec: KernelSpec = case.spec.parse()?;
    let Ok(plan) = Plan::new(&spec) else { return Ok(None) };
    let launcher = Launcher::load(device, &plan)?;
    let pattern = launcher.pattern(&case.mask, *shape)?;
    let scale = (shape.columns as f32).sqrt().recip();
    let mut output = DeviceTensor::<bf16>::uninit(device, q.sizes(), HeadOrder::HeadsFirst)?;
    let mut sums = DeviceBuffer::<f32>::uninit(device, shape.rows())?;
    output.fill_bytes(bf16::POISON_BYTE)?;
    let stream = Stream::new(device)?;
    launcher.launch(&stream, (q, k, v, scale), &pattern, &mut output, Some(&mut sums))?;
    stream.synchronize()?;
    let error = compared(shape, host, case, (scale, &spec), &output.download()?, &sums.to_vec()?)?;

    for _ in 0..WARM_UPS {
        launcher.launch(&stream, (q, k, v, scale), &pattern, &mut output, None)?;
    }
    let (begin, end) = (Event::new(device)?, Event::new(device)?);
    let mut times = vec![];
    for _ in 0..options.repeats {
        begin.record(stream.handle())?;
        launcher.launch(&stream, (q, k, v, scale), &pattern, &mut output, None)?;
        end.record(stream.handle())?;
        end.synchronize()?;
        times.push(1e3 * f64::from(begin.elapsed_ms(&end)?));
    }
    times.sort_by(f64::total_cmp);
    let us = times[times.len() / 2];
    let work = 4.0 * case.mask.pairs(shape.batch, shape.heads) as f64 * shape.columns as f64;
    let tiles = plan.attention_tiles().ok_or("not an attention")?;
    Ok(Some(Timed {
        name: String::new(),
        spec: spec.to_string(),
        keys: format!("{} consumers, steps of {} x {} keys", tiles.consumers, tiles.blocks, tiles.run()),
        error,
        us,
        least_us: times[0],
        tflops: work / us / 1e6,
        stored: case.mask.stored() * shape.heads,
    }))
}

/// The relative error of some rows, those of both ends among them.
fn compared(
    shape: &Shape,
    host: &[Tensor<bf16>; 3],
    case: &Case,
    (scale, spec): (f32, &KernelSpec),
    output: &Tensor<bf16>,
    sums: &[f32],
) -> Result<f64, String> {
    let rows = (0..shape.heads).flat_map(|head| {
        let last = shape.queries - 1;
        (0..ROWS).map(move |number| [0, head, (number * last / (ROWS - 1) + 37 * head * (number % 2)).min(last)])
    });
    let rows: Vec<[usize; 3]> = rows.collect();
    let score = spec.score.map(|score| (score, &[][..]));
    let [q, k, v] = host;
    let expected = reference_rows(shape, &case.mask, [q, k, v], scale, score, rows.iter().copied());
    let (mut wrong, mut whole) = (0.0, 0.0);
    for (at, place) in rows.iter().enumerate() {
        let of_row = &expected.output[at * shape.columns..(at + 1) * shape.columns];
        for (found, expected) in output.row(*place).iter().zip(of_row) {
            wrong += (found.to_f64() - expected).powi(2);
            whole += expected.powi(2);
        }
        let found = sums[place[1] * shape.queries + place[2]];
        let difference = (f64::from(found) - expected.lse[at]).abs();
        if difference.is_nan() || difference > 1e-2 {
            return Err(format!("the sum of {place:?} is {found}, not {}", expected.lse[at]));
        }
    }
    let error = (wrong / whole).sqrt();
    if error < 5e-3 { Ok(error) } else { Err(format!("the relative error is {error:.1e}, beyond 5e-3")) }
}

fn json(options: &Options, timed: &[Timed]) -> String {
    let mut text = format!("{{\"queries\": {}, \"heads\": {}, \"cases\": [", options.queries, options.heads);
    for (at, case) in timed.iter().enumerate() {
        let Timed { name, spec, error, us, least_us, tflops, stored, .. } = case;
        let separator = if at == 0 { "" } else { "," };
        let written = write!(
            text,
            "{separator}\n  {{\"name\": {name:?}, \"spec\": {spec:?}, \"error\": {error:e}, \"us\": {us:.2}, \"least_us\": \
             {least_us:.2}, \"tflops\": {tflops:.2}, \"stored_blocks\": {stored}}}"
        );
        debug_assert!(written.is_ok());
    }
    text + "\n]}\n"
}
