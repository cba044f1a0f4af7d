//! Attention: masks, the CPU, the simulator. Launches are in `gpu::attention`.

mod gradient;
mod host;
mod mask;
mod simulate;
mod tensor;

pub(crate) use gradient::{GradientForm, gradient_work};
pub(crate) use host::attend;
pub(crate) use mask::{AttentionMask, shared};
pub(crate) use simulate::simulate_attention;
