//! A hand-written GEMM in the manner of Ampere: cp.async in three stages, ldmatrix, mma.sync; and mutants of it.

use std::time::Instant;

use crate::common::half_values;
use bsr_simulator::{FindingKind, GlobalMemory, Launch, Options, Param, Report, Schedule, parse, simulate};
use half::f16;

const PTX: &str = include_str!("../kernels/multistage.ptx");

/// A GEMM after its run.
struct Ran {
    report: Report,
    seconds: f64,
    a: Vec<f32>,
    b: Vec<f32>,
    c: Vec<f32>,
    n: usize,
}

impl Ran {
    /// Is every element of every `step`-th row of C right?
    fn right(&self, step: usize) -> bool {
        let (n, k) = (self.n, self.b.len() / self.n);
        self.c.chunks(n).enumerate().step_by(step).all(|(i, row)| {
            let product = |j: usize, x: usize| f64::from(self.a[i * k + x]) * f64::from(self.b[x * n + j]);
            row.iter().enumerate().all(|(j, got)| f64::from(*got) == (0..k).map(|x| product(j, x)).sum::<f64>())
        })
    }
}

fn run(text: &str, (m, n, k): (usize, usize, usize), options: &Options) -> Ran {
    let module = parse(text).unwrap_or_else(|e| panic!("{e}"));
    let (a, b) = (half_values(m * k, 1), half_values(k * n, 2));
    let halves = |v: &[f32]| v.iter().flat_map(|x| f16::from_f32(*x).to_le_bytes()).collect::<Vec<u8>>();
    let mut memory = GlobalMemory::new();
    let (ia, ib) = (memory.upload(halves(&a), 16), memory.upload(halves(&b), 16));
    let ic = memory.upload(vec![0xff; m * n * 4], 16);
    let launch = Launch {
        grid: [(m / 64) as u32, (n / 64) as u32, 1],
        cluster: [1; 3],
        block: [128, 1, 1],
        shared_bytes: 3 * 9728,
        params: vec![
            Param::Buffer(ia),
            Param::Buffer(ib),
            Param::Buffer(ic),
            Param::U32(n as u32),
            Param::U32(k as u32),
        ],
    };
    let start = Instant::now();
    let report = simulate(&module, "multistage", &launch, &mut memory, options).unwrap();
    let seconds = start.elapsed().as_secs_f64();
    let c = memory.bytes(ic).chunks(4).map(|v| f32::from_le_bytes(v.try_into().unwrap())).collect();
    Ran { report, seconds, a, b, c, n }
}

const SCHEDULES: [Schedule; 4] = [Schedule::Scrambled, Schedule::Early, Schedule::Late, Schedule::Timed];

#[test]
fn right_and_clean_in_every_schedule() {
    // 80 = 2.5 steps: half of the last is filled with zeros. 24: fewer steps than stages.
    for k in [24, 80, 256] {
        for schedule in SCHEDULES {
            for seed in 0..4 {
                let ran = run(PTX, (128, 64, k), &Options { seed, schedule, ..Options::default() });
                assert!(ran.report.is_clean(), "k {k} {schedule:?} {seed}\n{}", ran.report.findings[0]);
                assert!(ran.right(1), "k {k} {schedule:?} {seed}");
            }
        }
    }
}

/// What `text` is found out by: the kinds of all findings in a few runs, or nothing.
fn kinds(text: &str) -> Vec<FindingKind> {
    let mut out = Vec::new();
    for schedule in SCHEDULES {
        for seed in 0..3 {
            let ran = run(text, (64, 64, 192), &Options { seed, schedule, ..Options::default() });
            out.extend(ran.report.findings.iter().map(|f| f.kind));
        }
    }
    out.sort();
    out.dedup();
    out
}

#[test]
fn mutants_are_races() {
    let edit = |from: &str, to: &str| {
        assert!(PTX.contains(from), "{from}");
        PTX.replacen(from, to, 1)
    };
    for (what, text) in [
        ("no barrier", edit("    bar.sync 0;\n", "")),
        ("the barrier of each warp alone", edit("    bar.sync 0;\n", "    bar.warp.sync 0xffffffff;\n")),
        ("no wait", edit("    cp.async.wait_group 1;\n", "")),
        ("a wait that lets one more group run", edit("wait_group 1;", "wait_group 2;")),
        (
            "the wait after the barrier",
            edit("    cp.async.wait_group 1;\n    bar.sync 0;\n", "    bar.sync 0;\n    cp.async.wait_group 1;\n"),
        ),
        ("no groups", edit("    cp.async.commit_group;\n", "")),
        ("two stages instead of three", PTX.replace("29184", "19456")),
        ("rows of B in those of A", edit("[%r33 + 7424]", "[%r33 + 2560]")),
    ] {
        let found = kinds(&text);
        assert!(found.contains(&FindingKind::Race), "{what}: {found:?}");
    }
    // A wait for more than is needed is no defect.
    assert_eq!(kinds(&edit("wait_group 1;", "wait_group 0;")), []);
    assert_eq!(kinds(&edit("cp.async.wait_group 1;", "cp.async.wait_all;")), []);
}

#[test]
fn a_race_names_the_copy_and_its_reader() {
    let text = PTX.replacen("    cp.async.wait_group 1;\n", "", 1);
    let ran = run(&text, (64, 64, 192), &Options { schedule: Schedule::Early, ..Options::default() });
    let race = ran.report.findings.iter().find(|f| f.kind == FindingKind::Race).unwrap();
    let sides = race.sides.iter().map(|s| format!("{} {}", s.does, s.text)).collect::<Vec<_>>().join("\n");
    assert!(sides.contains("cp.async writes cp.async.cg") && sides.contains("the thread reads ldmatrix"), "{sides}");
}

#[test]
fn costs_are_counted() {
    let cost = run(PTX, (128, 64, 256), &Options { schedule: Schedule::Timed, ..Options::default() }).report.cost;
    assert_eq!(cost.flops, 2 * 128 * 64 * 256);
    // 1024 products a cycle, two blocks; A and B once for each of their blocks.
    assert_eq!(cost.tensor_cycles, 128 * 64 * 256 / 1024);
    assert_eq!(cost.bytes_copied, 2 * (64 + 64) * 256 * 2);
    // The copies alone take 64 KB / 64 B, one after the other but for their latency.
    assert!((1024..8000).contains(&cost.cycles), "{}", cost.cycles);
}

/// 64 blocks of 4 warps, 256 mma.sync a warp.
#[test]
fn many_blocks_are_right() {
    for races in [true, false] {
        let ran = run(PTX, (512, 512, 512), &Options { races, ..Options::default() });
        assert!(ran.report.is_clean() && ran.right(37));
        let (steps, flops) = (ran.report.cost.steps, ran.report.cost.flops / 1_000_000);
        println!("races {races}: {:.2} s for {steps} warp instructions and {flops} MFLOP", ran.seconds);
    }
}
