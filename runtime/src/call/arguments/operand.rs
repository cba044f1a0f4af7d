//! What the operands of an epilogue are: the fields of the `NAME_inputs` that the attribute makes.

use std::marker::PhantomData;

use crate::epilogue;
use crate::gpu::{DeviceBsr, DeviceDense, DeviceInputs, DeviceVector, Plain};
use crate::{Bsr, Dense, Element, Inputs};

/// A `Rows<T>` or a `Cols<T>`: one value for every row or for every column of C.
#[derive(Debug)]
pub struct Vector<T>(PhantomData<T>);

/// A `Dense<T>`: one value for every element of C.
#[derive(Debug)]
pub struct Full<T>(PhantomData<T>);

/// A `Bsr<T>`: one value for every element of C's blocks.
#[derive(Debug)]
pub struct Blocks<T>(PhantomData<T>);

/// C itself, as it is before the launch: what a `Dense` or a `Bsr` operand is given to be read where the result is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InPlace;

/// What an epilogue's operand of the kind `K` is given, in device memory or on the host.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no operand of this kind",
    label = "the epilogue reads a `{K}` here",
    note = "a `Vector<T>` is given as `&DeviceVector<T>`, on the host as `&[T]` or `&Vec<T>`; a `Full<T>` as `&DeviceDense<T>` or `InPlace`, on the host as `&Dense<T>`; `Blocks<T>` as `&DeviceBsr<T>` or `InPlace`, on the host as `&Bsr<T>`"
)]
pub trait OperandOf<K> {}

/// An operand in device memory.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no operand in device memory",
    note = "`launch` takes operands in device memory, `multiply` and `simulate` take those of the host"
)]
pub trait DeviceOperand<'a, K>: OperandOf<K> {
    /// The inputs with this one.
    fn give(self, name: &'static str, inputs: DeviceInputs<'a>) -> DeviceInputs<'a>;
}

/// An operand on the host.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no operand on the host",
    note = "`multiply` and `simulate` take operands on the host, `launch` takes those in device memory; what C holds before is given as a matrix"
)]
pub trait HostOperand<K>: OperandOf<K> {
    /// The inputs with this one.
    fn give(self, name: &'static str, inputs: Inputs) -> Inputs;
}

macro_rules! operands {
    ($($kind:ident: $device:ident by $step:ident, $host:ty;)*) => {$(
        impl<T: Plain> OperandOf<$kind<T>> for &$device<T> {}
        impl<T> OperandOf<$kind<T>> for &$host {}

        impl<'a, T: Element + Plain> DeviceOperand<'a, $kind<T>> for &'a $device<T> {
            fn give(self, name: &'static str, inputs: DeviceInputs<'a>) -> DeviceInputs<'a> {
                inputs.$step(name, self)
            }
        }
    )*};
}

operands! {
    Vector: DeviceVector by vector, [T];
    Full: DeviceDense by matrix, Dense<T>;
    Blocks: DeviceBsr by blocks, Bsr<T>;
}

impl<T> OperandOf<Vector<T>> for &Vec<T> {}
impl<T, const N: usize> OperandOf<Vector<T>> for &[T; N] {}
impl<T> OperandOf<Full<T>> for InPlace {}
impl<T> OperandOf<Blocks<T>> for InPlace {}

impl<'a, T: Element + Plain> DeviceOperand<'a, Full<T>> for InPlace {
    fn give(self, name: &'static str, inputs: DeviceInputs<'a>) -> DeviceInputs<'a> {
        inputs.result(name)
    }
}

impl<'a, T: Element + Plain> DeviceOperand<'a, Blocks<T>> for InPlace {
    fn give(self, name: &'static str, inputs: DeviceInputs<'a>) -> DeviceInputs<'a> {
        inputs.result(name)
    }
}

impl<T: Element> HostOperand<Vector<T>> for &[T]
where
    epilogue::Numbers: From<Vec<T>>,
{
    fn give(self, name: &'static str, inputs: Inputs) -> Inputs {
        inputs.vector(name, self.to_vec())
    }
}

impl<T: Element> HostOperand<Vector<T>> for &Vec<T>
where
    epilogue::Numbers: From<Vec<T>>,
{
    fn give(self, name: &'static str, inputs: Inputs) -> Inputs {
        inputs.vector(name, self.clone())
    }
}

impl<T: Element, const N: usize> HostOperand<Vector<T>> for &[T; N]
where
    epilogue::Numbers: From<Vec<T>>,
{
    fn give(self, name: &'static str, inputs: Inputs) -> Inputs {
        inputs.vector(name, self.to_vec())
    }
}

impl<T: Element> HostOperand<Full<T>> for &Dense<T>
where
    epilogue::Matrix: From<Dense<T>>,
{
    fn give(self, name: &'static str, inputs: Inputs) -> Inputs {
        inputs.matrix(name, self.clone())
    }
}

impl<T: Element> HostOperand<Blocks<T>> for &Bsr<T>
where
    epilogue::Blocks: From<Bsr<T>>,
{
    fn give(self, name: &'static str, inputs: Inputs) -> Inputs {
        inputs.blocks(name, self.clone())
    }
}
