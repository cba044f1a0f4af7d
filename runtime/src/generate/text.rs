//! Patterns as text: `name` or `name:parameter`.

use std::fmt;
use std::str::FromStr;

use bsr_codegen::Refusal;

use super::Pattern;

impl FromStr for Pattern {
    type Err = Refusal;

    fn from_str(text: &str) -> Result<Self, Refusal> {
        let (name, value) = match text.trim().split_once(':') {
            Some((name, value)) => (name.trim_end(), Some(value.trim_start())),
            None => (text.trim(), None),
        };
        let pattern = match name {
            "random" => Self::Random(number(text, value, "a decimal number", "random:0.25")?),
            "topk" => Self::TopK(number(text, value, "a whole number of blocks", "topk:16")?),
            "window" => Self::Window(number(text, value, "a decimal number", "window:0.06")?),
            "powerlaw" => Self::PowerLaw(number(text, value, "a decimal number", "powerlaw:0.05")?),
            "documents" | "causal_documents" => {
                let mean = number(text, value, "a whole number of rows", &format!("{name}:1000"))?;
                if mean == 0 {
                    return Err(Refusal::new(format!("`{text}`: documents without rows")).help("at least 1 row"));
                }
                Self::Documents { mean, causal: name == "causal_documents" }
            }
            "causal" => match value {
                None => Self::Causal,
                Some(_) => {
                    return Err(Refusal::new(format!("`{text}`: causal takes no parameter")).help("write causal"));
                }
            },
            _ => {
                let known = "random:DENSITY, topk:BLOCKS, window:FRACTION, causal, powerlaw:DENSITY, documents:ROWS or \
                             causal_documents:ROWS";
                return Err(Refusal::new(format!("`{text}` is not a pattern"))
                    .help(format!("write {known}, for instance random:0.25")));
            }
        };
        pattern.check_fraction()?;
        Ok(pattern)
    }
}

impl Pattern {
    /// Refuses a fraction that is not in 0..=1.
    pub(super) fn check_fraction(self) -> Result<(), Refusal> {
        let (pattern, value) = match self {
            Self::Random(value) => ("random", value),
            Self::Window(value) => ("window", value),
            Self::PowerLaw(value) => ("powerlaw", value),
            Self::TopK(_) | Self::Causal | Self::Documents { .. } => return Ok(()),
        };
        match (0.0..=1.0).contains(&value) {
            true => Ok(()),
            false => Err(Refusal::new(format!("{pattern}: the fraction {value} is not between 0 and 1"))
                .help("0.25 stores a quarter of the blocks")),
        }
    }
}

fn number<N: FromStr>(text: &str, value: Option<&str>, wanted: &'static str, example: &str) -> Result<N, Refusal> {
    let Some(value) = value else {
        return Err(Refusal::new(format!("`{text}`: the parameter is missing")).help(format!("write {example}")));
    };
    value
        .parse()
        .map_err(|_| Refusal::new(format!("`{text}`: `{value}` is not {wanted}")).help(format!("write {example}")))
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
            Self::Documents { mean, causal } => {
                write!(f, "{}documents:{mean}", if *causal { "causal_" } else { "" })
            }
        }
    }
}
