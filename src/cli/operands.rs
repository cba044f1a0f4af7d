//! The operands of a run, drawn once and shared by all kernels that can: A by its blocks, B by its layout.

use std::any::Any;
use std::collections::HashMap;
use std::rc::Rc;

use bsr::gpu::{Device, DeviceBsr, DeviceDense};
use bsr::{Dense, Dtype, Layout, reference};

use super::dtypes::Number;
use super::exit::Failure;
use super::problem::Problem;
use super::progress::Progress;
use super::verdict::{Rows, RowsAsked};

/// A on the device, and what rows of the product must be.
pub(super) struct Left<T: Number> {
    pub(super) a: DeviceBsr<T>,
    pub(super) rows: Rows,
    pub(super) want: Vec<f64>,
}

/// Makes operands on one device for one problem.
pub(super) struct Operands<'r> {
    problem: &'r Problem,
    device: &'r Device,
    rows: RowsAsked,
    progress: &'r Progress,
    made: HashMap<Key, Rc<dyn Any>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Key {
    A(Dtype, (usize, usize)),
    HostB(Dtype),
    DeviceB(Dtype, Layout),
}

impl<'r> Operands<'r> {
    pub(super) fn new(problem: &'r Problem, device: &'r Device, rows: RowsAsked, progress: &'r Progress) -> Self {
        Self { problem, device, rows, progress, made: HashMap::new() }
    }

    /// The problem.
    pub(super) fn problem(&self) -> &'r Problem {
        self.problem
    }

    /// The device.
    pub(super) fn device(&self) -> &'r Device {
        self.device
    }

    /// What is going on.
    pub(super) fn progress(&self) -> &'r Progress {
        self.progress
    }

    /// A in blocks of this size, with the reference.
    pub(super) fn left<T: Number>(&mut self, block: (usize, usize)) -> Result<Rc<Left<T>>, Failure> {
        self.once(Key::A(T::DTYPE, block), |this| {
            let b = this.host_b::<T>()?;
            this.progress.step("drawing A");
            let (a, _) = this.problem.a::<T>(block)?;
            let rows = Rows::choose(a.structure(), this.problem.n, this.rows);
            this.progress.step(format!("reference of {rows} in f64"));
            let want = reference::multiply_rows(&a, &*b, &rows.list)?;
            Ok(Left { a: DeviceBsr::upload(this.device, &a)?, rows, want })
        })
    }

    /// B in this layout; the same numbers in either.
    pub(super) fn right<T: Number>(&mut self, layout: Layout) -> Result<Rc<DeviceDense<T>>, Failure> {
        self.once(Key::DeviceB(T::DTYPE, layout), |this| {
            let b = this.host_b::<T>()?;
            this.progress.step(format!("copying B, {layout}-major"));
            Ok(match b.layout() == layout {
                true => DeviceDense::upload(this.device, &b)?,
                false => DeviceDense::upload(this.device, &b.to_layout(layout))?,
            })
        })
    }

    fn host_b<T: Number>(&mut self) -> Result<Rc<Dense<T>>, Failure> {
        self.once(Key::HostB(T::DTYPE), |this| {
            this.progress.step("drawing B");
            Ok(this.problem.b::<T>())
        })
    }

    /// What stands under `key`, made at the first request.
    fn once<V: 'static>(
        &mut self,
        key: Key,
        make: impl FnOnce(&mut Self) -> Result<V, Failure>,
    ) -> Result<Rc<V>, Failure> {
        if let Some(made) = self.made.get(&key)
            && let Ok(made) = Rc::clone(made).downcast::<V>()
        {
            return Ok(made);
        }
        let made = Rc::new(make(self)?);
        self.made.insert(key, Rc::<V>::clone(&made));
        Ok(made)
    }
}
