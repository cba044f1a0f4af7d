//! Checks and times many specs on a GPU against the dense library, interleaved, from a list.
//!
//! The list (a file, the first argument) has lines `@ M N K BM BK PATTERN [f16|bf16]`, each followed by the specs
//! to try on that problem, without `bm` and `bk`. Prints one line a spec: ratio first.

use std::time::Duration;

use bsr_codegen::{Arch, Dtype, KernelSpec, Layout, Plan};
use bsr_runtime::bench::{Candidate, DenseBaseline, InterleaveOptions, Work, interleave};
use bsr_runtime::gpu::cublaslt::{CublasLt, DenseProblem};
use bsr_runtime::gpu::{Device, DeviceBsr, DeviceDense, Plain, Stream, StreamRef};
use bsr_runtime::{Bsr, Dense, Element, Launcher, Pattern, reference};
use half::{bf16, f16};

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let path = std::env::args().nth(1).ok_or("usage: explore LIST")?;
    let list = std::fs::read_to_string(path)?;
    let device = Device::open(0)?;
    println!("{:?}", device);
    for group in list.split("@").skip(1) {
        let mut lines = group
            .lines()
            .map(str::trim)
            .filter(|l| !l.is_empty() && !l.starts_with('#'));
        let head: Vec<&str> = lines
            .next()
            .unwrap_or_default()
            .split_whitespace()
            .collect();
        let specs: Vec<&str> = lines.collect();
        let number = |i: usize| head[i].parse::<usize>();
        let problem = (number(0)?, number(1)?, number(2)?, (number(3)?, number(4)?));
        let pattern: Pattern = head[5].parse()?;
        if head.get(6) == Some(&"bf16") {
            group_of::<bf16>(&device, problem, pattern, &specs)?;
        } else {
            group_of::<f16>(&device, problem, pattern, &specs)?;
        }
    }
    Ok(())
}

type Size = (usize, usize, usize, (usize, usize));

struct Entry<C: Plain> {
    name: String,
    launcher: Launcher,
    b: usize,
    c: DeviceDense<C>,
    error: f64,
}

fn group_of<T: Element + Plain>(
    device: &Device,
    (m, n, k, block): Size,
    pattern: Pattern,
    specs: &[&str],
) -> Result<(), Failure> {
    let a = Bsr::<T>::generate(pattern, m, k, block, 7)?;
    let b = Dense::<T>::normal(k, n, Layout::RowMajor, 11);
    let da = DeviceBsr::upload(device, &a)?;
    let bs = [
        DeviceDense::upload(device, &b)?,
        DeviceDense::upload(device, &b.to_layout(Layout::ColMajor))?,
    ];
    let rows: Vec<usize> = (0..24).map(|i| (i * m / 24 + i * 7) % m).collect();
    let want = reference::multiply_rows(&a, &b, &rows)?;
    let work = Work {
        m,
        n,
        k,
        block,
        nnzb: a.nnzb(),
        a: T::DTYPE,
        b: T::DTYPE,
        out: T::DTYPE,
    };
    println!(
        "@ {m} {n} {k} {block:?} {pattern} nnzb {} {}",
        a.nnzb(),
        T::DTYPE
    );
    let stream = Stream::new(device)?;
    let mut entries: Vec<Entry<T>> = vec![];
    for spec in specs {
        let text = format!(
            "bm = {}, bk = {}, dtype = {}, {spec}",
            block.0,
            block.1,
            T::DTYPE
        );
        let spec: KernelSpec = text.parse().map_err(|e| format!("{e}"))?;
        let plan = match Plan::new(&spec, &Arch::SM_90A) {
            Ok(plan) => plan,
            Err(e) => {
                println!("  refused {spec}: {e}");
                continue;
            }
        };
        let ptx = plan.ptx();
        let launcher = Launcher::load(device, &plan, ptx.text(), ptx.entry())?;
        let which = usize::from(spec.b_layout == Layout::ColMajor);
        let mut c = DeviceDense::<T>::zeros(device, m, n, spec.c_layout)?;
        c.fill_bytes(0xff)?;
        launcher.launch(stream.handle(), &da, &bs[which], &mut c)?;
        stream.synchronize()?;
        let got = c.download()?;
        let got: Vec<f64> = rows
            .iter()
            .flat_map(|r| {
                (0..n)
                    .map(|j| got.get(*r, j).map_or(f64::NAN, Element::to_f64))
                    .collect::<Vec<_>>()
            })
            .collect();
        let (mut num, mut den) = (0.0, 0.0);
        for (g, w) in got.iter().zip(&want) {
            num += (g - w) * (g - w);
            den += w * w;
        }
        entries.push(Entry {
            name: spec.to_string(),
            launcher,
            b: which,
            c,
            error: (num / den).sqrt(),
        });
        let bad = entries.last().map_or(0.0, |e| e.error);
        if !(bad < 1e-2) {
            println!("  WRONG {spec} error {bad}");
        }
    }
    let library = CublasLt::new(device)?;
    let dense_problem = DenseProblem::new(
        (m, n, work.equal_dense_k().unwrap_or(8)),
        (T::DTYPE, T::DTYPE),
        [Layout::RowMajor; 3],
    );
    let mut dense = DenseBaseline::new(&library, &dense_problem, 5)?;
    let tune = InterleaveOptions {
        min_repeats: 6,
        max_repeats: 12,
        time_limit: Duration::from_secs(2),
        ..InterleaveOptions::default()
    };
    dense.tune(device, &tune)?;
    let opts = InterleaveOptions {
        max_repeats: 120,
        time_limit: Duration::from_secs(6),
        ..InterleaveOptions::default()
    };
    let (da, bs) = (&da, &bs);
    let mut candidates = vec![dense.candidate()];
    for entry in &mut entries {
        let Entry {
            name,
            launcher,
            b,
            c,
            ..
        } = entry;
        let (launcher, b) = (&*launcher, *b);
        candidates.push(Candidate::new(name.clone(), move |s: StreamRef<'_>| {
            launcher.launch(s, da, &bs[b], c).map_err(|e| match e {
                bsr_runtime::KernelError::Gpu(e) => e,
                other => panic!("{other}"),
            })
        }));
    }
    let timings = interleave(&mut candidates, &opts, device)?;
    drop(candidates);
    let flops = work.executed_flops() as f64;
    let dense_rate = dense_problem.flops() as f64 / timings[0].median_us() * 1e-6;
    println!("  dense {dense_rate:6.1} TFLOP/s  {}", dense.algorithm());
    for (entry, timing) in entries.iter().zip(&timings[1..]) {
        let rate = flops / timing.median_us() * 1e-6;
        println!(
            "  {:.3}  {rate:6.1} TFLOP/s {:8.1} us  err {:.1e}  {}",
            rate / dense_rate,
            timing.median_us(),
            entry.error,
            entry.name
        );
    }
    let _ = Dtype::F16;
    Ok(())
}
