//! One product for every step: operands, check, time.

use std::error::Error;
use std::rc::Rc;

use bsr::arguments::{Nothing, Single};
use bsr::bench::{Candidate, DenseBaseline, InterleaveOptions, Work, interleave};
use bsr::gpu::cublaslt::{CublasLt, DenseProblem};
use bsr::gpu::{Device, DeviceBsr, DeviceDense, Plain, Stream, StreamRef};
use bsr::operation::Dsd;
use bsr::reference::{self, Comparison};
use bsr::{Bsr, Dense, Element, Kernel, KernelError, KernelSpec, Layout, Pattern};

use crate::steps::{self, B_LAYOUTS, BLOCK, Walk};

const M: usize = 8192;
const N: usize = 8192;
const K: usize = 74 * 112;
/// Rows of C that are held against the reference: edges of blocks and others.
const CHECKED: [usize; 10] = [0, 1, 255, 511, 512, 1023, 4000, 5555, 8190, 8191];

/// A measured step.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) spec: String,
    pub(crate) tflops: f64,
    /// The dense library's rate on equal work.
    pub(crate) dense: Option<f64>,
    /// What was reported for an H100.
    pub(crate) reported: Option<f64>,
    pub(crate) error: f64,
}

/// The operands in one type, and their product.
struct Scene<T: Element + Plain> {
    device: Device,
    a: DeviceBsr<T>,
    b: DeviceDense<T>,
    want: Vec<f64>,
}

impl<T: Element + Plain> Scene<T> {
    fn new(device: &Device, b_layout: Layout) -> Result<Rc<Self>, Box<dyn Error>> {
        let a = Bsr::<T>::generate(Pattern::TopK(16), M, K, BLOCK, 1)?;
        let b = Dense::<T>::normal(K, N, b_layout, 2);
        let want = reference::multiply_rows(&a, &b, &CHECKED)?;
        Ok(Rc::new(Self {
            device: device.clone(),
            a: DeviceBsr::upload(device, &a)?,
            b: DeviceDense::upload(device, &b)?,
            want,
        }))
    }
}

/// A step that is ready to be timed.
struct Step {
    name: &'static str,
    spec: KernelSpec,
    reported: Option<f64>,
    error: f64,
    work: Work,
    launch: Box<Launch>,
}

type Launch = dyn FnMut(StreamRef<'_>) -> Result<(), KernelError>;

impl Step {
    /// Loads the kernel and checks its product.
    fn new<S>(name: &'static str, reported: Option<f64>, scene: &Rc<Scene<S::A>>) -> Result<Self, Box<dyn Error>>
    where
        S: Kernel<Op = Dsd, B = <S as Kernel>::A, Further = Nothing, Returns = Single>,
    {
        let (kernel, scene) = (S::load(&scene.device)?, Rc::clone(scene));
        let mut c = DeviceDense::<S::Out>::zeros(&scene.device, M, N, S::SPEC.c_layout)?;
        let stream = Stream::new(&scene.device)?;
        c.fill_bytes(0xFF)?;
        kernel.launch(&stream, (&scene.a, &scene.b), &mut c)?;
        stream.synchronize()?;
        let compared = Comparison::of_rows(&c.download()?, &CHECKED, &scene.want)?;
        let stored = M / BLOCK.0 * 16 * BLOCK.1;
        if !compared.passes(reference::tolerance_of(&S::SPEC, stored / (M / BLOCK.0))) {
            return Err(format!("{name} is wrong: {compared}").into());
        }
        let work = Work {
            op: S::SPEC.op,
            transpose: S::SPEC.transpose,
            m: M,
            n: N,
            k: K,
            block: BLOCK,
            nnzb: scene.a.nnzb(),
            products: None,
            a: S::SPEC.a,
            b: S::SPEC.b,
            out: S::SPEC.out,
        };
        let error = compared.relative;
        let launch = move |stream: StreamRef<'_>| kernel.launch(stream, (&scene.a, &scene.b), &mut c);
        Ok(Self { name, spec: S::SPEC, reported, error, work, launch: Box::new(launch) })
    }
}

/// The steps in one type, as they are made ready.
struct Ready<T: Element + Plain> {
    scene: Rc<Scene<T>>,
    steps: Vec<Step>,
}

impl<T: Element + Plain> Walk<T> for Ready<T> {
    fn step<S>(&mut self, name: &'static str, reported: Option<f64>) -> Result<(), Box<dyn Error>>
    where
        S: Kernel<Op = Dsd, A = T, B = T, Further = Nothing, Returns = Single>,
    {
        self.steps.push(Step::new::<S>(name, reported, &self.scene)?);
        Ok(())
    }
}

/// Runs every step.
pub(crate) fn run(device: &Device) -> Result<Vec<Row>, Box<dyn Error>> {
    let [half, eighth] = B_LAYOUTS;
    let mut half = Ready { scene: Scene::new(device, half)?, steps: vec![] };
    steps::half(&mut half)?;
    let mut eighth = Ready { scene: Scene::new(device, eighth)?, steps: vec![] };
    steps::eighth(&mut eighth)?;
    half.steps.append(&mut eighth.steps);
    time(device, half.steps)
}

/// Times all steps in turn, with the dense library in each of their types.
fn time(device: &Device, mut steps: Vec<Step>) -> Result<Vec<Row>, Box<dyn Error>> {
    let (library, options) = (CublasLt::new(device)?, InterleaveOptions::default());
    let mut dense: Vec<(Work, DenseBaseline)> = vec![];
    for step in &steps {
        let work = Work { out: step.work.a.default_out(), ..step.work };
        let known = dense.iter().any(|(known, _)| known.a == work.a);
        let Some(k) = work.equal_dense_k().filter(|_| !known) else { continue };
        let layouts = [Layout::RowMajor, step.spec.b_layout, Layout::RowMajor];
        let problem = DenseProblem::new((M, N, k), [work.a, work.b, work.out], layouts);
        let mut baseline = DenseBaseline::new(&library, &problem, 0)?;
        baseline.tune(device, &options)?;
        dense.push((work, baseline));
    }
    let mut candidates: Vec<Candidate<'_>> =
        steps.iter_mut().map(|step| Candidate::new(step.name, &mut step.launch)).collect();
    candidates.extend(dense.iter().map(|(_, baseline)| baseline.candidate()));
    let timings = interleave(&mut candidates, &options, device)?;
    drop(candidates);
    let (ours, theirs) = timings.split_at(steps.len());
    let rate = |work: &Work, timing: &bsr::bench::Timing| timing.tflops(work.executed_flops());
    Ok(steps
        .iter()
        .zip(ours)
        .map(|(step, timing)| Row {
            name: step.name,
            spec: step.spec.to_string(),
            tflops: rate(&step.work, timing),
            dense: dense
                .iter()
                .zip(theirs)
                .find(|((work, _), _)| work.a == step.work.a)
                .map(|((work, _), timing)| rate(work, timing)),
            reported: step.reported,
            error: step.error,
        })
        .collect())
}
