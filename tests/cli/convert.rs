//! `bsr convert` as its users meet it: what it says, what it writes, what it refuses.

use std::path::Path;

use assert_cmd::Command;
use bsr::read::{self, Sparse};
use bsr::write::{self, Options};
use bsr::{Bsr, Dense, Dtype, Element, Layout, Pattern, Permutation, bf16, f16};
use predicates::prelude::*;
use predicates::str::{contains, is_empty, starts_with};

use crate::{data, said};

/// The command, in `folder`.
fn convert(folder: &Path, file: impl AsRef<Path>, args: &str) -> assert_cmd::assert::Assert {
    let mut command = Command::cargo_bin("bsr").unwrap();
    command.current_dir(folder).arg("convert").arg(file.as_ref()).args(args.split_whitespace()).assert()
}

/// A dense `.safetensors` file of these tensors, in `f32`, row by row.
fn safetensors(path: &Path, tensors: &[(&str, &Dense<f32>)]) {
    let (mut header, mut data) = (Vec::new(), Vec::new());
    for (name, dense) in tensors {
        let start = data.len();
        data.extend(dense.to_f64().iter().flat_map(|v| (*v as f32).to_le_bytes()));
        let (rows, cols, end) = (dense.rows(), dense.cols(), data.len());
        header.push(format!(r#""{name}":{{"dtype":"F32","shape":[{rows},{cols}],"data_offsets":[{start},{end}]}}"#));
    }
    let header = format!("{{{}}}", header.join(","));
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.extend(data);
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn what_blocks_cost_is_told_without_writing_anything() {
    let folder = tempfile::tempdir().unwrap();
    insta::assert_snapshot!("plain", said(convert(folder.path(), data("bcsstk13.mtx"), "--block 32x32")));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_reordered_matrix_comes_back_through_both_formats() {
    let folder = tempfile::tempdir().unwrap();
    let args = "--block 32x32 --reorder --dtype bf16 -o blocks.npz";
    let text = said(convert(folder.path(), data("bcsstk13.mtx"), args));
    // The size of the archive is the compressor's.
    let bytes = std::fs::metadata(folder.path().join("blocks.npz")).unwrap().len();
    insta::assert_snapshot!("reordered", text.replace(&format!("{bytes} B"), "[size] B"));
    said(convert(folder.path(), "blocks.npz", "--block 32x32 -o blocks.safetensors"));

    let original = read::load(data("bcsstk13.mtx"), 0).unwrap();
    let expected = original.to_bsr::<bf16>((64, 64)).unwrap().0.to_dense(Layout::RowMajor);
    for name in ["blocks.npz", "blocks.safetensors"] {
        let sparse = read::load(folder.path().join(name), 0).unwrap();
        assert_eq!((sparse.rows(), sparse.cols(), sparse.own_dtype()), (2003, 2003, Some(Dtype::BF16)));
        let (matrix, fill_in) = sparse.to_bsr::<bf16>((32, 32)).unwrap();
        assert!(fill_in.nnzb() < 815, "{fill_in}");
        let undone = sparse.row_order().unwrap().undo(&matrix.to_dense(Layout::RowMajor)).unwrap();
        assert_eq!(undone.to_f64(), expected.to_f64(), "{name}");
    }
}

#[test]
fn dense_weights_are_pruned_by_blocks() {
    let folder = tempfile::tempdir().unwrap();
    // Blocks of 16 x 8 whose magnitude grows along the rows: the last columns stay.
    let up = Dense::<f32>::normal(64, 64, Layout::RowMajor, 1);
    let up = Dense::from_fn(64, 64, Layout::RowMajor, |r, c| up.get(r, c).unwrap() * (c / 8 * 10 + 1) as f32);
    let down = Dense::<f32>::normal(64, 32, Layout::RowMajor, 2);
    let path = folder.path().join("layer.safetensors");
    safetensors(&path, &[("up", &up), ("down", &down)]);

    let listed = convert(folder.path(), &path, "--block 16x8").code(2).stdout(is_empty());
    listed
        .stderr(contains("there are 2 matrices\n  help: name one of these:\n  down [64, 32] F32\n  up [64, 64] F32\n"));
    convert(folder.path(), &path, "--block 16x8 --tensor left").code(2).stderr(contains("there is no array `left`"));

    for (keep, blocks) in [("--keep 0.25", "8 of 32"), ("--topk 2", "8 of 32"), ("--keep 1", "32 of 32")] {
        let text = said(convert(folder.path(), &path, &format!("--tensor up --block 16x8 {keep} --force -o up.npz")));
        assert!(text.contains(&format!("blocks    {blocks} blocks of 16 x 8 stored")), "{text}");
        let (matrix, _) = read::open::<f32>(folder.path().join("up.npz"), (16, 8), 0).unwrap();
        assert!(matrix.col_idx().chunks(2).take(4).all(|pair| pair == [6, 7]) || keep == "--keep 1");
        let norm = |values: &mut dyn Iterator<Item = f64>| values.map(|v| v * v).sum::<f64>().sqrt();
        let all = norm(&mut up.to_f64().into_iter());
        let kept = norm(&mut matrix.values().iter().map(|v| v.to_f64()));
        assert!(text.contains(&format!("norm      {:.1} % of the Frobenius norm stays", 100.0 * kept / all)), "{text}");
    }
    convert(folder.path(), &path, "--tensor up --block 16x8 --keep 0.5 --topk 2").code(2).stderr(contains("--topk"));
}

#[test]
fn small_values_go_before_blocks_are_made() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("w.safetensors");
    let w = Dense::from_fn(8, 8, Layout::RowMajor, |r, c| if (r / 4, c / 4) == (0, 1) { 2.0 } else { 0.5f32 });
    safetensors(&path, &[("w", &w)]);
    let text = said(convert(folder.path(), &path, "--block 4x4 --threshold 0.5"));
    assert!(text.contains("threshold 48 of 64 nonzeros dropped, |x| <= 0.5\n"), "{text}");
    assert!(text.contains("blocks    1 of 4 blocks of 4 x 4 stored (25.0 %)\nfill-in   1.00 = "), "{text}");
}

#[test]
fn what_is_not_a_number_is_kept_and_told_but_has_no_norm() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("w.safetensors");
    let w = Dense::from_fn(4, 4, Layout::RowMajor, |r, c| if r == c { f32::NAN } else { 1.0 });
    safetensors(&path, &[("w", &w)]);
    let text = said(convert(folder.path(), &path, "--block 2x2 -o o.safetensors"));
    assert!(
        text.contains("warning   4 values are NaN or infinite, the first is NaN at row 0, column 0; they are kept\n"),
        "{text}"
    );
    assert_eq!(read::load(folder.path().join("o.safetensors"), 0).unwrap().not_finite(), 4);
    convert(folder.path(), &path, "--block 2x2 --keep 0.5")
        .code(2)
        .stderr(contains("NaN at row 0, column 0, so that norms have no order"));
}

#[test]
fn values_that_the_type_does_not_hold_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    convert(folder.path(), data("bcsstk13.mtx"), "--block 32x32 --dtype f16 -o a.npz")
        .code(2)
        .stderr(contains("exceeds the largest f16, 6.5504e4\n  help: take bf16 or f32, or scale the matrix"));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_file_that_is_there_is_kept_without_force() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("a.npz");
    std::fs::write(&out, "precious").unwrap();
    convert(folder.path(), data("bcsstk13.mtx"), "--block 32x32 -o a.npz")
        .code(2)
        .stdout(is_empty())
        .stderr("error: a.npz: the file is there, and is kept\n  help: --force, or another name\n");
    assert_eq!(std::fs::read_to_string(&out).unwrap(), "precious");
    said(convert(folder.path(), data("bcsstk13.mtx"), "--block 32x32 -o a.npz --force"));
    assert!(read::load(&out, 0).is_ok());
}

#[test]
fn bad_input_exits_with_2() {
    let folder = tempfile::tempdir().unwrap();
    let mtx = data("bcsstk13.mtx");
    for (args, said) in [
        ("", "--block"),
        ("--block 32", "rows x columns of a block"),
        ("--block 0x8", "rows x columns of a block"),
        ("--block 8x8 --keep 1.5", "a fraction above 0"),
        ("--block 8x8 --topk 0", "at least 1"),
        ("--block 8x8 --threshold nan", "at least 0"),
        ("--block 8x8 --dtype i8", "write f16, bf16, f32 or f64"),
        ("--block 8x8 -o a.mtx", "matrices are written as .npz or .safetensors"),
        ("--block 8x8 -o no/such/a.npz", "cannot write no/such/a.npz: No such file"),
        ("--block 8x8 --force", "--output"),
        ("--block 8x8 --tensor a", "an .mtx file holds one matrix"),
    ] {
        convert(folder.path(), &mtx, args).code(2).stderr(contains(said));
    }
    convert(folder.path(), "none.npz", "--block 8x8").code(2).stderr(starts_with("error: none.npz: cannot be read"));
    convert(folder.path(), "w.pt", "--block 8x8").code(2).stderr(contains("the extension .pt names no known format"));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn what_is_written_can_be_multiplied() {
    let folder = tempfile::tempdir().unwrap();
    let matrix = Bsr::<f16>::generate(Pattern::Random(0.5), 200, 150, (64, 32), 0).unwrap();
    let order = Permutation::new((0..200).rev().collect()).unwrap();
    for (name, row_order, source) in
        [("w.npz", None, "w.npz,"), ("w.safetensors", Some(&order), "w.safetensors (rows reordered),")]
    {
        write::save(&matrix, folder.path().join(name), Options { row_order, overwrite: false }).unwrap();
        for spec in ["bm = 64, bn = 64, bk = 32", "bm = 64, bn = 64, bk = 32, permute = on"] {
            let args = ["run", spec, "--device", "sim", "--n", "40", "--matrix", name];
            let mut command = Command::cargo_bin("bsr").unwrap();
            command.current_dir(folder.path()).args(args).assert().success().stdout(
                contains("problem   C[200, 40] = A[200, 150] * B[150, 40]\n")
                    .and(contains("10 of 20 blocks of 64 x 32 stored"))
                    .and(contains(source)),
            );
        }
    }
    let sparse = Sparse::from_bsr(&matrix);
    assert_eq!(sparse.to_bsr::<f16>((64, 32)).unwrap().0, matrix);
}
