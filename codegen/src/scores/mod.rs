//! What attentions have in common, whatever multiplies: keys and types that they refuse, the score of a pair and its vectors,
//! the softmax of a step in registers. A thread has pairs of neighbouring keys of two queries, as the sums of WGMMA and of
//! `mma.sync` are.

pub(crate) mod check;
pub(crate) mod launch;
pub(crate) mod score;
pub(crate) mod softmax;
pub(crate) mod vectors;
