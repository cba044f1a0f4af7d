//! Global memory: the buffers of a launch.

use std::collections::BTreeMap;

use super::tensor_map::TensorMapDesc;
use crate::address::GLOBAL_BASE;

/// Names a buffer of a [`GlobalMemory`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BufferId(pub(crate) usize);

#[derive(Clone, Debug)]
struct Buffer {
    base: u64,
    bytes: Vec<u8>,
    /// No earlier kernel writes it.
    settled: bool,
    /// Bytes of a line, and from one line to the next, where the gap between lines must not be written.
    lines: Option<(u64, u64)>,
    /// Bytes that `bytes` has of a line, and from one line to the next in the address space.
    spread: Option<(u64, u64)>,
}

impl Buffer {
    /// Bytes of the address space that the buffer takes.
    fn extent(&self) -> u64 {
        let stored = self.bytes.len() as u64;
        self.spread.map_or(stored, |(line, pitch)| stored / line * pitch)
    }

    /// Where `len` bytes from `offset` on are in `bytes`.
    fn place(&self, offset: u64, len: u64) -> Option<usize> {
        let at = match self.spread {
            None => offset,
            Some((line, pitch)) if offset % pitch + len <= line => offset / pitch * line + offset % pitch,
            Some(_) => return None,
        };
        (at.checked_add(len)? <= self.bytes.len() as u64).then_some(at as usize)
    }
}

/// The buffers that a launch reads and writes.
#[derive(Clone, Debug, Default)]
pub struct GlobalMemory {
    buffers: Vec<Buffer>,
    /// Tensor maps by their addresses.
    maps: BTreeMap<u64, TensorMapDesc>,
    /// The variables of the module that runs: the last buffer.
    module: Option<BufferId>,
}

/// Bytes of a tensor map.
const MAP_BYTES: u64 = 128;
/// Bytes between two buffers: an overrun hits nothing.
const GAP: u64 = 1 << 16;

impl GlobalMemory {
    /// Empty memory.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A zeroed buffer of `bytes` bytes whose address is a multiple of `align` (rounded up to a power of two, at
    /// least 16) and of nothing larger: what a kernel assumes beyond that, it gets wrong here.
    pub fn alloc(&mut self, bytes: usize, align: u64) -> BufferId {
        self.upload(vec![0; bytes], align)
    }

    /// A buffer holding `bytes`.
    pub fn upload(&mut self, bytes: Vec<u8>, align: u64) -> BufferId {
        self.place(bytes, None, align)
    }

    /// A buffer of lines of `line` bytes that are `pitch` bytes apart in the address space, however far that is; `bytes` has
    /// them one after the other. The gap between two lines does not exist: an access to it is out of bounds.
    ///
    /// # Panics
    /// If `bytes` is not a number of whole lines, or lines overlap.
    pub fn upload_spread(&mut self, bytes: Vec<u8>, line: u64, pitch: u64, align: u64) -> BufferId {
        assert!(line > 0 && line <= pitch && (bytes.len() as u64).is_multiple_of(line), "{line} bytes every {pitch}");
        self.place(bytes, Some((line, pitch)), align)
    }

    fn place(&mut self, bytes: Vec<u8>, spread: Option<(u64, u64)>, align: u64) -> BufferId {
        let align = align.max(16).next_power_of_two();
        let end = self.buffers.last().map_or(GLOBAL_BASE, |b| b.base + b.extent());
        let mut base = (end + GAP).next_multiple_of(align);
        if base.is_multiple_of(align * 2) {
            base += align;
        }
        self.buffers.push(Buffer { base, bytes, settled: false, lines: None, spread });
        BufferId(self.buffers.len() - 1)
    }

    /// Says that no earlier kernel writes this buffer: a dependent launch may read it before `griddepcontrol.wait`.
    pub fn settle(&mut self, id: BufferId) {
        self.buffers[id.0].settled = true;
    }

    /// Says that the buffer's bytes are lines of `line` bytes, `pitch` bytes apart, and that the gaps between them must not be
    /// written: a write there is a finding. Stores may fill up the last 16 bytes of a line, as those of tensor copies do.
    pub fn pad(&mut self, id: BufferId, line: u64, pitch: u64) {
        self.buffers[id.0].lines = (line < pitch).then_some((line, pitch));
    }

    /// The first of these bytes that is between two lines: its line, and how far beyond the line's end.
    pub(crate) fn between_lines(&self, addr: u64, len: usize) -> Option<(u64, u64)> {
        let (buffer, offset) = self.find(addr, len)?;
        let (line, pitch) = self.buffers[buffer].lines?;
        let most = line.next_multiple_of(16);
        let (offset, len) = (offset as u64, len as u64);
        let (at, within) = (offset / pitch, offset % pitch);
        (within + len > most).then(|| (at, within.max(most) - line))
    }

    /// Whether an earlier kernel may still be writing these bytes of a dependent launch.
    pub(crate) fn unsettled(&self, addr: u64, len: usize) -> bool {
        self.find(addr, len).is_some_and(|(buffer, _)| !self.buffers[buffer].settled)
    }

    /// The contents of a buffer.
    #[must_use]
    pub fn bytes(&self, id: BufferId) -> &[u8] {
        &self.buffers[id.0].bytes
    }

    /// The contents of a buffer, to change between launches.
    pub fn bytes_mut(&mut self, id: BufferId) -> &mut [u8] {
        &mut self.buffers[id.0].bytes
    }

    /// The address a kernel sees.
    #[must_use]
    pub fn address(&self, id: BufferId) -> u64 {
        self.buffers[id.0].base
    }

    /// Places a tensor map of 128 bytes in a buffer, as a host's copy of an encoded one would: kernels may use it after a
    /// `fence.proxy.tensormap`. Its bytes stay as they are.
    pub fn place_map(&mut self, id: BufferId, offset: u64, map: TensorMapDesc) {
        let address = self.address(id) + offset;
        self.maps.insert(address, map);
    }

    /// Places the variables of a module for one launch.
    pub(crate) fn enter(&mut self, variables: &[u8]) {
        if !variables.is_empty() {
            let id = self.upload(variables.to_vec(), 256);
            self.settle(id);
            self.module = Some(id);
        }
    }

    /// The launch is over.
    pub(crate) fn leave(&mut self) {
        if self.module.take().is_some() {
            self.buffers.pop();
        }
    }

    /// Where the variables of the module are.
    pub(crate) fn module_address(&self) -> u64 {
        self.module.map_or(0, |id| self.address(id))
    }

    /// The tensor map at an address.
    pub(crate) fn map_at(&self, address: u64) -> Option<&TensorMapDesc> {
        self.maps.get(&address)
    }

    /// Whether bytes of a tensor map are there.
    pub(crate) fn holds_map(&self, address: u64, bytes: u64) -> bool {
        let before = self.maps.range(..address + bytes).next_back();
        before.is_some_and(|(start, _)| start + MAP_BYTES > address)
    }

    /// Tensor maps that a driver would refuse, or that are where none may be: their addresses and why.
    pub(crate) fn bad_maps(&self) -> impl Iterator<Item = (u64, String)> + '_ {
        self.maps.iter().filter_map(|(address, map)| {
            if !address.is_multiple_of(64) {
                return Some((*address, "a tensor map is aligned to 64 bytes".to_owned()));
            }
            if self.find(*address, MAP_BYTES as usize).is_none() {
                return Some((*address, "its 128 bytes are not all in one buffer".to_owned()));
            }
            map.check(self).err().map(|reason| (*address, reason))
        })
    }

    pub(crate) fn has(&self, id: BufferId) -> bool {
        id.0 < self.buffers.len()
    }

    /// The bytes of a buffer, by its number.
    pub(crate) fn contents(&self, buffer: usize) -> &[u8] {
        &self.buffers[buffer].bytes
    }

    pub(crate) fn contents_mut(&mut self, buffer: usize) -> &mut [u8] {
        &mut self.buffers[buffer].bytes
    }

    /// (buffer, offset) if `len` bytes from `addr` are in one buffer.
    pub(crate) fn find(&self, addr: u64, len: usize) -> Option<(usize, usize)> {
        let i = self.buffers.partition_point(|b| b.base <= addr).checked_sub(1)?;
        let buffer = &self.buffers[i];
        Some((i, buffer.place(addr - buffer.base, len as u64)?))
    }

    /// The nearest buffer below `addr`, for a report: (number, its length, distance of `addr` from its start).
    pub(crate) fn nearest(&self, addr: u64) -> Option<(usize, u64, u64)> {
        let i = self.buffers.partition_point(|b| b.base <= addr).checked_sub(1)?;
        Some((i, self.buffers[i].extent(), addr - self.buffers[i].base))
    }

    /// The lines of a buffer that are apart in the address space: their bytes, and the distance.
    pub(crate) fn spread(&self, buffer: usize) -> Option<(u64, u64)> {
        self.buffers[buffer].spread
    }
}
