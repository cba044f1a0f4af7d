//! What a launch gives a kernel besides its factors, as far as it must fit the kernel, on the host and on any machine.

use super::{Input, Inputs};
use crate::{Permutation, Structure};
use bsr_codegen::{Dtype, Layout, Scale};

/// What an epilogue's parameter is given, without its values.
#[derive(Clone, Copy, Debug)]
pub(crate) enum InputType {
    Vector {
        dtype: Dtype,
        len: usize,
    },
    Matrix {
        dtype: Dtype,
        layout: Layout,
        rows: usize,
        cols: usize,
    },
    /// Values of blocks, and whether the blocks are those of C.
    Blocks {
        dtype: Dtype,
        fits: bool,
    },
    /// C itself.
    Result,
    Scalar,
}

/// What a launch gives a kernel besides its factors.
pub(crate) trait Supplied {
    /// What a parameter of the epilogue is given.
    fn input(&self, name: &str) -> Option<InputType>;

    /// The names of all parameters that are given something.
    fn names(&self) -> impl Iterator<Item = &str>;

    /// The kind of the scales, and how many there are for A and for B.
    fn scales(&self) -> (Scale, [usize; 2]);

    /// The length of the order of rows.
    fn order(&self) -> Option<usize>;
}

impl InputType {
    pub(crate) fn words(self) -> String {
        match self {
            Self::Vector { dtype, len } => format!("a vector of {len} {dtype}"),
            Self::Matrix { dtype, rows, cols, .. } => format!("a {rows} x {cols} matrix of {dtype}"),
            Self::Blocks { dtype, fits: true } => format!("values of {dtype} of C's blocks"),
            Self::Blocks { dtype, fits: false } => format!("blocks of {dtype} of another shape or pattern than C's"),
            Self::Result => "C itself".to_owned(),
            Self::Scalar => "an f32".to_owned(),
        }
    }
}

/// For a result whose blocks are those of a structure, or for a dense one.
impl Supplied for (&Inputs, Option<&Structure>) {
    fn input(&self, name: &str) -> Option<InputType> {
        self.0.get(name).map(|input| match input {
            Input::Vector(vector) => InputType::Vector { dtype: vector.dtype(), len: vector.len() },
            Input::Matrix(matrix) | Input::Result(matrix) => {
                let (rows, cols) = matrix.shape();
                InputType::Matrix { dtype: matrix.dtype(), layout: matrix.layout(), rows, cols }
            }
            Input::Blocks(blocks) | Input::Held(blocks) => {
                InputType::Blocks { dtype: blocks.dtype(), fits: self.1 == Some(blocks.structure()) }
            }
            Input::Scalar(_) => InputType::Scalar,
        })
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.0.names()
    }

    fn scales(&self) -> (Scale, [usize; 2]) {
        let scales = self.0.scales_given();
        (scales.kind(), [scales.a().len(), scales.b().len()])
    }

    fn order(&self) -> Option<usize> {
        self.0.rows_to().map(Permutation::len)
    }
}
