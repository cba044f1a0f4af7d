//! Epilogues on the CPU: the same program as in a kernel, in f64, rounded once.

use bsr::Epilogue;
use bsr_codegen::epilogue::{Element, InputKind, Program, Reduction};
use pyo3::prelude::*;

use crate::array::{ArrayArgument, Strided};
use crate::errors::refused;

/// An epilogue and what its parameters are given: vectors and numbers are matrices with strides of 0.
pub(crate) struct Fused {
    program: &'static Program,
    inputs: Vec<(Strided, bool)>,
}

/// A result and, where there is a second one, what its row collects.
pub(crate) type Values = (f64, Option<f64>);

/// Where an element of the result is: in the matrix, and in the stored blocks of an SDDMM.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) matrix: (usize, usize),
    pub(crate) stored: (usize, usize),
}

impl Fused {
    /// # Errors
    /// A text that is no epilogue, a parameter that is given nothing.
    pub(crate) fn new(text: &str, given: Vec<(String, ArrayArgument)>) -> PyResult<Self> {
        let epilogue: Epilogue = text.parse().map_err(refused)?;
        let program = epilogue.program();
        let mut given: Vec<(String, Option<ArrayArgument>)> =
            given.into_iter().map(|(name, argument)| (name, Some(argument))).collect();
        let mut inputs = Vec::new();
        for input in program.inputs() {
            let found = given.iter_mut().find(|(name, _)| *name == input.name).and_then(|(_, given)| given.take());
            let Some(argument) = found else {
                let (name, kind) = (&input.name, input.kind.words());
                return Err(refused(format!(
                    "the kernel's epilogue reads `{name}`, which is not given\n  help: pass `{name}=..`, a {kind}"
                )));
            };
            inputs.push((Strided::new(argument)?, matches!(input.kind, InputKind::Blocks(_))));
        }
        Ok(Self { program, inputs })
    }

    /// Makes sure that each input has an element for every place of a result of `matrix` rows and columns, whose stored blocks
    /// are `stored` rows and columns.
    ///
    /// # Errors
    /// An input that is smaller.
    pub(crate) fn check(&self, matrix: (usize, usize), stored: (usize, usize)) -> PyResult<()> {
        let short = |(input, is_stored): &(Strided, bool)| {
            let (rows, cols) = if *is_stored { stored } else { matrix };
            (input.rows < rows && input.row_stride != 0) || (input.cols < cols && input.col_stride != 0)
        };
        let Some(at) = self.inputs.iter().position(short) else { return Ok(()) };
        let (input, (rows, cols)) = (&self.inputs[at].0, if self.inputs[at].1 { stored } else { matrix });
        Err(refused(format!(
            "`{}` is {} x {}, and the epilogue reads it at {rows} x {cols} places",
            self.program.inputs()[at].name,
            input.rows,
            input.cols
        )))
    }

    /// How the second result is collected, where there is one.
    pub(crate) fn reduction(&self) -> Option<Reduction> {
        self.program.reduction()
    }

    /// The epilogue as a function of a sum and its place.
    ///
    /// # Safety
    /// The inputs must be alive and hold an element for every place that the function is called with.
    pub(crate) unsafe fn evaluator(&self) -> impl Fn(f64, Place) -> Values + '_ {
        let evaluate = self.program.evaluator();
        move |acc, place| {
            let mut values = [0.0; 16];
            for (value, (input, stored)) in values.iter_mut().zip(&self.inputs) {
                let (row, col) = if *stored { place.stored } else { place.matrix };
                // SAFETY: as the caller vouches.
                *value = unsafe { input.get(row, col) };
            }
            evaluate(Element { acc, inputs: &values[..self.inputs.len()] })
        }
    }
}
