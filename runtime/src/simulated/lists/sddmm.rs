//! SDDMMs whose tiles kernels list, beside the host's lists.

use bsr_codegen::TileScheduler;
use bsr_codegen::lists::SddmmShape;

use super::patterns::{fault, words};
use super::*;
use crate::Pattern;
use crate::error::{KernelError, SimulatedError};
use crate::schedule::SddmmWork;

/// An SDDMM to list: bm, bn and bk, block rows, block columns, density and CTAs.
pub(super) type Sddmm = ([u32; 3], [usize; 2], f64, u32);

/// SDDMMs whose tiles have 1, 2, 3, 4 and 16 groups of columns, the last words of a vector as padding, blocks of two groups
/// in tiles of one and of two, blocks of two tiles of rows, and half the width.
pub(super) const SDDMMS: &[Sddmm] = &[
    ([64, 64, 64], [1100, 40], 0.02, 7),
    ([64, 128, 64], [20, 32], 0.4, 7),
    ([128, 192, 64], [20, 32], 0.4, 7),
    ([64, 256, 64], [20, 32], 0.4, 7),
    ([128, 256, 64], [20, 32], 0.4, 7),
    ([64, 256, 16], [20, 90], 0.4, 7),
    ([256, 128, 64], [10, 16], 0.4, 7),
    ([64, 256, 256], [10, 16], 0.4, 7),
    ([64, 128, 256], [10, 16], 0.4, 7),
    ([128, 128, 256], [10, 8], 0.3, 7),
    // More vectors of a row than a CTA has threads.
    ([64, 64, 64], [2, 600], 1.0, 7),
    // More CTAs than tiles, and than a CTA has threads.
    ([64, 256, 64], [4, 4], 0.3, 132),
    ([64, 256, 64], [4, 4], 0.3, 1100),
    // The same with more words of a tile than a warp has lanes.
    ([64, 256, 16], [4, 4], 0.3, 40),
];

/// What is wrong with the tiles of an SDDMM.
pub(super) fn fault_of_sddmm(
    kernels: &ListKernels,
    &([bm, bn, bk], [rows, cols], density, ctas): &Sddmm,
) -> Result<Option<String>, SimulatedError> {
    let k = 100;
    let spec = format!("op = sdd, bm = {bm}, bn = {bn}, bk = {bk}, schedule = strided");
    let made = spec.parse().ok().and_then(|spec| Plan::new(&spec).ok()).and_then(|plan| {
        let block = (plan.spec().bm as usize, plan.spec().bk as usize);
        let structure = Pattern::Random(density).structure(block.0 * rows, block.1 * cols, block, 1).ok()?;
        let host = SddmmWork::new(&plan, &structure, k, ctas)?;
        Some((plan.sddmm_tiles()?, structure, host))
    });
    let Some((tiles, structure, host)) = made else { return Ok(Some(format!("{spec} cannot be listed"))) };
    let mut memory = GlobalMemory::new();
    let mut stream = Stream::new(kernels, &mut memory);
    let read = stream.index(&structure);
    let (block_rows, capacity) = (rows as u32, structure.nnzb() as u32);
    let shape = SddmmShape { tiles, block_rows, k: k as u32, ctas, capacity }.checked().map_err(KernelError::from)?;
    let (heads, work) = stream.sddmm(&shape, read)?;
    let findings = stream.findings();
    let (heads, work) = (words(&memory, heads), words(&memory, work));
    let (own, all) = (host.heads(), host.words());
    let used_words = own.iter().sum::<u32>() as usize * tiles.tile_words as usize;
    // CTAs without a tile multiply one stage of zeros and store nothing.
    let without = used_words / tiles.tile_words as usize..ctas as usize;
    let none = [0, TileScheduler::OUTSIDE, 1, 0, 0, 0, 0, 0];
    let is_none = |tile: &[u32]| tile[..8] == none && tile[8..].iter().all(|word| *word == TileScheduler::OUTSIDE);
    let mut idle = work[used_words..].chunks(tiles.tile_words as usize).take(without.len());
    // Lists that have no tile are the last ones.
    let used = own.iter().filter(|tiles| **tiles > 0).count();
    let differs = heads[..used] != own[..used]
        || heads[used..].iter().any(|tiles| *tiles != 1)
        || work[..used_words] != all[..used_words]
        || !idle.all(is_none)
        || work.iter().skip(used_words.max(without.end * tiles.tile_words as usize)).any(|word| *word != u32::MAX);
    Ok(fault(findings, differs, &format!("the tiles of {spec}")))
}
