//! What a launch is told for its score.

use crate::epilogue::Program;
use crate::plan::{Argument, Operand, Parameter};

/// The parameters of what a score reads, in its order: a number, or a vector and its strides.
pub(crate) fn inputs(score: Option<&'static Program>) -> impl Iterator<Item = Parameter> {
    score.into_iter().flat_map(Program::inputs).enumerate().flat_map(|(at, input)| {
        let of = |name, argument| Some(Parameter { name, argument });
        let parameters = match input.kind.is_vector() {
            true => [
                of(&input.symbol, Argument::Pointer(Operand::Epilogue(at))),
                of(&input.strides, Argument::VectorStrides(at)),
            ],
            false => [of(&input.symbol, Argument::Scalar(at)), None],
        };
        parameters.into_iter().flatten()
    })
}
