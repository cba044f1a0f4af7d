//! Step 2: the CTA tile: `pack` block rows by `cta_n` dense columns, the latter over the consumers.

use serde::Serialize;

use super::fused::Fused;
use crate::hopper::Roles;
use crate::plan::PlanError;
use crate::plan::SparseTimesDense;
use crate::{Arch, Dtype, KernelSpec};

/// Dense columns that one WGMMA computes: its M.
pub(crate) const GROUP: u32 = 64;
/// Registers that a consumer needs beside its accumulators.
const OVERHEAD: u32 = 40;
/// Most block rows of a tile: each has code of its own in the consumers, which every stage runs through.
const MOST_PACKED: u32 = 16;
/// The same where the plan decides: 16 x 16 blocks ran at 157 TFLOP/s with 8 and at 135 with 12.
const WORTHWHILE: u32 = 8;
/// Most rows of C in a tile.
const MOST_ROWS: u32 = 512;
/// Block rows are multiples of this: WGMMA's N.
const UNIT: u32 = 8;
/// Largest block.
const LARGEST: u32 = 512;

/// The tile of one CTA.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Tile {
    /// Rows of a block, or of a slice of it: WGMMA's N.
    pub(crate) rows: u32,
    /// Row slices of a block.
    pub(crate) slices: u32,
    /// Block rows that share the tile; 1 where a block has several slices.
    pub(crate) pack: u32,
    pub(crate) cta_n: u32,
    /// Groups of 64 dense columns that one consumer owns.
    pub(crate) groups: u32,
    pub(crate) roles: Roles,
}

impl Tile {
    /// First sum of a thread of block row `row` and column group `group`.
    pub(crate) fn first_sum(&self, row: u32, group: u32) -> u32 {
        (row * self.groups + group) * self.rows / 2
    }

    /// Registers of a consumer thread's accumulators of type `acc`.
    pub(crate) fn accumulators(&self, acc: Dtype) -> u32 {
        acc.registers(self.pack * self.rows * self.groups / 2)
    }

    /// Dense columns that one consumer owns.
    pub(crate) fn columns(&self) -> u32 {
        self.groups * GROUP
    }

    /// Rows of C that a tile computes.
    pub(crate) fn tile_rows(&self) -> u32 {
        self.pack * self.rows
    }
}

pub(crate) fn plan(
    spec: &KernelSpec,
    view: &SparseTimesDense,
    fused: Option<&Fused>,
    arch: &Arch,
) -> Result<Tile, PlanError> {
    let (key, _) = view.keys;
    if view.rows == 0 || !view.rows.is_multiple_of(UNIT) || view.rows > LARGEST {
        let nearest = (view.rows.min(LARGEST).div_ceil(UNIT) * UNIT).max(UNIT);
        return Err(PlanError::new(
            key,
            format!("blocks of {} rows of C are not supported", view.rows),
            format!("WGMMA's N, here the rows of a block, is a multiple of {UNIT}, and {LARGEST} is the largest block"),
            format!("{key} = {nearest}"),
        ));
    }
    let (consumers, groups) = columns(spec)?;
    let roles = Roles::new(consumers, false, arch);
    let most = (roles.consumer_registers - OVERHEAD).saturating_sub(fused.map_or(0, Fused::registers));
    // Of 64 dense columns of so many rows.
    let registers = |rows: u32| spec.acc.registers(rows / 2);
    let fits = |rows: u32| {
        registers(rows) * groups <= most
            && rows <= arch.wgmma_n
            && roles.compiles(registers(rows))
            && integer_n(view, rows)
    };
    let slices = (1..=view.rows / UNIT).filter(|n| view.rows.is_multiple_of(n * UNIT)).find(|n| fits(view.rows / n));
    let Some(slices) = slices else {
        return Err(PlanError::new(
            "bn",
            "accumulators do not fit the register file",
            format!(
                "{UNIT} rows x {} columns over {consumers} consumer(s) = {} registers per thread; {most} are left",
                spec.bn,
                registers(UNIT) * groups
            ),
            "bn = ?",
        ));
    };
    let rows = view.rows / slices;
    let room = (most / (registers(rows) * groups)).min(MOST_ROWS / rows).min(MOST_PACKED);
    let most_packed = if slices > 1 { 1 } else { room };
    let pack = spec.pack.unwrap_or(most_packed.min(WORTHWHILE));
    if pack == 0 || pack > most_packed {
        return Err(PlanError::new(
            "pack",
            format!("{pack} block rows cannot share a tile"),
            match slices {
                1 => format!(
                    "{pack} x {rows} rows x {} columns over {consumers} consumer(s) = {} registers per thread, of {most}; {MOST_PACKED} block rows and {MOST_ROWS} rows at most",
                    spec.bn,
                    pack.saturating_mul(registers(rows) * groups)
                ),
                n => format!("a block of {} rows is computed in {n} slices of {rows} already", view.rows),
            },
            format!("pack = {most_packed}, or leave `pack` to the plan"),
        ));
    }
    Ok(Tile { rows, slices, pack, cta_n: spec.bn, groups, roles })
}

/// Consumers, and groups of 64 columns that each takes.
fn columns(spec: &KernelSpec) -> Result<(u32, u32), PlanError> {
    if spec.bn == 0 || !spec.bn.is_multiple_of(GROUP) || spec.bn > LARGEST / 2 {
        return Err(PlanError::new(
            "bn",
            format!("tiles of {} columns are not supported with swap-AB", spec.bn),
            format!("WGMMA computes {GROUP} dense columns at a time, and a TMA box is at most 256 wide"),
            format!("bn = {}", (spec.bn.min(LARGEST / 2).div_ceil(GROUP) * GROUP).max(GROUP)),
        ));
    }
    let groups = spec.bn / GROUP;
    let consumers = spec.consumers.unwrap_or(if groups.is_multiple_of(2) { 2 } else { groups.min(3) });
    if !(1..=3).contains(&consumers) || !groups.is_multiple_of(consumers) {
        return Err(PlanError::new(
            "consumers",
            format!("{consumers} consumer warpgroups cannot divide {} columns", spec.bn),
            format!("{} / {GROUP} = {groups} groups of columns; 1, 2 or 3 consumers must have equally many", spec.bn),
            "leave `consumers` to the plan",
        ));
    }
    Ok((consumers, groups / consumers))
}

/// Integer WGMMAs have fewer N (PTX ISA, "wgmma.mma_async"): 8, 16, 24, 32 and then multiples of 16.
fn integer_n(view: &SparseTimesDense, rows: u32) -> bool {
    view.sparse_type != Dtype::I8 || rows <= 32 || rows.is_multiple_of(16)
}
