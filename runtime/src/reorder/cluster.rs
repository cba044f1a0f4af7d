//! Rows that share columns, put side by side.
//!
//! The rows of a block share its block columns, so rows should stand together whose sets of block columns are alike, as in
//! Labini et al., "Blocking Techniques for Sparse Matrix Multiplication on Tensor Accelerators" (2022, arXiv:2202.05868).
//! Here the clustering is greedy and bounded:
//!
//! 1. Rows are sorted by a signature of minima of hashes of their columns (Broder's MinHash): the chance that two rows
//!    have a minimum in common is their Jaccard similarity. Rows with equal sets become neighbours.
//! 2. The sorted rows are cut into neighbourhoods of two thousand, each worked on by itself.
//! 3. In a neighbourhood a group takes the row that adds the fewest block columns to those it has, beginning with none,
//!    until it has the height of a block. Of equal rows that with the most columns in common is taken, then the first.
//!
//! The similarity itself as the measure in 3 was tried and left more blocks, on pruned layers and a stiffness matrix by 3
//! to 18 %. Everything is decided by the sets alone, so the result is the same on every machine.

use std::cmp::Reverse;

use rayon::prelude::*;

use crate::{Permutation, Structure};

/// Rows of a neighbourhood: all pairs in it are looked at.
const NEIGHBOURHOOD: usize = 2048;
/// Steps that counting shared columns may take in all.
const EFFORT: usize = 1 << 32;
/// Hashes of a signature.
const HASHES: usize = 4;

/// An order of the block rows of `pieces` in which each `height` of them, one after the other, have block columns in
/// common as far as the clustering finds them.
///
/// With pieces one row high this is an order of rows for blocks of that height.
pub fn cluster(pieces: &Structure, height: usize) -> Permutation {
    let rows = by_signature(pieces);
    if height < 2 || rows.len() <= height {
        return Permutation::identity(rows.len());
    }
    // Every column of a group touches all rows of the neighbourhood that have it.
    let affordable = (EFFORT / pieces.nnzb().max(1)).saturating_mul(height);
    // Whole groups, so that those of the next neighbourhood begin with a block.
    let size = (affordable.clamp(2 * height, NEIGHBOURHOOD.max(2 * height)) / height) * height;
    let grouped: Vec<Vec<u32>> =
        rows.par_chunks(size).map(|rows| Neighbourhood::new(pieces, rows).group(height)).collect();
    Permutation::new(grouped.concat()).expect("each row is in one neighbourhood, and there in one group")
}

/// The block columns of a row.
fn columns(pieces: &Structure, row: u32) -> &[i32] {
    &pieces.col_idx()[pieces.blocks_of(row as usize)]
}

/// All rows, those with similar sets of columns near each other, those without columns last.
fn by_signature(pieces: &Structure) -> Vec<u32> {
    let mut rows: Vec<([u64; HASHES], u32)> = (0..pieces.block_rows() as u32)
        .into_par_iter()
        .map(|row| {
            let mut least = [u64::MAX; HASHES];
            for &column in columns(pieces, row) {
                for (at, least) in (0u64..).zip(&mut least) {
                    *least = (*least).min(hash(at << 32 | column as u64));
                }
            }
            (least, row)
        })
        .collect();
    rows.par_sort_unstable();
    rows.into_iter().map(|(_, row)| row).collect()
}

/// The finaliser of SplitMix64 (Steele, Lea and Flood, 2014): every bit of the result depends on every bit of `value`.
fn hash(value: u64) -> u64 {
    let mixed = value.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mixed = (mixed ^ mixed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ mixed >> 31
}

/// Rows among which groups are looked for. Rows and columns are counted within it.
struct Neighbourhood<'r> {
    rows: &'r [u32],
    /// For each row, its columns.
    columns: Vec<Vec<u32>>,
    /// For each column, the rows that have it.
    having: Vec<Vec<u32>>,
}

impl<'r> Neighbourhood<'r> {
    fn new(pieces: &Structure, rows: &'r [u32]) -> Self {
        let mut all: Vec<i32> = rows.iter().flat_map(|&row| columns(pieces, row)).copied().collect();
        all.sort_unstable();
        all.dedup();
        let number = |column: &i32| all.partition_point(|c| c < column) as u32;
        let columns: Vec<Vec<u32>> =
            rows.iter().map(|&row| columns(pieces, row).iter().map(number).collect()).collect();
        let mut having = vec![Vec::new(); all.len()];
        for (row, columns) in (0u32..).zip(&columns) {
            columns.iter().for_each(|&column| having[column as usize].push(row));
        }
        Self { rows, columns, having }
    }

    /// The rows, group after group.
    fn group(&self, height: usize) -> Vec<u32> {
        // Rows that are in no group yet, ascending.
        let mut left: Vec<u32> = (0..self.rows.len() as u32).collect();
        let mut order = Vec::with_capacity(self.rows.len());
        while !left.is_empty() {
            let mut union = Union::new(self);
            for _ in 0..height {
                let Some(next) = union.nearest(&left) else { break };
                let row = left.remove(next);
                union.add(row);
                order.push(self.rows[row as usize]);
            }
        }
        order
    }
}

/// The columns of a group.
struct Union<'n> {
    of: &'n Neighbourhood<'n>,
    has: Vec<bool>,
    /// For each row, its columns that the union has.
    shared: Vec<u32>,
}

impl<'n> Union<'n> {
    fn new(of: &'n Neighbourhood<'n>) -> Self {
        Self { of, has: vec![false; of.having.len()], shared: vec![0; of.rows.len()] }
    }

    fn add(&mut self, row: u32) {
        for &column in &self.of.columns[row as usize] {
            if !std::mem::replace(&mut self.has[column as usize], true) {
                self.of.having[column as usize].iter().for_each(|&row| self.shared[row as usize] += 1);
            }
        }
    }

    /// The position in `left` of the row that adds the fewest columns; of equal ones that with the most in common, then
    /// the first.
    fn nearest(&self, left: &[u32]) -> Option<usize> {
        let cost = |&(_, &row): &(usize, &u32)| {
            let shared = self.shared[row as usize];
            (self.of.columns[row as usize].len() as u32 - shared, Reverse(shared))
        };
        // The first of equal ones.
        left.iter().enumerate().min_by_key(cost).map(|(at, _)| at)
    }
}
