//! What instructions read and write, and among whom they order.

use super::types::{Space, Special};

/// Index of a register in a thread's file.
pub(crate) type Reg = u32;

/// A value that an instruction reads, zero-extended to 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Src {
    Reg(Reg),
    Imm(u64),
    Special(Special),
    /// The address of a shared array: the executing block's rank is added.
    Shared(u32),
    /// The address of a variable of the module, by its place among them.
    Global(u32),
}

/// A predicate that an instruction reads. `reg` none: constantly true.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PredSrc {
    pub(crate) reg: Option<Reg>,
    pub(crate) negated: bool,
}

/// `[base + offset]`
#[derive(Clone, Copy, Debug)]
pub(crate) struct Addr {
    pub(crate) base: Src,
    pub(crate) offset: i64,
    pub(crate) space: Space,
}

/// The ordering of a memory access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Weak,
    /// Relaxed or more.
    Strong(Semantics),
}

/// What a strong access orders, and for whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Semantics {
    pub(crate) acquire: bool,
    pub(crate) release: bool,
    pub(crate) scope: Scope,
}

/// The threads among which an access or a fence orders; a wider scope is greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Scope {
    Cta,
    Cluster,
    /// `.gpu`, and `.sys`: all clusters.
    Device,
}
