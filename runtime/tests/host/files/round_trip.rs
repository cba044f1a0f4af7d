//! What is written is read, to the bit.

use std::path::Path;

use bsr_runtime::read::{self, Sparse};
use bsr_runtime::write::{self, Options, WriteProblem};
use bsr_runtime::{Bsr, Dense, Element, Layout, Pattern, Permutation, e4m3};
use half::{bf16, f16};
use proptest::prelude::*;

use super::matrix;

/// Writes and reads, and compares everything.
fn round_trip<T: Element>(folder: &Path, matrix: &Bsr<T>, order: Option<&Permutation>) {
    for extension in ["npz", "safetensors"] {
        let path = folder.join(format!("w.{extension}"));
        let written = write::save(matrix, &path, Options { row_order: order, overwrite: true }).unwrap();
        assert_eq!(written.bytes, std::fs::metadata(&path).unwrap().len());
        let (bm, bk) = matrix.block();
        assert_eq!(written.padded, (matrix.block_rows() * bm, matrix.block_cols() * bk));

        let sparse = read::load(&path, 0).unwrap();
        assert_eq!((sparse.rows(), sparse.cols()), (matrix.rows(), matrix.cols()));
        assert_eq!((sparse.own_block(), sparse.own_dtype()), (Some((bm, bk)), Some(T::DTYPE)));
        assert_eq!(sparse.row_order(), order);
        let (back, _) = sparse.to_bsr::<T>((bm, bk)).unwrap();
        assert_eq!(back.structure(), matrix.structure());
        assert_eq!(T::to_bytes(back.values()), T::to_bytes(matrix.values()), "{extension}");

        // The same matrix, the same bytes.
        let bytes = std::fs::read(&path).unwrap();
        write::save(matrix, &path, Options { row_order: order, overwrite: true }).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), bytes, "{extension}");
    }
    assert_eq!(std::fs::read_dir(folder).unwrap().count(), 2, "no partial file stays");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn of_f32((matrix, order) in matrix::<f32>()) {
        round_trip(tempfile::tempdir().unwrap().path(), &matrix, Some(&order));
    }

    #[test]
    fn of_f64((matrix, order) in matrix::<f64>()) {
        let folder = tempfile::tempdir().unwrap();
        round_trip(folder.path(), &matrix, Some(&order));
    }

    #[test]
    fn of_bf16((matrix, _) in matrix::<bf16>()) {
        round_trip(tempfile::tempdir().unwrap().path(), &matrix, None);
    }

    #[test]
    fn of_f16((matrix, order) in matrix::<f16>()) {
        round_trip(tempfile::tempdir().unwrap().path(), &matrix, Some(&order));
    }
}

#[test]
fn not_a_number_and_infinities_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let values = vec![bf16::NAN, bf16::INFINITY, bf16::NEG_INFINITY, bf16::NEG_ZERO];
    let matrix = Bsr::new(2, 2, (2, 2), vec![0, 1], vec![0], values).unwrap();
    for path in ["w.npz", "w.safetensors"].map(|name| folder.path().join(name)) {
        write::save(&matrix, &path, Options::default()).unwrap();
        let sparse = read::load(&path, 0).unwrap();
        assert_eq!(sparse.not_finite(), 3);
        let back = sparse.to_bsr::<bf16>((2, 2)).unwrap().0;
        assert!(back.values()[0].is_nan());
        assert_eq!(back.values()[1..3], matrix.values()[1..3]);
    }
}

#[test]
fn reordered_files_remember_where_all_rows_came_from() {
    let folder = tempfile::tempdir().unwrap();
    let original = Dense::<f32>::normal(7, 5, Layout::RowMajor, 3);
    let orders = [vec![3, 1, 0, 6, 5, 2, 4], vec![6, 0, 5, 1, 4, 2, 3]].map(|rows| Permutation::new(rows).unwrap());
    let mut sparse = Sparse::from_dense(&original).unwrap();
    for (order, name) in orders.iter().zip(["a.npz", "b.safetensors"]) {
        let path = folder.path().join(name);
        sparse = sparse.reordered(order).unwrap();
        let matrix = sparse.to_bsr::<f32>((2, 2)).unwrap().0;
        write::save(&matrix, &path, Options { row_order: sparse.row_order(), overwrite: false }).unwrap();
        sparse = read::load(&path, 0).unwrap();
    }
    let order = sparse.row_order().unwrap().clone();
    assert_eq!(order, orders[0].then(&orders[1]).unwrap());
    let reordered = sparse.to_bsr::<f32>((2, 2)).unwrap().0.to_dense(Layout::ColMajor);
    assert_eq!(order.undo(&reordered).unwrap().to_f64(), original.to_f64());
}

#[test]
fn a_file_that_is_there_stays_unless_it_may_go() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("w.npz");
    let matrix = Bsr::<f32>::generate(Pattern::Causal, 20, 20, (4, 4), 0).unwrap();
    std::fs::write(&path, "precious").unwrap();
    let refused = write::save(&matrix, &path, Options::default()).unwrap_err();
    assert!(matches!(refused.problem(), WriteProblem::Exists), "{refused}");
    assert!(write::check(&path, false).is_err() && write::check(&path, true).is_ok());
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
    write::save(&matrix, &path, Options { overwrite: true, ..Options::default() }).unwrap();
    assert!(read::load(&path, 0).is_ok());
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let plain = folder.path().join("plain");
        std::fs::write(&plain, "").unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode(&path), mode(&plain), "as readable as any new file");
    }
}

#[test]
fn what_cannot_be_written_is_refused_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let matrix = Bsr::<f32>::generate(Pattern::Causal, 20, 20, (4, 4), 0).unwrap();
    let refusal = |name: &str, options: Options<'_>| {
        write::save(&matrix, folder.path().join(name), options).unwrap_err().to_string()
    };
    assert!(
        refusal("w.mtx", Options::default())
            .ends_with("the extension is .mtx\n  help: matrices are written as .npz or .safetensors")
    );
    assert!(refusal("w", Options::default()).contains("the name has no extension"));
    assert!(refusal("no/such/w.npz", Options::default()).contains("cannot be written: "));
    let short = Permutation::identity(19);
    let other = refusal("w.npz", Options { row_order: Some(&short), ..Options::default() });
    assert!(
        other.ends_with("the matrix has 20 rows, the order 19\n  help: take the order that was made for the matrix"),
        "{other}"
    );
    let narrow = write::save(&matrix.cast::<e4m3>(), folder.path().join("w.npz"), Options::default()).unwrap_err();
    assert!(narrow.to_string().contains("elements of type e4m3"), "{narrow}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}
