//! What a kernel reads besides its factors, as types: a launch without it, or with something else, does not compile.

use std::marker::PhantomData;

use crate::gpu::{DeviceInputs, DeviceOrder, DeviceScales};
use crate::{Inputs, Permutation, Scales};

/// A kernel that reads its factors alone.
#[derive(Debug)]
pub enum Nothing {}

/// A kernel with a `scale`.
#[derive(Debug)]
pub enum Scaled {}

/// A kernel with `permute = on`.
#[derive(Debug)]
pub enum Permuted {}

/// A kernel whose epilogue reads operands: the type `NAME_inputs` of the kernel `K` has a field for each.
#[derive(Debug)]
pub struct EpilogueOf<K>(PhantomData<fn(K)>);

/// A kernel of which it is checked at the launch: it reads several of these kinds, or is known at run time only.
#[derive(Debug)]
pub enum ByName {}

/// Kernels that `(&a, &b)` launches.
#[diagnostic::on_unimplemented(
    message = "this kernel reads more than `a` and `b`",
    label = "a third element is missing: `(&a, &b, further)`",
    note = "`further` is `NAME_inputs {{ .. }}` for the operands of an epilogue; scales or an order of rows for a kernel with `scale` or `permute`; or `DeviceInputs` (`Inputs` on the host) by name"
)]
pub trait NoneNeeded {}

impl NoneNeeded for Nothing {}
impl NoneNeeded for ByName {}

/// What a kernel of this kind is given besides its factors.
#[diagnostic::on_unimplemented(
    message = "this is not what the kernel reads besides `a` and `b`",
    label = "not what the kernel reads",
    note = "`NAME_inputs {{ .. }}` is for the epilogue of the kernel NAME, scales for a kernel with `scale`, an order of rows for one with `permute = on`; `DeviceInputs` (`Inputs` on the host) are by name and for every kernel"
)]
pub trait FurtherOf<F> {}

impl<F> FurtherOf<F> for DeviceInputs<'_> {}
impl<F> FurtherOf<F> for &DeviceInputs<'_> {}
impl<F> FurtherOf<F> for Inputs {}
impl<F> FurtherOf<F> for &Inputs {}

macro_rules! further {
    ($($given:ty: $kind:ident;)*) => {$(
        impl FurtherOf<$kind> for $given {}
        impl FurtherOf<ByName> for $given {}
    )*};
}

further! {
    &DeviceScales: Scaled;
    &Scales: Scaled;
    &DeviceOrder: Permuted;
    &Permutation: Permuted;
}

impl<'a> From<&'a DeviceInputs<'_>> for DeviceInputs<'a> {
    fn from(inputs: &'a DeviceInputs<'_>) -> Self {
        inputs.clone()
    }
}

impl<'a> From<&'a DeviceScales> for DeviceInputs<'a> {
    fn from(scales: &'a DeviceScales) -> Self {
        Self::new().scales(scales)
    }
}

impl<'a> From<&'a DeviceOrder> for DeviceInputs<'a> {
    fn from(order: &'a DeviceOrder) -> Self {
        Self::new().order(order)
    }
}

impl From<&Scales> for Inputs {
    fn from(scales: &Scales) -> Self {
        Self::new().scales(scales.clone())
    }
}

impl From<&Permutation> for Inputs {
    fn from(order: &Permutation) -> Self {
        Self::new().order(order.clone())
    }
}

impl From<&Inputs> for Inputs {
    fn from(inputs: &Inputs) -> Self {
        inputs.clone()
    }
}
