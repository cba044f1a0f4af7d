//! How fast the parts of an SM are, as our kernels meet them.

use bsr_codegen::{KernelKind, Multicast, Profile};

use super::tiles::{Tiles, View};
use super::{Card, both};

/// Constants of the model. They are fitted to the measurements in its test, which are those of README.md and
/// `benches/LOG.md`; only rates of the [`Card`] scale with the GPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    /// The tensor cores' rate in WGMMA over that of the dense library: 16-bit operands, FP8, INT8.
    pub wgmma: [f64; 3],
    /// Microseconds of a barrier round, between the last WGMMA of a stage and the first one of the next.
    pub round: f64,
    /// What a stage waits for the slower ones of the CTAs that share an operand with it, for every doubling of the cluster:
    /// the sparse one, the dense one.
    pub wait: [f64; 2],
    /// The same for a stored block with swap-AB: its place is looked up.
    pub block: f64,
    /// What a producer takes to fill a stage with swap-AB, however little it holds: a record is read, copies are
    /// issued one by one.
    pub fill: f64,
    /// The same for every block row of a tile and stage, whether it has a block there or not.
    pub turn: f64,
    /// What a ring buffer adds to a stage where one microsecond of work is in flight ahead.
    pub latency: f64,
    /// A lone consumer's stages over those of two, which cover each other's gaps.
    pub alone: f64,
    /// Microseconds between two tiles, and of a store that nothing hides.
    pub between: f64,
    /// See `between`.
    pub store: f64,
    /// Nanoseconds that a bulk copy takes for a row, however short (`benches/LOG.md`, 15 and 19).
    pub row_ns: f64,
    /// What rows of a block that lie across L2's sectors cost over others.
    pub across: f64,
    /// Loads of `wgmma` from L2, over the card's rate.
    pub l2: f64,
    /// FP8 sums that are promoted: time of a stage over one of fast sums.
    pub promoted: f64,
    /// Multiply-adds of a cycle and SM, in `mma_sync`.
    pub mma_sync: f64,
    /// `wmma` over `mma_sync`, and where copies pass through registers.
    pub wmma: [f64; 2],
    /// 8-bit operands over 16-bit ones in `mma_sync`: INT8, FP8.
    pub mma_sync8: [f64; 2],
    /// TFLOP/s of CUDA cores: atomics, registers, vectors.
    pub scalar: [f64; 3],
}

impl Rates {
    /// As measured on an NVIDIA H200.
    pub const H200: Self = Self {
        wgmma: [1.09, 2.3, 2.69],
        round: 0.015,
        wait: [0.0126, 0.0276],
        block: 0.000459,
        fill: 0.3,
        turn: 0.00721,
        latency: 0.109,
        alone: 1.15,
        between: 0.394,
        store: 0.5,
        row_ns: 0.932,
        across: 1.87,
        l2: 1.05,
        promoted: 1.0,
        mma_sync: 2800.0,
        wmma: [0.793, 0.315],
        mma_sync8: [1.52, 0.447],
        scalar: [18.7, 25.9, 47.3],
    };
}

/// What one tile takes, in microseconds of one SM.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TileTime {
    /// Multiplications alone.
    pub(super) tensor: f64,
    /// Loads alone.
    pub(super) l2: f64,
    pub(super) barriers: f64,
    pub(super) latency: f64,
    pub(super) ends: f64,
}

impl TileTime {
    pub(super) fn us(&self) -> f64 {
        both(self.tensor, self.l2) + self.barriers + self.latency + self.ends
    }
}

impl Rates {
    pub(super) fn tile(&self, profile: &Profile, view: &View, tiles: &Tiles, card: &Card) -> TileTime {
        match profile.kind {
            KernelKind::Wgmma | KernelKind::SwapAb | KernelKind::Sddmm | KernelKind::Attention => {
                self.wgmma_tile(profile, view, tiles, card)
            }
            KernelKind::MmaSync | KernelKind::Wmma { .. } => self.warp_tile(profile, view, tiles, card),
            KernelKind::Atomic => self.scalar_tile(self.scalar[0], tiles, card),
            KernelKind::Register => self.scalar_tile(self.scalar[1], tiles, card),
            KernelKind::Vector => self.scalar_tile(self.scalar[2], tiles, card),
        }
    }

    fn wgmma_tile(&self, profile: &Profile, view: &View, tiles: &Tiles, card: &Card) -> TileTime {
        let sms = card.sms as f64;
        let kind = match (view.bytes[0] < 2.0, view.bytes[2] >= 4.0) {
            (false, _) => 0,
            (true, false) => 1,
            (true, true) => 2,
        };
        // WGMMA reads both operands from shared memory at 128 B a clock: m64nNk32B takes N / 2 clocks of the tensor
        // core, and 16 + N / 4 of shared memory.
        let n = f64::from(profile.instruction_n.max(8));
        let efficiency = n / 2.0 / both(n / 2.0, 16.0 + n / 4.0);
        let mut tensor = tiles.flops / (self.wgmma[kind] * efficiency * card.dense_tflops / sms * 1e6);
        if profile.consumers == 1 {
            tensor *= self.alone;
        }
        if profile.promoted {
            tensor *= self.promoted;
        }
        let sectors = self.sectors(view);
        let dense = tiles.dense_bytes * if view.along_k { sectors } else { 1.0 };
        let bytes = (tiles.sparse_bytes * sectors + dense) / (self.l2 * card.l2_tbs / sms * 1e6);
        let spans = profile.copied_rows;
        let rows = tiles.sparse_bytes / f64::from(spans.0.max(16)) + tiles.dense_bytes / f64::from(spans.1.max(16));
        let fills = if profile.kind == KernelKind::SwapAb { tiles.stages * self.fill } else { 0.0 };
        let l2 = both(bytes.max(rows * self.row_ns * 1e-3), fills);
        let doublings = f64::from(profile.cluster.max(1).ilog2());
        let wait = match profile.multicast {
            Multicast::Nothing => 0.0,
            Multicast::Sparse => self.wait[0] * doublings,
            Multicast::Dense => self.wait[1] * doublings,
        };
        let blocks = match profile.kind {
            KernelKind::SwapAb => tiles.blocks * self.block + tiles.stages * f64::from(profile.pack) * self.turn,
            _ => 0.0,
        };
        let barriers = tiles.stages * (self.round + wait) + blocks;
        let stage = (both(tensor, l2) + barriers) / tiles.stages.max(1.0);
        let ahead = stage * f64::from(profile.stages.saturating_sub(1).max(1));
        let latency = tiles.stages * stage * (self.latency / (ahead * ahead)).min(1.0 / ahead.max(0.05));
        // Stores leave through L2, too.
        let store = match profile.overlapped {
            true => 0.0,
            false => self.store + tiles.out_bytes / (card.l2_tbs / sms * 1e6),
        };
        TileTime { tensor, l2, barriers, latency, ends: self.between + store }
    }

    /// What L2 reads of rows of a block over what is asked for: rows that are no multiple of its sectors of 32 bytes cost
    /// it two requests where one would do (`benches/LOG.md`, 15).
    fn sectors(&self, view: &View) -> f64 {
        let pitch = (view.depth * view.bytes[0]) as u64;
        if pitch.is_multiple_of(32) { 1.0 } else { self.across }
    }

    /// The planner's own weights of tensor cores, shared memory and L2, which overlap in part.
    fn warp_tile(&self, profile: &Profile, view: &View, tiles: &Tiles, card: &Card) -> TileTime {
        let (m, n) = (f64::from(profile.cta_m), f64::from(profile.cta_n));
        let (warps, share) = (f64::from(profile.consumers), profile.share);
        let bytes = view.bytes[0];
        let loaded = (m + n) * bytes;
        let read = warps * f64::from(share.0 + share.1) * bytes;
        let is_eighth = bytes < 2.0;
        let faster = match (is_eighth, view.bytes[2] >= 4.0) {
            (false, _) => 1.0,
            (true, true) => self.mma_sync8[0],
            (true, false) => self.mma_sync8[1],
        };
        let opaque = match profile.kind {
            KernelKind::Wmma { asynchronous: true } => self.wmma[0],
            KernelKind::Wmma { asynchronous: false } => self.wmma[1],
            _ => 1.0,
        };
        // Multiply-adds that an SM does a cycle: the card's rate is that of 2048 of them.
        let clock = card.dense_tflops / card.sms as f64 / 640.0 * 132.0 * 1.5e3;
        let k = tiles.flops / (2.0 * m * n);
        let cycles = m * n / (self.mma_sync * faster) + 0.4 * (loaded + read) / 128.0;
        let tensor = k * cycles / clock / opaque;
        let l2 = 0.4 * k * loaded / 32.0 / clock;
        let few = (8.0 - warps * f64::from(profile.resident)).max(0.0);
        let shallow = if profile.stages < 3 { 0.08 } else { 0.0 };
        let barriers = tiles.stages * self.round / f64::from(profile.resident);
        TileTime {
            tensor: (tensor + l2) * (1.0 + 0.06 * few + shallow),
            l2,
            barriers,
            latency: 0.0,
            ends: self.between + self.store,
        }
    }

    fn scalar_tile(&self, tflops: f64, tiles: &Tiles, card: &Card) -> TileTime {
        let tensor = tiles.flops / (tflops / card.sms as f64 * 1e6);
        TileTime { tensor, ends: self.between, ..TileTime::default() }
    }
}
