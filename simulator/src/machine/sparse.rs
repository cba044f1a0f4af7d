//! The metadata of a sparse A: where the elements that it has belong along k (PTX ISA, sparse matrix storage of `mma.sp` and of
//! `wgmma.mma_async.sp`; which thread has which bits agrees with CUTLASS's `reorder_meta` and with its `ELayout_64x16`, `64x32` and
//! `64x64`).

use super::memory::Who;
use super::{Exec, Machine};
use crate::check::FindingKind;
use crate::check::clock::lanes;
use crate::program::op::Sparse;

/// Of one chunk of a row, which 4 bits describe: the thread of four that has them, and the first of them.
fn bits_of(sparse: Sparse, row: usize, chunk: usize) -> (usize, usize) {
    let half = row / 8 % 2;
    let first = (sparse.selector * sparse.threads()) as usize;
    if sparse.ty.bits() <= 8 {
        // A register for each half of the rows and each 8 chunks.
        (first + half + chunk / 8 * 2, chunk % 8 * 4)
    } else {
        // A register for each 4 chunks, with 16 bits for each half of the rows.
        (first + chunk / 4, half * 16 + chunk % 4 * 4)
    }
}

/// The elements of a chunk that are stored, by their places in it: two of four (pairs of 4 bits), or one of two of 32 bits. None if the bits
/// say nothing.
fn stored(sparse: Sparse, bits: u64) -> Option<(u32, Option<u32>)> {
    let (first, second) = ((bits & 3) as u32, (bits >> 2 & 3) as u32);
    match (sparse.ty.bits(), bits) {
        (32, 0b0100) => Some((0, None)),
        (32, 0b1110) => Some((1, None)),
        (32, _) => None,
        _ if sparse.ordered && first > second => None,
        _ => (first != second).then_some((first, Some(second))),
    }
}

/// What metadata have to say.
fn valid(sparse: Sparse) -> &'static str {
    match (sparse.ty.bits(), sparse.ordered) {
        (32, _) => "0b0100 and 0b1110 are",
        (_, true) => "two places in their order are",
        (_, false) => "two different places are",
    }
}

impl Machine<'_> {
    /// The place along k of every element of `rows` rows of A, row by row: 16 rows of each warp from the first one.
    pub(crate) fn places(&mut self, first: usize, rows: usize, pc: u32, sparse: Sparse) -> Exec<Vec<u32>> {
        let size = sparse.chunk();
        let mut out = Vec::with_capacity(rows * sparse.k as usize / 2);
        for row in 0..rows {
            let warp = first + row / 16;
            for chunk in 0..sparse.k / size {
                let (thread, shift) = bits_of(sparse, row, chunk as usize);
                let lane = row % 8 * 4 + thread;
                let bits = self.warps[warp].regs[sparse.metadata as usize][lane] >> shift & 0xf;
                let Some((one, other)) = stored(sparse, bits) else {
                    let text = format!(
                        "the metadata of row {row}, columns {} to {}, is 0b{bits:04b}: of .{} {} valid",
                        chunk * size,
                        (chunk + 1) * size - 1,
                        sparse.ty.name(),
                        valid(sparse)
                    );
                    return self.fail(FindingKind::SparseMetadata, warp, 1 << lane, pc, text);
                };
                let (count, start) = (sparse.together(), chunk * size);
                let stored = [Some(one), other].into_iter().flatten();
                out.extend(stored.flat_map(|place| (0..count).map(move |i| start + place * count + i)));
            }
        }
        Ok(out)
    }

    /// The metadata was written before, by the threads that contribute it.
    pub(crate) fn metadata_is_defined(&mut self, who: Who, sparse: Sparse) -> Exec<()> {
        let contributes = |lane: &u32| lane % 4 / sparse.threads() == sparse.selector;
        let mask = lanes(who.mask).filter(contributes).fold(0, |mask, lane| mask | 1 << lane);
        self.register_is_defined(Who { mask, ..who }, sparse.metadata)
    }
}
