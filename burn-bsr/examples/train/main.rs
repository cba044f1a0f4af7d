//! Trains a small network with block-sparse layers on the CPU, and on a GPU where the feature `cuda` is on, and compares the
//! losses:
//!
//!     cargo run --release --example train
//!     cargo run --release --example train --features cuda

mod model;

use burn::backend::{Autodiff, NdArray};

const STEPS: usize = 60;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let cpu = model::train::<Autodiff<NdArray<f32>>>(STEPS, &Default::default())?;
    #[cfg(feature = "cuda")]
    gpu::compare(&cpu)?;
    #[cfg(not(feature = "cuda"))]
    for (step, loss) in cpu.iter().enumerate().step_by(10).chain(cpu.iter().enumerate().next_back()) {
        println!("step {step:>3}: loss {loss:.5}");
    }
    Ok(())
}

#[cfg(feature = "cuda")]
mod gpu {
    use burn::backend::cuda::CudaDevice;
    use burn::backend::{Autodiff, Cuda};
    use burn::tensor::{bf16, f16};

    use super::{STEPS, model};

    /// Largest relative difference of a loss that is computed in 16 bits.
    const LIMIT: f32 = 0.05;

    /// The losses on the GPU beside those on the CPU; an error where they differ.
    pub(super) fn compare(cpu: &[f32]) -> Result<(), Box<dyn std::error::Error>> {
        let device = CudaDevice::default();
        let half = model::train::<Autodiff<Cuda<f16>>>(STEPS, &device)?;
        let brain = model::train::<Autodiff<Cuda<bf16>>>(STEPS, &device)?;
        println!("products are ordered by {:?}", burn_bsr::cuda::order(0)?);
        let mut worst = [0f32; 2];
        for (step, ((cpu, half), brain)) in cpu.iter().zip(&half).zip(&brain).enumerate() {
            worst = [worst[0].max((half - cpu).abs() / cpu), worst[1].max((brain - cpu).abs() / cpu)];
            if step % 10 == 0 || step + 1 == STEPS {
                println!(
                    "step {step:>3}: loss {cpu:.5} on the CPU in f32, {half:.5} on the GPU in f16, {brain:.5} in bf16"
                );
            }
        }
        println!("largest relative difference: {:.4} in f16, {:.4} in bf16", worst[0], worst[1]);
        if worst.iter().any(|worst| worst.is_nan() || *worst > LIMIT) {
            return Err(format!("the losses differ by more than {LIMIT}").into());
        }
        Ok(())
    }
}
