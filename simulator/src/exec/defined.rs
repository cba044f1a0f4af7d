//! Registers and predicates that are read before anything has written them.

use crate::check::FindingKind;
use crate::machine::memory::Who;
use crate::machine::{Exec, Machine};
use crate::program::Uses;
use crate::program::op::Wgmma;

impl Machine<'_> {
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

    fn register_is_defined(&mut self, who: Who, r: u32) -> Exec<()> {
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
        let text = format!("{name} is read before anything has written it: its value is undefined; set it first");
        let sides = vec![self.side(who.w, lanes, who.pc, format!("reads {name}"))];
        self.report(FindingKind::UninitialisedRegister, text, sides, None)
    }

    /// What an instruction writes is defined from now on.
    pub(super) fn define(&mut self, who: Who, uses: &Uses) {
        let warp = &mut self.warps[who.w];
        for r in &uses.writes {
            warp.defined[*r as usize] |= who.mask;
        }
        for p in &uses.pred_writes {
            warp.defined_preds[*p as usize] |= who.mask;
        }
    }
}
