//! The values of a product's problem, and what its rows must be.

use bsr_codegen::Op;
use bsr_runtime::typed::{Number, Typed};
use bsr_runtime::{Bsr, Dense, Layout};

use super::{Member, ProductTrial, Shape};
use crate::Failure;
use crate::problem::{inputs, scales};
use crate::simulate::{Drawn, product, sddmm};
use crate::verify::{RowChoice, Rows};

/// Draws the values of a trial.
pub(super) struct Draw<'t> {
    pub(super) trial: &'t ProductTrial,
    pub(super) rows: RowChoice,
}

impl Typed for Draw<'_> {
    type Output = Box<dyn Drawn>;
    type Error = Failure;

    fn run<A: Number, B: Number, C: Number>(self) -> Result<Box<dyn Drawn>, Failure> {
        let (spec, members) = (self.trial.spec, &self.trial.members);
        if spec.op == Op::Sdd {
            let drawn = |member: &Member| {
                let Shape { dense, rows, cols } = member.shape(&spec);
                let a = self.dense::<A>((rows, dense.0), Sign::Positive, member.seed.wrapping_add(1));
                let mut b = self.dense::<B>((dense.0, cols), Sign::Negative, member.seed);
                self.shrink(&mut b);
                sddmm::Operands::new(&spec, (a, b), member.structure.clone(), member.seed, self.rows)
            };
            let problems = members.iter().map(drawn).collect::<Result<Vec<_>, _>>()?;
            return Ok(Box::new(sddmm::Problems::<A, B, C>::new(problems)));
        }
        let drawn = |member: &Member| {
            let Shape { dense, rows, cols } = member.shape(&spec);
            let mut b = self.dense::<B>(dense, Sign::Negative, member.seed);
            self.shrink(&mut b);
            let scales = scales::<A, B>(spec.scale, &member.structure, member.n, member.seed)?;
            let order = self.trial.requested.as_ref().and_then(|problem| problem.row_order());
            let inputs = inputs(&spec, (rows, cols), order, member.seed).scales(scales);
            let rows = Rows::choose(&spec, &member.structure, (rows, member.n), self.rows);
            product::Operands::new(&spec, self.blocks::<A>(member)?, b, inputs, rows)
        };
        let problems = members.iter().map(drawn).collect::<Result<Vec<_>, _>>()?;
        Ok(Box::new(product::Problems::<A, B, C>::new(problems)))
    }
}

/// The sign of a dense factor's elements, where all results are to be negative.
#[derive(Clone, Copy, PartialEq)]
enum Sign {
    Positive,
    Negative,
}

impl Draw<'_> {
    /// The sparse factor: what the file holds, or drawn; without negative elements where all results are to be negative.
    fn blocks<T: Number>(&self, member: &Member) -> Result<Bsr<T>, Failure> {
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
