//! Whether a whole result is right: in the norm of all errors, and in each element.

use super::{Comparison, Fused};
use crate::{DenseView, Element};
use bsr_codegen::{Layout, Refusal};

/// How a result differs from the reference by more than rounding explains.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("wrong result: {0}")]
pub struct WrongResult(String);

impl From<Refusal> for WrongResult {
    fn from(error: Refusal) -> Self {
        Self(error.to_string())
    }
}

impl Fused {
    /// Verifies C and, of a kernel that has one, the second result, which are those of all rows. Returns the relative error of C
    /// in the Frobenius norm.
    ///
    /// # Errors
    /// The first element that is beyond its bound, a relative error beyond the tolerance, and results of other shapes.
    pub fn verify<'a, C: Element>(
        &self,
        got: impl Into<DenseView<'a, C>>,
        second: Option<&[f32]>,
    ) -> Result<f64, WrongResult> {
        let got = got.into();
        let comparison = Comparison::of_dense(got, &self.c)?;
        if let Some(bounds) = &self.bounds {
            let element = |at: usize| got.get(at / got.cols(), at % got.cols()).unwrap_or(C::POISON);
            if let Some((at, want)) =
                self.c.iter().enumerate().find(|(at, want)| !bounds.allow(*at, element(*at), **want))
            {
                let (row, column, bound) = (at / got.cols(), at % got.cols(), bounds.at(at, *want));
                return Err(WrongResult(format!(
                    "row {row}, column {column} is {}, not {want:.6}; rounding explains {bound:.1e}",
                    element(at).to_f64()
                )));
            }
        }
        if !comparison.passes(self.tolerance) {
            return Err(WrongResult(format!("{comparison}; a right one has at most {:.1e}", self.tolerance)));
        }
        self.verify_second(second)?;
        Ok(comparison.relative)
    }

    /// The same of the stored blocks of an SDDMM, one after the other.
    ///
    /// # Errors
    /// As [`Fused::verify`], with the position of an element as its column.
    pub fn verify_blocks<C: Element>(&self, got: &[C], second: Option<&[f32]>) -> Result<f64, WrongResult> {
        let line = DenseView::new(1, got.len(), Layout::RowMajor, got.len(), got);
        self.verify(line.map_err(|error| WrongResult(error.to_string()))?, second)
    }

    fn verify_second(&self, second: Option<&[f32]>) -> Result<(), WrongResult> {
        let comparison = self.compare_rows(second)?;
        if let Some(row) = second.and_then(|second| self.row_beyond(second)) {
            return Err(WrongResult(format!("the second result of row {row} is further off than rounding explains")));
        }
        match comparison.passes(self.rows_tolerance()) {
            true => Ok(()),
            false => {
                let most = self.rows_tolerance();
                Err(WrongResult(format!("the second result: {comparison}; a right one has at most {most:.1e}")))
            }
        }
    }
}
