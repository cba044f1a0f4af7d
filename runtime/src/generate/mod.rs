//! Sparsity patterns to test and to measure with.
//!
//! A [`Pattern`] is a word of the command line (`random:0.25`, `topk:16`, `window:0.06`, `causal`,
//! `powerlaw:0.05`, `documents:1000`); with a shape, a block size and a seed it gives a [`Structure`]. The same seed gives the
//! same structure on every platform. A [`Field`] is a matrix with its values, as a scientific field solves with.

mod documents;
mod fields;
mod text;

use bsr_codegen::Refusal;
use std::ops::Range;

use rand::seq::{SliceRandom, index};

#[doc(hidden)]
pub use documents::Documents;
pub use fields::Field;

use crate::bsr::check_offsets;
use crate::memory;
use crate::random::Streams;
use crate::{Bsr, Element, Structure};

/// Which blocks of a matrix are stored.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pattern {
    /// `random:D`: exactly `round(D * all)` blocks, any set of them as likely as another, so the lengths of
    /// block rows vary. D in 0..=1.
    Random(f64),
    /// `topk:T`: exactly T blocks in every block row, at random columns.
    TopK(usize),
    /// `window:W`: in every block row `max(1, round(W * block columns))` adjacent blocks, centred on the
    /// diagonal from the first element to the last and moved inside at the ends. W in 0..=1; 0 stores nothing.
    Window(f64),
    /// `causal`: every block that holds an element whose column is not greater than its row, whole.
    Causal,
    /// `powerlaw:D`: exactly `round(D * all)` blocks, where the length of the r-th longest block row is
    /// proportional to 1 / r, rounded and at most all of a row; rows in random order, random columns.
    /// D in 0..=1.
    PowerLaw(f64),
    /// `documents:L`: documents of 1 to 2 L - 1 rows, drawn until the rows are full, and of as many columns in a square matrix:
    /// every block that holds an element whose row and column are of one document. With `causal_documents:L` the columns of a
    /// row end at its own place, where the last row of a document is at the place of its last column.
    Documents {
        /// Rows in the mean.
        mean: usize,
        /// Whether columns end at a row's place.
        causal: bool,
    },
}

impl Pattern {
    /// The structure of a `rows` x `cols` matrix in blocks of `block` elements that has this pattern.
    ///
    /// # Errors
    /// When a fraction is not in 0..=1, `topk` asks for more blocks than a row has, the block has a zero
    /// side, or shape or offsets do not fit 32-bit coordinates.
    pub fn structure(self, rows: usize, cols: usize, block: (usize, usize), seed: u64) -> Result<Structure, Refusal> {
        self.check_fraction()?;
        // Lengths, their running sums and a copy of them, of all block rows.
        let block_rows = rows.div_ceil(block.0.max(1)) as u64;
        check_memory(&[("block rows", 24_u64.saturating_mul(block_rows))])?;
        let shape = Structure::empty(rows, cols, block)?;
        match self {
            Self::Random(density) => random(&shape, density, seed),
            Self::TopK(count) => top_k(&shape, count, seed),
            Self::Window(fraction) => window(&shape, fraction),
            Self::Causal => causal(&shape),
            Self::PowerLaw(density) => power_law(&shape, density, seed),
            Self::Documents { .. } => match Documents::of(self, (rows, cols), seed) {
                Some(documents) => documents.structure(&shape),
                None => Ok(shape),
            },
        }
    }
}

/// Independent of the streams that values are drawn from.
fn streams(seed: u64) -> Streams {
    Streams::new(seed, b"pattern.")
}

/// Refuses what would not fit memory.
fn check_memory(parts: &[(&str, u64)]) -> Result<(), Refusal> {
    memory::check_memory(parts).map_err(|refusal| refusal.help("ask for fewer blocks, or larger ones"))
}

/// Refuses a number of blocks that cannot be addressed or do not fit memory.
fn check_count(shape: &Structure, count: usize) -> Result<(), Refusal> {
    check_offsets(count, shape.block())?;
    // A block is drawn as a 64-bit number and stored as a 32-bit one.
    check_memory(&[("blocks", 12_u64.saturating_mul(count as u64))])
}

/// `round(density * all)`, refused if so many blocks cannot be addressed.
fn count_of(shape: &Structure, density: f64) -> Result<usize, Refusal> {
    let all = shape.block_rows() * shape.block_cols();
    let count = ((density * all as f64).round() as usize).min(all);
    check_count(shape, count)?;
    Ok(count)
}

fn random(shape: &Structure, density: f64, seed: u64) -> Result<Structure, Refusal> {
    let (block_rows, block_cols) = (shape.block_rows(), shape.block_cols());
    let count = count_of(shape, density)?;
    // Where a good part is drawn, rand shuffles a list of all places.
    let all = (block_rows * block_cols) as u64;
    check_memory(&[("places", 4 * all.min(48 * count as u64)), ("blocks", 24 * count as u64)])?;
    let mut places = index::sample(&mut streams(seed).get(0), block_rows * block_cols, count).into_vec();
    places.sort_unstable();
    let mut lengths = vec![0; block_rows];
    places.iter().for_each(|place| lengths[place / block_cols] += 1);
    let columns = places.into_iter().map(|place| place % block_cols);
    assemble(shape, &lengths, columns)
}

fn top_k(shape: &Structure, count: usize, seed: u64) -> Result<Structure, Refusal> {
    let block_cols = shape.block_cols();
    if count > block_cols {
        let (cols, bk) = (shape.cols(), shape.block().1);
        return Err(Refusal::new(format!("topk:{count} asks for {count} of {block_cols} blocks in a block row"))
            .why(format!("{cols} columns in blocks of {bk} make {block_cols} block columns"))
            .help(format!("at most topk:{block_cols}, or a wider matrix")));
    }
    scatter(shape, &vec![count; shape.block_rows()], seed)
}

fn window(shape: &Structure, fraction: f64) -> Result<Structure, Refusal> {
    let (rows, cols, (bm, bk)) = (shape.rows() as i128, shape.cols() as i128, shape.block());
    let (block_cols, bk) = (shape.block_cols(), bk as i128);
    let width = match (fraction * block_cols as f64).round() as usize {
        0 if fraction > 0.0 => 1,
        width => width,
    };
    let width = width.min(block_cols);
    ranges(shape, |block_row| {
        // The first block s whose window [s, s + width) * bk has its middle nearest to the middle row on the
        // diagonal: s = round(middle * cols / rows / bk - width / 2), all times two and without fractions.
        let twice_middle = (block_row * bm + rows_until(shape, block_row)) as i128;
        let start = (twice_middle * cols - (width as i128 - 1) * rows * bk).div_euclid(2 * rows * bk);
        let start = start.clamp(0, (block_cols - width) as i128) as usize;
        start..start + width
    })
}

fn causal(shape: &Structure) -> Result<Structure, Refusal> {
    let bk = shape.block().1;
    // The last row of the block row is the one that reaches furthest: columns 0 to itself.
    ranges(shape, |block_row| 0..rows_until(shape, block_row).div_ceil(bk).min(shape.block_cols()))
}

fn power_law(shape: &Structure, density: f64, seed: u64) -> Result<Structure, Refusal> {
    let count = count_of(shape, density)?;
    let mut lengths = power_law_lengths(shape.block_rows(), shape.block_cols(), count);
    // Block rows draw their columns from the streams 0.. of the seed; none has this number.
    lengths.shuffle(&mut streams(seed).get(u32::MAX as usize));
    scatter(shape, &lengths, seed)
}

/// The lengths `min(cols, scale / rank)`, rounded so that they add up to `count`, longest first.
fn power_law_lengths(rows: usize, cols: usize, count: usize) -> Vec<usize> {
    let whole = |scale: f64| (1..=rows).map(move |rank| cols.min((scale / rank as f64) as usize));
    let fits = |scale: &f64| whole(*scale).sum::<usize>() <= count;
    // A scale of cols * rows fills every row; bisect until the bounds are neighbours.
    let (mut low, mut high) = (0.0, (cols * rows) as f64 + 1.0);
    for _ in 0..f64::MANTISSA_DIGITS * 2 {
        let middle = (low + high) / 2.0;
        if fits(&middle) { low = middle } else { high = middle }
    }
    let mut lengths: Vec<usize> = whole(low).collect();
    // What the rounding down left over: one block each to the rows nearest to their next block.
    let mut missing = count - lengths.iter().sum::<usize>();
    let mut by_need: Vec<usize> = (0..rows).collect();
    let need = |row: &usize, lengths: &[usize]| (lengths[*row] + 1) as f64 * (row + 1) as f64;
    by_need.sort_by(|a, b| need(a, &lengths).total_cmp(&need(b, &lengths)));
    for row in by_need {
        if missing > 0 && lengths[row] < cols {
            lengths[row] += 1;
            missing -= 1;
        }
    }
    lengths
}

/// The row after the last row of a block row that lies inside the matrix.
fn rows_until(shape: &Structure, block_row: usize) -> usize {
    ((block_row + 1) * shape.block().0).min(shape.rows())
}

/// Block rows of given lengths, each with its columns drawn at random.
fn scatter(shape: &Structure, lengths: &[usize], seed: u64) -> Result<Structure, Refusal> {
    let streams = streams(seed);
    check_count(shape, lengths.iter().sum())?;
    let columns = lengths.iter().enumerate().flat_map(|(block_row, &length)| {
        let mut columns = index::sample(&mut streams.get(block_row), shape.block_cols(), length).into_vec();
        columns.sort_unstable();
        columns
    });
    assemble(shape, lengths, columns)
}

/// Block rows that each hold one range of block columns.
fn ranges(shape: &Structure, columns: impl Fn(usize) -> Range<usize>) -> Result<Structure, Refusal> {
    let lengths: Vec<usize> = (0..shape.block_rows()).map(|row| columns(row).len()).collect();
    check_count(shape, lengths.iter().sum())?;
    assemble(shape, &lengths, (0..shape.block_rows()).flat_map(columns))
}

/// The structure whose block rows have these lengths and these columns; no more blocks than
/// [`check_offsets`] allows.
fn assemble(shape: &Structure, lengths: &[usize], columns: impl Iterator<Item = usize>) -> Result<Structure, Refusal> {
    let ends = lengths.iter().scan(0_i64, |end, &length| {
        *end += length as i64;
        Some(*end)
    });
    let row_ptr = std::iter::once(0).chain(ends).collect();
    let col_idx = columns.map(|column| column as i32).collect();
    Structure::new(shape.rows(), shape.cols(), shape.block(), row_ptr, col_idx)
}

impl<T: Element> Bsr<T> {
    /// A matrix with the blocks of `pattern` and independent draws in them, as from [`Bsr::normal`].
    ///
    /// # Errors
    /// When the pattern cannot be had in this shape.
    pub fn generate(
        pattern: Pattern,
        rows: usize,
        cols: usize,
        block: (usize, usize),
        seed: u64,
    ) -> Result<Self, Refusal> {
        Ok(Self::normal(pattern.structure(rows, cols, block, seed)?, seed))
    }
}

#[cfg(test)]
mod tests;
