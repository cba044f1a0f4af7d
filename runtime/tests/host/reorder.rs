//! Orders of rows: what they must never lose, what they find, and what they take.

use std::path::Path;

use bsr_runtime::prune::{Keep, prune};
use bsr_runtime::read::{self, Sparse};
use bsr_runtime::{Dense, Layout, Permutation, reference, reorder};
use proptest::prelude::*;

/// A pseudo-random number for each argument.
fn mixed(value: u64) -> u64 {
    let mixed = value.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mixed = (mixed ^ mixed >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed ^ mixed >> 32
}

/// Rows of `clusters` kinds in no order: row by row one of the kinds, each with `per_row` block columns of its own.
fn clustered(rows: u32, clusters: u64, per_row: u64, bk: u64) -> Sparse {
    // A bijection of the rows, since the factor is odd and `rows` a power of two.
    let kind = |row: u32| u64::from(row.wrapping_mul(2_654_435_761) % rows) % clusters;
    let elements = (0..rows).flat_map(|row| {
        let column = move |at: u64| (kind(row) * per_row + at) * bk + mixed(u64::from(row) * 31 + at) % bk;
        (0..per_row).map(move |at| (row, column(at) as u32, 1.0))
    });
    let cols = (clusters * per_row * bk) as usize;
    Sparse::from_triplets(rows as usize, cols, elements.collect()).unwrap()
}

#[test]
fn shuffled_clusters_are_found_whole() {
    for block in [(16, 16), (32, 8), (8, 64)] {
        let sparse = clustered(1024, 16, 5, block.1 as u64);
        let order = reorder::rows(&sparse, block).unwrap().unwrap();
        let blocks = sparse.reordered(&order).unwrap().structure(block).unwrap().nnzb();
        // 1024 / bm groups of rows of one kind, 5 block columns each: none fewer can hold them.
        assert_eq!(blocks, 1024 / block.0 * 5, "{block:?}");
    }
}

#[test]
fn a_hundred_thousand_rows_are_clustered() {
    let sparse = clustered(1 << 17, 512, 6, 16);
    let order = reorder::cluster(&sparse.structure((1, 16)).unwrap(), 64);
    let blocks = |sparse: &Sparse| sparse.structure((64, 16)).unwrap().nnzb();
    let (before, after) = (blocks(&sparse), blocks(&sparse.reordered(&order).unwrap()));
    // 2^17 / 64 groups of 6: signatures bring rows of one kind into one neighbourhood, but for a cut.
    assert!(before > 100 * 2048 && after < 2048 * 6 * 11 / 10, "{before} {after}");
}

#[test]
fn real_matrices_take_fewer_blocks() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    for (name, block, before, after) in [
        ("bcsstk13.mtx", (16, 16), 2080, 1830),
        ("bcsstk13.mtx", (32, 32), 815, 730),
        ("dlmc_transformer_magnitude_0.98_ffn1.smtx", (16, 16), 4066, 2700),
        ("dlmc_transformer_magnitude_0.98_ffn1.smtx", (32, 32), 1024, 780),
    ] {
        let sparse = read::load(data.join(name), 0).unwrap();
        assert_eq!(sparse.structure(block).unwrap().nnzb(), before);
        let order = reorder::rows(&sparse, block).unwrap().unwrap();
        let fewer = sparse.reordered(&order).unwrap().structure(block).unwrap().nnzb();
        assert!(fewer <= after, "{name} {block:?}: {fewer}");
    }
}

#[test]
fn an_order_that_gains_nothing_is_not_given() {
    // Blocks that are full already.
    let full = (0..16u32).flat_map(|row| (0..4).map(move |col| (row, col + row / 4 * 4, 1.0)));
    let sparse = Sparse::from_triplets(16, 16, full.collect()).unwrap();
    assert_eq!(reorder::rows(&sparse, (4, 4)).unwrap(), None);
    assert_eq!(reorder::rows(&sparse, (1, 4)).unwrap(), None);
    assert_eq!(reorder::rows(&sparse, (16, 4)).unwrap(), None);
    let none = Sparse::from_triplets(0, 0, Vec::new()).unwrap();
    assert_eq!(reorder::rows(&none, (4, 4)).unwrap(), None);
    assert!(reorder::rows(&sparse, (0, 4)).is_err());
}

#[test]
fn dense_weights_keep_more_of_their_norm() {
    // Large pieces where a clustered matrix has elements, small noise elsewhere.
    let places = clustered(256, 8, 2, 8).to_bsr::<f32>((1, 1)).unwrap().0.to_dense(Layout::RowMajor);
    let weights = Dense::<f32>::from_fn(256, 128, Layout::RowMajor, |row, col| {
        let noise = mixed((row * 128 + col) as u64) % 1000;
        places.get(row, col).unwrap() * 10.0 + noise as f32 / 1000.0
    });
    let sparse = Sparse::from_dense(&weights).unwrap();
    for keep in [Keep::Fraction(0.125), Keep::PerRow(2)] {
        let order = reorder::rows_to_prune(&sparse, (16, 8), keep).unwrap().unwrap();
        let norm = |sparse: &Sparse| prune(sparse, (16, 8), keep).unwrap().norm();
        let (before, after) = (norm(&sparse), norm(&sparse.reordered(&order).unwrap()));
        assert!(before < 0.6 && after > 0.85, "{keep:?}: {before} {after}");
    }
}

proptest! {
    #[test]
    fn no_element_is_lost_and_the_product_comes_back(
        rows in 1usize..50, cols in 1usize..50, block in (1usize..9, 1usize..9), dense in any::<bool>(),
        listed in prop::collection::btree_map((0u32..50, 0u32..50), -8i32..8, 0..200),
    ) {
        let inside = |&(&(row, col), _): &(&(u32, u32), &i32)| (row as usize) < rows && (col as usize) < cols;
        let listed: Vec<_> = listed.iter().filter(inside).map(|(&(r, c), &v)| (r, c, f64::from(v))).collect();
        let mut sparse = Sparse::from_triplets(rows, cols, listed).unwrap();
        let original = sparse.to_bsr::<f32>(block).unwrap().0;
        if dense {
            sparse = Sparse::from_dense(&original.to_dense(Layout::ColMajor)).unwrap();
        }
        let order = reorder::cluster(&sparse.structure((1, block.1)).unwrap(), block.0);
        prop_assert_eq!(Permutation::new(order.as_slice().to_vec()), Ok(order.clone()));
        if let Some(found) = reorder::rows(&sparse, block).unwrap() {
            prop_assert_eq!(&found, &order);
        }
        let matrix = sparse.reordered(&order).unwrap().to_bsr::<f32>(block).unwrap().0;
        let b = Dense::<f32>::from_fn(cols, 3, Layout::RowMajor, |r, c| (r * 3 + c) as f32);
        let product: Vec<f32> = reference::multiply(&matrix, &b).unwrap().iter().map(|v| *v as f32).collect();
        let product = Dense::from_vec(rows, 3, Layout::RowMajor, 3, product).unwrap();
        // Small integers: exact in any order of summation.
        prop_assert_eq!(order.undo(&product).unwrap().to_f64(), reference::multiply(&original, &b).unwrap());
    }
}
