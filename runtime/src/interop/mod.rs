//! Matrices as other crates know them.
//!
//! | | feature | what |
//! |---|---|---|
//! | [serde](https://docs.rs/serde) | always | [`Bsr`](crate::Bsr), [`Structure`](crate::Structure) and [`Dense`](crate::Dense), checked when they are read |
//! | [ndarray](https://docs.rs/ndarray) | `ndarray` | dense matrices and views as array views and back, without a copy |
//! | [DLPack](https://docs.rs/dlpark) | `dlpack` | dense matrices on the host and on the GPU, and the values of stored blocks, without a copy |

#[cfg(feature = "dlpack")]
mod dlpack;
#[cfg(feature = "ndarray")]
mod ndarray;
mod serde;

#[cfg(feature = "dlpack")]
pub use dlpack::DlpackError;

#[cfg(any(feature = "dlpack", feature = "ndarray"))]
use bsr_codegen::{Layout, Refusal};

/// The order and the leading dimension of a matrix with these strides. The stride of an extent of 1 is never used.
///
/// # Errors
/// Neither rows nor columns are contiguous, or they overlap.
#[cfg(any(feature = "dlpack", feature = "ndarray"))]
fn order((rows, cols): (usize, usize), strides: [i64; 2]) -> Result<(Layout, usize), Refusal> {
    let order = |layout, lines: usize, line: usize, [outer, inner]: [i64; 2]| {
        let contiguous = inner == 1 || line <= 1;
        let ld = if lines <= 1 { Some(line) } else { usize::try_from(outer).ok().filter(|ld| *ld >= line) };
        ld.filter(|_| contiguous).map(|ld| (layout, ld))
    };
    let [down, across] = strides;
    let found = order(Layout::RowMajor, rows, cols, [down, across]);
    found.or_else(|| order(Layout::ColMajor, cols, rows, [across, down])).ok_or_else(|| {
        let matrix = format!("a {rows} x {cols} matrix with strides of {down} and {across} elements");
        Refusal::new(format!("{matrix} has neither contiguous rows nor contiguous columns"))
            .help("copy it to one that has")
    })
}
