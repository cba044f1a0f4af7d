//! SDDMM: the stored blocks of C = A B, with A and B dense.
//!
//! A CTA tile is rows of one block row by several of its stored blocks, whose columns of the right factor are gathered. All of K is
//! multiplied, a stage at a time; then each warp stores its part of the blocks. Under `transpose = on` the stored matrix is
//! C^T = B^T A^T: the factors change places, and each is read the other way round.

mod check;

use super::groups::Groups;
use super::{WarpPlan, fused, load};
use crate::plan::{Major, Operand as Side, PlanErrors, Problem, SddmmTiles};
use crate::{Arch, KernelSpec, Layout, Schedule, SplitK, Switch};

/// A kernel of this family for an SDDMM. Its plan is that of a product whose rows and columns are those of the stored blocks: `bm`
/// and `bk` are a block's, `bn` are the tile's columns, `a` is the left factor and `b` the right one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SampledPlan(pub(crate) WarpPlan);

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
