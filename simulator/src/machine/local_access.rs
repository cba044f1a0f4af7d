//! Accesses to the local memory of threads.

use super::local::Local;
use super::memory::Who;
use super::{Exec, Machine};
use crate::address::LOCAL_BASE;
use crate::arithmetic::numbers::raw;
use crate::check::FindingKind;
use crate::check::shadow::Stamp;

impl Machine<'_> {
    /// The bytes of a thread's local memory, which begins to exist when it is first accessed.
    fn local(&mut self, thread: u32) -> &mut Local {
        let bytes = self.program.local_bytes as usize;
        let new = || Local { bytes: vec![0xff; bytes].into(), written: vec![false; bytes].into() };
        self.locals[thread as usize].get_or_insert_with(new)
    }

    /// Where in a thread's local memory an address is.
    pub(super) fn local_offset(&mut self, who: Who, lane: u32, raw: u64, bytes: u32) -> Exec<u32> {
        let size = u64::from(self.program.local_bytes);
        let offset = raw.wrapping_sub(u64::from(LOCAL_BASE));
        if offset.checked_add(u64::from(bytes)).is_none_or(|end| end > size) {
            let text = format!("{bytes} bytes at byte {} of local memory, which has {size}", offset as i64);
            return self.fail(FindingKind::OutOfBounds, who.w, 1 << lane, who.pc, text);
        }
        Ok(offset as u32)
    }

    pub(crate) fn load_local(&mut self, now: &Stamp, thread: u32, offset: u32, out: &mut [u8]) -> Exec<()> {
        let range = offset as usize..offset as usize + out.len();
        let races = self.options.races;
        let local = self.local(thread);
        out.copy_from_slice(&local.bytes[range.clone()]);
        // Copies of structures read the padding between their members, too.
        if !races || local.written[range.clone()].contains(&true) {
            return Ok(());
        }
        local.written[range.clone()].fill(true);
        let side = self.stamp_side(now, false);
        let text =
            format!("bytes {} to {} of local memory are read before they are written", range.start, range.end - 1);
        self.report(FindingKind::UninitialisedRead, text, vec![side], None)
    }

    pub(crate) fn store_local(&mut self, thread: u32, offset: u32, data: &[u8]) {
        let range = offset as usize..offset as usize + data.len();
        let local = self.local(thread);
        local.bytes[range.clone()].copy_from_slice(data);
        local.written[range].fill(true);
    }

    /// A number of up to 8 bytes there, of whatever it is.
    pub(crate) fn peek_local(&mut self, thread: u32, at: u32, bytes: usize) -> u64 {
        let local = self.local(thread);
        let from = (at - LOCAL_BASE) as usize;
        raw(local.bytes.get(from..from + bytes).unwrap_or_default())
    }
}
