//! Several block rows in one CTA tile (`pack`): each has its own consumer, and the CTA traverses the union of their block
//! columns, so that it loads a column's part of B once for all of them.

use super::quadrants;
use super::tiling::{Share, Split, Tiling};
use crate::hopper::{CONSUMER_OVERHEAD, Roles, WGMMA_M, whole_boxes};
use crate::plan::{PlanError, PlanErrors, SparseTimesDense};
use crate::{Arch, KernelSpec, Scale};

/// Most rows of a consumer.
const MOST_ROWS: u32 = 2 * WGMMA_M;
/// Most block rows of a tile: consumers beyond three have too few registers.
pub(crate) const MOST: u32 = 3;

/// The tile of `pack` block rows.
pub(super) fn tiling(spec: &KernelSpec, view: &SparseTimesDense, pack: u32, arch: &Arch) -> Result<Tiling, PlanErrors> {
    check(spec, view, pack)?;
    let (consumers, columns) = quadrants::consumers(spec, pack);
    let tiling = Tiling {
        cta_m: pack * view.rows,
        cta_n: columns,
        split: Split::Rows,
        wg_m: pack / consumers * view.rows,
        wg_n: columns,
        roles: Roles::new(consumers, false, arch),
        partials: 0,
        cluster: 1,
        share: Share::Nothing,
        pack,
    };
    if !tiling.fits(spec.acc) || !tiling.roles.compiles(spec.acc.registers(columns / 2)) {
        let (rows, bn, roles) = (view.rows, spec.bn, tiling.roles);
        return Err(PlanError::new(
            "bn",
            "the accumulators of a block row do not fit the registers of one consumer",
            format!(
                "{rows} x {bn} {} / 128 threads = {} registers, and {CONSUMER_OVERHEAD} more for addresses; each of {pack} \
                 consumers has {}",
                spec.acc,
                tiling.accumulators(spec.acc),
                roles.consumer_registers
            ),
            "bn = ?, or pack = ?",
        )
        .into());
    }
    Ok(tiling)
}

fn check(spec: &KernelSpec, view: &SparseTimesDense, pack: u32) -> Result<(), PlanErrors> {
    let mut errors = PlanErrors::default();
    let mut refuse = |key: &'static str, fact: String, why: &str, help: &str| {
        errors.push(PlanError::new(key, fact, why.to_owned(), help.to_owned()));
    };
    let most = if quadrants::has_quadrants(spec, pack) { 4 } else { MOST };
    if !(2..=most).contains(&pack) {
        let why = "each has its own consumer warpgroup; beyond 3 consumers a thread has too few registers for WGMMA";
        refuse("pack", format!("{pack} block rows cannot share a tile"), why, "pack = 2 or 3");
    }
    if view.rows > MOST_ROWS {
        let why = "a consumer has one block row and at most 128 rows of accumulators";
        refuse("pack", format!("block rows of {} rows cannot share a tile", view.rows), why, "drop `pack`");
    }
    if !whole_boxes(spec.bn) || spec.bn > 256 {
        let why = "a consumer computes all columns of its rows: 16, or a multiple of 32 up to 256";
        refuse("bn", format!("{} columns do not fit one WGMMA", spec.bn), why, "bn = 128 or 256");
    }
    if view.reads_block_columns() {
        let why = "the blocks of a row must be contiguous in storage, as they are in an untransposed matrix";
        refuse("pack", "block rows of a transposed operand cannot share a tile".to_owned(), why, "drop `pack`");
    }
    if view.depth < 64 / view.sparse_type.bytes() || !view.depth.is_multiple_of(32 / view.sparse_type.bytes()) {
        let why = "a stage has the K of one block: at least 64 bytes, a multiple of the 32 bytes of a WGMMA";
        refuse(
            "pack",
            format!("block rows of blocks {} deep cannot share a tile", view.depth),
            why,
            "drop `pack`, or swap = on",
        );
    }
    for (key, given) in [
        ("batch", spec.batch.is_on()),
        ("pdl", spec.pdl == crate::Pdl::Early),
        ("scale", spec.scale != Scale::Unscaled),
        ("accumulate", spec.accumulate == Some(crate::Accumulate::Promoted)),
        ("consumers", spec.consumers.is_some_and(|consumers| consumers != quadrants::consumers(spec, pack).0)),
        ("k_step", spec.k_step.is_some_and(|k_step| k_step > view.depth)),
    ] {
        if given {
            let why = "`pack` with swap = off has one consumer for each block row, and is supported for single products of 16-bit operands or with accumulate = fast";
            refuse(
                key,
                format!("`{key}` is not supported together with `pack`"),
                why,
                &format!("drop `{key}`, or drop `pack`"),
            );
        }
    }
    errors.check()
}
