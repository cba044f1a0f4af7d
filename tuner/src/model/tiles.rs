//! How a kernel cuts a problem into tiles, and what an average tile loads and multiplies.

use bsr_codegen::{KernelKind, KernelSpec, Layout, Multicast, Op, Profile, Switch};
use bsr_runtime::bench::Work;

use crate::TuningProblem;
use crate::features::GROUP;

/// The problem as sparse x dense, whatever the operation is: the same view as the plan's.
#[derive(Clone, Copy, Debug)]
pub(super) struct View {
    /// Extent of a block along the rows of the product.
    pub(super) rows: f64,
    /// Extent of a block along K; of SDDMM its columns.
    pub(super) depth: f64,
    /// Block rows.
    pub(super) block_rows: f64,
    /// Stored blocks of a block row, and of the longest.
    pub(super) mean: f64,
    pub(super) longest: f64,
    /// Standard deviation of their number over the mean.
    pub(super) spread: f64,
    /// Stored blocks over distinct columns in groups of [`GROUP`] block rows.
    pub(super) reuse: f64,
    /// Extent of the dense side; K of SDDMM.
    pub(super) along: f64,
    /// The dense operand lies along K, so that rows of it are as long as a block is deep.
    pub(super) along_k: bool,
    /// Bytes of an element of the sparse operand, of the dense one and of the result.
    pub(super) bytes: [f64; 3],
    compulsory: f64,
}

impl View {
    pub(super) fn new(spec: &KernelSpec, problem: &TuningProblem) -> Self {
        let (features, workload) = (&problem.features, &problem.workload);
        let transposed_problem = spec.op == Op::Dds;
        let transposed = spec.op != Op::Sdd && spec.transpose.is_on() != transposed_problem;
        let (rows, depth) = if transposed { (spec.bk, spec.bm) } else { (spec.bm, spec.bk) };
        let count = if transposed { features.block_cols } else { features.block_rows };
        let mean = features.nnzb as f64 / count.max(1) as f64;
        // Of block columns no more is known than of block rows.
        let stored_mean = features.nnzb as f64 / features.block_rows.max(1) as f64;
        let longest = if stored_mean > 0.0 { mean * features.longest_row as f64 / stored_mean } else { 0.0 };
        let (sparse, dense) = if transposed_problem { (spec.b, spec.a) } else { (spec.a, spec.b) };
        let work = Work {
            op: spec.op,
            transpose: if spec.transpose.is_on() { Switch::On } else { Switch::Off },
            m: workload.m,
            n: workload.n,
            k: workload.k,
            block: (spec.bm as usize, spec.bk as usize),
            nnzb: features.nnzb,
            a: spec.a,
            b: spec.b,
            out: spec.out,
        };
        Self {
            rows: f64::from(rows),
            depth: f64::from(depth),
            block_rows: count as f64,
            mean,
            longest,
            spread: features.row_spread,
            reuse: features.reuse,
            along: problem.along() as f64,
            along_k: match spec.op {
                Op::Dsd => spec.b_layout == Layout::ColMajor,
                Op::Dds => spec.a_layout == Layout::RowMajor,
                Op::Sdd | Op::Attention => false,
            },
            bytes: [sparse, dense, spec.out].map(|dtype| f64::from(dtype.bytes())),
            compulsory: work.compulsory_bytes() as f64,
        }
    }

    /// Bytes that must move between memory and the GPU, each once.
    pub(super) fn compulsory_bytes(&self) -> f64 {
        self.compulsory
    }

    /// Stored blocks over distinct columns among `pack` neighbouring block rows, from what is known of groups of
    /// [`GROUP`]: as if each of the columns that a group meets were stored in a row with the same probability.
    fn reuse_of(&self, pack: u32) -> f64 {
        let reuse = |p: f64, rows: f64| if p > 0.0 { rows * p / (1.0 - (1.0 - p).powf(rows)) } else { 1.0 };
        let group = (GROUP as f64).min(self.block_rows.max(1.0));
        let (mut low, mut high) = (0.0, 1.0);
        for _ in 0..50 {
            let middle = 0.5 * (low + high);
            if reuse(middle, group) < self.reuse { low = middle } else { high = middle }
        }
        reuse(low, f64::from(pack))
    }
}

/// Tiles of a problem, and what one of them is on average.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tiles {
    /// Tiles of rows and of columns, a CTA each.
    pub(super) rows: f64,
    pub(super) columns: f64,
    /// Operations, those on padding included.
    pub(super) flops: f64,
    /// Bytes of the sparse and of the dense operand that a CTA asks L2 for.
    pub(super) sparse_bytes: f64,
    pub(super) dense_bytes: f64,
    /// Pipeline stages, and stored blocks in them.
    pub(super) stages: f64,
    pub(super) blocks: f64,
    /// Bytes of the result.
    pub(super) out_bytes: f64,
    /// The longest tile over the average one.
    pub(super) longest: f64,
    /// Standard deviation of the work of tiles over its mean.
    pub(super) spread: f64,
}

impl Tiles {
    pub(super) fn new(profile: &Profile, view: &View) -> Self {
        match profile.kind {
            KernelKind::Sddmm => Self::sddmm(profile, view),
            KernelKind::SwapAb => Self::swap_ab(profile, view),
            KernelKind::Atomic => {
                let tiles = Self::rows(profile, view, 1.0, view.block_rows * view.mean);
                // A product is added to C, which is read and written.
                Self { out_bytes: 3.0 * tiles.out_bytes, longest: 1.0, spread: 0.0, ..tiles }
            }
            KernelKind::Wgmma if profile.pack > 1 => Self::packed_rows(profile, view),
            _ => Self::rows(profile, view, view.mean, view.block_rows),
        }
    }

    pub(super) fn count(&self) -> f64 {
        self.rows * self.columns
    }

    /// Row slices of blocks; `units` rows of blocks with `blocks` stored ones each.
    fn rows(profile: &Profile, view: &View, blocks: f64, units: f64) -> Self {
        let (cta_m, cta_n) = (f64::from(profile.cta_m), f64::from(profile.cta_n));
        let cluster = f64::from(profile.cluster);
        let shared = |which: Multicast| if profile.multicast == which { cluster } else { 1.0 };
        let (steps, substages) = profile.stages_per_block;
        // The last stage of a row of blocks is half full on average.
        let idle =
            if substages > 1 && blocks > 0.0 { 0.5 * f64::from(substages - 1) / f64::from(substages) } else { 0.0 };
        let across = if profile.multicast == Multicast::Sparse { cluster } else { 1.0 };
        Self {
            rows: units * (view.rows / cta_m).ceil(),
            // A cluster's columns are computed whether they are there or not.
            columns: (view.along / (cta_n * across)).ceil() * across,
            flops: 2.0 * blocks * cta_m * cta_n * view.depth,
            sparse_bytes: blocks * cta_m * view.depth * view.bytes[0] / shared(Multicast::Sparse),
            dense_bytes: blocks * view.depth * cta_n * view.bytes[1] / shared(Multicast::Dense),
            stages: blocks * f64::from(steps) / f64::from(substages) + idle,
            blocks,
            out_bytes: cta_m * cta_n * view.bytes[2],
            longest: if view.mean > 0.0 { (view.longest / view.mean).max(1.0) } else { 1.0 },
            spread: view.spread,
        }
    }

    /// Several block rows, each with a consumer, over the union of their columns.
    fn packed_rows(profile: &Profile, view: &View) -> Self {
        let pack = f64::from(profile.pack);
        let tiles = Self::rows(profile, view, view.mean, view.block_rows);
        // Columns of the union for each stored block.
        let columns = pack / view.reuse_of(profile.pack).max(1.0);
        Self {
            rows: (view.block_rows / pack).ceil(),
            dense_bytes: tiles.dense_bytes * columns,
            stages: tiles.stages * columns,
            longest: 1.0 + (tiles.longest - 1.0) / pack.sqrt(),
            spread: tiles.spread / pack.sqrt(),
            ..tiles
        }
    }

    /// Several block rows over the union of their columns.
    fn swap_ab(profile: &Profile, view: &View) -> Self {
        let (pack, unit, cta_n) = (f64::from(profile.pack), f64::from(profile.instruction_n), f64::from(profile.cta_n));
        let held = f64::from(profile.held_k);
        let blocks = view.mean * pack;
        let panels = blocks / view.reuse_of(profile.pack).max(1.0);
        let stage_panels = f64::from(profile.stage_k) * f64::from(profile.stages_per_block.0) / held.max(1.0);
        let longest = if view.mean > 0.0 { (view.longest / view.mean).max(1.0) } else { 1.0 };
        Self {
            rows: (view.block_rows / pack).ceil() * (view.rows / unit).ceil(),
            columns: (view.along / cta_n).ceil(),
            flops: 2.0 * blocks * unit * held * cta_n,
            sparse_bytes: blocks * unit * held * view.bytes[0],
            dense_bytes: panels * held * cta_n * view.bytes[1],
            stages: panels * f64::from(profile.stages_per_block.0) / stage_panels.max(0.25),
            blocks: blocks * f64::from(profile.stages_per_block.0),
            out_bytes: pack * unit * cta_n * view.bytes[2],
            longest: 1.0 + (longest - 1.0) / pack.sqrt(),
            spread: view.spread / pack.sqrt(),
        }
    }

    /// Rows of one block row by some of its stored blocks, over all of K.
    fn sddmm(profile: &Profile, view: &View) -> Self {
        let (cta_m, cta_n) = (f64::from(profile.cta_m), f64::from(profile.cta_n));
        let tile_blocks = (cta_n / view.depth).max(1.0).floor();
        let parts = (view.depth / cta_n).max(1.0).ceil();
        let pack = f64::from(profile.pack);
        // Columns of several block rows are the union of theirs; the last tile of a row is half full on average.
        let columns = view.mean * pack / view.reuse_of(profile.pack).max(1.0) * parts;
        let row_tiles = (view.block_rows / pack).ceil() * (view.rows / cta_m).ceil();
        let each = if columns > 0.0 { columns / tile_blocks + 0.5 * (tile_blocks - 1.0) / tile_blocks } else { 0.0 };
        Self {
            rows: row_tiles,
            columns: each,
            flops: 2.0 * cta_m * cta_n * view.along,
            sparse_bytes: cta_m * view.along * view.bytes[0],
            dense_bytes: cta_n * view.along * view.bytes[1],
            stages: (view.along / f64::from(profile.stage_k)).ceil(),
            blocks: 0.0,
            out_bytes: cta_m * cta_n * view.bytes[2],
            longest: 1.0,
            spread: 0.0,
        }
    }
}
