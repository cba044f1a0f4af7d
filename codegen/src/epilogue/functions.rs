//! The functions of the language: names, numbers of arguments, what they mean.

use super::Program;

/// A function of one value that the hardware has no single instruction of full precision for, or that is its own node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Function {
    Abs,
    Exp,
    Log,
    Sqrt,
    Rsqrt,
    Tanh,
    Sigmoid,
    Silu,
    Gelu,
    GeluErf,
    /// What a division by a value of a row, a column or the launch multiplies by.
    Reciprocal,
}

impl Function {
    pub(crate) const ALL: [(&'static str, Self); 10] = [
        ("abs", Self::Abs),
        ("exp", Self::Exp),
        ("log", Self::Log),
        ("sqrt", Self::Sqrt),
        ("rsqrt", Self::Rsqrt),
        ("tanh", Self::Tanh),
        ("sigmoid", Self::Sigmoid),
        ("silu", Self::Silu),
        ("gelu", Self::Gelu),
        ("gelu_erf", Self::GeluErf),
    ];

    pub(crate) fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|(known, _)| *known == name).map(|(_, function)| function)
    }
}

impl Program {
    /// Every function: its name, its arguments, its value, and the bound of its relative error on the GPU where its
    /// arguments are exact.
    ///
    /// Bounds follow from those of `ex2.approx` and `div.full` (2 ulp), `rcp.approx` (1 ulp), `lg2.approx` (2^-22,
    /// absolute between 1/2 and 2), `sqrt.approx` (2^-23) and `rsqrt.approx` (2^-22.9) in the PTX ISA, section
    /// "Floating Point Instructions", and from fits of our own. Where a bound holds |x|, rounding the argument of an
    /// exponential is what counts. Subnormal values of exponentials are 0: `sigmoid`, `silu` and `gelu` are 0 where e^x is.
    pub const FUNCTIONS: [(&'static str, &'static str, &'static str, &'static str); 18] = [
        ("fma", "x, y, z", "x y + z, rounded once", "2^-24"),
        ("min", "x, y", "the lesser; NaN where one is", "0"),
        ("max", "x, y", "the greater; NaN where one is", "0"),
        ("clamp", "x, low, high", "min(max(x, low), high)", "0"),
        ("select", "a < b, x, y", "x where a < b, else y", "0"),
        ("relu", "x", "max(x, 0)", "0"),
        ("abs", "x", "|x|", "0"),
        ("exp", "x", "e^x", "2^-21 + |x| 2^-23"),
        ("log", "x", "the natural logarithm", "2^-21; absolute between 1/2 and 2"),
        ("sqrt", "x", "the square root", "2^-22"),
        ("rsqrt", "x", "1 / sqrt(x)", "2^-22"),
        ("tanh", "x", "the hyperbolic tangent", "2^-20"),
        ("sigmoid", "x", "1 / (1 + e^-x)", "2^-20 + |x| 2^-23"),
        ("silu", "x", "x sigmoid(x)", "2^-20 + |x| 2^-23"),
        ("gelu", "x", "x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))", "2^-20 + (|x| + |x|^3 / 16) 2^-22"),
        ("gelu_erf", "x", "x / 2 (1 + erf(x / sqrt(2)))", "2^-19 + x^2 2^-23"),
        ("row_sum", "x", "the second result: the sum of x along each row of C", "of f32 sums in any order"),
        ("row_max", "x", "the second result: the greatest x of each row of C", "0"),
    ];
}
