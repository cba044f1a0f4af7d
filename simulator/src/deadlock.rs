//! What is reported when no thread can proceed.

use std::collections::BTreeMap;

use crate::check::{Finding, FindingKind};
use crate::machine::warp::Wait;
use crate::machine::{Exec, Machine, Stop};

impl Machine<'_> {
    pub(crate) fn deadlock(&mut self) -> Exec<()> {
        let mut sides = Vec::new();
        let mut reasons: Vec<String> = Vec::new();
        for (w, warp) in self.warps.iter().enumerate() {
            for f in &warp.fragments {
                let Some(wait) = &f.wait else {
                    continue;
                };
                let why = self.why(w, wait);
                if !reasons.contains(&why) {
                    reasons.push(why.clone());
                }
                sides.push(self.side(w, f.mask, f.pc, format!("waits: {why}")));
            }
        }
        let message = format!("no thread can proceed; {} groups of threads wait: {}", sides.len(), reasons.join("; "));
        let finding = Finding {
            kind: FindingKind::Deadlock,
            message,
            sides,
            addresses: None,
            cluster: self.cluster,
            seed: self.options.seed,
            times: 1,
        };
        self.findings.push(finding);
        Err(Stop)
    }

    fn why(&self, w: usize, wait: &Wait) -> String {
        match wait {
            Wait::Mbar { cta, offset, phase } => match self.ctas[*cta].mbarriers.get(offset) {
                Some(b) => {
                    let last = b.last_arrive.map_or_else(
                        || "no thread has arrived yet".into(),
                        |pc| format!("the last arrival was at {}", self.program.where_is(pc)),
                    );
                    format!(
                        "mbarrier at byte {offset} of block {cta}, phase {phase} (parity {}): {} of {} arrivals and {} bytes missing; {last}",
                        phase & 1,
                        b.pending,
                        b.count,
                        b.tx
                    )
                }
                None => format!("mbarrier at byte {offset} of block {cta}, which does not exist any more"),
            },
            Wait::Poll { .. } => "a poll of memory that no thread will change: a flag that is never set".into(),
            Wait::NamedBarrier { id } => format!("barrier {id} of the block"),
            Wait::Cluster { generation } => {
                let live: u32 = self.warps.iter().map(|w| w.live.count_ones()).sum();
                format!(
                    "cluster barrier, round {}: {} of {live} threads have arrived",
                    generation - 1,
                    self.cluster_barrier.arrived
                )
            }
            Wait::Converge { members: None } => "the other threads of the warp, at an .aligned instruction".into(),
            Wait::Converge { members: Some(m) } => format!("the threads {m:#010x} of the warp"),
            Wait::Bulk { .. } | Wait::CpAsync { .. } => "its own copies".into(),
            Wait::Registers { need } => self.pool(w, *need),
            Wait::Wgmma { target } => format!("wgmma {} to be issued by all four warps", target - 1),
        }
    }

    /// The sum of a block's registers: what a warp requests, what is free, and which warps have the rest.
    fn pool(&self, w: usize, need: u32) -> String {
        let cta = self.warps[w].cta;
        let mut holders: BTreeMap<u32, u32> = BTreeMap::new();
        for warp in self.warps.iter().filter(|warp| warp.cta == cta) {
            *holders.entry(warp.max_registers).or_default() += 1;
        }
        let in_use: u32 = holders.iter().map(|(registers, warps)| registers * warps * 32).sum();
        let words: Vec<String> =
            holders.iter().map(|(registers, warps)| format!("{warps} warps x 32 x {registers}")).collect();
        let free = self.ctas[cta].free_registers;
        format!(
            "{need} more registers from the block's pool of {}: {} = {in_use} are in use and {free} are free; \
             setmaxnreg.dec of other warps must give {} more back, or the warp must request fewer",
            in_use + free,
            words.join(" + "),
            need.saturating_sub(free)
        )
    }
}
