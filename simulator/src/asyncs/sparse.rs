//! The metadata of `wgmma.mma_async.sp`: where the elements that A has belong along k (PTX ISA, sparse matrix storage of
//! `wgmma.mma_async.sp`; which thread has which bits agrees with CUTLASS's `ELayout_64x16`, `64x32` and `64x64`).

use crate::check::FindingKind;
use crate::check::clock::lanes;
use crate::machine::memory::Who;
use crate::machine::{Exec, Machine};
use crate::program::op::{Sparse, Wgmma};
use crate::program::types::Ty;

/// Of one chunk of a row of A, which 4 bits describe: the thread of four that has them, and the first of them.
fn bits_of(w: &Wgmma, sparse: Sparse, row: usize, chunk: usize) -> (usize, usize) {
    let half = row / 8 % 2;
    if w.a_ty.bits() == 8 {
        // A register for each half of the rows and of k.
        (half + chunk / 8 * 2, chunk % 8 * 4)
    } else {
        // A register for each half of k, with 16 bits for each half of the rows; the selector names the two threads.
        (sparse.selector as usize * 2 + chunk / 4, half * 16 + chunk % 4 * 4)
    }
}

/// The elements of a chunk that are stored, by their places in it: two of four, or one of two of 32 bits. None if the bits
/// say nothing.
fn stored(ty: Ty, bits: u64) -> Option<(u32, Option<u32>)> {
    let (first, second) = ((bits & 3) as u32, (bits >> 2 & 3) as u32);
    match (ty.bits(), bits) {
        (32, 0b0100) => Some((0, None)),
        (32, 0b1110) => Some((1, None)),
        (32, _) => None,
        _ => (first != second).then_some((first, Some(second))),
    }
}

impl Machine<'_> {
    /// The place along k of every element that A has, row by row.
    pub(super) fn places(&mut self, first: usize, pc: u32, w: &Wgmma, sparse: Sparse) -> Exec<Vec<u32>> {
        let chunk_size = if w.a_ty.bits() == 32 { 2 } else { 4 };
        let mut out = Vec::with_capacity(64 * w.stored_k() as usize);
        for row in 0..64 {
            let warp = first + row / 16;
            for chunk in 0..w.k / chunk_size {
                let (thread, shift) = bits_of(w, sparse, row, chunk as usize);
                let lane = row % 8 * 4 + thread;
                let bits = self.warps[warp].regs[sparse.metadata as usize][lane] >> shift & 0xf;
                let Some((one, other)) = stored(w.a_ty, bits) else {
                    let valid = if chunk_size == 2 { "0b0100 and 0b1110 are" } else { "two different places are" };
                    let text = format!(
                        "the metadata of row {row}, columns {} to {}, is 0b{bits:04b}: of .{} {valid} valid",
                        chunk * chunk_size,
                        (chunk + 1) * chunk_size - 1,
                        w.a_ty.name()
                    );
                    return self.fail(FindingKind::WgmmaMisuse, warp, 1 << lane, pc, text);
                };
                out.extend([Some(one), other].into_iter().flatten().map(|place| chunk * chunk_size + place));
            }
        }
        Ok(out)
    }

    /// The metadata was written before, by the threads that contribute it.
    pub(super) fn metadata_is_defined(&mut self, who: Who, w: &Wgmma) -> Exec<()> {
        let Some(sparse) = w.sparse else { return Ok(()) };
        let all = w.a_ty.bits() == 8;
        let contributes = |lane: &u32| all || lane % 4 / 2 == sparse.selector;
        let mask = lanes(who.mask).filter(contributes).fold(0, |mask, lane| mask | 1 << lane);
        self.register_is_defined(Who { mask, ..who }, sparse.metadata)
    }
}
