//! How fast the parts of an SM are, as our kernels meet them.

use bsr_runtime::roofs::Sheet;
use serde::{Deserialize, Serialize};

/// Constants of the model, each with its source. Those without one are fitted to the measurements of `tests`, which
/// are those of README.md, `benches/LOG.md`, `tuner/tuned` and `benches/model`. Those of the SMs are under sustained load of the
/// tensor cores: at another clock they are others. A [`Card`](super::Card)
/// has its own.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Rates {
    /// The tensor cores' rate in WGMMA over that of the dense library: 16-bit operands, FP8, INT8. TF32 has half of the first.
    pub wgmma: [f64; 3],
    /// Microseconds of a barrier round, between the last WGMMA of a stage and the first one of the next.
    pub round: f64,
    /// What a stage waits for the slower ones of the CTAs that share an operand with it, and of their packed block rows, for every
    /// doubling of these: the sparse operand, the dense one.
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
    /// Microseconds until the first stage of a CTA is there, beyond the launch: 5.8 of both (`benches/LOG.md`, 42).
    pub start: f64,
    /// Nanoseconds that a bulk copy takes for a row, however short (`benches/LOG.md`, 15 and 19).
    pub row_ns: f64,
    /// What rows of a block that lie across L2's sectors cost over others.
    pub across: f64,
    /// Loads of `wgmma` from L2, over the card's rate.
    pub l2: f64,
    /// Bytes that an SM takes from L2 in a microsecond, at most: 64 a clock at 1.49 GHz (`benches/LOG.md`, 46).
    pub port: f64,
    /// Nanoseconds in which an SM writes zeros for a row of a box that lies beyond the end of an operand (`benches/LOG.md`, 46).
    pub beyond_ns: f64,
    /// Device memory's rate over the card's: reads alone are at 4.55 TB/s, copies at 4.3.
    pub hbm: f64,
    /// Microseconds that a tile whose sums are collected takes beyond its stages and the parts that are added.
    pub exchange: f64,
    /// Microseconds beyond the bytes for each part that is added: two trips to L2, for the flag and then for the sums.
    pub collect: f64,
    /// Bytes of such sums that a CTA writes or reads in a microsecond.
    pub partial: f64,
    /// Microseconds of a part of a tile that is computed for another CTA, beyond its stages.
    pub part: f64,
    /// How sharply the slower of tensor cores and L2 alone decides, and of these and of device memory where nothing streams.
    pub sharpness: [f64; 2],
    /// L2's rate where CTAs ask for the same bytes at the same time, as those of SDDMM do, over the one where they do not.
    pub abreast: f64,
    /// The same where CTAs begin their tiles together, as in waves of pairs of blocks (`benches/LOG.md`, 88).
    pub in_waves: f64,
    /// The same of pairs of blocks that are in no waves (`benches/LOG.md`, 96).
    pub apart: f64,
    /// Microseconds of a stage of which one of several consumers alone has a block: nothing covers what it waits for its products
    /// (`benches/LOG.md`, 88).
    pub lone: f64,
    /// FP8 sums that are promoted: time of a stage over one of fast sums.
    pub promoted: f64,
    /// Multiply-adds of a cycle and SM, in `mma_sync` (`benches/LOG.md`, 102, as the next four).
    pub mma_sync: f64,
    /// `wmma` over `mma_sync`, and where copies pass through registers.
    pub wmma: [f64; 2],
    /// The part of the time of shared memory that products of warps show.
    pub shown: f64,
    /// What a copy by `cp.async` takes of shared memory and of the way to it, over one by TMA.
    pub copied: f64,
    /// Time of products of warps that have one set of fragments, over those with two.
    pub one_set: f64,
    /// 8-bit operands over 16-bit ones in `mma_sync`: INT8, FP8.
    pub mma_sync8: [f64; 2],
    /// TFLOP/s of CUDA cores: atomics, registers, vectors.
    pub scalar: [f64; 3],
    /// The clock of the SMs over that under sustained load.
    pub clock: f64,
}

impl Default for Rates {
    fn default() -> Self {
        Self::H200
    }
}

impl Rates {
    /// Those of a card whose SMs are no Hopper's, by the data sheets of both. There `mma_sync` is what the rates of a data sheet
    /// are of; Hopper's is slower than its tensor cores, and slow with FP8.
    pub(super) fn of_other_sms(&self, sheet: &Sheet, hopper: &Sheet) -> Self {
        // Multiply-adds of a cycle and SM.
        let of_cycle = |sheet: &Sheet| sheet.f16 * 1e6 / (2.0 * sheet.sms as f64 * sheet.mhz);
        Self {
            mma_sync: of_cycle(sheet),
            mma_sync8: [sheet.i8, sheet.fp8.unwrap_or(sheet.f16)].map(|rate| rate / sheet.f16),
            scalar: self.scalar.map(|tflops| tflops * sheet.f32 / hopper.f32),
            // The card's rate is that of fewer or more multiply-adds in a cycle.
            clock: self.clock * of_cycle(hopper) / of_cycle(sheet),
            ..*self
        }
    }

    /// As measured on an NVIDIA H200.
    pub const H200: Self = Self {
        wgmma: [1.06, 2.04, 2.18],
        round: 0.0334,
        wait: [0.00438, 0.0476],
        block: 0.0207,
        fill: 0.454,
        turn: 0.0345,
        latency: [1.33, 1.13],
        alone: 1.01,
        between: 0.255,
        store: 0.05,
        start: 0.8,
        row_ns: 1.19,
        across: 2.1,
        l2: 0.852,
        port: 95_400.0,
        hbm: 1.06,
        exchange: 1.68,
        collect: 0.6,
        beyond_ns: 4.32,
        partial: 30_200.0,
        part: 0.3,
        sharpness: [5.33, 1.8],
        abreast: 1.29,
        in_waves: 1.06,
        apart: 0.95,
        lone: 0.1,
        promoted: 1.0,
        mma_sync: 1_570.0,
        wmma: [0.855, 0.448],
        shown: 0.31,
        copied: 3.2,
        one_set: 1.03,
        mma_sync8: [1.8, 0.617],
        scalar: [18.7, 25.9, 47.3],
        clock: 1.0,
    };
}
