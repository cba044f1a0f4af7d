//! The values of a product's problem.

use bsr_runtime::typed::Number;
use bsr_runtime::{Bsr, Dense, Layout};

use super::{Member, ProductTrial};
use crate::Failure;
use crate::verify::RowChoice;

/// Draws the operands of a trial, of which so many rows are compared.
pub(crate) struct Draw<'t> {
    pub(crate) trial: &'t ProductTrial,
    pub(crate) rows: RowChoice,
}

/// The sign of a dense factor's elements, where all results are to be negative.
#[derive(Clone, Copy, PartialEq)]
enum Sign {
    Positive,
    Negative,
}

impl Draw<'_> {
    /// The first of two dense factors.
    pub(crate) fn first<T: Number>(&self, sizes: (usize, usize), member: &Member) -> Dense<T> {
        self.dense(sizes, Sign::Positive, member.seed.wrapping_add(1))
    }

    /// The dense factor beside a sparse one, or the second of two, whose elements are smaller where sums are long.
    pub(crate) fn second<T: Number>(&self, sizes: (usize, usize), member: &Member) -> Dense<T> {
        let mut drawn = self.dense(sizes, Sign::Negative, member.seed);
        self.shrink(&mut drawn);
        drawn
    }

    /// The sparse factor: what the file holds, or drawn; without negative elements where all results are to be negative.
    pub(crate) fn blocks<T: Number>(&self, member: &Member) -> Result<Bsr<T>, Failure> {
        if let Some(file) = self.trial.requested.as_ref().filter(|problem| problem.is_of_file()) {
            return Ok(file.sparse::<T>(&self.trial.spec)?.0);
        }
        let drawn = Bsr::<T>::normal(member.structure.clone(), member.seed);
        if !self.trial.negative {
            return Ok(drawn);
        }
        let values = drawn.values().iter().map(|value| T::from_f64(value.to_f64().abs())).collect();
        Bsr::from_structure(member.structure.clone(), values).map_err(Failure::bad_input)
    }

    /// A dense factor, row-major, whose elements have one sign where all results are to be negative.
    fn dense<T: Number>(&self, (rows, cols): (usize, usize), sign: Sign, seed: u64) -> Dense<T> {
        let mut drawn = Dense::<T>::normal(rows, cols, Layout::RowMajor, seed);
        if self.trial.negative {
            let signed = |value: f64| if sign == Sign::Negative { -value.abs() } else { value.abs() };
            drawn.data_mut().iter_mut().for_each(|value| *value = T::from_f64(signed(value.to_f64())));
        }
        drawn
    }

    /// Makes the elements of a dense factor smaller where sums are long; integers stay.
    fn shrink<T: Number>(&self, drawn: &mut Dense<T>) {
        if self.trial.shrink < 1.0 && T::SPREAD == 1.0 {
            drawn.data_mut().iter_mut().for_each(|value| *value = T::from_f64(value.to_f64() * self.trial.shrink));
        }
    }
}
