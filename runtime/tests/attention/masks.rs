//! Masks: what generators store, what is refused.

use bsr_runtime::attention::{BlockList, Coverage, Mask, Sharing};

/// `#` for a full block, `/` for a partial one.
fn picture(mask: &Mask) -> Vec<String> {
    let (rows, columns) = mask.blocks();
    let list = &mask.lists()[0];
    let line = |row| {
        let mut line = vec!['.'; columns];
        list.row(row).for_each(|(column, partial)| line[column as usize] = if partial { '/' } else { '#' });
        line.into_iter().collect()
    };
    (0..rows).map(line).collect()
}

#[test]
fn generated_masks_cover_what_they_say() {
    let (sizes, block) = ((40, 40), (10, 10));
    assert_eq!(picture(&Mask::causal(40, 40, block).unwrap()), ["/...", "#/..", "##/.", "###/"]);
    assert_eq!(picture(&Mask::causal(35, 25, block).unwrap()), ["/..", "#/.", "##/", "###"]);
    assert_eq!(picture(&Mask::lower_triangle(sizes, block).unwrap()), ["#...", "##..", "###.", "####"]);
    assert_eq!(picture(&Mask::block_window(sizes, block, 1).unwrap()), ["##..", "###.", ".###", "..##"]);
    assert_eq!(picture(&Mask::window(sizes, block, 10, 0).unwrap()), ["/...", "//..", ".//.", "..//"]);
    assert_eq!(picture(&Mask::window(sizes, block, 19, 5).unwrap()), ["//..", "#//.", "/#//", "./#/"]);
    assert_eq!(picture(&Mask::strided(sizes, block, 0, 2).unwrap()), ["##.#", ".#.#", ".###", ".#.#"]);
    assert_eq!(picture(&Mask::full((15, 21), block).unwrap()), ["###", "###"]);
    let bird = Mask::big_bird((100, 100), block, [1, 1, 2], 3).unwrap();
    let counts: Vec<usize> = (0..10).map(|row| bird.lists()[0].row(row).count()).collect();
    assert!(counts[0] == 10 && counts[1..].iter().all(|count| (3..=6).contains(count)), "{counts:?}");
}

#[test]
fn coverage_is_that_of_the_pairs() {
    let (queries, keys) = (37, 29);
    type Rule = fn(usize, usize) -> bool;
    let rules: [(Rule, Mask); 3] = [
        (|i, j| i >= j, Mask::causal(queries, keys, (8, 4)).unwrap()),
        (|i, j| j <= i + 3 && i <= j + 9, Mask::window((queries, keys), (8, 4), 9, 3).unwrap()),
        (|i, j| j <= i && i <= j + 16, Mask::window((queries, keys), (8, 4), 16, 0).unwrap()),
    ];
    for (rule, mask) in rules {
        let pairs: Vec<bool> = (0..queries * keys).map(|at| rule(at / keys, at % keys)).collect();
        assert_eq!(mask, Mask::from_pairs((queries, keys), (8, 4), &pairs).unwrap());
    }
}

#[test]
fn the_greatest_scores_are_stored() {
    let scores = [0.1, 0.9, 0.5, f32::NEG_INFINITY, 2.0, 2.0];
    let mask = Mask::top_k((20, 30), (10, 10), &scores, 2).unwrap();
    assert_eq!(picture(&mask), [".##", ".##"]);
    assert!(Mask::top_k((20, 30), (10, 10), &scores[1..], 2).is_err());
}

#[test]
fn executed_pairs_are_those_of_stored_blocks() {
    let mask = Mask::causal(35, 35, (10, 10)).unwrap();
    assert_eq!(mask.pairs(2, 3), 6 * (10 * (10 + 20 + 30) + 5 * 35));
    assert_eq!(mask.stored(), 10);
}

#[test]
fn malformed_lists_are_told_with_their_place() {
    let list = |indptr: &[u32], indices: &[u32]| BlockList {
        indptr: indptr.to_vec(),
        indices: indices.to_vec(),
        partial: vec![false; indices.len()],
    };
    let cases = [
        (list(&[0, 1], &[0]), "2 row starts"),
        (list(&[0, 1, 3], &[0, 1]), "from Some(0) to Some(3)"),
        (list(&[0, 2, 1], &[0]), "row 0 runs from 0 to 2"),
        (list(&[0, 2, 2], &[1, 1]), "block column 1 follows 1 in row 0"),
        (list(&[0, 1, 2], &[0, 7]), "block column 7 in row 1"),
        (BlockList { partial: vec![], ..list(&[0, 1, 1], &[0]) }, "0 flags for 1 blocks"),
    ];
    for (list, words) in cases {
        let error = Mask::new((20, 30), (10, 10), Sharing::All, vec![list]).unwrap_err().to_string();
        assert!(error.contains(words) && error.contains("help: "), "{words}: {error}");
    }
    assert!(Mask::by_rule((20, 30), (0, 10), |_, _| Coverage::Full).is_err());
}
