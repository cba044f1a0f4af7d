//! The problems of `bsr check` for a kernel of any family, each with its operands and its reference, so that many variants
//! of the kernel's text can be judged by them.

use bsr::arguments::ByKind;
use bsr::reference::{self, Comparison, Fused, unwritten};
use std::sync::Arc;

use bsr::simulated::lists::ListKernels;
use bsr::simulated::{Coverage, Options, Report, Simulated};
use bsr::{
    Bsr, Dense, Dtype, Element, Inputs, KernelSpec, Layout, Op, Permutation, Plan, Scales, Structure, bf16, e4m3, f16,
};

use crate::reasons;
use crate::trials::{Kind, Member, Shape, Trial, schedule};

/// Schedules for each problem, as `bsr check` has them by default.
const SCHEDULES: u32 = 4;

/// What one run gives: the report, and whether the result is right.
type Run = Box<dyn Fn(&Simulated, &Options) -> (Report, bool) + Send + Sync>;

/// A problem with its operands.
pub(crate) struct Problem {
    pub(crate) kind: Kind,
    clusters: u32,
    far: bool,
    /// Kernels list the work.
    listed: bool,
    schedules: usize,
    run: Run,
}

/// The default problems of a kernel.
pub(crate) fn problems(plan: &Plan) -> Vec<Problem> {
    (0..Kind::all(plan).len()).map(|index| Problem::new(plan, index)).collect()
}

/// What a check finds wrong with a text: the kind of problem, and the first finding or `wrong result`.
pub(crate) fn check(plan: &Plan, text: &str, entry: &str, problems: &[Problem]) -> Option<String> {
    let kernel = match Simulated::new(plan, text, entry) {
        Ok(kernel) => kernel,
        Err(error) => return Some(format!("unreadable: {error}")),
    };
    problems.iter().find_map(|problem| problem.fault(&kernel, &mut Coverage::default()))
}

/// What a check finds wrong with a plan's own kernel: as [`check`], or an instruction that no problem executes, if it is not
/// known why. Beside it the lines that no problem can execute, each with the reason.
pub(crate) fn check_all(plan: &Plan, problems: &[Problem]) -> (Option<String>, Vec<(u32, &'static str)>) {
    let ptx = plan.ptx();
    let kernel = Simulated::new(plan, ptx.text(), ptx.entry()).unwrap();
    let mut coverage = Coverage::default();
    let fault = problems.iter().find_map(|problem| problem.fault(&kernel, &mut coverage));
    let statements = kernel.statements(&coverage);
    let missed = reasons::missed(&statements, plan);
    let unknown = missed.iter().find(|(_, why)| why.is_none());
    let fault = fault.or_else(|| unknown.map(|(at, _)| format!("not executed: line {}: {}", at.line, at.text)));
    (fault, missed.iter().filter_map(|(at, why)| Some((at.line, (*why)?))).collect())
}

/// The problem of a kernel whose work kernels list.
#[allow(dead_code, reason = "tests that take this file by its path have other problems")]
pub(crate) fn listed(plan: &Plan) -> Problem {
    let at = Kind::all(plan).iter().position(|kind| *kind == Kind::DevicePattern).unwrap();
    Problem::new(plan, at)
}

/// What [`listed`] finds wrong with kernels that list work.
#[allow(dead_code, reason = "tests that take this file by its path have other problems")]
pub(crate) fn check_lists(plan: &Plan, problem: &Problem, lists: Arc<ListKernels>) -> Option<String> {
    let ptx = plan.ptx();
    let kernel = Simulated::new(plan, ptx.text(), ptx.entry()).unwrap();
    let kernel = kernel.with_clusters(problem.clusters).with_device_pattern(lists).unwrap();
    let (report, right) = (problem.run)(&kernel, &schedule(0, 0));
    let wrong = (!right).then(|| "wrong result".to_owned());
    report.findings.first().map(|finding| format!("{:?}", finding.kind)).or(wrong)
}

/// Whether [`problems`] has the element types of a spec.
pub(crate) fn has_types(spec: &KernelSpec) -> bool {
    use Dtype::{BF16, E4M3, F16, F32, I8, I32};
    spec.a == spec.b
        && matches!(
            (spec.a, spec.out),
            (F16, F16 | F32) | (BF16, BF16 | F32) | (F32, F32) | (E4M3, F16 | BF16) | (I8, I32)
        )
}

impl Problem {
    pub(crate) fn new(plan: &Plan, index: usize) -> Self {
        let trial = Trial::new(plan, index).unwrap();
        let spec = *plan.spec();
        let (kind, clusters, far, listed) = (Kind::of(plan, index), trial.clusters, trial.far, trial.listed);
        let schedules = trial.schedules;
        let (sparse, dense) = if spec.op == Op::Dds { (spec.b, spec.a) } else { (spec.a, spec.b) };
        let run = match (sparse, dense, spec.out) {
            (Dtype::F16, Dtype::F16, Dtype::F16) => operands::<f16, f16, f16>(spec, trial),
            (Dtype::F16, Dtype::F16, Dtype::F32) => operands::<f16, f16, f32>(spec, trial),
            (Dtype::BF16, Dtype::BF16, Dtype::BF16) => operands::<bf16, bf16, bf16>(spec, trial),
            (Dtype::BF16, Dtype::BF16, Dtype::F32) => operands::<bf16, bf16, f32>(spec, trial),
            (Dtype::F32, Dtype::F32, Dtype::F32) => operands::<f32, f32, f32>(spec, trial),
            (Dtype::E4M3, Dtype::E4M3, Dtype::F16) => operands::<e4m3, e4m3, f16>(spec, trial),
            (Dtype::E4M3, Dtype::E4M3, Dtype::BF16) => operands::<e4m3, e4m3, bf16>(spec, trial),
            (Dtype::I8, Dtype::I8, Dtype::I32) => operands::<i8, i8, i32>(spec, trial),
            other => panic!("{other:?} has no problems here"),
        };
        Self { kind, clusters, far, listed, schedules, run }
    }

    fn kernel(&self, kernel: &Simulated) -> Simulated {
        let kernel = kernel.clone().with_clusters(self.clusters).with_far_lines(self.far);
        if self.listed { kernel.with_device_pattern(ListKernels::own().unwrap()).unwrap() } else { kernel }
    }

    /// The problem with each of its schedules.
    pub(crate) fn runs(&self) -> impl Iterator<Item = (&Self, Options)> {
        (0..SCHEDULES).take(self.schedules).map(move |number| (self, schedule(0, number)))
    }

    /// Runs the kernel once, which must be right: the warp instructions that it took. The benchmark asks for them.
    #[allow(dead_code)]
    pub(crate) fn steps(&self, kernel: &Simulated, options: &Options) -> u64 {
        let (report, right) = (self.run)(&self.kernel(kernel), options);
        assert!(right && report.is_clean(), "{}: {:?}", self.kind.name(), report.findings);
        report.cost.steps
    }

    fn fault(&self, kernel: &Simulated, coverage: &mut Coverage) -> Option<String> {
        let kernel = self.kernel(kernel);
        self.runs().find_map(|(_, options)| {
            let (report, right) = (self.run)(&kernel, &options);
            coverage.merge(&report.coverage);
            let wrong = (!right).then(|| "wrong result".to_owned());
            let found = report.findings.first().map(|finding| format!("{:?}", finding.kind)).or(wrong);
            found.map(|found| format!("{}: {found}", self.kind.name()))
        })
    }
}

fn operands<A: Element, B: Element, C: Element>(spec: KernelSpec, trial: Trial) -> Run {
    if spec.op == Op::Sdd { sampled::<A, B, C>(spec, trial) } else { product::<A, B, C>(spec, trial) }
}

/// Draws as they are, or of one sign.
fn signed<T: Element>(values: &mut [T], sign: Option<f64>) {
    if let Some(sign) = sign {
        values.iter_mut().for_each(|value| *value = T::from_f64(sign * value.to_f64().abs()));
    }
}

fn product<A: Element, B: Element, C: Element>(spec: KernelSpec, trial: Trial) -> Run {
    let sign = |sign: f64| trial.negative.then_some(sign);
    let drawn = |member: &Member| {
        let Shape { dense, rows, cols } = member.shape(&spec);
        let mut values = Bsr::<A>::normal(member.structure.clone(), member.seed).values().to_vec();
        signed(&mut values, sign(1.0));
        let a = Bsr::from_structure(member.structure.clone(), values).unwrap();
        let mut b = Dense::<B>::normal(dense.0, dense.1, Layout::RowMajor, member.seed);
        signed(b.data_mut(), sign(-1.0));
        shrink(&mut b, &trial);
        let scales = Scales::random(spec.scale, &member.structure, member.n, member.seed);
        let scales = scales.times(1.0 / A::SPREAD, 1.0 / B::SPREAD).unwrap();
        let program = spec.epilogue.map(|epilogue| epilogue.program());
        let drawn = program.map(|program| Inputs::random(program, (rows, cols), spec.c_layout, member.seed));
        let mut inputs = drawn.unwrap_or_default().scales(scales);
        if spec.permute.is_on() {
            inputs = inputs.order(Permutation::random(rows, member.seed));
        }
        let list: Vec<usize> = (0..rows).collect();
        let longest = member.structure.rows().max(member.structure.cols());
        let want = reference::expected(&spec, &a, &b, &inputs, &list, longest).unwrap();
        let b = b.to_layout(if spec.op == Op::Dds { spec.a_layout } else { spec.b_layout });
        (a, b, inputs, want)
    };
    let problems: Vec<_> = trial.members.iter().map(drawn).collect();
    Box::new(move |kernel, options| {
        let mut arguments = problems.iter().map(|(a, b, inputs, _)| ByKind(a, b, inputs));
        if spec.batch.is_on() {
            let (results, report) = kernel.multiply_batch::<C, _>(arguments, options).unwrap();
            return (report, results.iter().zip(&problems).all(|(c, (.., want))| is_right(c, want)));
        }
        let (results, report) = kernel.multiply::<C, _>(arguments.next().unwrap(), options).unwrap();
        let want = &problems[0].3;
        let right = is_right(&results.c, want) && rows_are_right(results.rows.as_deref(), want);
        (report, right)
    })
}

fn shrink<T: Element>(b: &mut Dense<T>, trial: &Trial) {
    if trial.shrink < 1.0 && T::SPREAD == 1.0 {
        b.data_mut().iter_mut().for_each(|value| *value = T::from_f64(value.to_f64() * trial.shrink));
    }
}

fn sampled<A: Element, B: Element, C: Element>(spec: KernelSpec, trial: Trial) -> Run {
    let sign = |sign: f64| trial.negative.then_some(sign);
    let drawn = |member: &Member| {
        let Shape { dense, rows, cols } = member.shape(&spec);
        let mut a = Dense::<A>::normal(rows, dense.0, Layout::RowMajor, member.seed);
        signed(a.data_mut(), sign(1.0));
        let mut b = Dense::<B>::normal(dense.0, cols, Layout::RowMajor, member.seed + 1);
        signed(b.data_mut(), sign(-1.0));
        shrink(&mut b, &trial);
        let structure = member.structure.clone();
        let program = spec.epilogue.map(|epilogue| epilogue.program());
        let inputs = program.map(|program| Inputs::random_blocks(program, &structure, member.seed)).unwrap_or_default();
        let list: Vec<usize> = (0..structure.nnzb()).collect();
        let want = reference::expected_blocks(&spec, &a, &b, &structure, &list, &inputs).unwrap();
        (a.to_layout(spec.a_layout), b.to_layout(spec.b_layout), structure, inputs, want)
    };
    let problems: Vec<_> = trial.members.iter().map(drawn).collect();
    let blocks = |values: Vec<C>, structure: &Structure| {
        let size = structure.block().0 * structure.block().1;
        Dense::from_vec(structure.nnzb(), size, Layout::RowMajor, size, values).unwrap()
    };
    Box::new(move |kernel, options| {
        if spec.batch.is_on() {
            let list = problems.iter().map(|(a, b, structure, ..)| (a, b, structure));
            let (results, report) = kernel.multiply_batch::<C, _>(list, options).unwrap();
            let mut all = results.into_iter().zip(&problems);
            return (report, all.all(|(values, drawn)| is_right(&blocks(values, &drawn.2), &drawn.4)));
        }
        let (a, b, structure, inputs, want) = &problems[0];
        let (results, report) = kernel.multiply::<C, _>((a, b, structure, inputs), options).unwrap();
        let right = rows_are_right(results.rows.as_deref(), want) && is_right(&blocks(results.c, structure), want);
        (report, right)
    })
}

fn is_right<C: Element>(got: &Dense<C>, want: &Fused) -> bool {
    let rows: Vec<usize> = (0..got.rows()).collect();
    let comparison = Comparison::of_rows(got, &rows, &want.c).unwrap();
    unwritten(got) == 0 && comparison.passes(want.tolerance) && want.beyond(got, &rows) == 0
}

fn rows_are_right(got: Option<&[f32]>, want: &Fused) -> bool {
    want.compare_rows(got).unwrap().passes(want.rows_tolerance()) && got.and_then(|got| want.row_beyond(got)).is_none()
}
