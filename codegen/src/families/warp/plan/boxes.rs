//! Operands that TMA loads: rows of 32, 64 or 128 bytes, swizzled as `ldmatrix` kernels swizzle theirs.
//!
//! A row of an operand that is longer than 128 bytes goes to several panels, each all rows by 128 bytes. Within a panel TMA
//! puts vector v of row r at v ^ (r >> s & (group - 1)), with 2, 4 or 8 vectors in a row and s = 2, 1, 0 (PTX ISA, "Swizzling
//! Modes"), which is where `Operand` has it.

use super::groups::Groups;
use super::operand::Operand;
use super::seen;
use super::tiling::Tiling;
use super::units::VECTOR_BYTES;
use crate::plan::KLoop;
use crate::{Arch, KernelSpec, Layout, Op};

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
    let bytes = spec.a.bytes();
    match seen::is_along_m(spec) {
        false => Operand::boxed(true, tiling.cta_m, kloop.sub_stages, kloop.k_step * bytes),
        true => Operand::boxed(false, kloop.sub_stages * kloop.k_step, 1, tiling.cta_m * bytes),
    }
}

pub(crate) fn plan_b(spec: &KernelSpec, tiling: &Tiling, kloop: &KLoop) -> Operand {
    let bytes = spec.b.bytes();
    match spec.b_layout {
        Layout::ColMajor => Operand::boxed(true, tiling.cta_n, kloop.sub_stages, kloop.k_step * bytes),
        Layout::RowMajor if spec.op == Op::Sdd => panels(spec, kloop.k_step),
        Layout::RowMajor => Operand::boxed(false, kloop.sub_stages * kloop.k_step, 1, tiling.cta_n * bytes),
    }
}

/// The layout of a row-major right factor that TMA loads: boxes of one group each.
fn panels(spec: &KernelSpec, lines: u32) -> Operand {
    let (groups, bytes) = (Groups::new(spec), spec.b.bytes());
    let row = groups.columns * bytes;
    let widest = [SPANS.1, SPANS.1 / 2].into_iter().find(|span| row.is_multiple_of(*span)).unwrap_or(SPANS.0);
    match groups.count {
        1 => Operand::boxed(false, lines, 1, row),
        count => Operand {
            pitch: widest,
            group: widest / VECTOR_BYTES,
            vectors: count * row / VECTOR_BYTES,
            ..Operand::boxed(false, lines, count, row)
        },
    }
}
