//! SDDMMs on the simulator: both factors are dense, and the stored blocks are compared as rows of values.

use std::marker::PhantomData;

use bsr_codegen::KernelSpec;
use bsr_runtime::simulated::Options;
use bsr_runtime::typed::Number;
use bsr_runtime::{Dense, Inputs, Structure, reference};

use super::{Drawn, Ran, SimulatedKernel, worst};
use crate::Failure;
use crate::problem::block_inputs;
use crate::verify::{Expected, RowChoice, Rows, Verdict};

/// The factors of an SDDMM, where its blocks are, and what chosen ones must be.
pub(crate) struct Operands<A: Number, B: Number> {
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
    pub(crate) fn new(
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
pub(crate) struct Problems<A: Number, B: Number, C: Number>(Vec<Operands<A, B>>, PhantomData<fn() -> C>);

impl<A: Number, B: Number, C: Number> Problems<A, B, C> {
    pub(crate) fn new(problems: Vec<Operands<A, B>>) -> Self {
        Self(problems, PhantomData)
    }
}

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
