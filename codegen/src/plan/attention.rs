//! The arguments of a launch of attention: four tensors of rank 4, the steps of every work tile, numbers.

use crate::{KernelSpec, SplitK};

/// The sizes of one attention: O\[b, h, i\] = sum over j of softmax(scale * Q\[b, h, i\] . K\[b, g, j\]) V\[b, g, j\],
/// where g is the number of the key head that query head h belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct AttentionProblem {
    /// Problems of the batch.
    pub batch: u64,
    /// Heads of Q and O.
    pub heads: u64,
    /// Heads of K and V, a divisor of `heads`.
    pub key_heads: u64,
    /// Queries of each problem.
    pub queries: u64,
    /// Keys of each problem; where they are in pages, those for which a row of the page table has room.
    pub keys: u64,
    /// Pages that K and V have, where they are in pages.
    pub pages: u64,
    /// The layout of Q, K, V and O; of K and V in pages, `batch` is from one page to the next; of V of 8 bits, whose rows are
    /// columns, `row` is from one column to the next.
    pub strides: [TensorStrides; 4],
    /// Elements of the factors of 8-bit operands from one head of K to the next, and from one problem to the next.
    pub factors: [u32; 2],
}

/// Elements from one row of a tensor to the next, from one head to the next and from one problem to the next; the elements
/// of a row are contiguous.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct TensorStrides {
    /// From one query or key to the next.
    pub row: u64,
    /// From one head to the next.
    pub head: u64,
    /// From one problem to the next.
    pub batch: u64,
}

impl TensorStrides {
    /// A contiguous tensor `[batch, heads, rows, columns]`.
    pub const fn heads_first(heads: u64, rows: u64, columns: u64) -> Self {
        Self { row: columns, head: rows * columns, batch: heads * rows * columns }
    }

    /// A contiguous tensor `[batch, rows, heads, columns]`.
    pub const fn rows_first(heads: u64, rows: u64, columns: u64) -> Self {
        Self { row: heads * columns, head: columns, batch: heads * rows * columns }
    }
}

/// How an attention kernel divides its work: what must be known to list it.
///
/// A work tile is `rows` queries of one head, and takes `tile_words` 32-bit words: {first query, head, problem, head of K
/// and V, first step, steps, steps that each consumer computes}, and zeros to a multiple of 4. Consumer w of `consumers`
/// computes `rows / consumers` queries from `w * rows / consumers` on. A step has a word for each of its `blocks` runs of
/// [`AttentionTiles::run`] keys: the number of the first key divided by those of a run, and the flags
/// [`AttentionTiles::STORED`] and [`AttentionTiles::PARTIAL`] of each consumer. Runs of a step are stored by the same
/// consumers; the second one may instead be beyond the last key.
///
/// A step of more than two blocks, which follow each other, has two words: {the number of its first block of keys and
/// flags, PARTIAL where a block is partial or not stored; a bit for each block that is stored, from bit 0 on, and one for each that
/// is partial, from bit 16 on}. All consumers compute it.
///
/// A kernel whose K and V are in pages has no steps in memory: it computes all keys of a problem, in order, and a work tile has
/// their number after the steps of the consumers; its first step is counted from the problem's first key.
///
/// A kernel whose tiles can be divided ([`AttentionSplit`]) has four words more of each: {parts to collect, the first of
/// their places in the workspace, the place that the sums go to or [`AttentionTiles::WHOLE`], 0}.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttentionTiles {
    /// Queries and keys of a block.
    pub block: (u32, u32),
    /// Queries of a work tile.
    pub rows: u32,
    /// Warpgroups that share a work tile.
    pub consumers: u32,
    /// Keys of a step.
    pub step: u32,
    /// Blocks that a step has keys of: two, which need not be neighbours, or one, whose keys the step divides.
    pub blocks: u32,
    /// All consumers compute the same blocks: a tile is within one row of blocks.
    pub uniform: bool,
    /// Columns of V and O; see [`KernelSpec::score_depth`] for those of Q and K.
    pub columns: u32,
    /// Words of a work tile.
    pub tile_words: u32,
    /// How the keys of a tile are divided among CTAs, of a kernel with `split`.
    pub split: Option<AttentionSplit>,
    /// Neighbouring heads of Q whose queries share a tile, of a kernel with `pack_heads`: query by query, the heads of each side by
    /// side. They share a head of K.
    pub packed: Option<u32>,
    /// Keys of a page, of a kernel whose K and V are in pages.
    pub page: Option<u32>,
}

/// How the keys of a tile are divided among CTAs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttentionSplit {
    /// Into how many parts.
    pub parts: SplitK,
    /// Bytes of one part's sums in the workspace.
    pub place_bytes: u32,
}

impl AttentionTiles {
    /// Heads of Q that a tile has.
    pub fn heads(&self) -> u32 {
        self.packed.unwrap_or(1)
    }

    /// The bit that says that consumer 0 computes a step; the next ones say it of the others.
    pub const STORED: u32 = 1 << 26;
    /// The bit that says that consumer 0 computes scores in a step; the next ones say it of the others.
    pub const PARTIAL: u32 = 1 << 29;
    /// Bits of the number of a run of keys.
    pub const NUMBER: u32 = Self::STORED - 1;
    /// What a work tile has instead of a place where it is stored in O.
    pub const WHOLE: u32 = u32::MAX;

    /// The word of a work tile that has the keys of its problem, where these are in pages.
    #[doc(hidden)]
    pub fn length_word(&self) -> usize {
        6 + self.consumers as usize
    }

    /// The key, among `16 g` to `16 g + 15`, that is at place `16 g + place` of each column of a V of 8 bits.
    ///
    /// Of 16 neighbouring keys of S, thread t of four has 2 t, 2 t + 1, 8 + 2 t and 9 + 2 t; of those of P, as the A operand of
    /// an 8-bit WGMMA, places 4 t to 4 t + 3. V has the order of the former, so that no probability changes its thread.
    #[doc(hidden)]
    pub const fn key_of_place(place: usize) -> usize {
        8 * (place / 2 % 2) + 2 * (place / 4 % 4) + place % 2
    }

    /// Places of a column of a V of 8 bits, of so many keys: whole groups of 16, which are lines of 16 bytes.
    #[doc(hidden)]
    pub const fn places(keys: usize) -> usize {
        let keys = if keys == 0 { 1 } else { keys };
        keys.next_multiple_of(16)
    }

    /// The most blocks that a step can join: each has two bits of a word.
    #[doc(hidden)]
    pub const MOST_JOINED: u32 = 16;

    /// Neighbouring blocks that a step has, where it is longer than two blocks; otherwise 1.
    #[doc(hidden)]
    pub fn joined(&self) -> u32 {
        if self.step > 2 * self.block.1 { self.step / self.block.1 } else { 1 }
    }

    /// Keys by which the runs of steps are numbered.
    #[doc(hidden)]
    pub fn unit(&self) -> u32 {
        self.run() / self.joined()
    }

    /// Words of a step.
    #[doc(hidden)]
    pub fn step_words(&self) -> u32 {
        if self.joined() > 1 { 2 } else { self.blocks }
    }

    /// Keys that follow each other in a step.
    pub fn run(&self) -> u32 {
        self.step / self.blocks
    }
}

impl KernelSpec {
    /// Columns of Q and K of an attention: `d`, or `bn`, those of V.
    pub fn score_depth(&self) -> u32 {
        self.d.unwrap_or(self.bn)
    }
}
