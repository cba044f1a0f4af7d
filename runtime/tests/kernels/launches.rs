//! Launches as applications make them: again and again, captured into a graph, on two streams at once.

use std::time::Instant;

use bsr_runtime::gpu::{Device, GpuError, Graph, Stream};
use bsr_runtime::{Dense, KernelError, Launcher, reference};
use half::f16;

use crate::case::{Blocks, Case};
use crate::run::{Operands, load};
use crate::walled::{Walled, bits};
use crate::watchdog::watch;
use crate::{device, tell};

/// A deferred epilogue and a cluster; gathered blocks; an immediate epilogue.
const SPECS: [&str; 3] = [
    "bm = 512, bn = 128, bk = 112, cluster = 2",
    "bm = 64, bn = 64, bk = 16",
    "bm = 192, bn = 192, bk = 64, consumers = 3, c_layout = col",
];

/// A kernel with its operands and a place for its result.
struct Setup {
    launcher: Launcher,
    operands: Operands<f16>,
    c: Walled<f16>,
}

impl Setup {
    fn new(device: &Device, spec: &str, shape: (usize, usize, usize), blocks: Blocks) -> Self {
        let case = Case::new(spec, shape, blocks);
        let operands = Operands::new(device, &case).unwrap();
        Self { launcher: load(device, &case.spec).unwrap(), c: operands.result(device).unwrap(), operands }
    }

    fn launch(&mut self, stream: &Stream) -> Result<(), KernelError> {
        let (a, b) = (&self.operands.a, self.operands.b.matrix());
        self.launcher.launch(stream.handle(), a, b, self.c.matrix_mut())
    }
}

#[test]
fn repeated_launches_give_the_same_bits() {
    let Some((_turn, device)) = device() else {
        return;
    };
    let stream = Stream::new(&device).unwrap();
    for spec in SPECS {
        let mut setup = Setup::new(&device, spec, (1500, 700, 1000), Blocks::Pattern("powerlaw:0.3"));
        let _watch = watch(format!("repeated: {spec}"));
        let mut first = None;
        for round in 0..20 {
            setup.c.poison_on(stream.handle()).unwrap();
            setup.launch(&stream).unwrap();
            // Every other time twice in a row, with nothing between the two.
            if round % 2 == 1 {
                setup.launch(&stream).unwrap();
            }
            stream.synchronize().unwrap();
            let got = bits(&setup.c.read().unwrap());
            let first = first.get_or_insert_with(|| got.clone());
            assert!(*first == got, "{spec}: other bits in round {round}");
        }
        setup.operands.judge(&setup.c).unwrap();
    }
}

#[test]
fn a_captured_launch_replays_on_new_data() {
    let Some((_turn, device)) = device() else {
        return;
    };
    let stream = Stream::new(&device).unwrap();
    for spec in SPECS {
        let mut setup = Setup::new(&device, spec, (1100, 500, 600), Blocks::Pattern("random:0.4"));
        let _watch = watch(format!("captured: {spec}"));
        let n = setup.operands.case.n;
        setup.launcher.prepare(&setup.operands.a, n).unwrap();
        let mut graph = Graph::capture(&stream, |stream| {
            let (a, b) = (&setup.operands.a, setup.operands.b.matrix());
            let launched = setup.launcher.launch(stream, a, b, setup.c.matrix_mut());
            launched.map_err(|error| match error {
                KernelError::Gpu(error) => error,
                other => GpuError::Download(other.to_string()),
            })
        })
        .unwrap();
        setup.c.untouched().expect("capturing runs nothing");
        for _ in 0..3 {
            setup.c.poison_on(stream.handle()).unwrap();
            // SAFETY: the operands and the result are alive and nothing else uses them.
            unsafe { graph.launch(stream.handle()) }.unwrap();
            stream.synchronize().unwrap();
            setup.operands.judge(&setup.c).unwrap();
        }
        // The same addresses, other numbers.
        let case = setup.operands.case.clone();
        let b = Dense::<f16>::normal(case.k, case.n, case.spec.b_layout, 99);
        setup.operands.b.write(&b).unwrap();
        // SAFETY: as above.
        unsafe { graph.launch(stream.handle()) }.unwrap();
        stream.synchronize().unwrap();
        let want = reference::multiply(&case.matrix::<f16>().unwrap(), &b).unwrap();
        let got = setup.c.read().unwrap();
        let comparison = reference::Comparison::of_dense(&got, &want).unwrap();
        assert!(comparison.passes(case.tolerance()), "{spec}: {comparison}");
    }
}

#[test]
fn two_streams_at_once_do_not_disturb_each_other() {
    let Some((_turn, device)) = device() else {
        return;
    };
    // Small enough that both have room on the GPU at the same time; also one kernel on both streams.
    for (one, other) in [(SPECS[0], SPECS[1]), (SPECS[1], SPECS[1])] {
        let mut setups = [
            Setup::new(&device, one, (1024, 400, 1500), Blocks::Pattern("random:0.4")),
            Setup::new(&device, other, (640, 300, 2000), Blocks::Pattern("powerlaw:0.2")),
        ];
        let streams = [(); 2].map(|()| Stream::new(&device).unwrap());
        let _watch = watch(format!("two streams: {one} | {other}"));
        for _ in 0..100 {
            for (setup, stream) in setups.iter_mut().zip(&streams) {
                setup.c.poison_on(stream.handle()).unwrap();
                setup.launch(stream).unwrap();
            }
        }
        for (setup, stream) in setups.iter().zip(&streams) {
            stream.synchronize().unwrap();
            setup.operands.judge(&setup.c).unwrap();
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
    let spec = "bm = 128, bn = 128, bk = 64";
    let launcher = load(&device, &crate::case::parse(spec)).unwrap();
    let mut problems = [
        ((500, 300, 600), Blocks::Pattern("random:0.4")),
        ((500, 301, 600), Blocks::Pattern("random:0.4")),
        ((900, 300, 600), Blocks::Pattern("topk:3")),
        ((900, 300, 600), Blocks::FullRows(&[1])),
        ((500, 20, 700), Blocks::Pattern("random:0")),
    ]
    .map(|(shape, blocks)| {
        let case = Case::new(spec, shape, blocks);
        let operands = Operands::<f16>::new(&device, &case).unwrap();
        let c = operands.result::<f16>(&device).unwrap();
        (operands, c)
    });
    let _watch = watch(format!("in turn: {spec}"));
    for round in 0..3 {
        for (operands, c) in &mut problems {
            c.poison_on(stream.handle()).unwrap();
            let b = operands.b.matrix();
            launcher.launch(stream.handle(), &operands.a, b, c.matrix_mut()).unwrap();
        }
        stream.synchronize().unwrap();
        for (operands, c) in &problems {
            let judged = operands.judge(c);
            assert!(judged.is_ok(), "round {round}: {}: {judged:?}", operands.case);
        }
    }
}

/// Not a benchmark, only far from allocating or waiting: the launch path is to stay under 5 us on an idle host.
#[test]
fn launching_costs_microseconds() {
    let Some((_turn, device)) = device() else {
        return;
    };
    let stream = Stream::new(&device).unwrap();
    let mut setup = Setup::new(&device, SPECS[1], (64, 64, 16), Blocks::Pattern("random:1"));
    let _watch = watch("the launch path".into());
    setup.launch(&stream).unwrap();
    stream.synchronize().unwrap();
    let best = (0..20)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..50 {
                setup.launch(&stream).unwrap();
            }
            let took = start.elapsed() / 50;
            stream.synchronize().unwrap();
            took
        })
        .min()
        .unwrap();
    tell(format_args!("launch path: {:.2} us a launch", best.as_secs_f64() * 1e6));
    let limit = if cfg!(debug_assertions) { 100 } else { 20 };
    assert!(best.as_micros() < limit, "{best:?} a launch");
}
