//! Products and gradients on a GPU, in the memory of Burn's tensors, beside Burn's own dense ones.
//!
//! Without a GPU every test says SKIPPED on stderr and passes; with `BSR_REQUIRE_GPU` set it fails instead.

#![cfg(feature = "cuda")]
#![allow(clippy::unwrap_used)]

use std::sync::{Mutex, MutexGuard, PoisonError};

use bsr::gpu::Device;
use burn::backend::cuda::CudaDevice;
use burn::backend::{Autodiff, Cuda};
use burn::tensor::{Distribution, Tensor, bf16, f16};
use burn_bsr::cuda::{Order, empty_cache, order, set_order};
use burn_bsr::{BsrBackend, BsrGemm, BsrTensor, FirstUse, GemmConfig, Keep};

/// The GPU, for one test at a time: how products are ordered is the program's matter.
fn gpu() -> Option<(MutexGuard<'static, ()>, CudaDevice)> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    if Device::is_available() {
        return Some((turn, CudaDevice::default()));
    }
    assert!(std::env::var_os("BSR_REQUIRE_GPU").is_none(), "BSR_REQUIRE_GPU is set, and there is no GPU");
    eprintln!("SKIPPED: no CUDA device");
    None
}

fn relative<B: BsrBackend, const D: usize>(found: Tensor<B, D>, exact: Tensor<B, D>) -> f64 {
    assert_eq!(found.dims(), exact.dims());
    let [found, exact] = [found, exact].map(|tensor| tensor.to_data().iter::<f64>().collect::<Vec<f64>>());
    let norm = |numbers: &mut dyn Iterator<Item = f64>| numbers.map(|number| number * number).sum::<f64>().sqrt();
    norm(&mut found.iter().zip(&exact).map(|(found, exact)| found - exact)) / norm(&mut exact.iter().copied())
}

fn drawn<B: BsrBackend<Device = CudaDevice>>(rows: usize, cols: usize, device: &CudaDevice) -> Tensor<B, 2> {
    Tensor::random([rows, cols], Distribution::Normal(0.0, 1.0), device)
}

fn products<B: BsrBackend<Device = CudaDevice>>(device: &CudaDevice) {
    for (rows, cols, block) in [(512, 384, (128, 64)), (256, 640, (64, 64)), (200, 136, (64, 32))] {
        let a = BsrTensor::from_dense(drawn::<B>(rows, cols, device), block, Keep::Fraction(0.4)).unwrap();
        let whole = a.to_dense();
        for (transpose, first_use) in
            [(false, FirstUse::Predict), (true, FirstUse::Predict), (false, FirstUse::Measure)]
        {
            let config = GemmConfig { transpose, first_use };
            let (inner, whole) = if transpose { (rows, whole.clone().transpose()) } else { (cols, whole.clone()) };
            // Row-major, column-major, and a window that must be copied or read as it lies.
            let b = drawn::<B>(inner, 96, device);
            let of_columns = drawn::<B>(96, inner, device).transpose();
            let window = drawn::<B>(inner, 160, device).slice([0..inner, 32..128]);
            let odd = drawn::<B>(inner, 160, device).slice([0..inner, 33..129]);
            for b in [b, of_columns, window, odd] {
                let error = relative(BsrGemm::auto_tuned(&a, b.clone(), config), whole.clone().matmul(b));
                assert!(error < 1e-2, "{rows} x {cols}, {block:?}, {config:?}: {error}");
            }
        }
    }
}

#[test]
fn products_are_those_of_the_whole_matrix() {
    let Some((_turn, device)) = gpu() else { return };
    products::<Cuda<f16>>(&device);
    products::<Cuda<bf16>>(&device);
    // Other types are multiplied as dense matrices.
    products::<Cuda<f32>>(&device);
    empty_cache().unwrap();
    products::<Cuda<f16>>(&device);
}

fn gradients<B: BsrBackend<Device = CudaDevice>>(device: &CudaDevice) {
    let (rows, cols, block) = (256, 384, (64, 64));
    let (values, pattern) =
        BsrTensor::from_dense(drawn::<Autodiff<B>>(rows, cols, device) / 16, block, Keep::Fraction(0.5))
            .unwrap()
            .into_parts();
    let values = values.detach().require_grad();
    let a = BsrTensor::new(values.clone(), pattern.clone()).unwrap();
    let whole = a.to_dense().detach().require_grad();
    let b = drawn::<Autodiff<B>>(cols, 128, device).require_grad();
    let other = b.clone().detach().require_grad();
    let weights = drawn::<Autodiff<B>>(rows, 128, device);
    let found = (BsrGemm::auto_tuned(&a, b.clone(), GemmConfig::default()) * weights.clone()).sum().backward();
    let exact = (whole.clone().matmul(other.clone()) * weights).sum().backward();
    let error = relative(b.grad(&found).unwrap(), other.grad(&exact).unwrap());
    assert!(error < 1e-2, "of the input: {error}");
    // The gradient of the whole matrix, with zeros where no block is stored.
    let ones =
        BsrTensor::new(Tensor::<B, 3>::ones(pattern.values_shape(), device), pattern.clone()).unwrap().to_dense();
    let found = BsrTensor::new(values.grad(&found).unwrap(), pattern).unwrap().to_dense();
    let error = relative(found, whole.grad(&exact).unwrap() * ones);
    assert!(error < 1e-2, "of the weight: {error}");
}

#[test]
fn gradients_are_those_of_the_whole_matrix() {
    let Some((_turn, device)) = gpu() else { return };
    gradients::<Cuda<f16>>(&device);
    gradients::<Cuda<bf16>>(&device);
}

/// A chain in which Burn's kernels and the products read what the other has just written: whichever way they are ordered, the
/// bits are the same.
#[test]
fn products_are_ordered_with_burns_own_kernels() {
    type B = Cuda<bf16>;
    let Some((_turn, device)) = gpu() else { return };
    let side = 2048;
    let a = BsrTensor::from_dense(drawn::<B>(side, side, &device) / 32, (128, 128), Keep::Fraction(0.5)).unwrap();
    let start = drawn::<B>(side, 512, &device);
    let chain = || {
        let mut x = start.clone();
        for step in 0..60 {
            let product = BsrGemm::auto_tuned(&a, x.clone() * 0.9, GemmConfig::default());
            // Memory that is freed here is used again at once.
            x = (product.clone() + x * 0.5).clamp(-4.0, 4.0) - product * (0.01 * f64::from(step % 3));
        }
        x.to_data()
    };
    set_order(Order::Host);
    let exact = chain();
    set_order(Order::Events);
    eprintln!("products are ordered by {:?}", order(device.index).unwrap());
    for _ in 0..20 {
        assert_eq!(chain(), exact);
    }
}
