//! The store of a tile: packing, staging writes, the boxes that TMA stores.

use serde::Serialize;

use super::super::plan::{BlockRowsPlan, Epilogue};
use super::fused::{Emitter, OperandPart};
use super::quadrants;
use super::staging::Staging;
use super::sums::sums;
use crate::hopper::fused::COLUMN_BATCH;
use crate::hopper::permuted::StoredRows;
use crate::hopper::store::{Pack, Store, StoreBox, Write, address, convert, packed};
use crate::{Dtype, Layout};

/// One filling of the staging buffer.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Subtile {
    number: u32,
    packs: Vec<Pack>,
    writes: Vec<Write>,
    boxes: Vec<StoreBox>,
    /// Where the epilogue reads a full operand: what is done in place of `packs` and `writes`.
    parts: Vec<WrittenPart>,
    /// Bytes of the full operand.
    operand_bytes: u32,
    /// Where rows of C are in an order of the launch: what is done in place of `boxes`.
    permuted: Option<StoredRows>,
}

/// A part of the full operand and what of C takes its place.
#[derive(Clone, Debug, Serialize)]
struct WrittenPart {
    /// A branch keeps ptxas from scheduling it together with the parts before it.
    is_apart: bool,
    operand: OperandPart,
    packs: Vec<Pack>,
    writes: Vec<Write>,
}

/// What the subtiles of a store have in common.
pub(super) fn context(plan: &BlockRowsPlan) -> Store {
    let (inner, outer) = match plan.view.out {
        Layout::RowMajor => ("%r_out_col", "%r_out_row"),
        Layout::ColMajor => ("%r_out_row", "%r_out_col"),
    };
    Store {
        convert: if is_copied(plan) { "mov.b32" } else { convert(plan.spec.out) },
        subtiles: plan.epilogue.subtiles(),
        lead: "%p_store",
        pending: 0,
        map: "%rd_map_c",
        inner,
        outer,
    }
}

/// Registers that a tile is packed or copied to.
fn packed_count(plan: &BlockRowsPlan) -> u32 {
    if plan.epilogue.overlapped { plan.copied_registers() } else { 0 }
}

/// The registers of a tile whose store is overlapped.
pub(super) fn packed_registers(plan: &BlockRowsPlan) -> Vec<String> {
    (0..packed_count(plan)).map(packed).collect()
}

/// What is packed when a tile ends; the spec's epilogue packs what it is done with.
pub(super) fn packs_of_tile(plan: &BlockRowsPlan) -> Vec<Pack> {
    (0..packed_count(plan)).filter(|_| plan.fused.is_none()).map(|i| pack(plan, i)).collect()
}

fn pack(plan: &BlockRowsPlan, i: u32) -> Pack {
    match is_copied(plan) {
        true => Pack::copy(packed(i), sums(plan).name(i)),
        false => Pack::new("acc", i),
    }
}

/// Are sums kept as they are: pairs of f16, or of 32 bits?
fn is_copied(plan: &BlockRowsPlan) -> bool {
    has_half_sums(plan) || plan.spec.out.bytes() == 4
}

/// Are accumulators pairs of f16, as C takes them?
pub(super) fn has_half_sums(plan: &BlockRowsPlan) -> bool {
    plan.precision.accumulator == Dtype::F16
}

/// The register of two neighbouring 16-bit values of C, number `i` of the tile.
pub(super) fn pair_of_c(plan: &BlockRowsPlan, i: u32) -> String {
    if has_half_sums(plan) && !plan.epilogue.overlapped { sums(plan).name(i) } else { packed(i) }
}

/// What makes some of these registers when a subtile is stored.
fn late_packs(plan: &BlockRowsPlan, numbers: std::ops::Range<u32>) -> Vec<Pack> {
    let are_made = has_half_sums(plan) || plan.epilogue.overlapped;
    numbers.filter(|_| !are_made).map(|i| pack(plan, i)).collect()
}

/// The subtiles of a tile's store.
pub(super) fn subtiles(plan: &BlockRowsPlan) -> Vec<Subtile> {
    let (e, staging) = (&plan.epilogue, Staging::new(plan));
    let mut subtiles = vec![];
    let emitter = Emitter::new(plan).filter(|_| e.has_tile);
    let regions: Vec<(u32, u32)> = (0..e.regions.0).flat_map(|m| (0..e.regions.1).map(move |n| (m, n))).collect();
    for (number, staged) in regions.chunks(e.staged as usize).enumerate() {
        let number = number as u32 + 1;
        let mut subtile = Subtile { number, ..Subtile::default() };
        for (place, &(m, n)) in staged.iter().enumerate() {
            let at = place as u32 * e.region_bytes;
            // Accumulators of this region: 64 rows are 4 a thread for every 8 columns.
            let first = (m * plan.tiling.wg_n + n * e.region_n) / 2;
            let count = e.region_n / 2;
            match &emitter {
                Some(emitter) => {
                    let parts = emitter.parts(staging, (m, n), at).into_iter();
                    let written = |(part, q)| written(plan, staging, (part, q), first, at);
                    subtile.parts.extend(parts.map(written));
                }
                None => {
                    if staging.is_16_bit() {
                        subtile.packs.extend(late_packs(plan, first / 2..(first + count) / 2));
                    }
                    subtile.writes.extend(writes(plan, staging, first, at));
                }
            }
            for unit in 0..e.stores {
                let along = unit * e.store_box.0;
                let (rows, cols) = (m * 64, n * e.region_n);
                let row_major = plan.view.out == Layout::RowMajor;
                let (inner, outer) = if row_major { (cols + along, rows) } else { (rows + along, cols) };
                let offset = at + unit * (e.region_bytes / e.stores);
                subtile.boxes.push(match plan.has_blocks_of_c() {
                    true => quadrants::store_box(plan, offset, (rows, cols + along)),
                    false => StoreBox { offset, inner, outer, row_at: None },
                });
            }
            subtile.operand_bytes += e.region_bytes;
        }
        if plan.spec.permute.is_on() {
            subtile.permuted = Some(permuted(plan, &subtile.boxes));
        }
        subtiles.push(subtile);
    }
    subtiles
}

/// The stores of a subtile, row by row.
fn permuted(plan: &BlockRowsPlan, boxes: &[StoreBox]) -> StoredRows {
    let lines = plan.epilogue.store_box.1;
    StoredRows::new((plan.epilogue.span, lines, plan.spec.out.bytes()), boxes)
}

/// All writes of the region whose first accumulator is `first`.
fn writes(plan: &BlockRowsPlan, staging: Staging, first: u32, at: u32) -> Vec<Write> {
    let e = &plan.epilogue;
    match staging {
        Staging::Row8 => writes_8_row(e, first, at),
        Staging::Col8 => writes_8_col(e, first, at),
        Staging::Row16 | Staging::Col16 => {
            (0..e.region_n / 16).map(|q| write_16(plan, staging, (first / 2, q), at)).collect()
        }
        Staging::Row32 | Staging::Col32 => {
            (0..e.region_n / 8).flat_map(|t| writes_32(plan, staging, (first, t), at)).collect()
        }
    }
}

/// The writes that a part of a full operand is followed by.
fn written(
    plan: &BlockRowsPlan,
    staging: Staging,
    (operand, q): (OperandPart, u32),
    first: u32,
    at: u32,
) -> WrittenPart {
    match staging.is_16_bit() {
        true => WrittenPart {
            is_apart: q > 0 && q.is_multiple_of(COLUMN_BATCH / 8),
            operand,
            packs: late_packs(plan, first / 2 + 4 * q..first / 2 + 4 * q + 4),
            writes: vec![write_16(plan, staging, (first / 2, q), at)],
        },
        false => WrittenPart {
            is_apart: q > 0 && q.is_multiple_of(COLUMN_BATCH / 4),
            operand,
            packs: vec![],
            writes: writes_32(plan, staging, (first, q), at),
        },
    }
}

/// stmatrix writes 16 rows x 16 columns a warp: four registers.
fn write_16(plan: &BlockRowsPlan, staging: Staging, (first, q): (u32, u32), at: u32) -> Write {
    let registers: Vec<String> = (first + 4 * q..first + 4 * q + 4).map(|i| pair_of_c(plan, i)).collect();
    Write::new(staging.write(), staging.address_16(&plan.epilogue, q, at), format!("{{ {} }}", registers.join(", ")))
}

/// The four accumulators of columns 8 t .. 8 t + 8.
fn writes_32(plan: &BlockRowsPlan, staging: Staging, (first, t): (u32, u32), at: u32) -> Vec<Write> {
    let e = &plan.epilogue;
    let out = |half: u32, column: u32| accumulator_out(plan, first + 4 * t + 2 * half + column);
    let write = |address: String, registers: String| Write::new(staging.write(), address, registers);
    match staging.row_major() {
        true => [0, 1]
            .map(|half| {
                let both = format!("{{ {}, {} }}", out(half, 0), out(half, 1));
                write(staging.address_32_row(e, (t, half), at), both)
            })
            .to_vec(),
        false => [(0, 0), (0, 1), (1, 0), (1, 1)]
            .map(|(half, column)| write(staging.address_32_col(e, (t, half, column), at), out(half, column)))
            .to_vec(),
    }
}

/// The register whose 32 bits are an element of C: a sum as it is, or what was made of it.
fn accumulator_out(plan: &BlockRowsPlan, i: u32) -> String {
    match plan.spec.out {
        _ if plan.epilogue.overlapped => packed(i),
        Dtype::I32 => sums(plan).name(i),
        _ => format!("%f_acc{i}"),
    }
}

/// A thread writes pairs of columns, 2 bytes.
fn writes_8_row(e: &Epilogue, first: u32, at: u32) -> Vec<Write> {
    let write = |t: u32, half: u32| {
        let to = address(&format!("%r_st{}", t / 2), at + t % 2 * 8 + half * 8 * e.span);
        Write::pair_of_8(Staging::Row8.write(), to, first + 4 * t + 2 * half)
    };
    (0..e.region_n / 8).flat_map(|t| [write(t, 0), write(t, 1)]).collect()
}

/// A thread writes single bytes, to two columns.
fn writes_8_col(e: &Epilogue, first: u32, at: u32) -> Vec<Write> {
    let writes = |t: u32, half: u32| {
        let to = |column: u32| address("%r_st0", at + (8 * t + column) * e.span + 8 * half);
        let pair = Write::pair_of_8(Staging::Col8.write(), to(0), first + 4 * t + 2 * half);
        [pair, Write::upper_of_8(Staging::Col8.write(), to(1))]
    };
    (0..e.region_n / 8).flat_map(|t| [0, 1].map(|half| (t, half))).flat_map(|(t, half)| writes(t, half)).collect()
}
