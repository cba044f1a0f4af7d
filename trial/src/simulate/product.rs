//! Products of a sparse and a dense factor on the simulator.

use std::marker::PhantomData;

use bsr_codegen::KernelSpec;
use bsr_runtime::kernel::arguments::ByKind;
use bsr_runtime::reference;
use bsr_runtime::simulated::Options;
use bsr_runtime::typed::Number;
use bsr_runtime::{Bsr, Dense, Inputs, Results};

use super::{Drawn, Ran, SimulatedKernel, worst};
use crate::Failure;
use crate::problem::dense_layout;
use crate::verify::{Expected, Rows, Verdict, longest_sum};

/// The factors of a product, what else its kernel reads, and what rows of the result must be.
pub(crate) struct Operands<A: Number, B: Number> {
    a: Bsr<A>,
    /// In the kernel's layout.
    b: Dense<B>,
    inputs: Inputs,
    expected: Expected,
}

impl<A: Number, B: Number> Operands<A, B> {
    /// The reference of `rows` of the product of `a` with `b`, which is row-major.
    ///
    /// # Errors
    /// When the operands do not fit together.
    pub(crate) fn new(spec: &KernelSpec, a: Bsr<A>, b: Dense<B>, inputs: Inputs, rows: Rows) -> Result<Self, Failure> {
        let want = reference::expected(spec, &a, &b, &inputs, &rows.list, longest_sum(spec, a.structure()))?;
        let layout = dense_layout(spec);
        let b = if b.layout() == layout { b } else { b.to_layout(layout) };
        Ok(Self { a, b, inputs, expected: Expected::of_rows(rows, want) })
    }
}

/// One product, or of a kernel for lists all of them.
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
        let arguments = self.0.iter().map(|Operands { a, b, inputs, .. }| ByKind(a, b, inputs));
        if kernel.plan().spec().batch.is_on() {
            let (results, report) = kernel.multiply_batch::<C, _>(arguments, options)?;
            let verdicts = results.iter().zip(&self.0).map(|(c, drawn)| Verdict::new(c, &drawn.expected));
            return Ok(Ran { verdict: worst(verdicts)?, report });
        }
        let Operands { a, b, inputs, expected } = &self.0[0];
        let (Results { c, rows }, report) = kernel.multiply::<C, _>(ByKind(a, b, inputs), options)?;
        Ran::new(Verdict::new(&c, expected)?, rows.as_deref(), expected, report)
    }
}
