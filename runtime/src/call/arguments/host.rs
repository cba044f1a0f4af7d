//! What a product on the host is given: the same tuples of host matrices, and of a sparse result its pattern.

use super::{FurtherOf, NoneNeeded};
use crate::call::matrix::DeviceMatrix;
use crate::call::operation::{Dds, Dsd, Dss, Operation, Sdd, Sss};
use crate::gpu::Plain;
use crate::{Bsr, Dense, Element, Inputs, Structure};

/// Two factors on the host, and what else a product needs.
#[derive(Debug)]
pub struct HostCall<'h, A, B> {
    /// The first factor.
    pub a: &'h A,
    /// The second factor.
    pub b: &'h B,
    /// Where the blocks of a sparse result are.
    pub pattern: Option<&'h Structure>,
    /// Scales, an order of rows, and an epilogue's operands, as far as there are any.
    pub inputs: Inputs,
}

/// Two factors on the host for the operation `O` on elements `A` and `B`.
pub type HostCallOf<'h, O, A, B> =
    HostCall<'h, <<O as Operation>::A<A> as DeviceMatrix>::Host, <<O as Operation>::B<B> as DeviceMatrix>::Host>;

/// What a product on the host is given, of the operation `O` on elements `A` and `B`: `(&a, &b)`, or `(&a, &b, further)` where
/// its kernel reads more, which `F` says. Of a sparse result the pattern of its result follows the factors: `(&a, &b, &pattern)`,
/// `(&a, &b, &pattern, further)`.
#[diagnostic::on_unimplemented(
    message = "these are not the operands of this kernel",
    label = "not the operands of a kernel of `{O}` on `{A}` and `{B}`",
    note = "it is given `(&a, &b)`, or `(&a, &b, further)` where it reads more: of `Dsd` a `Bsr` and a `Dense`, of `Dds` a `Dense` and a `Bsr`; of `Sdd` two `Dense` and the pattern of its result, `(&a, &b, &pattern)`; of `Dss` two `Bsr`, of `Sss` two and the pattern of its result"
)]
pub trait HostArguments<'h, O: Operation, A: Element + Plain, B: Element + Plain, F> {
    /// The factors, and what else is read.
    fn call(self) -> HostCallOf<'h, O, A, B>;
}

macro_rules! dense_results {
    ($($op:ident: $a:ident, $b:ident;)*) => {$(
        impl<'h, A: Element + Plain, B: Element + Plain, F: NoneNeeded> HostArguments<'h, $op, A, B, F>
            for (&'h $a<A>, &'h $b<B>)
        {
            fn call(self) -> HostCall<'h, $a<A>, $b<B>> {
                HostCall { a: self.0, b: self.1, pattern: None, inputs: Inputs::new() }
            }
        }

        impl<'h, A: Element + Plain, B: Element + Plain, F, X> HostArguments<'h, $op, A, B, F>
            for (&'h $a<A>, &'h $b<B>, X)
        where
            X: FurtherOf<F> + Into<Inputs>,
        {
            fn call(self) -> HostCall<'h, $a<A>, $b<B>> {
                HostCall { a: self.0, b: self.1, pattern: None, inputs: self.2.into() }
            }
        }
    )*};
}

dense_results! {
    Dsd: Bsr, Dense;
    Dds: Dense, Bsr;
    Dss: Bsr, Bsr;
}

macro_rules! sparse_results {
    ($($op:ident: $factor:ident;)*) => {$(
        impl<'h, A: Element + Plain, B: Element + Plain, F: NoneNeeded> HostArguments<'h, $op, A, B, F>
            for (&'h $factor<A>, &'h $factor<B>, &'h Structure)
        {
            fn call(self) -> HostCall<'h, $factor<A>, $factor<B>> {
                HostCall { a: self.0, b: self.1, pattern: Some(self.2), inputs: Inputs::new() }
            }
        }

        impl<'h, A: Element + Plain, B: Element + Plain, F, X> HostArguments<'h, $op, A, B, F>
            for (&'h $factor<A>, &'h $factor<B>, &'h Structure, X)
        where
            X: FurtherOf<F> + Into<Inputs>,
        {
            fn call(self) -> HostCall<'h, $factor<A>, $factor<B>> {
                HostCall { a: self.0, b: self.1, pattern: Some(self.2), inputs: self.3.into() }
            }
        }
    )*};
}

sparse_results! {
    Sdd: Dense;
    Sss: Bsr;
}
