//! Data sheets of cards.

use std::fmt;

use bsr_codegen::Dtype;

/// What a card is sold with: rates of dense products, without structured sparsity, at its boost clock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sheet {
    /// As the driver names the card.
    pub name: &'static str,
    /// Where the figures are from.
    pub source: &'static str,
    /// Its compute capability.
    pub capability: (u32, u32),
    /// TFLOP/s of f32 on CUDA cores.
    pub f32: f64,
    /// TFLOP/s of the tensor cores on f16 and bf16.
    pub f16: f64,
    /// TFLOP/s of the tensor cores on FP8; none where they have no FP8.
    pub fp8: Option<f64>,
    /// The same on i8.
    pub i8: f64,
    /// TB/s of device memory.
    pub hbm_tbs: f64,
}

const H100: &str = "NVIDIA H100 Tensor Core GPU data sheet; half of what it lists with structured sparsity";

/// The cards whose data sheets are known.
const CARDS: [Sheet; 5] = [
    Sheet {
        name: "NVIDIA H200",
        source: "NVIDIA H200 Tensor Core GPU data sheet; half of what it lists with structured sparsity",
        capability: (9, 0),
        f32: 67.0,
        f16: 989.5,
        fp8: Some(1979.0),
        i8: 1979.0,
        hbm_tbs: 4.8,
    },
    Sheet {
        name: "NVIDIA H100 80GB HBM3",
        source: H100,
        capability: (9, 0),
        f32: 67.0,
        f16: 989.5,
        fp8: Some(1979.0),
        i8: 1979.0,
        hbm_tbs: 3.35,
    },
    Sheet {
        name: "NVIDIA H100 PCIe",
        source: H100,
        capability: (9, 0),
        f32: 51.0,
        f16: 756.5,
        fp8: Some(1513.0),
        i8: 1513.0,
        hbm_tbs: 2.0,
    },
    Sheet {
        name: "NVIDIA H100 NVL",
        source: H100,
        capability: (9, 0),
        f32: 60.0,
        f16: 835.5,
        fp8: Some(1670.5),
        i8: 1670.5,
        hbm_tbs: 3.9,
    },
    Sheet {
        name: "NVIDIA A100-SXM4-80GB",
        source: "NVIDIA A100 Tensor Core GPU data sheet",
        capability: (8, 0),
        f32: 19.5,
        f16: 312.0,
        fp8: None,
        i8: 624.0,
        hbm_tbs: 2.039,
    },
];

impl Sheet {
    /// That of a card by the driver's name for it.
    pub fn of(name: &str) -> Option<&'static Self> {
        CARDS.iter().find(|card| card.name == name)
    }

    /// The card that is meant by a name, or by a part of one that no other card has; case does not count.
    ///
    /// # Errors
    /// The names that have the text in them, or all that are known.
    pub fn find(text: &str) -> Result<&'static Self, UnknownCard> {
        let text = text.trim().to_lowercase();
        let of = |is_it: &dyn Fn(&str) -> bool| -> Vec<&'static Self> {
            CARDS.iter().filter(|card| is_it(&card.name.to_lowercase())).collect()
        };
        let exact = of(&|name| name == text);
        let found = if exact.is_empty() { of(&|name| !text.is_empty() && name.contains(&text)) } else { exact };
        match found[..] {
            [card] => Ok(card),
            [] => Err(UnknownCard { known: CARDS.iter().map(|card| card.name).collect(), is_part: false }),
            _ => Err(UnknownCard { known: found.iter().map(|card| card.name).collect(), is_part: true }),
        }
    }

    /// TFLOP/s on operands of a type.
    pub fn rate(&self, dtype: Dtype) -> Option<f64> {
        match dtype {
            Dtype::F32 => Some(self.f32),
            dtype if dtype.is_fp8() => self.fp8,
            dtype if dtype.bytes() == 1 => Some(self.i8),
            _ => Some(self.f16),
        }
    }
}

/// A name that no card has, or several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownCard {
    known: Vec<&'static str>,
    is_part: bool,
}

impl std::error::Error for UnknownCard {}

impl fmt::Display for UnknownCard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_part {
            "it is a part of several names"
        } else {
            "it is the name of no card that is known"
        })?;
        write!(f, "\n  help: {}", self.known.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_is_found_by_what_no_other_name_has() {
        for (text, name) in [("NVIDIA H200", "NVIDIA H200"), ("h200", "NVIDIA H200"), ("h100 pcie", "NVIDIA H100 PCIe")]
        {
            assert_eq!(Sheet::find(text).map(|card| card.name), Ok(name), "{text}");
        }
        let refused =
            |text: &str| Sheet::find(text).map_or_else(|error| error.to_string(), |card| card.name.to_owned());
        assert!(refused("H100").ends_with("help: NVIDIA H100 80GB HBM3, NVIDIA H100 PCIe, NVIDIA H100 NVL"));
        for text in ["", "NVIDIA H300", "banana"] {
            assert!(refused(text).contains("no card that is known") && refused(text).contains("NVIDIA H200"), "{text}");
        }
    }
}
