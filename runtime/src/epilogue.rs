//! What a kernel reads besides its factors, on the host, by name.

mod supplied;

use bsr_codegen::epilogue::{InputKind, Program};
use bsr_codegen::{Dtype, Layout};
use half::{bf16, f16};
use rand::Rng;

use crate::random::Streams;
use crate::{Bsr, Dense, Element, Permutation, Scales, Structure};
pub(crate) use supplied::{InputType, Supplied};

/// What a kernel reads besides its factors: what an epilogue's parameters are given, by name, scales, and an order of rows.
///
/// ```
/// use bsr_runtime::Inputs;
///
/// let inputs = Inputs::new().vector("bias", vec![0.0_f32; 128]).scalar("alpha", 0.5);
/// assert_eq!(inputs.names().collect::<Vec<_>>(), ["bias", "alpha"]);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Inputs {
    named: Vec<(String, Input)>,
    scales: Option<Scales>,
    order: Option<Permutation>,
}

/// Those of inputs that have none.
static UNSCALED: Scales = Scales::NONE;

/// What one parameter is given.
#[derive(Clone, Debug)]
pub enum Input {
    /// One value for every row or column of C.
    Vector(Numbers),
    /// One value for every element of C.
    Matrix(Matrix),
    /// The same, and C holds them before the launch: `beta * c + acc` adds to what is there.
    Result(Matrix),
    /// One value for every stored element of an SDDMM: values of blocks that lie where C's do.
    Blocks(Blocks),
    /// The same, and C holds them before the launch.
    Held(Blocks),
    /// One value.
    Scalar(f32),
}

/// A vector whose element type is a value.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub enum Numbers {
    F64(Vec<f64>),
    F32(Vec<f32>),
    F16(Vec<f16>),
    BF16(Vec<bf16>),
}

/// A dense matrix whose element type is a value.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub enum Matrix {
    F64(Dense<f64>),
    F32(Dense<f32>),
    F16(Dense<f16>),
    BF16(Dense<bf16>),
}

/// A block-sparse matrix whose element type is a value.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub enum Blocks {
    F64(Bsr<f64>),
    F32(Bsr<f32>),
    F16(Bsr<f16>),
    BF16(Bsr<bf16>),
}

/// What a kernel computes.
#[derive(Clone, Debug)]
pub struct Results<C> {
    /// The product, as the epilogue leaves it: a matrix, or the values of blocks.
    pub c: C,
    /// The second result, one value for every row of C (of the stored matrix of an SDDMM), where the epilogue has one.
    pub rows: Option<Vec<f32>>,
}

macro_rules! typed {
    ($($variant:ident $element:ty),*) => {$(
        impl From<Vec<$element>> for Numbers {
            fn from(values: Vec<$element>) -> Self {
                Self::$variant(values)
            }
        }

        impl From<Bsr<$element>> for Blocks {
            fn from(blocks: Bsr<$element>) -> Self {
                Self::$variant(blocks)
            }
        }

        impl From<Dense<$element>> for Matrix {
            fn from(matrix: Dense<$element>) -> Self {
                Self::$variant(matrix)
            }
        }
    )*};
}
typed!(F64 f64, F32 f32, F16 f16, BF16 bf16);

/// The same of a value of every variant.
macro_rules! of_each {
    ($value:expr, $inner:ident => $result:expr) => {
        match $value {
            Self::F64($inner) => $result,
            Self::F32($inner) => $result,
            Self::F16($inner) => $result,
            Self::BF16($inner) => $result,
        }
    };
}

impl Numbers {
    /// How many.
    pub fn len(&self) -> usize {
        of_each!(self, values => values.len())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Element type.
    pub fn dtype(&self) -> Dtype {
        match self {
            Self::F64(_) => Dtype::F64,
            Self::F32(_) => Dtype::F32,
            Self::F16(_) => Dtype::F16,
            Self::BF16(_) => Dtype::BF16,
        }
    }

    /// Element `at`.
    ///
    /// # Panics
    /// When there are not so many.
    pub fn get(&self, at: usize) -> f64 {
        of_each!(self, values => values[at].to_f64())
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        of_each!(self, values => Element::to_bytes(values))
    }
}

impl Matrix {
    /// Element type.
    pub fn dtype(&self) -> Dtype {
        match self {
            Self::F64(_) => Dtype::F64,
            Self::F32(_) => Dtype::F32,
            Self::F16(_) => Dtype::F16,
            Self::BF16(_) => Dtype::BF16,
        }
    }

    /// Rows and columns.
    pub fn shape(&self) -> (usize, usize) {
        of_each!(self, matrix => (matrix.rows(), matrix.cols()))
    }

    /// Whether rows or columns are contiguous.
    pub fn layout(&self) -> Layout {
        of_each!(self, matrix => matrix.layout())
    }

    /// Leading dimension.
    pub fn ld(&self) -> usize {
        of_each!(self, matrix => matrix.ld())
    }

    /// An element; NaN outside the matrix.
    pub fn get(&self, row: usize, col: usize) -> f64 {
        of_each!(self, matrix => matrix.get(row, col).map_or(f64::NAN, Element::to_f64))
    }

    /// Lines that start on 16-byte boundaries, as tensor copies want them.
    pub(crate) fn padded(&self) -> Self {
        match self {
            Self::F64(matrix) => matrix.to_layout(matrix.layout()).into(),
            Self::F32(matrix) => matrix.to_layout(matrix.layout()).into(),
            Self::F16(matrix) => matrix.to_layout(matrix.layout()).into(),
            Self::BF16(matrix) => matrix.to_layout(matrix.layout()).into(),
        }
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        of_each!(self, matrix => Element::to_bytes(matrix.data()))
    }
}

impl Blocks {
    /// Element type.
    pub fn dtype(&self) -> Dtype {
        match self {
            Self::F64(_) => Dtype::F64,
            Self::F32(_) => Dtype::F32,
            Self::F16(_) => Dtype::F16,
            Self::BF16(_) => Dtype::BF16,
        }
    }

    /// Shape and places of the blocks.
    pub fn structure(&self) -> &Structure {
        of_each!(self, blocks => blocks.structure())
    }

    /// Value `at` of all of them, block after block, row by row.
    ///
    /// # Panics
    /// When there are not so many.
    pub fn get(&self, at: usize) -> f64 {
        of_each!(self, blocks => blocks.values()[at].to_f64())
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        of_each!(self, blocks => Element::to_bytes(blocks.values()))
    }
}

impl Inputs {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Gives a `Rows` or `Cols` parameter its values.
    #[must_use]
    pub fn vector(self, name: &str, values: impl Into<Numbers>) -> Self {
        self.with(name, Input::Vector(values.into()))
    }

    /// Gives a `Dense` parameter its values.
    #[must_use]
    pub fn matrix(self, name: &str, values: impl Into<Matrix>) -> Self {
        self.with(name, Input::Matrix(values.into()))
    }

    /// Gives a `Dense` parameter C itself, with these values before the launch.
    #[must_use]
    pub fn result(self, name: &str, values: impl Into<Matrix>) -> Self {
        self.with(name, Input::Result(values.into()))
    }

    /// Gives a `Bsr` parameter its values: blocks that lie where those of the result do.
    #[must_use]
    pub fn blocks(self, name: &str, values: impl Into<Blocks>) -> Self {
        self.with(name, Input::Blocks(values.into()))
    }

    /// Gives a `Bsr` parameter the stored blocks of C itself, with these values before the launch.
    #[must_use]
    pub fn held(self, name: &str, values: impl Into<Blocks>) -> Self {
        self.with(name, Input::Held(values.into()))
    }

    /// Gives an `f32` parameter its value.
    #[must_use]
    pub fn scalar(self, name: &str, value: f32) -> Self {
        self.with(name, Input::Scalar(value))
    }

    /// The scales of a kernel with a `scale`: C is the scaled sum, made in f32 before it is rounded to C's type.
    #[must_use]
    pub fn scales(mut self, scales: Scales) -> Self {
        self.scales = Some(scales);
        self
    }

    /// The scales that were given, or none.
    pub fn scales_given(&self) -> &Scales {
        self.scales.as_ref().unwrap_or(&UNSCALED)
    }

    /// Where each row of C goes, for a kernel with `permute = on`: row r of the product to row `order[r]`, which undoes
    /// the order of a reordered A.
    #[must_use]
    pub fn order(mut self, order: Permutation) -> Self {
        self.order = Some(order);
        self
    }

    /// Where each row of C goes, if that was given.
    pub fn rows_to(&self) -> Option<&Permutation> {
        self.order.as_ref()
    }

    /// The rows of the product that become these rows of C: the same ones without an order.
    ///
    /// # Panics
    /// Where the order has fewer rows.
    pub fn sources(&self, rows: &[usize]) -> Vec<usize> {
        match self.order.as_ref().map(Permutation::inverse) {
            Some(inverse) => rows.iter().map(|row| inverse.as_slice()[*row] as usize).collect(),
            None => rows.to_vec(),
        }
    }

    /// The names that were given something, in that order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.named.iter().map(|(name, _)| name.as_str())
    }

    /// What a name was given.
    pub fn get(&self, name: &str) -> Option<&Input> {
        self.named.iter().find(|(given, _)| given == name).map(|(_, input)| input)
    }

    /// Random inputs of a program for an m x n result: vectors and matrices from N(0, 1), scalars between 1/2 and 2.
    /// The same seed gives the same numbers on every platform. `Bsr` parameters, which only SDDMMs have, are
    /// given nothing.
    pub fn random(program: &Program, shape: (usize, usize), layout: Layout, seed: u64) -> Self {
        Self::drawn(program, shape, (layout, None), seed)
    }

    /// The same for an SDDMM that stores these blocks.
    pub fn random_blocks(program: &Program, structure: &Structure, seed: u64) -> Self {
        Self::drawn(program, (structure.rows(), structure.cols()), (Layout::RowMajor, Some(structure)), seed)
    }

    fn drawn(
        program: &Program,
        (m, n): (usize, usize),
        (layout, structure): (Layout, Option<&Structure>),
        seed: u64,
    ) -> Self {
        let mut inputs = Self::new();
        for (at, input) in program.inputs().iter().enumerate() {
            let seed = seed.wrapping_add(7919 * (at as u64 + 1));
            let given = match input.kind {
                InputKind::Scalar => Input::Scalar(around_one(seed)),
                InputKind::Rows(dtype) => Input::Vector(numbers(dtype, m, seed)),
                InputKind::Cols(dtype) => Input::Vector(numbers(dtype, n, seed)),
                // Of scores alone, which no product has.
                InputKind::Heads(_) => continue,
                InputKind::Dense(dtype) => Input::Matrix(matrix(dtype, (m, n), layout, seed)),
                InputKind::Blocks(dtype) => match structure {
                    Some(structure) => Input::Blocks(blocks(dtype, structure, seed)),
                    None => continue,
                },
            };
            inputs = inputs.with(&input.name, given);
        }
        inputs
    }

    fn with(mut self, name: &str, input: Input) -> Self {
        self.named.retain(|(given, _)| given != name);
        self.named.push((name.to_owned(), input));
        self
    }
}

fn around_one(seed: u64) -> f32 {
    let uniform = (Streams::new(seed, b"scalars.").get(0).next_u64() >> 11) as f64 * f64::EPSILON - 1.0;
    libm::exp2(uniform) as f32
}

fn numbers(dtype: Dtype, len: usize, seed: u64) -> Numbers {
    fn drawn<T: Element>(len: usize, seed: u64) -> Vec<T> {
        let mut values = Dense::<T>::normal(len, 1, Layout::ColMajor, seed).into_vec();
        values.truncate(len);
        values
    }
    match dtype {
        Dtype::F64 => drawn::<f64>(len, seed).into(),
        Dtype::F16 => drawn::<f16>(len, seed).into(),
        Dtype::BF16 => drawn::<bf16>(len, seed).into(),
        _ => drawn::<f32>(len, seed).into(),
    }
}

fn matrix(dtype: Dtype, (rows, cols): (usize, usize), layout: Layout, seed: u64) -> Matrix {
    match dtype {
        Dtype::F64 => Dense::<f64>::normal(rows, cols, layout, seed).into(),
        Dtype::F16 => Dense::<f16>::normal(rows, cols, layout, seed).into(),
        Dtype::BF16 => Dense::<bf16>::normal(rows, cols, layout, seed).into(),
        _ => Dense::<f32>::normal(rows, cols, layout, seed).into(),
    }
}

fn blocks(dtype: Dtype, structure: &Structure, seed: u64) -> Blocks {
    match dtype {
        Dtype::F64 => Bsr::<f64>::normal(structure.clone(), seed).into(),
        Dtype::F16 => Bsr::<f16>::normal(structure.clone(), seed).into(),
        Dtype::BF16 => Bsr::<bf16>::normal(structure.clone(), seed).into(),
        _ => Bsr::<f32>::normal(structure.clone(), seed).into(),
    }
}
