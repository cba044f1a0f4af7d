//! How fast the parts of an SM are, as our kernels meet them.

use bsr_codegen::{KernelKind, Multicast, Profile};

use super::Card;
use super::both;
use super::footprint::Misses;
use super::tiles::{Tile, Tiles};
use super::view::View;

/// Constants of the model, each with its source. Those without one are fitted to the measurements of `tests`, which
/// are those of README.md, `benches/LOG.md`, `tuner/tuned` and `benches/model`. Only rates of the [`Card`] scale with the GPU.
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
    /// Microseconds from the request of a stage to its arrival, under load: from L2, from device memory.
    pub latency: [f64; 2],
    /// A lone consumer's stages over those of two, which cover each other's gaps.
    pub alone: f64,
    /// Microseconds between two tiles, and of a store that nothing hides.
    pub between: f64,
    /// See `between`.
    pub store: f64,
    /// Microseconds until the first stage of a CTA is there, beyond the latency.
    pub start: f64,
    /// Nanoseconds that a bulk copy takes for a row, however short (`benches/LOG.md`, 15 and 19).
    pub row_ns: f64,
    /// What rows of a block that lie across L2's sectors cost over others.
    pub across: f64,
    /// Loads of `wgmma` from L2, over the card's rate.
    pub l2: f64,
    /// Bytes that an SM takes from L2 in a microsecond, at most: 64 a clock at 1.49 GHz.
    pub port: f64,
    /// Device memory's rate over the card's.
    pub hbm: f64,
    /// Bytes of L2 that hold what concurrent tiles share. An H200 has 60 MB in two halves, and each half has its own copy of
    /// what SMs of both read; results and metadata take their part (`benches/LOG.md`, 8 and 35).
    pub l2_bytes: f64,
    /// Microseconds that it takes to pass on sums of a part of a tile: two trips to L2 and a flag (`benches/LOG.md`, 29).
    pub exchange: f64,
    /// Bytes of such sums that a CTA writes or reads in a microsecond.
    pub partial: f64,
    /// The part of SDDMM's columns that every wave of tiles after the first one reads from device memory again.
    pub wave: f64,
    /// How far a long tile may be behind others, over what L2 should hold by its size: such that 64 x 64 blocks of a power law with
    /// 256 columns a tile move the 1.0 GB that `ncu` counts (`benches/LOG.md`, 35).
    pub lag: f64,
    /// Microseconds of a part of a tile that is computed for another CTA, beyond its stages.
    pub part: f64,
    /// How sharply the slower of tensor cores and L2 alone decides, and of these and of device memory.
    pub sharpness: [f64; 2],
    /// L2's rate where CTAs ask for the same bytes at the same time, as those of SDDMM do, over the one where they do not.
    pub abreast: f64,
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
        wgmma: [1.28, 2.71, 2.92],
        round: 0.001,
        wait: [0.0139, 0.0393],
        block: 0.000561,
        fill: 0.247,
        turn: 0.00947,
        latency: [0.805, 1.02],
        alone: 1.11,
        between: 0.0687,
        store: 0.05,
        start: 0.124,
        row_ns: 0.898,
        across: 2.24,
        l2: 1.29,
        port: 200_000.0,
        hbm: 1.1,
        l2_bytes: 25.2e6,
        exchange: 0.38,
        partial: 25_900.0,
        wave: 0.523,
        lag: 0.5,
        part: 0.3,
        sharpness: [2.79, 1.98],
        abreast: 1.41,
        promoted: 1.05,
        mma_sync: 2800.0,
        wmma: [0.793, 0.315],
        mma_sync8: [1.52, 0.447],
        scalar: [18.7, 25.9, 47.3],
    };
}

/// How sharply the slower of the tensor cores and of shared memory decides within a WGMMA: nothing else is between them.
const SHARED: f64 = 6.0;

/// What a CTA has of the card while so many run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    /// Of an SM's tensor cores.
    tensor: f64,
    /// Bytes from L2 in a microsecond: of the card's, of the SM's.
    pub(super) l2: f64,
    port: f64,
    /// Bytes of device memory in a microsecond.
    hbm: f64,
}

impl Share {
    /// That of one of `active` CTAs.
    pub(super) fn new(active: f64, card: &Card, rates: &Rates) -> Self {
        let active = active.max(1.0);
        let of_sm = (card.sms as f64 / active).min(1.0);
        Self {
            tensor: of_sm,
            l2: rates.l2 * card.l2_tbs * 1e6 / active,
            port: rates.port * of_sm,
            hbm: rates.hbm * card.hbm_tbs * 1e6 / active,
        }
    }
}

/// What one tile takes, in microseconds of one CTA.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TileTime {
    /// Multiplications alone.
    pub(super) tensor: f64,
    /// Loads alone.
    pub(super) l2: f64,
    /// Both, and what comes from device memory, which overlap.
    busy: f64,
    pub(super) barriers: f64,
    pub(super) latency: f64,
    /// The beginning of the tile, and a store that nothing hides.
    pub(super) ends: f64,
}

impl TileTime {
    /// The stages, from the first to the last.
    pub(super) fn stages(&self) -> f64 {
        self.busy + self.barriers + self.latency
    }

    pub(super) fn us(&self) -> f64 {
        self.stages() + self.ends
    }
}

/// What the time of a tile depends on beside the tile.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setting<'s> {
    pub(super) profile: &'s Profile,
    pub(super) view: &'s View,
    pub(super) misses: Misses,
    pub(super) card: &'s Card,
    /// Bytes of the result that a tile has.
    pub(super) out: f64,
}

impl<'s> Setting<'s> {
    pub(super) fn new(profile: &'s Profile, view: &'s View, tiles: &Tiles, misses: Misses, card: &'s Card) -> Self {
        Self { profile, view, misses, card, out: tiles.out }
    }
}

impl Rates {
    pub(super) fn tile(&self, setting: &Setting<'_>, tile: &Tile, share: &Share) -> TileTime {
        match setting.profile.kind {
            KernelKind::Wgmma | KernelKind::SwapAb | KernelKind::Sddmm | KernelKind::Attention => {
                self.wgmma_tile(setting, tile, share)
            }
            KernelKind::MmaSync | KernelKind::Wmma { .. } => self.warp_tile(setting, tile, share),
            KernelKind::Atomic => self.scalar_tile(self.scalar[0], setting, tile, share),
            KernelKind::Register => self.scalar_tile(self.scalar[1], setting, tile, share),
            KernelKind::Vector => self.scalar_tile(self.scalar[2], setting, tile, share),
        }
    }

    /// Microseconds of the store of a cluster's last tile, which no other one hides.
    pub(super) fn last_store(&self, setting: &Setting<'_>, share: &Share) -> f64 {
        let is_hopper = matches!(setting.profile.kind, KernelKind::Wgmma | KernelKind::SwapAb | KernelKind::Sddmm);
        if is_hopper && setting.profile.overlapped { self.store + setting.out / share.l2 } else { 0.0 }
    }

    /// Microseconds until a CTA's first stage is there.
    pub(super) fn first_stage(&self) -> f64 {
        self.start + self.latency[1]
    }

    fn wgmma_tile(&self, setting: &Setting<'_>, tile: &Tile, share: &Share) -> TileTime {
        let &Setting { profile, view, misses, card, out } = setting;
        let sms = card.sms as f64;
        let kind = match (view.bytes[0] < 2.0, view.bytes[2] >= 4.0) {
            (false, _) => 0,
            (true, false) => 1,
            (true, true) => 2,
        };
        // WGMMA reads both operands from shared memory at 128 B a clock: m64nNk32B takes N / 2 clocks of the tensor
        // core, and 16 + N / 4 of shared memory.
        let n = f64::from(profile.instruction_n.max(8));
        let efficiency = n / 2.0 / both(n / 2.0, 16.0 + n / 4.0, SHARED);
        let rate = self.wgmma[kind] * efficiency * card.dense_tflops / sms * 1e6 * share.tensor;
        let mut tensor = tile.flops / rate;
        if profile.consumers == 1 {
            tensor *= self.alone;
        }
        if profile.promoted {
            tensor *= self.promoted;
        }
        let sectors = self.sectors(view);
        let dense = tile.dense * if view.along_k { sectors } else { 1.0 };
        let sparse = tile.sparse * sectors;
        let cluster = f64::from(profile.cluster.max(1));
        let times = |which: Multicast| if profile.multicast == which { cluster } else { 1.0 };
        let received = sparse * times(Multicast::Sparse) + dense * times(Multicast::Dense);
        let abreast = if profile.kind == KernelKind::Sddmm { self.abreast } else { 1.0 };
        let bytes = ((sparse + dense) / (share.l2 * abreast)).max(received / share.port);
        let spans = profile.copied_rows;
        let rows = tile.sparse / f64::from(spans.0.max(16)) + tile.dense / f64::from(spans.1.max(16));
        let fills = if profile.kind == KernelKind::SwapAb { tile.stages * self.fill } else { 0.0 };
        let l2 = both(bytes.max(rows * self.row_ns * 1e-3), fills, self.sharpness[0]);
        let fetched = tile.sparse * misses.sparse + tile.dense * misses.dense;
        let hbm = (fetched + out) / share.hbm;
        let doublings = f64::from(profile.cluster.max(1).ilog2());
        let wait = match profile.multicast {
            Multicast::Nothing => 0.0,
            Multicast::Sparse => self.wait[0] * doublings,
            Multicast::Dense => self.wait[1] * doublings,
        };
        let blocks = match profile.kind {
            KernelKind::SwapAb => tile.blocks * self.block + tile.stages * f64::from(profile.pack) * self.turn,
            _ => 0.0,
        };
        let barriers = tile.stages * (self.round + wait) + blocks;
        // A stage is asked for when it is free: every `stages` stages take a latency and the work on one of them.
        // It is there when the last of its boxes is.
        let miss = misses.sparse.max(misses.dense);
        let trip = self.latency[0] + miss * (self.latency[1] - self.latency[0]);
        let busy = both(both(tensor, l2, self.sharpness[0]), hbm, self.sharpness[1]);
        let bound = (tile.stages * trip + tensor + barriers) / f64::from(profile.stages.max(1));
        let latency = both(busy + barriers, bound, self.sharpness[0]) - busy - barriers;
        // Stores leave through L2, too.
        let store = if profile.overlapped { 0.0 } else { self.store + out / share.l2 };
        TileTime { tensor, l2, busy, barriers, latency, ends: self.between + store }
    }

    /// What L2 reads of rows of a block over what is asked for: rows that are no multiple of its sectors of 32 bytes cost
    /// it two requests where one would do (`benches/LOG.md`, 15).
    fn sectors(&self, view: &View) -> f64 {
        let pitch = (view.depth * view.bytes[0]) as u64;
        if pitch.is_multiple_of(32) { 1.0 } else { self.across }
    }

    /// The planner's own weights of tensor cores, shared memory and L2, which overlap in part.
    fn warp_tile(&self, setting: &Setting<'_>, tile: &Tile, share: &Share) -> TileTime {
        let &Setting { profile, view, card, .. } = setting;
        let (m, n) = (f64::from(profile.cta_m), f64::from(profile.cta_n));
        let (warps, part) = (f64::from(profile.consumers), profile.share);
        let bytes = view.bytes[0];
        let loaded = (m + n) * bytes;
        let read = warps * f64::from(part.0 + part.1) * bytes;
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
        let k = tile.flops / (2.0 * m * n);
        let cycles = m * n / (self.mma_sync * faster) + 0.4 * (loaded + read) / 128.0;
        let tensor = k * cycles / clock / opaque;
        let l2 = 0.4 * k * loaded / 32.0 / clock;
        let few = (8.0 - warps * f64::from(profile.resident)).max(0.0);
        let shallow = if profile.stages < 3 { 0.08 } else { 0.0 };
        let tensor = (tensor + l2) * (1.0 + 0.06 * few + shallow) / share.tensor;
        TileTime {
            tensor,
            l2,
            busy: both(tensor, l2, SHARED),
            barriers: tile.stages * self.round,
            ends: self.between + self.store,
            ..TileTime::default()
        }
    }

    fn scalar_tile(&self, tflops: f64, setting: &Setting<'_>, tile: &Tile, share: &Share) -> TileTime {
        let tensor = tile.flops / (tflops / setting.card.sms as f64 * 1e6) / share.tensor;
        TileTime { tensor, busy: tensor, ends: self.between, ..TileTime::default() }
    }
}
