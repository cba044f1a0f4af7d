//! `fallback = on`: what is embedded beside the Hopper kernel, what a GPU takes of it, and that it computes the same.

use std::io::Write as _;

use bsr::gpu::target_runs_on;
use bsr::prelude::*;
use bsr::reference::{multiply, relative_error};
use bsr::simulated::Simulated;
use bsr::{Element, Fallback, Mma};

#[bsr_kernel(bm = 512, bn = 128, bk = 112, fallback = on)]
fn tall(a: Bsr<f16>, b: Dense<f16>) -> Dense<f16>;

/// Without the word.
#[bsr_kernel(bm = 512, bn = 128, bk = 112)]
fn alone(a: Bsr<f16>, b: Dense<f16>) -> Dense<f16>;

#[bsr_kernel(bm = 64, bn = 64, bk = 32, fallback = on, cluster = 2, stages = 3)]
fn brain(a: Bsr<bf16>, b: Dense<bf16>) -> Dense<f32>;

#[bsr_kernel(bm = 64, bn = 64, bk = 64, dtype = e4m3, out = f32, fallback = on)]
struct Fp8;

#[bsr_kernel(bm = 64, bn = 64, bk = 64, fallback = off)]
struct Off;

#[test]
fn the_word_changes_nothing_of_the_kernel() {
    assert_eq!(
        (tall::SPEC, tall::PTX.split_once('\n').unwrap().1),
        (alone::SPEC, alone::PTX.split_once('\n').unwrap().1)
    );
    assert_eq!(tall::FINGERPRINT, alone::FINGERPRINT);
    assert!(alone::FALLBACKS.is_empty() && Off::FALLBACKS.is_empty());
}

/// What a GPU of this compute capability loads, with the shared memory of its architecture; none of the Hopper kernel.
fn loaded<K: Kernel>(capability: (u32, u32)) -> Option<&'static Fallback> {
    let shared = bsr::Arch::of_gpu(capability).unwrap().shared_bytes;
    if target_runs_on(K::plan().arch().target, capability) == Some(true) {
        return None;
    }
    Some(Fallback::of_gpu(K::FALLBACKS, capability, shared).unwrap_or_else(|| panic!("{}: {capability:?}", K::ENTRY)))
}

#[test]
fn every_gpu_from_volta_on_loads_the_best_that_it_runs() {
    assert!(loaded::<tall>((9, 0)).is_none());
    for capability in [(7, 0), (7, 5), (8, 0), (8, 6), (8, 9), (10, 0), (12, 0)] {
        let tensor_cores = if capability < (8, 0) { Mma::Wmma } else { Mma::MmaSync };
        assert_eq!(loaded::<tall>(capability).unwrap().spec.mma, tensor_cores, "{capability:?}");
        let no_bf16 = if capability < (8, 0) { Mma::Scalar } else { Mma::MmaSync };
        assert_eq!(loaded::<brain>(capability).unwrap().spec.mma, no_bf16, "{capability:?}");
    }
    for capability in [(8, 9), (10, 0), (12, 0)] {
        assert_eq!(loaded::<Fp8>(capability).unwrap().spec.mma, Mma::MmaSync);
    }
    assert!(Fallback::of_gpu(Fp8::FALLBACKS, (8, 6), 101_376).is_none());
    // Code that a GPU runs may need more shared memory than the GPU has.
    assert!(Fallback::of_gpu(tall::FALLBACKS, (8, 0), 16_384).is_none());
}

/// Operands, and the product in f64.
fn problem<K: Kernel>(m: usize, k: usize) -> (Bsr<K::A>, Dense<K::B>, Vec<f64>) {
    let block = (K::SPEC.bm as usize, K::SPEC.bk as usize);
    let a = Bsr::<K::A>::generate(Pattern::Random(0.6), m, k, block, 3).unwrap();
    let b = Dense::<K::B>::normal(k, 70, K::SPEC.b_layout, 5);
    let product = multiply(&a, &b).unwrap();
    (a, b, product)
}

fn assert_near<T: Element>(c: &Dense<T>, product: &[f64], what: &Fallback) {
    let error = relative_error(&c.to_f64(), product);
    assert!(error < 2e-3, "{}: {error:.1e}", what.spec);
}

fn simulated<K: Kernel>() {
    let (a, b, product) = problem::<K>(600, 250);
    assert!(!K::FALLBACKS.is_empty());
    for fallback in K::FALLBACKS {
        let kernel = Simulated::new(fallback.plan(), fallback.ptx, fallback.entry).unwrap();
        let (results, report) = kernel.multiply::<K::Out, _>((&a, &b), &Options::default()).unwrap();
        assert!(report.is_clean(), "{}: {}", fallback.spec, report.findings[0]);
        assert_near(&results.c, &product, fallback);
    }
}

#[test]
fn fallbacks_compute_the_product_on_the_simulator() {
    simulated::<tall>();
    simulated::<brain>();
    simulated::<Fp8>();
}

fn on_the_gpu<K: Kernel>(device: &Device) {
    let (a, b, product) = problem::<K>(1500, 900);
    let (on_a, on_b) = (DeviceBsr::upload(device, &a).unwrap(), DeviceDense::upload(device, &b).unwrap());
    let stream = Stream::new(device).unwrap();
    for fallback in K::FALLBACKS.iter().filter(|f| device.check_target(f.plan().arch().target).is_ok()) {
        let launcher = fallback.load(device).unwrap();
        let mut c = DeviceDense::<K::Out>::zeros(device, a.rows(), b.cols(), K::SPEC.c_layout).unwrap();
        launcher.launch(stream.handle(), (&on_a, &on_b), &mut c).unwrap();
        stream.synchronize().unwrap();
        assert_near(&c.download().unwrap(), &product, fallback);
    }
}

/// A Hopper GPU runs the code for older ones, too.
#[test]
fn fallbacks_compute_the_product_on_a_gpu() {
    match Device::open(0) {
        Ok(device) => {
            on_the_gpu::<tall>(&device);
            on_the_gpu::<brain>(&device);
            on_the_gpu::<Fp8>(&device);
        }
        Err(error) => {
            assert!(std::env::var_os("BSR_REQUIRE_GPU").is_none(), "BSR_REQUIRE_GPU is set: {error}");
            let _ = writeln!(std::io::stderr(), "SKIPPED: {}", error.to_string().lines().next().unwrap_or_default());
        }
    }
}
