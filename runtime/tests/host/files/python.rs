//! What is written is read by scipy and by PyTorch, and what they write is read here. Takes a Python with numpy and scipy,
//! and for `.safetensors` with safetensors and torch: `$PYTHON`, or `python3`. What it lacks is said on stderr, and with
//! `BSR_REQUIRE_PYTHON` set that fails.

use std::fmt::Display;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output};

use bsr_runtime::read;
use bsr_runtime::write::{self, Options};
use bsr_runtime::{Bsr, Element, Layout, Pattern, Permutation};
use half::{bf16, f16};

fn python(script: &str, arguments: &[&Path]) -> std::io::Result<Output> {
    let python = std::env::var("PYTHON").unwrap_or_else(|_| "python3".to_owned());
    Command::new(python).arg("-c").arg(script).args(arguments).output()
}

/// Whether Python has these modules; what it lacks is told past the test harness, which keeps the output of passing tests
/// to itself.
fn has(modules: &str) -> bool {
    let answer = match python(&format!("import {modules}"), &[]) {
        Ok(output) if output.status.success() => return true,
        Ok(output) => String::from_utf8_lossy(&output.stderr).lines().last().unwrap_or_default().to_owned(),
        Err(error) => error.to_string(),
    };
    let skipped: &dyn Display =
        &format!("SKIPPED: Python without {modules} ({answer}); set PYTHON to one that has them");
    assert!(std::env::var_os("BSR_REQUIRE_PYTHON").is_none(), "{skipped}");
    let _ = writeln!(std::io::stderr(), "{skipped}");
    false
}

fn run(script: &str, arguments: &[&Path]) {
    let output = python(script, arguments).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// A ragged matrix, written with an order of its rows, and the raw elements that Python must find.
fn written<T: Element>(folder: &Path, name: &str, raw: &str) -> Bsr<T> {
    let matrix = Bsr::<T>::generate(Pattern::Random(0.4), 50, 37, (16, 8), 5).unwrap();
    let order = Permutation::new((0..50).map(|row| (row * 7 + 3) % 50).collect()).unwrap();
    write::save(&matrix, folder.join(name), Options { row_order: Some(&order), overwrite: false }).unwrap();
    let dense = matrix.to_dense(Layout::RowMajor).to_f64();
    std::fs::write(folder.join(raw), dense.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>()).unwrap();
    matrix
}

const SCIPY_READS: &str = r#"
import sys, numpy as np, scipy.sparse as sp
w, expected = sp.load_npz(sys.argv[1]), np.fromfile(sys.argv[2]).reshape(50, 37)
assert isinstance(w, sp.bsr_array) and w.blocksize == (16, 8) and w.dtype == np.float32, w
assert w.shape == (64, 40) and w.has_sorted_indices
w.check_format(full_check=True)
dense = w.toarray()
assert (dense[:50, :37] == expected).all() and not dense[50:].any() and not dense[:, 37:].any()
more = np.load(sys.argv[1])
assert more["unpadded_shape"].tolist() == [50, 37] and more["value_dtype"].item() == sys.argv[3].encode()
order = more["row_permutation"]
original = np.empty_like(expected)
original[order] = expected
assert (original[3] == expected[0]).all() and sorted(order) == list(range(50))
"#;

#[test]
fn scipy_reads_what_is_written() {
    if !has("numpy, scipy.sparse") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let of = |name: &str| folder.path().join(name);
    written::<f32>(folder.path(), "f32.npz", "f32");
    written::<f16>(folder.path(), "f16.npz", "f16");
    written::<bf16>(folder.path(), "bf16.npz", "bf16");
    for dtype in ["f32", "f16", "bf16"] {
        run(SCIPY_READS, &[&of(&format!("{dtype}.npz")), &of(dtype), Path::new(dtype)]);
    }
}

const SCIPY_WRITES: &str = r#"
import sys, numpy as np, scipy.sparse as sp
folder, rng = sys.argv[1], np.random.default_rng(1)
dense = np.where(rng.random((48, 60)) < 0.1, rng.standard_normal((48, 60)), 0).astype(np.float32)
dense.astype(np.float64).tofile(folder + "/expected")
for name in ["csr_array", "csc_array", "coo_array", "bsr_array", "csr_matrix", "csc_matrix", "coo_matrix", "bsr_matrix"]:
    sp.save_npz(f"{folder}/{name}.npz", getattr(sp, name)(dense), compressed=name.endswith("array"))
np.save(folder + "/dense.npy", dense)
np.savez_compressed(folder + "/dense.npz", w=dense, bias=dense[0])
"#;

#[test]
fn what_scipy_writes_is_read() {
    if !has("numpy, scipy.sparse") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    run(SCIPY_WRITES, &[folder.path()]);
    let bytes = std::fs::read(folder.path().join("expected")).unwrap();
    let expected: Vec<f64> = bytes.as_chunks().0.iter().map(|v| f64::from_le_bytes(*v)).collect();
    let formats = ["csr", "csc", "coo", "bsr"].map(|f| [format!("{f}_array.npz"), format!("{f}_matrix.npz")]);
    for name in formats.as_flattened().iter().map(String::as_str).chain(["dense.npy", "dense.npz"]) {
        let (a, _) = read::open::<f32>(folder.path().join(name), (8, 16), 0).unwrap();
        assert_eq!(a.to_dense(Layout::RowMajor).to_f64(), expected, "{name}");
    }
}

const TORCH_READS: &str = r#"
import sys, numpy as np, torch, safetensors
with safetensors.safe_open(sys.argv[1], "pt") as f:
    crow, col, values = (f.get_tensor(name) for name in ("crow_indices", "col_indices", "values"))
    size = [int(side) for side in f.metadata()["padded_shape"].split("x")]
    order, meta = f.get_tensor("row_permutation"), f.metadata()
w = torch.sparse_bsr_tensor(crow, col, values, size=size)
expected = torch.from_numpy(np.fromfile(sys.argv[2]).reshape(50, 37))
assert str(w.dtype) == "torch." + sys.argv[3] and w.layout == torch.sparse_bsr and w.shape == (64, 40), w
assert (w.to_dense().double()[:50, :37] == expected).all()
assert meta["format"] == "bsr" and meta["shape"] == "50x37" and meta["block"] == "16x8", meta
original = torch.empty_like(expected)
original[order] = expected
assert (original[3] == expected[0]).all()
"#;

#[test]
fn torch_reads_what_is_written() {
    if !has("numpy, torch, safetensors") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let of = |name: &str| folder.path().join(name);
    written::<f32>(folder.path(), "float32.safetensors", "float32");
    written::<f16>(folder.path(), "float16.safetensors", "float16");
    written::<bf16>(folder.path(), "bfloat16.safetensors", "bfloat16");
    for dtype in ["float32", "float16", "bfloat16"] {
        run(TORCH_READS, &[&of(&format!("{dtype}.safetensors")), &of(dtype), Path::new(dtype)]);
    }
}

const TORCH_WRITES: &str = r#"
import sys, torch
from safetensors.torch import save_file
torch.manual_seed(0)
w = torch.randn(24, 36)
w.bfloat16().double().numpy().tofile(sys.argv[1] + "/expected")
save_file({"up.weight": w.bfloat16(), "down.weight": w.half().t().contiguous(), "up.bias": w[0]},
          sys.argv[1] + "/layer.safetensors")
"#;

#[test]
fn what_torch_writes_is_read() {
    if !has("numpy, torch, safetensors") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    run(TORCH_WRITES, &[folder.path()]);
    let bytes = std::fs::read(folder.path().join("expected")).unwrap();
    let expected: Vec<f64> = bytes.as_chunks().0.iter().map(|v| f64::from_le_bytes(*v)).collect();
    let path = folder.path().join("layer.safetensors");
    let sparse = read::load_array(&path, Some("up.weight"), 0).unwrap();
    let (a, _) = sparse.to_bsr::<bf16>((8, 8)).unwrap();
    assert_eq!(a.to_dense(Layout::RowMajor).to_f64(), expected);
    let refused = read::load(&path, 0).unwrap_err().to_string();
    assert!(
        refused.ends_with("name one of these:\n  down.weight [36, 24] F16\n  up.weight [24, 36] BF16"),
        "{refused}"
    );
}
