//! Patterns as text: `name` or `name:parameter`.

use std::fmt;
use std::str::FromStr;

use super::{GenerateError, Pattern};

impl FromStr for Pattern {
    type Err = GenerateError;

    fn from_str(text: &str) -> Result<Self, GenerateError> {
        let (name, value) = match text.trim().split_once(':') {
            Some((name, value)) => (name.trim_end(), Some(value.trim_start())),
            None => (text.trim(), None),
        };
        let pattern = match name {
            "random" => Self::Random(number(text, value, "a decimal number", "random:0.25")?),
            "topk" => Self::TopK(number(text, value, "a whole number of blocks", "topk:16")?),
            "window" => Self::Window(number(text, value, "a decimal number", "window:0.06")?),
            "powerlaw" => Self::PowerLaw(number(text, value, "a decimal number", "powerlaw:0.05")?),
            "causal" => match value {
                None => Self::Causal,
                Some(_) => {
                    let fact = "causal takes no parameter";
                    return Err(GenerateError::Parameter { text: text.into(), fact, example: "causal" });
                }
            },
            _ => return Err(GenerateError::Unknown { text: text.into() }),
        };
        pattern.check_fraction()?;
        Ok(pattern)
    }
}

impl Pattern {
    /// Refuses a fraction that is not in 0..=1.
    pub(super) fn check_fraction(self) -> Result<(), GenerateError> {
        let (pattern, value) = match self {
            Self::Random(value) => ("random", value),
            Self::Window(value) => ("window", value),
            Self::PowerLaw(value) => ("powerlaw", value),
            Self::TopK(_) | Self::Causal => return Ok(()),
        };
        if (0.0..=1.0).contains(&value) { Ok(()) } else { Err(GenerateError::Fraction { pattern, value }) }
    }
}

fn number<N: FromStr>(
    text: &str,
    value: Option<&str>,
    wanted: &'static str,
    example: &'static str,
) -> Result<N, GenerateError> {
    let Some(value) = value else {
        let fact = "the parameter is missing";
        return Err(GenerateError::Parameter { text: text.into(), fact, example });
    };
    value.parse().map_err(|_| GenerateError::Number { text: text.into(), value: value.into(), wanted, example })
}

/// The text that parses to this pattern.
impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Random(density) => write!(f, "random:{density}"),
            Self::TopK(count) => write!(f, "topk:{count}"),
            Self::Window(fraction) => write!(f, "window:{fraction}"),
            Self::Causal => f.write_str("causal"),
            Self::PowerLaw(density) => write!(f, "powerlaw:{density}"),
        }
    }
}
