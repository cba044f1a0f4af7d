//! From a plan to PTX text: Rust makes the operands, the templates hold the instructions.

mod coherent;
mod fold;
mod frame;
mod joints;
mod layout;
pub(crate) mod module;
mod probes;
mod registers;
mod repeats;
mod statement;
pub(crate) mod templates;

pub use crate::fingerprint::fingerprint;
use crate::plan::Plan;

/// The PTX text of one kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ptx {
    text: String,
    entry: String,
    fingerprint: String,
}

impl Ptx {
    /// The module's text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The name of the kernel in the module.
    pub fn entry(&self) -> &str {
        &self.entry
    }

    /// The first 16 hexadecimal digits of the BLAKE3 hash of the text: equal text, equal fingerprint.
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// The same kernel with its text edited, for an experiment by hand and for tests of what watches kernels.
    #[must_use]
    pub fn edited(self, edit: impl FnOnce(&str) -> String) -> Self {
        let text = edit(&self.text);
        Self { fingerprint: fingerprint(&text), text, ..self }
    }
}

/// The body without instructions that do nothing.
fn shortened(body: &str) -> String {
    repeats::dropped(&fold::folded(body))
}

/// The register declarations of a body that templates made, and the body as it is written.
pub(crate) fn finished(body: &str) -> (Vec<String>, String) {
    let body = layout::laid_out(&shortened(body));
    (registers::declarations(&body), body)
}

impl Plan {
    /// Renders the kernel. Every plan renders: there is no error to report.
    pub fn ptx(&self) -> Ptx {
        let text = frame::render(self);
        Ptx { entry: self.entry(), fingerprint: fingerprint(&text), text }
    }

    /// The kernel's name: operation, instruction, operand types, block.
    pub fn entry(&self) -> String {
        let s = self.spec();
        let types = if s.a == s.b { s.a.to_string() } else { format!("{}_{}", s.a, s.b) };
        format!("bsr_{}_{}_{types}_{}x{}x{}", s.op, s.mma, s.bm, s.bn, s.bk)
    }
}
