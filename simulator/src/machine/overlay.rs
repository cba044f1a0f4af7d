//! Each cluster's own view of global memory while it runs.
//!
//! Clusters run side by side on copies of the pages that they write; when all are done their writes are merged, and
//! bytes that two clusters touched (one of them writing) are reported.

use super::global::GlobalMemory;
use crate::check::shadow::{INITIALISED, Stamp};

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

/// Bytes of a buffer that one instruction of a warp has written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wrote {
    pub(crate) buffer: usize,
    /// The first and the one past the last of the buffer's bytes.
    pub(crate) bytes: (usize, usize),
    pub(crate) pc: u32,
    pub(crate) warp: u16,
}

/// One cluster's view.
pub(crate) struct Overlay<'a> {
    pub(crate) base: &'a GlobalMemory,
    pages: Pages,
    /// Byte states, page by page, where races are looked for.
    shadow: ByPage<Box<[u32]>>,
    log: bool,
    /// Who has written which bytes, in order, where that is requested.
    pub(crate) writers: Option<Vec<Wrote>>,
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
    pub(crate) writers: Vec<Wrote>,
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
    pub(crate) fn new(base: &'a GlobalMemory, log: bool, writers: bool) -> Self {
        Self {
            writers: writers.then(Vec::new),
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
            writers: self.writers.unwrap_or_default(),
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
        out.copy_from_slice(&self.base.contents(buffer)[offset..offset + out.len()]);
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

    /// Whether the bytes are there already.
    pub(crate) fn holds(&mut self, addr: u64, data: &[u8]) -> bool {
        let log = std::mem::replace(&mut self.log, false);
        let mut there = [0; 16];
        let same =
            data.len() <= there.len() && self.read(addr, &mut there[..data.len()], 0) && there[..data.len()] == *data;
        self.log = log;
        same
    }

    pub(crate) fn write(&mut self, addr: u64, data: &[u8], by: &Stamp) -> bool {
        let Some((buffer, offset)) = self.base.find(addr, data.len()) else {
            return false;
        };
        if self.log {
            note(&mut self.writes, addr, data.len(), by.pc);
        }
        if let Some(writers) = &mut self.writers {
            writers.push(Wrote { buffer, bytes: (offset, offset + data.len()), pc: by.pc, warp: by.warp });
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

    pub(crate) fn write_atomic(&mut self, addr: u64, data: &[u8], by: &Stamp) -> bool {
        let log = std::mem::replace(&mut self.log, false);
        let ok = self.write(addr, data, by);
        self.log = log;
        if log {
            note(&mut self.strong_writes, addr, data.len(), by.pc);
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
            let new = || vec![INITIALISED; PAGE].into_boxed_slice();
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
            let bytes = self.contents_mut(buffer);
            let n = PAGE.min(bytes.len() - p * PAGE);
            for i in 0..n {
                if page.written[i] {
                    bytes[p * PAGE + i] = page.data[i];
                }
            }
        }
    }
}
