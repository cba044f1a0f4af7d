//! `st.async` and `red.async`: a thread writes to the shared memory of another block, where an mbarrier counts the bytes.

use crate::arithmetic::atomic::atomic;
use crate::arithmetic::numbers::raw;
use crate::check::FindingKind;
use crate::check::shadow::Proxy;
use crate::machine::in_flight::{Pending, Spot, Work};
use crate::machine::memory::{Place, Who};
use crate::machine::{Exec, Machine};
use crate::program::op::{Addr, AtomFn, Scope, Src};
use crate::program::types::Ty;

impl Machine<'_> {
    /// One lane's.
    pub(crate) fn issue_post(
        &mut self,
        who: Who,
        lane: u32,
        (f, ty): (Option<AtomFn>, Ty),
        values: &[Src],
        (to, barrier): (&Addr, &Addr),
    ) -> Exec<()> {
        let (size, own) = (ty.bytes(), self.warps[who.w].cta);
        let bytes = size * values.len() as u32;
        let (to, barrier) = (self.resolve(who, lane, to, bytes, bytes)?, self.resolve(who, lane, barrier, 8, 8)?);
        let (Place::Shared(block, at), Place::Shared(home, place)) = (to, barrier) else {
            let text = "what is written, and the mbarrier, are in the shared memory of a block of the cluster";
            return self.fail(FindingKind::OutOfBounds, who.w, who.mask, who.pc, text);
        };
        if block != home || block == own {
            let text = format!(
                "the bytes are in block {block}, the mbarrier in block {home}, and the thread in block {own}: the first two must be \
                 one block, and not the thread's"
            );
            return self.fail(FindingKind::BarrierMisuse, who.w, who.mask, who.pc, text);
        }
        let mut data = Vec::with_capacity(bytes as usize);
        for v in values {
            data.extend_from_slice(&self.value(who.w, lane, *v).to_le_bytes()[..size as usize]);
        }
        let (barrier, view) = ((home, place), self.publish(who.w, who.mask));
        self.barrier_ready(who, &view, barrier)?;
        // Reductions of several threads do not race.
        let proxy = if f.is_some() { Proxy::strong(Scope::Cluster) } else { Proxy::Generic };
        let work = Work::Post { data, to: (block, at), barrier, f: f.map(|f| (f, ty)) };
        self.queue(who, &view, work, proxy, u64::from(bytes)).map(|_| ())
    }

    /// The write itself.
    pub(super) fn post(&mut self, op: &Pending, data: &[u8], to: Spot, f: Option<(AtomFn, Ty)>) -> Exec<()> {
        let place = Place::Shared(to.0, to.1);
        let Some((f, ty)) = f else { return self.store(&op.stamp, &op.view, place, data) };
        let mut old = vec![0; data.len()];
        self.load(&op.stamp, &op.view, place, &mut old)?;
        let new = atomic(f, ty, raw(&old), raw(data), 0);
        self.store(&op.stamp, &op.view, place, &new.to_le_bytes()[..data.len()])
    }
}
