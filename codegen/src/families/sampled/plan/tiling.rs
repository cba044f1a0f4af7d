//! Step 2: the CTA tile: how blocks become slots, and which warpgroup computes what.
//!
//! | block rows | tile |
//! |---|---|
//! | more than 64 | 128 rows, one consumer for each 64; a block takes `ceil(bm / 128)` tiles of rows |
//! | 64 or fewer | 64 rows: as many block rows as fit; the consumers divide the slots |
//!
//! Block rows that share a tile share its slots: the union of their block columns. What falls between stored blocks is
//! computed and not stored.

use super::sides::Sides;
use crate::hopper::Roles;
use crate::plan::Major;
use crate::plan::{PlanError, PlanErrors};
use crate::{Arch, KernelSpec};

/// Rows of one WGMMA, and of a consumer.
pub(crate) const WG_M: u32 = 64;
/// Columns of the widest slot: N of the widest WGMMA.
const WIDEST: u32 = 256;
/// The same in tiles of 64 rows, so that two consumers can have a slot each.
const WIDEST_OF_64: u32 = 128;
/// Columns of a lone consumer: it keeps a stage in flight, and ptxas spills with more accumulators beside it.
const MOST_OF_ONE: u32 = 192;
/// Slots of consumers that divide the rows, where the epilogue reads a full operand: with 10 ptxas 13.0 spilled a register.
const MOST_SLOTS_WITH_OPERAND: u32 = 8;
/// Row-major operands are read in panels of at least so many columns: 32 bytes of 16-bit elements.
const NARROWEST_PANEL: u32 = 16;
/// N of an integer WGMMA beyond 32 is a multiple of this.
const INTEGER_UNIT: u32 = 16;
/// How consumers divide the CTA tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Split {
    /// One consumer has all of it.
    Whole,
    /// Each has 64 rows of all slots.
    Rows,
    /// Each has all rows of half of the slots.
    Slots,
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
    /// Slots that a block is cut into.
    pub(crate) parts: u32,
    /// Columns of a block in one slot; the last one may be shorter.
    pub(crate) slot: u32,
    /// Columns that a slot takes in the tile.
    pub(crate) pitch: u32,
    /// Slots of the tile.
    pub(crate) slots: u32,
}

impl Tiling {
    /// Slots of one consumer.
    pub(crate) fn wg_slots(&self) -> u32 {
        if self.split == Split::Slots { self.slots / 2 } else { self.slots }
    }

    /// Columns of one consumer: N of its WGMMA.
    pub(crate) fn wg_n(&self) -> u32 {
        self.wg_slots() * self.pitch
    }

    /// Columns of the tile.
    pub(crate) fn cta_n(&self) -> u32 {
        self.slots * self.pitch
    }

    /// Accumulator registers of a consumer's thread.
    pub(crate) fn accumulators(&self) -> u32 {
        self.wg_n() / 2
    }

    /// Slots of a tile of half the width, for what a row of blocks leaves over. There are none where consumers divide the
    /// slots, none for a lone consumer, and none of many slots or of uneven ones: ptxas 13.0 spills some registers of
    /// such kernels.
    pub(crate) fn half(&self) -> Option<u32> {
        let even = self.split == Split::Rows && matches!(self.slots, 2 | 4) && self.wg_n().is_power_of_two();
        even.then_some(self.slots / 2)
    }
}

pub(crate) fn choose(spec: &KernelSpec, sides: &Sides, arch: &Arch, errors: &mut PlanErrors) -> Tiling {
    let divides_rows = spec.bm > WG_M && spec.consumers != Some(1);
    let parts = spec.bk.div_ceil(if divides_rows { WIDEST } else { WIDEST_OF_64 });
    let slot = spec.bk.div_ceil(parts).next_multiple_of(8);
    let pitch = match sides.right.major {
        Major::K if spec.a.is_integer() => slot.next_multiple_of(INTEGER_UNIT),
        Major::K => slot,
        Major::Mn => slot.next_multiple_of(NARROWEST_PANEL),
    };
    let slots = (spec.bn / pitch).max(1);
    let consumers = consumers(spec, slots, errors);
    let reads_operand = spec.epilogue.is_some_and(|epilogue| epilogue.program().tile().is_some());
    let (cta_m, split, slots) = match consumers {
        2 if spec.bm > WG_M && reads_operand => (2 * WG_M, Split::Rows, slots.min(MOST_SLOTS_WITH_OPERAND)),
        2 if spec.bm > WG_M => (2 * WG_M, Split::Rows, slots),
        2 => (WG_M, Split::Slots, slots / 2 * 2),
        _ => (WG_M, Split::Whole, slots.min((MOST_OF_ONE / pitch).max(1))),
    };
    Tiling {
        cta_m,
        split,
        roles: Roles::new(consumers, false, arch),
        slices: spec.bm.div_ceil(cta_m),
        pack: pack(spec, errors),
        parts,
        slot,
        pitch,
        slots,
    }
}

/// Columns of a panel of a row-major factor: of the widest swizzle span that divides a slot.
pub(crate) fn panel_columns(pitch: u32, element: u32) -> u32 {
    let widest = [128, 64].into_iter().find(|span| (pitch * element).is_multiple_of(*span));
    widest.unwrap_or(32) / element
}

fn consumers(spec: &KernelSpec, slots: u32, errors: &mut PlanErrors) -> u32 {
    let most = if spec.bm > WG_M || slots > 1 { 2 } else { 1 };
    let wanted = spec.consumers.unwrap_or(most);
    if wanted == 0 || wanted > most {
        errors.push(PlanError::new(
            "consumers",
            format!("{wanted} consumer warpgroups cannot divide this tile"),
            format!(
                "a consumer has 64 rows or half of the slots; a block has {} rows, and bn = {} holds {slots} slot(s) of \
                 {} columns",
                spec.bm, spec.bn, spec.bk
            ),
            format!("consumers = {most}, or leave it to the plan"),
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
            format!("{wanted} block rows do not share a tile"),
            format!("a tile that is divided by slots has {WG_M} rows: {WG_M} / {} = {most} block row(s)", spec.bm),
            format!("pack = {most}, or leave it to the plan"),
        ));
    }
    wanted.clamp(1, most)
}
