//! Which problem is asked for, before it is known which operand is sparse.

use std::path::PathBuf;

use bsr_runtime::Pattern;

/// A problem as flags describe it; what they leave open is for [`Defaults`].
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Rows of A and C; queries of an attention.
    pub m: Option<usize>,
    /// Columns of B and C; keys of an attention.
    pub n: Option<usize>,
    /// Columns of A, rows of B.
    pub k: Option<usize>,
    /// Which blocks are stored.
    pub pattern: Option<Pattern>,
    /// A file with the sparse operand.
    pub matrix: Option<PathBuf>,
    /// Which matrix of a file with several.
    pub tensor: Option<String>,
    /// Seed of the pattern and of all values that are drawn.
    pub seed: u64,
    /// Heads of Q.
    pub heads: Option<usize>,
    /// Heads of K and V.
    pub key_heads: Option<usize>,
    /// Problems of an attention; products of a list.
    pub batch: Option<usize>,
}

impl Request {
    /// Whether anything but the seed is given.
    pub fn is_any(&self) -> bool {
        let Self { m, n, k, pattern, matrix, heads, key_heads, batch, .. } = self;
        let sizes = [m, n, k, heads, key_heads, batch];
        sizes.into_iter().any(Option::is_some) || pattern.is_some() || matrix.is_some()
    }

    /// The first flag that only an attention has.
    pub(crate) fn flag_of_attention(&self) -> Option<&'static str> {
        let flags = [("--heads", self.heads), ("--key-heads", self.key_heads)];
        flags.into_iter().find(|(_, given)| given.is_some()).map(|(flag, _)| flag)
    }

    /// The first flag that an attention does not have, and why.
    pub(crate) fn flag_of_products(&self) -> Option<(&'static str, &'static str)> {
        if self.k.is_some() {
            return Some(("--k", "the head dimension is bn of the spec"));
        }
        self.matrix.as_ref().map(|_| ("--matrix", "a mask is no matrix"))
    }
}

/// The machine that sizes are chosen for, where the request leaves them open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Defaults {
    /// Enough work to fill a GPU.
    Gpu,
    /// A second's work for the simulator.
    Simulator,
}
