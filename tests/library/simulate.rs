//! Kernels of the attribute on the simulator, through the calls that a GPU takes: every operation, with and without what
//! kernels read and write besides A, B and C.
use bsr::prelude::*;
use bsr::reference::{self, relative_error};
use bsr::simulated::{Report, SimulatedError};
use bsr::{Kernel, KernelError};

#[bsr_kernel(bm = 64, bn = 64, bk = 32)]
fn dsd(a: Bsr<f16>, b: Dense<f16>) -> Dense<f16>;

#[bsr_kernel(bm = 64, bn = 64, bk = 64)]
fn dds(a: Dense<f16>, b: Bsr<f16>) -> Dense<f32>;

#[bsr_kernel(bm = 64, bn = 64, bk = 64)]
fn sdd(a: Dense<f16>, b: Dense<f16>) -> Bsr<f16>;

#[bsr_kernel(bm = 64, bn = 64, bk = 32)]
fn normed(a: Bsr<f16>, b: Dense<f16>, bias: Rows<f32>, gain: Cols<f16>) -> (Dense<f32>, Rows<f32>) {
    let x = (acc + bias) * gain;
    (x, row_sum(x * x))
}

#[bsr_kernel(bm = 64, bn = 64, bk = 64)]
fn masked(a: Dense<f16>, b: Dense<f16>, mask: Bsr<f16>, alpha: f32) -> (Bsr<f16>, Rows<f32>) {
    let x = alpha * acc * mask;
    (x, row_max(abs(x)))
}

#[bsr_kernel(bm = 64, bn = 64, bk = 32, scale = row_col)]
fn fp8(a: Bsr<e4m3>, b: Dense<e4m3>) -> Dense<f32>;

#[bsr_kernel(bm = 64, bn = 64, bk = 32, permute = on)]
fn reordered(a: Bsr<f16>, b: Dense<f16>) -> Dense<f16>;

#[bsr_kernel(bm = 64, bn = 64, bk = 32, beta = on)]
fn adding(a: Bsr<f16>, b: Dense<f16>) -> Dense<f32>;

#[bsr_kernel(bm = 64, bn = 64, bk = 32, scale = tensor, permute = on)]
fn scaled_and_reordered(a: Bsr<e4m3>, b: Dense<e4m3>) -> Dense<f32>;

const SHAPE: (usize, usize, usize) = (150, 70, 90);

fn sparse<T: bsr::Element>(rows: usize, cols: usize, block: (usize, usize)) -> Bsr<T> {
    Bsr::generate(Pattern::Random(0.6), rows, cols, block, 7).unwrap()
}

fn dense<T: bsr::Element>(rows: usize, cols: usize, layout: Layout) -> Dense<T> {
    Dense::normal(rows, cols, layout, (rows * cols) as u64)
}

/// The result of a run that found nothing.
fn clean<T>(run: Result<(T, Report), SimulatedError>) -> T {
    let (result, report) = run.unwrap();
    assert!(report.is_clean(), "{}", report.findings[0]);
    result
}

fn assert_near(got: &[f64], want: &[f64], tolerance: f64) {
    let error = relative_error(got, want);
    assert!(error < tolerance, "{error}");
}

#[test]
fn every_operation_is_multiplied_with_its_own_types() {
    let (m, n, k) = SHAPE;
    let a = sparse::<f16>(m, k, (64, 32));
    let b = dense::<f16>(k, n, Layout::RowMajor);
    let c: Dense<f16> = clean(dsd::simulate((&a, &b), &Options::default()));
    assert_near(&c.to_f64(), &reference::multiply(&a, &b).unwrap(), 2e-3);

    let (left, right) = (dense::<f16>(m, k, Layout::RowMajor), sparse::<f16>(k, n, (64, 64)));
    let c: Dense<f32> = clean(dds::simulate((&left, &right), &Options::default()));
    let want = reference::product(&dds::SPEC, &right, &left, &Scales::NONE).unwrap();
    assert_near(&c.to_f64(), &want, 1e-5);

    let pattern = Pattern::Random(0.6).structure(m, n, (64, 64), 3).unwrap();
    let c: Bsr<f16> = clean(sdd::simulate((&left, &b, &pattern), &Options::default()));
    assert_eq!(c.structure(), &pattern);
    let got: Vec<f64> = c.values().iter().map(|value| f64::from(value.to_f32())).collect();
    assert_near(&got, &reference::sddmm(&left, &b, &pattern).unwrap(), 2e-3);
}

#[test]
fn an_epilogue_reads_typed_operands_and_has_two_results() {
    let (m, n, k) = SHAPE;
    let (a, b) = (sparse::<f16>(m, k, (64, 32)), dense::<f16>(k, n, Layout::RowMajor));
    let (bias, gain) = (vec![0.5_f32; m], vec![f16::from_f32(2.0); n]);
    let inputs = normed_inputs { bias: &bias, gain: &gain };
    let (c, sums) = clean(normed::simulate((&a, &b, inputs), &Options::default()));
    let want: Vec<f64> = reference::multiply(&a, &b).unwrap().iter().map(|sum| 2.0 * (sum + 0.5)).collect();
    assert_near(&c.to_f64(), &want, 1e-5);
    let squares: Vec<f64> = want.chunks(n).map(|row| row.iter().map(|x| x * x).sum()).collect();
    assert_near(&sums.iter().map(|sum| f64::from(*sum)).collect::<Vec<_>>(), &squares, 1e-5);
    // The same by name.
    let by_name = Inputs::new().vector("bias", bias.clone()).vector("gain", gain.clone());
    let (again, _) = clean(normed::simulate((&a, &b, &by_name), &Options::default()));
    assert_eq!(again.to_f64(), c.to_f64());
}

#[test]
fn the_epilogue_of_a_sampled_product_reads_blocks() {
    let (m, n, k) = SHAPE;
    let (a, b) = (dense::<f16>(m, k, Layout::RowMajor), dense::<f16>(k, n, Layout::RowMajor));
    let mask = sparse::<f16>(m, n, (64, 64));
    let inputs = masked_inputs { mask: &mask, alpha: 0.25 };
    let (c, greatest) = clean(masked::simulate((&a, &b, mask.structure(), inputs), &Options::default()));
    let sums = reference::sddmm(&a, &b, mask.structure()).unwrap();
    let want: Vec<f64> =
        sums.iter().zip(mask.values()).map(|(sum, mask)| 0.25 * sum * f64::from(mask.to_f32())).collect();
    let got: Vec<f64> = c.values().iter().map(|value| f64::from(value.to_f32())).collect();
    assert_near(&got, &want, 2e-3);
    let full = c.to_dense(Layout::RowMajor);
    for (row, greatest) in greatest.iter().enumerate().filter(|(_, greatest)| greatest.is_finite()) {
        let most = (0..n).map(|col| full.get(row, col).unwrap().to_f32().abs()).fold(0.0, f32::max);
        assert!((greatest - most).abs() <= 2e-3 * most.max(1.0), "row {row}: {greatest}, not {most}");
    }
}

#[test]
fn scales_and_orders_are_given_alone_or_by_name() {
    let (m, n, k) = SHAPE;
    let (a, b) = (sparse::<e4m3>(m, k, (64, 32)), dense::<e4m3>(k, n, Layout::ColMajor));
    let scales = Scales::random(Scale::RowCol, a.structure(), n, 5);
    let c = clean(fp8::simulate((&a, &b, &scales), &Options::default()));
    assert_near(&c.to_f64(), &reference::multiply_scaled(&a, &b, &scales).unwrap(), 1e-4);

    let order = Permutation::random(m, 9);
    let (a16, b16) = (sparse::<f16>(m, k, (64, 32)), dense::<f16>(k, n, Layout::RowMajor));
    let c = clean(reordered::simulate((&a16, &b16, &order), &Options::default()));
    let (want, got) = (reference::multiply(&a16, &b16).unwrap(), c.to_f64());
    for (row, to) in order.as_slice().iter().enumerate() {
        assert_near(&got[*to as usize * n..][..n], &want[row * n..][..n], 5e-3);
    }

    let both = Inputs::new().scales(Scales::tensor(0.5, 3.0).unwrap()).order(Permutation::identity(m));
    let c = clean(scaled_and_reordered::simulate((&a, &b, both), &Options::default()));
    let want = reference::multiply_scaled(&a, &b, &Scales::tensor(0.5, 3.0).unwrap()).unwrap();
    assert_near(&c.to_f64(), &want, 1e-4);
}

#[test]
fn a_kernel_adds_to_what_c_holds() {
    let (m, n, k) = SHAPE;
    let (a, b) = (sparse::<f16>(m, k, (64, 32)), dense::<f16>(k, n, Layout::RowMajor));
    let before = dense::<f32>(m, n, Layout::RowMajor);
    let sums = reference::multiply(&a, &b).unwrap();
    let want: Vec<f64> = sums.iter().zip(before.to_f64()).map(|(sum, c)| sum + 0.5 * c).collect();
    let c = clean(adding::simulate((&a, &b, adding_inputs { c: &before, beta: 0.5 }), &Options::default()));
    assert_near(&c.to_f64(), &want, 1e-5);
    // The same where C is.
    let in_place = Inputs::new().result("c", before.clone()).scalar("beta", 0.5);
    let c = clean(adding::simulate((&a, &b, in_place), &Options::default()));
    assert_near(&c.to_f64(), &want, 1e-5);
}

#[test]
fn what_types_cannot_say_is_refused_in_words() {
    fn refused<K: Kernel, T>(run: Result<(T, Report), SimulatedError>) -> KernelError {
        match run.map(|_| ()) {
            Err(SimulatedError::Kernel(error)) => error,
            other => panic!("{}: {other:?}", K::SPEC),
        }
    }
    let (m, n, k) = SHAPE;
    let (a, b) = (sparse::<f16>(m, k, (64, 32)), dense::<f16>(k, n, Layout::RowMajor));
    let options = Options::default();
    let short = [1.0_f32; 3];
    let gain = vec![f16::ONE; n];
    let inputs = normed_inputs { bias: &short, gain: &gain };
    let error = refused::<normed, _>(normed::simulate((&a, &b, inputs), &options)).to_string();
    assert!(error.contains("`bias` is a vector of 3 f32") && error.contains("a vector of 150 f32"), "{error}");
    let error = refused::<dsd, _>(dsd::simulate((&a, &b, Inputs::new().scalar("alpha", 1.0)), &options)).to_string();
    assert!(error.contains("`alpha` is given, and the kernel's epilogue has no parameters"), "{error}");
    let scales = Scales::tensor(1.0, 1.0).unwrap();
    let error = refused::<dsd, _>(dsd::simulate((&a, &b, Inputs::from(&scales)), &options)).to_string();
    assert!(error.contains("compiled without scales"), "{error}");
    let pattern = Pattern::Random(0.6).structure(m, n, (64, 64), 3).unwrap();
    let left = dense::<f16>(m, k, Layout::RowMajor);
    let error = refused::<sdd, _>(sdd::simulate((&left, &b, &pattern, Inputs::from(&scales)), &options)).to_string();
    assert!(error.contains("compiled without scales"), "{error}");
    let ordered = Inputs::new().order(Permutation::identity(m));
    let error = refused::<sdd, _>(sdd::simulate((&left, &b, &pattern, ordered), &options)).to_string();
    assert!(error.contains("an order of rows is given, and the kernel takes none"), "{error}");
    let other = Pattern::Random(0.6).structure(m, n, (32, 64), 3).unwrap();
    assert!(matches!(refused::<sdd, _>(sdd::simulate((&left, &b, &other), &options)), KernelError::Block { .. }));
}
