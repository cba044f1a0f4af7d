//! A small network with block-sparse layers, and its training: the same steps on any backend.

use burn::module::Module;
use burn::nn::loss::{MseLoss, Reduction};
use burn::optim::{GradientsParams, Optimizer, SgdConfig};
use burn::tensor::activation::relu;
use burn::tensor::backend::{AutodiffBackend, Backend};
use burn::tensor::{Tensor, TensorData};
use burn_bsr::{BlockSparseLinear, BsrBackend, BsrTensor, Error, Keep};

/// Features of the input and the output.
pub(crate) const FEATURES: usize = 64;
/// Hidden features.
pub(crate) const HIDDEN: usize = 128;
/// Samples.
pub(crate) const SAMPLES: usize = 256;
const BLOCK: (usize, usize) = (32, 32);
const RATE: f64 = 0.05;

/// Two block-sparse layers.
#[derive(Module, Debug)]
pub(crate) struct Network<B: Backend> {
    up: BlockSparseLinear<B>,
    down: BlockSparseLinear<B>,
}

impl<B: Backend> Network<B> {
    /// The network of a seed, the same on every backend: half of the blocks of two drawn matrices.
    pub(crate) fn new(seed: u64, device: &B::Device) -> Result<Self, Error> {
        let layer = |outputs: usize, inputs: usize, seed: u64| {
            let scale = (2.0 / inputs as f32).sqrt();
            let weight =
                BsrTensor::from_dense(drawn::<B>([outputs, inputs], scale, seed, device), BLOCK, Keep::Fraction(0.5))?;
            BlockSparseLinear::new(weight, Some(drawn([1, outputs], 0.1, seed + 1, device).reshape([outputs])))
        };
        Ok(Self { up: layer(HIDDEN, FEATURES, seed)?, down: layer(FEATURES, HIDDEN, seed + 2)? })
    }
}

impl<B: BsrBackend> Network<B> {
    /// The network's result.
    pub(crate) fn forward(&self, x: Tensor<B, 2>) -> Tensor<B, 2> {
        self.down.forward(relu(self.up.forward(x)))
    }
}

/// Trains the network of a seed to compute a function of its input; the loss before each step.
pub(crate) fn train<B: AutodiffBackend + BsrBackend>(steps: usize, device: &B::Device) -> Result<Vec<f32>, Error> {
    let mut network = Network::<B>::new(1, device)?;
    let x = drawn::<B>([SAMPLES, FEATURES], 1.0, 11, device);
    let teacher = drawn::<B>([FEATURES, FEATURES], 0.15, 12, device);
    let wanted = relu(x.clone().matmul(teacher)).detach();
    let mut optimizer = SgdConfig::new().init();
    let mut losses = Vec::with_capacity(steps);
    for _ in 0..steps {
        let loss = MseLoss::new().forward(network.forward(x.clone()), wanted.clone(), Reduction::Mean);
        losses.push(loss.to_data().iter::<f32>().next().unwrap_or(f32::NAN));
        // A mean over all elements has small gradients.
        let scaled = loss.mul_scalar(FEATURES as f32);
        let gradients = GradientsParams::from_grads(scaled.backward(), &network);
        network = optimizer.step(RATE, network, gradients);
    }
    Ok(losses)
}

/// Numbers from a uniform distribution around 0 whose standard deviation is `scale`: of a generator of its own, so that every
/// backend has the same.
pub(crate) fn drawn<B: Backend>(shape: [usize; 2], scale: f32, seed: u64, device: &B::Device) -> Tensor<B, 2> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        ((state >> 40) as f32 / (1u64 << 24) as f32 - 0.5) * 12f32.sqrt() * scale
    };
    let numbers: Vec<f32> = (0..shape[0] * shape[1]).map(|_| next()).collect();
    Tensor::from_data(TensorData::new(numbers, shape).convert::<B::FloatElem>(), device)
}
