//! What should have ordered two accesses that race, and how.

use super::Machine;
use crate::check::shadow::{Proxy, Stamp};
use crate::machine::in_flight::Spot;
use crate::program::op::{Op, Way};

impl Machine<'_> {
    /// An mbarrier by its place among those of its block, which is the stage of a ring.
    fn barrier_name(&self, (cta, offset): Spot) -> String {
        let all = &self.ctas[cta].mbarriers;
        let number = all.range(..offset).count();
        format!("mbarrier {number} of {} of block {cta} (byte {offset})", all.len())
    }

    fn op(&self, stamp: &Stamp) -> Option<&Op> {
        self.program.code.get(stamp.pc as usize).map(|instruction| &instruction.op)
    }

    fn loads(&self, stamp: &Stamp) -> bool {
        match self.op(stamp) {
            Some(Op::Tensor(t)) => t.way == Way::ToShared,
            Some(Op::Bulk(b)) => b.way == Way::ToShared,
            _ => false,
        }
    }

    fn last_wait(&self, stamp: &Stamp) -> String {
        match self.warps.get(stamp.warp as usize).and_then(|warp| warp.at_barriers.waited) {
            Some((spot, pc)) => {
                format!("its warp last waited for {}, at line {}", self.barrier_name(spot), self.line(pc))
            }
            None => "its warp has waited for no mbarrier".to_owned(),
        }
    }

    fn last_arrival(&self, stamp: &Stamp) -> String {
        match self.warps.get(stamp.warp as usize).and_then(|warp| warp.at_barriers.arrived) {
            Some((spot, pc)) => {
                format!("its warp last arrived at {}, at line {}", self.barrier_name(spot), self.line(pc))
            }
            None => "its warp has arrived at no mbarrier".to_owned(),
        }
    }

    fn line(&self, pc: u32) -> u32 {
        self.program.code.get(pc as usize).map_or(0, |instruction| instruction.line)
    }

    /// The barrier between two accesses that race, and what is to be done.
    pub(super) fn would_order(&self, (before, before_writes): (&Stamp, bool), (now, writes): (&Stamp, bool)) -> String {
        let refilled = writes && self.loads(now);
        if before_writes && self.loads(before) && !refilled {
            let barrier = self.copy_barriers.get(&before.pc).map(|spot| self.barrier_name(*spot));
            return format!(
                "the copy completes {}, and the later access must wait for that phase; {}",
                barrier.unwrap_or_else(|| "its mbarrier".to_owned()),
                self.last_wait(now)
            );
        }
        if refilled {
            return format!(
                "the buffer is filled again before it was released: whoever used it must arrive at the empty barrier after \
                 its last access, and the copy be issued after a wait for that phase; of the user, {}; of the issuer, {}",
                self.last_arrival(before),
                self.last_wait(now)
            );
        }
        let (stores, matrix) = (
            matches!(self.op(before), Some(Op::Tensor(_) | Op::Bulk(_))),
            matches!(self.op(before), Some(Op::Wgmma(_))),
        );
        if stores && !before_writes {
            return "the store may still read its staging buffer: cp.async.bulk.wait_group.read by the thread that issued \
                    it, then a barrier (bar.sync), come before the next write"
                .to_owned();
        }
        if matrix {
            return "the tensor core may still read it: wgmma.wait_group comes before the buffer is released"
                .to_owned();
        }
        if before.proxy == Proxy::Copy {
            return "cp.async.wait_group by the thread that issued the copy, then a barrier, come before the access"
                .to_owned();
        }
        match (before.warp == now.warp, self.warps_share_a_block(before, now)) {
            (true, _) => "bar.warp.sync orders threads of a warp".to_owned(),
            (_, true) => "bar.sync, or an mbarrier, orders threads of a block".to_owned(),
            _ => "barrier.cluster, or an mbarrier, orders threads of a cluster".to_owned(),
        }
    }

    fn warps_share_a_block(&self, a: &Stamp, b: &Stamp) -> bool {
        let block = |stamp: &Stamp| self.warps.get(stamp.warp as usize).map(|warp| warp.cta);
        block(a) == block(b)
    }
}
