//! The syntax tree of a PTX module.

use super::Span;

/// A word of the text and where it is.
#[derive(Clone, Debug)]
pub(crate) struct Name {
    pub(crate) text: String,
    pub(crate) span: Span,
}

/// `.version`, `.target`, variables of the module, functions and kernels.
#[derive(Clone, Debug, Default)]
pub(crate) struct Module {
    pub(crate) version: Option<Name>,
    pub(crate) target: Option<Name>,
    pub(crate) shared: Vec<Variable>,
    /// `.global` and `.const` variables.
    pub(crate) globals: Vec<Variable>,
    pub(crate) functions: Vec<Function>,
    pub(crate) entries: Vec<Entry>,
}

/// A variable in memory, or a parameter.
#[derive(Clone, Debug)]
pub(crate) struct Variable {
    pub(crate) name: Name,
    /// The type of an element, with its dot.
    pub(crate) ty: String,
    pub(crate) align: u32,
    /// Total size; 0 for an array of unstated length (`smem[]`).
    pub(crate) bytes: u64,
    /// A parameter that is declared as the address of data: `.ptr`.
    pub(crate) pointer: bool,
    /// A parameter in registers, of a function: `.reg`.
    pub(crate) register: bool,
    /// The bytes that it begins with; zeros follow.
    pub(crate) image: Vec<u8>,
}

/// A function: without a body, one that is defined elsewhere.
#[derive(Clone, Debug)]
pub(crate) struct Function {
    pub(crate) name: Name,
    pub(crate) results: Vec<Variable>,
    pub(crate) params: Vec<Variable>,
    pub(crate) body: Option<Vec<Statement>>,
}

/// A kernel.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) name: Name,
    pub(crate) params: Vec<Variable>,
    pub(crate) directives: Vec<Directive>,
    pub(crate) body: Vec<Statement>,
}

/// `.maxntid 384, 1, 1`
#[derive(Clone, Debug)]
pub(crate) struct Directive {
    pub(crate) name: Name,
    pub(crate) values: Vec<u64>,
}

/// One statement of a body.
#[derive(Clone, Debug)]
pub(crate) enum Statement {
    Label(Name),
    /// `.reg .b32 %r<10>;` gives one entry with `count` 10.
    Reg {
        ty: Name,
        name: Name,
        count: Option<u32>,
    },
    Shared(Variable),
    /// `.local`, and `.param` of a call: memory of a thread's own.
    Local(Variable),
    /// `.branchtargets`: a label, and the labels that it lists.
    Targets(Name, Vec<Name>),
    Scope(Vec<Statement>),
    Instr(Instr),
}

/// One instruction as written.
#[derive(Clone, Debug)]
pub(crate) struct Instr {
    pub(crate) span: Span,
    pub(crate) guard: Option<(bool, Name)>,
    /// `cp.async.bulk` is `["cp", "async", "bulk"]`, each word with its column.
    pub(crate) opcode: Vec<Name>,
    pub(crate) operands: Vec<Operand>,
}

/// An operand as written.
#[derive(Clone, Debug)]
pub(crate) struct Operand {
    pub(crate) span: Span,
    pub(crate) kind: OperandKind,
}

#[derive(Clone, Debug)]
pub(crate) enum OperandKind {
    /// Register, special register, symbol, label or `_`.
    Word(String),
    /// An integer constant; a negative one in two's complement.
    Int(u64),
    F32(u32),
    F64(u64),
    /// `{a, b}`
    Vector(Vec<Operand>),
    /// `(a, b)`: parameters and results of a call.
    List(Vec<Operand>),
    /// `[base + offset, {vector}]`
    Address {
        base: Option<Box<Operand>>,
        offset: i64,
        rest: Vec<Operand>,
    },
    /// `!%p`
    Not(String),
    /// `%p|%q`
    Pair(String, String),
    /// `smem + 1024` outside brackets.
    Sum(String, i64),
}
