//! Buffers in the simulator's memory.

use bsr_simulator::{BufferId, GlobalMemory};

use super::element::Element;

/// A buffer in the simulator's memory.
#[derive(Clone, Debug)]
pub struct Placed {
    /// Where it is.
    pub id: BufferId,
    /// The type of its elements.
    pub element: Element,
    /// Elements in each dimension, the last one innermost.
    pub shape: Vec<u64>,
    /// Bytes of a row, and from one to the next.
    pub rows: (u64, u64),
}

impl Placed {
    /// Places elements without gaps at a multiple of `align` bytes and of no larger power of two.
    pub fn dense(memory: &mut GlobalMemory, bytes: Vec<u8>, element: Element, shape: Vec<u64>, align: u64) -> Self {
        let row = shape.last().copied().unwrap_or(1) * element.bytes() as u64;
        Self { id: memory.upload(bytes, align), element, shape, rows: (row, row) }
    }

    /// The elements without what is between rows.
    pub fn elements(&self, memory: &GlobalMemory) -> Vec<u8> {
        let (bytes, (row, pitch)) = (memory.bytes(self.id), self.rows);
        if row == pitch {
            return bytes.to_vec();
        }
        bytes.chunks(pitch as usize).flat_map(|line| line[..row as usize].to_vec()).collect()
    }
}
