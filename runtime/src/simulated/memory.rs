//! What a launch reads and writes, in the simulator's memory.

use bsr_codegen::epilogue::Program;
use bsr_codegen::{Dtype, Layout, Scale};
use bsr_simulator::BufferId;

use super::lines::Factor;
use super::machine::Simulator;
use crate::call::matrix::HostDense;
use crate::epilogue::{Input, Inputs};
use crate::gpu::{
    DeviceInput, DeviceInputs, Fingerprint, Range, UntypedDense, UntypedOrder, UntypedScales, UntypedVector,
};
use crate::launcher::Launcher;
use crate::machine::Sim;
use crate::operation::check::Operand;
use crate::operation::program_of;
use crate::{Dense, Element};

impl Launcher<Simulator> {
    /// A dense factor; at another buffer's address, without content, where the kernel reads nothing of it.
    pub(super) fn dense(
        &self,
        sim: &mut Sim<'_>,
        dense: &HostDense<'_>,
        unread: Option<BufferId>,
    ) -> UntypedDense<BufferId> {
        let (factor, operand) = (Factor::new(self.machine(), dense), dense.operand);
        let ld = factor.ld;
        placed(unread.unwrap_or_else(|| factor.upload(self.machine(), &mut sim.memory)), operand, ld)
    }

    /// A dense result, and what lies between its lines.
    pub(super) fn dense_c<C: Element>(&self, sim: &mut Sim<'_>, c: &Dense<C>) -> UntypedDense<BufferId> {
        let id = self.machine().lines(&mut sim.memory, C::to_bytes(c.data()), c.ld() * size_of::<C>());
        if !c.data().is_empty() {
            let line = if c.layout() == Layout::RowMajor { c.cols() } else { c.rows() };
            sim.memory.pad(id, (line * size_of::<C>()) as u64, (c.ld() * size_of::<C>()) as u64);
        }
        placed(sim.result(id), Operand::from(c), self.machine().leading(c.ld(), size_of::<C>()))
    }

    /// What the kernel reads besides its factors.
    pub(super) fn further<'h>(&self, sim: &mut Sim<'_>, given: &'h Inputs) -> DeviceInputs<'h, BufferId> {
        let mut inputs = DeviceInputs::none();
        for name in given.names() {
            let input = match given.get(name) {
                Some(Input::Vector(vector)) => {
                    let ptr = sim.bytes(vector.to_bytes());
                    DeviceInput::Vector(UntypedVector { ptr, dtype: vector.dtype(), len: vector.len() })
                }
                Some(Input::Matrix(matrix)) => {
                    let (padded, (rows, cols)) = (matrix.padded(), matrix.shape());
                    let operand = Operand { dtype: matrix.dtype(), layout: matrix.layout(), rows, cols };
                    DeviceInput::Matrix(placed(sim.bytes(padded.to_bytes()), operand, padded.ld() as u64))
                }
                Some(Input::Blocks(blocks)) => {
                    let id = sim.bytes(blocks.to_bytes());
                    let fingerprint = Fingerprint::of(blocks.structure());
                    DeviceInput::Blocks { dtype: blocks.dtype(), fingerprint, by_rows: true, values: (id, id) }
                }
                Some(Input::Scalar(value)) => DeviceInput::Scalar(*value),
                Some(Input::Result(_) | Input::Held(_)) | None => DeviceInput::Result,
            };
            inputs = inputs.with(name, input);
        }
        let scales = given.scales_given();
        if scales.kind() != Scale::Unscaled {
            let [a, b] = [scales.a(), scales.b()].map(|of| Range { ptr: sim.bytes(f32::to_bytes(of)), len: of.len() });
            inputs.scales = Some(UntypedScales { kind: scales.kind(), a, b });
        }
        inputs.order = given.rows_to().map(|order| {
            let ptr = sim.bytes(order.as_slice().iter().flat_map(|row| row.to_le_bytes()).collect());
            UntypedOrder { ptr, len: order.len() }
        });
        inputs
    }

    /// A place for the second result of an epilogue that has one.
    pub(super) fn second(&self, sim: &mut Sim<'_>, rows: usize) -> Option<UntypedVector<BufferId>> {
        program_of(self.plan()).and_then(Program::reduction)?;
        let id = sim.bytes(vec![0; size_of::<f32>() * rows]);
        Some(UntypedVector { ptr: sim.result(id), dtype: Dtype::F32, len: rows })
    }
}

fn placed(ptr: BufferId, operand: Operand, ld: u64) -> UntypedDense<BufferId> {
    let Operand { dtype, layout, rows, cols } = operand;
    UntypedDense { ptr, dtype, rows, cols, layout, ld: ld as usize, foreign: false, on: None }
}

/// The second result after the launch.
pub(super) fn rows_of(sim: &Sim<'_>, second: Option<UntypedVector<BufferId>>) -> Option<Vec<f32>> {
    second.map(|second| f32::from_bytes(&sim.memory.bytes(second.ptr)[..size_of::<f32>() * second.len]))
}

/// A result whose lines lie 16 bytes further apart than they must: a kernel may not rely on the least distance, and what
/// it writes between them is seen.
pub(super) fn apart<T: Element>(c: &Dense<T>) -> Dense<T> {
    let (ld, wide) = (c.ld(), c.ld() + 16 / size_of::<T>());
    let mut data = vec![T::POISON; c.data().len() / ld.max(1) * wide];
    data.chunks_mut(wide).zip(c.data().chunks(ld)).for_each(|(to, from)| to[..ld].copy_from_slice(from));
    Dense::from_vec(c.rows(), c.cols(), c.layout(), wide, data).unwrap_or_else(|_| c.clone())
}

/// Takes over the lines of a result that lie `ld` elements apart in `data`.
pub(super) fn copy_lines<T: Element>(c: &mut Dense<T>, ld: usize, data: &[T]) {
    let own = c.ld();
    c.data_mut().chunks_mut(own).zip(data.chunks(ld)).for_each(|(to, from)| to.copy_from_slice(&from[..own]));
}
