//! Lists of products in one launch, with the types of a kernel.

use std::marker::PhantomData;

use super::{Kernel, PlacesOf};
use crate::call::arguments::{Arguments, Returns};
use crate::error::KernelError;
use crate::launcher::{Batch, PreparedBatch};

/// A [`Batch`] with the types of a kernel's operands.
#[derive(Debug)]
pub struct TypedBatch<'l, 'm, K> {
    batch: Batch<'l, 'm>,
    kernel: PhantomData<fn() -> K>,
}

impl<'l, 'm, K: Kernel> TypedBatch<'l, 'm, K> {
    pub(super) fn new(batch: Batch<'l, 'm>) -> Self {
        Self { batch, kernel: PhantomData }
    }

    /// As [`Batch::push`].
    ///
    /// # Errors
    /// As there.
    pub fn push(
        &mut self,
        inputs: impl Arguments<'m, K::Op, K::A, K::B, K::Further>,
        c: PlacesOf<'m, K>,
    ) -> Result<(), KernelError> {
        self.batch.push(inputs.call(), K::Returns::split(c))
    }

    /// As [`Batch::stacked`].
    ///
    /// # Errors
    /// As there.
    pub fn stacked(
        &mut self,
        inputs: impl Arguments<'m, K::Op, K::A, K::B, K::Further>,
        c: PlacesOf<'m, K>,
        count: usize,
    ) -> Result<(), KernelError> {
        self.batch.stacked(inputs.call(), K::Returns::split(c), count)
    }

    /// Problems so far.
    pub fn len(&self) -> usize {
        self.batch.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.batch.is_empty()
    }

    /// As [`Batch::prepare`].
    ///
    /// # Errors
    /// As there.
    pub fn prepare(self) -> Result<PreparedBatch<'l, 'm>, KernelError> {
        self.batch.prepare()
    }
}
