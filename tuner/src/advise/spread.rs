//! Whether the nonzeros of a matrix are in blocks at all.

use serde::Serialize;

use super::Candidate;

/// How the nonzeros of a matrix are spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Spread {
    /// Some of the blocks that were looked at hold the nonzeros in clearly fewer blocks than chance would.
    Blocks,
    /// None of them does: as many nonzeros at random positions would need about as many blocks.
    Unstructured,
    /// Most values are nonzero.
    Dense,
    /// Nothing can be said: no nonzeros, no blocks, or pruning decided how many blocks there are.
    Unknown,
}

/// Stored blocks over those of as many nonzeros at random, from which on a matrix has no blocks: a better order of rows finds
/// some by chance, too.
const RANDOM: f64 = 0.75;
/// The fraction of nonzeros from which on a matrix is dense.
const DENSE: f64 = 0.5;

impl Spread {
    /// That of a matrix of which these candidates were looked at.
    pub(super) fn of((rows, cols): (usize, usize), nonzeros: usize, candidates: &[Candidate]) -> Self {
        let density = nonzeros as f64 / (rows as f64 * cols as f64).max(1.0);
        let least = candidates.iter().map(|c| over_random(density, c)).fold(f64::INFINITY, f64::min);
        match candidates.iter().any(|c| c.original.norm.is_some()) {
            _ if nonzeros == 0 || !least.is_finite() => Self::Unknown,
            true => Self::Unknown,
            false if density >= DENSE => Self::Dense,
            false if least >= RANDOM => Self::Unstructured,
            false => Self::Blocks,
        }
    }
}

/// Stored blocks in the better order over those that as many nonzeros at random positions would need.
fn over_random(density: f64, candidate: &Candidate) -> f64 {
    let [bm, bk] = candidate.block.map(|side| side as f64);
    let at_random = -(bm * bk * (-density).ln_1p()).exp_m1();
    let stored = candidate.reordered.as_ref().map_or(f64::INFINITY, |blocking| blocking.density);
    stored.min(candidate.original.density) / at_random
}
