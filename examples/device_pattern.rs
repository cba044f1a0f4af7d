//! Patterns that live on the GPU: how long their lists take, and products with lists of the GPU next to those of the
//! host: `cargo run --release --example device_pattern`. With words, only those in whose description all of them occur.
//!
//! Every product is compared with the host's before it is timed.

use std::cell::RefCell;
use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;

use bsr::bench::{Candidate, InterleaveOptions, interleave};
use bsr::gpu::{Device, DeviceBsr, DeviceDense, DevicePattern, PatternShape, StreamRef};
use bsr::prelude::*;
use bsr::{KernelError, Launcher, Plan};

/// Lists of so many blocks: rows and columns of blocks, blocks in all, columns of the dense factor.
const LISTS: [(usize, usize, f64, usize); 4] =
    [(256, 256, 1.0, 8192), (1024, 1024, 0.0625, 8192), (1024, 1024, 1.0, 8192), (4096, 1024, 0.25, 4096)];

/// Products: spec, rows and columns of A, columns of B, pattern.
const PRODUCTS: [(&str, usize, usize, usize, &str); 11] = [
    ("bm = 128, bn = 256, bk = 128, cluster = 2", 8192, 8192, 8192, "random:0.25"),
    ("bm = 128, bn = 256, bk = 128, cluster = 2", 8192, 8192, 8192, "random:0.03"),
    ("bm = 64, bn = 256, bk = 64, cluster = 4", 12288, 12288, 6144, "powerlaw:0.06"),
    ("bm = 64, bn = 256, bk = 64, cluster = 2", 12288, 12288, 6144, "powerlaw:0.06"),
    ("bm = 64, bn = 256, bk = 64, cluster = 2", 4096, 4096, 4096, "random:0.125"),
    ("bm = 128, bn = 192, bk = 128, cluster = 2", 12288, 12288, 6144, "window:0.05"),
    ("bm = 64, bn = 256, bk = 64, cluster = 2, swap = off, pack = 2", 4096, 4096, 4096, "random:0.125"),
    ("bm = 64, bn = 192, bk = 64, cluster = 2, swap = off, pack = 2", 12288, 12288, 6144, "window:0.05"),
    ("bm = 64, bn = 192, bk = 64, cluster = 2, swap = off, pack = 3", 12288, 12288, 6144, "powerlaw:0.06"),
    ("bm = 128, bn = 16, bk = 128, consumers = 1, split = 2", 4096, 14336, 16, "random:0.25"),
    ("bm = 64, bn = 64, bk = 64, split = 4", 2048, 8192, 64, "random:0.25"),
];

/// Products of two sparse factors: spec, side of all matrices, pattern of both factors.
const PAIRS: [(&str, usize, &str); 3] = [
    ("op = dss, bm = 128, bn = 128, bk = 128", 8192, "random:0.5"),
    ("op = dss, bm = 128, bn = 128, bk = 128", 8192, "random:0.25"),
    ("op = dss, bm = 64, bn = 64, bk = 64", 8192, "random:0.25"),
];

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let device = match Device::open(0).and_then(|device| device.check_target("sm_90a").map(|()| device)) {
        Ok(device) => device,
        Err(none) => {
            println!("nothing is launched: {none}");
            return Ok(ExitCode::from(3));
        }
    };
    let words: Vec<String> = std::env::args().skip(1).collect();
    let is_asked = |what: &str| words.iter().all(|word| what.contains(word.as_str()));
    for (rows, cols, density, n) in LISTS {
        for spec in [
            "bm = 64, bn = 256, bk = 64, cluster = 2",
            "bm = 64, bn = 256, bk = 64, op = dds",
            "bm = 64, bn = 64, bk = 64, op = sdd",
            "bm = 64, bn = 256, bk = 64, swap = off, pack = 2",
            "bm = 64, bn = 256, bk = 64, split = 2",
        ] {
            if is_asked(&format!("lists {rows} x {cols} {density}, {spec}")) {
                time_lists(&device, spec, (64 * rows, 64 * cols), density, n)?;
            }
        }
    }
    for (spec, m, k, n, pattern) in PRODUCTS {
        if is_asked(&format!("product {m} x {k}, {pattern}, {spec}")) {
            time_product(&device, spec, (m, k, n), pattern)?;
        }
    }
    for (spec, side, pattern) in PAIRS {
        if is_asked(&format!("pairs {side}, {pattern}, {spec}")) {
            time_pairs(&device, spec, side, pattern)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn launcher(device: &Device, spec: &str) -> Result<Launcher, Box<dyn Error>> {
    let plan = Plan::new(&spec.parse()?)?;
    let ptx = plan.ptx();
    Ok(Launcher::load(device, &plan, ptx.text(), ptx.entry())?)
}

/// The check and the lists, and what a mask or the transposed index takes in addition. Values have one block of memory: no
/// product is launched.
fn time_lists(
    device: &Device,
    spec: &str,
    (rows, cols): (usize, usize),
    density: f64,
    n: usize,
) -> Result<(), Box<dyn Error>> {
    let launcher = launcher(device, spec)?;
    let structure = Pattern::Random(density).structure(rows, cols, (64, 64), 1)?;
    let blocks = structure.nnzb();
    let shape = PatternShape { rows, cols, block: (64, 64), capacity: blocks };
    let by_arrays = Arc::new(DevicePattern::upload(device, &structure, blocks)?);
    let by_mask = Arc::new(DevicePattern::upload_mask(device, shape, &mask(&structure))?);
    let values = DeviceDense::<f16>::upload(device, &Dense::zeros(64, 64, Layout::RowMajor))?;
    // SAFETY: no kernel reads the values, because none is launched but those that make lists.
    let sparse = unsafe {
        [
            DeviceBsr::<f16>::from_raw_pattern(&by_arrays, values.ptr())?,
            DeviceBsr::<f16>::from_raw_pattern(&by_mask, values.ptr())?,
        ]
    };
    sparse.iter().try_for_each(|sparse| launcher.prepare(sparse, n))?;
    for cold in [false, true] {
        let make = |stream: StreamRef<'_>, sparse: &DeviceBsr<f16>| -> Result<(), KernelError> {
            if let Some(pattern) = sparse.device_pattern() {
                pattern.changed();
            }
            launcher.make_lists(stream, sparse, n)
        };
        let mut candidates = [
            Candidate::new("arrays", |stream| make(stream, &sparse[0])),
            Candidate::new("mask", |stream| make(stream, &sparse[1])),
        ];
        let options = InterleaveOptions { cold, ..InterleaveOptions::default() };
        for timing in interleave(&mut candidates, &options, device)? {
            println!(
                "lists {:<7} {blocks:>8} blocks, {} x {} tiles: {:.1} us {}, {spec}",
                timing.name,
                rows.div_ceil(64),
                n.div_ceil(256),
                timing.median_us(),
                if cold { "cold" } else { "warm" }
            );
        }
    }
    by_arrays.check()?;
    by_mask.check()?;
    if by_mask.download()? != structure || by_arrays.download()? != structure {
        return Err("the pattern of the mask is not that of the arrays".into());
    }
    Ok(())
}

/// A product with lists of the GPU, the same with those of the host, and with lists that are made ahead of every launch.
fn time_product(
    device: &Device,
    spec: &str,
    (m, k, n): (usize, usize, usize),
    pattern: &str,
) -> Result<(), Box<dyn Error>> {
    let launcher = launcher(device, spec)?;
    let block = (launcher.plan().spec().bm as usize, launcher.plan().spec().bk as usize);
    let a = Bsr::<f16>::generate(pattern.parse()?, m, k, block, 1)?;
    let host = DeviceBsr::upload(device, &a)?;
    let pattern_on_gpu = Arc::new(DevicePattern::upload(device, a.structure(), a.nnzb())?);
    // SAFETY: the values of `host` live as long, and nothing writes them.
    let own = unsafe { DeviceBsr::<f16>::from_raw_pattern(&pattern_on_gpu, host.values().ptr())? };
    let b = DeviceDense::upload(device, &Dense::<f16>::normal(k, n, Layout::RowMajor, 2))?;
    let zeros = Dense::<f16>::zeros(m, n, Layout::RowMajor);
    let c = [RefCell::new(DeviceDense::upload(device, &zeros)?), RefCell::new(DeviceDense::upload(device, &zeros)?)];
    let run = |stream: StreamRef<'_>, sparse: &DeviceBsr<f16>, at: usize| {
        launcher.launch(stream, (sparse, &b), &mut *c[at].borrow_mut())
    };
    let results = timed(device, |stream, way| match way {
        Way::Host => run(stream, &host, 0),
        Way::Gpu => run(stream, &own, 1),
        Way::Anew => {
            pattern_on_gpu.changed();
            run(stream, &own, 1)
        }
    })?;
    pattern_on_gpu.check()?;
    same(&c, spec)?;
    print(&results, &format!("{m} x {k}, N = {n}, {pattern}, {spec}"));
    Ok(())
}

/// The same of two sparse factors, whose pairs of blocks are listed.
fn time_pairs(device: &Device, spec: &str, side: usize, pattern: &str) -> Result<(), Box<dyn Error>> {
    let launcher = launcher(device, spec)?;
    let of = launcher.plan().spec();
    let [bm, bn, bk] = [of.bm, of.bn, of.bk].map(|side| side as usize);
    let a = Bsr::<f16>::generate(pattern.parse()?, side, side, (bm, bk), 1)?;
    let b = Bsr::<f16>::generate(pattern.parse()?, side, side, (bk, bn), 2)?;
    let host = [DeviceBsr::upload(device, &a)?, DeviceBsr::upload(device, &b)?];
    let upload = |of: &Bsr<f16>| DevicePattern::upload(device, of.structure(), of.nnzb()).map(Arc::new);
    let patterns = [upload(&a)?, upload(&b)?];
    // SAFETY: the values of `host` live as long, and nothing writes them.
    let own = unsafe {
        [
            DeviceBsr::<f16>::from_raw_pattern(&patterns[0], host[0].values().ptr())?,
            DeviceBsr::<f16>::from_raw_pattern(&patterns[1], host[1].values().ptr())?,
        ]
    };
    let zeros = Dense::<f16>::zeros(side, side, Layout::RowMajor);
    let c = [RefCell::new(DeviceDense::upload(device, &zeros)?), RefCell::new(DeviceDense::upload(device, &zeros)?)];
    let run = |stream: StreamRef<'_>, of: &[DeviceBsr<f16>; 2], at: usize| {
        launcher.launch(stream, (&of[0], &of[1]), &mut *c[at].borrow_mut())
    };
    let results = timed(device, |stream, way| match way {
        Way::Host => run(stream, &host, 0),
        Way::Gpu => run(stream, &own, 1),
        Way::Anew => {
            patterns.iter().for_each(|pattern| pattern.changed());
            run(stream, &own, 1)
        }
    })?;
    patterns.iter().try_for_each(|pattern| pattern.check())?;
    same(&c, spec)?;
    print(&results, &format!("{side}^3, both {pattern}, {spec}"));
    Ok(())
}

/// Which lists a product reads.
#[derive(Clone, Copy)]
enum Way {
    Host,
    Gpu,
    /// Those of the GPU, made ahead of every launch.
    Anew,
}

/// The medians of a product in every way, in microseconds.
fn timed(
    device: &Device,
    run: impl Fn(StreamRef<'_>, Way) -> Result<(), KernelError>,
) -> Result<Vec<(String, f64)>, Box<dyn Error>> {
    let ways = [("host's lists", Way::Host), ("GPU's lists", Way::Gpu), ("lists and product", Way::Anew)];
    let run = &run;
    let mut candidates = ways.map(|(name, way)| Candidate::new(name, move |stream| run(stream, way)));
    let timings = interleave(&mut candidates, &InterleaveOptions::default(), device)?;
    Ok(timings.iter().map(|timing| (timing.name.clone(), timing.median_us())).collect())
}

/// Makes sure that both lists gave the same bits.
fn same(c: &[RefCell<DeviceDense<f16>>; 2], spec: &str) -> Result<(), Box<dyn Error>> {
    match c[0].borrow().download()?.data() == c[1].borrow().download()?.data() {
        true => Ok(()),
        false => Err(format!("{spec}: the lists of the GPU gave other bits").into()),
    }
}

fn print(results: &[(String, f64)], what: &str) {
    for (name, us) in results {
        println!("{name:<18} {us:>8.1} us {:.3}: {what}", results[0].1 / us);
    }
}

fn mask(structure: &Structure) -> Vec<u8> {
    let mut mask = vec![0; structure.block_rows() * structure.block_cols()];
    for row in 0..structure.block_rows() {
        for block in structure.blocks_of(row) {
            mask[row * structure.block_cols() + structure.col_idx()[block] as usize] = 1;
        }
    }
    mask
}
