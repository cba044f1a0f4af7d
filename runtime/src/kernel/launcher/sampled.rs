//! Launches of sampled products: A and B dense, the result in the blocks of a pattern.

use std::sync::{Mutex, PoisonError};

use bsr_codegen::{Argument, LaunchShape, Operand, Problem};

use super::{Launcher, Work, check_overlap};
use crate::Element;
use crate::gpu::{
    self, Device, DeviceBsr, DeviceBuffer, DeviceDense, DevicePtr, Plain, StreamRef, UntypedBsr, UntypedDense, Value,
    Values,
};
use crate::kernel::{KernelError, fit, sampled};

/// The operands of one launch.
#[derive(Clone, Copy, Debug)]
struct Operands<'a> {
    a: UntypedDense,
    b: UntypedDense,
    c: UntypedBsr<'a>,
}

/// The workspaces of one pattern: one for each stream, since launches on several streams may run at the same time. Each is
/// zero between two launches.
#[derive(Debug)]
pub(super) struct Workspaces {
    bytes: usize,
    /// By stream; the first is nobody's until a stream comes that has none, so that it can be made ahead of a capture.
    made: Mutex<Vec<(Option<usize>, DeviceBuffer<u8>)>>,
}

impl Workspaces {
    pub(super) fn new(device: &Device, bytes: usize) -> Result<Self, KernelError> {
        let spare = if bytes == 0 { vec![] } else { vec![(None, DeviceBuffer::zeroed(device, bytes)?)] };
        Ok(Self { bytes, made: Mutex::new(spare) })
    }

    /// The workspace of a stream, made now or before; none where the work needs none.
    fn of(&self, device: &Device, stream: StreamRef<'_>) -> Result<DevicePtr, KernelError> {
        if self.bytes == 0 {
            return Ok(0);
        }
        let key = Some(stream.raw().addr());
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, buffer)) = made.iter().find(|(owner, _)| *owner == key) {
            return Ok(buffer.ptr());
        }
        if let Some((owner, buffer)) = made.iter_mut().find(|(owner, _)| owner.is_none()) {
            *owner = key;
            return Ok(buffer.ptr());
        }
        let buffer = DeviceBuffer::zeroed(device, self.bytes)?;
        let at = buffer.ptr();
        made.push((key, buffer));
        Ok(at)
    }
}

impl Launcher {
    /// Makes the work plan for a pattern and `k` elements of K ahead of the first launch.
    ///
    /// # Errors
    /// As [`Launcher::launch_sampled`].
    pub fn prepare_sampled<C: Element + Plain>(&self, c: &DeviceBsr<C>, k: usize) -> Result<(), KernelError> {
        fit::block(&self.plan, c.structure())?;
        sampled::sizes(c.structure(), k)?;
        self.work(&c.untyped(), k).map(drop)
    }

    /// Enqueues the stored blocks of C = A * B on `stream`; see [`crate::Loaded::launch_sampled`].
    ///
    /// # Errors
    /// A kernel of another operation; shapes, blocks or layouts that do not fit the kernel, sizes beyond 32-bit
    /// coordinates, C overlapping A or B, or the driver's refusal. Nothing is launched in these cases.
    pub fn launch_sampled<A: Element + Plain, B: Element + Plain, C: Element + Plain>(
        &self,
        stream: StreamRef<'_>,
        a: &DeviceDense<A>,
        b: &DeviceDense<B>,
        c: &mut DeviceBsr<C>,
    ) -> Result<(), KernelError> {
        let operands = Operands { a: a.untyped(), b: b.untyped(), c: c.untyped() };
        self.check_sampled(&operands)?;
        if c.nnzb() == 0 {
            return Ok(());
        }
        if a.cols() == 0 {
            // Sums of no products. TMA has no maps of empty matrices.
            return Ok(c.values_mut().fill_bytes_on(0, stream)?);
        }
        let work = self.work(&operands.c, a.cols())?;
        let problem = Problem {
            m: a.rows() as u64,
            n: b.cols() as u64,
            k: a.cols() as u64,
            nnzb: c.nnzb() as u64,
            lda: a.ld() as u64,
            ldb: b.ld() as u64,
            ldc: 0,
            ldt: 0,
        };
        let shape = self.plan.launch(&problem, work.grid);
        let workspace = work.workspaces.of(&self.device, stream)?;
        let values = self.sampled_values(&shape, &operands, &work, workspace)?;
        // SAFETY: the kernel is the plan's, whose parameters these are; the maps are of the matrices, which the checks
        // above have found to be of the problem's shape; the work plan was made for this pattern (by fingerprint) and
        // this K. C is borrowed mutably, and the workspace is this stream's.
        unsafe { gpu::launch(&self.function, &shape, &values, stream)? };
        Ok(())
    }

    fn check_sampled(&self, operands: &Operands<'_>) -> Result<(), KernelError> {
        let Operands { a, b, c } = operands;
        let shape = |dense: &UntypedDense| {
            let UntypedDense { dtype, layout, rows, cols, .. } = *dense;
            fit::Operand { dtype, layout, rows, cols }
        };
        sampled::operands(&self.plan, &shape(a), &shape(b), (c.dtype, c.structure))?;
        check_overlap("A", c.values, a.range())?;
        check_overlap("B", c.values, b.range())
    }

    fn sampled_values(
        &self,
        shape: &LaunchShape,
        operands: &Operands<'_>,
        work: &Work,
        workspace: DevicePtr,
    ) -> Result<Values, KernelError> {
        let mut values = Values::new();
        for parameter in &shape.parameters {
            let address = |operand| match operand {
                Operand::A => operands.a.ptr,
                Operand::B => operands.b.ptr,
                _ => operands.c.values.0,
            };
            values.push(match &parameter.argument {
                Argument::Map(map) => Value::Map(self.maps.get(address(map.operand), map)?),
                Argument::Pointer(operand) => Value::Pointer(address(*operand)),
                Argument::WorkHead => Value::Pointer(work.heads.ptr()),
                Argument::Work => Value::Pointer(work.items.ptr()),
                Argument::Workspace => Value::Pointer(workspace),
                Argument::Number(number) => Value::Number(*number),
                // Of the other operations alone.
                _ => Value::Pointer(operands.c.col_idx),
            });
        }
        Ok(values)
    }
}
