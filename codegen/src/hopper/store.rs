//! The store of a tile: sums become values of C's type, go through a staging buffer in shared memory, and TMA takes them.

use serde::Serialize;

/// What the subtiles of a store have in common.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Store {
    /// How two f32 become two 16-bit values, or two f16 sums are kept.
    pub(crate) convert: &'static str,
    /// Subtiles of a tile.
    pub(crate) subtiles: u32,
    /// The predicate of the thread that waits for earlier stores.
    pub(crate) lead: &'static str,
    /// Stores that may still read their staging buffer when a subtile begins.
    pub(crate) pending: u32,
    /// The register of C's tensor map.
    pub(crate) map: &'static str,
    /// The registers of the tile's place along C's contiguous dimension and across it.
    pub(crate) inner: &'static str,
    pub(crate) outer: &'static str,
}

/// Two sums become one register of two 16-bit values.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Pack {
    to: String,
    /// The upper and the lower f32 sum, or both f16 sums.
    from: String,
}

impl Pack {
    /// Sums 2 i and 2 i + 1 of those whose names begin with `stem`.
    pub(crate) fn new(stem: &str, i: u32) -> Self {
        Self::of(packed(i), format!("%f_{stem}{}", 2 * i + 1), format!("%f_{stem}{}", 2 * i))
    }

    pub(crate) fn of(to: String, high: String, low: String) -> Self {
        Self { to, from: format!("{high}, {low}") }
    }

    /// A copy of two f16 sums.
    pub(crate) fn copy(to: String, sums: String) -> Self {
        Self { to, from: sums }
    }
}

/// The register of two packed values.
pub(crate) fn packed(i: u32) -> String {
    format!("%r_pack{i}")
}

/// One write of a thread or a warp to the staging buffer.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Write {
    instruction: &'static str,
    address: String,
    registers: String,
    eighths: Eighths,
}

/// How the 8-bit values of a write come about.
#[derive(Clone, Debug, Default, Serialize)]
struct Eighths {
    /// Two sums, the upper and the lower one, that become a pair of values.
    pair: Option<(String, String)>,
    /// The upper value of the pair before takes the lower one's place.
    upper: bool,
}

impl Write {
    pub(crate) fn new(instruction: &'static str, address: String, registers: String) -> Self {
        Self { instruction, address, registers, eighths: Eighths::default() }
    }

    /// Sums `first` and the next become two 8-bit values, and both or the lower one are written.
    pub(crate) fn pair_of_8(instruction: &'static str, address: String, first: u32) -> Self {
        let pair = (format!("%f_acc{}", first + 1), format!("%f_acc{first}"));
        let eighths = Eighths { pair: Some(pair), upper: false };
        Self { eighths, ..Self::new(instruction, address, "%h_pair".to_owned()) }
    }

    /// The upper value of the pair that was written before.
    pub(crate) fn upper_of_8(instruction: &'static str, address: String) -> Self {
        let eighths = Eighths { pair: None, upper: true };
        Self { eighths, ..Self::new(instruction, address, "%h_pair".to_owned()) }
    }
}

/// An address register of the staging buffer, and the bits by which it differs from the first.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Variant {
    register: String,
    flip: u32,
}

/// The swizzle's XOR needs one register for each value of the bits that a constant flips.
pub(crate) fn variants(flips: impl IntoIterator<Item = u32>) -> Vec<Variant> {
    let variant = |(i, flip)| Variant { register: format!("%r_st{i}"), flip };
    flips.into_iter().enumerate().map(variant).collect()
}

/// A box of the staging buffer that TMA stores to a matrix.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct StoreBox {
    pub(crate) offset: u32,
    pub(crate) inner: u32,
    pub(crate) outer: u32,
    /// Where the tile's work has the first row of the block that it is of, in bytes, if each block has its own.
    pub(crate) row_at: Option<u32>,
}

/// A register and what is added to it, as an address is written.
pub(crate) fn address(register: &str, offset: u32) -> String {
    if offset == 0 { register.to_owned() } else { format!("{register} + {offset}") }
}

/// How f32 pairs become C's 16-bit type.
pub(crate) fn convert(out: crate::Dtype) -> &'static str {
    match out {
        crate::Dtype::BF16 => "cvt.rn.bf16x2.f32",
        _ => "cvt.rn.f16x2.f32",
    }
}
