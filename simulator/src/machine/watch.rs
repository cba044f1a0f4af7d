//! Whether what clusters have released and acquired orders their accesses of the watched bytes.

use super::memory::Deed;
use super::watched::{WORD, Word};
use super::{Exec, Machine};
use crate::check::FindingKind;
use crate::check::clock::{View, lanes};
use crate::check::shadow::{Proxy, Stamp};

/// Strong beyond its block: other clusters are other blocks.
fn is_strong(stamp: &Stamp) -> bool {
    stamp.proxy == Proxy::Strong
}

impl Machine<'_> {
    /// An access to global memory of clusters that run together.
    pub(super) fn watch(&mut self, now: &Stamp, view: &View, addr: u64, len: usize, deed: Deed) -> Exec<()> {
        let end = addr + len as u64;
        if !self.exchange.watched.has(addr, end) {
            return Ok(());
        }
        let mut unordered = None;
        for word in addr / WORD..end.div_ceil(WORD) {
            let seen = self.exchange.watched.words.remove(&word).unwrap_or_default();
            let reads = seen.reads.iter().filter(|_| deed.writes());
            let mut before = seen.write.iter().map(|w| (w, true)).chain(reads.map(|r| (r, false)));
            unordered = unordered.or_else(|| {
                before.find(|((from, stamp), _)| !self.follows(*from, stamp, now, view)).map(|(b, writes)| (*b, writes))
            });
            let next = match deed.writes() {
                true => Word { write: Some((self.cluster, *now)), reads: Vec::new() },
                false => {
                    let mut next = seen;
                    next.reads.retain(|(from, _)| *from != self.cluster);
                    next.reads.push((self.cluster, *now));
                    next
                }
            };
            self.exchange.watched.words.insert(word, next);
        }
        let Some(((from, before), writes)) = unordered else { return Ok(()) };
        let text = format!(
            "an access of the bytes from {addr:#x} that cluster {from} has {} is not ordered after that one: a flag that it sets by \
             .release.gpu (or after fence.acq_rel.gpu) and that is read by .acquire.gpu orders the two, or .relaxed.gpu or an \
             atomic on both sides",
            if writes { "written" } else { "read" }
        );
        let sides = vec![self.stamp_side(now, deed.writes()), self.stamp_side(&before, writes)];
        self.report(FindingKind::ClusterRace, text, sides, Some(addr..end))
    }

    /// Whether an access of another cluster does not race with this one: both are strong, or this thread knows of it.
    fn follows(&self, from: u32, before: &Stamp, now: &Stamp, view: &View) -> bool {
        if from == self.cluster || (is_strong(before) && is_strong(now)) {
            return true;
        }
        let covers = |known: &View| lanes(before.mask).all(|l| known.seen.get(before.base + l) >= before.tick);
        let mut acquired = self.acquired.iter();
        acquired.any(|(releaser, published, component)| {
            *releaser == from && view.seen.get(*component) > 0 && covers(published)
        })
    }
}
