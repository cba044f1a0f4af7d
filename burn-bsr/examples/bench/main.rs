//! Times block-sparse products beside Burn's dense ones on a GPU:
//!
//!     cargo run --release --example bench --no-default-features --features cuda
//!
//! Every product is compared with the dense one first. Rounds of products follow one another without a wait between them, in
//! turn with the others; the median of the rounds counts.

use std::time::Instant;

use burn::backend::Cuda;
use burn::backend::cuda::CudaDevice;
use burn::tensor::backend::Backend;
use burn::tensor::{Distribution, Tensor, bf16, f16};
use burn_bsr::cuda::{Order, order, set_order};
use burn_bsr::{BsrBackend, BsrGemm, BsrTensor, FirstUse, GemmConfig, Keep};

const SIDE: usize = 4096;
const BLOCK: (usize, usize) = (128, 128);
const PRODUCTS: usize = 20;
const ROUNDS: usize = 15;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let device = CudaDevice::default();
    println!("{SIDE} x {SIDE} x {SIDE} in blocks of {} x {}, {ROUNDS} rounds of {PRODUCTS} products", BLOCK.0, BLOCK.1);
    println!("| type | density | dense us | sparse us, events | ratio | sparse us, host waits | ratio | error |");
    println!("|---|---|---|---|---|---|---|---|");
    for density in [0.25, 0.1] {
        row::<Cuda<f16>>("f16", density, &device)?;
        row::<Cuda<bf16>>("bf16", density, &device)?;
    }
    Ok(())
}

fn row<B: BsrBackend<Device = CudaDevice>>(
    name: &str,
    density: f64,
    device: &CudaDevice,
) -> Result<(), Box<dyn std::error::Error>> {
    let normal = Distribution::Normal(0.0, 1.0);
    let dense = Tensor::<B, 2>::random([SIDE, SIDE], normal, device);
    let a = BsrTensor::from_dense(dense, BLOCK, Keep::Fraction(density))?;
    let whole = a.to_dense();
    let b = Tensor::<B, 2>::random([SIDE, SIDE], normal, device);
    let config = GemmConfig { first_use: FirstUse::Measure, ..GemmConfig::default() };
    let sparse = || BsrGemm::auto_tuned(&a, b.clone(), config);
    let full = || whole.clone().matmul(b.clone());
    let error = relative(sparse(), full());
    if error.is_nan() || error > 1e-2 {
        return Err(format!("{name} at {density}: the products differ by {error:.1e}").into());
    }
    let orders = [Order::Events, Order::Host];
    let mut times: [Vec<f64>; 3] = Default::default();
    for round in 0..=ROUNDS {
        let mut of_round = [time::<B>(device, &full), 0.0, 0.0];
        for (at, chosen) in orders.into_iter().enumerate() {
            set_order(chosen);
            of_round[at + 1] = time::<B>(device, &sparse);
        }
        if round > 0 {
            times.iter_mut().zip(of_round).for_each(|(times, time)| times.push(time));
        }
    }
    set_order(Order::Events);
    let [full, events, host] = times.map(median);
    let remark = if order(device.index)? == Order::Events { "" } else { " (no events here: the host waits)" };
    println!(
        "| {name} | {density} | {full:.1} | {events:.1}{remark} | {:.2} | {host:.1} | {:.2} | {error:.1e} |",
        full / events,
        full / host
    );
    Ok(())
}

/// Microseconds of a product.
fn time<B: Backend>(device: &B::Device, product: &impl Fn() -> Tensor<B, 2>) -> f64 {
    // Burn compiles and tunes its own kernels when they are first used.
    drop(product());
    wait::<B>(device);
    let start = Instant::now();
    for _ in 0..PRODUCTS {
        drop(product());
    }
    wait::<B>(device);
    start.elapsed().as_secs_f64() * 1e6 / PRODUCTS as f64
}

fn wait<B: Backend>(device: &B::Device) {
    if let Err(error) = B::sync(device) {
        panic!("the GPU failed: {error:?}");
    }
}

fn relative<B: Backend>(found: Tensor<B, 2>, exact: Tensor<B, 2>) -> f64 {
    let [found, exact] = [found, exact].map(|tensor| tensor.to_data().iter::<f64>().collect::<Vec<f64>>());
    let squares = |numbers: &mut dyn Iterator<Item = f64>| numbers.map(|number| number * number).sum::<f64>().sqrt();
    squares(&mut found.iter().zip(&exact).map(|(found, exact)| found - exact)) / squares(&mut exact.iter().copied())
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
