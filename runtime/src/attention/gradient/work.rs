//! The work of a gradient's kernel: tiles of every CTA, and the steps of each tile.

use std::cmp::Reverse;
use std::collections::HashMap;

use bsr_codegen::{GradientSide, GradientTiles};

use super::super::steps::{self, Counts};
use super::super::work::{check_mask_sizes, check_runs, heads_that_fit};
use super::super::{AttentionError, Mask, Shape};
use crate::schedule::{Policy, assign};

/// What a tile costs beside its steps, in rows of a step: its first load, delta, its store.
const TILE_ROWS: u64 = 96;

/// What a program must know to list the work of a gradient's kernel itself, as [`GradientWork`] does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GradientForm {
    /// Tiles and steps, and the words that say them.
    pub tiles: GradientTiles,
    /// CTAs that run at the same time.
    pub ctas: u32,
    /// Heads of K and V whose tiles should follow each other, because what they read fits L2.
    pub together: usize,
    /// What a tile costs beside its steps, in rows of a step.
    pub tile_rows: u64,
}

impl GradientForm {
    /// That of a kernel for tensors of one shape.
    ///
    /// # Errors
    /// [`AttentionError::Size`] for tensors of another shape than it computes.
    pub fn new(tiles: GradientTiles, shape: &Shape, ctas: u32) -> Result<Self, AttentionError> {
        check_sizes(&tiles, shape)?;
        Ok(Self { tiles, ctas, together: key_heads_together(&tiles, shape), tile_rows: TILE_ROWS })
    }
}

/// The work of one kernel, in the form in which it reads it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GradientWork {
    /// The number of each CTA's first work tile, then that of all tiles.
    pub heads: Vec<u32>,
    /// Work tiles, of as many words as the kernel's have.
    pub tiles: Vec<u32>,
    /// Steps, two words each.
    pub steps: Vec<u32>,
}

/// A tile that is not assigned yet: its words, and how many steps its busiest consumer computes.
#[derive(Clone, Copy, Debug)]
struct Tile {
    /// First row, head, problem, first head of the other side.
    at: [u32; 4],
    steps: Steps,
}

/// The steps of the tiles that have the same.
#[derive(Clone, Copy, Debug)]
struct Steps {
    first: u32,
    total: u32,
    counts: Counts,
}

impl GradientWork {
    /// Lists the work for at most `ctas` CTAs: heads in groups whose rows of the other side fit L2, the longest tiles of a
    /// group first, each to the CTA that has least to do so far.
    ///
    /// # Errors
    /// [`AttentionError::Size`] and [`AttentionError::Mask`] where mask, shape and kernel do not belong together.
    pub fn new(form: &GradientTiles, shape: &Shape, mask: &Mask, ctas: u32) -> Result<Self, AttentionError> {
        check_sizes(form, shape)?;
        let is_of_keys = form.side == GradientSide::Keys;
        let (own, other) = form.tiles.block;
        check_mask_sizes(if is_of_keys { (other, own) } else { (own, other) }, shape, mask)?;
        let transposed = is_of_keys.then(|| mask.transposed());
        let mask = transposed.as_ref().unwrap_or(mask);
        let mut work = Self::default();
        let groups = work.groups(form, shape, mask);
        let in_order = groups.into_iter().flat_map(|mut group| {
            group.sort_by_key(|tile| Reverse(tile.cost(form)));
            group
        });
        let lists = assign(in_order.collect(), Policy::InOrder, |tile: &Tile| tile.cost(form), ctas.max(1) as usize);
        work.heads.push(0);
        for list in lists.iter().filter(|list| !list.is_empty()) {
            work.tiles.extend(list.iter().flat_map(|tile| tile.words(form)));
            work.heads.push(work.tiles.len() as u32 / form.tiles.tile_words);
        }
        Ok(work)
    }

    /// CTAs that have tiles.
    pub fn ctas(&self) -> u32 {
        self.heads.len().saturating_sub(1) as u32
    }

    /// The tiles of heads that are computed together, and their steps. `mask` is that of the side.
    fn groups(&mut self, form: &GradientTiles, shape: &Shape, mask: &Mask) -> Vec<Vec<Tile>> {
        let mut known: HashMap<(Vec<usize>, usize), Steps> = HashMap::new();
        let per_key_head = shape.heads / shape.key_heads;
        let of_keys = form.side == GradientSide::Keys;
        let key_heads: Vec<(usize, usize)> =
            (0..shape.batch).flat_map(|problem| (0..shape.key_heads).map(move |head| (problem, head))).collect();
        let mut groups = vec![];
        for group in key_heads.chunks(key_heads_together(form, shape)) {
            let mut open = vec![];
            for (problem, key_head) in group {
                let heads = key_head * per_key_head..(key_head + 1) * per_key_head;
                // Of each tile: its head, the first one of the other side, and the heads whose blocks it has.
                let tiles: Vec<[usize; 3]> = match of_keys {
                    true => vec![[*key_head, heads.start, heads.end]],
                    false => heads.map(|head| [head, *key_head, head + 1]).collect(),
                };
                for [head, other, end] in tiles {
                    let first = if of_keys { other } else { head };
                    let patterns: Vec<usize> =
                        (first..end).map(|head| mask.pattern(*problem, head, shape.heads)).collect();
                    for row in (0..mask.sizes().0).step_by(form.tiles.rows as usize) {
                        let steps = *known
                            .entry((patterns.clone(), row))
                            .or_insert_with(|| self.add_steps(form, mask, &patterns, row));
                        open.push(Tile { at: [row, head, *problem, other].map(|number| number as u32), steps });
                    }
                }
            }
            groups.push(open);
        }
        groups
    }

    /// Adds the steps of the tile that begins with `row`, one pattern after the other.
    fn add_steps(&mut self, form: &GradientTiles, mask: &Mask, patterns: &[usize], row: usize) -> Steps {
        let number = |words: usize| (words / GradientTiles::STEP_WORDS) as u32;
        let first = number(self.steps.len());
        let mut counts = Counts::default();
        for (beyond, pattern) in patterns.iter().enumerate() {
            let of_tile = steps::of_tile(&form.tiles, mask, *pattern, row);
            self.steps.extend(of_tile.words.iter().flat_map(|word| [*word, beyond as u32]));
            counts.iter_mut().zip(of_tile.counts).for_each(|(all, more)| *all += more);
        }
        Steps { first, total: number(self.steps.len()) - first, counts }
    }
}

/// Makes sure that a kernel computes tensors of these sizes.
///
/// # Errors
/// [`AttentionError::Size`].
fn check_sizes(form: &GradientTiles, shape: &Shape) -> Result<(), AttentionError> {
    shape.check(None)?;
    shape.check_columns(form.tiles.columns)?;
    let is_of_keys = form.side == GradientSide::Keys;
    check_runs(if is_of_keys { (shape.queries, "queries") } else { (shape.keys, "keys") }, form.tiles.run())
}

/// Heads of K and V whose tiles are computed together: rows of their other side fit L2.
fn key_heads_together(form: &GradientTiles, shape: &Shape) -> usize {
    match form.side {
        GradientSide::Keys => heads_that_fit(shape.queries * (shape.heads / shape.key_heads), shape.columns),
        GradientSide::Queries => heads_that_fit(shape.keys, shape.columns),
    }
}

impl Tile {
    /// What it costs, in rows of a step.
    fn cost(&self, form: &GradientTiles) -> u64 {
        let most = self.steps.counts.iter().max().map_or(0, |most| u64::from(*most));
        most * u64::from(form.tiles.step) + TILE_ROWS
    }

    /// What a kernel reads.
    fn words(&self, form: &GradientTiles) -> Vec<u32> {
        let Steps { first, total, counts } = self.steps;
        let mut words: Vec<u32> = self.at.into_iter().chain([first, total]).chain(counts).collect();
        words.resize(form.tiles.tile_words as usize, 0);
        words
    }
}
