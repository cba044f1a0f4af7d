//! SDDMM: the stored blocks of C = A B, with A and B dense.
//!
//! A CTA tile is rows of one block row by several of its stored blocks, whose columns of the right factor are gathered. All of K is
//! multiplied, a stage at a time; then each warp stores its part of the blocks. Under `transpose = on` the stored matrix is
//! C^T = B^T A^T: the factors change places, and each is read the other way round.

mod check;

use serde::Serialize;

use super::boxes::SPANS;
use super::operand::Operand;
use super::units::{VECTOR_BYTES, fragment};
use super::{WarpPlan, fused, load};
use crate::plan::{Major, Operand as Side, PlanErrors, Problem, SddmmTiles};
use crate::{Arch, KernelSpec, Layout, Schedule, SplitK, Switch};

/// Most groups of columns of a tile: a lane of a warp holds one word of a work tile.
const MOST_GROUPS: u32 = (32 - SddmmTiles::HEADER) / WORDS_A_GROUP;
/// Words of a work tile for a group of columns: its place in the factor, that in the block, and the block.
const WORDS_A_GROUP: u32 = 3;
/// Work tiles are whole vectors of 16 bytes.
const VECTOR_WORDS: u32 = 4;

/// A kernel of this family for an SDDMM. Its plan is that of a product whose rows and columns are those of the stored blocks: `bm`
/// and `bk` are a block's, `bn` are the tile's columns, `a` is the left factor and `b` the right one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SampledPlan(pub(crate) WarpPlan);

/// The columns of a tile: groups of columns of a stored block each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Groups {
    /// Columns of a group: a block's, or an even part of them.
    pub(crate) columns: u32,
    /// Groups of a tile.
    pub(crate) count: u32,
    /// Groups of a block.
    pub(crate) parts: u32,
}

impl Groups {
    /// Those of blocks of `bk` columns in a tile of up to `bn`.
    pub(crate) fn new(spec: &KernelSpec) -> Self {
        let unit = unit(spec);
        let divides = |columns: &u32| spec.bk.is_multiple_of(*columns);
        let columns = (1..=spec.bn.min(spec.bk) / unit).rev().map(|units| units * unit).find(divides).unwrap_or(unit);
        Self { columns, count: (spec.bn / columns).clamp(1, MOST_GROUPS), parts: spec.bk / columns }
    }

    /// Words of a work tile.
    pub(crate) fn words(&self) -> u32 {
        (SddmmTiles::HEADER + self.count * WORDS_A_GROUP).next_multiple_of(VECTOR_WORDS)
    }

    /// The word with the place in the block of the first group's columns; its block follows, then the other groups'.
    pub(crate) fn stores(&self) -> u32 {
        SddmmTiles::HEADER + self.count
    }
}

/// Columns that a fragment has, or a pair of them.
fn unit(spec: &KernelSpec) -> u32 {
    fragment(spec).1.max(super::block::UNIT)
}

/// The layout of a row-major right factor that TMA loads: boxes of one group each.
pub(super) fn panels(spec: &KernelSpec, lines: u32) -> Operand {
    let (groups, bytes) = (Groups::new(spec), spec.b.bytes());
    let row = groups.columns * bytes;
    let widest = [SPANS.1, SPANS.1 / 2].into_iter().find(|span| row.is_multiple_of(*span)).unwrap_or(SPANS.0);
    match groups.count {
        1 => Operand::boxed(false, lines, 1, row),
        count => Operand {
            pitch: widest,
            group: widest / VECTOR_BYTES,
            vectors: count * row / VECTOR_BYTES,
            ..Operand::boxed(false, lines, count, row)
        },
    }
}

impl SampledPlan {
    pub(crate) fn new(asked: &KernelSpec, arch: &Arch) -> Result<Self, PlanErrors> {
        let mut errors = PlanErrors::default();
        check::check(asked, arch, &mut errors);
        errors.check()?;
        let seen = seen(asked);
        let mut errors = PlanErrors::default();
        load::check(&seen, arch, &mut errors);
        fused::check(&seen, arch, &mut errors);
        errors.check()?;
        WarpPlan::cheapest(&seen, arch).map(Self)
    }

    pub(crate) fn groups(&self) -> Groups {
        Groups::new(&self.0.spec)
    }

    pub(crate) fn tiles(&self) -> SddmmTiles {
        let (plan, groups) = (&self.0, self.groups());
        SddmmTiles {
            block: (plan.spec.bm, plan.spec.bk),
            rows: plan.tiling.cta_m,
            slices: plan.spec.bm / plan.tiling.cta_m,
            pack: 1,
            groups_per_block: groups.parts,
            group_columns: groups.columns,
            column_groups: groups.count,
            half: None,
            k_step: plan.kloop.k_step,
            tile_words: groups.words(),
            partial_bytes: plan.workspace().map_or(0, |workspace| workspace.places_bytes),
        }
    }

    /// The factors as the caller has them: the left one and the right one.
    pub(crate) fn factors(&self) -> (Side, Side) {
        if is_exchanged(&self.0.spec) { (Side::B, Side::A) } else { (Side::A, Side::B) }
    }

    /// The product as it is seen: the rows, columns and leading dimensions of the left factor and the right one.
    pub(crate) fn sizes(&self, problem: &Problem) -> Problem {
        let Problem { m, n, lda, ldb, .. } = *problem;
        if is_exchanged(&self.0.spec) { Problem { m: n, n: m, lda: ldb, ldb: lda, ..*problem } } else { *problem }
    }
}

/// Is C^T stored? What is seen says of `transpose` how the left factor lies in memory, and this by `a_layout`, which it does not need.
fn is_exchanged(seen: &KernelSpec) -> bool {
    seen.a_layout == Layout::ColMajor
}

/// The product as [`SampledPlan`] has it.
fn seen(asked: &KernelSpec) -> KernelSpec {
    let a = (asked.a, if asked.a_layout == Layout::RowMajor { Major::K } else { Major::Mn });
    let b = (asked.b, if asked.b_layout == Layout::RowMajor { Major::Mn } else { Major::K });
    let exchanged = asked.transpose.is_on();
    let ((left, left_major), (right, right_major)) = if exchanged { (b, a) } else { (a, b) };
    let seen = KernelSpec {
        a: left,
        b: right,
        a_layout: if exchanged { Layout::ColMajor } else { Layout::RowMajor },
        b_layout: if right_major == Major::K { Layout::ColMajor } else { Layout::RowMajor },
        transpose: if left_major == Major::Mn { Switch::On } else { Switch::Off },
        split: if asked.schedule == Some(Schedule::Balanced) { SplitK::Auto } else { SplitK::Off },
        ..*asked
    };
    let groups = Groups::new(&seen);
    KernelSpec { bn: groups.count * groups.columns, ..seen }
}
