//! Products of two block-sparse matrices on the simulator.

use std::marker::PhantomData;

use bsr_runtime::simulated::Options;
use bsr_runtime::typed::{Number, Typed, with_types};

use super::factors::Factors;
use super::patterns::Patterns;
use crate::Failure;
use crate::kinds::{Draw, ProductTrial};
use crate::simulate::{Drawn, Ran, SimulatedKernel};
use crate::verify::{Expected, RowChoice, Verdict};

/// Draws the values of a trial.
pub(super) fn draw(trial: &ProductTrial, rows: RowChoice) -> Result<Box<dyn Drawn>, Failure> {
    with_types(&trial.spec, Values(Draw { trial, rows }))
}

struct Values<'t>(Draw<'t>);

impl Typed for Values<'_> {
    type Output = Box<dyn Drawn>;
    type Error = Failure;

    fn run<A: Number, B: Number, C: Number>(self) -> Result<Box<dyn Drawn>, Failure> {
        let (draw, spec) = (&self.0, self.0.trial.spec);
        // Kernels of pairs compute one product a launch.
        let member = &draw.trial.members[0];
        let patterns = match draw.trial.requested {
            Some(_) => Patterns::of_density(&spec, &member.structure, member.n, member.seed)?,
            None => Patterns::of_kind(&spec, member)?,
        };
        let whole = draw.second::<B>((member.structure.cols(), member.n), member);
        let factors = Factors::new(&spec, (draw.blocks::<A>(member)?, &whole), patterns, member.seed, draw.rows)?;
        Ok(Box::new(Problem::<A, B, C>(factors, PhantomData)))
    }
}

struct Problem<A: Number, B: Number, C: Number>(Factors<A, B>, PhantomData<fn() -> C>);

impl<A: Number, B: Number, C: Number> Drawn for Problem<A, B, C> {
    fn expected(&self) -> Vec<&Expected> {
        vec![&self.0.expected]
    }

    fn run(&self, kernel: &SimulatedKernel, options: &Options) -> Result<Ran, Failure> {
        let (kernel, Factors { a, b, c, inputs, expected }) = (kernel.product()?, &self.0);
        let (verdict, rows, report) = match c {
            Some(c) => {
                let (results, report) = kernel.multiply::<C, _>((a, b, c, inputs), options)?;
                (Verdict::of_blocks(results.c, c, expected)?, results.rows, report)
            }
            None => {
                let (results, report) = kernel.multiply::<C, _>((a, b, inputs), options)?;
                (Verdict::new(&results.c, expected)?, results.rows, report)
            }
        };
        Ran::new(verdict, rows.as_deref(), expected, report)
    }
}
