//! What an attention reads beside its tensors, on the host.

use super::{Factors, HostVector};

/// What an attention reads beside its tensors, on the host: the scale, then numbers and vectors of the score, each in the order
/// of the parameters of their kind, and sinks.
///
/// A pair of a scale and numbers is one, too.
#[derive(Clone, Copy, Debug)]
pub struct ScoreInputs<'n> {
    pub(super) scale: f32,
    pub(super) scalars: &'n [f32],
    pub(super) vectors: &'n [HostVector],
    pub(super) sinks: Option<&'n [f32]>,
    pub(super) lengths: Option<&'n [usize]>,
    pub(super) factors: Option<&'n Factors>,
}

impl<'n> ScoreInputs<'n> {
    /// A scale alone.
    pub fn new(scale: f32) -> Self {
        Self { scale, scalars: &[], vectors: &[], sinks: None, lengths: None, factors: None }
    }

    /// The same with numbers for the parameters that are `f32`.
    #[must_use]
    pub fn scalars(self, scalars: &'n [f32]) -> Self {
        Self { scalars, ..self }
    }

    /// The same with vectors for the parameters that are `Rows`, `Cols` and `Heads`.
    #[must_use]
    pub fn vectors(self, vectors: &'n [HostVector]) -> Self {
        Self { vectors, ..self }
    }

    /// The same with a sink for each head, for a kernel with `sinks = on`: a logit in the units of a score, finite or minus
    /// infinity, whose exponential is a term of each row's sum and has no value.
    #[must_use]
    pub fn sinks(self, sinks: impl Into<Option<&'n [f32]>>) -> Self {
        Self { sinks: sinks.into(), ..self }
    }

    /// The same with a number of keys for each problem, for a kernel whose K and V are in pages: the others do not count.
    #[must_use]
    pub fn lengths(self, lengths: impl Into<Option<&'n [usize]>>) -> Self {
        Self { lengths: lengths.into(), ..self }
    }

    /// The same with factors of Q, K and V, for a kernel with `scale = tensor` or `block`.
    #[must_use]
    pub fn factors(self, factors: impl Into<Option<&'n Factors>>) -> Self {
        Self { factors: factors.into(), ..self }
    }
}

impl From<f32> for ScoreInputs<'_> {
    fn from(scale: f32) -> Self {
        Self::new(scale)
    }
}

impl<'n> From<(f32, &'n [f32])> for ScoreInputs<'n> {
    fn from((scale, scalars): (f32, &'n [f32])) -> Self {
        Self::new(scale).scalars(scalars)
    }
}

impl<'n, const N: usize> From<(f32, &'n [f32; N])> for ScoreInputs<'n> {
    fn from((scale, scalars): (f32, &'n [f32; N])) -> Self {
        Self::new(scale).scalars(scalars)
    }
}
