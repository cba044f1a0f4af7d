//! What can be wrong with the memory of a dense matrix.

use bsr_codegen::Layout;
use thiserror::Error;

/// A dense matrix or view that its memory cannot hold.
#[derive(Clone, PartialEq, Eq, Error)]
pub enum DenseError {
    /// The distance between two lines is shorter than a line.
    #[error(
        "leading dimension {ld} is shorter than a line: a {rows} x {cols} matrix in {layout}-major order has \
         lines of {line} elements; give ld >= {line} ({padded} is the next one that keeps lines 16-byte aligned)"
    )]
    LeadingDimension {
        /// The leading dimension given, in elements.
        ld: usize,
        /// Rows of the matrix.
        rows: usize,
        /// Columns of the matrix.
        cols: usize,
        /// Order of the matrix.
        layout: Layout,
        /// Elements of one line: the columns of a row-major, the rows of a column-major matrix.
        line: usize,
        /// The shortest leading dimension that keeps every line 16-byte aligned.
        padded: usize,
    },
    /// The memory ends before the last element.
    #[error(
        "{len} elements do not hold a {rows} x {cols} matrix in {layout}-major order with leading dimension {ld}: \
         ({lines} - 1) * {ld} + {line} = {need}; give {} more, or a smaller shape",
        need - len
    )]
    Length {
        /// Elements given.
        len: usize,
        /// Elements needed, up to the last element of the last line.
        need: usize,
        /// Rows of the matrix.
        rows: usize,
        /// Columns of the matrix.
        cols: usize,
        /// Order of the matrix.
        layout: Layout,
        /// Leading dimension in elements.
        ld: usize,
        /// Number of lines.
        lines: usize,
        /// Elements of one line.
        line: usize,
    },
    /// Offsets into the matrix do not fit the machine's address space.
    #[error(
        "a {rows} x {cols} matrix with leading dimension {ld} has offsets beyond the address space; \
         split it by rows or columns"
    )]
    TooLarge {
        /// Rows of the matrix.
        rows: usize,
        /// Columns of the matrix.
        cols: usize,
        /// Leading dimension in elements.
        ld: usize,
    },
    /// Neither rows nor columns are contiguous.
    #[error(
        "a {rows} x {cols} matrix with strides of {} and {} elements has neither contiguous rows nor contiguous columns; \
         copy it to one that has",
        strides[0], strides[1]
    )]
    Strides {
        /// Rows of the matrix.
        rows: usize,
        /// Columns of the matrix.
        cols: usize,
        /// Elements from one row to the next, and from one column to the next.
        strides: [i64; 2],
    },
    /// A part that lies outside the matrix.
    #[error(
        "{what} {start}..{end} is not a part of a matrix with {len} {what}; use a range with start <= end <= {len}"
    )]
    Part {
        /// `rows` or `columns`.
        what: &'static str,
        /// First index of the part.
        start: usize,
        /// One past the last index of the part.
        end: usize,
        /// How many the matrix has.
        len: usize,
    },
}

bsr_codegen::message_as_debug!(DenseError);
