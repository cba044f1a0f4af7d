//! The work of an attention: tiles of every CTA, and the steps of each tile.

use std::cmp::Reverse;
use std::collections::HashMap;

use bsr_codegen::AttentionTiles;

use super::divide::{self, Role};
use super::joined;
use super::operands::check_without_pages;
use super::steps::{self, Counts};
use super::{AttentionError, Mask, Shape, Sharing};
use crate::schedule::{Policy, assign};

/// Bytes of K and V that a run of tiles should read from the L2 of an H200: heads are computed in groups of so much.
const L2_BYTES: usize = 24 << 20;
/// What a tile costs beside its steps, in keys: its first load, its last product, its store.
const TILE_KEYS: u64 = 96;

/// The work of an attention, in the form in which a kernel reads it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AttentionWork {
    /// The number of each CTA's first work tile, then that of all tiles.
    pub heads: Vec<u32>,
    /// Work tiles, of as many words as the kernel's have.
    pub tiles: Vec<u32>,
    /// Steps, a word for each run of keys.
    pub steps: Vec<u32>,
    /// Places of the workspace: parts of a tile's keys that one CTA computes for another.
    pub places: u32,
}

/// The steps of the tiles that have the same.
#[derive(Clone, Copy, Debug)]
pub(super) struct Steps {
    pub(super) first: u32,
    pub(super) total: u32,
    pub(super) counts: Counts,
}

/// A tile that is not assigned yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tile {
    /// First query, head, problem, head of K and V.
    pub(super) at: [u32; 4],
    /// Rows of it that are queries.
    pub(super) rows: u32,
    pub(super) steps: Steps,
    pub(super) role: Role,
}

impl AttentionWork {
    /// Lists the work for at most `ctas` CTAs: heads in groups whose K and V fit L2, the longest tiles of a group first, each
    /// to the CTA that has least to do so far. A kernel with `split` has tiles whose keys are divided.
    ///
    /// # Errors
    /// [`AttentionError::Size`] and [`AttentionError::Mask`] where mask, shape and kernel do not belong together.
    pub fn new(tiles: &AttentionTiles, shape: &Shape, mask: &Mask, ctas: u32) -> Result<Self, AttentionError> {
        check_without_pages(tiles.page)?;
        shape.check_tiles(tiles)?;
        check_mask(tiles, shape, mask)?;
        let mut work = Self::default();
        let groups = work.groups(tiles, shape, mask);
        let divided = tiles.split.and_then(|split| divide::divide(tiles, split.parts, &groups, &work.steps, ctas));
        let lists = match divided {
            Some(divided) => {
                work.places = divided.places;
                divided.lists
            }
            None => {
                let in_order = groups.into_iter().flat_map(|group| longest_first(group, tiles)).collect();
                assign(in_order, Policy::InOrder, |tile: &Tile| tile.cost(tiles), ctas.max(1) as usize)
            }
        };
        work.heads.push(0);
        for list in lists.iter().filter(|list| !list.is_empty()) {
            work.tiles.extend(list.iter().flat_map(|tile| tile.words(tiles)));
            work.heads.push(work.tiles.len() as u32 / tiles.tile_words);
        }
        Ok(work)
    }

    /// CTAs that have tiles.
    pub fn ctas(&self) -> u32 {
        self.heads.len().saturating_sub(1) as u32
    }

    /// Bytes of the workspace.
    #[doc(hidden)]
    pub fn workspace_bytes(&self, tiles: &AttentionTiles) -> usize {
        self.places as usize * tiles.split.map_or(0, |split| split.place_bytes as usize)
    }

    /// The tiles of heads that are computed together, and their steps.
    fn groups(&mut self, tiles: &AttentionTiles, shape: &Shape, mask: &Mask) -> Vec<Vec<Tile>> {
        let mut known: HashMap<(usize, usize), Steps> = HashMap::new();
        let per_key_head = shape.heads / shape.key_heads;
        let group = heads_together(shape);
        let key_heads: Vec<(usize, usize)> =
            (0..shape.batch).flat_map(|problem| (0..shape.key_heads).map(move |head| (problem, head))).collect();
        let mut groups = vec![];
        for group in key_heads.chunks(group) {
            let mut open = vec![];
            for (problem, key_head) in group {
                for head in (key_head * per_key_head..(key_head + 1) * per_key_head).step_by(tiles.heads() as usize) {
                    let pattern = mask.pattern(*problem, head, shape.heads);
                    for row in (0..shape.queries).step_by(tiles.rows as usize) {
                        let steps =
                            *known.entry((pattern, row)).or_insert_with(|| self.add_steps(tiles, mask, pattern, row));
                        let at = [row, head, *problem, *key_head].map(|number| number as u32);
                        let rows = tiles.heads() * tiles.rows.min((shape.queries - row) as u32);
                        open.push(Tile { at, rows, steps, role: Role::default() });
                    }
                }
            }
            groups.push(open);
        }
        groups
    }

    /// Adds the steps of the tile of one pattern that begins with query `row`.
    fn add_steps(&mut self, tiles: &AttentionTiles, mask: &Mask, pattern: usize, row: usize) -> Steps {
        let of_tile = match tiles.joined() {
            1 => steps::of_tile(tiles, mask, pattern, row),
            _ => joined::of_tile(tiles, mask, pattern, row),
        };
        let number = |words: usize| words as u32 / tiles.step_words();
        let first = number(self.steps.len());
        self.steps.extend(&of_tile.words);
        Steps { first, total: number(of_tile.words.len()), counts: of_tile.counts }
    }
}

impl Tile {
    /// What it costs, in keys.
    pub(super) fn cost(&self, tiles: &AttentionTiles) -> u64 {
        self.steps.counts.iter().max().map_or(0, |most| u64::from(*most)) * u64::from(tiles.step) + TILE_KEYS
    }

    /// What a kernel reads.
    fn words(&self, tiles: &AttentionTiles) -> Vec<u32> {
        let Steps { first, total, counts } = self.steps;
        let role = if tiles.split.is_some() { &self.role.words()[..] } else { &[] };
        let mut words: Vec<u32> = self.at.into_iter().chain([first, total]).chain(counts).collect();
        words.truncate(6 + tiles.consumers as usize);
        words.resize(tiles.tile_words as usize - role.len(), 0);
        words.extend(role);
        words
    }
}

/// Heads of K and V that fit L2 together.
pub(super) fn heads_together(shape: &Shape) -> usize {
    heads_that_fit(shape.keys, shape.columns)
}

/// Heads of two tensors of so many rows that fit L2 together.
pub(super) fn heads_that_fit(rows: usize, columns: usize) -> usize {
    let head_bytes = 2 * 2 * rows * columns;
    (L2_BYTES / head_bytes.max(1)).max(1)
}

/// The tiles in descending order of cost.
pub(super) fn longest_first(mut all: Vec<Tile>, tiles: &AttentionTiles) -> Vec<Tile> {
    all.sort_by_key(|tile| Reverse(tile.cost(tiles)));
    all
}

/// Heads that share a tile have one pattern.
pub(super) fn check_sharing(tiles: &AttentionTiles, sharing: Sharing) -> Result<(), AttentionError> {
    match (tiles.packed, sharing) {
        (Some(heads), Sharing::ByHead | Sharing::ByBoth) => Err(AttentionError::size(
            format!("{heads} heads share a tile, and the mask has a pattern for each head"),
            "a tile computes the same blocks for all of its heads",
            "a kernel without `pack_heads`, or one pattern for all heads",
        )),
        _ => Ok(()),
    }
}

fn check_mask(tiles: &AttentionTiles, shape: &Shape, mask: &Mask) -> Result<(), AttentionError> {
    check_mask_sizes(tiles.block, shape, mask)?;
    check_sharing(tiles, mask.sharing())?;
    check_runs((shape.keys, "keys"), tiles.unit())
}

/// Whether a mask has a kernel's blocks and a shape's sizes.
pub(super) fn check_mask_sizes(block: (u32, u32), shape: &Shape, mask: &Mask) -> Result<(), AttentionError> {
    let block = (block.0 as usize, block.1 as usize);
    if mask.block() != block {
        let (bm, bk) = mask.block();
        return Err(AttentionError::size(
            format!("the mask has {bm} x {bk} blocks, the kernel computes {} x {}", block.0, block.1),
            "bm and bk of the spec are queries and keys of a block",
            format!("a kernel with bm = {bm}, bk = {bk}, or another mask"),
        ));
    }
    if mask.sizes() != (shape.queries, shape.keys) {
        let (queries, keys) = mask.sizes();
        return Err(AttentionError::size(
            format!("the mask is of {queries} queries x {keys} keys"),
            format!("Q has {} and K has {}", shape.queries, shape.keys),
            "a mask of the tensors' sizes",
        ));
    }
    let wanted = mask.wanted(shape.batch, shape.heads);
    if mask.lists().len() != wanted {
        return Err(AttentionError::size(
            format!("the mask has {} patterns, not {wanted}", mask.lists().len()),
            format!("{:?} of {} problems and {} heads", mask.sharing(), shape.batch, shape.heads),
            "one pattern for each",
        ));
    }
    Ok(())
}

/// Whether runs of so many rows of the other side can be numbered.
pub(super) fn check_runs((rows, what): (usize, &str), run: u32) -> Result<(), AttentionError> {
    let runs = rows.div_ceil(run as usize);
    match runs > AttentionTiles::NUMBER as usize {
        true => Err(AttentionError::size(
            format!("{rows} {what} are too many"),
            format!("{runs} runs of {run} {what}; their numbers have 26 bits"),
            format!("fewer {what}"),
        )),
        false => Ok(()),
    }
}
