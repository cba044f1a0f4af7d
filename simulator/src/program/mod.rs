//! A kernel decoded for execution.

mod build;
mod call;
mod context;
mod decode;
mod globals;
mod modifiers;
pub(crate) mod op;
mod op_async;
mod op_matrix;
mod op_pure;
mod operand;
mod origin;
mod table;
pub(crate) mod target;
pub(crate) mod types;
mod uses;

use std::fmt::Write as _;
use std::sync::Arc;

use crate::parse::{self, ParseError};
use op::{Op, PredSrc};
use origin::Origins;
use target::{Level, Target};
pub(crate) use uses::Uses;

pub use origin::Origin;
pub use table::{INSTRUCTIONS, Instruction, instruction_table};

/// A parsed and decoded PTX module.
#[derive(Clone, Debug)]
pub struct Module {
    pub(crate) kernels: Arc<[Program]>,
    version: String,
    target: String,
    origins: Arc<Origins>,
}

impl Module {
    /// The names of the kernels, in the order of the text.
    pub fn entries(&self) -> impl Iterator<Item = &str> {
        self.kernels.iter().map(|k| k.name.as_str())
    }

    /// What `.version` says.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// What `.target` says.
    #[must_use]
    pub fn target(&self) -> &str {
        &self.target
    }

    /// Whether a kernel has a `griddepcontrol` instruction: it is made for launches that begin before an earlier kernel
    /// of the stream has ended, see [`Options::dependent`](crate::Options::dependent). False for an unknown name.
    #[must_use]
    pub fn uses_griddepcontrol(&self, entry: &str) -> bool {
        self.kernel(entry).is_some_and(|k| k.uses_griddepcontrol)
    }

    /// Where in the source a line of the text comes from, by `.loc` and `.file`.
    #[must_use]
    pub fn origin(&self, line: u32) -> Option<Origin> {
        self.origins.of(line)
    }

    /// The lines at which a kernel prints: the simulator shows nothing of it. None for an unknown name.
    #[must_use]
    pub fn prints(&self, entry: &str) -> Vec<u32> {
        let code = self.kernel(entry).map(|k| &k.code[..]).unwrap_or_default();
        code.iter().filter(|i| matches!(i.op, Op::Print { .. })).map(|i| i.line).collect()
    }

    pub(crate) fn kernel(&self, name: &str) -> Option<&Program> {
        self.kernels.iter().find(|k| k.name == name)
    }
}

/// Parses PTX text and decodes every kernel in it.
///
/// # Errors
/// Malformed text, an operand of the wrong type, an unknown name, every instruction, modifier or type that is not
/// modelled, and every instruction that the module's `.target` or `.version` does not have, with the line and column.
/// See [`INSTRUCTIONS`] for what is modelled.
pub fn parse(text: &str) -> Result<Module, ParseError> {
    let tree = parse::module(text)?;
    let level = Level::of(tree.version.as_ref(), tree.target.as_ref())?;
    let source = Arc::new(Source::new(text));
    let globals = globals::Globals::new(&tree)?;
    let kernels =
        tree.entries.iter().map(|e| build::kernel(&tree, e, level, &source, &globals)).collect::<Result<_, _>>()?;
    let text_of = |n: Option<parse::ast::Name>| n.map(|n| n.text).unwrap_or_default();
    let origins = Arc::new(Origins::new(text));
    Ok(Module { kernels, version: text_of(tree.version), target: text_of(tree.target), origins })
}

/// The text, for reports.
#[derive(Debug)]
pub(crate) struct Source {
    lines: Vec<String>,
    /// For each line the one of the comment that heads its section, from 1; 0 where there is none.
    sections: Vec<u32>,
}

/// Characters of a line that are reported.
const WIDEST: usize = 400;

impl Source {
    fn new(text: &str) -> Self {
        let shown = |line: &str| match line.char_indices().nth(WIDEST) {
            Some((end, _)) => format!("{} ..", &line[..end]),
            None => line.to_owned(),
        };
        let lines: Vec<String> = text.lines().map(|line| shown(line.trim())).collect();
        let (mut head, mut sections) = (0, Vec::with_capacity(lines.len()));
        for (at, line) in lines.iter().enumerate() {
            // The first line of a block of comments heads what follows.
            if line.starts_with("//") && !(at > 0 && lines[at - 1].starts_with("//")) {
                head = at as u32 + 1;
            }
            sections.push(head);
        }
        Self { lines, sections }
    }

    pub(crate) fn line(&self, line: u32) -> &str {
        self.lines.get((line as usize).wrapping_sub(1)).map_or("", String::as_str)
    }

    /// The nearest comment of its own at or above `line`: the first line of that block of comments.
    pub(crate) fn section(&self, line: u32) -> Option<&str> {
        let head = *self.sections.get((line as usize).wrapping_sub(1))?;
        self.lines.get((head as usize).checked_sub(1)?)?.strip_prefix("//").map(str::trim)
    }
}

/// What the kernel's directives state.
#[derive(Clone, Debug, Default)]
pub(crate) struct Limits {
    pub(crate) max_ntid: Option<u32>,
    pub(crate) req_ntid: Option<[u32; 3]>,
    pub(crate) min_ctas: u32,
    pub(crate) max_nreg: Option<u32>,
    pub(crate) cluster: Option<[u32; 3]>,
}

/// A kernel parameter.
#[derive(Clone, Debug)]
pub(crate) struct ParamDecl {
    pub(crate) name: String,
    pub(crate) offset: u32,
    pub(crate) bytes: u32,
    pub(crate) align: u32,
    /// As declared, with its dot.
    pub(crate) ty: String,
    /// Declared as the address of data: `.ptr`.
    pub(crate) pointer: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Inst {
    pub(crate) line: u32,
    pub(crate) guard: Option<PredSrc>,
    pub(crate) op: Op,
    /// Registers shared with the tensor core that this instruction reads, and writes.
    pub(crate) reads: Box<[u32]>,
    pub(crate) writes: Box<[u32]>,
    /// All registers and predicates that it reads and writes.
    pub(crate) uses: Uses,
}

/// A kernel, decoded.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) name: String,
    pub(crate) target: Target,
    pub(crate) params: Vec<ParamDecl>,
    pub(crate) param_bytes: u32,
    pub(crate) code: Vec<Inst>,
    pub(crate) registers: usize,
    pub(crate) predicates: usize,
    pub(crate) register_names: Vec<String>,
    pub(crate) predicate_names: Vec<String>,
    /// What the module's variables begin with.
    pub(crate) globals: Arc<[u8]>,
    /// Bytes of local memory of a thread.
    pub(crate) local_bytes: u32,
    /// Bytes of `.shared` arrays of stated length, and where the dynamic array starts.
    pub(crate) static_shared: u32,
    pub(crate) limits: Limits,
    pub(crate) source: Arc<Source>,
    pub(crate) uses_global_atomics: bool,
    pub(crate) uses_griddepcontrol: bool,
}

impl Program {
    /// `line 12: mbarrier.arrive ...` with its section.
    pub(crate) fn describe(&self, pc: u32) -> (u32, String, Option<String>) {
        let line = self.code.get(pc as usize).map_or(0, |i| i.line);
        (line, self.source.line(line).to_owned(), self.source.section(line).map(str::to_owned))
    }

    pub(crate) fn where_is(&self, pc: u32) -> String {
        let (line, text, section) = self.describe(pc);
        let mut out = format!("line {line}: {text}");
        if let Some(s) = section {
            let _ = write!(out, "   // {s}");
        }
        out
    }
}
