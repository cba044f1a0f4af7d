//! Which instructions of a kernel a run has executed.

use crate::program::Module;

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
    /// The comment that heads the section it stands in.
    pub section: Option<String>,
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
        let instructions = kernel.code.iter().enumerate().filter(|(_, instruction)| instruction.line > 0);
        let executed = |at: usize| coverage.executed.get(at).copied().unwrap_or(false);
        instructions
            .map(|(at, _)| {
                let (line, text, section) = kernel.describe(at as u32);
                (Statement { line, text, section }, executed(at))
            })
            .collect()
    }
}
