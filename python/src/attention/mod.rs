//! Attention: masks, the CPU, the simulator. Launches are in `gpu::attention`.

mod choice;
mod gradient;
mod host;
mod mask;
mod simulate;
mod tensor;

pub(crate) use choice::choose_attention;
pub(crate) use gradient::{GradientForm, gradient_work};
pub(crate) use host::attend;
pub(crate) use mask::{AttentionMask, shared};
pub(crate) use simulate::simulate_attention;
