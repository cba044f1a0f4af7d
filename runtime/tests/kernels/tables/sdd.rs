//! SDDMMs, on the GPU and on the simulator.

use std::collections::HashMap;

use bsr_codegen::{Argument, KernelSpec, Problem};
use bsr_runtime::gpu::{DeviceBsr, DeviceDense, Stream, tensor_map};
use bsr_runtime::schedule::SddmmWork;
use bsr_runtime::simulated::Schedule;
use bsr_runtime::typed::with_types;
use bsr_runtime::{Dense, Element, Launcher, Layout, Structure};
use half::f16;
use rayon::prelude::*;

use crate::case::{Blocks, Failure};
use crate::run::{Judged, load, runs};
use crate::sddmm::{Check, SddmmCase, Simulate};
use crate::simulate::every_kernel;
use crate::{device, tell};

use Blocks::{FullRows, Lengths, Pattern};

#[test]
fn block_classes() {
    run("sdd, block classes", &block_cases());
}

#[test]
fn types_and_layouts() {
    run("sdd, types and layouts", &type_cases());
}

#[test]
fn shapes_and_patterns() {
    run("sdd, shapes and patterns", &[shape_cases(), pattern_cases()].concat());
}

#[test]
fn many_tiles() {
    run("sdd, many tiles", &[large_cases(), part_cases()].concat());
}

/// For `compute-sanitizer --tool racecheck TEST_BINARY sanitizer_sample`.
#[test]
fn sanitizer_sample() {
    run("sdd, sanitizer sample", &all().into_iter().step_by(23).collect::<Vec<_>>());
}

#[test]
fn every_row_can_be_launched() {
    let mut wrong = vec![];
    for case in all().iter().chain(&large_cases()) {
        let checked = case.plan().and_then(|plan| {
            let nnzb = case.structure()?.nnzb() as u64;
            let (m, n, k) = (case.m as u64, case.n as u64, case.k as u64);
            let ld = m.max(n).max(k).next_multiple_of(16);
            let launch = plan.launch(&Problem { m, n, k, nnzb, lda: ld, ldb: ld, ldc: 0, ldt: 0 }, [1, 1]);
            for parameter in &launch.parameters {
                if let Argument::Map(map) = &parameter.argument {
                    tensor_map::validate(4096, map)?;
                }
            }
            Ok(())
        });
        wrong.extend(checked.err().map(|error| format!("{case}\n    {error}")));
    }
    assert!(wrong.is_empty(), "{} rows:\n{}", wrong.len(), wrong.join("\n"));
}

/// Each is refused by name, and nothing is written.
#[test]
fn launches_that_must_not_be() {
    let Some((_turn, device)) = device() else {
        return;
    };
    let case = SddmmCase::new("bm = 64, bn = 128, bk = 64", (128, 192, 256), Pattern("random:1"));
    let launcher = load(&device, &case.spec).unwrap();
    let dsd = load(&device, &crate::case::parse("bm = 64, bn = 64, bk = 64")).unwrap();
    let stream = Stream::new(&device).unwrap();
    let dense =
        |rows, cols, layout| DeviceDense::upload(&device, &Dense::<f16>::normal(rows, cols, layout, 1)).unwrap();
    let (a, b) = (dense(128, 256, Layout::RowMajor), dense(256, 192, Layout::RowMajor));
    let structure = case.structure().unwrap();
    let mut c = DeviceBsr::<f16>::zeros(&device, &structure).unwrap();
    c.values_mut().fill_bytes(f16::POISON_BYTE).unwrap();
    let mut refused = |launcher: &Launcher, a: &DeviceDense<f16>, b: &DeviceDense<f16>, word: &str| {
        let outcome = launcher.launch(stream.handle(), (a, b), &mut c);
        let error = outcome.expect_err(word).to_string();
        assert!(error.contains(word) && error.contains("help: "), "{word}: {error}");
    };
    refused(&dsd, &a, &b, "op = dsd");
    refused(&launcher, &dense(128, 255, Layout::RowMajor), &b, "do not multiply");
    refused(&launcher, &dense(127, 256, Layout::RowMajor), &b, "do not multiply");
    refused(&launcher, &a, &dense(256, 193, Layout::RowMajor), "do not multiply");
    refused(&launcher, &dense(128, 256, Layout::ColMajor), &b, "a_layout = col");
    refused(&launcher, &a, &dense(256, 192, Layout::ColMajor), "b_layout = col");
    let at = c.values().ptr();
    // SAFETY: C's values are 128 * 192 elements, and a refused launch reads nothing.
    let alias = |rows, cols| unsafe { DeviceDense::<f16>::from_raw(at, rows, cols, Layout::RowMajor, cols) }.unwrap();
    let mut refused = |a: &DeviceDense<f16>, b: &DeviceDense<f16>, word: &str| {
        let error = launcher.launch(stream.handle(), (a, b), &mut c).expect_err(word).to_string();
        assert!(error.contains(word) && error.contains("help: "), "{word}: {error}");
    };
    refused(&alias(128, 256), &b, "C overlaps A");
    refused(&a, &alias(256, 192), "C overlaps B");
    let mut other = DeviceBsr::<f16>::zeros(&device, &Structure::empty(128, 192, (64, 32)).unwrap()).unwrap();
    let error = launcher.launch(stream.handle(), (&a, &b), &mut other).expect_err("block").to_string();
    assert!(error.contains("64 x 32 blocks"), "{error}");
    let mut wide = DeviceBsr::<f32>::zeros(&device, &structure).unwrap();
    let error = launcher.launch(stream.handle(), (&a, &b), &mut wide).expect_err("dtype").to_string();
    assert!(error.contains("C is f32"), "{error}");
    assert!(c.values().to_vec().unwrap().iter().all(|value| value.is_nan()), "something was written");
}

/// Most are stepped over, unless every kernel is asked for.
#[test]
fn simulated() {
    let cases: Vec<SddmmCase> = all().into_iter().step_by(if every_kernel() { 1 } else { 11 }).collect();
    let outcomes: Vec<_> = cases
        .par_iter()
        .map(|case| (case, with_types(&case.spec, Simulate { case, ctas: 3, schedule: Schedule::Scrambled })))
        .collect();
    report("sdd, simulated", &outcomes);
}

/// Two CTAs that share three tiles: the end of one tile's K is another CTA's.
#[test]
fn simulated_parts() {
    let cases = part_cases();
    for case in &cases {
        let (plan, structure) = (case.plan().unwrap(), case.structure().unwrap());
        let work = SddmmWork::new(&plan, &structure, case.k, 2).unwrap();
        assert!(work.workspace() > 0, "{case}: nothing is shared");
    }
    let simulate = |(i, case)| {
        let (case, schedule): (&SddmmCase, _) = (case, [Schedule::Scrambled, Schedule::Early, Schedule::Late][i % 3]);
        (case, with_types(&case.spec, Simulate { case, ctas: 2, schedule }))
    };
    let outcomes: Vec<_> = cases.par_iter().enumerate().map(simulate).collect();
    report("sdd, simulated parts", &outcomes);
}

fn part_cases() -> Vec<SddmmCase> {
    [
        "bm = 128, bn = 256, bk = 128",
        "bm = 128, bn = 128, bk = 64, out = f32, b_layout = col",
        "bm = 96, bn = 192, bk = 96, dtype = bf16, transpose = on",
        "bm = 64, bn = 128, bk = 64, a_layout = col",
        "bm = 24, bn = 128, bk = 40",
        "bm = 128, bn = 128, bk = 128, dtype = i8",
        "bm = 64, bn = 128, bk = 64, dtype = e4m3, consumers = 1, out = bf16",
    ]
    .iter()
    .enumerate()
    .map(|(i, text)| {
        let text = &format!("{text}, schedule = balanced");
        let spec: KernelSpec = format!("op = sdd, {text}").parse().unwrap();
        let (bm, bk) = (spec.bm as usize, spec.bk as usize);
        let (pack, k) = (if bm < 64 { 64 / bm } else { 1 }, 1500 + 100 * i);
        let (rows, cols) = (3 * pack * bm - 5, 2 * bk - 3);
        let (m, n) = if spec.transpose.is_on() { (cols, rows) } else { (rows, cols) };
        // Even tiles, or the last one of half the width.
        let blocks = if i % 2 == 0 { Lengths(&[2]) } else { Lengths(&[2, 2, 1]) };
        SddmmCase::new(text, (m, n, if spec.a.bytes() == 1 { 2 * k } else { k }), blocks)
    })
    .collect()
}

pub(super) fn all() -> Vec<SddmmCase> {
    [block_cases(), type_cases(), shape_cases(), pattern_cases()].concat()
}

/// Blocks of every class, ragged in M, N and K, in each layout in turn.
fn block_cases() -> Vec<SddmmCase> {
    const BLOCKS: [(usize, usize); 14] = [
        (128, 128),
        (64, 64),
        (32, 32),
        (16, 16),
        (96, 80),
        (24, 40),
        (8, 64),
        (512, 112),
        (256, 256),
        (192, 96),
        (72, 24),
        (8, 8),
        (64, 512),
        (40, 264),
    ];
    const LAYOUTS: [&str; 5] = [
        "",
        ", a_layout = col",
        ", b_layout = col",
        ", a_layout = col, b_layout = col",
        ", transpose = on, b_layout = col",
    ];
    let mut cases = vec![];
    for (i, (bm, bk)) in BLOCKS.into_iter().enumerate() {
        for j in 0..2 {
            let (bn, layout) = ([256, 128][j], LAYOUTS[(i + 2 * j) % LAYOUTS.len()]);
            let spec = format!("bm = {bm}, bn = {bn}, bk = {bk}{layout}");
            let (rows, cols) = (3 * bm - bm / 3 - 1, (5 * bk).max(200) - bk / 2 - 3);
            let (m, n) = if layout.contains("transpose") { (cols, rows) } else { (rows, cols) };
            cases.push(SddmmCase::new(&spec, (m, n, [333, 70][j]), Pattern("random:0.6")));
        }
    }
    cases
}

/// Every operand type and result type, in each layout that it has.
fn type_cases() -> Vec<SddmmCase> {
    let mut cases = vec![];
    let mut add = |text: String| cases.push(SddmmCase::new(&text, (300, 411, 200), Pattern("random:0.5")));
    for out in ["f16", "bf16", "f32"] {
        for layouts in ["", ", a_layout = col", ", b_layout = col", ", a_layout = col, b_layout = col"] {
            add(format!("bm = 128, bn = 256, bk = 128, dtype = bf16, out = {out}{layouts}"));
            add(format!("bm = 64, bn = 192, bk = 48, out = {out}, transpose = on{layouts}"));
        }
        for types in ["dtype = e4m3", "a = e4m3, b = e5m2", "a = e5m2, b = e4m3", "dtype = e5m2", "dtype = i8"] {
            add(format!("bm = 128, bn = 256, bk = 128, {types}, out = {out}"));
            add(format!("bm = 32, bn = 128, bk = 40, {types}, out = {out}"));
        }
        for rest in ["", ", transpose = on"] {
            let tf32 = format!("dtype = f32, tf32 = on, b_layout = col, out = {out}{rest}");
            add(format!("bm = 128, bn = 256, bk = 128, {tf32}"));
            add(format!("bm = 32, bn = 128, bk = 40, {tf32}"));
        }
    }
    add("bm = 128, bn = 256, bk = 128, dtype = i8".to_owned());
    add("bm = 24, bn = 256, bk = 24, dtype = i8, transpose = on".to_owned());
    add("bm = 128, bn = 256, bk = 128, arch = sm_90a, cluster = 1, consumers = 2, swap = off, swizzle = 128".to_owned());
    add("bm = 64, bn = 128, bk = 64, pdl = on, schedule = strided".to_owned());
    add("bm = 8, bn = 128, bk = 32, pack = 8".to_owned());
    for knob in ["stages = 2", "stages = 3", "consumers = 1"] {
        add(format!("bm = 128, bn = 256, bk = 128, {knob}"));
        add(format!("bm = 64, bn = 128, bk = 64, {knob}, out = f32"));
    }
    for pack in [1, 2, 3, 4] {
        add(format!("bm = 16, bn = 128, bk = 32, pack = {pack}"));
    }
    cases
}

/// M, N and K at and around the sizes of tiles, blocks and stages.
fn shape_cases() -> Vec<SddmmCase> {
    let mut cases = vec![];
    for spec in ["bm = 128, bn = 256, bk = 128", "bm = 64, bn = 128, bk = 32, b_layout = col, dtype = bf16"] {
        for shape in [
            (1, 1, 1),
            (1, 300, 64),
            (300, 1, 65),
            (129, 127, 8),
            (128, 128, 63),
            (256, 384, 64),
            (257, 385, 128),
            (255, 640, 600),
            (70, 300, 0),
        ] {
            cases.push(SddmmCase::new(spec, shape, Pattern("random:0.7")));
        }
    }
    cases
}

/// Empty rows, full rows, no blocks, rows of odd and even lengths.
fn pattern_cases() -> Vec<SddmmCase> {
    let mut cases = vec![];
    for (spec, shape) in [
        ("bm = 128, bn = 256, bk = 128", (700, 900, 150)),
        ("bm = 128, bn = 256, bk = 64, out = f32", (700, 600, 150)),
        ("bm = 32, bn = 128, bk = 32", (300, 400, 150)),
    ] {
        for blocks in [
            Pattern("random:0"),
            Pattern("random:1"),
            Pattern("random:0.05"),
            Pattern("causal"),
            Pattern("powerlaw:0.3"),
            Lengths(&[0, 1, 2, 3]),
            Lengths(&[1]),
            Lengths(&[5, 0, 0]),
            FullRows(&[0]),
            FullRows(&[3]),
        ] {
            cases.push(SddmmCase::new(spec, shape, blocks));
        }
    }
    cases
}

/// More tiles than a GPU has multiprocessors, and fewer: too large for the simulator.
fn large_cases() -> Vec<SddmmCase> {
    let mut cases = vec![];
    for spec in ["bm = 128, bn = 256, bk = 128", "bm = 64, bn = 256, bk = 64, dtype = bf16, b_layout = col"] {
        for (shape, pattern) in [
            ((4096, 4096, 1024), "random:0.25"),
            ((4096, 4096, 2048), "random:0.05"),
            ((2048, 8192, 512), "powerlaw:0.2"),
            ((8192, 1024, 4096), "topk:1"),
            ((1000, 1000, 8192), "random:0.1"),
        ] {
            cases.push(SddmmCase::new(spec, shape, Pattern(pattern)));
        }
    }
    cases
}

/// Runs every row of a table on the GPU.
pub(super) fn run(name: &str, cases: &[SddmmCase]) {
    let Some((_turn, device)) = device() else {
        return;
    };
    let (cases, elsewhere): (Vec<&SddmmCase>, Vec<_>) = cases.iter().partition(|case| runs(&device, &case.spec));
    let mut specs: Vec<KernelSpec> = cases.iter().map(|case| case.spec).collect();
    specs.sort();
    specs.dedup();
    let loaded = |spec: &KernelSpec| (*spec, load(&device, spec).map_err(|error| error.to_string()));
    let kernels: HashMap<KernelSpec, Result<Launcher, String>> = specs.par_iter().map(loaded).collect();
    let mut outcomes = vec![];
    for case in cases {
        let outcome = match &kernels[&case.spec] {
            Ok(launcher) => with_types(&case.spec, Check { device: &device, launcher, case }),
            Err(error) => Err(error.clone().into()),
        };
        outcomes.push((case, outcome));
        // After a fault in a kernel every call fails: what follows would say nothing.
        if device.synchronize().is_err() {
            break;
        }
    }
    report(&format!("{name}, without {} cases of other GPUs", elsewhere.len()), &outcomes);
}

pub(super) fn report(name: &str, outcomes: &[(&SddmmCase, Result<Judged, Failure>)]) {
    let wrong = |(case, outcome): &(&SddmmCase, Result<Judged, Failure>)| {
        outcome.as_ref().err().map(|error| format!("{case}\n    {error}"))
    };
    let failures: Vec<String> = outcomes.iter().filter_map(wrong).collect();
    tell(format_args!("{name}: {} cases, {} failures", outcomes.len(), failures.len()));
    assert!(failures.is_empty(), "{name}: {} of {}\n\n{}", failures.len(), outcomes.len(), failures.join("\n\n"));
}
