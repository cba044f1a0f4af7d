//! Data sheets of cards.

use bsr_codegen::Dtype;

/// What a card is sold with: rates of dense products, without structured sparsity, at its boost clock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sheet {
    /// As the driver names the card.
    pub name: &'static str,
    /// Where the figures are from.
    pub source: &'static str,
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
        f32: 67.0,
        f16: 989.5,
        fp8: Some(1979.0),
        i8: 1979.0,
        hbm_tbs: 4.8,
    },
    Sheet {
        name: "NVIDIA H100 80GB HBM3",
        source: H100,
        f32: 67.0,
        f16: 989.5,
        fp8: Some(1979.0),
        i8: 1979.0,
        hbm_tbs: 3.35,
    },
    Sheet {
        name: "NVIDIA H100 PCIe",
        source: H100,
        f32: 51.0,
        f16: 756.5,
        fp8: Some(1513.0),
        i8: 1513.0,
        hbm_tbs: 2.0,
    },
    Sheet { name: "NVIDIA H100 NVL", source: H100, f32: 60.0, f16: 835.5, fp8: Some(1670.5), i8: 1670.5, hbm_tbs: 3.9 },
    Sheet {
        name: "NVIDIA A100-SXM4-80GB",
        source: "NVIDIA A100 Tensor Core GPU data sheet",
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
