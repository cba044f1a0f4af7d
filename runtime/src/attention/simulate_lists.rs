//! The work of an attention as the kernels for a mask on a GPU list it, on the simulator.

use std::collections::BTreeMap;

use bsr_codegen::AttentionTiles;
use bsr_codegen::lists::{IndexWidth, ListKernel, PartialFlags};
use bsr_simulator::{BufferId, Finding, GlobalMemory};

use super::listed::table;
use super::{AttentionError, AttentionWork, Mask, Shape, Sharing};
use crate::error::SimulatedError;
use crate::gpu::CheckedIndex;
use crate::lists::Listing;
use crate::machine;
use crate::simulated::lists::{ListKernels, Stream};

/// Row pointers, columns and partial blocks of the patterns of a mask, one below the other, as a program has them on a GPU: they may
/// be wrong.
#[derive(Clone, Debug)]
pub struct MaskArrays {
    /// Where each row of blocks begins and ends.
    pub row_ptr: Vec<u32>,
    /// The block columns of each.
    pub columns: Vec<u32>,
    /// Which blocks are partial, as `flags` says.
    pub partial: Vec<u8>,
    /// What there is a byte of.
    pub flags: PartialFlags,
}

impl MaskArrays {
    /// Those of a mask, with a byte for every stored block.
    pub fn by_block(mask: &Mask) -> Self {
        let (row_ptr, columns, partial) = mask.stacked();
        Self { row_ptr, columns, partial, flags: PartialFlags::ByBlock }
    }

    /// The same with a byte for every block.
    pub fn by_place(mask: &Mask) -> Self {
        let of_blocks = Self::by_block(mask);
        let (_, block_columns) = mask.blocks();
        let mut partial = vec![0; (of_blocks.row_ptr.len() - 1) * block_columns];
        for (row, ends) in of_blocks.row_ptr.windows(2).enumerate() {
            for at in ends[0] as usize..ends[1] as usize {
                partial[row * block_columns + of_blocks.columns[at] as usize] = 1 + of_blocks.partial[at];
            }
        }
        Self { partial, flags: PartialFlags::ByPlace, ..of_blocks }
    }
}

/// What the kernels list.
#[derive(Clone, Debug)]
pub struct ListedAttention {
    /// The work, of tiles that are not divided.
    pub work: AttentionWork,
    /// The first wrong row of blocks, counted through all patterns.
    pub wrong: Option<u32>,
    /// What the simulator has found. After a finding the work means nothing.
    pub findings: Vec<Finding>,
}

impl ListedAttention {
    /// Checks the arrays of a mask and lists its work for at most `ctas` CTAs, twice in the same memory: the second time is what a
    /// launch after a change finds.
    ///
    /// # Errors
    /// A mask that is not of this shape and kernel; more than the kernels count; kernels with other parameters.
    pub fn new(
        kernels: &ListKernels,
        tiles: &AttentionTiles,
        shape: &Shape,
        (sharing, arrays): (Sharing, &MaskArrays),
        ctas: u32,
    ) -> Result<Self, AttentionError> {
        let table = table(tiles, shape, (sharing, arrays.columns.len()), arrays.flags, ctas)?;
        let mut global = GlobalMemory::new();
        let bytes = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
        let block_columns = shape.keys.div_ceil(tiles.block.1 as usize) as u32;
        let sizes = [arrays.row_ptr.len() as u32 - 1, block_columns, arrays.columns.len() as u32];
        let mut upload = |bytes: Vec<u8>| machine::upload(&mut global, bytes);
        let [row_ptr, col_idx, error] =
            [&arrays.row_ptr[..], &arrays.columns, &[u32::MAX; 2]].map(|words| upload(bytes(words)));
        let partial = upload(arrays.partial.clone());
        let [rows, columns, values] =
            [2 * sizes[0], sizes[2], 2 * sizes[0]].map(|words| upload(vec![0; 4 * words as usize]));
        let listing = Listing::new(table, |words| Ok::<_, SimulatedError>(upload(vec![0; 4 * words])))?;
        let (check, index) = (ListKernel::Check(IndexWidth::I32), CheckedIndex { rows, columns, blocks: columns });
        let mut stream = Stream::new(kernels, &mut global);
        for _ in 0..2 {
            let checked = [row_ptr, col_idx, rows, columns, error, values];
            let launched = stream.launch(check, (check.grid(sizes[0], 1), 0), &checked, &sizes);
            launched.map_err(SimulatedError::from)?;
            listing.run(&[index], Some(partial), |kernel, grid, pointers, numbers| {
                stream.launch(kernel, grid, pointers, numbers).map_err(SimulatedError::from)
            })?;
        }
        let findings = stream.findings();
        let words = |id: BufferId| -> Vec<u32> {
            global.bytes(id).as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)).collect()
        };
        let ([ctas, _], lists) = listing.lists(&[index]);
        let [heads, tiles, steps] = [lists.heads, lists.tiles, lists.columns].map(|list| list.map_or(vec![], words));
        let work = AttentionWork { heads: heads[..=ctas as usize].to_vec(), tiles, steps, places: 0 };
        let error = words(error);
        Ok(Self { work, wrong: (error[..2] != [u32::MAX; 2]).then(|| error[1]), findings })
    }
}

/// What the kernels list otherwise than the host, whose tiles are not divided either: of a mask with a byte for every stored block,
/// and with one for every block.
///
/// # Errors
/// As [`ListedAttention::new`].
pub fn fault_of_lists(
    kernels: &ListKernels,
    tiles: &AttentionTiles,
    shape: &Shape,
    mask: &Mask,
    ctas: u32,
) -> Result<Option<String>, AttentionError> {
    let host = undivided(tiles, shape, mask, ctas)?;
    for arrays in [MaskArrays::by_block(mask), MaskArrays::by_place(mask)] {
        let ListedAttention { work, wrong, findings } =
            ListedAttention::new(kernels, tiles, shape, (mask.sharing(), &arrays), ctas)?;
        let fault = match (findings.first(), wrong) {
            (Some(finding), _) => Some(finding.to_string()),
            (_, Some(row)) => Some(format!("row {row} of blocks is said to be wrong")),
            _ => differs(tiles, &work, &host),
        };
        if let Some(fault) = fault {
            return Ok(Some(format!("{fault}; partial blocks are flagged {:?}", arrays.flags)));
        }
    }
    Ok(None)
}

/// The host's work, with tiles as a kernel for divided ones reads them.
fn undivided(tiles: &AttentionTiles, shape: &Shape, mask: &Mask, ctas: u32) -> Result<AttentionWork, AttentionError> {
    let part = if tiles.split.is_some() { &[0, 0, AttentionTiles::WHOLE, 0][..] } else { &[] };
    let words = tiles.tile_words as usize - part.len();
    let whole = AttentionTiles { split: None, tile_words: words as u32, ..*tiles };
    let work = AttentionWork::new(&whole, shape, mask, ctas)?;
    Ok(AttentionWork { tiles: work.tiles.chunks(words).flat_map(|tile| [tile, part].concat()).collect(), ..work })
}

/// The words of every tile but its first step, and its steps, by problem, head and query.
pub type TilesByPlace = BTreeMap<[u32; 3], (Vec<u32>, Vec<u32>)>;

/// The tiles of a list, if it is one: each CTA has some, and no two are at the same place.
pub fn tiles_by_place(tiles: &AttentionTiles, work: &AttentionWork) -> Option<TilesByPlace> {
    let (words, blocks) = (tiles.tile_words as usize, tiles.blocks as usize);
    let count = *work.heads.last()? as usize;
    let of_tile = |tile: &[u32]| {
        let mut rest = tile.to_vec();
        rest[4] = 0;
        let steps = work.steps.get(tile[4] as usize * blocks..(tile[4] + tile[5]) as usize * blocks)?;
        Some(([tile[2], tile[1], tile[0]], (rest, steps.to_vec())))
    };
    let found: TilesByPlace = work.tiles.chunks_exact(words).take(count).map(of_tile).collect::<Option<_>>()?;
    let ascend = work.heads[0] == 0 && work.heads.windows(2).all(|pair| pair[0] < pair[1]);
    (ascend && found.len() == count).then_some(found)
}

/// Where two lists differ.
fn differs(tiles: &AttentionTiles, work: &AttentionWork, host: &AttentionWork) -> Option<String> {
    let (Some(found), Some(host)) = (tiles_by_place(tiles, work), tiles_by_place(tiles, host)) else {
        return Some("tiles are missing, are there twice, or begin beyond the steps".to_owned());
    };
    let places = host.keys().chain(found.keys());
    let place = places.into_iter().find(|place| host.get(*place) != found.get(*place))?;
    Some(format!("the tile of {place:?} (problem, head, query) is not the host's"))
}
