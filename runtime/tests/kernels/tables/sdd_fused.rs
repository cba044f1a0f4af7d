//! SDDMMs with epilogues, and lists of them, on the GPU and on the simulator.

use bsr_codegen::KernelSpec;
use bsr_runtime::gpu::{Device, DeviceBsr, Stream};
use bsr_runtime::reference::{self, Fused};
use bsr_runtime::simulated::Schedule;
use bsr_runtime::typed::with_types;
use bsr_runtime::{Dense, Inputs, Launcher, Structure};
use half::f16;
use rayon::prelude::*;

use super::sdd::{report, run};
use crate::case::{Blocks, Failure};
use crate::run::load;
use crate::sddmm::{SddmmCase, Simulate};
use crate::simulate::every_kernel;
use crate::walled::Walled;
use crate::watchdog::watch;
use crate::{device, tell};

use Blocks::{FullRows, Lengths, Pattern};

#[test]
fn epilogues() {
    run("sdd, epilogues", &cases());
}

/// See the one of products without epilogues.
#[test]
fn sanitizer_sample() {
    run("sdd, epilogues, sanitizer sample", &cases().into_iter().step_by(11).collect::<Vec<_>>());
}

#[test]
fn simulated() {
    let cases: Vec<SddmmCase> = cases().into_iter().step_by(if every_kernel() { 1 } else { 11 }).collect();
    let simulate = |(i, case)| {
        let (case, schedule): (&SddmmCase, _) = (case, [Schedule::Scrambled, Schedule::Early, Schedule::Late][i % 3]);
        (case, with_types(&case.spec, Simulate { case, ctas: 3, schedule }))
    };
    let outcomes: Vec<_> = cases.par_iter().enumerate().map(simulate).collect();
    report("sdd, epilogues, simulated", &outcomes);
}

/// `T` is the type of C. All of them are something where there is nothing, so that what extends beyond the edge would show.
const EPILOGUES: [&str; 8] = [
    "|bias: Rows<f32>, gate: Cols<bf16>, s: f32| s * acc + bias * gate + 1",
    "|| (relu(acc) + 1, row_sum(acc + 1))",
    "|low: Cols<f32>| (sigmoid(acc), row_max(acc + low))",
    "|mask: Bsr<T>, alpha: f32| alpha * acc * mask + 2",
    "|c: Bsr<T>, beta: f32| acc + beta * c",
    "|mask: Bsr<T>, bias: Rows<f16>| (acc + mask + bias + 1, row_max(acc * mask))",
    "|mask: Bsr<T>, gate: Cols<f32>| (tanh(acc) + 3, row_sum(mask * gate + 1))",
    "|x: Rows<bf16>, y: Cols<f16>| (gelu(acc + x + y), row_sum(acc * acc))",
];

pub(super) fn cases() -> Vec<SddmmCase> {
    let mut cases = vec![];
    for (i, (spec, shape)) in [
        ("bm = 128, bn = 256, bk = 128", (700, 900, 330)),
        ("bm = 128, bn = 256, bk = 64, schedule = balanced", (600, 500, 1900)),
        ("bm = 64, bn = 128, bk = 64, transpose = on, b_layout = col", (390, 370, 140)),
        ("bm = 24, bn = 96, bk = 40, b_layout = col", (300, 330, 170)),
        ("bm = 16, bn = 64, bk = 16, out = f32", (170, 190, 150)),
        ("bm = 8, bn = 64, bk = 264, a_layout = col", (90, 800, 130)),
        ("bm = 200, bn = 96, bk = 24, dtype = bf16", (733, 200, 164)),
        ("bm = 72, bn = 256, bk = 24, out = f32, transpose = on", (250, 350, 700)),
        ("bm = 512, bn = 256, bk = 112, consumers = 1, stages = 3", (700, 500, 265)),
        ("bm = 128, bn = 256, bk = 128, dtype = e4m3, out = bf16", (500, 500, 260)),
    ]
    .into_iter()
    .enumerate()
    {
        let t = if spec.contains("bf16") {
            "bf16"
        } else if spec.contains("f32") {
            "f32"
        } else {
            "f16"
        };
        for (j, epilogue) in EPILOGUES.into_iter().enumerate() {
            let blocks = [Pattern("random:0.5"), Lengths(&[0, 1, 2, 3]), FullRows(&[1]), Pattern("random:0.1")]
                [(i + j) % 4]
                .clone();
            let epilogue = epilogue.replace("<T>", &format!("<{t}>"));
            cases.push(SddmmCase::new(&format!("{spec}, epilogue = \"{epilogue}\""), shape, blocks));
        }
    }
    cases
}

/// Heads of one kernel: stacked, and pushed one by one.
#[test]
fn lists() {
    let Some((_turn, device)) = device() else {
        return;
    };
    let mut failures = vec![];
    for text in [
        "bm = 128, bn = 256, bk = 128, batch = on",
        "bm = 64, bn = 128, bk = 64, transpose = on, b_layout = col, batch = on",
        "bm = 16, bn = 64, bk = 16, batch = on, schedule = strided",
        "bm = 96, bn = 192, bk = 48, a_layout = col, batch = on",
    ] {
        let spec = crate::case::parse(&format!("op = sdd, {text}"));
        let launched = load(&device, &spec).and_then(|launcher| {
            pushed(&device, &launcher, &spec)?;
            stacked(&device, &launcher, &spec)
        });
        failures.extend(launched.err().map(|error| format!("{spec}\n    {error}")));
    }
    tell(format_args!("sdd, lists: 4 kernels, {} failures", failures.len()));
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

fn want(spec: &KernelSpec, a: &Dense<f16>, b: &Dense<f16>, structure: &Structure) -> Result<Fused, Failure> {
    let blocks: Vec<usize> = (0..structure.nnzb()).collect();
    Ok(reference::expected_blocks(spec, a, b, structure, &blocks, &Inputs::new())?)
}

/// Problems of different shapes, one of them without blocks and one without K, launched twice.
fn pushed(device: &Device, launcher: &Launcher, spec: &KernelSpec) -> Result<(), Failure> {
    let (bm, bk) = (spec.bm as usize, spec.bk as usize);
    let shapes = [(3 * bm + 5, 4 * bk + 3, 300, 0.6), (bm, 7, 64, 1.0), (2 * bm, bk, 0, 0.9), (90, 70, 30, 0.0)];
    let (mut factors, mut results, mut wants) = (vec![], vec![], vec![]);
    for (at, (rows, cols, k, density)) in shapes.into_iter().enumerate() {
        let seed = at as u64;
        let (m, n) = if spec.transpose.is_on() { (cols, rows) } else { (rows, cols) };
        let structure = bsr_runtime::Pattern::Random(density).structure(rows, cols, (bm, bk), seed)?;
        let (a, b) = (Dense::normal(m, k, spec.a_layout, seed), Dense::normal(k, n, spec.b_layout, seed + 1));
        wants.push(want(spec, &a, &b, &structure)?);
        factors.push((Walled::upload(device, &a)?, Walled::upload(device, &b)?));
        let mut c = DeviceBsr::<f16>::zeros(device, &structure)?;
        c.values_mut().fill_bytes(0xff)?;
        results.push(c);
    }
    let mut batch = launcher.batch();
    for ((a, b), c) in factors.iter().zip(&mut results) {
        batch.push((a.matrix(), b.matrix()), c)?;
    }
    let (batch, stream) = (batch.prepare()?, Stream::new(device)?);
    let _watch = watch(spec.to_string());
    batch.launch(&stream)?;
    batch.launch(&stream)?;
    stream.synchronize()?;
    drop(batch);
    for (c, want) in results.iter().zip(&wants).filter(|(c, _)| c.nnzb() > 0) {
        want.verify_blocks(&c.values().to_vec()?, None)?;
    }
    Ok(())
}

/// Three products whose patterns lie one below another.
fn stacked(device: &Device, launcher: &Launcher, spec: &KernelSpec) -> Result<(), Failure> {
    let (bm, bk, count, k) = (spec.bm as usize, spec.bk as usize, 3, 128);
    let (rows, cols) = (2 * bm, 3 * bk);
    let (m, n) = if spec.transpose.is_on() { (cols, rows) } else { (rows, cols) };
    let structure = bsr_runtime::Pattern::Random(0.5).structure(count * rows, cols, (bm, bk), 3)?;
    let a = Dense::<f16>::normal(count * m, k, spec.a_layout, 1);
    let b = Dense::<f16>::normal(count * k, n, spec.b_layout, 2);
    let (there_a, there_b) = (Walled::upload(device, &a)?, Walled::upload(device, &b)?);
    let mut c = DeviceBsr::<f16>::zeros(device, &structure)?;
    c.values_mut().fill_bytes(0xff)?;
    let mut batch = launcher.batch();
    batch.stacked((there_a.matrix(), there_b.matrix()), &mut c, count)?;
    let (batch, stream) = (batch.prepare()?, Stream::new(device)?);
    batch.launch(&stream)?;
    stream.synchronize()?;
    drop(batch);
    let got = c.values().to_vec()?;
    for part in 0..count {
        let element = |dense: &Dense<f16>, row: usize, col: usize| dense.get(row, col).unwrap_or(f16::NAN);
        let a = Dense::from_fn(m, k, spec.a_layout, |row, col| element(&a, part * m + row, col));
        let b = Dense::from_fn(k, n, spec.b_layout, |row, col| element(&b, part * k + row, col));
        let (first, last) = (2 * part, 2 * part + 2);
        let [start, end] = [first, last].map(|row| structure.row_ptr()[row] as usize);
        let row_ptr = structure.row_ptr()[first..=last].iter().map(|at| at - start as i64).collect();
        let own = Structure::new(rows, cols, (bm, bk), row_ptr, structure.col_idx()[start..end].to_vec())?;
        want(spec, &a, &b, &own)?.verify_blocks(&got[start * bm * bk..end * bm * bk], None)?;
    }
    Ok(())
}
