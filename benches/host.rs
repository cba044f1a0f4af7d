//! What the host does before a GPU has anything to do: `cargo bench --bench host`, some twenty seconds.
//!
//! The first line is the first kernel of this process, which parses the templates: what one use of the attribute or
//! one `bsr emit` pays. Everything after it is timed by criterion.

use std::hint::black_box;
use std::time::{Duration, Instant};

use bsr::{Bsr, Dense, KernelSpec, Layout, Pattern, Plan, Structure, f16, reference};
use bsr_runtime::schedule::WorkPlan;
use criterion::{BenchmarkId, Criterion, Throughput};

const FLAGSHIP: &str = "bm = 512, bn = 128, bk = 112";

/// Kernels of different length: a block in two unequal stages, one block a stage, eight blocks a stage, and the
/// longest code there is, sixteen stages of a block with a body of its own each.
const SPECS: [&str; 4] = [
    FLAGSHIP,
    "bm = 128, bn = 256, bk = 64",
    "bm = 64, bn = 256, bk = 16, k_step = 128",
    "bm = 256, bn = 128, bk = 496, k_step = 32",
];

/// Products of 8192 rows and columns: spec, pattern, K.
const WORK: [(&str, &str, usize); 5] = [
    (FLAGSHIP, "topk:16", 8288),
    ("bm = 128, bn = 256, bk = 128", "random:0.25", 8192),
    ("bm = 64, bn = 256, bk = 64", "random:0.25", 8192),
    ("bm = 64, bn = 256, bk = 64", "causal", 8192),
    ("bm = 64, bn = 256, bk = 64", "powerlaw:0.05", 8192),
];
/// CTAs that run at a time on an H200.
const CLUSTERS: u32 = 132;

fn main() {
    let (first, bytes) = timed(|| emit(FLAGSHIP));
    eprintln!("first kernel of the process, text -> PTX ({bytes} B): {:.2} ms", first.as_secs_f64() * 1e3);

    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
        .sample_size(20)
        .configure_from_args();
    compile(&mut criterion);
    work_plans(&mut criterion);
    multiply(&mut criterion);
    criterion.final_summary();
}

fn timed<T>(work: impl FnOnce() -> T) -> (Duration, T) {
    let start = Instant::now();
    let done = work();
    (start.elapsed(), done)
}

fn parse(text: &str) -> KernelSpec {
    text.parse().expect("the specs here are right")
}

fn plan(text: &str) -> Plan {
    Plan::new(&parse(text)).expect("the specs here can be planned")
}

/// Bytes of PTX, all the way from the text of a spec.
fn emit(text: &str) -> usize {
    plan(text).ptx().text().len()
}

/// From text to PTX, and its parts: everything the attribute does while a crate compiles.
fn compile(criterion: &mut Criterion) {
    criterion.bench_function("parse", |b| b.iter(|| parse(black_box(FLAGSHIP))));
    let spec = parse(FLAGSHIP);
    criterion.bench_function("plan", |b| b.iter(|| Plan::new(black_box(&spec))));
    let mut group = criterion.benchmark_group("text -> PTX");
    for text in SPECS {
        group.bench_function(text, |b| b.iter(|| emit(black_box(text))));
    }
}

/// The work plan of a pattern, which the first launch of it makes, with the words that go to the GPU.
fn work_plans(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("work plan, N = 8192");
    for (text, pattern, k) in WORK {
        let (plan, structure) = (plan(text), structure(text, pattern, k));
        group.bench_function(BenchmarkId::new(text, pattern), |b| {
            b.iter(|| {
                let work = WorkPlan::new(&plan, black_box(&structure), 8192, CLUSTERS);
                (work.heads(&structure), work.words())
            });
        });
    }
}

fn structure(text: &str, pattern: &str, k: usize) -> Structure {
    let spec = parse(text);
    let pattern: Pattern = pattern.parse().expect("the patterns here are right");
    let block = (spec.bm as usize, spec.bk as usize);
    pattern.structure(8192, k, block, 0).expect("the patterns here can be had")
}

/// The f64 reference, in multiply-adds a second on all cores.
fn multiply(criterion: &mut Criterion) {
    let (m, n, k) = (1024, 64, 1120);
    let a = Bsr::<f16>::generate(Pattern::TopK(4), m, k, (512, 112), 0).expect("four of ten blocks can be had");
    let mut group = criterion.benchmark_group("reference");
    group.throughput(Throughput::Elements(a.executed_flops(n) / 2));
    for layout in [Layout::RowMajor, Layout::ColMajor] {
        let b = Dense::<f16>::normal(k, n, layout, 0);
        let id = BenchmarkId::new("1024 x 64 x 1120, 512 x 112, topk:4, B", layout);
        group.bench_function(id, |bencher| bencher.iter(|| reference::multiply(&a, black_box(&b))));
    }
}
