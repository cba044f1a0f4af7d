//! Attentions on the simulator.

use std::marker::PhantomData;

use bsr_codegen::KernelSpec;
use bsr_runtime::Element;
use bsr_runtime::attention::Tensor;
use bsr_runtime::simulated::Options;

use super::{Problem, verdict};
use crate::Failure;
use crate::simulate::{Drawn, Ran, SimulatedKernel};
use crate::verify::Expected;

/// Q, K and V, and what rows of O must be.
pub(crate) struct Tensors<T: Element, O: Element> {
    problem: Problem,
    output: PhantomData<O>,
    tensors: [Tensor<T>; 3],
    expected: Expected,
}

impl<T: Element, O: Element> Tensors<T, O> {
    /// Draws the tensors; at most `most` rows of O are compared.
    pub(crate) fn new(spec: &KernelSpec, problem: &Problem, most: usize) -> Self {
        let tensors = problem.tensors::<T>();
        let expected = problem.expected(spec, &tensors, most);
        Self { problem: problem.clone(), output: PhantomData, tensors, expected }
    }
}

impl<T: Element, O: Element> Drawn for Tensors<T, O> {
    fn expected(&self) -> Vec<&Expected> {
        vec![&self.expected]
    }

    fn run(&self, kernel: &SimulatedKernel, options: &Options) -> Result<Ran, Failure> {
        let (kernel, Self { problem, tensors, expected, .. }) = (kernel.attention()?, self);
        let (output, lse, report) =
            kernel.run_into::<T, O>(tensors.each_ref(), &problem.mask, problem.inputs(), options)?;
        let lse = (kernel.gives_lse() && report.is_clean()).then_some(&lse[..]);
        Ok(Ran { verdict: verdict(&output, lse, expected)?, report })
    }
}
