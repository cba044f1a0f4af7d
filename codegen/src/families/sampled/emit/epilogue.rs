//! The epilogue's operands: packing, staging writes, TMA stores.

use serde::Serialize;

use super::super::plan::{Epilogue, SampledPlan};
use super::consumer::{Stem, WHOLE, accumulator};
use super::fused::{self, Emitter, Strip};
use crate::Dtype;
use crate::hopper::fused::Pack;

/// The epilogue's part of the context.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Context {
    deferred: bool,
    /// The spec's epilogue.
    fused: Option<fused::Fused>,
    dtype: String,
    wide: bool,
    staging_bytes: u32,
    line: u32,
    swizzle: u32,
    variants: Vec<Variant>,
    packed: u32,
    packed_registers: Vec<String>,
    convert: &'static str,
    pass_count: u32,
    pub(super) passes: Vec<Pass>,
}

/// A staging address register and the bits by which it differs from the first.
#[derive(Clone, Debug, Serialize)]
struct Variant {
    register: String,
    flip: u32,
}

/// One filling of the staging buffer.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Pass {
    number: u32,
    packs: Vec<Pack>,
    writes: Vec<Write>,
    stores: Vec<Store>,
    /// Where the epilogue reads a full operand: what is done in place of `packs` and `writes`.
    strips: Vec<Strip>,
    /// Bytes of the full operand.
    tile_bytes: u32,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct Write {
    instruction: &'static str,
    address: String,
    registers: String,
}

/// One block's part of a unit.
#[derive(Clone, Debug, Serialize)]
struct Store {
    /// Bytes from the start of staging.
    offset: u32,
    /// Bytes from a consumer's part of an item to the column within the block, and to the block.
    column_at: u32,
    block_at: u32,
    /// First column of the unit within its slot.
    column: u32,
}

impl Context {
    pub(super) fn new(plan: &SampledPlan) -> Self {
        let e = &plan.epilogue;
        let wide = plan.spec.out.bytes() == 4;
        let packed = if wide { 0 } else { plan.tiling.accumulators() / 2 };
        Self {
            deferred: e.deferred,
            fused: Emitter::new(plan).map(|emitter| emitter.context()),
            dtype: plan.spec.out.to_string(),
            wide,
            staging_bytes: e.staging_bytes(),
            line: e.line,
            swizzle: e.swizzle,
            variants: variants(e),
            packed,
            packed_registers: if e.deferred { (0..packed).map(pack_register).collect() } else { vec![] },
            convert: if plan.spec.out == Dtype::BF16 { "cvt.rn.bf16x2.f32" } else { "cvt.rn.f16x2.f32" },
            pass_count: e.passes(),
            passes: passes(plan, WHOLE, e.units),
        }
    }
}

/// Integer sums that become f32, of a tile with so many accumulators.
pub(super) fn conversions(plan: &SampledPlan, stem: Stem, accumulators: u32) -> Vec<String> {
    let converted = plan.spec.a.is_integer() && plan.spec.out != Dtype::I32;
    let conversion = |i: u32| format!("cvt.rn.f32.s32 %f_{stem}{i}, %r_{stem}{i}");
    (0..accumulators).filter(|_| converted).map(conversion).collect()
}

/// What is packed at the end of a tile with so many accumulators, under a deferred epilogue. The spec's epilogue packs
/// what it is done with.
pub(super) fn packs(plan: &SampledPlan, stem: Stem, accumulators: u32) -> Vec<Pack> {
    let packed = plan.epilogue.deferred && plan.fused.is_none();
    (0..accumulators / 2).filter(|_| packed).map(|i| pack(stem, i)).collect()
}

/// The swizzle's XOR needs one register for each value of the chunk bits that a constant flips: pairs of 16-byte
/// chunks. Without a swizzle constants are added.
fn variants(e: &Epilogue) -> Vec<Variant> {
    let count = if e.swizzle == 0 { 1 } else { e.swizzle / 32 };
    (0..count).map(|i| Variant { register: format!("%r_st{i}"), flip: 32 * i }).collect()
}

fn pack_register(i: u32) -> String {
    format!("%r_pack{i}")
}

pub(super) fn pack(stem: Stem, i: u32) -> Pack {
    Pack { to: pack_register(i), high: format!("%f_{stem}{}", 2 * i + 1), low: format!("%f_{stem}{}", 2 * i) }
}

/// The elements of a tile's first `units` units, where they are all computed before it is stored.
pub(super) fn strips(plan: &SampledPlan, stem: Stem, units: u32) -> Vec<Strip> {
    let emitter = Emitter::new(plan).filter(|_| !plan.epilogue.has_tile);
    emitter.iter().flat_map(|emitter| (0..units).flat_map(|unit| emitter.strips(stem, unit, 0))).collect()
}

/// The passes of a tile's first `units` units.
pub(super) fn passes(plan: &SampledPlan, stem: Stem, units: u32) -> Vec<Pass> {
    let (e, t) = (&plan.epilogue, &plan.tiling);
    let wide = plan.spec.out.bytes() == 4;
    let emitter = Emitter::new(plan);
    let units: Vec<u32> = (0..units).collect();
    let mut passes = vec![];
    for (number, chunk) in units.chunks(e.staged as usize).enumerate() {
        let mut pass = Pass { number: number as u32 + 1, ..Pass::default() };
        for (place, unit) in chunk.iter().enumerate() {
            let at = place as u32 * e.unit_bytes();
            let (slot, column) = (unit / e.units_per_slot, unit % e.units_per_slot * e.unit);
            // 64 rows are 4 accumulators a thread for every 8 columns.
            let first = (slot * t.pitch + column) / 2;
            if e.has_tile {
                pass.strips.extend(emitter.iter().flat_map(|emitter| emitter.strips(stem, *unit, at)));
                pass.tile_bytes += t.pack * e.box_rows * e.line;
            } else if wide {
                pass.writes.extend(writes_32(plan, stem, first, at));
            } else {
                if !e.deferred {
                    pass.packs.extend((first / 2..(first + e.unit / 2) / 2).map(|i| pack(stem, i)));
                }
                pass.writes.extend(writes_16(e, first / 2, at));
            }
            let of_slot = plan.item.stores(slot) - plan.item.stores(0);
            pass.stores.extend((0..t.pack).map(|packed| Store {
                offset: at + packed * e.box_rows * e.line,
                column_at: of_slot,
                block_at: of_slot + 4 * (1 + packed),
                column,
            }));
        }
        passes.push(pass);
    }
    passes
}

/// stmatrix writes 16 rows x 16 columns a warp from four registers, or 16 x 8 from two.
pub(super) fn writes_16(e: &Epilogue, first: u32, at: u32) -> Vec<Write> {
    let write = |pair: u32| {
        let whole = 16 * (pair + 1) <= e.unit;
        let count = if whole { 4 } else { 2 };
        let registers: Vec<String> = (first + 4 * pair..first + 4 * pair + count).map(pack_register).collect();
        Write {
            instruction: match whole {
                true => "stmatrix.sync.aligned.m8n8.x4.shared.b16",
                false => "stmatrix.sync.aligned.m8n8.x2.shared.b16",
            },
            address: chunk_address(e, pair, at),
            registers: format!("{{ {} }}", registers.join(", ")),
        }
    };
    (0..e.unit.div_ceil(16)).map(write).collect()
}

/// A thread writes pairs of columns, 8 bytes, of two rows.
pub(super) fn writes_32(plan: &SampledPlan, stem: Stem, first: u32, at: u32) -> Vec<Write> {
    let e = &plan.epilogue;
    let out = |i: u32| if plan.spec.out == Dtype::I32 { accumulator(plan, stem, i) } else { format!("%f_{stem}{i}") };
    let write = |group: u32, half: u32| {
        let i = first + 4 * group + 2 * half;
        Write {
            instruction: "st.shared.v2.b32",
            address: chunk_address(e, group, at + half * 8 * e.line),
            registers: format!("{{ {}, {} }}", out(i), out(i + 1)),
        }
    };
    (0..e.unit / 8).flat_map(|group| [write(group, 0), write(group, 1)]).collect()
}

/// The address of pair `pair` of 16-byte chunks in a line, `at` bytes further on.
pub(super) fn chunk_address(e: &Epilogue, pair: u32, at: u32) -> String {
    let (register, offset) = match e.swizzle {
        0 => ("%r_st0".to_owned(), at + 32 * pair),
        _ => (format!("%r_st{pair}"), at),
    };
    if offset == 0 { register } else { format!("{register} + {offset}") }
}
