//! Launches as applications make them: again and again, captured into a graph, on two streams at once.

use std::time::Instant;

use bsr_codegen::Dtype;
use bsr_runtime::gpu::{Device, Graph, Stream, StreamRef};
use bsr_runtime::typed::Number;
use bsr_runtime::{KernelError, Launcher};
use half::f16;

use crate::case::{Blocks, Case, Failure};
use crate::run::{Operands, load};
use crate::walled::{Walled, bits};
use crate::watchdog::watch;
use crate::{device, tell};

/// An overlapped epilogue and a cluster; gathered blocks; a serial epilogue; the other families; CTAs that share the K of
/// a tile. All of these give the same bits whenever they run.
const SPECS: [&str; 9] = [
    "bm = 512, bn = 128, bk = 112, cluster = 2",
    "bm = 64, bn = 64, bk = 16",
    "bm = 192, bn = 192, bk = 64, consumers = 3, c_layout = col",
    "bm = 64, bn = 64, bk = 64, mma = mma_sync",
    "bm = 64, bn = 64, bk = 64, mma = wmma",
    "bm = 64, bn = 64, bk = 64, mma = scalar, accumulate = register",
    "bm = 64, bn = 64, bk = 16, split = 5",
    "bm = 128, bn = 128, bk = 64, cluster = 2, split = auto",
    "bm = 32, bn = 128, bk = 32, split = 5",
];
/// One whose launch is two: C is set to zero, then added to, by CTAs in any order.
const ATOMIC: &str = "bm = 64, bn = 64, bk = 32, mma = scalar, accumulate = atomic, out = f32";

/// A kernel with its operands and a place for its result.
struct Setup<C: Number> {
    launcher: Launcher,
    operands: Operands<f16, f16>,
    c: Walled<C>,
}

/// A [`Setup`] of f16 operands and any result.
trait Job {
    fn prepare(&self) -> Result<(), KernelError>;
    fn launch(&mut self, stream: StreamRef<'_>) -> Result<(), KernelError>;
    fn poison_on(&mut self, stream: StreamRef<'_>) -> Result<(), Failure>;
    fn judge(&self) -> Result<(), Failure>;
    fn bits(&self) -> Result<Vec<u64>, Failure>;
    fn untouched(&self) -> Result<(), Failure>;
    fn redraw_b(&mut self, seed: u64) -> Result<(), Failure>;
}

impl<C: Number> Setup<C> {
    fn boxed(launcher: Launcher, operands: Operands<f16, f16>, device: &Device) -> Box<dyn Job> {
        let c = operands.result::<C>(device).unwrap();
        Box::new(Self { launcher, operands, c })
    }
}

impl<C: Number> Job for Setup<C> {
    fn prepare(&self) -> Result<(), KernelError> {
        self.launcher.prepare(&self.operands.a, self.operands.case.n)
    }

    fn launch(&mut self, stream: StreamRef<'_>) -> Result<(), KernelError> {
        self.operands.launch(&self.launcher, stream, &mut self.c)
    }

    fn poison_on(&mut self, stream: StreamRef<'_>) -> Result<(), Failure> {
        self.c.poison_on(stream)
    }

    fn judge(&self) -> Result<(), Failure> {
        self.operands.judge(&self.c).map(drop)
    }

    fn bits(&self) -> Result<Vec<u64>, Failure> {
        self.c.read().map(|c| bits(&c))
    }

    fn untouched(&self) -> Result<(), Failure> {
        self.c.untouched()
    }

    fn redraw_b(&mut self, seed: u64) -> Result<(), Failure> {
        self.operands.redraw_b(seed)
    }
}

fn setup(device: &Device, spec: &str, shape: (usize, usize, usize), blocks: Blocks) -> Box<dyn Job> {
    let case = Case::new(spec, shape, blocks);
    let launcher = load(device, &case.spec).unwrap();
    let operands = Operands::new(device, &case).unwrap();
    match case.spec.out {
        Dtype::F32 => Setup::<f32>::boxed(launcher, operands, device),
        _ => Setup::<f16>::boxed(launcher, operands, device),
    }
}

#[test]
fn repeated_launches_give_the_same_bits() {
    for spec in SPECS {
        assert_same_bits(spec, (1500, 700, 1000), Blocks::Pattern("powerlaw:0.3"));
    }
}

/// Long rows take turns with short ones, and L2 does not hold a column of tiles.
#[test]
fn repeated_launches_of_divided_long_rows_give_the_same_bits() {
    let lengths = &[4, 0, 140, 3, 1, 60, 2, 5, 9, 0, 1, 3, 2, 90, 4, 1, 2, 3];
    for spec in [
        "bm = 64, bn = 64, bk = 64, swap = off, split = long",
        "bm = 64, bn = 128, bk = 64, pack = 2, cluster = 2, swap = off, split = long",
    ] {
        assert_same_bits(spec, (lengths.len() * 64, 900, 153_600), Blocks::Lengths(lengths));
    }
}

/// The bits of a hundred launches into a poisoned result.
fn assert_same_bits(spec: &str, shape: (usize, usize, usize), blocks: Blocks) {
    let Some((_turn, device)) = device() else {
        return;
    };
    let stream = Stream::new(&device).unwrap();
    let mut job = setup(&device, spec, shape, blocks);
    let _watch = watch(format!("repeated: {spec}"));
    let mut first = None;
    for round in 0..100 {
        job.poison_on(stream.handle()).unwrap();
        job.launch(stream.handle()).unwrap();
        // Every other time twice in a row, with nothing between the two.
        if round % 2 == 1 {
            job.launch(stream.handle()).unwrap();
        }
        stream.synchronize().unwrap();
        let got = job.bits().unwrap();
        let first = first.get_or_insert_with(|| got.clone());
        assert!(*first == got, "{spec}: other bits in round {round}");
    }
    job.judge().unwrap();
}

#[test]
fn a_captured_launch_replays_on_new_data() {
    let Some((_turn, device)) = device() else {
        return;
    };
    let stream = Stream::new(&device).unwrap();
    for spec in SPECS.into_iter().chain([ATOMIC]) {
        let mut job = setup(&device, spec, (1100, 500, 600), Blocks::Pattern("random:0.4"));
        let _watch = watch(format!("captured: {spec}"));
        job.prepare().unwrap();
        let mut graph = Graph::capture(&stream, |stream| job.launch(stream)).unwrap();
        job.untouched().expect("capturing runs nothing");
        for _ in 0..3 {
            job.poison_on(stream.handle()).unwrap();
            // SAFETY: the operands and the result are alive and nothing else uses them.
            unsafe { graph.launch(stream.handle()) }.unwrap();
            stream.synchronize().unwrap();
            job.judge().unwrap();
        }
        // The same addresses, other numbers.
        job.redraw_b(99).unwrap();
        // SAFETY: as above.
        unsafe { graph.launch(stream.handle()) }.unwrap();
        stream.synchronize().unwrap();
        job.judge().unwrap();
    }
}

#[test]
fn two_streams_at_once_do_not_disturb_each_other() {
    let Some((_turn, device)) = device() else {
        return;
    };
    // Small enough that both have room on the GPU at the same time; also one kernel on both streams.
    for (one, other) in [
        (SPECS[0], SPECS[1]),
        (SPECS[1], SPECS[1]),
        (SPECS[3], ATOMIC),
        (ATOMIC, ATOMIC),
        (SPECS[6], SPECS[6]),
        (SPECS[8], SPECS[8]),
    ] {
        let mut jobs = [
            setup(&device, one, (1024, 400, 1500), Blocks::Pattern("random:0.4")),
            setup(&device, other, (640, 300, 2000), Blocks::Pattern("powerlaw:0.2")),
        ];
        let streams = [(); 2].map(|()| Stream::new(&device).unwrap());
        let _watch = watch(format!("two streams: {one} | {other}"));
        for _ in 0..100 {
            for (job, stream) in jobs.iter_mut().zip(&streams) {
                job.poison_on(stream.handle()).unwrap();
                job.launch(stream.handle()).unwrap();
            }
        }
        for (job, stream) in jobs.iter().zip(&streams) {
            stream.synchronize().unwrap();
            job.judge().unwrap();
        }
    }
}

/// One kernel, several matrices and numbers of columns in turn: work plans and tensor maps are not mixed up.
#[test]
fn one_kernel_serves_many_problems_in_turn() {
    let Some((_turn, device)) = device() else {
        return;
    };
    let stream = Stream::new(&device).unwrap();
    let sizes = "bm = 128, bn = 128, bk = 64";
    serves_in_turn::<f16>(&device, &stream, sizes);
    serves_in_turn::<f16>(&device, &stream, &format!("{sizes}, mma = mma_sync"));
    serves_in_turn::<f32>(&device, &stream, &format!("{sizes}, mma = scalar, accumulate = atomic, out = f32"));
}

fn serves_in_turn<C: Number>(device: &Device, stream: &Stream, spec: &str) {
    let launcher = load(device, &crate::case::parse(spec)).unwrap();
    let mut problems = [
        ((500, 300, 600), Blocks::Pattern("random:0.4")),
        ((500, 301, 600), Blocks::Pattern("random:0.4")),
        ((900, 300, 600), Blocks::Pattern("topk:3")),
        ((900, 300, 600), Blocks::FullRows(&[1])),
        ((500, 20, 700), Blocks::Pattern("random:0")),
    ]
    .map(|(shape, blocks)| {
        let case = Case::new(spec, shape, blocks);
        let operands = Operands::<f16, f16>::new(device, &case).unwrap();
        let c = operands.result::<C>(device).unwrap();
        (operands, c)
    });
    let _watch = watch(format!("in turn: {spec}"));
    for round in 0..3 {
        for (operands, c) in &mut problems {
            c.poison_on(stream.handle()).unwrap();
            operands.launch(&launcher, stream.handle(), c).unwrap();
        }
        stream.synchronize().unwrap();
        for (operands, c) in &problems {
            let judged = operands.judge(c);
            assert!(judged.is_ok(), "round {round}: {}: {judged:?}", operands.case);
        }
    }
}

/// Prints the time of the launch path on the host: under 5 us on an idle one.
#[test]
fn the_launch_path_does_not_wait() {
    let Some((_turn, device)) = device() else {
        return;
    };
    let stream = Stream::new(&device).unwrap();
    for spec in [SPECS[1], SPECS[3]] {
        launch_path(&device, &stream, spec);
    }
}

fn launch_path(device: &Device, stream: &Stream, spec: &str) {
    let mut job = setup(device, spec, (64, 64, 64), Blocks::Pattern("random:1"));
    let _watch = watch("the launch path".into());
    job.launch(stream.handle()).unwrap();
    stream.synchronize().unwrap();
    let best = (0..20)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..50 {
                job.launch(stream.handle()).unwrap();
            }
            let took = start.elapsed() / 50;
            stream.synchronize().unwrap();
            took
        })
        .min()
        .unwrap();
    tell(format_args!("launch path: {:.2} us a launch of {spec}", best.as_secs_f64() * 1e6));
}
