//! Where M and K of a problem end: a little earlier in every round, but never by a whole block.

use super::Kind;
use super::scale::Scale;

impl Scale {
    /// Rows of the last block row that lie in M.
    pub(super) fn last_rows(&self, kind: Kind, round: usize) -> usize {
        let rows = self.block.0;
        let early = |first: usize| 1 + (first + 7 * round) % rows.saturating_sub(1).max(1);
        match kind {
            Kind::Whole => rows,
            Kind::Split | Kind::SplitHalf | Kind::LongRows => rows - 7 * round % rows,
            _ if self.is_large() && self.slices > 1 => early(self.first_slices(kind)),
            // In the first half of a block.
            Kind::Uneven => early(rows / 3),
            // The third element of a vector is the last, whose tail takes several threads, and rounds.
            Kind::Ragged => rows - (8 * (rows / 24) + 5 + 8 * round) % rows,
            Kind::Negative if round == 0 => rows - rows / 2,
            Kind::OneColumn => rows,
            _ => rows - 7 * round % rows,
        }
    }

    /// Columns of the last block column that lie in K: those of a ragged one end with the first element of a vector, early in a
    /// block, others in the middle of one, late, and just before its end.
    pub(super) fn last_columns(&self, kind: Kind, round: usize) -> usize {
        let columns = self.block.1;
        // Of a single column nothing hangs over.
        let most = columns - 1;
        let short = |first: usize| (1 + (first + 3 * round) % most.max(1)).min(most);
        columns
            - match kind {
                Kind::Whole => 0,
                Kind::Ragged => most - (8 * (columns / 16).saturating_sub(1) + 3 * round) % most.max(1),
                Kind::Uneven => short(columns / 4),
                // The first block of a cluster is at the end of K.
                Kind::OneColumn => short(1),
                // Half a block hangs over the edges.
                Kind::Negative if round == 0 => columns / 2,
                _ => 3 * round % columns,
            }
    }
}
