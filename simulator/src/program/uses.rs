//! What an instruction reads and writes of a thread's registers and predicates.

use super::op::{Op, WgA};

/// Registers and predicates of one instruction, its guard left out.
#[derive(Clone, Debug, Default)]
pub(crate) struct Uses {
    pub(crate) reads: Box<[u32]>,
    pub(crate) writes: Box<[u32]>,
    pub(crate) pred_reads: Box<[u32]>,
    pub(crate) pred_writes: Box<[u32]>,
}

impl Uses {
    pub(super) fn new(op: &Op, reads: &[u32], writes: &[u32], preds: (&[u32], &[u32])) -> Self {
        let mut uses = Self {
            reads: reads.into(),
            writes: writes.into(),
            pred_reads: preds.0.into(),
            pred_writes: preds.1.into(),
        };
        if let Op::Wgmma(w) = op {
            // The accumulators are read where scale-d says so, and metadata by some threads: checks of their own know. Accumulators
            // are written in any case.
            let own = |r: &u32| w.d.contains(r) || w.sparse.is_some_and(|sparse| sparse.metadata == *r);
            let is_a = |r: &u32| matches!(&w.a, WgA::Regs(a) if a.contains(r));
            uses.reads = reads.iter().copied().filter(|r| !own(r) || is_a(r)).collect();
            uses.writes = w.d.clone().into_boxed_slice();
        }
        if let Op::Mma(m) = op
            && let Some(sparse) = m.sparse
        {
            // Metadata is read by some threads, which a check of its own knows.
            let is_factor = |r: &u32| m.a.contains(r) || m.b.contains(r);
            uses.reads = reads.iter().copied().filter(|r| *r != sparse.metadata || is_factor(r)).collect();
        }
        uses
    }
}
