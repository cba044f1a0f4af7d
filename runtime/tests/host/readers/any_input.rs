//! Round trips, and input that nobody wrote on purpose.

use std::fmt::Write as _;
use std::io::Cursor;
use std::path::Path;

use bsr_runtime::read;
use bsr_runtime::{Bsr, Layout};
use proptest::prelude::*;

use super::{data, elements, mtx};

/// The text of a general real file.
fn written(rows: usize, cols: usize, elements: &[(usize, usize, f64)]) -> String {
    let mut text = format!("%%MatrixMarket matrix coordinate real general\n{rows} {cols} {}\n", elements.len());
    elements.iter().for_each(|(r, c, v)| writeln!(text, "{} {} {v:e}", r + 1, c + 1).unwrap());
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
        name in prop::sample::select(vec![
            "csr_f16_plain.npz", "bsr_f32_i32.npz", "bsr_unsorted.npz", "csc.npz", "coo.npz", "coo_coords.npz",
            "dense_several.npz", "dense_f16_fortran.npy",
        ]),
        at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<prop::sample::Index>(), truncate in any::<bool>(),
    ) {
        let mut bytes = std::fs::read(data(name)).unwrap();
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
        read::parse_npz_array(Cursor::new(bytes), file, Some("second")),
        read::parse_npy(bytes, file),
        read::parse_safetensors(Cursor::new(bytes), file, None),
    ];
    for answer in answers {
        match answer {
            Ok(sparse) => {
                let blocked: Result<(Bsr<f32>, _), _> = sparse.to_bsr((16, 16));
                let is_range = blocked.as_ref().is_err_and(|error| error.to_string().contains("exceeds the largest"));
                assert!(blocked.is_ok() || is_range, "{blocked:?}");
            }
            Err(error) => assert!(error.to_string().starts_with("some.file"), "{error}"),
        }
    }
}
