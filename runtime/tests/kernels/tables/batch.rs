//! Lists of problems in one launch: a shared pattern, a pattern each, shared dense factors, ragged lists.

use bsr_codegen::KernelSpec;
use bsr_runtime::gpu::{Device, DeviceBsr, DeviceInputs, Stream};
use bsr_runtime::kernel::arguments::ByKind;
use bsr_runtime::reference::Fused;
use bsr_runtime::schedule::BlockIndex;
use bsr_runtime::simulated::{Options, Simulated};
use bsr_runtime::typed::{Number, Typed, with_types};
use bsr_runtime::{Bsr, Dense, Inputs, Launcher, Scales};
use rayon::prelude::*;

use crate::case::{Blocks, Case, Failure, block_as_read, parse, shape_of};
use crate::run::load;
use crate::simulate::every_kernel;
use crate::walled::{Walled, bits};
use crate::watchdog::watch;
use crate::{device, tell};

use Blocks::{FullRows, Lengths, Pattern};

/// What the problems of a list have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Common {
    Nothing,
    /// The sparse factor of the first.
    Sparse,
    /// The dense factor of the first.
    Dense,
}

/// One list.
#[derive(Clone, Debug)]
pub(super) struct List {
    pub(super) spec: KernelSpec,
    common: Common,
    problems: Vec<Case>,
}

const SPECS: [&str; 32] = [
    "bm = 128, bn = 128, bk = 64, batch = on",
    "bm = 512, bn = 128, bk = 112, batch = on",
    "bm = 64, bn = 64, bk = 16, dtype = bf16, out = f32, batch = on",
    "bm = 64, bn = 256, bk = 32, b_layout = col, c_layout = col, batch = on",
    "bm = 128, bn = 128, bk = 40, batch = on",
    "bm = 64, bn = 64, bk = 24, b_layout = col, batch = on",
    "bm = 128, bn = 128, bk = 112, dtype = e4m3, batch = on",
    "bm = 128, bn = 64, bk = 64, cluster = 2, batch = on, schedule = strided",
    "bm = 512, bn = 128, bk = 64, cluster = 2, batch = on",
    "bm = 64, bn = 128, bk = 128, transpose = on, batch = on",
    "bm = 40, bn = 64, bk = 64, transpose = on, out = f32, batch = on",
    "bm = 64, bn = 128, bk = 128, op = dds, batch = on",
    "bm = 128, bn = 128, bk = 72, op = dds, transpose = on, c_layout = col, batch = on",
    "bm = 64, bn = 64, bk = 192, consumers = 1, batch = on, out = f32",
    "bm = 32, bn = 256, bk = 32, batch = on",
    "bm = 16, bn = 128, bk = 24, pack = 2, b_layout = col, batch = on",
    "bm = 8, bn = 64, bk = 40, out = f32, c_layout = col, batch = on, schedule = strided",
    "bm = 200, bn = 256, bk = 48, batch = on",
    "bm = 24, bn = 64, bk = 200, transpose = on, batch = on",
    "bm = 40, bn = 128, bk = 64, op = dds, batch = on",
    "bm = 72, bn = 64, bk = 24, op = dds, transpose = on, out = f32, batch = on",
    "bm = 32, bn = 64, bk = 48, dtype = e4m3, batch = on",
    "bm = 128, bn = 128, bk = 64, dtype = f32, tf32 = on, b_layout = col, batch = on",
    "bm = 32, bn = 64, bk = 12, dtype = f32, tf32 = on, b_layout = col, batch = on",
    "bm = 128, bn = 128, bk = 64, batch = on, split = 3",
    "bm = 64, bn = 64, bk = 16, batch = on, split = auto",
    "bm = 64, bn = 128, bk = 128, transpose = on, batch = on, split = 2",
    "bm = 64, bn = 128, bk = 128, op = dds, c_layout = col, cluster = 2, batch = on, split = 2",
    "bm = 128, bn = 128, bk = 40, batch = on, split = 4, schedule = strided",
    "bm = 128, bn = 64, bk = 128, dtype = e4m3, accumulate = promoted, batch = on, split = 2",
    "bm = 32, bn = 256, bk = 32, batch = on, split = 3",
    "bm = 24, bn = 64, bk = 40, transpose = on, out = f32, batch = on, split = auto",
];

/// Of kernels that find the operands of a problem in a record.
const OF_WARPS: [&str; 20] = [
    "bm = 128, bn = 128, bk = 64, mma = mma_sync, batch = on",
    "bm = 64, bn = 64, bk = 16, mma = mma_sync, dtype = bf16, out = f32, batch = on",
    "bm = 64, bn = 128, bk = 48, mma = mma_sync, b_layout = col, c_layout = col, batch = on",
    "bm = 64, bn = 64, bk = 32, mma = mma_sync, b_layout = col, batch = on, schedule = strided",
    "bm = 64, bn = 64, bk = 112, mma = mma_sync, dtype = e4m3, batch = on",
    "bm = 64, bn = 64, bk = 64, mma = mma_sync, dtype = i8, batch = on",
    "bm = 64, bn = 64, bk = 64, mma = mma_sync, dtype = f64, batch = on",
    "bm = 64, bn = 64, bk = 64, mma = mma_sync, dtype = f64, c_layout = col, batch = on",
    "bm = 64, bn = 64, bk = 32, mma = mma_sync, dtype = f32, tf32 = on, batch = on",
    "bm = 64, bn = 64, bk = 96, mma = mma_sync, transpose = on, batch = on",
    "bm = 32, bn = 64, bk = 64, mma = mma_sync, op = dds, batch = on",
    "bm = 64, bn = 64, bk = 48, mma = mma_sync, op = dds, transpose = on, c_layout = col, batch = on",
    "bm = 64, bn = 64, bk = 64, mma = mma_sync, load = producer, batch = on",
    "bm = 64, bn = 64, bk = 64, mma = mma_sync, load = tma, batch = on",
    "bm = 64, bn = 64, bk = 32, mma = mma_sync, load = tma, transpose = on, batch = on, split = 2",
    "bm = 64, bn = 64, bk = 64, mma = mma_sync, batch = on, split = 3",
    "bm = 32, bn = 64, bk = 64, mma = mma_sync, transpose = on, batch = on, split = 2",
    "bm = 64, bn = 64, bk = 48, mma = wmma, batch = on",
    "bm = 64, bn = 64, bk = 64, mma = wmma, transpose = on, batch = on, split = auto",
    "bm = 64, bn = 64, bk = 48, mma = wmma, arch = sm_70, b_layout = col, batch = on",
];

/// The lists of a kernel: as attention and mixtures of experts have them, and with nothing in some problems.
fn lists_of(text: &str) -> Vec<List> {
    let spec = parse(text);
    let ((rows, depth), bn) = (block_as_read(&spec), spec.bn as usize);
    let list = |common, problems: Vec<((usize, usize, usize), Blocks)>| {
        let case = |(shape, blocks)| Case::new(text, shape_of(&spec, shape), blocks);
        List { spec, common, problems: problems.into_iter().map(case).collect() }
    };
    let (m, n, k) = (2 * rows + 5, bn + 9, 5 * depth + 3);
    vec![
        list(Common::Sparse, (0..3).map(|_| ((m, n, k), Pattern("random:0.5"))).collect()),
        list(
            Common::Dense,
            vec![((m, n, k), Pattern("random:0.5")), ((rows, n, k), Lengths(&[3])), ((3 * rows, n, k), FullRows(&[1]))],
        ),
        list(
            Common::Nothing,
            vec![
                ((m, n, k), Pattern("random:0.6")),
                ((rows - 1, 1, depth), Pattern("random:1")),
                ((m, 7, k), Pattern("random:0")),
                ((3 * rows, 2 * bn, 37 * depth + 1), Lengths(&[0, 37, 33])),
                ((0, n, k), Pattern("random:0")),
                ((rows, n + 40, 2 * depth), Lengths(&[1])),
            ],
        ),
        list(Common::Nothing, vec![((rows, bn, 2 * depth), Pattern("random:1"))]),
    ]
}

pub(super) fn all() -> Vec<List> {
    SPECS.into_iter().chain(OF_WARPS).flat_map(lists_of).collect()
}

/// The factors of all problems, each once, and which of them a problem has.
struct Factors<S, D> {
    sparse: Vec<Bsr<S>>,
    dense: Vec<Dense<D>>,
    wants: Vec<Fused>,
}

impl List {
    fn factors<S: Number, D: Number>(&self) -> Result<Factors<S, D>, Failure> {
        let mut made = Factors { sparse: vec![], dense: vec![], wants: vec![] };
        for (number, case) in self.problems.iter().enumerate() {
            let factors = case.factors::<S, D>()?;
            if number == 0 || self.common != Common::Sparse {
                made.sparse.push(factors.a);
            }
            if number == 0 || self.common != Common::Dense {
                made.dense.push(case.dense(case.seed() + number as u64));
            }
        }
        for (number, case) in self.problems.iter().enumerate() {
            let (sparse, dense) = self.of(&made.sparse, &made.dense, number);
            let longest = BlockIndex::new(&case.plan()?, sparse.structure()).longest_sum();
            made.wants.push(case.want(sparse, dense, &Scales::NONE, &Inputs::new(), longest)?);
        }
        Ok(made)
    }

    fn of<'f, S, D>(&self, sparse: &'f [S], dense: &'f [D], number: usize) -> (&'f S, &'f D) {
        let at = |common| if self.common == common { 0 } else { number };
        (&sparse[at(Common::Sparse)], &dense[at(Common::Dense)])
    }

    fn judge<C: Number>(&self, number: usize, c: &Dense<C>, want: &Fused) -> Result<f64, Failure> {
        if want.c.is_empty() {
            return Ok(0.0);
        }
        Ok(want.verify(c, None).map_err(|wrong| format!("problem {number}, {}: {wrong}", self.problems[number]))?)
    }
}

struct Simulate<'r>(&'r List);

impl Typed for Simulate<'_> {
    type Output = f64;
    type Error = Failure;

    fn run<S: Number, D: Number, C: Number>(self) -> Result<f64, Failure> {
        let list = self.0;
        let plan = list.problems[0].plan()?;
        let ptx = plan.ptx();
        let kernel = Simulated::new(&plan, ptx.text(), ptx.entry())?.with_clusters(3);
        let made = list.factors::<S, D>()?;
        let problems = (0..list.problems.len()).map(|number| {
            let (sparse, dense) = list.of(&made.sparse, &made.dense, number);
            ByKind(sparse, dense, Inputs::new())
        });
        let (results, report) = kernel.multiply_batch::<C, _>(problems, &Options::default())?;
        if let Some(first) = report.findings.first() {
            return Err(format!("{} findings, the first: {first}", report.findings.len()).into());
        }
        let mut worst = 0.0_f64;
        for (number, (c, want)) in results.iter().zip(&made.wants).enumerate() {
            worst = worst.max(list.judge(number, c, want)?);
        }
        Ok(worst)
    }
}

struct Launch<'r> {
    list: &'r List,
    device: &'r Device,
    launcher: &'r Launcher,
}

impl Typed for Launch<'_> {
    type Output = f64;
    type Error = Failure;

    fn run<S: Number, D: Number, C: Number>(self) -> Result<f64, Failure> {
        let Self { list, device, launcher } = self;
        let made = list.factors::<S, D>()?;
        let upload = |sparse: &Bsr<S>| DeviceBsr::upload(device, sparse);
        let sparse: Vec<_> = made.sparse.iter().map(upload).collect::<Result<_, _>>()?;
        let dense: Vec<_> = made.dense.iter().map(|dense| Walled::upload(device, dense)).collect::<Result<_, _>>()?;
        let result = |case: &Case| Walled::<C>::poisoned(device, (case.m, case.n), case.spec.c_layout, true);
        let mut results: Vec<_> = list.problems.iter().map(result).collect::<Result<_, _>>()?;
        let mut batch = launcher.batch();
        for (number, c) in results.iter_mut().enumerate() {
            let (sparse, dense) = list.of(&sparse, &dense, number);
            batch.push(ByKind(sparse, dense.matrix(), DeviceInputs::new()), c.matrix_mut())?;
        }
        let stream = Stream::new(device)?;
        let _watch = watch(format!("{}, {:?}", list.spec, list.common));
        let batch = batch.prepare()?;
        batch.launch(&stream)?;
        batch.launch(&stream)?;
        stream.synchronize()?;
        drop(batch);
        let mut worst = 0.0_f64;
        for (number, (c, want)) in results.iter().zip(&made.wants).enumerate() {
            worst = worst.max(list.judge(number, &c.read()?, want)?);
        }
        Ok(worst)
    }
}

/// A hundred launches of a batch on one stream while another batch of the same factors is launched as often on another one:
/// both leave the bits of a single launch.
struct Repeat<'r>(Launch<'r>);

impl Typed for Repeat<'_> {
    type Output = f64;
    type Error = Failure;

    fn run<S: Number, D: Number, C: Number>(self) -> Result<f64, Failure> {
        let Launch { list, device, launcher } = self.0;
        let made = list.factors::<S, D>()?;
        let upload = |sparse: &Bsr<S>| DeviceBsr::upload(device, sparse);
        let sparse: Vec<_> = made.sparse.iter().map(upload).collect::<Result<_, _>>()?;
        let dense: Vec<_> = made.dense.iter().map(|dense| Walled::upload(device, dense)).collect::<Result<_, _>>()?;
        let result = |case: &Case| Walled::<C>::poisoned(device, (case.m, case.n), case.spec.c_layout, true);
        let results = || list.problems.iter().map(result).collect::<Result<Vec<_>, _>>();
        let mut sets = [results()?, results()?, results()?];
        let _watch = watch(format!("repeated, {}, {:?}", list.spec, list.common));
        let streams = [Stream::new(device)?, Stream::new(device)?, Stream::new(device)?];
        let mut batches = vec![];
        for set in &mut sets {
            let mut batch = launcher.batch();
            for (number, c) in set.iter_mut().enumerate() {
                let (sparse, dense) = list.of(&sparse, &dense, number);
                batch.push(ByKind(sparse, dense.matrix(), DeviceInputs::new()), c.matrix_mut())?;
            }
            batches.push(batch.prepare()?);
        }
        batches[2].launch(&streams[2])?;
        for _ in 0..100 {
            batches[0].launch(&streams[0])?;
            batches[1].launch(&streams[1])?;
        }
        for stream in &streams {
            stream.synchronize()?;
        }
        drop(batches);
        let mut worst = 0.0_f64;
        for (number, want) in made.wants.iter().enumerate() {
            let once = sets[2][number].read()?;
            worst = worst.max(list.judge(number, &once, want)?);
            for set in &sets[..2] {
                if bits(&set[number].read()?) != bits(&once) {
                    return Err(format!("problem {number}: other bits than those of a single launch").into());
                }
            }
        }
        Ok(worst)
    }
}

/// # Panics
/// When lists fail, with a paragraph for each.
fn report(name: &str, outcomes: Vec<(&List, Result<f64, Failure>)>) {
    let (mut worst, mut failures) = (0.0_f64, vec![]);
    let count = outcomes.len();
    for (list, outcome) in outcomes {
        match outcome {
            Ok(error) => worst = worst.max(error),
            Err(error) => failures.push(format!("{}, {:?}\n    {error}", list.spec, list.common)),
        }
    }
    tell(format_args!("{name}: {count} lists, {} failures; largest error {worst:.1e}", failures.len()));
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

#[test]
fn batches() {
    let Some((_turn, device)) = device() else {
        return;
    };
    let lists = all();
    let launch = |list: &List| -> Result<f64, Failure> {
        let launcher = load(&device, &list.spec)?;
        with_types(&list.spec, Launch { list, device: &device, launcher: &launcher })
    };
    report("batches", lists.iter().map(|list| (list, launch(list))).collect());
}

#[test]
fn repeated_batches_of_divided_k_give_the_same_bits() {
    let Some((_turn, device)) = device() else {
        return;
    };
    let lists: Vec<List> = all().into_iter().filter(|list| list.spec.split.is_on()).collect();
    let launch = |list: &List| -> Result<f64, Failure> {
        let launcher = load(&device, &list.spec)?;
        with_types(&list.spec, Repeat(Launch { list, device: &device, launcher: &launcher }))
    };
    report("repeated batches", lists.iter().map(|list| (list, launch(list))).collect());
}

#[test]
fn simulated() {
    let mut lists = all();
    // One list of each kernel, another one of each.
    if !every_kernel() {
        lists = SPECS.into_iter().chain(OF_WARPS).enumerate().map(|(at, text)| lists_of(text).remove(at % 4)).collect();
    }
    let outcomes = lists.par_iter().map(|list| (list, with_types(&list.spec, Simulate(list)))).collect();
    report("batches, simulated", outcomes);
}
