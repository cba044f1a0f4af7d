//! Products of two block-sparse matrices, on the GPU and on the simulator.

use std::fmt;

use bsr_codegen::KernelSpec;
use bsr_runtime::gpu::{Device, DeviceBsr, DeviceDense, DeviceVector, Stream, UploadedInputs};
use bsr_runtime::reference::{self, Fused};
use bsr_runtime::simulated::{Options, Schedule, Simulated};
use bsr_runtime::typed::{Number, Typed, with_types};
use bsr_runtime::{Bsr, Inputs, Layout, Pattern, Scales, Structure, e4m3};
use half::bf16;
use rayon::prelude::*;

use crate::case::{Failure, parse, plan};
use crate::device;
use crate::drawn::covering;
use crate::run::{Judged, load};
use crate::simulate::every_kernel;
use crate::watchdog::watch;

/// A row of a table: C\[m, n\] = A\[m, k\] * B\[k, n\], of which parts of the blocks of A, B and a C in blocks are stored.
#[derive(Clone, Debug)]
struct Row {
    spec: KernelSpec,
    sizes: (usize, usize, usize),
    parts: [f64; 3],
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { spec, sizes: (m, n, k), parts } = self;
        write!(f, "{spec}; m = {m}, n = {n}, k = {k}, {parts:?} stored")
    }
}

/// A spec; M, N and K; which parts of A, B and C are stored.
type Case = (&'static str, (usize, usize, usize), [f64; 3]);

/// Whole and ragged, gathered and divided blocks, every kind of epilogue, divided K, clusters; empty and full factors.
const ROWS: [Case; 54] = [
    ("op = sss, bm = 64, bn = 64, bk = 64, pack = 4", (700, 500, 600), [0.25, 0.25, 0.6]),
    ("op = sss, bm = 64, bn = 64, bk = 32, pack = 2, out = f32", (333, 500, 600), [0.5, 0.25, 0.6]),
    ("op = dss, bm = 128, bn = 128, bk = 128", (512, 512, 512), [0.5, 0.5, 1.0]),
    ("op = sss, bm = 128, bn = 128, bk = 128", (512, 512, 512), [0.5, 0.5, 0.5]),
    ("op = dss, bm = 64, bn = 64, bk = 64, dtype = bf16", (500, 300, 700), [0.5, 0.25, 1.0]),
    ("op = sss, bm = 64, bn = 64, bk = 64, dtype = bf16, out = f32", (500, 300, 700), [0.25, 0.5, 0.7]),
    ("op = dss, bm = 512, bn = 128, bk = 112", (1030, 260, 500), [0.5, 0.5, 1.0]),
    ("op = dss, bm = 512, bn = 128, bk = 64, cluster = 2", (1030, 260, 500), [0.5, 0.5, 1.0]),
    ("op = sss, bm = 512, bn = 256, bk = 64, cluster = 2", (1030, 700, 500), [0.5, 0.5, 0.5]),
    ("op = dss, bm = 64, bn = 16, bk = 16, out = f32", (300, 90, 400), [0.4, 0.4, 1.0]),
    ("op = sss, bm = 128, bn = 32, bk = 24", (300, 90, 400), [0.6, 0.6, 0.6]),
    ("op = dss, bm = 64, bn = 256, bk = 40, c_layout = col", (300, 600, 400), [0.6, 0.6, 1.0]),
    ("op = dss, bm = 192, bn = 96, bk = 96, consumers = 3", (400, 200, 600), [0.5, 0.5, 1.0]),
    ("op = dss, bm = 64, bn = 64, bk = 32, split = auto", (64, 64, 4096), [1.0, 1.0, 1.0]),
    ("op = sss, bm = 128, bn = 64, bk = 64, split = 3", (300, 200, 2000), [0.7, 0.7, 0.7]),
    ("op = dss, bm = 128, bn = 64, bk = 64, pdl = early, schedule = strided", (500, 200, 600), [0.5, 0.5, 1.0]),
    ("op = sss, bm = 64, bn = 64, bk = 64, pdl = on, stages = 2", (500, 200, 600), [0.5, 0.5, 0.5]),
    ("op = dss, bm = 64, bn = 64, bk = 64", (200, 200, 200), [0.0, 1.0, 1.0]),
    ("op = sss, bm = 64, bn = 64, bk = 64", (200, 200, 200), [1.0, 0.0, 1.0]),
    ("op = dss, bm = 128, bn = 128, bk = 128, pack = 2", (700, 500, 600), [0.5, 0.5, 1.0]),
    ("op = sss, bm = 128, bn = 128, bk = 128, pack = 2", (700, 500, 600), [0.5, 0.5, 0.7]),
    ("op = dss, bm = 64, bn = 64, bk = 64, pack = 4", (700, 500, 600), [0.25, 0.25, 1.0]),
    ("op = dss, bm = 64, bn = 64, bk = 64, pack = 4, out = f32", (500, 700, 2000), [0.6, 0.6, 1.0]),
    ("op = dss, bm = 64, bn = 64, bk = 96, pack = 4, dtype = bf16, c_layout = col", (300, 200, 900), [0.5, 0.4, 1.0]),
    ("op = dss, bm = 64, bn = 64, bk = 64, pack = 3, pdl = on", (300, 500, 600), [0.4, 0.4, 1.0]),
    ("op = dss, bm = 64, bn = 64, bk = 32, pack = 2, schedule = strided", (300, 500, 600), [0.4, 0.4, 1.0]),
    ("op = sss, bm = 64, bn = 64, bk = 64, pack = 3, dtype = bf16", (500, 500, 600), [0.3, 0.3, 0.4]),
    ("op = dss, bm = 64, bn = 64, bk = 64, pack = 4", (200, 200, 200), [0.0, 1.0, 1.0]),
    ("op = dss, bm = 64, bn = 64, bk = 64, pack = 4, beta = on", (300, 300, 300), [0.5, 0.5, 1.0]),
    (
        "op = dss, bm = 64, bn = 64, bk = 64, pack = 2, epilogue = \"|bias: Rows<f32>, gate: Cols<f32>| (acc * gate + bias, row_max(acc))\"",
        (300, 300, 300),
        [0.5, 0.5, 1.0],
    ),
    (
        "op = sss, bm = 128, bn = 64, bk = 64, pack = 2, epilogue = \"|x: Bsr<f16>, alpha: f32| alpha * acc + x\"",
        (300, 300, 300),
        [0.5, 0.5, 0.5],
    ),
    ("op = dss, bm = 128, bn = 128, bk = 128, dtype = e4m3", (512, 512, 512), [0.5, 0.5, 1.0]),
    ("op = sss, bm = 128, bn = 128, bk = 128, dtype = e4m3, out = f16", (500, 300, 700), [0.5, 0.5, 0.6]),
    ("op = dss, bm = 64, bn = 64, bk = 64, dtype = e5m2, out = f32", (500, 300, 700), [0.5, 0.25, 1.0]),
    ("op = sss, bm = 64, bn = 64, bk = 32, a = e4m3, b = e5m2", (333, 500, 600), [0.5, 0.25, 0.6]),
    ("op = dss, bm = 256, bn = 96, bk = 48, dtype = e4m3, out = f16", (600, 300, 500), [0.5, 0.5, 1.0]),
    ("op = sss, bm = 128, bn = 256, bk = 16, dtype = e4m3, accumulate = promoted", (300, 600, 400), [0.6, 0.6, 0.6]),
    ("op = dss, bm = 512, bn = 128, bk = 64, dtype = e4m3, cluster = 2", (1030, 260, 500), [0.5, 0.5, 1.0]),
    ("op = sss, bm = 512, bn = 256, bk = 208, dtype = e4m3, cluster = 2", (1030, 700, 900), [0.5, 0.5, 0.5]),
    ("op = dss, bm = 128, bn = 128, bk = 128, dtype = e4m3, scale = tensor", (300, 300, 500), [0.5, 0.5, 1.0]),
    ("op = sss, bm = 128, bn = 64, bk = 64, dtype = e4m3, scale = tensor", (300, 300, 500), [0.5, 0.5, 0.6]),
    ("op = dss, bm = 128, bn = 64, bk = 96, dtype = e4m3, scale = row_col", (333, 300, 500), [0.5, 0.5, 1.0]),
    ("op = dss, bm = 128, bn = 64, bk = 64, dtype = e4m3, split = 3, stages = 2", (300, 200, 2000), [0.7, 0.7, 1.0]),
    ("op = dss, bm = 128, bn = 128, bk = 128, dtype = e4m3, pack = 2", (700, 500, 600), [0.5, 0.5, 1.0]),
    ("op = sss, bm = 64, bn = 64, bk = 64, dtype = e4m3, pack = 4", (700, 500, 600), [0.25, 0.25, 0.6]),
    (
        "op = dss, bm = 64, bn = 64, bk = 96, dtype = e4m3, pack = 3, out = f32, pdl = on",
        (300, 500, 900),
        [0.4, 0.4, 1.0],
    ),
    ("op = dss, bm = 64, bn = 64, bk = 64, dtype = i8, scale = row_col, out = f32", (300, 300, 500), [0.5, 0.5, 1.0]),
    ("op = sss, bm = 64, bn = 64, bk = 64, dtype = i8", (300, 300, 500), [0.5, 0.5, 0.6]),
    ("op = dss, bm = 128, bn = 64, bk = 32, dtype = f32, tf32 = on, b_layout = col", (300, 200, 500), [0.5, 0.5, 1.0]),
    ("op = dss, bm = 128, bn = 128, bk = 40, b_layout = col", (300, 300, 500), [0.5, 0.5, 1.0]),
    ("op = sss, bm = 64, bn = 64, bk = 64, dtype = bf16, b_layout = col, pack = 4", (700, 500, 600), [0.25, 0.25, 0.6]),
    ("op = dss, bm = 128, bn = 128, bk = 64, beta = on", (300, 300, 300), [0.5, 0.5, 1.0]),
    (
        "op = dss, bm = 128, bn = 64, bk = 64, epilogue = \"|bias: Rows<f32>, gate: Cols<f32>| (acc * gate + bias, row_max(acc))\"",
        (300, 300, 300),
        [0.5, 0.5, 1.0],
    ),
    (
        "op = sss, bm = 128, bn = 64, bk = 64, epilogue = \"|x: Bsr<f16>, alpha: f32| alpha * acc + x\"",
        (300, 300, 300),
        [0.5, 0.5, 0.5],
    ),
];

/// Kernels of which every value of every key is drawn.
const VALUES: [&str; 4] = [
    "bm = 64, bn = 32, bk = 32, op = dss",
    "bm = 64, bn = 32, bk = 32, op = sss",
    "bm = 64, bn = 32, bk = 64, op = dss, dtype = e4m3",
    "bm = 64, bn = 32, bk = 64, op = sss, dtype = e4m3",
];

fn rows() -> Vec<Row> {
    let chosen = ROWS.into_iter().map(|(spec, sizes, parts)| Row { spec: parse(spec), sizes, parts });
    let values = covering(&VALUES).into_iter().map(|spec| Row { spec, sizes: (200, 100, 900), parts: [0.6; 3] });
    chosen.chain(values).collect()
}

/// The kernels of all rows.
pub(super) fn specs() -> impl Iterator<Item = KernelSpec> {
    rows().into_iter().map(|row| row.spec)
}

/// The operands on the host and what is wanted.
struct Drawn<A, B> {
    a: Bsr<A>,
    b: Bsr<B>,
    c: Option<Structure>,
    inputs: Inputs,
    want: Fused,
}

impl Row {
    fn drawn<A: Number, B: Number>(&self) -> Result<Drawn<A, B>, Failure> {
        let (spec, (m, n, k)) = (&self.spec, self.sizes);
        let [bm, bn, bk] = [spec.bm, spec.bn, spec.bk].map(|side| side as usize);
        let [of_a, of_b, of_c] = self.parts.map(Pattern::Random);
        let a = Bsr::<A>::generate(of_a, m, k, (bm, bk), 1)?;
        let b = Bsr::<B>::generate(of_b, k, n, (bk, bn), 2)?;
        let scales = Scales::random(spec.scale, a.structure(), n, 5);
        let (left, right) = (a.to_dense(Layout::RowMajor), b.to_dense(Layout::RowMajor));
        if !spec.op.stores_blocks() {
            let program = spec.epilogue.map(|epilogue| epilogue.program());
            let inputs = program.map(|program| Inputs::random(program, (m, n), spec.c_layout, 3)).unwrap_or_default();
            let inputs = inputs.scales(scales);
            let all: Vec<usize> = (0..m).collect();
            let want = reference::expected(spec, &a, &right, &inputs, &all, k)?;
            return Ok(Drawn { a, b, c: None, inputs, want });
        }
        let c = of_c.structure(m, n, (bm, bn), 4)?;
        let program = spec.epilogue.map(|epilogue| epilogue.program());
        let inputs = program.map(|program| Inputs::random_blocks(program, &c, 3)).unwrap_or_default();
        let inputs = inputs.scales(scales);
        let all: Vec<usize> = (0..c.nnzb()).collect();
        let want = reference::expected_blocks(spec, &left, &right, &c, &all, &inputs)?;
        Ok(Drawn { a, b, c: Some(c), inputs, want })
    }
}

struct Simulate<'r>(&'r Row);

impl Typed for Simulate<'_> {
    type Output = Judged;
    type Error = Failure;

    fn run<A: Number, B: Number, C: Number>(self) -> Result<Judged, Failure> {
        let plan = plan(&self.0.spec)?;
        let ptx = plan.ptx();
        let kernel = Simulated::new(&plan, ptx.text(), ptx.entry())?.with_clusters(3);
        let Drawn { a, b, c, inputs, want } = self.0.drawn::<A, B>()?;
        let options = Options { schedule: Schedule::Scrambled, seed: 5, ..Options::default() };
        let (judged, report) = match &c {
            Some(c) => {
                let (results, report) = kernel.multiply::<C, _>((&a, &b, c, &inputs), &options)?;
                (Judged::of_blocks(&results.c, results.rows.as_deref(), &want), report)
            }
            None => {
                let (results, report) = kernel.multiply::<C, _>((&a, &b, &inputs), &options)?;
                (Judged::of(&results.c, results.rows.as_deref(), &want), report)
            }
        };
        match report.findings.first() {
            Some(first) => Err(format!("{} findings, the first: {first}", report.findings.len()).into()),
            None => judged,
        }
    }
}

struct Check<'r>(&'r Device, &'r Row);

impl Typed for Check<'_> {
    type Output = Judged;
    type Error = Failure;

    fn run<A: Number, B: Number, C: Number>(self) -> Result<Judged, Failure> {
        let Self(device, row) = self;
        let launcher = load(device, &row.spec)?;
        let Drawn { a, b, c, inputs, want } = row.drawn::<A, B>()?;
        let (a, b) = (DeviceBsr::upload(device, &a)?, DeviceBsr::upload_in(device, &b, row.spec.b_layout)?);
        let uploaded = UploadedInputs::upload(device, &inputs)?;
        let mut second = want.rows.as_ref().map(|_| DeviceVector::<f32>::zeros(device, a.rows())).transpose()?;
        let stream = Stream::new(device)?;
        let _watch = watch(row.to_string());
        let mut dense = DeviceDense::<C>::zeros(device, a.rows(), b.cols(), row.spec.c_layout)?;
        let mut blocks = c.as_ref().map(|c| DeviceBsr::<C>::zeros(device, c)).transpose()?;
        launcher.prepare_pairs(&a, &b, blocks.as_ref())?;
        let mut judged = Err("not launched".into());
        // Twice: what a launch leaves behind in the work's memory must not disturb the next one.
        for _ in 0..2 {
            let (given, rows) = ((&a, &b, uploaded.inputs()), second.as_mut());
            match &mut blocks {
                Some(c) => {
                    c.values_mut().fill_bytes(C::POISON_BYTE)?;
                    launcher.launch(stream.handle(), given, (c, rows))?;
                }
                None => {
                    dense.fill_bytes(C::POISON_BYTE)?;
                    launcher.launch(stream.handle(), given, (&mut dense, rows))?;
                }
            }
            stream.synchronize()?;
            let rows = second.as_ref().map(DeviceVector::download).transpose()?;
            judged = match &blocks {
                Some(c) => Judged::of_blocks(&c.values().to_vec()?, rows.as_deref(), &want),
                None => Judged::of(&dense.download()?, rows.as_deref(), &want),
            };
            if judged.is_err() {
                break;
            }
        }
        judged
    }
}

fn report(outcomes: Vec<(&Row, Result<Judged, Failure>)>) {
    let wrong: Vec<_> = outcomes
        .iter()
        .filter_map(|(row, outcome)| outcome.as_ref().err().map(|error| format!("{row}\n    {error}")))
        .collect();
    assert!(wrong.is_empty(), "{} of {} rows:\n{}", wrong.len(), outcomes.len(), wrong.join("\n"));
}

#[test]
fn every_case_on_a_gpu() {
    let Some((_turn, device)) = device() else { return };
    let rows = rows();
    report(rows.iter().map(|row| (row, with_types(&row.spec, Check(&device, row)))).collect());
}

/// How the elements of blocks lie is a matter of a matrix on a GPU: it comes down as it went up, and a kernel takes it as it
/// reads it alone.
#[test]
fn blocks_that_lie_otherwise_are_refused() {
    let Some((_turn, device)) = device() else { return };
    let [a, b] = [(192, 128, 1), (128, 192, 2)].map(|(rows, cols, seed)| {
        Bsr::<e4m3>::generate(Pattern::Random(0.5), rows, cols, (64, 64), seed).expect("a matrix")
    });
    let upload = |of: &Bsr<e4m3>, layout| DeviceBsr::upload_in(&device, of, layout).expect("memory");
    let [a_rows, a_columns] = [Layout::RowMajor, Layout::ColMajor].map(|layout| upload(&a, layout));
    let [b_rows, b_columns] = [Layout::RowMajor, Layout::ColMajor].map(|layout| upload(&b, layout));
    for (of, on) in [(&a, &a_columns), (&b, &b_rows), (&b, &b_columns)] {
        assert!(on.download().expect("a download") == *of);
    }
    let launcher = load(&device, &parse("op = dss, bm = 64, bn = 64, bk = 64, dtype = e4m3")).expect("a kernel");
    let stream = Stream::new(&device).expect("a stream");
    let mut c = DeviceDense::<bf16>::zeros(&device, 192, 192, Layout::RowMajor).expect("memory");
    let mut refused = |a: &DeviceBsr<e4m3>, b: &DeviceBsr<e4m3>| {
        launcher.launch(stream.handle(), (a, b), &mut c).err().map(|error| error.to_string()).unwrap_or_default()
    };
    assert_eq!(refused(&a_rows, &b_columns), "");
    let (of_b, of_a) = (refused(&a_rows, &b_rows), refused(&a_columns, &b_columns));
    assert!(of_b.contains("blocks of B are stored row by row") && of_b.contains("Layout::ColMajor"), "{of_b}");
    assert!(of_a.contains("blocks of A are stored column by column") && of_a.contains("DeviceBsr::upload`"), "{of_a}");
    stream.synchronize().expect("a launch");
}

/// Most are stepped over, unless every kernel is asked for.
#[test]
fn simulated() {
    let rows: Vec<Row> = rows().into_iter().step_by(if every_kernel() { 1 } else { 4 }).collect();
    report(rows.par_iter().map(|row| (row, with_types(&row.spec, Simulate(row)))).collect());
}
