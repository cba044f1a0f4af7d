//! Operands that TMA loads: rows of 32, 64 or 128 bytes, swizzled as `ldmatrix` kernels swizzle theirs.
//!
//! A row of an operand that is longer than 128 bytes goes to several panels, each all rows by 128 bytes. Within a panel TMA
//! puts vector v of row r at v ^ (r >> s & (group - 1)), with 2, 4 or 8 vectors in a row and s = 2, 1, 0 (PTX ISA, "Swizzling
//! Modes"), which is where `Operand` has it.

use super::operand::Operand;
use super::units::VECTOR_BYTES;
use super::{Tiling, WarpPlan};
use crate::plan::{KLoop, Operand as Side, Problem, TensorMap};
use crate::{Arch, KernelSpec, Layout};

/// Bytes of the shortest and the longest swizzled row.
const SPANS: (u32, u32) = (32, 128);
/// Lines of a box are whole repeats of a swizzle.
const REPEAT: u32 = 8;

impl Operand {
    /// `rows` of `parts` parts along them, each of `bytes`, which go to panels of their own.
    fn boxed(along_k: bool, rows: u32, parts: u32, bytes: u32) -> Self {
        let pitch = bytes.next_power_of_two().clamp(SPANS.0, SPANS.1);
        let group = pitch / VECTOR_BYTES;
        let vectors = parts * bytes.div_ceil(pitch) * group;
        Self { along_k, rows, vectors, pitch, group, lanes: 0, rows_a_pass: rows, threads: 0 }
    }

    /// Bytes of a row that a box has, by which TMA swizzles.
    pub(crate) fn span(&self) -> u32 {
        self.pitch
    }

    /// Lines of a box: as many as TMA takes, or an even part of them.
    pub(crate) fn box_lines(&self, lines: u32, arch: &Arch) -> u32 {
        let parts = lines.div_ceil(arch.tma_box)..;
        parts
            .map(|parts| lines / parts)
            .find(|part| lines.is_multiple_of(*part) && part.is_multiple_of(REPEAT))
            .unwrap_or(REPEAT)
    }
}

pub(crate) fn plan_a(spec: &KernelSpec, tiling: &Tiling, kloop: &KLoop) -> Operand {
    Operand::boxed(true, tiling.cta_m, kloop.sub_stages, kloop.k_step * spec.a.bytes())
}

pub(crate) fn plan_b(spec: &KernelSpec, tiling: &Tiling, kloop: &KLoop) -> Operand {
    let bytes = spec.b.bytes();
    match spec.b_layout {
        Layout::ColMajor => Operand::boxed(true, tiling.cta_n, kloop.sub_stages, kloop.k_step * bytes),
        Layout::RowMajor => Operand::boxed(false, kloop.sub_stages * kloop.k_step, 1, tiling.cta_n * bytes),
    }
}

impl WarpPlan {
    /// The stored blocks, `[nnzb * bm, bk]`: zeros right of a block.
    pub(crate) fn map_a(&self, problem: &Problem) -> TensorMap {
        let KernelSpec { bm, bk, a, .. } = self.spec;
        TensorMap::matrix(
            (Side::A, a),
            [u64::from(bk), (problem.nnzb * u64::from(bm)).max(1)],
            u64::from(bk * a.bytes()),
            [self.a.span() / a.bytes(), self.a.box_lines(self.a.rows, &self.arch)],
            self.a.span(),
        )
    }

    /// B: zeros beyond K and N.
    pub(crate) fn map_b(&self, problem: &Problem) -> TensorMap {
        let dtype = self.spec.b;
        let (dims, lines) = match self.spec.b_layout {
            Layout::RowMajor => ([problem.n.max(1), problem.k.max(1)], self.kloop.k_step),
            Layout::ColMajor => ([problem.k.max(1), problem.n.max(1)], self.b.rows),
        };
        TensorMap::matrix(
            (Side::B, dtype),
            dims,
            (problem.ldb * u64::from(dtype.bytes())).max(16),
            [self.b.span() / dtype.bytes(), self.b.box_lines(lines, &self.arch)],
            self.b.span(),
        )
    }
}
