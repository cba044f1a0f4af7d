//! From a plan to PTX text: Rust makes the operands, the templates hold the instructions.

mod context;
mod epilogue;
mod producer;
mod registers;
mod templates;
mod wgmma;

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
}

impl Plan {
    /// Renders the kernel. Every plan renders: there is no error to report.
    pub fn ptx(&self) -> Ptx {
        let text = templates::render(&context::Context::new(self));
        Ptx { entry: self.entry(), fingerprint: fingerprint(&text), text }
    }

    /// The kernel's name: operation, instruction, operand type, block.
    pub fn entry(&self) -> String {
        let s = &self.spec;
        format!("bsr_{}_{}_{}_{}x{}x{}", s.op, s.mma, s.a, s.bm, s.bn, s.bk)
    }
}

/// The first 16 hexadecimal digits of the BLAKE3 hash of `text`.
pub fn fingerprint(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex().as_str()[..16].to_owned()
}
