//! Files as other programs write them.

use std::io::Cursor;
use std::path::Path;

use bsr_runtime::read::{self, ReadProblem, Sparse};
use bsr_runtime::{Dtype, Layout, e4m3, e5m2};
use half::{bf16, f16};

use super::{data, elements};

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
    assert_eq!((fill_in.nnzb(), fill_in.stored()), (a.nnzb(), a.values().len()));
    assert_eq!(fill_in.true_nnz(), a.values().iter().filter(|v| **v != 0.0).count());
    assert_eq!(fill_in.ratio(), a.values().len() as f64 / 83_883.0);
}

#[test]
fn values_beyond_the_element_type_are_refused_and_can_be_scaled() {
    let sparse = read::load(data("bcsstk13.mtx"), 0).unwrap();
    let refused = sparse.to_bsr::<f16>((64, 64)).unwrap_err();
    assert!(refused.to_string().contains("at row 0, column 0 exceeds the largest f16"), "{refused}");
    assert!(refused.to_string().ends_with("take bf16 or f32, or scale the matrix"), "{refused}");
    assert!(sparse.to_bsr::<bf16>((64, 64)).is_ok());

    // Types that saturate refuse what they would cut, too.
    let refused = sparse.to_bsr::<e4m3>((64, 64)).unwrap_err();
    assert!(refused.to_string().contains("at row 0, column 0 exceeds the largest e4m3"), "{refused}");
    assert!(refused.to_string().ends_with("take f32 and quantise it, or scale the matrix"), "{refused}");
    let (a, _) = sparse.clone().scaled(127.0 / sparse.largest()).to_bsr::<i8>((64, 64)).unwrap();
    assert_eq!(a.values().iter().copied().max(), Some(127));
    let edges = Sparse::from_triplets(1, 4, vec![(0, 0, -128.0), (0, 1, -0.4), (0, 3, 127.0)]).unwrap();
    assert_eq!(edges.to_bsr::<i8>((1, 4)).unwrap().0.values(), [-128, 0, 0, 127]);
    let nan = Sparse::from_triplets(1, 4, vec![(0, 2, f64::NAN)]).unwrap();
    assert!(nan.to_bsr::<e5m2>((1, 4)).unwrap().0.values()[2].is_nan());
    assert_eq!(
        nan.to_bsr::<i8>((1, 4)).unwrap_err().to_string(),
        "NaN at row 0, column 2, which i8 does not have\n  help: replace it, or take bf16 or f32"
    );

    let factor = 1.0 / sparse.largest();
    let (a, _) = sparse.scaled(factor).to_bsr::<f16>((64, 64)).unwrap();
    assert_eq!(a.values().iter().copied().fold(f16::ZERO, f16::max), f16::ONE);
}

#[test]
fn a_pruned_layer_is_read_with_drawn_values() {
    let path = data("dlmc_transformer_magnitude_0.98_ffn1.smtx");
    let (a, fill_in) = read::open::<f16>(&path, (32, 32), 7).unwrap();
    assert_eq!((a.rows(), a.cols(), fill_in.true_nnz()), (2048, 512, 20_971));
    // Elements of the file's first row.
    let sparse = read::load(&path, 7).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    let numbers = |line: usize| text.lines().nth(line).unwrap().split(' ').map(|n| n.parse().unwrap());
    let end: usize = numbers(1).nth(1).unwrap();
    let mut first_row: Vec<usize> = numbers(2).take(end).collect();
    first_row.sort_unstable();
    let read_row: Vec<usize> = elements(&sparse).iter().filter(|e| e.0 == 0).map(|e| e.1).collect();
    assert_eq!(read_row, first_row);

    let values: Vec<f64> = elements(&sparse).iter().map(|e| e.2).collect();
    let variance = values.iter().map(|v| v * v).sum::<f64>() / values.len() as f64;
    assert!((variance - 1.0).abs() < 0.05, "variance {variance}");
    assert_eq!(read::open::<f16>(&path, (32, 32), 7).unwrap().0, a);
    assert_ne!(read::open::<f16>(&path, (32, 32), 8).unwrap().0, a);
}

/// The matrix of `tests/data/make_npz.py`.
fn fixture(row: usize, col: usize) -> f64 {
    if (3 * row + 5 * col).is_multiple_of(4) { (10 * row + col + 1) as f64 / 8.0 } else { 0.0 }
}

#[test]
fn scipy_archives_of_every_type_hold_the_same_matrix() {
    let expected: Vec<f64> = (0..120).map(|at| fixture(at / 10, at % 10)).collect();
    let names =
        ["csr_f64_i32", "csr_f32_i64", "csr_f16_plain", "bsr_f32_i32", "bsr_f16_i64", "csc", "coo", "coo_coords"];
    for name in names {
        let path = data(&format!("{name}.npz"));
        for block in [(4, 2), (1, 1), (5, 3), (16, 16)] {
            let (a, fill_in) = read::open::<f16>(&path, block, 0).unwrap();
            assert_eq!(a.to_dense(Layout::RowMajor).to_f64(), expected, "{name} {block:?}");
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
    assert_eq!((fill_in.true_nnz(), fill_in.stored(), fill_in.ratio()), (8, 12, 1.5));
    // In other blocks there is no reason to keep a block of zeros.
    let (a, _) = sparse.to_bsr::<f32>((2, 3)).unwrap();
    assert_eq!((a.row_ptr(), a.col_idx()), (&[0, 2, 2][..], &[0, 1][..]));
}

#[test]
fn dense_arrays_are_matrices_by_name() {
    let expected: Vec<f64> = (0..120).map(|at| fixture(at / 10, at % 10)).collect();
    let fortran = read::load(data("dense_f16_fortran.npy"), 0).unwrap();
    assert_eq!((fortran.own_dtype(), fortran.own_block(), fortran.true_nnz()), (Some(Dtype::F16), None, 30));
    let (a, fill_in) = fortran.to_bsr::<f16>((4, 2)).unwrap();
    assert_eq!(a.to_dense(Layout::RowMajor).to_f64(), expected);
    assert_eq!(fill_in.true_nnz(), 30);

    let several = data("dense_several.npz");
    let first = read::load_array(&several, Some("first"), 0).unwrap();
    assert_eq!((first.own_dtype(), &elements(&first)), (None, &elements(&fortran)));
    let second = read::load_array(&several, Some("second"), 0).unwrap();
    assert_eq!((second.rows(), second.cols(), second.own_dtype()), (12, 5, Some(Dtype::F32)));
    let refusal = |name: Option<&str>| read::load_array(&several, name, 0).unwrap_err().to_string();
    let matrices = "name one of these:\n  first [12, 10] <f8\n  second [12, 5] <f4";
    assert!(refusal(None).ends_with(&format!("there are 2 matrices\n  help: {matrices}")), "{}", refusal(None));
    assert!(refusal(Some("third")).contains(&format!("there is no array `third`\n  help: {matrices}")));
    assert!(refusal(Some("bias")).contains("`bias` is [10] <f8, no matrix"));
    let unnamed = read::load_array(data("bcsstk13.mtx"), Some("a"), 0).unwrap_err().to_string();
    assert!(
        unnamed.ends_with("an .mtx file holds one matrix, without a name\n  help: leave the name out"),
        "{unnamed}"
    );
}

#[test]
fn other_archives_are_refused_by_member() {
    let refusal = |name: &str| read::load(data(name), 0).unwrap_err().to_string();
    let dia = refusal("dia.npz");
    assert!(dia.contains("dia.npz/format.npy: the format is `dia`") && dia.contains("tocsr()"), "{dia}");
    let complex = refusal("csr_complex.npz");
    assert!(complex.contains("/data.npy: the values are of type c8"), "{complex}");
    let text = read::parse_npz(Cursor::new(b"PK, but no archive"), Path::new("a.npz")).unwrap_err();
    assert!(text.to_string().starts_with("a.npz: not a zip archive"), "{text}");
}

#[test]
fn the_extension_chooses_the_reader() {
    let refusal = |name: &str| read::load(Path::new(name), 0).unwrap_err();
    let unknown = refusal("dir.d/matrix.txt").to_string();
    assert!(unknown.starts_with("dir.d/matrix.txt: the extension .txt names no known format"), "{unknown}");
    assert!(refusal("matrix").to_string().contains("the name has no extension"));
    let missing = refusal("no/such/file.MTX");
    assert!(matches!(missing.problem(), ReadProblem::Io(_)), "{missing}");
}
