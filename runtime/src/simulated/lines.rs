//! Where the lines of operands lie in the simulator's memory, and who has written a result.

use bsr_simulator::{BufferId, GlobalMemory, Report};

use super::machine::Simulator;
use crate::call::matrix::HostDense;
use crate::machine::{ALIGN, upload};

/// Bytes from one line of a far operand to the next, as many as kernels count in 32 bits: offsets in bytes overflow at the
/// third line, in elements of two bytes at the fourth, and in pieces of 16 bytes at the 23rd.
const FAR: usize = 3 << 30;

impl Simulator {
    /// The leading dimension that the kernel is told of a matrix with lines of `ld` elements of some bytes.
    pub(super) fn leading(&self, ld: usize, bytes: usize) -> u64 {
        (if self.far { FAR / bytes } else { ld }) as u64
    }

    /// A matrix with lines of `line` bytes.
    pub(super) fn lines(&self, memory: &mut GlobalMemory, bytes: Vec<u8>, line: usize) -> BufferId {
        match self.far && !bytes.is_empty() {
            true => memory.upload_spread(bytes, line as u64, FAR as u64, ALIGN),
            false => upload(memory, bytes),
        }
    }
}

/// What the kernel is told of a dense factor, and what it finds in memory.
pub(super) struct Factor {
    /// The leading dimension.
    pub(super) ld: u64,
    line: usize,
    content: Vec<u8>,
}

impl Factor {
    pub(super) fn new(kernel: &Simulator, dense: &HostDense<'_>) -> Self {
        let ((ld, content), each) = (dense.memory.placed(dense.operand.layout), dense.operand.dtype.bytes() as usize);
        Self { ld: kernel.leading(ld, each), line: ld * each, content }
    }

    pub(super) fn upload(self, kernel: &Simulator, memory: &mut GlobalMemory) -> BufferId {
        kernel.lines(memory, self.content, self.line)
    }
}

/// Leaves the writers of a result, whose lines lie `there` bytes apart in memory and `here` bytes in the matrix that is
/// handed out, with their bytes counted in the latter.
pub(super) fn writers_of(report: &mut Report, result: BufferId, [there, here]: [usize; 2]) {
    report.writers.retain(|writer| writer.buffer == result && writer.bytes.start % there < here);
    for writer in &mut report.writers {
        let place = |at: usize| at / there * here + (at % there).min(here);
        writer.bytes = place(writer.bytes.start)..place(writer.bytes.end - 1) + 1;
    }
}
