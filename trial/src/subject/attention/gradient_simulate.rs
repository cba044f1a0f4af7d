//! Kernels of gradients on the simulator.

use bsr_codegen::KernelSpec;
use bsr_runtime::Element;
use bsr_runtime::simulated::Options;

use super::{Backward, Problem, verdict};
use crate::Failure;
use crate::simulate::{Drawn, Ran, SimulatedKernel, worst};
use crate::verify::Expected;

/// What a gradient is computed from, and what rows of each must be.
pub(crate) struct Gradients<T: Element> {
    drawn: Backward<T>,
    expected: Vec<Expected>,
    spec: KernelSpec,
    most: usize,
}

impl<T: Element> Gradients<T> {
    /// Draws the tensors; at most `most` rows of each gradient are compared.
    ///
    /// # Errors
    /// Sizes that no tensor has.
    pub(crate) fn new(spec: &KernelSpec, problem: &Problem, most: usize) -> Result<Self, Failure> {
        let drawn = Backward::<T>::new(spec, problem)?.with_lse_gradient(problem.seed);
        let expected = drawn.expected(spec.op, most);
        Ok(Self { drawn, expected, spec: *spec, most })
    }
}

impl<T: Element> Drawn for Gradients<T> {
    fn expected(&self) -> Vec<&Expected> {
        self.expected.iter().collect()
    }

    fn run(&self, kernel: &SimulatedKernel, options: &Options) -> Result<Ran, Failure> {
        let run = kernel.gradient()?.run(&self.drawn.saved(), None, &self.drawn.mask, options)?;
        let verdicts = run.gradients.iter().zip(&self.expected).map(|(found, wanted)| verdict(found, None, wanted));
        let verdict = worst(verdicts)?;
        let of_sums = || self.drawn.fault_of_sums(&self.spec, &run.score_sums, self.most);
        let fault = || self.drawn.fault_of_terms(&run.terms).or_else(of_sums);
        let fault = run.report.is_clean().then(fault).flatten();
        Ok(Ran { verdict: verdict.with_fault(fault), report: run.report })
    }
}
