//! Block-sparse attention: O = softmax(scale * Q K^T) V, where Q K^T is computed in the blocks of a [`Mask`] alone.
//!
//! Q and O are tensors of `batch` problems, `heads` heads, `queries` rows; K and V have `keys` rows and as many heads or fewer
//! ([`Shape`]). A [`Mask`] says which blocks are computed, and which of them are *partial*: in these the kernel computes the
//! score of its spec for every pair of a query and a key; in all others a score is the product times the scale.
//!
//! A query without any key has O = 0, and minus infinity for the logarithm of its sum. A kernel with `sinks = on` adds the
//! exponential of its head's sink to each query's sum; the logarithm of a query without keys is then the sink.

mod device_mask;
mod divide;
mod error;
mod factors;
mod generate;
mod gradient;
mod joined;
mod kernel;
mod launcher;
mod list;
mod listed;
mod mask;
mod operands;
mod pages;
mod quantise;
mod reference;
mod score_inputs;
mod sequences;
mod shape;
#[cfg(feature = "simulator")]
mod simulate;
#[cfg(feature = "simulator")]
mod simulate_lists;
mod steps;
mod tensor;
mod vector;
mod wide_rows;
mod work;

pub use device_mask::{DeviceMask, DeviceMaskShape, PartialBlocks};
pub use error::AttentionError;
pub use factors::{DeviceFactors, Factors};
pub use generate::Coverage;
pub use gradient::{GradientInputs, GradientLauncher, GradientOutputs, GradientPattern, Saved, ScoreSums};
// What trials compare kernels with, and run them on.
#[doc(hidden)]
pub use gradient::{
    GradientForm, GradientWork, ListedWork, RowTerms, Summed, gradients_of_keys, gradients_of_queries,
    gradients_of_score,
};
#[cfg(feature = "simulator")]
#[doc(hidden)]
pub use gradient::{SimulatedGradient, SimulatedGradients};
pub use kernel::{AttentionKernel, Loaded};
pub use launcher::{DevicePattern, DeviceTensor, Inputs, Launcher};
pub use mask::{BlockList, Mask, Sharing};
#[doc(hidden)]
pub use pages::HostPages;
pub use pages::{DevicePages, PageShape};
pub use quantise::{QuantisedTensors, quantise, quantise_blocks};
pub use reference::{Attended, reference, reference_of, reference_rows};
pub use score_inputs::ScoreInputs;
pub use sequences::Sequences;
pub use shape::{HeadOrder, Shape};
#[cfg(feature = "simulator")]
pub use simulate::{SimulatedAttention, Simulation, simulate};
// For the checks of lists and the tests.
#[cfg(feature = "simulator")]
#[doc(hidden)]
pub use pages::{ListedPages, fault_of_lengths};
#[cfg(feature = "simulator")]
#[doc(hidden)]
pub use simulate_lists::{ListedAttention, MaskArrays, TilesByPlace, fault_of_lists, tiles_by_place};
pub use tensor::Tensor;
pub use vector::{HostVector, ScoreVector, UploadedVectors};
#[doc(hidden)]
pub use work::AttentionWork;
