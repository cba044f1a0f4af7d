//! Block-sparse matrices to files that scipy and PyTorch read: `.npz` and `.safetensors`.
//!
//! A matrix whose sides are no multiples of the block is written padded to whole blocks, since `scipy.sparse.bsr_array`
//! and `torch.sparse_bsr_tensor` take no other; the shape before padding is written beside it and read back by
//! [`crate::read`]. So is the order of rows, if they were [reordered](crate::reorder).
//!
//! A file appears whole or not at all: it is written under another name in the same folder, then renamed; so is every
//! [`file`](fn@file) of another kind. The same matrix gives the same bytes.
//!
//! # `.npz`
//! What `scipy.sparse.save_npz` writes of a `bsr_array`, deflated: `format`, `shape` (padded), `indptr`, `indices`,
//! `data`, `_is_array`; and, which scipy passes over, `value_dtype`, `unpadded_shape` where something was padded, and
//! `row_permutation` (`int64`: row `i` is row `row_permutation[i]` of the original) where rows were reordered. scipy reads
//! no 16-bit floats, so `data` is `float32`, which holds `f16` and `bf16` exactly, and `float64` of `f64`; `value_dtype` says what
//! they were rounded to.
//!
//! # `.safetensors`
//! Tensors `crow_indices`, `col_indices` (`I32`), `values` (`F16`, `BF16`, `F32` or `F64`, shape `[blocks, bm, bk]`) and, where
//! rows were reordered, `row_permutation` (`I64`); metadata `format` = `bsr`, `shape`, `padded_shape` and `block`, each
//! as in `4096x1024`. In Python:
//!
//! ```python
//! with safetensors.safe_open("w.safetensors", "pt") as f:
//!     crow, col, values = (f.get_tensor(name) for name in ("crow_indices", "col_indices", "values"))
//!     size = [int(side) for side in f.metadata()["padded_shape"].split("x")]
//! w = torch.sparse_bsr_tensor(crow, col, values, size=size)
//! ```

mod error;
mod file;
mod identity;
mod layout;
mod npz;
mod safetensors;

use std::path::Path;

pub use error::{WriteError, WriteProblem};
pub use file::{file, remove_partial_files};
pub use identity::FileId;

use crate::{Bsr, Element, Permutation};
use bsr_codegen::{Dtype, Refusal};
use layout::padded;

/// What to write besides the matrix, and over what.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options<'p> {
    /// Where the rows came from, if they were reordered.
    pub row_order: Option<&'p Permutation>,
    /// Replace a file that is there.
    pub overwrite: bool,
}

/// What was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Bytes of the file.
    pub bytes: u64,
    /// Rows and columns that the file says, a multiple of the block.
    pub padded: (usize, usize),
}

/// Refuses a path that [`save`] would refuse whatever the matrix: its extension, and that it is there. Asked first, this
/// spares the work.
///
/// # Errors
/// Another extension; [`WriteProblem::Exists`].
pub fn check(path: impl AsRef<Path>, overwrite: bool) -> Result<(), WriteError> {
    let path = path.as_ref();
    Format::of(path)?;
    if !overwrite && path.exists() {
        return Err(WriteError::new(path, WriteProblem::Exists));
    }
    Ok(())
}

/// Writes `matrix` to `path`, whose extension says the format: `.npz` or `.safetensors`.
///
/// # Errors
/// When the extension names neither, the file is there and `overwrite` is not said, the order is of other rows, the
/// element type is none of `f16`, `bf16`, `f32` and `f64`, or the file cannot be written.
pub fn save<T: Element>(matrix: &Bsr<T>, path: impl AsRef<Path>, options: Options<'_>) -> Result<Written, WriteError> {
    let path = path.as_ref();
    let problem = |problem| WriteError::new(path, problem);
    check(path, options.overwrite)?;
    let format = Format::of(path)?;
    if ![Dtype::F16, Dtype::BF16, Dtype::F32, Dtype::F64].contains(&T::DTYPE) {
        return Err(problem(WriteProblem::dtype(T::DTYPE)));
    }
    if let Some(order) = options.row_order {
        order.check_rows(matrix.rows()).map_err(|error| problem(error.into()))?;
    }
    let bytes = file::replace(path, options.overwrite, |out| match format {
        Format::Npz => npz::write(matrix, options.row_order, out),
        Format::Safetensors => safetensors::write(matrix, options.row_order, out),
    })
    .map_err(problem)?;
    Ok(Written { bytes, padded: padded(matrix) })
}

/// The formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Npz,
    Safetensors,
}

impl Format {
    fn of(path: &Path) -> Result<Self, WriteError> {
        let extension = path.extension().map(|text| text.to_string_lossy().to_ascii_lowercase());
        match extension.as_deref() {
            Some("npz") => Ok(Self::Npz),
            Some("safetensors") => Ok(Self::Safetensors),
            _ => {
                let fact = match extension {
                    Some(text) => format!("the extension is .{text}"),
                    None => "the name has no extension".to_owned(),
                };
                let refusal = Refusal::new(fact).help("matrices are written as .npz or .safetensors");
                Err(WriteError::new(path, refusal.into()))
            }
        }
    }
}
