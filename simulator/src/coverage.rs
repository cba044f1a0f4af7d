//! Which instructions of a kernel a run has executed.

use crate::program::op::Op;
use crate::program::{Inst, Module};

/// The instructions that threads of a run have executed, those of guarded ones whose guard held.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// By number of the instruction in its kernel; empty before the first run.
    pub(crate) executed: Vec<bool>,
}

/// An instruction of a kernel's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// Its line, from 1.
    pub line: u32,
    /// The line itself.
    pub text: String,
    /// The comment at the head of its section.
    pub section: Option<String>,
    /// The instructions after which a thread may execute this one, by their places among the kernel's statements.
    pub after: Vec<usize>,
}

impl Coverage {
    /// Adds what another run of the same kernel has executed.
    pub fn merge(&mut self, other: &Self) {
        if self.executed.len() < other.executed.len() {
            self.executed.resize(other.executed.len(), false);
        }
        for (mine, theirs) in self.executed.iter_mut().zip(&other.executed) {
            *mine |= theirs;
        }
    }
}

impl Module {
    /// The instructions of a kernel, in the order of the text, each with whether it was executed. Empty for an unknown
    /// name.
    pub fn statements(&self, entry: &str, coverage: &Coverage) -> Vec<(Statement, bool)> {
        let Some(kernel) = self.kernel(entry) else { return Vec::new() };
        // What the text does not have ends the code.
        let count = kernel.code.iter().take_while(|instruction| instruction.line > 0).count();
        let executed = |at: usize| coverage.executed.get(at).copied().unwrap_or(false);
        predecessors(&kernel.code[..count])
            .into_iter()
            .enumerate()
            .map(|(at, after)| {
                let (line, text, section) = kernel.describe(at as u32);
                (Statement { line, text, section, after }, executed(at))
            })
            .collect()
    }
}

/// For every instruction, those after which it may be the next.
fn predecessors(code: &[Inst]) -> Vec<Vec<usize>> {
    let mut after = vec![Vec::new(); code.len()];
    for (at, instruction) in code.iter().enumerate() {
        if let Op::Bra { target, .. } = instruction.op
            && let Some(target) = after.get_mut(target as usize)
        {
            target.push(at);
        }
        let always = instruction.guard.is_none()
            && matches!(instruction.op, Op::Bra { .. } | Op::Brx { .. } | Op::Exit | Op::Trap);
        if let Some(next) = after.get_mut(at + 1).filter(|_| !always) {
            next.push(at);
        }
    }
    after
}
