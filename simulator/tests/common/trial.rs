//! The problems of `bsr check` for a kernel of any family, each with its operands and its reference, so that many variants
//! of the kernel's text can be judged by them.

use bsr::arguments::ByKind;
use bsr::reference::{self, Comparison, Fused, unwritten};
use bsr::simulated::{Coverage, Options, Report, Simulated};
use bsr::{Bsr, Dense, Dtype, Element, Inputs, KernelSpec, Layout, Op, Permutation, Plan, Scales, bf16, e4m3, f16};

use crate::reasons;
use crate::trials::{Kind, Shape, Trial, schedule};

/// Schedules for each problem, as `bsr check` has them by default.
const SCHEDULES: u32 = 4;

/// What one run gives: the report, and whether the result is right.
type Run = Box<dyn Fn(&Simulated, &Options) -> (Report, bool) + Send + Sync>;

/// A problem with its operands.
pub(crate) struct Problem {
    pub(crate) kind: Kind,
    clusters: u32,
    far: bool,
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
        let (kind, clusters, far) = (Kind::of(plan, index), trial.clusters, trial.far);
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
        Self { kind, clusters, far, schedules, run }
    }

    fn kernel(&self, kernel: &Simulated) -> Simulated {
        kernel.clone().with_clusters(self.clusters).with_far_lines(self.far)
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
    let Shape { dense, rows, cols } = trial.shape(&spec);
    let mut values = Bsr::<A>::normal(trial.structure.clone(), trial.seed).values().to_vec();
    signed(&mut values, trial.negative.then_some(1.0));
    let a = Bsr::from_structure(trial.structure.clone(), values).unwrap();
    let mut b = Dense::<B>::normal(dense.0, dense.1, Layout::RowMajor, trial.seed);
    signed(b.data_mut(), trial.negative.then_some(-1.0));
    if trial.shrink < 1.0 && B::SPREAD == 1.0 {
        b.data_mut().iter_mut().for_each(|value| *value = B::from_f64(value.to_f64() * trial.shrink));
    }
    let scales = Scales::random(spec.scale, &trial.structure, trial.n, trial.seed);
    let scales = scales.times(1.0 / A::SPREAD, 1.0 / B::SPREAD).unwrap();
    let program = spec.epilogue.map(|epilogue| epilogue.program());
    let drawn = program.map(|program| Inputs::random(program, (rows, cols), spec.c_layout, trial.seed));
    let mut inputs = drawn.unwrap_or_default().scales(scales.clone());
    if spec.permute.is_on() {
        inputs = inputs.order(Permutation::random(rows, trial.seed));
    }
    let list: Vec<usize> = (0..rows).collect();
    let sums = reference::product_rows(&spec, &a, &b, &scales, &inputs.sources(&list)).unwrap();
    let longest = trial.structure.rows().max(trial.structure.cols());
    let want = reference::fuse(&spec, sums, &list, cols, longest, &inputs).unwrap();
    let layout = if spec.op == Op::Dds { spec.a_layout } else { spec.b_layout };
    let b = b.to_layout(layout);
    Box::new(move |kernel, options| {
        if spec.batch.is_on() {
            let (results, report) =
                kernel.multiply_batch::<C, _>([ByKind(&a, &b, &inputs), ByKind(&a, &b, &inputs)], options).unwrap();
            let right = results.iter().all(|c| is_right(c, &list, &want));
            return (report, right);
        }
        let (results, report) = kernel.multiply::<C, _>(ByKind(&a, &b, &inputs), options).unwrap();
        let right = is_right(&results.c, &list, &want) && rows_are_right(results.rows.as_deref(), &want);
        (report, right)
    })
}

fn sampled<A: Element, B: Element, C: Element>(spec: KernelSpec, trial: Trial) -> Run {
    let Shape { dense, rows, cols } = trial.shape(&spec);
    let mut a = Dense::<A>::normal(rows, dense.0, Layout::RowMajor, trial.seed);
    signed(a.data_mut(), trial.negative.then_some(1.0));
    let mut b = Dense::<B>::normal(dense.0, cols, Layout::RowMajor, trial.seed + 1);
    signed(b.data_mut(), trial.negative.then_some(-1.0));
    if trial.shrink < 1.0 && B::SPREAD == 1.0 {
        b.data_mut().iter_mut().for_each(|value| *value = B::from_f64(value.to_f64() * trial.shrink));
    }
    let structure = trial.structure;
    let program = spec.epilogue.map(|epilogue| epilogue.program());
    let inputs = program.map(|program| Inputs::random_blocks(program, &structure, trial.seed)).unwrap_or_default();
    let list: Vec<usize> = (0..structure.nnzb()).collect();
    let sums = match spec.transpose.is_on() {
        true => reference::sddmm_blocks(b.view().transposed(), a.view().transposed(), &structure, &list).unwrap(),
        false => reference::sddmm_blocks(a.view(), b.view(), &structure, &list).unwrap(),
    };
    let want = reference::fuse_blocks(&spec, sums, &structure, &list, dense.0, &inputs).unwrap();
    let (a, b) = (a.to_layout(spec.a_layout), b.to_layout(spec.b_layout));
    let size = structure.block().0 * structure.block().1;
    let blocks = move |values: Vec<C>, count| Dense::from_vec(count, size, Layout::RowMajor, size, values).unwrap();
    Box::new(move |kernel, options| {
        let count = structure.nnzb();
        if spec.batch.is_on() {
            let twice = [(&a, &b, &structure), (&a, &b, &structure)];
            let (results, report) = kernel.multiply_batch::<C, _>(twice, options).unwrap();
            let right = results.into_iter().all(|values| is_right(&blocks(values, count), &list, &want));
            return (report, right);
        }
        let (results, report) = kernel.multiply::<C, _>((&a, &b, &structure, &inputs), options).unwrap();
        let right = rows_are_right(results.rows.as_deref(), &want) && is_right(&blocks(results.c, count), &list, &want);
        (report, right)
    })
}

fn is_right<C: Element>(got: &Dense<C>, rows: &[usize], want: &Fused) -> bool {
    let comparison = Comparison::of_rows(got, rows, &want.c).unwrap();
    unwritten(got) == 0 && comparison.passes(want.tolerance)
}

fn rows_are_right(got: Option<&[f32]>, want: &Fused) -> bool {
    want.compare_rows(got).unwrap().passes(want.rows_tolerance())
}
