//! Registers and predicates that are read before anything has written them.

use super::warp::source;
use crate::check::FindingKind;
use crate::check::clock::lanes;
use crate::machine::memory::Who;
use crate::machine::{Exec, Machine};
use crate::program::op::{Op, Src, Wgmma};
use crate::program::{Inst, Uses};

impl Machine<'_> {
    /// The lanes in which an instruction that only computes has operands without a value: its results have none either, and
    /// nothing is wrong until one of them decides something, is an address or leaves the registers. None for others.
    pub(super) fn without_value(&self, who: Who, inst: &Inst) -> Option<u32> {
        let warp = &self.warps[who.w];
        let missing = |operands: &[Src]| {
            operands.iter().fold(0, |all, operand| match operand {
                Src::Reg(r) => all | !warp.defined[*r as usize],
                _ => all,
            })
        };
        let all = || {
            let registers = inst.uses.reads.iter().fold(0, |lanes, r| lanes | !warp.defined[*r as usize]);
            inst.uses.pred_reads.iter().fold(registers, |lanes, p| lanes | !warp.defined_preds[*p as usize])
        };
        let without = match &inst.op {
            Op::Selp { a, b, p, .. } => {
                let (yes, unknown) = (self.predicate(who.w, *p), p.reg.map_or(0, |p| !warp.defined_preds[p as usize]));
                yes & missing(&[*a]) | !yes & missing(&[*b]) | unknown
            }
            // What the lane that is read from has.
            Op::Shfl { f, a: Src::Reg(r), b, c, .. } => {
                let (offsets, clamps) = (self.values(who.w, *b), self.values(who.w, *c));
                let from = |l: u32| source(*f, l, offsets[l as usize] as u32, clamps[l as usize] as u32).0;
                let defined = warp.defined[*r as usize];
                lanes(who.mask).filter(|l| defined >> from(*l) & 1 == 0).fold(missing(&[*b, *c]), |all, l| all | 1 << l)
            }
            Op::Pure { .. }
            | Op::Setp { .. }
            | Op::Set { .. }
            | Op::Testp { .. }
            | Op::Isspacep { .. }
            | Op::Lop3 { .. }
            | Op::Extended { .. }
            | Op::Logic { .. }
            | Op::Pack { .. }
            | Op::Unpack { .. } => all(),
            _ => return None,
        };
        Some(without & who.mask)
    }

    /// What an instruction reads was written before.
    pub(super) fn registers_are_defined(&mut self, who: Who, uses: &Uses) -> Exec<()> {
        for r in &uses.reads {
            self.register_is_defined(who, *r)?;
        }
        for p in &uses.pred_reads {
            self.predicate_is_defined(who, *p)?;
        }
        Ok(())
    }

    /// The accumulators of a `wgmma` that adds to them were written before.
    pub(crate) fn accumulators_are_defined(&mut self, who: Who, op: &Wgmma) -> Exec<()> {
        for r in &op.d {
            self.register_is_defined(who, *r)?;
        }
        Ok(())
    }

    pub(crate) fn register_is_defined(&mut self, who: Who, r: u32) -> Exec<()> {
        let missing = who.mask & !self.warps[who.w].defined[r as usize];
        if missing == 0 {
            return Ok(());
        }
        // Told once.
        self.warps[who.w].defined[r as usize] |= missing;
        let program = self.program;
        self.undefined(who, missing, &program.register_names[r as usize])
    }

    pub(super) fn predicate_is_defined(&mut self, who: Who, p: u32) -> Exec<()> {
        let missing = who.mask & !self.warps[who.w].defined_preds[p as usize];
        if missing == 0 {
            return Ok(());
        }
        self.warps[who.w].defined_preds[p as usize] |= missing;
        let program = self.program;
        self.undefined(who, missing, &program.predicate_names[p as usize])
    }

    fn undefined(&mut self, who: Who, lanes: u32, name: &str) -> Exec<()> {
        let text = format!(
            "{name} is undefined here: it was not written, or was computed from an undefined value; write it first"
        );
        let sides = vec![self.side(who.w, lanes, who.pc, format!("reads {name}"))];
        self.report(FindingKind::UninitialisedRegister, text, sides, None)
    }

    /// What an instruction writes is defined from now on, but for the lanes `without` a value.
    pub(super) fn define(&mut self, who: Who, uses: &Uses, without: u32) {
        let warp = &mut self.warps[who.w];
        let update = |lanes: &mut u32| *lanes = (*lanes | who.mask) & !without;
        uses.writes.iter().for_each(|r| update(&mut warp.defined[*r as usize]));
        uses.pred_writes.iter().for_each(|p| update(&mut warp.defined_preds[*p as usize]));
    }
}
