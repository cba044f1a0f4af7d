//! Problems of a single block that end after every few rows and columns of a tile.
//!
//! Rows and columns of C that a thread does not own are left out by guards, of which unrolled code has one for every few
//! rows, or for every vector of a line. That a guard is missing, or lets one row too many pass, shows only where the
//! matrix ends at that guard.

use bsr_codegen::KernelKind;

use super::EFFORT;
use super::scale::Scale;

/// The most of them, and the fewest of a kernel that has time for few.
const MOST: usize = 32;
pub(super) const FEWEST: usize = 2;
/// Each place of a row within eight neighbours occurs.
const NEIGHBOURS: usize = 8;

impl Scale {
    /// How many there are: one for each group of rows, or of columns, that has a guard of its own.
    pub(super) fn edges(&self, kind: KernelKind) -> usize {
        if self.is_slow() {
            return 0;
        }
        let (rows, columns) = self.edge_extents();
        let by_threads = !kind.has_roles();
        let groups = |extent: usize| {
            // Threads store rows of their own; boxes that TMA stores, and fragments of WGMMA, have eight and more.
            let height = if by_threads { (extent / 16).clamp(1, 4) } else { NEIGHBOURS };
            extent.div_ceil(height)
        };
        // The greatest of a row takes each column of a pair by a guard of its own.
        let columns = if self.takes_greatest { columns.div_ceil(NEIGHBOURS / 2) } else { groups(columns) };
        let room = (EFFORT / self.effort(&[1], self.tile).max(1)) as usize;
        groups(rows).max(columns).clamp(NEIGHBOURS, MOST).min(room.max(FEWEST))
    }

    /// Rows and columns of C in the tile where it ends.
    pub(super) fn edge_extents(&self) -> (usize, usize) {
        (self.block.0 / self.slices, if self.sparse_c { self.block.1 } else { self.tile })
    }
}

/// Where a matrix ends within `extent` elements, in problem `at` of `count`: in each group of them once, and at each place
/// within eight neighbours, if there are as many problems.
pub(super) fn end(extent: usize, count: usize, at: usize) -> usize {
    let groups = count.clamp(1, extent.max(1));
    let (group, first) = (at % groups, |group: usize| group * extent / groups);
    let width = first(group + 1) - first(group);
    let neighbours = (NEIGHBOURS / width.max(1)).max(1);
    // One further than its place, so that the first group, too, is left within and not at its beginning. Neighbouring groups
    // end at even and at odd places.
    let end = first(group) + (at / neighbours + at % neighbours + 1) % width.max(1);
    if end == 0 { extent } else { end }
}

/// The number of a problem in another order of so many.
pub(super) fn other(count: usize, at: usize) -> usize {
    // No count has divisors in common with both.
    at * if count.is_multiple_of(5) { 7 } else { 5 } % count.max(1)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn another_order_has_every_problem() {
        for count in 1..=MOST {
            let all: BTreeSet<usize> = (0..count).map(|at| other(count, at)).collect();
            assert_eq!(all.len(), count);
        }
    }

    #[test]
    fn a_matrix_ends_in_every_group_and_at_every_place_among_neighbours() {
        for (extent, count) in [(64, 16), (64, 8), (128, 32), (256, 32), (16, 16), (8, 8), (112, 28)] {
            let ends: Vec<usize> = (0..count).map(|at| end(extent, count, at)).collect();
            assert!(ends.iter().all(|end| (1..=extent).contains(end)), "{extent}: {ends:?}");
            let groups: BTreeSet<usize> = ends.iter().map(|end| end % extent * count.min(extent) / extent).collect();
            assert_eq!(groups.len(), count.min(extent), "{extent}: {ends:?}");
            let places: BTreeSet<usize> = ends.iter().map(|end| end % NEIGHBOURS).collect();
            assert_eq!(places.len(), NEIGHBOURS, "{extent}: {ends:?}");
        }
    }
}
