//! Files that are written and read back: by these readers, by scipy and by PyTorch.

mod malformed;
mod python;
mod round_trip;

use bsr_runtime::{Bsr, Element, Permutation, Structure};
use proptest::prelude::*;

/// A matrix of random places and values, not a multiple of its block, and an order of its rows.
fn matrix<T: Element>() -> impl Strategy<Value = (Bsr<T>, Permutation)> {
    (1usize..40, 1usize..40, (1usize..9, 1usize..9), any::<u64>()).prop_flat_map(|(rows, cols, block, seed)| {
        let blocks = (rows.div_ceil(block.0), cols.div_ceil(block.1));
        let stored = prop::collection::vec(any::<bool>(), blocks.0 * blocks.1);
        let order = Just((0..rows as u32).collect::<Vec<u32>>()).prop_shuffle();
        (stored, order).prop_map(move |(stored, order)| {
            let (mut row_ptr, mut col_idx) = (vec![0], Vec::new());
            for line in stored.chunks(blocks.1) {
                col_idx.extend((0i32..).zip(line).filter(|(_, stored)| **stored).map(|(col, _)| col));
                row_ptr.push(col_idx.len() as i32);
            }
            let structure = Structure::new(rows, cols, block, row_ptr, col_idx).unwrap();
            (Bsr::normal(structure, seed), Permutation::new(order).unwrap())
        })
    })
}
