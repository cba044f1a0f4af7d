//! The epilogue's operands: packing, staging writes, TMA stores.

use serde::Serialize;

use crate::plan::{Epilogue, Plan};
use crate::{Dtype, Layout};

/// The epilogue's part of the context.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Context {
    deferred: bool,
    dtype: String,
    staging: &'static str,
    staging_bytes: u32,
    span: u32,
    swizzle_shift: u32,
    swizzle_mask: u32,
    unit_bytes: u32,
    row_permutation: u32,
    variants: Vec<Variant>,
    packed: u32,
    packed_registers: Vec<String>,
    packs: Vec<Pack>,
    convert: &'static str,
    write: &'static str,
    inner: &'static str,
    outer: &'static str,
    pass_count: u32,
    pub(super) passes: Vec<Pass>,
}

/// A staging address register and the bits by which it differs from the first.
#[derive(Clone, Debug, Serialize)]
struct Variant {
    register: String,
    flip: String,
}

/// Two f32 accumulators become one register of two 16-bit values.
#[derive(Clone, Debug, Serialize)]
struct Pack {
    to: String,
    high: String,
    low: String,
}

/// One filling of the staging buffer.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Pass {
    number: u32,
    packs: Vec<Pack>,
    writes: Vec<Write>,
    stores: Vec<Store>,
}

#[derive(Clone, Debug, Serialize)]
struct Write {
    address: String,
    registers: String,
}

#[derive(Clone, Debug, Serialize)]
struct Store {
    offset: u32,
    inner: u32,
    outer: u32,
}

impl Context {
    pub(super) fn new(plan: &Plan) -> Self {
        let e = &plan.epilogue;
        let wide = plan.spec.out == Dtype::F32;
        let row_major = plan.spec.c_layout == Layout::RowMajor;
        let (swizzle_shift, swizzle_mask) = match e.span {
            128 => (0, 7),
            64 => (1, 3),
            _ => (2, 1),
        };
        let packed = if wide { 0 } else { plan.tiling.accumulators() / 2 };
        Self {
            deferred: e.deferred,
            dtype: plan.spec.out.to_string(),
            staging: match (wide, row_major) {
                (false, true) => "16-bit row-major",
                (false, false) => "16-bit column-major",
                (true, true) => "32-bit row-major",
                (true, false) => "32-bit column-major",
            },
            staging_bytes: e.staging_bytes(),
            span: e.span,
            swizzle_shift,
            swizzle_mask,
            unit_bytes: e.region_bytes / e.stores,
            row_permutation: plan.a.row_permutation(),
            variants: variants(e, wide, row_major),
            packed,
            packed_registers: if e.deferred { (0..packed).map(pack_register).collect() } else { vec![] },
            packs: if e.deferred { (0..packed).map(pack).collect() } else { vec![] },
            convert: if plan.spec.out == Dtype::BF16 { "cvt.rn.bf16x2.f32" } else { "cvt.rn.f16x2.f32" },
            write: match (wide, row_major) {
                (false, true) => "stmatrix.sync.aligned.m8n8.x4.shared.b16",
                (false, false) => "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16",
                (true, true) => "st.shared.v2.f32",
                (true, false) => "st.shared.f32",
            },
            inner: if row_major { "%r_out_col" } else { "%r_out_row" },
            outer: if row_major { "%r_out_row" } else { "%r_out_col" },
            pass_count: e.passes(),
            passes: passes(plan, wide, row_major),
        }
    }
}

/// Address variants: the swizzle's XOR needs one register for each value of the chunk bits that a constant flips.
fn variants(e: &Epilogue, wide: bool, row_major: bool) -> Vec<Variant> {
    let flips: Vec<String> = match (wide, row_major) {
        (false, true) => (0..e.span / 32).map(|q| (q * 32).to_string()).collect(),
        (false, false) => vec![],
        (true, true) => (0..e.span / 32).map(|q| (q * 32).to_string()).collect(),
        (true, false) => (0..4).map(|v| (v / 2 * 32 + v % 2 * 16).to_string()).collect(),
    };
    flips.into_iter().enumerate().map(|(i, flip)| Variant { register: format!("%r_st{i}"), flip }).collect()
}

fn pack_register(i: u32) -> String {
    format!("%r_pack{i}")
}

fn pack(i: u32) -> Pack {
    Pack { to: pack_register(i), high: format!("%f_acc{}", 2 * i + 1), low: format!("%f_acc{}", 2 * i) }
}

fn passes(plan: &Plan, wide: bool, row_major: bool) -> Vec<Pass> {
    let e = &plan.epilogue;
    let mut passes = vec![];
    let regions: Vec<(u32, u32)> = (0..e.regions.0).flat_map(|m| (0..e.regions.1).map(move |n| (m, n))).collect();
    for (number, chunk) in regions.chunks(e.staged as usize).enumerate() {
        let mut pass = Pass { number: number as u32 + 1, ..Pass::default() };
        for (place, &(m, n)) in chunk.iter().enumerate() {
            let at = place as u32 * e.region_bytes;
            // Accumulators of this region: 64 rows are 4 a thread for every 8 columns.
            let first = (m * plan.tiling.wg_n + n * e.region_n) / 2;
            let count = e.region_n / 2;
            if wide {
                pass.writes.extend(writes_32(e, first, at, row_major));
            } else {
                if !e.deferred {
                    pass.packs.extend((first / 2..(first + count) / 2).map(pack));
                }
                pass.writes.extend(writes_16(e, first / 2, at, row_major));
            }
            for unit in 0..e.stores {
                let along = unit * e.store_box.0;
                let (rows, cols) = (m * 64, n * e.region_n);
                let (inner, outer) = if row_major { (cols + along, rows) } else { (rows + along, cols) };
                pass.stores.push(Store { offset: at + unit * (e.region_bytes / e.stores), inner, outer });
            }
        }
        passes.push(pass);
    }
    passes
}

/// stmatrix writes 16 rows x 16 columns a warp: four registers.
fn writes_16(e: &Epilogue, first: u32, at: u32, row_major: bool) -> Vec<Write> {
    (0..e.region_n / 16)
        .map(|q| {
            let registers: Vec<String> = (first + 4 * q..first + 4 * q + 4).map(pack_register).collect();
            Write {
                address: if row_major {
                    address(&format!("%r_st{q}"), at)
                } else {
                    address("%r_st0", at + q * 16 * e.span)
                },
                registers: format!("{{ {} }}", registers.join(", ")),
            }
        })
        .collect()
}

fn writes_32(e: &Epilogue, first: u32, at: u32, row_major: bool) -> Vec<Write> {
    let unit_bytes = e.region_bytes / e.stores;
    let mut writes = vec![];
    for t in 0..e.region_n / 8 {
        let acc = first + 4 * t;
        for half in 0..2 {
            if row_major {
                let per_unit = e.span / 32;
                writes.push(Write {
                    address: address(
                        &format!("%r_st{}", t % per_unit),
                        at + t / per_unit * unit_bytes + half * 8 * e.span,
                    ),
                    registers: format!("{{ %f_acc{}, %f_acc{} }}", acc + 2 * half, acc + 2 * half + 1),
                });
            } else {
                for column in 0..2 {
                    writes.push(Write {
                        address: address(&format!("%r_st{}", 2 * half + column), at + t * 8 * e.span + column * e.span),
                        registers: format!("%f_acc{}", acc + 2 * half + column),
                    });
                }
            }
        }
    }
    writes
}

fn address(register: &str, offset: u32) -> String {
    if offset == 0 { register.to_owned() } else { format!("{register} + {offset}") }
}
