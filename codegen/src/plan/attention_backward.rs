//! What a launch of a part of an attention's gradient is told.
//!
//! With S = scale * Q K^T, P = exp(S - LSE) and dP = dO V^T, where the scores of a row depend on its products alone:
//!
//! ```text
//! delta = rowsum(dO * O) - dLSE      dS = P * (dP - delta)
//! dQ = scale * dS K                  by rows of blocks: `op = attention_dq`, which writes delta and -LSE too
//! dK = scale * dS^T Q, dV = P^T dO   by columns of blocks: `op = attention_dkv`, which reads them
//! ```
//!
//! A parameter `a` of the score has the gradient `sum of dS * d score / d a`, of a kernel with `score_gradients = on`: the sums over
//! the keys of each query where `a` is a number, `Rows` or `Heads`, which `attention_dq` computes, and those over the queries of
//! each key where it is `Cols`, which `attention_dkv` does.

use crate::epilogue::NoDerivative;
use crate::spec::Key;
use crate::words::Switch;
use crate::{KernelSpec, Op};

use super::attention::{AttentionProblem, AttentionTiles, TensorStrides};

/// The sizes of an attention whose gradient is computed, and how all tensors lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct GradientProblem {
    /// Sizes, and how Q, K, V and O lie.
    pub attention: AttentionProblem,
    /// How dO, dQ, dK and dV lie.
    pub strides: [TensorStrides; 4],
}

/// Whose rows a work tile has: they stay in shared memory while those of the other side pass by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GradientSide {
    /// Queries: dQ is summed over the keys that each row of blocks stores.
    Queries,
    /// Keys: dK and dV are summed over the queries that store each column of blocks, and over the heads that share a head of
    /// K and V.
    Keys,
}

/// How a kernel of a gradient divides its work: what must be known to list it.
///
/// A work tile is [`AttentionTiles::rows`] rows of one head of its side, and takes [`AttentionTiles::tile_words`] words:
/// {first row, head, problem, first head of the other side, first step, steps, steps that each consumer computes}. A step is
/// one run of rows of the other side and takes two words: the run's number and flags as in [`AttentionTiles`], and how many
/// heads its head is beyond the tile's first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GradientTiles {
    /// Whose rows a tile has.
    pub side: GradientSide,
    /// The same as of an attention of this side's rows and the other side's: the block is transposed for
    /// [`GradientSide::Keys`].
    pub tiles: AttentionTiles,
    /// Columns of Q and K.
    pub depth: u32,
}

impl KernelSpec {
    /// The kernels of the gradient of this attention: of dQ, then of dK and dV. Choices of the attention's kernel are left to
    /// their plans, and its sinks are in LSE.
    #[must_use]
    pub fn gradients(&self) -> [Self; 2] {
        [Op::AttentionDq, Op::AttentionDkv].map(|op| Self { sinks: Switch::Off, ..self.facts_of(op) })
    }

    /// The same with the gradients of the score's parameters, of those kernels that sum any.
    #[must_use]
    pub fn gradients_with_score(&self) -> [Self; 2] {
        self.gradients().map(|spec| {
            let with_score = Self { score_gradients: Switch::On, ..spec };
            if with_score.sums_of_score().is_ok_and(<[_]>::is_empty) { spec } else { with_score }
        })
    }

    /// The numbers of the score's parameters whose gradients this kernel sums, in the order of its sums.
    ///
    /// Those of other parameters are 0: they only choose, or the score does not depend on them.
    #[doc(hidden)]
    pub fn score_sums(&self) -> Vec<usize> {
        self.sums_of_score().unwrap_or_default().iter().map(|(at, _)| *at).collect()
    }

    /// The same, and what a query and a key add to them; an error where a derivative has no expression.
    pub(crate) fn sums_of_score(&self) -> Result<&'static [(usize, usize)], NoDerivative> {
        match self.score.filter(|_| self.score_gradients.is_on()) {
            Some(score) => Ok(score.summed()?[usize::from(self.op == Op::AttentionDkv)].slopes()),
            None => Ok(&[]),
        }
    }

    /// The attention whose gradient this is a part of.
    #[must_use]
    pub fn attention_of_gradient(&self) -> Self {
        self.facts_of(Op::Attention)
    }

    /// Another operation of the same tensors, every choice left to the plan.
    fn facts_of(&self, op: Op) -> Self {
        let mut spec = Self::new(self.bm, self.bn, self.bk);
        Key::ALL.into_iter().filter(|key| key.is_fact()).for_each(|key| spec.copy_key(key, self));
        Self { op, score_gradients: Switch::Off, ..spec }
    }
}

impl GradientTiles {
    /// Words of a step.
    pub const STEP_WORDS: usize = 2;

    /// Queries of a head that have [row terms](super::Operand::RowTerms): those up to the end of the last block.
    pub fn queries_in_blocks(&self, queries: u64) -> u64 {
        let (own, other) = self.tiles.block;
        queries.next_multiple_of(u64::from(if self.side == GradientSide::Queries { own } else { other }))
    }
}
