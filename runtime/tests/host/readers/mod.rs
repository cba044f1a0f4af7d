//! The readers: real files, fixtures written by scipy, round trips, and malformed input.

mod any_input;
mod files;
mod malformed;
mod matrix_market;

use std::path::{Path, PathBuf};

use bsr_runtime::read::{self, ReadError, Sparse};

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
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
