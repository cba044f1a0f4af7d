//! What Matrix Market files mean.

use super::{elements, mtx};

#[test]
fn matrix_market_fields_and_symmetries() {
    let general = mtx("%%MatrixMarket matrix coordinate real general\n% comment\n\n2 3 3\n2 3 1.5\n1 1 -2e3\n2 1 4\n");
    assert_eq!(elements(&general.unwrap()), [(0, 0, -2000.0), (1, 0, 4.0), (1, 2, 1.5)]);
    let pattern = mtx("%%MatrixMarket Matrix Coordinate PATTERN Symmetric\r\n2 2 2\r\n1 1\r\n2 1");
    assert_eq!(elements(&pattern.unwrap()), [(0, 0, 1.0), (0, 1, 1.0), (1, 0, 1.0)]);
    let skew = mtx("%%MatrixMarket matrix coordinate integer skew-symmetric\n3 3 1\n3 1 -7\n");
    assert_eq!(elements(&skew.unwrap()), [(0, 2, 7.0), (2, 0, -7.0)]);
    let twice = mtx("%%MatrixMarket matrix coordinate real general\n1 1 2\n1 1 0.5\n1 1 0.25\n");
    assert_eq!(elements(&twice.unwrap()), [(0, 0, 0.75)]);
    let empty = mtx("%%MatrixMarket matrix coordinate real general\n0 5 0\n").unwrap();
    assert_eq!((empty.rows(), empty.cols(), empty.true_nnz()), (0, 5, 0));
}

#[test]
fn a_listed_zero_keeps_its_block_but_is_no_nonzero() {
    let sparse = mtx("%%MatrixMarket matrix coordinate real general\n4 4 2\n1 1 1\n4 4 0\n").unwrap();
    let (a, fill_in) = sparse.to_bsr::<f32>((2, 2)).unwrap();
    assert_eq!((a.col_idx(), fill_in.true_nnz()), (&[0, 1][..], 1));
    assert_eq!(fill_in.to_string(), "1 nonzeros in 2 blocks of 2 x 2: 8 values stored, 8.00 for each nonzero");
}
