//! Whether an attention is right.

use bsr::Element;
use bsr::attention::{Attended, Tensor};

use super::super::exit::{Exit, Failure};

/// Rows that are compared, and what they must be.
pub(super) struct Wanted {
    pub(super) rows: Vec<[usize; 3]>,
    pub(super) values: Attended,
    pub(super) queries: usize,
    pub(super) heads: usize,
}

/// The greatest difference of the logarithm of a row's sum, beside what its size allows.
const SUM_ERROR: f64 = 1e-3;

impl Wanted {
    /// The relative error of O, or what no rounding explains. Without `sums` O alone is compared.
    ///
    /// # Errors
    /// Wrong: no number, or a sum of another row.
    pub(super) fn compare<T: Element>(&self, output: &Tensor<T>, sums: &[f32]) -> Result<f64, Failure> {
        let columns = output.sizes()[3];
        let (mut wrong, mut whole) = (0.0, 0.0);
        for (number, place) in self.rows.iter().enumerate() {
            let expected = &self.values.output[number * columns..(number + 1) * columns];
            for (found, expected) in output.row(*place).iter().zip(expected) {
                if !found.is_finite() {
                    return Err(Failure::new(
                        Exit::Wrong,
                        format!("wrong result: O is {found} at {place:?}, not {expected}"),
                    ));
                }
                wrong += (found.to_f64() - expected).powi(2);
                whole += expected.powi(2);
            }
            let Some(found) = sums.get((place[0] * self.heads + place[1]) * self.queries + place[2]) else { continue };
            let found = f64::from(*found);
            let expected = self.values.sums[number];
            let near = (found - expected).abs() <= SUM_ERROR * (1.0 + expected.abs());
            if found != expected && !near {
                let message = format!("wrong result: the logarithm of the sum of {place:?} is {found}, not {expected}");
                return Err(Failure::new(Exit::Wrong, message));
            }
        }
        Ok(if whole > 0.0 { (wrong / whole).sqrt() } else { wrong.sqrt() })
    }

    /// The same, held against a tolerance.
    ///
    /// # Errors
    /// Wrong: a greater error.
    pub(super) fn judge<T: Element>(&self, output: &Tensor<T>, sums: &[f32], tolerance: f64) -> Result<f64, Failure> {
        let error = self.compare(output, sums)?;
        match error <= tolerance {
            true => Ok(error),
            false => Err(Failure::new(
                Exit::Wrong,
                format!("wrong result: a relative error of {error:.1e}; a right one has at most {tolerance:.1e}"),
            )),
        }
    }
}
