//! Products and SDDMMs on a GPU.

use std::rc::Rc;

use bsr_codegen::{KernelSpec, Op};
use bsr_runtime::Launcher;
use bsr_runtime::bench::Work;
use bsr_runtime::gpu::{DeviceBsr, DeviceDense, DeviceVector, StreamRef};
use bsr_runtime::kernel::arguments::ByKind;
use bsr_runtime::typed::{Number, Typed, with_types};

use super::case::Recorded;
use super::operands::{Left, Mask, Operands};
use super::{Case, Launch, OnDevice};
use crate::problem::Sizes;
use crate::verify::{Expected, Verdict};
use crate::{Failure, Planned};

impl OnDevice for Operands {
    fn case(&mut self, planned: Planned) -> Result<Case, Failure> {
        let spec = *planned.spec();
        if spec.batch.is_on() {
            return Err(Failure::bad_input(
                "a kernel with batch = on is not launched on a GPU by this command: a program makes its list of products\n  \
                 help: `bsr run --device sim` and `bsr check` multiply a list on the simulator, of --batch products; batch = off otherwise",
            ));
        }
        with_types(&spec, Build { planned, operands: self })
    }

    fn product(&mut self) -> Option<&mut Operands> {
        Some(self)
    }
}

struct Build<'b> {
    planned: Planned,
    operands: &'b mut Operands,
}

impl Typed for Build<'_> {
    type Output = Case;
    type Error = Failure;

    fn run<A: Number, B: Number, C: Number>(self) -> Result<Case, Failure> {
        let Self { planned, operands } = self;
        let (device, spec) = (operands.device().clone(), *planned.spec());
        operands.step(format!("compiling {}", planned.ptx.entry()));
        let launcher = planned.launcher(&device)?;
        let (nnzb, expected, launch): (usize, Expected, Box<dyn Launch>) = match spec.op {
            Op::Sdd => {
                let (a, b) = (operands.dense_a::<A>(&spec)?, operands.right::<B>(&spec)?);
                let mask = operands.mask::<A, B>(&spec)?;
                let has_second = mask.expected.want.rows.is_some();
                let second = has_second.then(|| DeviceVector::zeros(&device, mask.structure.rows())).transpose()?;
                let c = DeviceBsr::<C>::zeros(&device, &mask.structure)?;
                let (nnzb, expected) = (mask.structure.nnzb(), mask.expected.clone());
                (nnzb, expected, Box::new(Sddmm { launcher, a, b, c, second, mask }))
            }
            _ => {
                let left = operands.left::<A, B>(&spec)?;
                let right = operands.right::<B>(&spec)?;
                let Sizes { m, n, .. } = operands.problem().sizes(&spec);
                let c = DeviceDense::<C>::zeros(&device, m, n, spec.c_layout)?;
                let reduction = spec.epilogue.and_then(|epilogue| epilogue.program().reduction());
                let second = reduction.map(|_| DeviceVector::zeros(&device, c.rows())).transpose()?;
                let (nnzb, expected) = (left.a.nnzb(), left.expected.clone());
                (nnzb, expected, Box::new(Product { launcher, left, right, c, second }))
            }
        };
        let Sizes { m, n, k, .. } = operands.problem().sizes(&spec);
        let block = planned.block();
        let KernelSpec { op, transpose, a, b, out, .. } = spec;
        let work = Work { op, transpose, m, n, k, block, nnzb, a, b, out };
        let (rows, tolerance) = (expected.rows, expected.want.tolerance);
        let (flops, bytes) = (work.executed_flops(), work.compulsory_bytes());
        Ok(Case { planned, rows, work, flops, bytes, tolerance, device, launch })
    }
}

struct Product<A: Number, B: Number, C: Number> {
    launcher: Launcher,
    left: Rc<Left<A>>,
    right: Rc<DeviceDense<B>>,
    c: DeviceDense<C>,
    /// The epilogue's second result.
    second: Option<DeviceVector<f32>>,
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

struct Sddmm<A: Number, B: Number, C: Number> {
    launcher: Launcher,
    a: Rc<DeviceDense<A>>,
    b: Rc<DeviceDense<B>>,
    c: DeviceBsr<C>,
    /// The epilogue's second result.
    second: Option<DeviceVector<f32>>,
    mask: Rc<Mask>,
}

impl<A: Number, B: Number, C: Number> Launch for Sddmm<A, B, C> {
    fn poison(&mut self) -> Result<(), Failure> {
        Ok(self.c.values_mut().fill_bytes(C::POISON_BYTE)?)
    }

    fn launch(&mut self, stream: StreamRef<'_>) -> Result<(), Failure> {
        let inputs = (&*self.a, &*self.b, self.mask.inputs.inputs());
        Ok(self.launcher.launch(stream, inputs, (&mut self.c, self.second.as_mut()))?)
    }

    fn verdict(&self) -> Result<Verdict, Failure> {
        let second = self.second.as_ref().map(DeviceVector::download).transpose()?;
        let verdict = Verdict::of_blocks(self.c.values().to_vec()?, self.c.structure(), &self.mask.expected)?;
        match &second {
            Some(second) => verdict.with_second(Some(second), &self.mask.expected),
            None => Ok(verdict),
        }
    }

    fn recorded(&self) -> Result<Option<Recorded>, Failure> {
        Ok(Some((self.launcher.function().attributes()?, self.launcher.records()?)))
    }
}
