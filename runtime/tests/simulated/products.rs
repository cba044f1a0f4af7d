//! Kernels on the simulator: right where a launch is possible, refused in words where it is not.

use bsr_codegen::Plan;
use bsr_runtime::reference::{Comparison, multiply, multiply_scaled};
use bsr_runtime::simulated::{Options, Schedule, Simulated, SimulatedError};
use bsr_runtime::{Bsr, Dense, Dtype, Element, KernelError, Layout, Pattern, Results, Scale, Scales, Structure, e4m3};
use half::{bf16, f16};

use crate::kernel;

const SMALL: &str = "bm = 64, bn = 32, bk = 32";

fn assert_right<T: Element, C: Element>(kernel: &Simulated, a: &Bsr<T>, b: &Dense<T>, tolerance: f64) {
    let (Results { c, .. }, report) = kernel.multiply::<C, _>((a, b), &Options::default()).unwrap();
    assert!(report.is_clean(), "{:?}", report.findings);
    let comparison = Comparison::of_dense(&c, &multiply(a, b).unwrap()).unwrap();
    assert!(comparison.passes(tolerance), "{comparison}");
}

#[test]
fn every_number_of_clusters_gives_the_product() {
    let a = Bsr::<f16>::generate(Pattern::Random(0.5), 250, 90, (64, 32), 1).unwrap();
    let b = Dense::normal(90, 70, Layout::RowMajor, 1);
    for clusters in [0, 1, 3, 100] {
        assert_right::<f16, f16>(&kernel(SMALL).with_clusters(clusters), &a, &b, 2e-3);
    }
}

#[test]
fn types_and_layouts_are_those_of_the_spec() {
    let kernel = kernel("bm = 64, bn = 32, bk = 32, dtype = bf16, out = f32, b_layout = col, c_layout = col");
    let a = Bsr::<bf16>::generate(Pattern::TopK(2), 128, 96, (64, 32), 2).unwrap();
    let b = Dense::normal(96, 33, Layout::ColMajor, 2);
    assert_right::<bf16, f32>(&kernel, &a, &b, 1e-5);

    let refused = kernel.multiply::<f32, _>((&a.cast::<f16>(), &b), &Options::default());
    assert!(matches!(refused, Err(SimulatedError::Kernel(KernelError::Dtype { operand: "A", .. }))));
    let refused = kernel.multiply::<f32, _>((&a, &b.to_layout(Layout::RowMajor)), &Options::default());
    assert!(matches!(refused, Err(SimulatedError::Kernel(KernelError::Layout { operand: "B", .. }))));
    let refused = kernel.multiply::<f32, _>((&a, &Dense::<bf16>::zeros(95, 33, Layout::ColMajor)), &Options::default());
    assert!(matches!(refused, Err(SimulatedError::Kernel(KernelError::Shapes { a_cols: 96, b_rows: 95, .. }))));
}

#[test]
fn matrices_without_blocks_rows_or_columns_are_multiplied() {
    let kernel = kernel(SMALL);
    let empty = |rows, cols| Bsr::<f16>::normal(Structure::empty(rows, cols, (64, 32)).unwrap(), 0);
    let b = |cols| Dense::<f16>::normal(96, cols, Layout::RowMajor, 0);
    assert_right::<f16, f16>(&kernel, &empty(100, 96), &b(1), 0.0);
    assert_right::<f16, f16>(&kernel, &empty(100, 0), &Dense::zeros(0, 40, Layout::RowMajor), 0.0);
    for (rows, cols) in [(0, 5), (100, 0)] {
        let (Results { c, .. }, report) =
            kernel.multiply::<f16, _>((&empty(rows, 96), &b(cols)), &Options::default()).unwrap();
        assert_eq!((c.rows(), c.cols(), report.cost.steps), (rows, cols, 0));
    }
}

#[test]
fn lines_of_b_that_do_not_start_on_16_bytes_are_copied() {
    let a = Bsr::<f16>::generate(Pattern::TopK(1), 64, 32, (64, 32), 3).unwrap();
    let whole = Dense::<f16>::normal(32, 11, Layout::RowMajor, 3);
    let tight: Vec<f16> = (0..32).flat_map(|row| whole.view().line(row).to_vec()).collect();
    let b = Dense::from_vec(32, 11, Layout::RowMajor, 11, tight).unwrap();
    assert_right::<f16, f16>(&kernel(SMALL), &a, &b, 2e-3);
}

#[test]
fn scales_go_with_the_kernel_and_the_problem() {
    let structure = Pattern::TopK(2).structure(100, 96, (64, 32), 4).unwrap();
    let a = Bsr::<e4m3>::normal(structure.clone(), 4);
    let b = Dense::<e4m3>::normal(96, 40, Layout::ColMajor, 4);
    let fp8 = format!("{SMALL}, dtype = e4m3, out = f32");
    let options = Options::default();
    let refused = |kernel: &Simulated, scales: &Scales| {
        let error = kernel.multiply::<f32, _>((&a, &b, scales), &options).unwrap_err();
        match error {
            SimulatedError::Kernel(error) => error,
            other => panic!("{other}"),
        }
    };
    let unscaled = kernel(&fp8);
    let tensor = Scales::tensor(0.5, 3.0).unwrap();
    let error = refused(&unscaled, &tensor);
    assert!(matches!(error, KernelError::Scales { found: Scale::Tensor, expected: Scale::Unscaled }), "{error:?}");
    for scale in [Scale::Tensor, Scale::RowCol, Scale::Block] {
        let kernel = kernel(&format!("{fp8}, scale = {scale}"));
        let error = refused(&kernel, &Scales::NONE);
        assert!(matches!(error, KernelError::Scales { found: Scale::Unscaled, .. }), "{error:?}");
        let scales = Scales::random(scale, &structure, 40, 5);
        let (Results { c, .. }, report) = kernel.multiply::<f32, _>((&a, &b, &scales), &options).unwrap();
        assert!(report.is_clean(), "{:?}", report.findings);
        let comparison = Comparison::of_dense(&c, &multiply_scaled(&a, &b, &scales).unwrap()).unwrap();
        assert!(comparison.passes(1e-5), "{scale}: {comparison}");
    }
    let error = refused(&kernel(&format!("{fp8}, scale = row_col")), &Scales::row_col(vec![1.0; 100], vec![]).unwrap());
    assert!(matches!(error, KernelError::Refused(_)), "{error:?}");
    let row_major = b.to_layout(Layout::RowMajor);
    let error = unscaled.multiply::<f32, _>((&a, &row_major), &options).unwrap_err();
    assert!(matches!(error, SimulatedError::Kernel(KernelError::AlongK { dtype: Dtype::E4M3, .. })), "{error:?}");
}

#[test]
fn a_kernel_that_adds_to_c_finds_zeros_and_leaves_the_padding_alone() {
    let kernel = kernel("bm = 64, bn = 32, bk = 32, mma = scalar, dtype = f32, accumulate = atomic");
    let a = Bsr::<f32>::generate(Pattern::Random(0.5), 100, 90, (64, 32), 6).unwrap();
    let b = Dense::normal(90, 41, Layout::RowMajor, 6);
    assert_right::<f32, f32>(&kernel, &a, &b, 1e-5);
    let (Results { c, .. }, _) = kernel.multiply::<f32, _>((&a, &b), &Options::default()).unwrap();
    assert!(c.data().chunks(c.ld()).all(|line| line[41..].iter().all(|x| x.is_nan())));

    // Without blocks nothing is launched, and C is zero.
    let empty = Bsr::<f32>::normal(Structure::empty(100, 90, (64, 32)).unwrap(), 0);
    let (Results { c, .. }, report) = kernel.multiply::<f32, _>((&empty, &b), &Options::default()).unwrap();
    assert_eq!(report.cost.steps, 0);
    assert!(c.to_f64().iter().all(|x| *x == 0.0));

    // More column tiles than a grid has in y, of one row and one column of A.
    let narrow = Bsr::<f32>::generate(Pattern::Random(1.0), 1, 1, (64, 32), 0).unwrap();
    let wide = Dense::<f32>::zeros(1, 65_536 * 32, Layout::RowMajor);
    let error = kernel.multiply::<f32, _>((&narrow, &wide), &Options::default()).unwrap_err();
    assert!(matches!(error, SimulatedError::Kernel(KernelError::Grid { limit: 65_535, .. })), "{error}");
}

#[test]
fn what_is_not_the_plans_ptx_is_refused() {
    let plan = Plan::new(&SMALL.parse().unwrap()).unwrap();
    let ptx = plan.ptx();
    let broken = ptx.text().replacen("wgmma.fence.sync.aligned;", "wgmma.fence.sinc.aligned;", 1);
    let line = 1 + broken.lines().position(|line| line.contains("sinc")).unwrap() as u32;
    let error = Simulated::new(&plan, &broken, ptx.entry()).unwrap_err();
    assert_eq!(error.span.line, line, "{error}");
    assert!(error.span.column > 1);

    let kernel = Simulated::new(&plan, ptx.text(), "another").unwrap();
    let a = Bsr::<f16>::generate(Pattern::TopK(1), 64, 32, (64, 32), 0).unwrap();
    let b = Dense::<f16>::normal(32, 8, Layout::RowMajor, 0);
    let error = kernel.multiply::<f16, _>((&a, &b), &Options::default()).unwrap_err();
    assert!(error.to_string().contains(ptx.entry()) && error.to_string().contains("help: "), "{error}");
}

#[test]
fn a_missing_wait_is_found_and_the_run_can_be_replayed() {
    let plan = Plan::new(&SMALL.parse().unwrap()).unwrap();
    let ptx = plan.ptx();
    let text: Vec<&str> = ptx.text().lines().filter(|line| !line.contains("wgmma.wait_group")).collect();
    let kernel = Simulated::new(&plan, &text.join("\n"), ptx.entry()).unwrap();
    let a = Bsr::<f16>::generate(Pattern::TopK(3), 64, 96, (64, 32), 0).unwrap();
    let b = Dense::<f16>::normal(96, 32, Layout::RowMajor, 0);
    let options = Options { schedule: Schedule::Scrambled, seed: 5, ..Options::default() };
    let findings = || kernel.multiply::<f16, _>((&a, &b), &options).unwrap().1.findings;
    assert!(!findings().is_empty());
    assert_eq!(findings(), findings());
}
