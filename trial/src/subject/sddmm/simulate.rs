//! SDDMMs on the simulator: both factors are dense, and the stored blocks are compared as rows of values.

use std::marker::PhantomData;

use bsr_codegen::KernelSpec;
use bsr_runtime::simulated::Options;
use bsr_runtime::typed::{Number, Typed, with_types};
use bsr_runtime::{Dense, Inputs, Structure, reference};

use super::inputs::block_inputs;
use crate::Failure;
use crate::kinds::{Draw, Member, ProductTrial};
use crate::simulate::{Drawn, Ran, SimulatedKernel, worst};
use crate::verify::{Expected, RowChoice, Rows, Verdict};

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
        let drawn = |member: &Member| {
            let extents = member.extents(&spec);
            let a = draw.first::<A>((extents.m, extents.k), member);
            let b = draw.second::<B>((extents.k, extents.n), member);
            Operands::new(&spec, (a, b), member.structure.clone(), member.seed, draw.rows)
        };
        let problems = draw.trial.members.iter().map(drawn).collect::<Result<Vec<_>, _>>()?;
        Ok(Box::new(Problems::<A, B, C>(problems, PhantomData)))
    }
}

/// The factors of an SDDMM, where its blocks are, and what chosen ones must be.
struct Operands<A: Number, B: Number> {
    a: Dense<A>,
    b: Dense<B>,
    structure: Structure,
    inputs: Inputs,
    expected: Expected,
}

impl<A: Number, B: Number> Operands<A, B> {
    /// The reference of chosen blocks of the product of `a` with `b`, which are brought into the kernel's layouts.
    ///
    /// # Errors
    /// When the operands do not fit together.
    fn new(
        spec: &KernelSpec,
        (a, b): (Dense<A>, Dense<B>),
        structure: Structure,
        seed: u64,
        choice: RowChoice,
    ) -> Result<Self, Failure> {
        let rows = Rows::of_blocks(spec, &structure, a.cols(), choice);
        let inputs = block_inputs(spec, &structure, seed);
        let want = reference::expected_blocks(spec, &a, &b, &structure, &rows.list, &inputs)?;
        let (a, b) = (a.to_layout(spec.a_layout), b.to_layout(spec.b_layout));
        let expected = Expected::of_blocks(rows, want, &structure);
        Ok(Self { a, b, structure, inputs, expected })
    }
}

/// One SDDMM, or of a kernel for lists all of them.
struct Problems<A: Number, B: Number, C: Number>(Vec<Operands<A, B>>, PhantomData<fn() -> C>);

impl<A: Number, B: Number, C: Number> Drawn for Problems<A, B, C> {
    fn expected(&self) -> Vec<&Expected> {
        self.0.iter().map(|operands| &operands.expected).collect()
    }

    fn run(&self, kernel: &SimulatedKernel, options: &Options) -> Result<Ran, Failure> {
        let kernel = kernel.product()?;
        if kernel.plan().spec().batch.is_on() {
            let list = self.0.iter().map(|Operands { a, b, structure, .. }| (a, b, structure));
            let (results, report) = kernel.multiply_batch::<C, _>(list, options)?;
            let verdicts = results.into_iter().zip(&self.0);
            let verdicts = verdicts.map(|(c, drawn)| Verdict::of_blocks(c, &drawn.structure, &drawn.expected));
            return Ok(Ran { verdict: worst(verdicts)?, report });
        }
        let Operands { a, b, structure, inputs, expected } = &self.0[0];
        let (results, report) = kernel.multiply::<C, _>((a, b, structure, inputs), options)?;
        Ran::new(Verdict::of_blocks(results.c, structure, expected)?, results.rows.as_deref(), expected, report)
    }
}
