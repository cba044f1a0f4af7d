//! A made-up sweep: specs are planned for real, and a formula with noise stands for the GPU.

use std::path::PathBuf;

use bsr_codegen::probes::Probes;
use bsr_codegen::spec::Key;
use bsr_codegen::{KernelSpec, Plan};
use bsr_runtime::simulated::{Options, Schedule, Simulated};
use bsr_runtime::timeline::{Clock, Timeline};
use bsr_runtime::{Bsr, Dense, Layout, Pattern, Structure};
use bsr_tuner::report::ReportData;
use bsr_tuner::store::Rejection;
use bsr_tuner::{
    Dense as Library, DeviceId, DeviceKind, Facts, Record, Source, Timing, TuningProblem, Verdict, Workload,
};
use half::f16;
use rand::rngs::ChaCha8Rng;
use rand::{RngExt as _, SeedableRng as _};

/// A name that would run a script, were it not escaped.
pub(crate) const HOSTILE: &str = "w</script><img src=x onerror=\"document.title='broken'\">.npz";

/// One product to sweep.
#[derive(Clone, Copy)]
struct Sweep {
    facts: &'static str,
    shape: [usize; 3],
    pattern: &'static str,
    /// The pattern is said to be from a file with a hostile name.
    from_file: bool,
    kind: DeviceKind,
    /// TFLOP/s of the best there can be, and of the dense library.
    rates: [f64; 2],
    /// Alternatives by name, with their time over ours.
    others: &'static [(&'static str, f64)],
}

/// A few hundred points of six products, one of them a model's and one made up, with failures of every kind.
pub(crate) fn sample() -> ReportData {
    let flagship = Sweep {
        facts: "bm = 512, bk = 112",
        shape: [8192, 8192, 8288],
        pattern: "topk:16",
        from_file: false,
        kind: DeviceKind::Gpu,
        rates: [625.0, 642.0],
        others: &[("cublaslt (dense)", 2.9), ("cusparse blocked-ell", 1.8)],
    };
    let sweeps = [
        Sweep {
            facts: "bm = 128, bk = 128, dtype = e4m3",
            shape: [8192, 8192, 8192],
            pattern: "random:0.25",
            rates: [1300.0, 1302.0],
            others: &[("cublaslt (dense)", 2.4)],
            ..flagship
        },
        Sweep {
            facts: "bm = 16, bk = 16",
            shape: [8192, 8192, 8192],
            pattern: "random:0.3",
            rates: [160.0, 660.0],
            others: &[("cublaslt (dense)", 0.8), ("cusparse bsr", 1.3), ("cusparse blocked-ell", 1.2)],
            ..flagship
        },
        Sweep {
            facts: "bm = 64, bk = 64, dtype = bf16",
            shape: [4096, 64, 4096],
            pattern: "random:0.1",
            from_file: true,
            rates: [60.0, 90.0],
            others: &[("cusparse bsr", 1.01)],
            ..flagship
        },
        Sweep { kind: DeviceKind::Sim, rates: [700.0, 700.0], others: &[], ..flagship },
        Sweep { kind: DeviceKind::Fake, rates: [5.0, 5.0], others: &[], ..flagship },
    ];
    let mut data = ReportData { title: format!("Six sweeps {HOSTILE}"), ..ReportData::default() };
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    for sweep in std::iter::once(&flagship).chain(&sweeps) {
        sweep.run(&mut data, &mut rng);
    }
    data
}

/// One product with `count` timed kernels, whose specs are no longer all different.
pub(crate) fn large(count: usize) -> ReportData {
    let mut data = sample();
    let timed: Vec<Record> =
        data.records.iter().filter(|r| r.verdict == Verdict::Timed && !r.baseline).cloned().collect();
    let first = timed[0].problem.clone();
    // As many different ones as fit one value of the keys that are varied below.
    data.records = timed
        .iter()
        .filter(|record| record.problem == first && record.device.kind == DeviceKind::Gpu)
        .take(100)
        .cycle()
        .take(count)
        .cloned()
        .collect();
    for (number, record) in data.records.iter_mut().enumerate() {
        // `k_step` is no key that the sweep varies.
        let mut spec: KernelSpec = record.subject.parse().unwrap();
        spec.k_step = Some([16, 32, 48, 64, 96, 112][number / 100 % 6]);
        spec.swizzle = Some([32, 64, 128][number / 600 % 3]);
        spec.vector = Some([1, 2, 4, 8][number / 1800 % 4]);
        record.subject = spec.to_string();
    }
    data
}

impl Sweep {
    fn run(&self, data: &mut ReportData, rng: &mut ChaCha8Rng) {
        let facts: Facts = self.facts.parse().unwrap();
        let [m, n, k] = self.shape;
        let structure: Structure = self.pattern.parse::<Pattern>().unwrap().structure(m, k, facts.block(), 1).unwrap();
        let source = match self.from_file {
            // A slash would end the name.
            true => Source::File(PathBuf::from("layers").join(HOSTILE.replace('/', "\u{2215}"))),
            false => Source::Pattern(self.pattern.to_owned()),
        };
        let problem = TuningProblem::new(Workload { facts, m, n, k, source, seed: 1 }, &structure);
        let mut reasons: Vec<(String, usize)> = vec![];
        let mut best = f64::INFINITY;
        for spec in space(&facts) {
            match Plan::new(&spec) {
                Ok(_) => {
                    let record = self.measure(&problem, &spec, rng);
                    best = best.min(record.timing.as_ref().map_or(best, |timing| timing.median_us));
                    data.records.push(record);
                }
                Err(errors) => {
                    let text = errors.to_string();
                    let reason = words_of(text.lines().next().unwrap()).replace("error: ", "");
                    match reasons.iter_mut().find(|known| known.0 == reason) {
                        Some(known) => known.1 += 1,
                        None => reasons.push((reason, 1)),
                    }
                }
            }
        }
        let key = problem.key();
        // Said once, though three devices swept it.
        reasons.retain(|_| self.kind == DeviceKind::Gpu);
        data.rejected.extend(reasons.into_iter().map(|(reason, points)| Rejection {
            problem: key.clone(),
            reason,
            points,
        }));
        let flops = problem.executed_flops() as f64;
        let equal = ("cublaslt (equal FLOPs)", flops / self.rates[1] / 1e6);
        let others = self.others.iter().map(|(name, factor)| (*name, best * factor));
        for (name, us) in std::iter::once(equal).chain(others).filter(|_| self.kind == DeviceKind::Gpu) {
            let mut record = self.record(&problem, name, Verdict::Timed);
            record.baseline = true;
            record.timing = Some(samples(us, rng));
            data.records.push(record);
        }
    }

    fn measure(&self, problem: &TuningProblem, spec: &KernelSpec, rng: &mut ChaCha8Rng) -> Record {
        let flops = problem.executed_flops() as f64;
        let (verdict, why) = match rng.random_range(0..100) {
            0..2 => (Verdict::Wrong, Some("row 17, column 40: 0.0 instead of -3.25; 1 % of the result differs")),
            2 => (Verdict::Hang, Some("it did not end within 2 s: consumers wait for stage 3")),
            3 => (Verdict::Fault, Some("CUDA_ERROR_ILLEGAL_ADDRESS: <an illegal memory access> & more")),
            4..6 => (Verdict::Refused, Some("the driver's JIT: out of registers")),
            _ => (Verdict::Timed, None),
        };
        let mut record = self.record(problem, &spec.to_string(), verdict);
        record.error = why.map(str::to_owned);
        let quality = quality(spec);
        let us = flops / (self.rates[0] * quality * 1e6) * (1.0 + 0.01 * rng.random::<f64>());
        record.predicted_us = Some(us * (0.8 + 0.25 * rng.random::<f64>()) * quality.sqrt());
        if record.verdict == Verdict::Timed {
            if quality < 0.45 {
                record.verdict = Verdict::Slow;
            }
            let timing = samples(us, rng);
            if self.kind == DeviceKind::Gpu {
                let dense = flops / self.rates[1] / 1e6;
                record.dense = Some(Library { median_us: dense, flops: flops as u64, ratio: dense / timing.median_us });
            }
            record.timing = Some(timing);
            record.relative_error = Some(2e-4 * (1.0 + rng.random::<f64>()));
        }
        record
    }

    fn record(&self, problem: &TuningProblem, subject: &str, verdict: Verdict) -> Record {
        let (name, driver) = match self.kind {
            DeviceKind::Gpu => ("NVIDIA H200", "580.159.04 (CUDA 13.0)"),
            DeviceKind::Sim => ("simulator", "1"),
            DeviceKind::Fake => ("fake", "1"),
        };
        Record {
            problem: problem.clone(),
            subject: subject.to_owned(),
            baseline: false,
            plan: String::new(),
            ptx: String::new(),
            device: DeviceId { kind: self.kind, name: name.to_owned(), driver: driver.to_owned() },
            version: env!("CARGO_PKG_VERSION").to_owned(),
            verdict,
            error: None,
            predicted_us: None,
            timing: None,
            dense: None,
            relative_error: None,
            compile_ms: None,
            watchdog_s: None,
            power: None,
            at: "2026-11-21T12:00:00Z".parse().unwrap(),
        }
    }
}

/// Without the numbers, which tell points apart and not reasons.
fn words_of(reason: &str) -> String {
    let words = reason.split(' ').map(|word| if word.starts_with(|c: char| c.is_ascii_digit()) { "n" } else { word });
    words.collect::<Vec<_>>().join(" ")
}

fn samples(us: f64, rng: &mut ChaCha8Rng) -> Timing {
    Timing::new((0..21).map(|_| us * (1.0 + 0.02 * rng.random::<f64>())).collect())
}

fn space(facts: &Facts) -> Vec<KernelSpec> {
    let mut specs = vec![];
    for bn in [64, 128, 192, 256, 384, 512] {
        for stages in [None, Some(2), Some(3), Some(4), Some(5), Some(6)] {
            for consumers in [None, Some(1), Some(2), Some(3)] {
                for cluster in [None, Some(2), Some(4)] {
                    let mut spec = facts.spec(bn);
                    (spec.stages, spec.consumers, spec.cluster) = (stages, consumers, cluster);
                    specs.push(spec);
                }
            }
        }
    }
    specs
}

/// 1 for the best, less for others: wide tiles, some stages, two consumers.
fn quality(spec: &KernelSpec) -> f64 {
    let or = |value: Option<u32>, plan: u32| f64::from(value.unwrap_or(plan));
    let width = (f64::from(spec.bn) / 256.0).min(1.0).powf(0.45) * if spec.bn > 256 { 0.93 } else { 1.0 };
    let depth = 1.0 - 0.45 / or(spec.stages, 4).powi(2) * 2.0;
    let share = if spec.value(Key::Consumers) == "1" { 0.7 } else { 1.0 };
    let multicast = 1.0 - 0.03 * (or(spec.cluster, 1) - 2.0).abs();
    width * depth * share * multicast
}

/// What a kernel with probes recorded on the simulator, of a small product in place of a sweep's.
pub(crate) fn recorded(spec: &str) -> serde_json::Value {
    let plan = Plan::new(&spec.parse().unwrap()).unwrap().probed(Probes { first: 0, ctas: 2, records: 2000 }).unwrap();
    let (spec, ptx) = (*plan.spec(), plan.ptx());
    let kernel = Simulated::new(&plan, ptx.text(), ptx.entry()).unwrap().with_clusters(2);
    let (m, k) = (2 * spec.bm as usize, 6 * spec.bk as usize);
    let a = Bsr::<f16>::generate(Pattern::TopK(3), m, k, (spec.bm as usize, spec.bk as usize), 0).unwrap();
    let b = Dense::<f16>::normal(k, 2 * spec.bn as usize, Layout::RowMajor, 0);
    let options = Options { schedule: Schedule::Timed, ..Options::default() };
    kernel.multiply::<f16, _>((&a, &b), &options).unwrap();
    Timeline::new(&plan, &kernel.records().unwrap(), Clock::Simulator).unwrap().perfetto()
}
