#![deny(warnings, missing_docs)]
//! Small blocks in f64, and of f32 values with vectors of f64.

use bsr::{Bsr, Dense, Dtype, Kernel, bsr_kernel};

/// A matrix of displacements times a vector.
#[bsr_kernel(bm = 3, bn = 1, bk = 3, mma = scalar, b_layout = col, c_layout = col)]
pub fn spmv(a: Bsr<f64>, x: Dense<f64>) -> Dense<f64>;

/// The same with values in half the bytes.
#[bsr_kernel(bm = 3, bn = 1, bk = 3, mma = scalar, b_layout = col, c_layout = col)]
pub fn spmv_of_f32(a: Bsr<f32>, x: Dense<f64>) -> Dense<f64>;

/// A vector of f32, whose products with f64 values are summed in f64.
#[bsr_kernel(bm = 3, bn = 1, bk = 3, mma = scalar, b_layout = col, c_layout = col)]
pub fn spmv_of_f64(a: Bsr<f64>, x: Dense<f32>) -> Dense<f32>;

/// A transposed times a vector, and what is done with the sums in f64.
#[bsr_kernel(bm = 3, bn = 1, bk = 3, mma = scalar, transpose = on, b_layout = col, c_layout = col)]
pub fn residual(a: Bsr<f64>, x: Dense<f64>, b: Dense<f64>, scale: Rows<f64>) -> Dense<f64> {
    (b - acc) * scale
}

#[test]
fn types_say_what_is_summed() {
    let types = |spec: &bsr::KernelSpec| [spec.a, spec.b, spec.out, spec.acc];
    assert_eq!(types(&spmv::SPEC), [Dtype::F64; 4]);
    assert_eq!(types(&spmv_of_f32::SPEC), [Dtype::F32, Dtype::F64, Dtype::F64, Dtype::F64]);
    assert_eq!(types(&spmv_of_f64::SPEC), [Dtype::F64, Dtype::F32, Dtype::F32, Dtype::F64]);
}

#[cfg(feature = "simulator")]
#[test]
fn they_multiply() {
    use bsr::simulated::Options;
    use bsr::{Layout, Pattern};

    let a = Bsr::<f32>::generate(Pattern::Random(0.2), 301, 200, (3, 3), 1).unwrap();
    let x = Dense::<f64>::normal(200, 1, Layout::ColMajor, 2);
    let want = bsr::reference::multiply(&a, &x).unwrap();
    let (of_f32, report) = spmv_of_f32::simulate((&a, &x), &Options::default()).unwrap();
    assert!(report.is_clean());
    assert!(bsr::reference::relative_error(&of_f32.to_f64(), &want) < 1e-14);
    let (of_f64, _) = spmv::simulate((&a.cast::<f64>(), &x), &Options::default()).unwrap();
    assert_eq!(of_f64.to_f64(), of_f32.to_f64(), "the same values, and the same order of sums");
}

#[cfg(feature = "simulator")]
#[test]
fn they_are_fused_and_transposed() {
    use bsr::simulated::Options;
    use bsr::{Layout, Pattern};

    let a = Bsr::<f64>::generate(Pattern::Random(0.2), 200, 301, (3, 3), 1).unwrap();
    let vector = |rows, seed| Dense::<f64>::normal(rows, 1, Layout::ColMajor, seed);
    let (x, b, scale) = (vector(200, 2), vector(301, 3), vec![0.5; 301]);
    let inputs = residual_inputs { b: &b, scale: &scale };
    let (got, report) = residual::simulate((&a, &x, inputs), &Options::default()).unwrap();
    assert!(report.is_clean());
    let want = bsr::reference::multiply(&a.transpose().unwrap(), &x).unwrap();
    let want: Vec<f64> = want.iter().zip(b.to_f64()).map(|(sum, b)| (b - sum) * 0.5).collect();
    assert!(bsr::reference::relative_error(&got.to_f64(), &want) < 1e-14);

    let (y, report) =
        spmv_of_f64::simulate((&a, &Dense::<f32>::normal(301, 1, Layout::ColMajor, 4)), &Options::default()).unwrap();
    assert!(report.is_clean());
    let want = bsr::reference::multiply(&a, &Dense::<f32>::normal(301, 1, Layout::ColMajor, 4)).unwrap();
    assert!(bsr::reference::relative_error(&y.to_f64(), &want) < 6e-8);
}
