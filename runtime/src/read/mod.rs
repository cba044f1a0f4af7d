//! Matrices from files: Matrix Market `.mtx`, DLMC `.smtx`, scipy and numpy `.npz` and `.npy`, `.safetensors`.
//!
//! A reader gives a [`Sparse`]; a block size makes a [`Bsr`](crate::Bsr) of it and says what the blocking costs
//! ([`FillIn`]). Memory grows with what a file really holds, never with what its header claims; what does not fit is refused
//! before it is read.
//!
//! NaN and infinities are values like others: they are read, and kept where the element type has them.
//!
//! Without the feature `files` there is [`Sparse`] alone, made of triplets.

mod blocking;
#[cfg(feature = "files")]
mod files;
mod sparse;

pub use crate::memory::{check_memory, memory_available};
pub use blocking::FillIn;
pub(crate) use blocking::{Cursor, from_places};
#[cfg(feature = "files")]
#[doc(hidden)]
pub use files::npy_elements;
#[cfg(feature = "files")]
pub use files::{
    ReadError, ReadProblem, bytes_of, load, load_array, open, parse_mtx, parse_npy, parse_npz, parse_npz_array,
    parse_safetensors, parse_smtx, text, text_of,
};
pub use sparse::Sparse;

/// No file, record or flag may claim more rows or columns than this: a row of zeros costs a file nothing, but costs us a row
/// pointer. It is far beyond what a GPU holds.
pub const LONGEST_SIDE: usize = 1 << 27;
