//! The layout of an operand's tile in shared memory, and which thread copies which 16-byte vectors of it.

use serde::Serialize;

use super::boxes;
use super::doubles;
use super::seen;
use super::tiling::Tiling;
use super::units::{BANKS, VECTOR_BYTES, k_unit};
use crate::hopper::ALIGN;
use crate::plan::KLoop;
use crate::{KernelSpec, Layout, Load, Mma};

/// One operand's part of a stage: rows of 16-byte vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Operand {
    /// Rows are rows of A or columns of B, and vectors are along K; otherwise rows are lines of K, along M or N.
    pub(crate) along_k: bool,
    pub(crate) rows: u32,
    /// Vectors of a row.
    pub(crate) vectors: u32,
    /// Bytes from one row to the next. Vectors beyond them are in further panels, each of all rows.
    pub(crate) pitch: u32,
    /// So many neighbouring vectors change places by row, for the banks' sake; 1 where rows are padded instead.
    pub(crate) group: u32,
    /// Threads that copy one row; none where TMA does.
    pub(crate) lanes: u32,
    /// Rows that all threads copy at once.
    pub(crate) rows_a_pass: u32,
    pub(crate) threads: u32,
}

/// One vector a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pass {
    /// Rows below the thread's first.
    pub(crate) row: u32,
    /// Vectors right of the thread's first.
    pub(crate) vector: u32,
    /// Bytes in shared memory from the thread's first vector.
    pub(crate) offset: u32,
    /// Address bits in which the swizzle differs from that of the first.
    pub(crate) flip: u32,
    /// Not all threads have a row left.
    pub(crate) last: bool,
}

impl Operand {
    pub(crate) fn bytes(&self) -> u32 {
        let panels = (self.vectors * VECTOR_BYTES).div_ceil(self.pitch);
        (panels * self.rows * self.pitch).next_multiple_of(if self.is_boxed() { ALIGN } else { BANKS })
    }

    /// TMA loads it.
    pub(crate) fn is_boxed(&self) -> bool {
        self.lanes == 0
    }

    /// Bytes from the first vector of a row to vector `vector`, before the swizzle.
    pub(crate) fn vector_offset(&self, vector: u32) -> u32 {
        let of_panel = self.pitch / VECTOR_BYTES;
        vector / of_panel * self.panel_bytes() + vector % of_panel * VECTOR_BYTES
    }

    /// Bytes from one panel to the next.
    pub(crate) fn panel_bytes(&self) -> u32 {
        self.rows * self.pitch
    }

    /// Parts of a row that one thread copies one after the other.
    pub(crate) fn parts(&self) -> u32 {
        self.vectors / self.lanes
    }

    /// Passes over the rows.
    pub(crate) fn row_passes(&self) -> u32 {
        self.rows.div_ceil(self.rows_a_pass)
    }

    /// Vectors that a thread copies.
    pub(crate) fn copies(&self) -> u32 {
        self.parts() * self.row_passes()
    }

    /// Some threads copy nothing.
    pub(crate) fn idle_threads(&self) -> bool {
        self.lanes * self.rows_a_pass < self.threads
    }

    /// Rows of the last pass over the rows.
    pub(crate) fn rows_of_last_pass(&self) -> u32 {
        self.rows - (self.row_passes() - 1) * self.rows_a_pass
    }

    /// The thread's vectors, where the one of row `r` that comes first is number `(r >> shift) & (group - 1)`.
    pub(crate) fn passes(&self, swizzle_shift: u32) -> impl Iterator<Item = Pass> + '_ {
        let rows = self.row_passes();
        (0..self.parts()).flat_map(move |part| {
            (0..rows).map(move |pass| {
                let row = pass * self.rows_a_pass;
                Pass {
                    row,
                    vector: part * self.lanes,
                    offset: row * self.pitch + part * self.lanes * VECTOR_BYTES,
                    flip: ((row >> swizzle_shift) & (self.group - 1)) * VECTOR_BYTES,
                    last: pass + 1 == rows && self.rows_of_last_pass() < self.rows_a_pass,
                }
            })
        })
    }

    fn new(
        spec: &KernelSpec,
        (rows, vectors): (u32, u32),
        along_k: bool,
        whole_sub_stages: bool,
        threads: u32,
    ) -> Self {
        let group = if spec.mma == Mma::Wmma { 1 } else { 1 << vectors.trailing_zeros().min(3) };
        // An odd number of vectors from row to row: eight rows touch all banks once. Swizzled rows need no padding.
        let padding = if spec.mma == Mma::Wmma { VECTOR_BYTES } else { 0 };
        let fits = |lanes: &u32| {
            vectors.is_multiple_of(*lanes) && *lanes <= threads && (*lanes == vectors || lanes.is_multiple_of(group))
        };
        let lanes = (1..=vectors).rev().find(fits).unwrap_or(1);
        let together = threads / lanes;
        // Swizzles repeat every 8 rows, those of f64 along N every 32: a pass is whole repeats, or divides one. Passes over
        // rows of gathered blocks divide a block, or are whole blocks.
        let rows_a_pass = match together {
            0..8 => 1 << together.max(1).ilog2(),
            _ if whole_sub_stages || doubles::takes(spec) => 1 << together.ilog2(),
            _ => together / 8 * 8,
        };
        let rows_a_pass = rows_a_pass.min(rows);
        Self { along_k, rows, vectors, pitch: vectors * VECTOR_BYTES + padding, group, lanes, rows_a_pass, threads }
    }
}

pub(crate) fn plan_a(spec: &KernelSpec, tiling: &Tiling, kloop: &KLoop) -> Operand {
    if spec.load == Load::Tma {
        return boxes::plan_a(spec, tiling, kloop);
    }
    let threads = tiling.copying_threads(spec.load);
    match seen::is_along_m(spec) {
        false => Operand::new(spec, (tiling.cta_m, vectors_along_k(spec, kloop)), true, false, threads),
        true => lines_of_k(spec, kloop, tiling.cta_m, threads),
    }
}

pub(crate) fn plan_b(spec: &KernelSpec, tiling: &Tiling, kloop: &KLoop) -> Operand {
    if spec.load == Load::Tma {
        return boxes::plan_b(spec, tiling, kloop);
    }
    let threads = tiling.copying_threads(spec.load);
    match spec.b_layout {
        Layout::ColMajor => Operand::new(spec, (tiling.cta_n, vectors_along_k(spec, kloop)), true, false, threads),
        Layout::RowMajor => lines_of_k(spec, kloop, tiling.cta_n, threads),
    }
}

/// Lines of K, each of `width` elements along M or N.
fn lines_of_k(spec: &KernelSpec, kloop: &KLoop, width: u32, threads: u32) -> Operand {
    let rows = kloop.sub_stages * kloop.pitch(k_unit(spec));
    Operand::new(spec, (rows, width * spec.b.bytes() / VECTOR_BYTES), false, kloop.sub_stages > 1, threads)
}

fn vectors_along_k(spec: &KernelSpec, kloop: &KLoop) -> u32 {
    kloop.sub_stages * kloop.pitch(k_unit(spec)) * spec.a.bytes() / VECTOR_BYTES
}
