//! Every operation on the simulator: dds, transposed operands, lists of problems, in every layout, at shapes that are
//! multiples of nothing.
//!
//! Lines of the dense factor that no stored block meets are NaN, and so is its padding; C starts as NaN. What is refused

//! is refused by name.

use bsr_codegen::{KernelSpec, Op, Plan};
use bsr_runtime::kernel::KernelError;
use bsr_runtime::kernel::arguments::ByKind;
use bsr_runtime::reference::{self, Comparison};
use bsr_runtime::schedule::BlockIndex;
use bsr_runtime::simulated::{Options, Schedule, Simulated, SimulatedError};
use bsr_runtime::{Bsr, Dense, Element, Inputs, Layout, Pattern, Results, Scales, Structure};
use half::f16;
use proptest::prelude::*;

use crate::simulated;

/// The sparse factor is read as `rows` x `k`, the dense one has `columns`.
#[derive(Clone, Copy, Debug)]
struct Shape {
    rows: usize,
    columns: usize,
    k: usize,
}

fn plan(text: &str) -> Plan {
    Plan::new(&text.parse::<KernelSpec>().unwrap()).unwrap_or_else(|errors| panic!("{text}\n{errors}"))
}

fn kernel(plan: &Plan) -> Simulated {
    simulated(plan).with_clusters(2)
}

/// The block as the kernel reads it.
fn block(plan: &Plan) -> (usize, usize) {
    let (bm, bk) = (plan.spec().bm as usize, plan.spec().bk as usize);
    if plan.reads_block_columns() { (bk, bm) } else { (bm, bk) }
}

fn sparse(plan: &Plan, shape: Shape, density: f64, seed: u64) -> Bsr<f16> {
    let read = Pattern::Random(density).structure(shape.rows, shape.k, block(plan), seed).unwrap();
    Bsr::normal(if plan.reads_block_columns() { read.transpose().unwrap() } else { read }, seed)
}

/// The dense factor; NaN wherever no stored block multiplies it, between the lines too.
fn dense(plan: &Plan, shape: Shape, sparse: &Bsr<f16>, seed: u64) -> Dense<f16> {
    let (spec, depth) = (plan.spec(), block(plan).1);
    let index = BlockIndex::new(plan, sparse.structure());
    let met: std::collections::HashSet<usize> = index.col_idx.iter().map(|column| *column as usize).collect();
    let (rows, cols, layout) = match spec.op {
        Op::Dds => (shape.columns, shape.k, spec.a_layout),
        _ => (shape.k, shape.columns, spec.b_layout),
    };
    let drawn = Dense::<f16>::normal(rows, cols, layout, seed + 1);
    let mut dense = Dense::filled(rows, cols, layout, f16::NAN);
    let ld = dense.ld();
    for row in 0..rows {
        for col in 0..cols {
            let k = if spec.op == Op::Dds { col } else { row };
            if met.contains(&(k / depth)) {
                let at = if layout == Layout::RowMajor { row * ld + col } else { col * ld + row };
                dense.data_mut()[at] = drawn.get(row, col).unwrap();
            }
        }
    }
    dense
}

/// The reference knows nothing of NaN that is not multiplied: it sees zeros there.
fn want(plan: &Plan, sparse: &Bsr<f16>, dense: &Dense<f16>) -> Vec<f64> {
    let clean = Dense::from_fn(dense.rows(), dense.cols(), dense.layout(), |row, col| {
        let value = dense.get(row, col).unwrap();
        if value.is_nan() { f16::ZERO } else { value }
    });
    reference::product(plan.spec(), sparse, &clean, &Scales::NONE).unwrap()
}

fn judge<C: Element>(plan: &Plan, sparse: &Bsr<f16>, c: &Dense<C>, want: &[f64]) -> Result<(), String> {
    if want.is_empty() {
        return Ok(());
    }
    let longest = BlockIndex::new(plan, sparse.structure()).longest_sum();
    let comparison = Comparison::of_dense(c, want).unwrap();
    match comparison.passes(reference::tolerance_of(plan.spec(), longest)) {
        true => Ok(()),
        false => Err(format!("{}: {comparison}", plan.spec())),
    }
}

fn options(seed: u64) -> Options {
    Options { schedule: Schedule::Scrambled, seed, ..Options::default() }
}

const LAYOUTS: [(&str, &str); 4] = [("row", "row"), ("row", "col"), ("col", "row"), ("col", "col")];

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_operation_in_every_layout_at_any_shape(
        way in 0usize..16,
        sizes in 0usize..4,
        (rows, columns, k) in (1usize..200, 1usize..90, 1usize..200),
        density in 0.0f64..1.0,
        seed in 0u64..1000,
    ) {
        let (operation, (dense_layout, c_layout)) = (way % 4, LAYOUTS[way / 4]);
        let (rows_of_block, depth) = [(64, 32), (128, 24), (64, 72), (64, 16)][sizes];
        let (op, transpose) = [("dsd", "off"), ("dsd", "on"), ("dds", "off"), ("dds", "on")][operation];
        let by_columns = operation == 1 || operation == 2;
        let (bm, bk) = if by_columns { (depth, rows_of_block) } else { (rows_of_block, depth) };
        let key = if op == "dds" { "a_layout" } else { "b_layout" };
        let plan = plan(&format!(
            "bm = {bm}, bn = 64, bk = {bk}, op = {op}, transpose = {transpose}, {key} = {dense_layout}, c_layout = {c_layout}"
        ));
        let shape = Shape { rows, columns, k };
        let a = sparse(&plan, shape, density, seed);
        let b = dense(&plan, shape, &a, seed);
        let (Results { c, .. }, report) = kernel(&plan).multiply::<f16, _>(ByKind(&a, &b, Inputs::new()), &options(seed)).unwrap();
        prop_assert!(report.is_clean(), "{}: {}", plan.spec(), report.findings[0]);
        judge(&plan, &a, &c, &want(&plan, &a, &b)).map_err(TestCaseError::fail)?;
    }
}

/// The reference against sums over every element, stored or not.
#[test]
fn the_reference_of_every_operation_is_the_product_of_the_dense_matrices() {
    for (op, transpose) in [("dsd", "off"), ("dsd", "on"), ("dds", "off"), ("dds", "on")] {
        let spec: KernelSpec = format!("bm = 8, bn = 16, bk = 5, op = {op}, transpose = {transpose}").parse().unwrap();
        let stored = Bsr::<f32>::generate(Pattern::Random(0.5), 37, 29, (8, 5), 3).unwrap();
        let full = stored.to_dense(Layout::RowMajor);
        let factor = if spec.transpose.is_on() { full.view().transposed().to_dense(Layout::RowMajor) } else { full };
        let free = 11;
        let (dense, a, b);
        if spec.op == Op::Dds {
            dense = Dense::<f32>::normal(free, factor.rows(), Layout::ColMajor, 5);
            (a, b) = (dense.clone(), factor);
        } else {
            dense = Dense::<f32>::normal(factor.cols(), free, Layout::RowMajor, 5);
            (a, b) = (factor, dense.clone());
        }
        let got = reference::product(&spec, &stored, &dense, &Scales::NONE).unwrap();
        assert_eq!(got.len(), a.rows() * b.cols());
        for row in 0..a.rows() {
            for col in 0..b.cols() {
                let term = |k| a.get(row, k).unwrap() as f64 * b.get(k, col).unwrap() as f64;
                let sum: f64 = (0..a.cols()).map(term).sum();
                let difference = (got[row * b.cols() + col] - sum).abs();
                assert!(difference < 1e-9, "{spec} at {row}, {col}: {difference}");
            }
        }
        let some = [0, 3, a.rows() - 1];
        let rows = reference::product_rows(&spec, &stored, &dense, &Scales::NONE, &some).unwrap();
        for (at, row) in some.into_iter().enumerate() {
            assert_eq!(rows[at * b.cols()..][..b.cols()], got[row * b.cols()..][..b.cols()], "{spec}, row {row}");
        }
        let wrong = Dense::<f32>::zeros(dense.rows() + 1, dense.cols() + 1, Layout::RowMajor);
        assert!(reference::product(&spec, &stored, &wrong, &Scales::NONE).is_err());
    }
}

/// A list of problems whose dense factors are NaN where no stored block reads them, several of them shared.
#[test]
fn a_batch_reads_nothing_of_other_problems() {
    let plan = plan("bm = 64, bn = 64, bk = 24, batch = on");
    let shapes = [(100, 70, 100), (64, 1, 24), (200, 64, 61), (130, 9, 300)];
    let shapes = shapes.map(|(rows, columns, k)| Shape { rows, columns, k });
    let sparse: Vec<_> = shapes.iter().map(|shape| sparse(&plan, *shape, 0.5, shape.k as u64)).collect();
    let dense: Vec<_> = shapes.iter().zip(&sparse).map(|(shape, a)| dense(&plan, *shape, a, shape.k as u64)).collect();
    let mut problems: Vec<_> = sparse.iter().zip(&dense).collect();
    problems.push(problems[1]);
    let (results, report) = kernel(&plan).multiply_batch::<f16, _>(problems.iter().copied(), &options(5)).unwrap();
    assert!(report.is_clean(), "{}", report.findings[0]);
    for ((a, b), c) in problems.into_iter().zip(&results) {
        judge(&plan, a, c, &want(&plan, a, b)).unwrap();
    }
}

#[test]
fn what_does_not_fit_an_operation_is_refused_by_name() {
    let refused = |text: &str, a: &Bsr<f16>, b: &Dense<f16>| -> KernelError {
        let outcome = kernel(&plan(text)).multiply::<f16, _>(ByKind(a, b, Inputs::new()), &options(0));
        match outcome {
            Err(SimulatedError::Kernel(error)) => {
                assert!(error.to_string().contains("help: "), "{error}");
                error
            }
            other => panic!("{text}: {:?}", other.map(|(_, report)| report)),
        }
    };
    let matrix = |rows, cols, block| Bsr::<f16>::generate(Pattern::Random(1.0), rows, cols, block, 1).unwrap();
    let stored = matrix(96, 256, (32, 128));
    let dense = |rows, cols, layout| Dense::<f16>::normal(rows, cols, layout, 2);
    let dsd = "bm = 32, bn = 64, bk = 128, transpose = on";
    let dds = "bm = 32, bn = 64, bk = 128, op = dds";

    // A^T is 256 x 96, B is 96 x 256.
    for (text, right, product) in [(dsd, (96, 50), "A^T * B[k, n]"), (dds, (50, 96), "with B sparse")] {
        for (rows, cols) in [(right.0 + 1, right.1 + 1), (right.1, right.0), (256, 50)] {
            let error = refused(text, &stored, &dense(rows, cols, Layout::RowMajor));
            assert!(matches!(error, KernelError::Shapes { .. }) && error.to_string().contains(product), "{error}");
        }
        let error = refused(text, &stored, &dense(right.0, right.1, Layout::ColMajor));
        let named = if text == dds { ("A", "a_layout") } else { ("B", "b_layout") };
        assert!(matches!(error, KernelError::Layout { operand, key, .. } if (operand, key) == named), "{error:?}");
        let error = refused(text, &matrix(96, 256, (128, 32)), &dense(right.0, right.1, Layout::RowMajor));
        assert!(matches!(error, KernelError::Block { found_m: 128, found_k: 32, .. }), "{error:?}");
        let wide = Bsr::<f16>::normal(Structure::empty(96, 1 << 30, (32, 128)).unwrap(), 0);
        let error = refused(text, &wide, &dense(right.0, right.1, Layout::RowMajor));
        assert!(matches!(error, KernelError::TooLarge { .. }), "{error:?}");
    }

    // A kernel of another operation, of lists, or for one product.
    let b = dense(96, 50, Layout::RowMajor);
    let outcome = kernel(&plan(dds)).multiply::<f16, _>((&stored, &b), &options(0));
    assert!(matches!(outcome, Err(SimulatedError::Kernel(KernelError::Factors { expected: Op::Dds }))));
    let batched = format!("{dsd}, batch = on");
    assert!(matches!(refused(&batched, &stored, &b), KernelError::Batch { batch: true }));
    let outcome = kernel(&plan(dsd)).multiply_batch::<f16, _>([(&stored, &b)], &options(0));
    assert!(matches!(outcome, Err(SimulatedError::Kernel(KernelError::Batch { batch: false }))));

    // The second of three does not fit.
    let wrong = dense(97, 50, Layout::RowMajor);
    let problems = [(&stored, &b), (&stored, &wrong), (&stored, &b)];
    match kernel(&plan(&batched)).multiply_batch::<f16, _>(problems, &options(0)) {
        Err(SimulatedError::Kernel(error @ KernelError::Problem { index: 1, .. })) => {
            let text = error.to_string();
            assert!(text.contains("problem 1 of the batch: the shapes do not multiply"), "{text}");
        }
        other => panic!("{:?}", other.map(|(_, report)| report)),
    }
}
