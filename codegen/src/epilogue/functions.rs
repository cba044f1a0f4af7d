//! The functions of the language: names, numbers of arguments, what they mean.

/// A function of one value that the hardware has no single instruction of full precision for, or that is its own node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Function {
    Abs,
    Exp,
    Log,
    Sqrt,
    Rsqrt,
    Sin,
    Cos,
    Floor,
    Tanh,
    Sigmoid,
    Silu,
    Gelu,
    GeluErf,
    /// What a division by a value of a row, a column or the launch multiplies by.
    Reciprocal,
}

impl Function {
    pub(crate) const ALL: [(&'static str, Self); 13] = [
        ("abs", Self::Abs),
        ("exp", Self::Exp),
        ("log", Self::Log),
        ("sqrt", Self::Sqrt),
        ("rsqrt", Self::Rsqrt),
        ("sin", Self::Sin),
        ("cos", Self::Cos),
        ("floor", Self::Floor),
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
