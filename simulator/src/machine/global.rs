//! Global memory: the buffers of a launch, and each cluster's own view of them while it runs.
//!
//! Clusters run side by side on copies of the pages that they write; when all are done their writes are merged, and
//! bytes that two clusters touched (one of them writing) are reported.

use std::collections::BTreeMap;

use super::address::GLOBAL_BASE;
use super::tensor_map::TensorMapDesc;

/// Names a buffer of a [`GlobalMemory`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BufferId(pub(crate) usize);

#[derive(Clone, Debug)]
struct Buffer {
    base: u64,
    bytes: Vec<u8>,
    /// No earlier kernel writes it.
    settled: bool,
    /// Bytes of a line, and from one line to the next, where what lies between is not to be written.
    lines: Option<(u64, u64)>,
}

/// The buffers that a launch reads and writes.
#[derive(Clone, Debug, Default)]
pub struct GlobalMemory {
    buffers: Vec<Buffer>,
    /// Tensor maps by their addresses.
    maps: BTreeMap<u64, TensorMapDesc>,
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
        let align = align.max(16).next_power_of_two();
        let end = self.buffers.last().map_or(GLOBAL_BASE, |b| b.base + b.bytes.len() as u64);
        let mut base = (end + GAP).next_multiple_of(align);
        if base.is_multiple_of(align * 2) {
            base += align;
        }
        self.buffers.push(Buffer { base, bytes, settled: false, lines: None });
        BufferId(self.buffers.len() - 1)
    }

    /// Says that no earlier kernel writes this buffer: a dependent launch may read it before `griddepcontrol.wait`.
    pub fn settle(&mut self, id: BufferId) {
        self.buffers[id.0].settled = true;
    }

    /// Says that the buffer holds lines of `line` bytes, `pitch` bytes apart, and that what lies between them is not to be
    /// written: a write there is a finding. Stores may fill up the last 16 bytes of a line, as those of tensor copies do.
    pub fn pad(&mut self, id: BufferId, line: u64, pitch: u64) {
        self.buffers[id.0].lines = (line < pitch).then_some((line, pitch));
    }

    /// The first of these bytes that lies between two lines: its line, and how far beyond the line's end.
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

    /// The tensor map at an address.
    pub(crate) fn map_at(&self, address: u64) -> Option<&TensorMapDesc> {
        self.maps.get(&address)
    }

    /// Whether bytes of a tensor map lie there.
    pub(crate) fn holds_map(&self, address: u64, bytes: u64) -> bool {
        let before = self.maps.range(..address + bytes).next_back();
        before.is_some_and(|(start, _)| start + MAP_BYTES > address)
    }

    /// Tensor maps that a driver would refuse, or that lie where none may: their addresses and why.
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

    /// (buffer, offset) if `len` bytes from `addr` lie in one buffer.
    fn find(&self, addr: u64, len: usize) -> Option<(usize, usize)> {
        let i = self.buffers.partition_point(|b| b.base <= addr).checked_sub(1)?;
        let offset = usize::try_from(addr - self.buffers[i].base).ok()?;
        (offset.checked_add(len)? <= self.buffers[i].bytes.len()).then_some((i, offset))
    }

    /// The nearest buffer below `addr`, for a report: (number, its length, distance of `addr` from its start).
    pub(crate) fn nearest(&self, addr: u64) -> Option<(usize, usize, u64)> {
        let i = self.buffers.partition_point(|b| b.base <= addr).checked_sub(1)?;
        Some((i, self.buffers[i].bytes.len(), addr - self.buffers[i].base))
    }
}

const PAGE: usize = 4096;

/// Something for each page of each buffer that was touched, by buffer and page.
struct ByPage<T>(Vec<Vec<Option<T>>>);

impl<T> Default for ByPage<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> ByPage<T> {
    fn get(&self, buffer: usize, page: usize) -> Option<&T> {
        self.0.get(buffer)?.get(page)?.as_ref()
    }

    fn get_or_insert_with(&mut self, buffer: usize, page: usize, new: impl FnOnce() -> T) -> &mut T {
        if self.0.len() <= buffer {
            self.0.resize_with(buffer + 1, Vec::new);
        }
        let pages = &mut self.0[buffer];
        if pages.len() <= page {
            pages.resize_with(page + 1, || None);
        }
        pages[page].get_or_insert_with(new)
    }

    /// All there are: buffer, page and what is there.
    fn iter(&self) -> impl Iterator<Item = (usize, usize, &T)> {
        let pages = |(buffer, pages): (usize, &'_ Vec<Option<T>>)| (buffer, pages.len());
        self.0.iter().enumerate().map(pages).flat_map(move |(buffer, count)| {
            (0..count).filter_map(move |page| self.get(buffer, page).map(|there| (buffer, page, there)))
        })
    }
}

/// What was written, page by page.
#[derive(Default)]
pub(crate) struct Pages {
    written: ByPage<Page>,
    /// How often a write has changed a byte.
    pub(crate) changes: u64,
}

pub(crate) struct Page {
    data: Box<[u8]>,
    written: Box<[bool]>,
}

/// A range of bytes touched by one instruction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Touch {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) pc: u32,
}

/// One cluster's view.
pub(crate) struct Overlay<'a> {
    pub(crate) base: &'a GlobalMemory,
    pages: Pages,
    /// Byte states, page by page, where races are looked for.
    shadow: ByPage<Box<[u32]>>,
    log: bool,
    pub(crate) reads: Vec<Touch>,
    pub(crate) writes: Vec<Touch>,
    /// Reads that take their bytes for constant.
    pub(crate) constant: Vec<Touch>,
    pub(crate) strong_reads: Vec<Touch>,
    pub(crate) strong_writes: Vec<Touch>,
}

/// What a cluster leaves behind.
pub(crate) struct Changes {
    pub(crate) pages: Pages,
    pub(crate) reads: Vec<Touch>,
    pub(crate) writes: Vec<Touch>,
    pub(crate) constant: Vec<Touch>,
    pub(crate) strong_reads: Vec<Touch>,
    pub(crate) strong_writes: Vec<Touch>,
}

fn note(list: &mut Vec<Touch>, start: u64, len: usize, pc: u32) {
    let end = start + len as u64;
    if let Some(last) = list.last_mut()
        && last.pc == pc
        && last.end == start
    {
        last.end = end;
        return;
    }
    list.push(Touch { start, end, pc });
    if list.len() >= 1 << 20 && list.len().is_power_of_two() {
        merge(list);
    }
}

/// Sorts and joins touching ranges of one instruction.
pub(crate) fn merge(list: &mut Vec<Touch>) {
    list.sort_unstable_by_key(|t| (t.pc, t.start));
    list.dedup_by(|b, a| {
        let joins = a.pc == b.pc && b.start <= a.end;
        if joins {
            a.end = a.end.max(b.end);
        }
        joins
    });
}

impl<'a> Overlay<'a> {
    pub(crate) fn new(base: &'a GlobalMemory, log: bool) -> Self {
        Self {
            base,
            pages: Pages::default(),
            shadow: ByPage::default(),
            log,
            reads: Vec::new(),
            writes: Vec::new(),
            constant: Vec::new(),
            strong_reads: Vec::new(),
            strong_writes: Vec::new(),
        }
    }

    pub(crate) fn finish(self) -> Changes {
        Changes {
            pages: self.pages,
            reads: self.reads,
            writes: self.writes,
            constant: self.constant,
            strong_reads: self.strong_reads,
            strong_writes: self.strong_writes,
        }
    }

    /// How often a write has changed a byte.
    pub(crate) fn changes(&self) -> u64 {
        self.pages.changes
    }

    /// Exchanges what was written with another view: clusters that run together see one memory.
    pub(crate) fn swap_pages(&mut self, pages: &mut Pages) {
        std::mem::swap(&mut self.pages, pages);
    }

    pub(crate) fn contains(&self, addr: u64, len: usize) -> bool {
        self.base.find(addr, len).is_some()
    }

    /// Fills `out`; false if the range is not inside a buffer.
    pub(crate) fn read(&mut self, addr: u64, out: &mut [u8], pc: u32) -> bool {
        let Some((buffer, offset)) = self.base.find(addr, out.len()) else {
            return false;
        };
        if self.log {
            note(&mut self.reads, addr, out.len(), pc);
        }
        out.copy_from_slice(&self.base.buffers[buffer].bytes[offset..offset + out.len()]);
        let (first, last) = (offset / PAGE, (offset + out.len()).saturating_sub(1) / PAGE);
        for p in first..=last {
            let Some(page) = self.pages.written.get(buffer, p) else { continue };
            let from = offset.max(p * PAGE);
            let to = (offset + out.len()).min((p + 1) * PAGE);
            for at in from..to {
                if page.written[at - p * PAGE] {
                    out[at - offset] = page.data[at - p * PAGE];
                }
            }
        }
        true
    }

    pub(crate) fn write(&mut self, addr: u64, data: &[u8], pc: u32) -> bool {
        let Some((buffer, offset)) = self.base.find(addr, data.len()) else {
            return false;
        };
        if self.log {
            note(&mut self.writes, addr, data.len(), pc);
        }
        let (mut done, mut changed) = (0, false);
        while done < data.len() {
            let at = offset + done;
            let (p, within) = (at / PAGE, at % PAGE);
            let n = (PAGE - within).min(data.len() - done);
            let page = self.pages.written.get_or_insert_with(buffer, p, || Page {
                data: vec![0; PAGE].into_boxed_slice(),
                written: vec![false; PAGE].into_boxed_slice(),
            });
            let (to, from) = (within..within + n, &data[done..done + n]);
            changed |= page.data[to.clone()] != *from || page.written[to.clone()].contains(&false);
            page.data[to.clone()].copy_from_slice(from);
            page.written[to].fill(true);
            done += n;
        }
        self.pages.changes += u64::from(changed);
        true
    }

    /// `ld.global.nc`
    pub(crate) fn note_constant(&mut self, addr: u64, len: usize, pc: u32) {
        if self.log {
            note(&mut self.constant, addr, len, pc);
        }
    }

    /// Atomic accesses are not noted: two clusters may make them.
    pub(crate) fn read_atomic(&mut self, addr: u64, out: &mut [u8], pc: u32) -> bool {
        let log = std::mem::replace(&mut self.log, false);
        let ok = self.read(addr, out, 0);
        self.log = log;
        if log {
            note(&mut self.strong_reads, addr, out.len(), pc);
        }
        ok
    }

    pub(crate) fn write_atomic(&mut self, addr: u64, data: &[u8], pc: u32) -> bool {
        let log = std::mem::replace(&mut self.log, false);
        let ok = self.write(addr, data, 0);
        self.log = log;
        if log {
            note(&mut self.strong_writes, addr, data.len(), pc);
        }
        ok
    }

    /// Calls `f` with the states of the bytes, piece by piece: (offset in the range, states).
    pub(crate) fn shadow(&mut self, addr: u64, len: usize, mut f: impl FnMut(usize, &mut [u32])) {
        let Some((buffer, offset)) = self.base.find(addr, len) else {
            return;
        };
        let mut done = 0;
        while done < len {
            let at = offset + done;
            let (p, within) = (at / PAGE, at % PAGE);
            let n = (PAGE - within).min(len - done);
            let new = || vec![crate::check::shadow::INITIALISED; PAGE].into_boxed_slice();
            let page = self.shadow.get_or_insert_with(buffer, p, new);
            f(done, &mut page[within..within + n]);
            done += n;
        }
    }

    pub(crate) fn shadows(&mut self) -> impl Iterator<Item = &mut [u32]> {
        self.shadow.0.iter_mut().flatten().flatten().map(|s| &mut s[..])
    }
}

impl GlobalMemory {
    /// Takes over a cluster's writes.
    pub(crate) fn apply(&mut self, changes: &Changes) {
        for (buffer, p, page) in changes.pages.written.iter() {
            let bytes = &mut self.buffers[buffer].bytes;
            let n = PAGE.min(bytes.len() - p * PAGE);
            for i in 0..n {
                if page.written[i] {
                    bytes[p * PAGE + i] = page.data[i];
                }
            }
        }
    }
}
