//! The formats.

mod blocks;
mod bounded;
mod choice;
mod error;
mod mtx;
mod npy;
mod npz;
mod safetensors;
mod smtx;

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use super::{FillIn, Sparse};
pub use bounded::{bytes_of, text, text_of};
use error::Place;
pub use error::{ReadError, ReadProblem};
pub use mtx::parse as parse_mtx;
#[doc(hidden)]
pub use npy::elements as npy_elements;
pub use npz::{parse as parse_npz, parse_array as parse_npz_array, parse_npy};
pub use safetensors::parse as parse_safetensors;
pub use smtx::parse as parse_smtx;

use crate::{Bsr, Element};

/// Reads the matrix in `path` in blocks of `block` elements; the extension says the format. A pattern
/// without values (`.smtx`) gets values from N(0, 1), drawn from `seed`.
///
/// # Errors
/// When the file cannot be read, is not what its extension says, or cannot be had in these blocks.
pub fn open<T: Element>(
    path: impl AsRef<Path>,
    block: (usize, usize),
    seed: u64,
) -> Result<(Bsr<T>, FillIn), ReadError> {
    let path = path.as_ref();
    load(path, seed)?.to_bsr(block).map_err(|problem| ReadError::new(path, Place::Whole, problem))
}

/// Reads the matrix in `path` as the file holds it; the extension says the format. A pattern without values
/// (`.smtx`) gets values from N(0, 1), drawn from `seed`.
///
/// # Errors
/// When the file cannot be read or is not what its extension says.
pub fn load(path: impl AsRef<Path>, seed: u64) -> Result<Sparse, ReadError> {
    load_array(path, None, seed)
}

/// As [`load`]; of an `.npz` or a `.safetensors` file with several matrices the one called `name` is read.
///
/// # Errors
/// As [`load`]; and when there is no such matrix, none is named and there are several, or one is named in a file without
/// names.
pub fn load_array(path: impl AsRef<Path>, name: Option<&str>, seed: u64) -> Result<Sparse, ReadError> {
    let path = path.as_ref();
    let io = |error| ReadError::new(path, Place::Whole, ReadProblem::Io(error));
    let bytes = || bounded::file(path).map_err(|problem| ReadError::new(path, Place::Whole, problem));
    let extension = path.extension().map(|text| text.to_string_lossy().to_ascii_lowercase());
    let named = |extension: &str| {
        let fact = format!("an .{extension} file holds one matrix, without a name");
        Err(ReadError::new(path, Place::Whole, ReadProblem::refused(fact, "leave the name out")))
    };
    match extension.as_deref() {
        Some(extension @ ("mtx" | "smtx" | "npy")) if name.is_some() => named(extension),
        Some("mtx") => mtx::parse(&bytes()?, path),
        Some("smtx") => smtx::parse(&bytes()?, path, seed),
        Some("npy") => npz::parse_npy(&bytes()?, path),
        Some("npz") => npz::parse_array(BufReader::new(File::open(path).map_err(io)?), path, name),
        Some("safetensors") => safetensors::parse(BufReader::new(File::open(path).map_err(io)?), path, name),
        _ => {
            let fact = match extension {
                Some(text) => format!("the extension .{text} names no known format"),
                None => "the name has no extension".to_owned(),
            };
            let known =
                ".mtx (Matrix Market), .smtx (DLMC), .npz (scipy.sparse.save_npz or numpy.savez), .npy, .safetensors";
            Err(ReadError::new(path, Place::Whole, ReadProblem::refused(fact, format!("the readers know {known}"))))
        }
    }
}
