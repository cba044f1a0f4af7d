//! Times the gradient of block-sparse attention on a GPU: `cargo run --release -p bsr-runtime --example attention_backward`.
//!
//! A table of small problems is compared with an f64 reference in full, on results that were poisoned before. Timed problems
//! are compared on some rows of each gradient. Rates are of executed work: 10 operations for every pair of a stored block and
//! every column of a head, those of five products, for both kernels together. `--score` has all stored blocks compute a score, whose
//! numbers are 0.5: `--score "|cap: f32| if i >= j { cap * tanh(s * scale / cap) } else { -inf }" --only causal`.

use std::io::Write as _;

use bsr_codegen::{Dtype, KernelSpec, Plan};
use bsr_runtime::Element;
use bsr_runtime::attention::{
    DeviceTensor, GradientInputs, GradientLauncher, GradientOutputs, GradientPattern, Inputs, Launcher, Mask, Shape,
    Sharing, UploadedVectors,
};
use bsr_runtime::gpu::{Device, DeviceBuffer, Event, Plain, Stream};
use bsr_trial::attention::{Backward, Problem};
use half::{bf16, f16};

/// Rows of each gradient that are compared where a problem is timed.
const ROWS: usize = 24;
const WARM_UPS: usize = 3;

type Failure = Box<dyn std::error::Error>;

/// What is asked for on the command line.
struct Options {
    queries: usize,
    heads: usize,
    repeats: usize,
    /// Small problems that are compared.
    checks: usize,
    /// Names of timed cases must contain it.
    only: String,
    /// The score of all stored blocks, where there is one.
    score: Option<String>,
    /// Further keys of the kernel of dQ, and of that of dK and dV.
    keys: [String; 2],
}

fn main() -> Result<(), Failure> {
    let options = options()?;
    let device = Device::open(0)?;
    println!("{} ({} multiprocessors)", device.info().name, device.sm_count());
    check_all(&device, &options)?;
    for (columns, side, name, mask) in cases(options.queries)? {
        let name = format!("d {columns}, blocks {side} x {side}, {name}");
        if name.contains(&options.only) {
            let spec = options.spec(&format!("bm = {side}, bn = {columns}, bk = {side}, dtype = bf16"));
            let mask = options.mask(mask)?;
            let (heads, queries) = (options.heads, options.queries);
            let shape = Shape { batch: 1, heads, key_heads: heads, queries, keys: queries, columns };
            match time(&device, &options, &spec.parse()?, shape, mask) {
                Ok(text) => println!("{name:<44} {text}"),
                Err(error) => println!("{name:<44} {error}"),
            }
        }
    }
    Ok(())
}

fn options() -> Result<Options, String> {
    let keys = [String::new(), String::new()];
    let mut options =
        Options { queries: 16_384, heads: 16, repeats: 20, checks: usize::MAX, only: String::new(), score: None, keys };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words.next().ok_or_else(|| format!("{word} takes a value"))?;
        let number = || value.parse::<usize>().map_err(|error| format!("{word} {value}: {error}"));
        match word.as_str() {
            "--queries" => options.queries = number()?,
            "--heads" => options.heads = number()?,
            "--repeats" => options.repeats = number()?,
            "--checks" => options.checks = number()?,
            "--only" => options.only = value,
            "--score" => options.score = Some(value),
            "--dq" => options.keys[0] = value,
            "--dkv" => options.keys[1] = value,
            _ => {
                return Err(format!(
                    "{word}: there are --queries, --heads, --repeats, --checks, --only, --score, --dq and --dkv"
                ));
            }
        }
    }
    Ok(options)
}

impl Options {
    fn spec(&self, keys: &str) -> String {
        let score = self.score.as_ref().map(|score| format!(", score = \"{score}\"")).unwrap_or_default();
        format!("op = attention, {keys}{score}")
    }

    /// The same mask, of which every block is partial if there is a score, and none otherwise.
    fn mask(&self, mask: Mask) -> Result<Mask, Failure> {
        let mut lists = mask.lists().to_vec();
        lists.iter_mut().for_each(|list| list.partial.fill(self.score.is_some()));
        Ok(Mask::new(mask.sizes(), mask.block(), Sharing::All, lists)?)
    }
}

/// What is timed: columns, side of a block, mask.
fn cases(queries: usize) -> Result<Vec<(usize, usize, &'static str, Mask)>, Failure> {
    let sizes = (queries, queries);
    let random = |side, part| Mask::random(sizes, (side, side), part, 1);
    let window = |side| Mask::block_window(sizes, (side, side), 4);
    Ok(vec![
        (128, 128, "random 1/4", random(128, 0.25)?),
        (128, 128, "window of 9 blocks", window(128)?),
        (128, 128, "full", Mask::full(sizes, (128, 128))?),
        (128, 128, "causal", Mask::causal(queries, queries, (128, 128))?),
        (128, 128, "last 1024 keys", Mask::window(sizes, (128, 128), 1024, 0)?),
        (128, 64, "random 1/8", random(64, 0.125)?),
        (64, 128, "random 1/4", random(128, 0.25)?),
        (64, 128, "window of 9 blocks", window(128)?),
        (64, 64, "random 1/8", random(64, 0.125)?),
    ])
}

/// Small problems: blocks, columns, types, grouped heads, lengths that no block divides, rows and columns without blocks.
fn check_all(device: &Device, options: &Options) -> Result<(), Failure> {
    let mut checked = 0;
    for (number, (bm, bk)) in [(128, 128), (64, 64), (64, 128), (128, 64), (256, 192)].into_iter().enumerate() {
        for (at, columns) in [64, 128, 96, 32].into_iter().enumerate() {
            for (which, [batch, heads, key_heads]) in [[1, 1, 1], [2, 4, 1], [1, 6, 3]].into_iter().enumerate() {
                if checked == options.checks {
                    return Ok(());
                }
                let dtype = ["bf16", "f16"][(number + at + which) % 2];
                let text = options.spec(&format!("bm = {bm}, bn = {columns}, bk = {bk}, dtype = {dtype}"));
                let sizes = [(350, 500), (256, 256), (1, 777), (451, 130)][(number + which) % 4];
                let mask = match (number + at + which) % 4 {
                    0 => Mask::random(sizes, (bm, bk), 0.4, 7)?,
                    1 => Mask::block_window(sizes, (bm, bk), 1)?,
                    2 => Mask::full(sizes, (bm, bk))?,
                    _ => Mask::random(sizes, (bm, bk), 0.1, 9)?,
                };
                let shape = Shape { batch, heads, key_heads, queries: sizes.0, keys: sizes.1, columns };
                let (spec, mask): (KernelSpec, Mask) = (text.parse()?, options.mask(mask)?);
                let problem =
                    Problem { seed: 100 * number as u64 + at as u64, ..Problem::new(&spec, shape, mask, "")? };
                let found = match spec.a {
                    Dtype::BF16 => check::<bf16>(device, &spec, &problem, which == 1),
                    _ => check::<f16>(device, &spec, &problem, which == 1),
                };
                found.map_err(|error| format!("{text}, {shape:?}: {error}"))?;
                checked += 1;
                print!("\r{checked} problems");
                std::io::stdout().flush()?;
            }
        }
    }
    println!("\r{checked} problems: every element of dQ, dK and dV is right, and two launches give the same bits");
    Ok(())
}

fn check<T: Element + Plain>(
    device: &Device,
    spec: &KernelSpec,
    problem: &Problem,
    with_lse_gradient: bool,
) -> Result<(), Failure> {
    let drawn = Backward::<T>::new(spec, problem)?;
    let drawn = if with_lse_gradient { drawn.with_lse_gradient(1) } else { drawn };
    let mut run = Run::new(device, spec, &Default::default(), drawn)?;
    let mut bits: Vec<Vec<u8>> = vec![];
    for _ in 0..2 {
        run.poison()?;
        run.launch(0)?;
        run.launch(1)?;
        run.stream.synchronize()?;
        bits.push(run.bits()?);
    }
    run.verify(usize::MAX)?;
    if bits[0] == bits[1] { Ok(()) } else { Err("two launches differ".into()) }
}

fn time(device: &Device, options: &Options, spec: &KernelSpec, shape: Shape, mask: Mask) -> Result<String, Failure> {
    let pairs = mask.pairs(shape.batch, shape.heads) as f64;
    let problem = Problem::new(spec, shape, mask, "")?;
    let tensors = problem.tensors::<bf16>();
    // O and LSE of the forward kernel, as a program has them.
    let launcher = Launcher::load(device, &Plan::new(spec)?)?;
    let pattern = launcher.pattern(&problem.mask, shape)?;
    let [q, k, v] = tensors.each_ref().map(|tensor| DeviceTensor::upload(device, tensor));
    let (q, k, v, vectors) = (q?, k?, v?, UploadedVectors::new(device, &problem.vectors)?);
    let vectors = vectors.each();
    let inputs = Inputs::from((&q, &k, &v, problem.scale)).scalars(&problem.scalars).vectors(&vectors);
    let mut output = DeviceTensor::<bf16>::uninit(device, problem.output_sizes(), problem.order)?;
    let mut lse = DeviceBuffer::<f32>::uninit(device, shape.rows())?;
    let stream = Stream::new(device)?;
    launcher.launch(&stream, inputs, &pattern, &mut output, Some(&mut lse))?;
    stream.synchronize()?;
    let drawn = Backward::of(spec, &problem, tensors, output.download()?, lse.to_vec()?);
    let mut run = Run::new(device, spec, &options.keys, drawn)?;
    run.poison()?;
    run.launch(0)?;
    run.launch(1)?;
    run.stream.synchronize()?;
    let worst = run.verify(ROWS)?;
    let mut us = vec![];
    for kernels in [&[0, 1][..], &[0], &[1]] {
        us.push(median(device, options, &mut run, kernels)?);
    }
    let work = pairs * shape.columns as f64;
    let rate = |products: f64, us: f64| 2.0 * products * work / us / 1e6;
    Ok(format!(
        "{:>8.1} us {:>6.1} TFLOP/s of five products; dQ {:>8.1} us, {:>6.1} of three; dK and dV {:>8.1} us, {:>6.1} of four; \
         error {worst:.2} of the bound",
        us[0],
        rate(5.0, us[0]),
        us[1],
        rate(3.0, us[1]),
        us[2],
        rate(4.0, us[2])
    ))
}

fn median(device: &Device, options: &Options, run: &mut Run<bf16>, kernels: &[usize]) -> Result<f64, Failure> {
    let (begin, end) = (Event::new(device)?, Event::new(device)?);
    let mut times = vec![];
    for number in 0..WARM_UPS + options.repeats.max(1) {
        begin.record(run.stream.handle())?;
        for kernel in kernels {
            run.launch(*kernel)?;
        }
        end.record(run.stream.handle())?;
        end.synchronize()?;
        if number >= WARM_UPS {
            times.push(1e3 * f64::from(begin.elapsed_ms(&end)?));
        }
    }
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}

/// A gradient on a device.
struct Run<T: Element + Plain> {
    drawn: Backward<T>,
    launcher: GradientLauncher,
    pattern: GradientPattern,
    /// Q, K, V, O and dO.
    tensors: Vec<DeviceTensor<T>>,
    lse: DeviceBuffer<f32>,
    lse_gradient: Option<DeviceBuffer<f32>>,
    vectors: UploadedVectors,
    gradients: [DeviceTensor<T>; 3],
    workspace: DeviceBuffer<f32>,
    stream: Stream,
}

impl<T: Element + Plain> Run<T> {
    fn new(device: &Device, spec: &KernelSpec, keys: &[String; 2], drawn: Backward<T>) -> Result<Self, Failure> {
        let mut plans = vec![];
        for (spec, keys) in spec.gradients().iter().zip(keys) {
            let text = if keys.is_empty() { spec.to_string() } else { format!("{spec}, {keys}") };
            plans.push(Plan::new(&text.parse()?)?);
        }
        let launcher = GradientLauncher::load(device, [&plans[0], &plans[1]])?;
        let pattern = launcher.pattern(&drawn.mask, drawn.shape)?;
        let host = drawn.tensors.iter().chain([&drawn.output, &drawn.output_gradient]);
        let tensors = host.map(|tensor| DeviceTensor::upload(device, tensor)).collect::<Result<_, _>>()?;
        let of_queries = |values: &Vec<f32>| DeviceBuffer::from_slice(device, values);
        let [dq, dk, dv] =
            drawn.tensors.each_ref().map(|tensor| DeviceTensor::uninit(device, tensor.sizes(), tensor.order()));
        Ok(Self {
            launcher,
            workspace: DeviceBuffer::uninit(device, pattern.workspace_len())?,
            pattern,
            tensors,
            lse: of_queries(&drawn.lse)?,
            lse_gradient: drawn.lse_gradient.as_ref().map(of_queries).transpose()?,
            vectors: UploadedVectors::new(device, &drawn.vectors)?,
            gradients: [dq?, dk?, dv?],

            stream: Stream::new(device)?,
            drawn,
        })
    }

    fn poison(&mut self) -> Result<(), Failure> {
        self.gradients.iter_mut().try_for_each(|gradient| gradient.fill_bytes(T::POISON_BYTE))?;
        Ok(self.workspace.fill_bytes(0xFF)?)
    }

    fn launch(&mut self, kernel: usize) -> Result<(), Failure> {
        let [q, k, v, output, output_gradient] = &self.tensors[..] else { return Err("five tensors".into()) };
        let vectors = self.vectors.each();
        let inputs = GradientInputs {
            tensors: [q, k, v],
            output,
            lse: &self.lse,
            output_gradient,
            lse_gradient: self.lse_gradient.as_ref(),
            scale: self.drawn.scale,
            scalars: &self.drawn.scalars,
            vectors: &vectors,
        };
        let [dq, dk, dv] = self.gradients.each_mut();
        let mut outputs = GradientOutputs { dq, dk, dv, workspace: &mut self.workspace, score_sums: [None, None] };
        Ok(self.launcher.launch_one(kernel, &self.stream, &inputs, &self.pattern, &mut outputs)?)
    }

    fn verify(&self, most: usize) -> Result<f64, Failure> {
        let [dq, dk, dv] = self.gradients.each_ref().map(DeviceTensor::download);
        Ok(self.drawn.verify([&dq?, &dk?, &dv?], most)?)
    }

    fn bits(&self) -> Result<Vec<u8>, Failure> {
        let mut bits = vec![];
        for gradient in &self.gradients {
            bits.extend(T::to_bytes(gradient.download()?.data()));
        }
        Ok(bits)
    }
}
