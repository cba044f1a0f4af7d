//! One value in 8 bits, and the scale of several.

use bsr_codegen::{Dtype, Refusal};

use crate::{Element, e4m3, e5m2};

/// A type to quantise to: [`e4m3`], [`e5m2`] or `i8`.
pub trait Narrow: Element {}

impl Narrow for e4m3 {}
impl Narrow for e5m2 {}
impl Narrow for i8 {}

/// What to do with values that have no quotient.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NanPolicy {
    /// The first NaN or infinity is an error.
    #[default]
    Refuse,
    /// A NaN stays a NaN where the type has one, and an infinity saturates.
    Keep,
}

/// The scale that brings `largest` to the largest finite value of `T`.
pub(crate) fn scale_of<T: Narrow>(largest: f64) -> f32 {
    if largest == 0.0 { 1.0 } else { ((largest / T::LARGEST) as f32).max(f32::MIN_POSITIVE) }
}

/// The largest finite magnitude.
pub(crate) fn amax<T: Element>(values: impl IntoIterator<Item = T>) -> f64 {
    values.into_iter().filter(|value| value.is_finite()).fold(0.0, |most, value| value.to_f64().abs().max(most))
}

/// Whether `policy` refuses a value on its way to `T`.
pub(super) fn refused<T: Narrow, S: Element>(value: S, policy: NanPolicy) -> bool {
    !value.is_finite() && (policy == NanPolicy::Refuse || (value.to_f64().is_nan() && T::DTYPE.is_integer()))
}

/// A value of an operand that `dtype` cannot hold at any scale.
pub(super) fn not_finite(operand: &str, (row, col): (usize, usize), value: f64, dtype: Dtype) -> Refusal {
    let place = format!("{operand}[{row}, {col}] = {value}");
    Refusal::new(format!("{place}, which {dtype} cannot hold at any scale")).help(
        match value.is_nan() && dtype.is_integer() {
            true => "replace it: integers have no NaN",
            false => "replace it, or keep it with NanPolicy::Keep (an infinity saturates)",
        },
    )
}

/// One value in 8 bits.
pub(crate) fn narrow<T: Narrow, S: Element>(value: S, scale: f32) -> T {
    T::from_f64(value.to_f64() / f64::from(scale))
}
