//! A product of a sparse and a dense matrix on a GPU.

use std::rc::Rc;

use bsr_runtime::Launcher;
use bsr_runtime::gpu::{DeviceDense, DeviceVector, StreamRef};
use bsr_runtime::kernel::arguments::ByKind;
use bsr_runtime::typed::Number;

use super::Launch;
use super::case::Recorded;
use super::operands::Left;
use crate::Failure;
use crate::verify::Verdict;

pub(crate) struct Product<A: Number, B: Number, C: Number> {
    pub(crate) launcher: Launcher,
    pub(crate) left: Rc<Left<A>>,
    pub(crate) right: Rc<DeviceDense<B>>,
    pub(crate) c: DeviceDense<C>,
    /// The epilogue's second result.
    pub(crate) second: Option<DeviceVector<f32>>,
}

impl<A: Number, B: Number, C: Number> Launch for Product<A, B, C> {
    fn poison(&mut self) -> Result<(), Failure> {
        Ok(self.c.fill_bytes(C::POISON_BYTE)?)
    }

    fn launch(&mut self, stream: StreamRef<'_>) -> Result<(), Failure> {
        let inputs = ByKind(&*self.left.a, &*self.right, self.left.inputs.inputs());
        Ok(self.launcher.launch(stream, inputs, (&mut self.c, self.second.as_mut()))?)
    }

    fn verdict(&self) -> Result<Verdict, Failure> {
        let second = self.second.as_ref().map(DeviceVector::download).transpose()?;
        Verdict::new(&self.c.download()?, &self.left.expected)?.with_second(second.as_deref(), &self.left.expected)
    }

    fn recorded(&self) -> Result<Option<Recorded>, Failure> {
        Ok(Some((self.launcher.function().attributes()?, self.launcher.records()?)))
    }
}
