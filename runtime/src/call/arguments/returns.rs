//! Where a kernel's results go: C, and of an epilogue with a second result a value for every row.

use std::fmt::Debug;

use super::UntypedResults;
use crate::call::matrix::DeviceMatrix;
use crate::gpu::DeviceVector;

/// What a kernel computes, as a type: [`Single`] or [`CWithRows`].
pub trait Returns: Debug + 'static {
    /// Where a launch writes: `&mut c`, or `(&mut c, &mut rows)`.
    type Places<'r, C: 'r>;
    /// What a product on the host gives: `c`, or `(c, rows)`.
    type Host<C>;

    /// The places of C and of the second result.
    fn split<'r, C: 'r>(places: Self::Places<'r, C>) -> (&'r mut C, Option<&'r mut DeviceVector<f32>>);

    /// The results on the host.
    fn host<C>(c: C, rows: Option<Vec<f32>>) -> Self::Host<C>;
}

/// A kernel with one result.
#[derive(Debug)]
pub enum Single {}

/// A kernel whose epilogue has a second result: a value for every row of C.
#[derive(Debug)]
pub enum CWithRows {}

impl Returns for Single {
    type Places<'r, C: 'r> = &'r mut C;
    type Host<C> = C;

    fn split<'r, C: 'r>(c: Self::Places<'r, C>) -> (&'r mut C, Option<&'r mut DeviceVector<f32>>) {
        (c, None)
    }

    fn host<C>(c: C, _: Option<Vec<f32>>) -> C {
        c
    }
}

impl Returns for CWithRows {
    type Places<'r, C: 'r> = (&'r mut C, &'r mut DeviceVector<f32>);
    type Host<C> = (C, Vec<f32>);

    fn split<'r, C: 'r>((c, rows): Self::Places<'r, C>) -> (&'r mut C, Option<&'r mut DeviceVector<f32>>) {
        (c, Some(rows))
    }

    fn host<C>(c: C, rows: Option<Vec<f32>>) -> (C, Vec<f32>) {
        (c, rows.unwrap_or_default())
    }
}

/// Where a kernel of any operation writes, checked when it is launched: `&mut c`, `(&mut c, &mut rows)`, or
/// `(&mut c, Some(&mut rows))`.
pub trait AnyResults<'r> {
    #[doc(hidden)]
    #[allow(private_interfaces)]
    fn untyped(self) -> UntypedResults<'r>;
}

#[allow(private_interfaces)]
impl<'r, C: DeviceMatrix> AnyResults<'r> for &'r mut C {
    fn untyped(self) -> UntypedResults<'r> {
        (self, None).untyped()
    }
}

#[allow(private_interfaces)]
impl<'r, C: DeviceMatrix> AnyResults<'r> for (&'r mut C, &'r mut DeviceVector<f32>) {
    fn untyped(self) -> UntypedResults<'r> {
        (self.0, Some(self.1)).untyped()
    }
}

#[allow(private_interfaces)]
impl<'r, C: DeviceMatrix> AnyResults<'r> for (&'r mut C, Option<&'r mut DeviceVector<f32>>) {
    fn untyped(self) -> UntypedResults<'r> {
        let c: &'r C = self.0;
        UntypedResults { c: c.untyped(), second: self.1.map(|rows| rows.untyped()) }
    }
}
