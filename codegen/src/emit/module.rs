//! A module of several kernels.

use serde::Serialize;

use super::{finished, templates};
use crate::arch::Arch;

/// A kernel of a module.
#[derive(Serialize)]
pub(crate) struct Kernel {
    entry: &'static str,
    comment: &'static str,
    parameters: String,
    /// What follows the parameters.
    directives: Vec<String>,
    registers: Vec<String>,
    /// What it does before the body.
    first: &'static str,
    body: String,
}

impl Kernel {
    /// A kernel of so many threads with a body that templates made.
    pub(crate) fn new(entry: &'static str, comment: &'static str, threads: u32, body: &str) -> Self {
        let (registers, body) = finished(body);
        let directives = vec![format!(".maxntid {threads}, 1, 1")];
        Self { entry, comment, parameters: String::new(), directives, registers, first: "", body }
    }

    /// With parameters: addresses, then words.
    pub(crate) fn parameters(
        mut self,
        pointers: impl IntoIterator<Item = impl std::fmt::Display>,
        words: &[&'static str],
    ) -> Self {
        let pointers = pointers.into_iter().map(|name| format!(".param .u64 {name}"));
        let all: Vec<String> = pointers.chain(words.iter().map(|name| format!(".param .u32 {name}"))).collect();
        self.parameters = all.join(",\n    ");
        self
    }

    /// With registers for so many CTAs of an SM.
    pub(crate) fn resident(mut self, ctas: u32) -> Self {
        self.directives.push(format!(".minnctapersm {ctas}"));
        self
    }

    /// With lines before its body.
    pub(crate) fn first(self, first: &'static str) -> Self {
        Self { first, ..self }
    }
}

/// The context of `module.ptx.tera`.
#[derive(Serialize)]
struct Module {
    comment: &'static str,
    arch: Arch,
    kernels: Vec<Kernel>,
}

/// The text of a module.
pub(crate) fn module(comment: &'static str, arch: Arch, kernels: Vec<Kernel>) -> String {
    templates::render("module.ptx", &Module { comment, arch, kernels })
}
