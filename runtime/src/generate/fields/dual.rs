//! Numbers that carry their derivatives: a flux is written once, and its Jacobian is exact.

use std::ops::{Add, Div, Mul, Neg, Sub};

/// A value, and its derivatives by N variables (forward differentiation).
#[derive(Clone, Copy, Debug)]
pub(super) struct Dual<const N: usize> {
    pub(super) value: f64,
    pub(super) slopes: [f64; N],
}

impl<const N: usize> Dual<N> {
    pub(super) fn constant(value: f64) -> Self {
        Self { value, slopes: [0.0; N] }
    }

    /// The variables `first..` with these values.
    pub(super) fn variables<const M: usize>(values: [f64; M], first: usize) -> [Self; M] {
        let mut variables = values.map(Self::constant);
        variables.iter_mut().enumerate().for_each(|(at, variable)| variable.slopes[first + at] = 1.0);
        variables
    }

    /// A function of this, by its value and its derivative.
    fn chain(self, value: f64, slope: f64) -> Self {
        Self { value, slopes: self.slopes.map(|own| own * slope) }
    }

    pub(super) fn sqrt(self) -> Self {
        let root = self.value.sqrt();
        self.chain(root, 0.5 / root)
    }

    pub(super) fn abs(self) -> Self {
        if self.value < 0.0 { -self } else { self }
    }

    /// The larger one, with its derivatives.
    pub(super) fn max(self, other: Self) -> Self {
        if other.value > self.value { other } else { self }
    }

    /// Derivatives by both, `by_self` and `by_other` those of the result.
    fn combine(self, other: Self, value: f64, by_self: f64, by_other: f64) -> Self {
        let slopes = std::array::from_fn(|at| by_self * self.slopes[at] + by_other * other.slopes[at]);
        Self { value, slopes }
    }
}

impl<const N: usize> Neg for Dual<N> {
    type Output = Self;

    fn neg(self) -> Self {
        self.chain(-self.value, -1.0)
    }
}

impl<const N: usize> Add for Dual<N> {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        self.combine(other, self.value + other.value, 1.0, 1.0)
    }
}

impl<const N: usize> Sub for Dual<N> {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        self.combine(other, self.value - other.value, 1.0, -1.0)
    }
}

impl<const N: usize> Mul for Dual<N> {
    type Output = Self;

    fn mul(self, other: Self) -> Self {
        self.combine(other, self.value * other.value, other.value, self.value)
    }
}

impl<const N: usize> Div for Dual<N> {
    type Output = Self;

    fn div(self, other: Self) -> Self {
        let value = self.value / other.value;
        self.combine(other, value, 1.0 / other.value, -value / other.value)
    }
}

impl<const N: usize> Add<f64> for Dual<N> {
    type Output = Self;

    fn add(self, other: f64) -> Self {
        self.chain(self.value + other, 1.0)
    }
}

impl<const N: usize> Mul<f64> for Dual<N> {
    type Output = Self;

    fn mul(self, other: f64) -> Self {
        self.chain(self.value * other, other)
    }
}
