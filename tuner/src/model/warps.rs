//! What one tile takes where warps multiply: instructions, what they read from shared memory, what fills it, and what they wait for.

use bsr_codegen::{KernelKind, Profile};

use super::card::Card;
use super::prediction::both;
use super::rates::Rates;
use super::tile::Tile;
use super::tile_time::{Loads, Paces, SHARED, Setting, Share, TileTime};
use super::view::View;

/// Bytes of shared memory that an SM reads or writes in a cycle (CUDA C++ Programming Guide, "Compute Capabilities").
const BANKS: f64 = 128.0;

/// Parts of an SM, each with tensor cores for warps of its own.
const PARTS: f64 = 4.0;

/// Threads of a warp, and bytes of a row of A or a column of B in one instruction, whatever their type.
const LANES: f64 = 32.0;
const DEPTH: f64 = 32.0;

impl Rates {
    /// Cycles of an SM in a microsecond under load of `mma.sync`: the card's rate is that of 2048 multiply-adds a cycle.
    fn warp_clock(&self, card: &Card) -> f64 {
        self.clock * card.dense_tflops / card.sms as f64 / 640.0 * 132.0 * 1.5e3
    }

    /// Cycles of shared memory that products show, for bytes that warps read and bytes that `cp.async` writes.
    fn shown(&self, [read, copied]: [f64; 2]) -> f64 {
        self.shown * (read + self.copied * copied) / BANKS
    }

    /// Microseconds of an SM that warps take for so many 16-bit multiply-adds, for whose operands they read and copy so many bytes of
    /// shared memory.
    pub(super) fn by_warps(&self, multiply_adds: f64, shared: [f64; 2], card: &Card) -> f64 {
        (multiply_adds / self.mma_sync + self.shown(shared)) / self.warp_clock(card)
    }

    /// Multiply-adds of a cycle and SM.
    fn multiplied(&self, profile: &Profile, view: &View) -> f64 {
        match (profile.kind, view.bytes[0] < 2.0, view.bytes[2] >= 4.0) {
            (KernelKind::Doubles { rate }, ..) => f64::from(rate),
            (_, false, _) if view.bytes[0] > 2.0 => self.mma_sync / 2.0,
            (_, false, _) => self.mma_sync,
            (_, true, true) => self.mma_sync * self.mma_sync8[0],
            (_, true, false) => self.mma_sync * self.mma_sync8[1],
        }
    }

    pub(super) fn warp_tile(&self, setting: &Setting<'_>, tile: &Tile, share: &Share) -> TileTime {
        let &Setting { profile, view, misses, card, out, full, .. } = setting;
        let (m, n) = (f64::from(profile.cta_m), f64::from(profile.cta_n));
        let (warps, part) = (f64::from(profile.consumers), profile.share);
        let k = tile.flops / (2.0 * m * n);
        let is_boxed = matches!(profile.kind, KernelKind::Fed { by_tma: true, .. });
        let loaded = (m + n) * view.bytes[0];
        let copied = if is_boxed { loaded / self.copied } else { loaded };
        let read = warps * f64::from(part.0 + part.1) * view.bytes[0];
        // A warp has the tensor cores of its part of the SM.
        let products = m * n / self.multiplied(profile, view) / share.tensor.min(warps / PARTS);
        let slower = match profile.kind {
            KernelKind::Wmma { asynchronous: false } => 1.0 / self.wmma[1],
            KernelKind::Wmma { asynchronous: true } | KernelKind::Fed { opaque: true, .. } => 1.0 / self.wmma[0],
            _ => 1.0,
        };
        let slower = slower * if profile.fragment_sets < 2 { self.one_set } else { 1.0 };
        let tensor = k * slower * (products + self.shown([read, copied]) / share.tensor) / self.warp_clock(card);
        // Sums that have no registers come from L1 or L2 and go there, for every instruction.
        let spilled = 2.0 * 4.0 * f64::from(profile.spilled) * warps * LANES * k * view.bytes[0] / DEPTH;
        let Loads { from_l2, received, boxes } = self.loads(setting, tile, share);
        let own = ((received + spilled) / share.port).max(if is_boxed { boxes } else { 0.0 });
        let fetched = tile.sparse * misses.sparse + tile.dense * misses.dense;
        let hbm = (fetched + full + out * misses.results) / share.hbm;
        let rounds = tile.stages * self.round;
        let trips = f64::from(profile.operand_trips) * self.latency[1];
        let ends = self.between + self.store + out / share.l2 + trips;
        // CTAs that share an SM multiply while another one is between two stages or two tiles.
        let cover = tensor * (1.0 - share.tensor);
        let barriers = (rounds - cover).max(0.0);
        let ends = (ends - (cover - rounds).max(0.0)).max(0.0);
        let work = both(tensor + barriers, from_l2, self.sharpness[0]);
        let (busy, latency) = self.paced(setting, tile, work, Paces { hbm, own, waits: 0.0 });
        TileTime { tensor, l2: both(from_l2, own, SHARED), busy, barriers, latency, ends }
    }
}
