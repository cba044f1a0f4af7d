//! What a product is given: two factors, and what else its kernel reads, as one tuple.
//!
//! | kernel | in device memory | on the host |
//! |---|---|---|
//! | a plain one | `(&a, &b)` | `(&a, &b)` |
//! | with an epilogue that reads operands | `(&a, &b, NAME_inputs { .. })` | the same, of host operands |
//! | with a `scale` | `(&a, &b, &scales)`, [`DeviceScales`](crate::gpu::DeviceScales) | [`Scales`](crate::Scales) |
//! | with `permute = on` | `(&a, &b, &order)`, [`DeviceOrder`](crate::gpu::DeviceOrder) | [`Permutation`](crate::Permutation) |
//! | with several of these | `(&a, &b, inputs)`, [`DeviceInputs`] by name | [`Inputs`](crate::Inputs) by name |
//! | of `op = sdd`, `sss` | as above: C has the pattern | `(&a, &b, &pattern)`, `(&a, &b, &pattern, further)` |

mod further;
mod host;
mod operand;
mod returns;
#[cfg(feature = "simulator")]
mod simulated;

pub use further::{ByName, EpilogueOf, FurtherOf, NoneNeeded, Nothing, Permuted, Scaled};
pub use host::{HostArguments, HostCall, HostCallOf};
pub use operand::{Blocks, DeviceOperand, Full, HostOperand, InPlace, OperandOf, Vector};
pub use returns::{AnyResults, CWithRows, Returns, Single};
#[cfg(feature = "simulator")]
pub use simulated::AnyHostArguments;
#[cfg(feature = "simulator")]
pub(crate) use simulated::UntypedHostCall;

use super::matrix::{DeviceMatrix, UntypedMatrix};
use super::operation::{Dds, Dsd, Dss, Operation, Sdd, Sss};
use crate::Element;
use crate::gpu::{DeviceBsr, DeviceDense, DeviceInputs, Plain, UntypedVector};
use bsr_codegen::Op;

/// Two factors in device memory, and what else a kernel reads.
#[derive(Debug)]
pub struct Call<'i, A, B> {
    /// The first factor.
    pub a: &'i A,
    /// The second factor.
    pub b: &'i B,
    /// Scales, an order of rows, and an epilogue's operands, as far as there are any.
    pub inputs: DeviceInputs<'i>,
}

/// What a kernel of the operation `O` on elements `A` and `B` is launched with: `(&a, &b)`, or `(&a, &b, further)` where it
/// reads more, which `F` says.
#[diagnostic::on_unimplemented(
    message = "these are not the operands of this kernel",
    label = "not the operands of a kernel of `{O}` on `{A}` and `{B}`",
    note = "it is given `(&a, &b)`, or `(&a, &b, further)` where it reads more: of `Dsd` a `DeviceBsr` and a `DeviceDense`, of `Dds` a `DeviceDense` and a `DeviceBsr`, of `Sdd` two `DeviceDense`, of `Dss` and `Sss` two `DeviceBsr`"
)]
pub trait Arguments<'i, O: Operation, A: Element + Plain, B: Element + Plain, F> {
    /// The factors, and what else is read.
    fn call(self) -> Call<'i, O::A<A>, O::B<B>>;
}

/// What a kernel of any operation and any types is launched with, checked when it is: `(&a, &b)`, `(&a, &b, further)`, or
/// [`ByKind`].
pub trait AnyArguments<'i> {
    #[doc(hidden)]
    #[allow(private_interfaces)]
    fn untyped(self, op: Op) -> UntypedCall<'i>;
}

/// The sparse factor, the dense one, and what else a kernel reads, where the program does not know before it runs which
/// factor comes first: A is the sparse one of `dsd`, the dense one of `dds`.
#[derive(Clone, Copy, Debug)]
pub struct ByKind<'i, S, D, I>(pub &'i S, pub &'i D, pub I);

/// A call whose matrices' kinds and element types are values.
#[derive(Clone, Debug)]
pub(crate) struct UntypedCall<'i> {
    pub(crate) a: UntypedMatrix<'i>,
    pub(crate) b: UntypedMatrix<'i>,
    pub(crate) inputs: DeviceInputs<'i>,
}

/// Where a launch writes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UntypedResults<'r> {
    pub(crate) c: UntypedMatrix<'r>,
    pub(crate) second: Option<UntypedVector>,
}

macro_rules! arguments {
    ($($op:ident: $a:ident, $b:ident;)*) => {$(
        impl<'i, A: Element + Plain, B: Element + Plain, F: NoneNeeded> Arguments<'i, $op, A, B, F>
            for (&'i $a<A>, &'i $b<B>)
        {
            fn call(self) -> Call<'i, $a<A>, $b<B>> {
                Call { a: self.0, b: self.1, inputs: DeviceInputs::new() }
            }
        }

        impl<'i, A: Element + Plain, B: Element + Plain, F, X> Arguments<'i, $op, A, B, F>
            for (&'i $a<A>, &'i $b<B>, X)
        where
            X: FurtherOf<F> + Into<DeviceInputs<'i>>,
        {
            fn call(self) -> Call<'i, $a<A>, $b<B>> {
                Call { a: self.0, b: self.1, inputs: self.2.into() }
            }
        }
    )*};
}

arguments! {
    Dsd: DeviceBsr, DeviceDense;
    Dds: DeviceDense, DeviceBsr;
    Sdd: DeviceDense, DeviceDense;
    Dss: DeviceBsr, DeviceBsr;
    Sss: DeviceBsr, DeviceBsr;
}

#[allow(private_interfaces)]
impl<'i, A: DeviceMatrix, B: DeviceMatrix> AnyArguments<'i> for (&'i A, &'i B) {
    fn untyped(self, _: Op) -> UntypedCall<'i> {
        UntypedCall { a: self.0.untyped(), b: self.1.untyped(), inputs: DeviceInputs::new() }
    }
}

#[allow(private_interfaces)]
impl<'i, A: DeviceMatrix, B: DeviceMatrix, X: Into<DeviceInputs<'i>>> AnyArguments<'i> for (&'i A, &'i B, X) {
    fn untyped(self, _: Op) -> UntypedCall<'i> {
        UntypedCall { a: self.0.untyped(), b: self.1.untyped(), inputs: self.2.into() }
    }
}

#[allow(private_interfaces)]
impl<'i, A: DeviceMatrix, B: DeviceMatrix> AnyArguments<'i> for Call<'i, A, B> {
    fn untyped(self, _: Op) -> UntypedCall<'i> {
        UntypedCall { a: self.a.untyped(), b: self.b.untyped(), inputs: self.inputs }
    }
}

#[allow(private_interfaces)]
impl<'i, S, D, X> AnyArguments<'i> for ByKind<'i, S, D, X>
where
    S: DeviceMatrix,
    D: DeviceMatrix,
    X: Into<DeviceInputs<'i>>,
{
    fn untyped(self, op: Op) -> UntypedCall<'i> {
        let (sparse, dense, inputs) = (self.0.untyped(), self.1.untyped(), self.2.into());
        let (a, b) = if op == Op::Dds { (dense, sparse) } else { (sparse, dense) };
        UntypedCall { a, b, inputs }
    }
}
