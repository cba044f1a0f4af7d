//! Split K: several CTAs share the K of one output tile.
//!
//! A CTA that computes a part of the K of another's tile writes its partial sums to a *place* of the workspace, and then
//! the flag behind them. The CTA that has the tile adds the parts in the order of their places and stores the tile, so
//! that every launch gives the same bits.

use serde::Serialize;

use super::wgmma::Sums;
use crate::plan::SplitForm;
use crate::{Dtype, SplitK};

/// Bytes of a flag in the workspace, and what places are multiples of.
const FLAG: u32 = 128;
/// Registers that collect at once: enough loads in flight to hide most of their latency.
const COLLECTED: u32 = 32;

/// The workspace of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Workspace {
    /// CTAs of a cluster, each with its own part of a place.
    pub(crate) cluster: u32,
    pub(crate) consumers: u32,
    /// Bytes of a consumer's sums, and of them and their flag.
    pub(crate) sums_bytes: u32,
    pub(crate) place_bytes: u32,
    /// Bytes of a place.
    pub(crate) places_bytes: u32,
    /// The word of a work tile that contributes, where others have the number of parts.
    pub(crate) contributes: u32,
}

impl Workspace {
    /// `accumulators` are the registers of a thread's sums.
    pub(crate) fn new(cluster: u32, consumers: u32, warpgroup: u32, accumulators: u32) -> Self {
        let sums_bytes = 4 * warpgroup * accumulators;
        let place_bytes = sums_bytes + FLAG;
        let places_bytes = cluster * consumers * place_bytes;
        let contributes = SplitForm::CONTRIBUTES;
        Self { cluster, consumers, sums_bytes, place_bytes, places_bytes, contributes }
    }

    /// The row of a plan's table.
    pub(crate) fn row(&self, split: SplitK) -> [String; 3] {
        let Self { sums_bytes, places_bytes, .. } = self;
        let why = format!(
            "a split-K partial takes {places_bytes} B of the workspace: {sums_bytes} B per consumer and a flag"
        );
        ["split K".to_owned(), split.to_string(), why]
    }

    /// What the tile scheduler must know, of a kernel whose clusters load so many bytes in a stage, and of whose work tiles
    /// so many words begin with so many that are of no role.
    pub(crate) fn form(&self, stage_bytes: u32, (tile_words, role): (u32, u32)) -> SplitForm {
        SplitForm { tile_words, role, partial_bytes: self.places_bytes, stage_bytes }
    }
}

/// How one tile's sums go to the workspace and come from it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Exchange {
    /// What its labels end in.
    name: &'static str,
    /// Which thread of a consumer waits for flags and sets them.
    lead: &'static str,
    /// The type of a register of the workspace, and the instruction that adds one to a sum.
    dtype: &'static str,
    add: &'static str,
    parts: Vec<Part>,
    collects: Vec<Collect>,
}

/// 16 bytes of a thread's sums in the workspace.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Part {
    offset: u32,
    registers: String,
}

/// Loads that are on their way together, and what is done with them.
#[derive(Clone, Debug, Serialize)]
struct Collect {
    loads: Vec<Part>,
    sums: Vec<Sum>,
}

#[derive(Clone, Debug, Serialize)]
struct Sum {
    sum: String,
    part: String,
}

impl Exchange {
    /// Of the first `count` of a thread's `sums`; `lead` is the predicate of one thread of a consumer.
    pub(crate) fn new(name: &'static str, lead: &'static str, sums: Sums, count: u32, warpgroup: u32) -> Self {
        let part = |i: u32| Sums { stem: "part", ..sums }.name(i);
        let collect = |first: u32| {
            let size = COLLECTED.min(count - first);
            let sum = |i: u32| Sum { sum: sums.name(first + i), part: part(i) };
            let loads = parts(warpgroup, first, (0..size).map(part).collect());
            Collect { loads, sums: (0..size).map(sum).collect() }
        };
        let (dtype, add) = match sums.dtype {
            Dtype::F16 => ("b32", "add.rn.f16x2"),
            Dtype::I32 => ("u32", "add.u32"),
            _ => ("f32", "add.f32"),
        };
        Self {
            name,
            lead,
            dtype,
            add,
            parts: parts(warpgroup, 0, (0..count).map(|i| sums.name(i)).collect()),
            collects: (0..count).step_by(COLLECTED as usize).map(collect).collect(),
        }
    }
}

/// A thread's sums in parts of four, those of neighbouring threads side by side.
pub(crate) fn parts(warpgroup: u32, first: u32, names: Vec<String>) -> Vec<Part> {
    let part = |(i, four): (usize, &[String])| Part {
        offset: (first / 4 + i as u32) * 16 * warpgroup,
        registers: format!("{{ {} }}", four.join(", ")),
    };
    names.chunks(4).enumerate().map(part).collect()
}
