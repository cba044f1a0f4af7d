//! A block-sparse matrix cut into shards for several ranks: GPUs, or processes.
//!
//! A shard is a range of whole block rows or whole block columns, so that no block is cut and none is stored twice. The
//! ranges are chosen so that the largest number of stored blocks of a rank is as small as it can be.
//!
//! ```
//! use bsr_runtime::shard::Sharding;
//! use bsr_runtime::{Bsr, Pattern};
//!
//! let a = Bsr::<f32>::generate(Pattern::Random(0.3), 512, 256, (64, 32), 0)?;
//! let sharding = Sharding::rows(a.structure(), 2)?;
//! println!("{sharding}");
//! let parts: Vec<Bsr<f32>> = (0..2).map(|rank| sharding.part(&a, rank)).collect();
//! assert_eq!(parts[0].nnzb() + parts[1].nnzb(), a.nnzb());
//! assert!(sharding.gather(&parts)? == a);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod balance;
mod parts;

use std::fmt;
use std::ops::Range;

pub use balance::balanced;

use bsr_codegen::Refusal;

use crate::Structure;

/// What is divided among the ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// Block rows: a rank has some rows of the matrix, and computes as many rows of a product.
    Rows,
    /// Block columns: a rank has some columns of the matrix, and computes a part of the sum of every row of a product.
    Cols,
}

impl Side {
    fn as_str(self) -> &'static str {
        match self {
            Self::Rows => "rows",
            Self::Cols => "columns",
        }
    }
}

/// What one rank owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owned {
    /// Block rows, or block columns.
    pub lines: Range<usize>,
    /// The same in elements.
    pub elements: Range<usize>,
    /// Stored blocks.
    pub blocks: usize,
}

/// Which rank owns which part of a matrix. Every block row (or block column) has one owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sharding {
    side: Side,
    ranks: Vec<Owned>,
}

impl Sharding {
    /// Divides the block rows of a matrix among ranks, in their order.
    ///
    /// # Errors
    /// No ranks, or more ranks than block rows.
    pub fn rows(structure: &Structure, ranks: usize) -> Result<Self, Refusal> {
        let weights: Vec<u64> = structure.row_lengths().map(|blocks| blocks as u64).collect();
        Ok(Self::cut(structure, Side::Rows, &balanced(&weights, ranks)?))
    }

    /// Divides the block columns of a matrix among ranks, in their order.
    ///
    /// # Errors
    /// No ranks, or more ranks than block columns.
    pub fn cols(structure: &Structure, ranks: usize) -> Result<Self, Refusal> {
        Ok(Self::cut(structure, Side::Cols, &balanced(&column_lengths(structure), ranks)?))
    }

    /// Divides the hidden features of two layers among ranks: the rows of `up` and the columns of `down`, at the same places,
    /// balanced by the stored blocks of both. The product of a rank's two shards is its part of the sum of the whole.
    ///
    /// # Errors
    /// Layers with other features, or fewer places to cut than ranks need.
    pub fn hidden(up: &Structure, down: &Structure, ranks: usize) -> Result<(Self, Self), Refusal> {
        let (features, inputs) = (up.rows(), down.cols());
        if features != inputs {
            let fact = format!("the first layer has {features} outputs and the second {inputs} inputs");
            return Err(Refusal::new(fact).help("both numbers are equal"));
        }
        let (step_up, step_down) = (up.block().0, down.block().1);
        // Both are cut between whole blocks: at multiples of both sides.
        let step = lcm(step_up, step_down);
        let mut weights = vec![0; features.div_ceil(step)];
        add(&mut weights, up.row_lengths().map(|blocks| blocks as u64), step / step_up, area(up));
        add(&mut weights, column_lengths(down).into_iter(), step / step_down, area(down));
        let cuts = balanced(&weights, ranks)?;
        let lines = |side: usize| -> Vec<Range<usize>> {
            let all = features.div_ceil(side);
            let at = |unit: usize| (unit * (step / side)).min(all);
            cuts.iter().map(|units| at(units.start)..at(units.end)).collect()
        };
        Ok((Self::cut(up, Side::Rows, &lines(step_up)), Self::cut(down, Side::Cols, &lines(step_down))))
    }

    fn cut(structure: &Structure, side: Side, lines: &[Range<usize>]) -> Self {
        let (step, all) = match side {
            Side::Rows => (structure.block().0, structure.rows()),
            Side::Cols => (structure.block().1, structure.cols()),
        };
        let lengths: Vec<usize> = match side {
            Side::Rows => structure.row_lengths().collect(),
            Side::Cols => column_lengths(structure).iter().map(|&blocks| blocks as usize).collect(),
        };
        let owned = |lines: &Range<usize>| Owned {
            elements: (lines.start * step).min(all)..(lines.end * step).min(all),
            blocks: lengths[lines.clone()].iter().sum(),
            lines: lines.clone(),
        };
        Self { side, ranks: lines.iter().map(owned).collect() }
    }

    /// What is divided.
    pub fn side(&self) -> Side {
        self.side
    }

    /// What each rank owns, in the order of the ranks: neighbours follow one another, and together they own all.
    pub fn ranks(&self) -> &[Owned] {
        &self.ranks
    }

    /// The largest number of stored blocks of a rank, over the average: 1 where every rank has the same work.
    pub fn imbalance(&self) -> f64 {
        let all: usize = self.ranks.iter().map(|owned| owned.blocks).sum();
        let most = self.ranks.iter().map(|owned| owned.blocks).max().unwrap_or(0);
        if all == 0 { 1.0 } else { (most * self.ranks.len()) as f64 / all as f64 }
    }
}

/// What each rank owns, a line each.
impl fmt::Display for Sharding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: usize = self.ranks.iter().map(|owned| owned.blocks).sum();
        for (rank, Owned { lines, elements, blocks }) in self.ranks.iter().enumerate() {
            let side = self.side.as_str();
            writeln!(f, "rank {rank}: block {side} {lines:?}, {side} {elements:?}, {blocks} of {all} blocks")?;
        }
        write!(f, "the largest shard has {:.3} times the average", self.imbalance())
    }
}

/// The number of stored blocks of each block column.
fn column_lengths(structure: &Structure) -> Vec<u64> {
    let mut lengths = vec![0; structure.block_cols()];
    structure.col_idx().iter().for_each(|&column| lengths[column as usize] += 1);
    lengths
}

/// The elements of a block.
fn area(structure: &Structure) -> u64 {
    let (bm, bk) = structure.block();
    (bm * bk) as u64
}

/// Adds the blocks of lines to units of so many lines, weighted by what a block costs.
fn add(units: &mut [u64], lengths: impl Iterator<Item = u64>, lines: usize, cost: u64) {
    lengths.enumerate().for_each(|(line, blocks)| units[line / lines] += blocks * cost);
}

fn lcm(a: usize, b: usize) -> usize {
    let gcd = |mut a: usize, mut b: usize| {
        while b != 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    a / gcd(a, b) * b
}
