//! Data sheets of cards.

use bsr_codegen::{Dtype, Refusal};

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
    /// Streaming multiprocessors.
    pub sms: usize,
    /// Their boost clock in MHz.
    pub mhz: f64,
    /// Megabytes of L2.
    pub l2_mb: f64,
}

const H200: &str = "NVIDIA H200 Tensor Core GPU data sheet; half of what it lists with structured sparsity";
const H100: &str = "NVIDIA H100 Tensor Core GPU data sheet; half of what it lists with structured sparsity";
const A100: &str = "NVIDIA A100 Tensor Core GPU data sheet";

const L4: &str = "NVIDIA L4 Tensor Core GPU data sheet; half of what it lists with structured sparsity";
const A10: &str = "NVIDIA A10 Tensor Core GPU data sheet; half of what it lists with structured sparsity";
const GA102: &str = "NVIDIA Ampere GA102 GPU architecture white paper";
const ADA: &str = "NVIDIA Ada GPU architecture white paper";
const BLACKWELL: &str = "NVIDIA RTX Blackwell GPU architecture white paper";
const B200: &str = "NVIDIA DGX B200 data sheet; per GPU, half of what it lists with structured sparsity";
const H20: &str = "NVIDIA H20 data sheet, as published by resellers";
const H800: &str = "NVIDIA H800 data sheet, as published by resellers; half of what it lists with structured sparsity";
const GH200: &str = "NVIDIA GH200 Grace Hopper Superchip data sheet; half of what it lists with structured sparsity";

const HOPPER: (u32, u32) = (9, 0);
/// An H100 SXM, whose chip other cards have too: TFLOP/s on f32, f16, FP8 and i8.
const GH100: (f64, f64, Option<f64>, f64) = (67.0, 989.5, Some(1979.0), 1979.0);

/// The cards whose data sheets are known: TFLOP/s on f32, f16, FP8 and i8, TB/s of device memory; SMs, boost clock in MHz, MB of L2.
/// The first is the one that the tuner's model and table were measured on.
const CARDS: [Sheet; 16] = [
    card("NVIDIA H200", H200, HOPPER, GH100, 4.8, (132, 1980.0, 60.0)),
    card("NVIDIA H100 80GB HBM3", H100, HOPPER, GH100, 3.35, (132, 1980.0, 50.0)),
    card("NVIDIA H100 PCIe", H100, HOPPER, (51.0, 756.5, Some(1513.0), 1513.0), 2.0, (114, 1755.0, 50.0)),
    card("NVIDIA H100 NVL", H100, HOPPER, (60.0, 835.5, Some(1670.5), 1670.5), 3.9, (132, 1785.0, 50.0)),
    card("NVIDIA H800", H800, HOPPER, GH100, 3.35, (132, 1980.0, 50.0)),
    card("NVIDIA H20", H20, HOPPER, (44.0, 148.0, Some(296.0), 296.0), 4.0, (78, 1980.0, 60.0)),
    card("NVIDIA GH200 480GB", GH200, HOPPER, GH100, 4.0, (132, 1980.0, 60.0)),
    card("NVIDIA GH200 144G HBM3e", GH200, HOPPER, GH100, 4.9, (132, 1980.0, 60.0)),
    card("NVIDIA A100-SXM4-80GB", A100, (8, 0), (19.5, 312.0, None, 624.0), 2.039, (108, 1410.0, 40.0)),
    card("NVIDIA A10", A10, (8, 6), (31.2, 125.0, None, 250.0), 0.6, (72, 1695.0, 6.0)),
    card("NVIDIA GeForce RTX 3090", GA102, (8, 6), (35.6, 71.0, None, 284.0), 0.936, (82, 1695.0, 6.0)),
    card("NVIDIA L4", L4, (8, 9), (30.3, 121.0, Some(242.5), 242.5), 0.3, (58, 2040.0, 48.0)),
    card("NVIDIA GeForce RTX 4090", ADA, (8, 9), (82.6, 165.2, Some(330.3), 660.6), 1.008, (128, 2520.0, 72.0)),
    card("NVIDIA RTX 6000 Ada Generation", ADA, (8, 9), (91.1, 364.2, Some(728.5), 728.5), 0.96, (142, 2505.0, 96.0)),
    card("NVIDIA GeForce RTX 5090", BLACKWELL, (12, 0), (104.8, 209.5, Some(419.0), 838.0), 1.792, (170, 2407.0, 96.0)),
    card("NVIDIA B200", B200, (10, 0), (75.0, 2250.0, Some(4500.0), 4500.0), 8.0, (148, 1965.0, 126.0)),
];

/// A row of the table.
const fn card(
    name: &'static str,
    source: &'static str,
    capability: (u32, u32),
    (f32, f16, fp8, i8): (f64, f64, Option<f64>, f64),
    hbm_tbs: f64,
    (sms, mhz, l2_mb): (usize, f64, f64),
) -> Sheet {
    Sheet { name, source, capability, f32, f16, fp8, i8, hbm_tbs, sms, mhz, l2_mb }
}

impl Sheet {
    /// The card that is meant where there is no GPU and none is named: that of the tuner's measurements.
    pub const MEASURED: &'static Self = &CARDS[0];

    /// That of a card by the driver's name for it.
    pub fn of(name: &str) -> Option<&'static Self> {
        CARDS.iter().find(|card| card.name == name)
    }

    /// The card that is meant by a name, or by words or the beginning of one that no other card has; case does not count.
    ///
    /// # Errors
    /// The names that have the text in them, or the nearest of those that are known.
    pub fn find(text: &str) -> Result<&'static Self, Refusal> {
        let text = text.trim().to_lowercase();
        let of = |is_it: &dyn Fn(&str) -> bool| -> Vec<&'static Self> {
            CARDS.iter().filter(|card| is_it(&card.name.to_lowercase())).collect()
        };
        let names =
            |cards: &mut dyn Iterator<Item = &'static Self>| cards.map(|card| card.name).collect::<Vec<_>>().join(", ");
        let is_in = |end: &str| {
            let wanted = format!(" {text}{end}");
            of(&|name| !text.is_empty() && format!(" {name} ").contains(&wanted))
        };
        let ways = [of(&|name| name == text), is_in(" "), is_in("")];
        let found = ways.into_iter().find(|found| !found.is_empty()).unwrap_or_default();
        match found[..] {
            [card] => Ok(card),
            [] => {
                let distance = |card: &&Sheet| {
                    let words =
                        card.name.split([' ', '-']).map(|word| strsim::levenshtein(&word.to_lowercase(), &text));
                    words.chain([strsim::levenshtein(&card.name.to_lowercase(), &text)]).min()
                };
                let mut nearest: Vec<&Self> = CARDS.iter().collect();
                if !text.is_empty() {
                    nearest.sort_by_key(distance);
                }
                let help = format!("the nearest names are {}", names(&mut nearest.into_iter().take(4)));
                Err(Refusal::new("it is the name of no card that is known").help(help))
            }
            _ => Err(Refusal::new("it is a part of several names").help(names(&mut found.into_iter()))),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_is_found_by_what_no_other_name_has() {
        for (text, name) in [
            ("NVIDIA H200", "NVIDIA H200"),
            ("h200", "NVIDIA H200"),
            ("h100 pcie", "NVIDIA H100 PCIe"),
            ("A10", "NVIDIA A10"),
            ("A100", "NVIDIA A100-SXM4-80GB"),
            ("RTX 5090", "NVIDIA GeForce RTX 5090"),
        ] {
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
