//! The readers: real files, fixtures written by scipy, round trips, and malformed input.

#![allow(clippy::unwrap_used)]

use std::fmt::Write as _;
use std::io::Cursor;
use std::path::{Path, PathBuf};

use bsr_runtime::read::{self, ConvertError, ReadError, ReadProblem, Sparse, TripletError};
use bsr_runtime::{Bsr, BsrError, Dtype, Layout};
use half::{bf16, f16};
use proptest::prelude::*;

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data")
        .join(name)
}

fn mtx(text: &str) -> Result<Sparse, ReadError> {
    read::parse_mtx(text.as_bytes(), Path::new("a.mtx"))
}

fn smtx(text: &str) -> Result<Sparse, ReadError> {
    read::parse_smtx(text.as_bytes(), Path::new("a.smtx"), 1)
}

/// The listed elements, in order.
fn elements(sparse: &Sparse) -> Vec<(usize, usize, f64)> {
    let mut all = Vec::new();
    sparse.for_each(|row, col, value| all.push((row, col, value)));
    all
}

#[test]
fn a_stiffness_matrix_is_read_whole_and_symmetric() {
    let sparse = read::load(data("bcsstk13.mtx"), 0).unwrap();
    assert_eq!((sparse.rows(), sparse.cols()), (2003, 2003));
    // 42,943 listed entries, 2003 of them on the diagonal, the others mirrored.
    assert_eq!(sparse.true_nnz(), 2 * 42_943 - 2003);
    let (a, fill_in) = read::open::<f32>(data("bcsstk13.mtx"), (64, 32), 0).unwrap();
    let dense = a.to_dense(Layout::RowMajor);
    assert_eq!(dense.get(0, 0), Some(277_281_165.182_048_f32));
    assert!((0..2003).all(|r| (0..r).all(|c| dense.get(r, c) == dense.get(c, r))));
    assert_eq!(
        (fill_in.nnzb(), fill_in.stored()),
        (a.nnzb(), a.values().len())
    );
    assert_eq!(
        fill_in.true_nnz(),
        a.values().iter().filter(|v| **v != 0.0).count()
    );
    assert_eq!(fill_in.ratio(), a.values().len() as f64 / 83_883.0);
}

#[test]
fn values_beyond_the_element_type_are_refused_and_can_be_scaled() {
    let sparse = read::load(data("bcsstk13.mtx"), 0).unwrap();
    let refused = sparse.to_bsr::<f16>((64, 64)).unwrap_err();
    assert!(
        matches!(
            refused,
            ConvertError::Range {
                row: 0,
                col: 0,
                dtype: Dtype::F16,
                ..
            }
        ),
        "{refused}"
    );
    assert!(
        refused
            .to_string()
            .ends_with("take bf16 or f32, or scale the matrix"),
        "{refused}"
    );
    assert!(sparse.to_bsr::<bf16>((64, 64)).is_ok());

    let factor = 1.0 / sparse.largest();
    let (a, _) = sparse.scaled(factor).to_bsr::<f16>((64, 64)).unwrap();
    assert_eq!(
        a.values().iter().copied().fold(f16::ZERO, f16::max),
        f16::ONE
    );
}

#[test]
fn a_pruned_layer_is_read_with_drawn_values() {
    let path = data("dlmc_transformer_magnitude_0.98_ffn1.smtx");
    let (a, fill_in) = read::open::<f16>(&path, (32, 32), 7).unwrap();
    assert_eq!(
        (a.rows(), a.cols(), fill_in.true_nnz()),
        (2048, 512, 20_971)
    );
    // Elements of the file's first row.
    let sparse = read::load(&path, 7).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    let numbers = |line: usize| {
        text.lines()
            .nth(line)
            .unwrap()
            .split(' ')
            .map(|n| n.parse().unwrap())
    };
    let end: usize = numbers(1).nth(1).unwrap();
    let mut first_row: Vec<usize> = numbers(2).take(end).collect();
    first_row.sort_unstable();
    let read_row: Vec<usize> = elements(&sparse)
        .iter()
        .filter(|e| e.0 == 0)
        .map(|e| e.1)
        .collect();
    assert_eq!(read_row, first_row);

    let values: Vec<f64> = elements(&sparse).iter().map(|e| e.2).collect();
    let variance = values.iter().map(|v| v * v).sum::<f64>() / values.len() as f64;
    assert!((variance - 1.0).abs() < 0.05, "variance {variance}");
    assert_eq!(read::open::<f16>(&path, (32, 32), 7).unwrap().0, a);
    assert_ne!(read::open::<f16>(&path, (32, 32), 8).unwrap().0, a);
}

/// The matrix of `tests/data/make_npz.py`.
fn fixture(row: usize, col: usize) -> f64 {
    if (3 * row + 5 * col).is_multiple_of(4) {
        (10 * row + col + 1) as f64 / 8.0
    } else {
        0.0
    }
}

#[test]
fn scipy_archives_of_every_type_hold_the_same_matrix() {
    let expected: Vec<f64> = (0..120).map(|at| fixture(at / 10, at % 10)).collect();
    for name in [
        "csr_f64_i32",
        "csr_f32_i64",
        "csr_f16_plain",
        "bsr_f32_i32",
        "bsr_f16_i64",
    ] {
        let path = data(&format!("{name}.npz"));
        for block in [(4, 2), (1, 1), (5, 3), (16, 16)] {
            let (a, fill_in) = read::open::<f16>(&path, block, 0).unwrap();
            assert_eq!(
                a.to_dense(Layout::RowMajor).to_f64(),
                expected,
                "{name} {block:?}"
            );
            assert_eq!(fill_in.true_nnz(), 30, "{name}");
        }
        let blocked = name.starts_with("bsr").then_some((4, 2));
        assert_eq!(read::load(&path, 0).unwrap().own_block(), blocked);
    }
}

#[test]
fn scipy_blocks_are_sorted_and_added_and_zeros_kept() {
    let sparse = read::load(data("bsr_unsorted.npz"), 0).unwrap();
    let (a, fill_in) = sparse.to_bsr::<f32>((2, 2)).unwrap();
    assert_eq!((a.row_ptr(), a.col_idx()), (&[0, 2, 3][..], &[0, 2, 1][..]));
    let expected: Vec<f32> = [2.0, 5.0, 0.0].into_iter().flat_map(|v| [v; 4]).collect();
    assert_eq!(a.values(), expected);
    assert_eq!(
        (fill_in.true_nnz(), fill_in.stored(), fill_in.ratio()),
        (8, 12, 1.5)
    );
    // In other blocks there is no reason to keep a block of zeros.
    let (a, _) = sparse.to_bsr::<f32>((2, 3)).unwrap();
    assert_eq!((a.row_ptr(), a.col_idx()), (&[0, 2, 2][..], &[0, 1][..]));
}

#[test]
fn other_archives_are_refused_by_member() {
    let refusal = |name: &str| read::load(data(name), 0).unwrap_err().to_string();
    let csc = refusal("csc.npz");
    assert!(
        csc.contains("csc.npz/format.npy: the format is `csc`") && csc.contains("tocsr()"),
        "{csc}"
    );
    let complex = refusal("csr_complex.npz");
    assert!(
        complex.contains("/data.npy: the values are of type c8"),
        "{complex}"
    );
    let text = read::parse_npz(Cursor::new(b"PK, but no archive"), Path::new("a.npz")).unwrap_err();
    assert!(
        text.to_string().starts_with("a.npz: not a zip archive"),
        "{text}"
    );
}

#[test]
fn the_extension_chooses_the_reader() {
    let refusal = |name: &str| read::load(Path::new(name), 0).unwrap_err();
    let unknown = refusal("dir.d/matrix.txt").to_string();
    assert!(
        unknown.starts_with("dir.d/matrix.txt: the extension .txt names no known format"),
        "{unknown}"
    );
    assert!(
        refusal("matrix")
            .to_string()
            .contains("the name has no extension")
    );
    let missing = refusal("no/such/file.MTX");
    assert!(matches!(missing.problem(), ReadProblem::Io(_)), "{missing}");
}

#[test]
fn matrix_market_fields_and_symmetries() {
    let general = mtx(
        "%%MatrixMarket matrix coordinate real general\n% comment\n\n2 3 3\n2 3 1.5\n1 1 -2e3\n2 1 4\n",
    );
    assert_eq!(
        elements(&general.unwrap()),
        [(0, 0, -2000.0), (1, 0, 4.0), (1, 2, 1.5)]
    );
    let pattern = mtx("%%MatrixMarket Matrix Coordinate PATTERN Symmetric\r\n2 2 2\r\n1 1\r\n2 1");
    assert_eq!(
        elements(&pattern.unwrap()),
        [(0, 0, 1.0), (0, 1, 1.0), (1, 0, 1.0)]
    );
    let skew = mtx("%%MatrixMarket matrix coordinate integer skew-symmetric\n3 3 1\n3 1 -7\n");
    assert_eq!(elements(&skew.unwrap()), [(0, 2, 7.0), (2, 0, -7.0)]);
    let twice = mtx("%%MatrixMarket matrix coordinate real general\n1 1 2\n1 1 0.5\n1 1 0.25\n");
    assert_eq!(elements(&twice.unwrap()), [(0, 0, 0.75)]);
    let empty = mtx("%%MatrixMarket matrix coordinate real general\n0 5 0\n").unwrap();
    assert_eq!((empty.rows(), empty.cols(), empty.true_nnz()), (0, 5, 0));
}

#[test]
fn a_listed_zero_keeps_its_block_but_is_no_nonzero() {
    let sparse =
        mtx("%%MatrixMarket matrix coordinate real general\n4 4 2\n1 1 1\n4 4 0\n").unwrap();
    let (a, fill_in) = sparse.to_bsr::<f32>((2, 2)).unwrap();
    assert_eq!((a.col_idx(), fill_in.true_nnz()), (&[0, 1][..], 1));
    assert_eq!(
        fill_in.to_string(),
        "1 nonzeros in 2 blocks of 2 x 2: 8 values stored, 8.00 for each nonzero"
    );
}

#[test]
fn malformed_matrix_market_is_answered_with_line_and_remedy() {
    const REAL: &str = "%%MatrixMarket matrix coordinate real general\n";
    let real = |rest: &str| format!("{REAL}{rest}");
    for (text, answer) in [
        (
            String::new(),
            "a.mtx: the first line is ``; a Matrix Market file begins with",
        ),
        ("hello\n".into(), "a.mtx:1: the first line is `hello`"),
        (
            "%%MatrixMarket matrix array real general\n".into(),
            "a.mtx:1: the file holds a dense or other object: `matrix array`; save it as",
        ),
        (
            REAL.replace("real", "complex"),
            "a.mtx:1: the values are `complex`",
        ),
        (
            REAL.replace("general", "hermitian"),
            "a.mtx:1: the symmetry is `hermitian`",
        ),
        (REAL.into(), "a.mtx:1: the file ends before the size line"),
        (real("% only a comment\n"), "a.mtx:2: the file ends before"),
        (
            real("3 3\n"),
            "a.mtx:2: the size line is `3 3`; it has three whole numbers",
        ),
        (real("3 -3 1\n"), "a.mtx:2: the size line is `3 -3 1`"),
        (
            real("999999999999 1 0\n"),
            "a.mtx:2: 999999999999 rows are more than",
        ),
        (
            real("%\n3 3 1\n\n4 1 1.0\n"),
            "a.mtx:5: row `4` is not in 1..=3",
        ),
        (
            real("3 3 1\n0 1 1.0\n"),
            "a.mtx:3: row `0` is not in 1..=3; Matrix Market counts",
        ),
        (
            real("3 3 1\n1 4 1.0\n"),
            "a.mtx:3: column `4` is not in 1..=3",
        ),
        (real("3 3 1\n1 1 one\n"), "a.mtx:3: `one` is not a number"),
        (real("3 3 1\n1 1\n"), "a.mtx:3: `1 1` has no value"),
        (
            real("3 3 1\n1 1 1.0 0.0\n"),
            "a.mtx:3: `0.0` follows the entry",
        ),
        (
            real("3 3 2\n1 1 1.0\n"),
            "a.mtx:3: the file ends after 1 of 2 entries",
        ),
        (
            real("3 3 1\n1 1 1\n2 2 2\n"),
            "a.mtx:4: `2 2 2` is entry 2 of 1",
        ),
        (
            REAL.replace("general", "symmetric") + "2 3 0\n",
            "a.mtx:2: the banner says symmetric, but the size is 2 x 3",
        ),
        (
            REAL.replace("general", "symmetric") + "3 3 1\n1 2 1\n",
            "a.mtx:3: row 1, column 2 is not on and below the diagonal",
        ),
        (
            REAL.replace("general", "skew-symmetric") + "3 3 1\n2 2 1\n",
            "a.mtx:3: row 2, column 2 is not below the diagonal",
        ),
        (
            REAL.replace("real general", "pattern skew-symmetric"),
            "a.mtx:1: a pattern has no signs",
        ),
        (
            REAL.replace("real", "integer") + "1 1 1\n1 1 0.5\n",
            "a.mtx:3: `0.5` is not a number of that kind",
        ),
    ] {
        let refused = mtx(&text).unwrap_err().to_string();
        assert!(refused.starts_with(answer), "{text:?}: {refused}");
    }
    let binary = read::parse_mtx(
        b"%%MatrixMarket matrix coordinate real general\n\xff\n",
        Path::new("a.mtx"),
    );
    assert_eq!(binary.unwrap_err().line(), Some(2));
}

#[test]
fn malformed_smtx_is_answered_with_line_and_remedy() {
    let right = smtx("2, 3, 3\n0 1 3\n2 0 1\n").unwrap();
    let places: Vec<_> = elements(&right)
        .iter()
        .map(|&(row, col, _)| (row, col))
        .collect();
    assert_eq!(places, [(0, 2), (1, 0), (1, 1)]);
    assert_eq!(smtx("2, 3, 0\n0 0 0\n").unwrap().true_nnz(), 0);
    for (text, answer) in [
        (
            "",
            "a.smtx:1: the first line is ``; it states three whole numbers",
        ),
        ("2, 3\n", "a.smtx:1: the first line is `2, 3`"),
        ("2, 3, x\n", "a.smtx:1: the first line is `2, 3, x`"),
        (
            "2, 99999999999, 3\n",
            "a.smtx:1: 99999999999 columns are more",
        ),
        (
            "2, 3, 3\n0 1\n2 0 1\n",
            "a.smtx:2: 2 row offsets, but 2 rows take 2 + 1 = 3",
        ),
        ("2, 3, 3\n1 1 3\n2 0 1\n", "a.smtx:2: row offset 0 is 1"),
        (
            "2, 3, 3\n0 4 3\n2 0 1\n",
            "a.smtx:2: row offset 2 is 3, less than 4",
        ),
        (
            "2, 3, 3\n0 1 2\n2 0 1\n",
            "a.smtx:2: the last row offset is 2, but the first line states 3",
        ),
        ("2, 3, 3\n0 1 x\n2 0 1\n", "a.smtx:2: row offset 2 is `x`"),
        (
            "2, 3, 3\n0 1 3\n2 0\n",
            "a.smtx:3: 2 column indices, but 3 nonzeros",
        ),
        (
            "2, 3, 3\n0 1 3\n2 0 3\n",
            "a.smtx:3: column index 2 is `3`, not in 0..3",
        ),
        (
            "2, 3, 3\n0 1 3\n2 1 1\n",
            "a.smtx:3: row 1 lists column 1 twice",
        ),
        (
            "2, 3, 3\n0 1 3\n2 0 1\n0.5 1 2\n",
            "a.smtx:4: there is a fourth line",
        ),
    ] {
        let refused = smtx(text).unwrap_err().to_string();
        assert!(refused.starts_with(answer), "{text:?}: {refused}");
    }
}

#[test]
fn claims_without_content_cost_no_memory() {
    // Each of these claims hundreds of gigabytes; all are answered at once.
    let claims =
        mtx("%%MatrixMarket matrix coordinate real general\n1000 1000 99999999999999\n1 1 1\n");
    assert!(
        claims
            .unwrap_err()
            .to_string()
            .contains("after 1 of 99999999999999 entries")
    );
    let claims = smtx("134217728, 5, 99999999999999\n0 1\n2\n");
    assert!(claims.unwrap_err().to_string().contains("2 row offsets"));
    // 4 nonzeros far apart, in blocks of 2^28 x 2^27 values: 2^57 bytes of f32.
    let far = Sparse::from_triplets(1 << 29, 1 << 28, vec![(0, 0, 1.0), (1 << 28, 1 << 27, 1.0)])
        .unwrap();
    let refused = far.to_bsr::<f32>((1 << 28, 1 << 27)).unwrap_err();
    assert!(
        matches!(
            refused,
            ConvertError::Memory {
                nnzb: 2,
                true_nnz: 2,
                ..
            }
        ),
        "{refused}"
    );
}

#[test]
fn triplets_are_checked() {
    let outside = Sparse::from_triplets(2, 3, vec![(1, 2, 1.0), (0, 3, 1.0)]).unwrap_err();
    assert_eq!(
        outside,
        TripletError::Outside {
            at: 1,
            row: 0,
            col: 3,
            rows: 2,
            cols: 3
        }
    );
    let large = Sparse::from_triplets(1 << 31, 3, vec![]).unwrap_err();
    assert!(
        matches!(
            large,
            TripletError::Shape(BsrError::TooLarge { what: "rows", .. })
        ),
        "{large}"
    );
    let no_block = Sparse::from_triplets(2, 3, vec![])
        .unwrap()
        .to_bsr::<f32>((2, 0))
        .unwrap_err();
    assert_eq!(
        no_block,
        ConvertError::Bsr(BsrError::ZeroBlock { bm: 2, bk: 0 })
    );
}

/// The text of a general real file.
fn written(rows: usize, cols: usize, elements: &[(usize, usize, f64)]) -> String {
    let mut text = format!(
        "%%MatrixMarket matrix coordinate real general\n{rows} {cols} {}\n",
        elements.len()
    );
    elements
        .iter()
        .for_each(|(r, c, v)| writeln!(text, "{} {} {v:e}", r + 1, c + 1).unwrap());
    text
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        rows in 1usize..40, cols in 1usize..40, block in (1usize..9, 1usize..9),
        listed in prop::collection::btree_map((0usize..40, 0usize..40), -1e30f64..1e30, 0..60),
    ) {
        let listed: Vec<_> = listed.into_iter().map(|((r, c), v)| (r, c, v)).filter(|e| e.0 < rows && e.1 < cols).collect();
        let sparse = mtx(&written(rows, cols, &listed)).unwrap();
        prop_assert_eq!(elements(&sparse), listed.clone());

        let (a, fill_in) = sparse.to_bsr::<f32>(block).unwrap();
        let mut dense = vec![0.0; rows * cols];
        listed.iter().for_each(|&(r, c, v)| dense[r * cols + c] = f64::from(v as f32));
        prop_assert_eq!(a.to_dense(Layout::RowMajor).to_f64(), dense);
        // No block without an element, and none missing.
        let blocks: std::collections::BTreeSet<_> = listed.iter().map(|e| (e.0 / block.0, e.1 / block.1)).collect();
        prop_assert_eq!(a.nnzb(), blocks.len());
        prop_assert_eq!(fill_in.stored(), blocks.len() * block.0 * block.1);
    }

    #[test]
    fn random_bytes_are_answered(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        answer_all(&bytes);
    }

    #[test]
    fn random_words_are_answered(
        words in prop::collection::vec(prop::sample::select(vec![
            "%%MatrixMarket matrix coordinate real general\n", "symmetric", "0", "1", "2", "3", "-1", "7e99", "nan",
            "18446744073709551616", "134217728", ",", " ", " ", "\n", "\n", "%", "\u{fffd}",
        ]), 0..40),
    ) {
        answer_all(words.concat().as_bytes());
    }

    #[test]
    fn altered_archives_are_answered(
        name in prop::sample::select(vec!["csr_f16_plain", "bsr_f32_i32", "bsr_unsorted"]),
        at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<prop::sample::Index>(), truncate in any::<bool>(),
    ) {
        let mut bytes = std::fs::read(data(&format!("{name}.npz"))).unwrap();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if truncate {
            bytes.truncate(cut.index(bytes.len()));
        }
        answer_all(&bytes);
    }
}

/// Every reader answers: a matrix that can be blocked, or an error that names the file.
fn answer_all(bytes: &[u8]) {
    let file = Path::new("some.file");
    let answers = [
        read::parse_mtx(bytes, file),
        read::parse_smtx(bytes, file, 0),
        read::parse_npz(Cursor::new(bytes), file),
    ];
    for answer in answers {
        match answer {
            Ok(sparse) => {
                let blocked: Result<(Bsr<f32>, _), _> = sparse.to_bsr((16, 16));
                assert!(
                    matches!(blocked, Ok(_) | Err(ConvertError::Range { .. })),
                    "{blocked:?}"
                );
            }
            Err(error) => assert!(error.to_string().starts_with("some.file"), "{error}"),
        }
    }
}
