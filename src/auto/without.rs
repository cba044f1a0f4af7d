//! What says which feature is missing where `Auto` is named without it.

use std::marker::PhantomData;

/// Kernels that are chosen when their operands are known: with the feature `tuner`.
pub struct Auto<O, A, B, C>(PhantomData<(O, A, B, C)>)
where
    O: NeedsFeatureTuner;

/// Implemented by nothing.
#[diagnostic::on_unimplemented(
    message = "`Auto` is there with the feature `tuner` alone",
    label = "this crate is built without it",
    note = "in Cargo.toml: bsr-gemm = {{ version = \"..\", default-features = false, features = [\"tuner\"] }}"
)]
pub trait NeedsFeatureTuner {}

impl<O: NeedsFeatureTuner, A, B, C> Auto<O, A, B, C> {
    /// Cannot be called: see [`NeedsFeatureTuner`].
    pub fn new(_: &bsr_runtime::gpu::Device) -> Self {
        Self(PhantomData)
    }
}
