//! What a simulated kernel is given: host matrices whose kinds and element types are values.

use bsr_codegen::Op;

use super::ByKind;
use super::host::HostCall;
use crate::call::matrix::{HostMatrix, HostView};
use crate::call::outcome::Values;
use crate::{Bsr, Dense, Element, Inputs, Structure};

/// What a simulated kernel of any operation and any types is given, checked when it runs: as in [`HostArguments`](super::HostArguments), or
/// [`ByKind`].
pub trait AnyHostArguments<'h> {
    /// C, as the kernel leaves it: a [`Dense`], or of a sparse result the values of its blocks one after the other.
    type Values<C: Element>: Values<C>;

    #[doc(hidden)]
    #[allow(private_interfaces)]
    fn untyped(self, op: Op) -> UntypedHostCall<'h>;
}

/// A call whose matrices' kinds and element types are values.
#[derive(Clone)]
pub(crate) struct UntypedHostCall<'h> {
    pub(crate) a: HostView<'h>,
    pub(crate) b: HostView<'h>,
    pub(crate) pattern: Option<&'h Structure>,
    pub(crate) inputs: Inputs,
}

macro_rules! dense_results {
    ($($a:ident, $b:ident;)*) => {$(
        #[allow(private_interfaces)]
        impl<'h, A: Element, B: Element> AnyHostArguments<'h> for (&'h $a<A>, &'h $b<B>) {
            type Values<C: Element> = Dense<C>;

            fn untyped(self, op: Op) -> UntypedHostCall<'h> {
                HostCall { a: self.0, b: self.1, pattern: None, inputs: Inputs::new() }.untyped(op)
            }
        }

        #[allow(private_interfaces)]
        impl<'h, A: Element, B: Element, X: Into<Inputs>> AnyHostArguments<'h> for (&'h $a<A>, &'h $b<B>, X) {
            type Values<C: Element> = Dense<C>;

            fn untyped(self, op: Op) -> UntypedHostCall<'h> {
                HostCall { a: self.0, b: self.1, pattern: None, inputs: self.2.into() }.untyped(op)
            }
        }
    )*};
}

dense_results! {
    Bsr, Dense;
    Dense, Bsr;
    Bsr, Bsr;
}

macro_rules! sparse_results {
    ($($factor:ident;)*) => {$(
        #[allow(private_interfaces)]
        impl<'h, A: Element, B: Element> AnyHostArguments<'h> for (&'h $factor<A>, &'h $factor<B>, &'h Structure) {
            type Values<C: Element> = Vec<C>;

            fn untyped(self, op: Op) -> UntypedHostCall<'h> {
                (self.0, self.1, self.2, Inputs::new()).untyped(op)
            }
        }

        #[allow(private_interfaces)]
        impl<'h, A: Element, B: Element, X: Into<Inputs>> AnyHostArguments<'h>
            for (&'h $factor<A>, &'h $factor<B>, &'h Structure, X)
        {
            type Values<C: Element> = Vec<C>;

            fn untyped(self, op: Op) -> UntypedHostCall<'h> {
                HostCall { a: self.0, b: self.1, pattern: Some(self.2), inputs: self.3.into() }.untyped(op)
            }
        }
    )*};
}

sparse_results! {
    Dense;
    Bsr;
}

impl<'h, A: HostMatrix, B: HostMatrix> HostCall<'h, A, B> {
    pub(crate) fn untyped(self, _: Op) -> UntypedHostCall<'h> {
        UntypedHostCall { a: self.a.view(), b: self.b.view(), pattern: self.pattern, inputs: self.inputs }
    }
}

#[allow(private_interfaces)]
impl<'h, S, D, X> AnyHostArguments<'h> for ByKind<'h, S, D, X>
where
    S: HostMatrix,
    D: HostMatrix,
    X: Into<Inputs>,
{
    type Values<C: Element> = Dense<C>;

    fn untyped(self, op: Op) -> UntypedHostCall<'h> {
        let (sparse, dense, inputs) = (self.0.view(), self.1.view(), self.2.into());
        let (a, b) = if op == Op::Dds { (dense, sparse) } else { (sparse, dense) };
        UntypedHostCall { a, b, pattern: None, inputs }
    }
}
