//! Turning what went wrong into findings.

use std::ops::Range;

use super::memory::Deed;
use super::{Exec, Machine, Stop};
use crate::check::clock::lanes;
use crate::check::shadow::{Conflict, Proxy, Stamp};
use crate::check::{Finding, FindingKind, Side};
use crate::program::op::{Op, Way};

/// Whether two findings of a kind have one cause: the same instructions, or, of unordered accesses, the same instruction on
/// one side and the same section on the other, or instructions of one kind in the same sections.
fn same_cause(kind: FindingKind, a: &[Side], b: &[Side]) -> bool {
    let unordered = matches!(
        kind,
        FindingKind::Race
            | FindingKind::MissingProxyFence
            | FindingKind::UninitialisedRead
            | FindingKind::WgmmaRegisters
            | FindingKind::GridDependency
    );
    let opcode = |side: &Side| {
        let mut words = side.text.split_whitespace();
        let opcode = words.find(|word| !word.starts_with('@')).unwrap_or_default();
        // Hints do not make another instruction of it.
        opcode.split(".L2::").next().unwrap_or_default().to_owned()
    };
    let same = |a: &Side, b: &Side| {
        a.line == b.line || (unordered && a.section == b.section && a.does == b.does && opcode(a) == opcode(b))
    };
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
}

impl Machine<'_> {
    pub(crate) fn side(&self, w: usize, mask: u32, pc: u32, does: impl Into<String>) -> Side {
        let (line, text, section) = self.program.describe(pc);
        let (cta, warp) = self.warps.get(w).map_or((0, 0), |x| (x.cta as u32, x.index));
        Side { line, text, section, cta, warp, lanes: mask, does: does.into() }
    }

    /// Reports and goes on. Equal findings are counted once.
    pub(crate) fn report(
        &mut self,
        kind: FindingKind,
        message: String,
        sides: Vec<Side>,
        addresses: Option<Range<u64>>,
    ) -> Exec<()> {
        if let Some(same) = self.findings.iter_mut().find(|f| f.kind == kind && same_cause(kind, &f.sides, &sides)) {
            same.times += 1;
            if let (Some(all), Some(more)) = (&mut same.addresses, addresses) {
                *all = all.start.min(more.start)..all.end.max(more.end);
            }
            return if same.times > 10_000 { Err(Stop) } else { Ok(()) };
        }
        self.findings.push(Finding {
            kind,
            message,
            sides,
            addresses,
            cluster: self.cluster,
            seed: self.options.seed,
            times: 1,
        });
        if self.findings.len() >= self.options.max_findings { Err(Stop) } else { Ok(()) }
    }

    /// Reports and stops the cluster.
    pub(crate) fn fail<T>(
        &mut self,
        kind: FindingKind,
        w: usize,
        mask: u32,
        pc: u32,
        message: impl Into<String>,
    ) -> Exec<T> {
        let side = self.side(w, mask, pc, "executes");
        let _ = self.report(kind, message.into(), vec![side], None);
        Err(Stop)
    }

    /// A defect after which the run can go on.
    pub(crate) fn complain(
        &mut self,
        kind: FindingKind,
        w: usize,
        mask: u32,
        pc: u32,
        message: impl Into<String>,
    ) -> Exec<()> {
        let side = self.side(w, mask, pc, "executes");
        self.report(kind, message.into(), vec![side], None)
    }

    fn does(&self, s: &Stamp, writes: bool) -> String {
        let verb = if writes { "writes" } else { "reads" };
        let who = match self.program.code.get(s.pc as usize).map(|i| &i.op) {
            Some(Op::Tensor(t)) if t.way == Way::ToShared => "the tensor copy (async proxy)",
            Some(Op::Tensor(_)) => "the tensor store (async proxy)",
            Some(Op::Bulk(_)) => "the bulk copy (async proxy)",
            Some(Op::Wgmma(_)) => "the tensor core (async proxy)",
            Some(Op::CpAsync { .. }) => "cp.async",
            _ if s.proxy == Proxy::Async => "the async proxy",
            _ => "the thread",
        };
        format!("{who} {verb}")
    }

    /// The side of an access in a finding.
    pub(crate) fn stamp_side(&self, s: &Stamp, writes: bool) -> Side {
        self.side(s.warp as usize, s.mask, s.pc, self.does(s, writes))
    }

    /// Reports what the states of bytes showed about an access.
    pub(crate) fn conflicts(
        &mut self,
        now: &Stamp,
        deed: Deed,
        address: u64,
        place: &str,
        found: Vec<(Range<usize>, Conflict)>,
    ) -> Exec<()> {
        let writes = deed.writes();
        for (bytes, c) in found {
            let at = Some(address + bytes.start as u64..address + bytes.end as u64);
            let me = self.stamp_side(now, writes);
            let (kind, message, other) = match c {
                Conflict::Race { before, before_writes } => {
                    let what = match (before_writes, writes) {
                        (true, true) => "two writes",
                        (true, false) => "a write, then a read,",
                        (false, _) => "a read, then a write,",
                    };
                    let side = self.stamp_side(&before, before_writes);
                    // Whoever comes last, the bytes are the same.
                    let harmless = deed == Deed::Repeats && [&before, now].iter().all(|s| s.proxy == Proxy::Generic);
                    let kind = if harmless { FindingKind::EqualWrites } else { FindingKind::Race };
                    let rest = match harmless {
                        true => "the write changes nothing".to_owned(),
                        false => self.would_order((&before, before_writes), (now, writes)),
                    };
                    (kind, format!("{what} of the same bytes of {place} are not ordered: {rest}"), Some(side))
                }
                Conflict::Unfenced { before } => {
                    let side = self.stamp_side(&before, true);
                    let text = format!(
                        "bytes of {place} written by the generic proxy reach the async proxy without a fence.proxy.async in between"
                    );
                    (FindingKind::MissingProxyFence, text, Some(side))
                }
                Conflict::Unwritten => {
                    (FindingKind::UninitialisedRead, format!("{place} is read before it is written"), None)
                }
            };
            let mut sides = vec![me];
            sides.extend(other);
            self.report(kind, message, sides, at)?;
        }
        Ok(())
    }

    /// Describes one fragment's wait, for a deadlock.
    pub(crate) fn first_lane(mask: u32) -> u32 {
        lanes(mask).next().unwrap_or(0)
    }
}
