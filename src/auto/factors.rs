//! What a choice of a kernel depends on, as one tuple.

use bsr_runtime::Element;
use bsr_runtime::gpu::{DeviceBsr, DeviceDense, Plain};
use bsr_runtime::kernel::{Dds, Dsd, Dss, Operation, Sdd, Sss};

/// The factors, and the result where it is sparse.
type Parts<'i, O, A, B, C> =
    (&'i <O as Operation>::A<A>, &'i <O as Operation>::B<B>, Option<&'i <O as Operation>::C<C>>);

/// What a choice of a kernel depends on: the factors, and a sparse result.
#[diagnostic::on_unimplemented(
    message = "these are not the factors of this product",
    label = "not the factors of a product `{O}` of `{A}` and `{B}`",
    note = "`(&a, &b)`; of `Sdd` and `Sss` the result follows them, `(&a, &b, &c)`"
)]
pub trait Factors<'i, O: Operation, A: Element + Plain, B: Element + Plain, C: Element + Plain> {
    /// The factors, and the result where it is sparse.
    fn split(self) -> Parts<'i, O, A, B, C>;
}

impl<'i, A: Element + Plain, B: Element + Plain, C: Element + Plain> Factors<'i, Dsd, A, B, C>
    for (&'i DeviceBsr<A>, &'i DeviceDense<B>)
{
    fn split(self) -> Parts<'i, Dsd, A, B, C> {
        (self.0, self.1, None)
    }
}

impl<'i, A: Element + Plain, B: Element + Plain, C: Element + Plain> Factors<'i, Dds, A, B, C>
    for (&'i DeviceDense<A>, &'i DeviceBsr<B>)
{
    fn split(self) -> Parts<'i, Dds, A, B, C> {
        (self.0, self.1, None)
    }
}

impl<'i, A: Element + Plain, B: Element + Plain, C: Element + Plain> Factors<'i, Sdd, A, B, C>
    for (&'i DeviceDense<A>, &'i DeviceDense<B>, &'i DeviceBsr<C>)
{
    fn split(self) -> Parts<'i, Sdd, A, B, C> {
        (self.0, self.1, Some(self.2))
    }
}

impl<'i, A: Element + Plain, B: Element + Plain, C: Element + Plain> Factors<'i, Dss, A, B, C>
    for (&'i DeviceBsr<A>, &'i DeviceBsr<B>)
{
    fn split(self) -> Parts<'i, Dss, A, B, C> {
        (self.0, self.1, None)
    }
}

impl<'i, A: Element + Plain, B: Element + Plain, C: Element + Plain> Factors<'i, Sss, A, B, C>
    for (&'i DeviceBsr<A>, &'i DeviceBsr<B>, &'i DeviceBsr<C>)
{
    fn split(self) -> Parts<'i, Sss, A, B, C> {
        (self.0, self.1, Some(self.2))
    }
}
