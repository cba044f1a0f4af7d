//! Where the sparse factor is from: a pattern, or a file whose values are scaled to what types hold.

use std::fmt;
use std::path::{Path, PathBuf};

use bsr_codegen::Dtype;
use bsr_runtime::read::Sparse;
use bsr_runtime::{Element, Pattern};

use crate::Failure;

/// A file whose largest magnitude lies outside these bounds is scaled, so that f16 holds it and its products.
const MAGNITUDES: std::ops::RangeInclusive<f64> = 1.0 / 256.0..=256.0;

#[derive(Clone, Debug)]
pub(super) enum Source {
    Pattern {
        pattern: Pattern,
        k: usize,
        /// Nobody has asked for this pattern: it gives way to a matrix with few block columns.
        is_default: bool,
    },
    /// `sparse` has been scaled by two to the power `exponent`.
    File { path: PathBuf, tensor: Option<String>, sparse: Sparse, exponent: i32 },
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pattern { pattern, .. } => pattern.fmt(f),
            Self::File { path, tensor, sparse, .. } => {
                match path.file_name() {
                    Some(name) => f.write_str(&name.to_string_lossy())?,
                    None => path.display().fmt(f)?,
                }
                tensor.iter().try_for_each(|tensor| write!(f, ":{tensor}"))?;
                // With `permute = on` the product has its rows in the order of the original, else in that of the file.
                if sparse.row_order().is_some() { f.write_str(" (rows reordered)") } else { Ok(()) }
            }
        }
    }
}

pub(super) fn scaled(path: &Path, tensor: Option<&str>, sparse: Sparse) -> Result<Source, Failure> {
    if sparse.rows() == 0 || sparse.cols() == 0 {
        return Err(Failure::bad_input(format!(
            "{}: the matrix is {} x {}, there is nothing to multiply",
            path.display(),
            sparse.rows(),
            sparse.cols()
        )));
    }
    if let Some((row, col, value)) = sparse.first_not_finite() {
        let (name, count) = (path.display(), sparse.not_finite());
        return Err(Failure::bad_input(format!(
            "{name}: {value} at row {row}, column {col}, counted from 0; {count} values are NaN or infinite, and a product \
                 with them cannot be compared\n  help: replace them in the file"
        )));
    }
    let exponent = scale(sparse.largest());
    let (path, tensor) = (path.to_owned(), tensor.map(str::to_owned));
    Ok(Source::File { path, tensor, sparse: sparse.scaled(f64::from(exponent).exp2()), exponent })
}

/// The power of two that brings `largest` to at most 1, or 0 where it may stay.
pub(super) fn scale(largest: f64) -> i32 {
    if largest == 0.0 || MAGNITUDES.contains(&largest) { 0 } else { -(largest.log2().ceil() as i32).clamp(-1023, 1024) }
}

/// The power of two that brings `largest` to between 2 and 4 standard deviations of the 8-bit numbers that are drawn;
/// 0 for wider types.
pub(super) fn narrow_exponent(largest: f64, dtype: Dtype) -> i32 {
    let spread = match dtype {
        Dtype::I8 => i8::SPREAD,
        Dtype::E4M3 | Dtype::E5M2 => 1.0,
        _ => return 0,
    };
    if largest == 0.0 { 0 } else { (4.0 * spread / largest).log2().floor() as i32 }
}
