//! What is wrong is answered with the place, the fact and the remedy, and costs nothing.

use std::path::Path;

use bsr_runtime::read::{self, Sparse};

use super::{elements, mtx, smtx};

#[test]
fn malformed_matrix_market_is_answered_with_line_and_remedy() {
    const REAL: &str = "%%MatrixMarket matrix coordinate real general\n";
    let real = |rest: &str| format!("{REAL}{rest}");
    for (text, answer) in [
        (String::new(), "a.mtx: the first line is ``\n  help: a Matrix Market file begins with"),
        ("hello\n".into(), "a.mtx:1: the first line is `hello`"),
        (
            "%%MatrixMarket matrix array real general\n".into(),
            "a.mtx:1: the file holds a dense or other object: `matrix array`\n  help: save it as",
        ),
        (REAL.replace("real", "complex"), "a.mtx:1: the values are `complex`"),
        (REAL.replace("general", "hermitian"), "a.mtx:1: the symmetry is `hermitian`"),
        (REAL.into(), "a.mtx:1: the file ends before the size line"),
        (real("% only a comment\n"), "a.mtx:2: the file ends before"),
        (real("3 3\n"), "a.mtx:2: the size line is `3 3`\n  help: it has three whole numbers"),
        (real("3 -3 1\n"), "a.mtx:2: the size line is `3 -3 1`"),
        (real("999999999999 1 0\n"), "a.mtx:2: 999999999999 rows are more than"),
        (real("%\n3 3 1\n\n4 1 1.0\n"), "a.mtx:5: row `4` is not in 1..=3"),
        (real("3 3 1\n0 1 1.0\n"), "a.mtx:3: row `0` is not in 1..=3\n  help: Matrix Market counts"),
        (real("3 3 1\n1 4 1.0\n"), "a.mtx:3: column `4` is not in 1..=3"),
        (real("3 3 1\n1 1 one\n"), "a.mtx:3: `one` is not a number"),
        (real("3 3 1\n1 1\n"), "a.mtx:3: `1 1` has no value"),
        (real("3 3 1\n1 1 1.0 0.0\n"), "a.mtx:3: `0.0` follows the entry"),
        (real("3 3 2\n1 1 1.0\n"), "a.mtx:3: the file ends after 1 of 2 entries"),
        (real("3 3 1\n1 1 1\n2 2 2\n"), "a.mtx:4: `2 2 2` is entry 2 of 1"),
        (REAL.replace("general", "symmetric") + "2 3 0\n", "a.mtx:2: the banner says symmetric, but the size is 2 x 3"),
        (
            REAL.replace("general", "symmetric") + "3 3 1\n1 2 1\n",
            "a.mtx:3: row 1, column 2 is not on and below the diagonal",
        ),
        (
            REAL.replace("general", "skew-symmetric") + "3 3 1\n2 2 1\n",
            "a.mtx:3: row 2, column 2 is not below the diagonal",
        ),
        (REAL.replace("real general", "pattern skew-symmetric"), "a.mtx:1: a pattern has no signs"),
        (REAL.replace("real", "integer") + "1 1 1\n1 1 0.5\n", "a.mtx:3: `0.5` is not a number of that kind"),
    ] {
        let refused = mtx(&text).unwrap_err().to_string();
        assert!(refused.starts_with(answer), "{text:?}: {refused}");
    }
    let binary = read::parse_mtx(b"%%MatrixMarket matrix coordinate real general\n\xff\n", Path::new("a.mtx"));
    assert_eq!(binary.unwrap_err().line(), Some(2));
}

#[test]
fn malformed_smtx_is_answered_with_line_and_remedy() {
    let right = smtx("2, 3, 3\n0 1 3\n2 0 1\n").unwrap();
    let places: Vec<_> = elements(&right).iter().map(|&(row, col, _)| (row, col)).collect();
    assert_eq!(places, [(0, 2), (1, 0), (1, 1)]);
    assert_eq!(smtx("2, 3, 0\n0 0 0\n").unwrap().true_nnz(), 0);
    for (text, answer) in [
        ("", "a.smtx:1: the first line is ``\n  help: it states three whole numbers"),
        ("2, 3\n", "a.smtx:1: the first line is `2, 3`"),
        ("2, 3, x\n", "a.smtx:1: the first line is `2, 3, x`"),
        ("2, 99999999999, 3\n", "a.smtx:1: 99999999999 columns are more"),
        ("2, 3, 3\n0 1\n2 0 1\n", "a.smtx:2: 2 row offsets, but 2 rows take 2 + 1 = 3"),
        ("2, 3, 3\n1 1 3\n2 0 1\n", "a.smtx:2: row offset 0 is 1"),
        ("2, 3, 3\n0 4 3\n2 0 1\n", "a.smtx:2: row offset 2 is 3, less than 4"),
        ("2, 3, 3\n0 1 2\n2 0 1\n", "a.smtx:2: the last row offset is 2, but the first line states 3"),
        ("2, 3, 3\n0 1 x\n2 0 1\n", "a.smtx:2: row offset 2 is `x`"),
        ("2, 3, 3\n0 1 3\n2 0\n", "a.smtx:3: 2 column indices, but 3 nonzeros"),
        ("2, 3, 3\n0 1 3\n2 0 3\n", "a.smtx:3: column index 2 is `3`, not in 0..3"),
        ("2, 3, 3\n0 1 3\n2 1 1\n", "a.smtx:3: row 1 lists column 1 twice"),
        ("2, 3, 3\n0 1 3\n2 0 1\n0.5 1 2\n", "a.smtx:4: there is a fourth line"),
    ] {
        let refused = smtx(text).unwrap_err().to_string();
        assert!(refused.starts_with(answer), "{text:?}: {refused}");
    }
}

#[test]
fn claims_without_content_cost_no_memory() {
    // Each of these claims hundreds of gigabytes; all are answered at once.
    let claims = mtx("%%MatrixMarket matrix coordinate real general\n1000 1000 99999999999999\n1 1 1\n");
    assert!(claims.unwrap_err().to_string().contains("after 1 of 99999999999999 entries"));
    let claims = smtx("134217728, 5, 99999999999999\n0 1\n2\n");
    assert!(claims.unwrap_err().to_string().contains("2 row offsets"));
    // 4 nonzeros far apart, in blocks of 2^28 x 2^27 values: 2^57 bytes of f32.
    let far = Sparse::from_triplets(1 << 29, 1 << 28, vec![(0, 0, 1.0), (1 << 28, 1 << 27, 1.0)]).unwrap();
    let refused = far.to_bsr::<f32>((1 << 28, 1 << 27)).unwrap_err();
    assert!(refused.to_string().contains("2 nonzeros fall into 2 blocks"), "{refused}");
}

#[test]
fn triplets_are_checked() {
    let outside = Sparse::from_triplets(2, 3, vec![(1, 2, 1.0), (0, 3, 1.0)]).unwrap_err();
    assert!(outside.to_string().contains("triplet 1 is at row 0, column 3, outside a 2 x 3"), "{outside}");
    let large = Sparse::from_triplets(1 << 31, 3, vec![]).unwrap_err();
    assert!(large.to_string().contains("rows = 2147483648"), "{large}");
    let no_block = Sparse::from_triplets(2, 3, vec![]).unwrap().to_bsr::<f32>((2, 0)).unwrap_err();
    assert!(no_block.to_string().contains("the block is 2 x 0"), "{no_block}");
}
