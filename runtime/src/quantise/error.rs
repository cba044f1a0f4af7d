//! What cannot be quantised.

use bsr_codegen::Dtype;
use thiserror::Error;

/// Why operands were not quantised.
#[derive(Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum QuantiseError {
    /// A value without a quotient.
    #[error("{operand}[{row}, {col}] = {value}, which {dtype} cannot hold at any scale; {remedy}")]
    NotFinite {
        /// `A` or `B`.
        operand: &'static str,
        /// Row of the value.
        row: usize,
        /// Column of the value.
        col: usize,
        /// The value.
        value: f64,
        /// The type asked for.
        dtype: Dtype,
        /// What would help.
        remedy: &'static str,
    },
    /// A and B do not fit together.
    #[error("A is {m} x {k}, B is {b_rows} x {n}: the columns of A are the rows of B; give B {k} rows")]
    Inner {
        /// Rows of A.
        m: usize,
        /// Columns of A.
        k: usize,
        /// Rows of B.
        b_rows: usize,
        /// Columns of B.
        n: usize,
    },
    /// B's groups of rows have no extent.
    #[error("groups of bk = 0 rows of B have no scale; give the columns of a block of A, at least 1")]
    Group,
}

bsr_codegen::message_as_debug!(QuantiseError);

impl QuantiseError {
    pub(super) fn not_finite(operand: &'static str, (row, col): (usize, usize), value: f64, dtype: Dtype) -> Self {
        let remedy = match value.is_nan() && dtype.is_integer() {
            true => "replace it: integers have no NaN",
            false => "replace it, or keep it with NanPolicy::Keep (an infinity saturates)",
        };
        Self::NotFinite { operand, row, col, value, dtype, remedy }
    }
}
