//! Step 2: the CTA tile: how blocks become B panels, and which warpgroup computes what.
//!
//! | block rows | tile |
//! |---|---|
//! | more than 64 | 128 rows, one consumer for each 64; a block takes `ceil(bm / 128)` tiles of rows |
//! | 64 or fewer | 64 rows: as many block rows as fit; the consumers divide the B panels |
//!
//! Block rows that share a tile share its B panels: the union of their block columns. What falls between stored blocks is
//! computed and not stored.

use super::sides::Sides;
use crate::hopper::Roles;
use crate::plan::Major;
use crate::plan::{PlanError, PlanErrors};
use crate::{Arch, KernelSpec};

/// Rows of one WGMMA, and of a consumer.
pub(crate) const WG_M: u32 = 64;
/// Columns of the widest B panel: N of the widest WGMMA.
const WIDEST: u32 = 256;
/// The same in tiles of 64 rows, so that two consumers can have a B panel each.
const WIDEST_OF_64: u32 = 128;
/// Columns of a lone consumer: it keeps a stage in flight, and ptxas spills with more accumulators beside it.
const MOST_OF_ONE: u32 = 192;
/// B panels of consumers that divide the rows, where the epilogue reads a full operand: with 10 ptxas 13.0 spilled a
/// register.
const MOST_PANELS_WITH_OPERAND: u32 = 8;
/// Row-major operands are read in swizzle spans of at least so many columns: 32 bytes of 16-bit elements.
const NARROWEST_SPAN: u32 = 16;
/// N of an integer WGMMA beyond 32 is a multiple of this.
const INTEGER_UNIT: u32 = 16;
/// How consumers divide the CTA tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Split {
    /// One consumer has all of it.
    Whole,
    /// Each has 64 rows of all B panels.
    Rows,
    /// Each has all rows of half of the B panels.
    Panels,
}

/// The tile of one CTA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tiling {
    pub(crate) cta_m: u32,
    pub(crate) split: Split,
    pub(crate) roles: Roles,
    /// Tiles of rows that a block takes.
    pub(crate) slices: u32,
    /// Block rows that share a tile.
    pub(crate) pack: u32,
    /// B panels that a block is cut into.
    pub(crate) parts: u32,
    /// Columns of a block in one B panel; the last one may be shorter.
    pub(crate) panel_columns: u32,
    /// Columns that a B panel takes in the tile.
    pub(crate) pitch: u32,
    /// B panels of the tile.
    pub(crate) panels: u32,
}

impl Tiling {
    /// B panels of one consumer.
    pub(crate) fn wg_panels(&self) -> u32 {
        if self.split == Split::Panels { self.panels / 2 } else { self.panels }
    }

    /// Columns of one consumer: N of its WGMMA.
    pub(crate) fn wg_n(&self) -> u32 {
        self.wg_panels() * self.pitch
    }

    /// Columns of the tile.
    pub(crate) fn cta_n(&self) -> u32 {
        self.panels * self.pitch
    }

    /// Accumulator registers of a consumer's thread.
    pub(crate) fn accumulators(&self) -> u32 {
        self.wg_n() / 2
    }

    /// B panels of a tile of half the width, for what a row of blocks leaves over. There are none where consumers divide the
    /// panels, none for a lone consumer, and none of many panels or of uneven ones: ptxas 13.0 spills some registers of
    /// such kernels.
    pub(crate) fn half(&self) -> Option<u32> {
        let even = self.split == Split::Rows && matches!(self.panels, 2 | 4) && self.wg_n().is_power_of_two();
        even.then_some(self.panels / 2)
    }
}

pub(crate) fn choose(spec: &KernelSpec, sides: &Sides, arch: &Arch, errors: &mut PlanErrors) -> Tiling {
    let divides_rows = spec.bm > WG_M && spec.consumers != Some(1);
    let parts = spec.bk.div_ceil(if divides_rows { WIDEST } else { WIDEST_OF_64 });
    let panel_columns = spec.bk.div_ceil(parts).next_multiple_of(8);
    let pitch = match sides.right.major {
        Major::K if spec.a.is_integer() => panel_columns.next_multiple_of(INTEGER_UNIT),
        Major::K => panel_columns,
        Major::Mn => panel_columns.next_multiple_of(NARROWEST_SPAN),
    };
    let panels = (spec.bn / pitch).max(1);
    let consumers = consumers(spec, panels, errors);
    let reads_operand = spec.epilogue.is_some_and(|epilogue| epilogue.program().tile().is_some());
    let (cta_m, split, panels) = match consumers {
        2 if spec.bm > WG_M && reads_operand => (2 * WG_M, Split::Rows, panels.min(MOST_PANELS_WITH_OPERAND)),
        2 if spec.bm > WG_M => (2 * WG_M, Split::Rows, panels),
        2 => (WG_M, Split::Panels, panels / 2 * 2),
        _ => (WG_M, Split::Whole, panels.min((MOST_OF_ONE / pitch).max(1))),
    };
    Tiling {
        cta_m,
        split,
        roles: Roles::new(consumers, false, arch),
        slices: spec.bm.div_ceil(cta_m),
        pack: pack(spec, errors),
        parts,
        panel_columns,
        pitch,
        panels,
    }
}

/// Columns of a swizzle panel of a row-major factor: of the widest span that divides a B panel.
pub(crate) fn span_columns(pitch: u32, element: u32) -> u32 {
    let widest = [128, 64].into_iter().find(|span| (pitch * element).is_multiple_of(*span));
    widest.unwrap_or(32) / element
}

fn consumers(spec: &KernelSpec, panels: u32, errors: &mut PlanErrors) -> u32 {
    let most = if spec.bm > WG_M || panels > 1 { 2 } else { 1 };
    let wanted = spec.consumers.unwrap_or(most);
    if wanted == 0 || wanted > most {
        errors.push(PlanError::new(
            "consumers",
            format!("{wanted} consumer warpgroups cannot divide this tile"),
            format!(
                "a consumer has 64 rows or half of the B panels; a block has {} rows, and bn = {} has {panels} B panel(s) of {} columns",
                spec.bm, spec.bn, spec.bk
            ),
            format!("consumers = {most}, or leave `consumers` to the plan"),
        ));
    }
    wanted.clamp(1, most)
}

fn pack(spec: &KernelSpec, errors: &mut PlanErrors) -> u32 {
    let most = (WG_M / spec.bm).max(1);
    let wanted = spec.pack.unwrap_or(most);
    if wanted == 0 || wanted > most {
        errors.push(PlanError::new(
            "pack",
            format!("{wanted} block rows cannot share a tile"),
            format!(
                "a tile whose B panels are divided among consumers has {WG_M} rows: {WG_M} / {} = {most} block row(s)",
                spec.bm
            ),
            format!("pack = {most}, or leave `pack` to the plan"),
        ));
    }
    wanted.clamp(1, most)
}
