//! Shards of a matrix: every block has one owner, and no rank has much more than its part.

use bsr_runtime::shard::{Sharding, Side, balanced};
use bsr_runtime::{Bsr, Dense, Layout, Pattern, reference};
use proptest::prelude::*;

use super::parts::Parts;

/// The smallest largest sum, by trying every way to cut.
fn smallest(weights: &[u64], ranks: usize) -> u64 {
    if ranks == 1 {
        return weights.iter().sum();
    }
    let cut = |at: usize| weights[..at].iter().sum::<u64>().max(smallest(&weights[at..], ranks - 1));
    (1..=weights.len() - ranks + 1).map(cut).min().unwrap()
}

proptest! {
    #[test]
    fn ranges_are_whole_and_as_even_as_they_can_be(
        weights in proptest::collection::vec(0u64..20, 1..12),
        ranks in 1usize..6,
    ) {
        prop_assume!(ranks <= weights.len());
        let cuts = balanced(&weights, ranks).unwrap();
        prop_assert_eq!(cuts.len(), ranks);
        prop_assert_eq!((cuts[0].start, cuts[ranks - 1].end), (0, weights.len()));
        prop_assert!(cuts.windows(2).all(|pair| pair[0].end == pair[1].start));
        prop_assert!(cuts.iter().all(|range| !range.is_empty()));
        let most = cuts.iter().map(|range| weights[range.clone()].iter().sum::<u64>()).max().unwrap();
        prop_assert_eq!(most, smallest(&weights, ranks));
        let bound = weights.iter().sum::<u64>().div_ceil(ranks as u64) + weights.iter().max().unwrap();
        prop_assert!(most < bound.max(1), "{} of at most {}", most, bound);
    }

    #[test]
    fn every_block_has_one_owner_and_the_whole_comes_back(
        (rows, cols) in (1usize..60, 1usize..60),
        block in (1usize..9, 1usize..9),
        stored in proptest::collection::vec(any::<bool>(), 1..64),
        ranks in 1usize..5,
        side in prop_oneof![Just(Side::Rows), Just(Side::Cols)],
    ) {
        let a: Bsr<f32> = Parts::new(rows, cols, block, |at| stored[at % stored.len()]).build().unwrap();
        let lines = if side == Side::Rows { a.block_rows() } else { a.block_cols() };
        prop_assume!(ranks <= lines);
        let sharding = match side {
            Side::Rows => Sharding::rows(a.structure(), ranks).unwrap(),
            Side::Cols => Sharding::cols(a.structure(), ranks).unwrap(),
        };
        let mut owners = vec![0; a.nnzb()];
        let mut parts = Vec::new();
        for (rank, owned) in sharding.ranks().iter().enumerate() {
            let (part, blocks) = (sharding.part(&a, rank), sharding.blocks(a.structure(), rank));
            prop_assert_eq!((part.nnzb(), blocks.len()), (owned.blocks, owned.blocks));
            for (here, &there) in blocks.iter().enumerate() {
                owners[there] += 1;
                prop_assert_eq!(part.block_values(here), a.block_values(there));
            }
            parts.push(part);
        }
        prop_assert!(owners.iter().all(|&owners| owners == 1), "{:?}", owners);
        prop_assert_eq!(sharding.gather(&parts).unwrap(), a);
    }
}

/// Stored blocks of a test matrix that has more of them at its top and at its right.
fn skewed(rows: usize, cols: usize, block: (usize, usize), seed: u64) -> Bsr<f32> {
    Bsr::generate(Pattern::Random(0.4), rows, cols, block, seed).unwrap()
}

#[test]
fn shards_compute_the_product_of_the_whole() {
    let (up, down) = (skewed(100, 60, (16, 8), 1), skewed(50, 100, (8, 24), 2));
    let (first, second) = Sharding::hidden(up.structure(), down.structure(), 2).unwrap();
    let x = Dense::<f32>::normal(60, 7, Layout::RowMajor, 3);
    let hidden = reference::multiply(&up, &x).unwrap();
    let whole = {
        let hidden = Dense::from_fn(100, 7, Layout::RowMajor, |row, col| hidden[row * 7 + col] as f32);
        reference::multiply(&down, &hidden).unwrap()
    };
    let mut sum = vec![0.0; whole.len()];
    for rank in 0..2 {
        let (up, down) = (first.part(&up, rank), second.part(&down, rank));
        assert_eq!(up.rows(), down.cols());
        let rows = first.ranks()[rank].elements.clone();
        assert_eq!(rows, second.ranks()[rank].elements);
        assert!(rows.start.is_multiple_of(48), "a cut is between whole blocks of both");
        let part = reference::multiply(&up, &x).unwrap();
        assert_eq!(part, hidden[rows.start * 7..rows.end * 7], "the rows of a rank are those of the whole");
        let part = Dense::from_fn(up.rows(), 7, Layout::RowMajor, |row, col| part[row * 7 + col] as f32);
        sum.iter_mut().zip(reference::multiply(&down, &part).unwrap()).for_each(|(sum, part)| *sum += part);
    }
    let error = reference::relative_error(&sum, &whole);
    assert!(error < 1e-6, "{error}");
}

#[test]
fn what_each_rank_owns_is_written_down() {
    let a: Bsr<f32> = Bsr::generate(Pattern::Random(1.0), 70, 20, (16, 8), 0).unwrap();
    let words = Sharding::rows(a.structure(), 2).unwrap().to_string();
    assert_eq!(
        words,
        "rank 0: block rows 0..3, rows 0..48, 9 of 15 blocks\nrank 1: block rows 3..5, rows 48..70, 6 of 15 blocks\n\
         the largest shard has 1.200 times the average"
    );
}

#[test]
fn what_cannot_be_divided_is_refused() {
    let a = skewed(40, 40, (16, 16), 0);
    for (ranks, words) in [(0, "0 ranks"), (4, "4 ranks share 3 whole block rows")] {
        let refused = Sharding::rows(a.structure(), ranks).unwrap_err().to_string();
        assert!(refused.contains(words), "{refused}");
    }
    let other = skewed(48, 40, (16, 16), 0);
    let refused = Sharding::hidden(a.structure(), other.structure(), 2);
    assert!(refused.is_ok(), "40 outputs and 40 inputs");
    let refused = Sharding::hidden(other.structure(), a.structure(), 2).unwrap_err().to_string();
    assert!(refused.contains("48 outputs and the second 40 inputs"), "{refused}");
    let sharding = Sharding::rows(a.structure(), 2).unwrap();
    let mut parts = vec![sharding.part(&a, 0)];
    assert!(sharding.gather(&parts).unwrap_err().to_string().contains("1 shards of a matrix that 2 ranks own"));
    parts.insert(0, sharding.part(&a, 1));
    let swapped = sharding.gather(&parts).unwrap_err().to_string();
    let words = format!("the shard of rank 0 is {} x 40 in blocks of 16 x 16", parts[0].rows());
    assert!(parts[0].rows() != parts[1].rows() && swapped.contains(&words), "{swapped}");
}
