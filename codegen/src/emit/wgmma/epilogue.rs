//! The epilogue's operands: packing, staging writes, TMA stores.

use serde::Serialize;

use super::consumer::accumulator;
use super::scale::Finish;
use crate::plan::wgmma::{Epilogue, Plan};
use crate::{Dtype, Layout};

/// The epilogue's part of the context.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Context {
    deferred: bool,
    finish: Finish,
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
    /// What a complete tile's store needs beside its place.
    adopt: Vec<String>,
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
    /// Instructions that make the register.
    setup: Vec<String>,
    address: String,
    registers: String,
}

#[derive(Clone, Debug, Serialize)]
struct Store {
    offset: u32,
    inner: u32,
    outer: u32,
}

/// How accumulators lie in staging: bytes of an element of C, and C's layout.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Staging {
    Row8,
    Col8,
    Row16,
    Col16,
    Row32,
    Col32,
}

impl Staging {
    fn new(plan: &Plan) -> Self {
        match (plan.spec.out.bytes(), plan.view.out) {
            (1, Layout::RowMajor) => Self::Row8,
            (1, Layout::ColMajor) => Self::Col8,
            (2, Layout::RowMajor) => Self::Row16,
            (2, Layout::ColMajor) => Self::Col16,
            (_, Layout::RowMajor) => Self::Row32,
            (_, Layout::ColMajor) => Self::Col32,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Row8 => "8-bit row-major",
            Self::Col8 => "8-bit column-major",
            Self::Row16 => "16-bit row-major",
            Self::Col16 => "16-bit column-major",
            Self::Row32 => "32-bit row-major",
            Self::Col32 => "32-bit column-major",
        }
    }

    fn write(self) -> &'static str {
        match self {
            Self::Row8 => "st.shared.b16",
            Self::Col8 => "st.shared.b8",
            Self::Row16 => "stmatrix.sync.aligned.m8n8.x4.shared.b16",
            Self::Col16 => "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16",
            Self::Row32 => "st.shared.v2.b32",
            Self::Col32 => "st.shared.b32",
        }
    }

    fn is_16_bit(self) -> bool {
        matches!(self, Self::Row16 | Self::Col16)
    }
}

impl Context {
    pub(super) fn new(plan: &Plan) -> Self {
        let e = &plan.epilogue;
        let staging = Staging::new(plan);
        let row_major = plan.view.out == Layout::RowMajor;
        let (swizzle_shift, swizzle_mask) = match e.span {
            128 => (0, 7),
            64 => (1, 3),
            32 => (2, 1),
            _ => (0, 0),
        };
        let packed = if staging.is_16_bit() { plan.tiling.accumulators() / 2 } else { 0 };
        Self {
            deferred: e.deferred,
            finish: Finish::new(plan),
            dtype: plan.spec.out.to_string(),
            staging: staging.words(),
            staging_bytes: e.staging_bytes(),
            span: e.span,
            swizzle_shift,
            swizzle_mask,
            unit_bytes: e.region_bytes / e.stores,
            row_permutation: plan.a.row_permutation(),
            variants: variants(e, staging),
            packed,
            packed_registers: if e.deferred { (0..packed).map(pack_register).collect() } else { vec![] },
            packs: if e.deferred { (0..packed).map(pack).collect() } else { vec![] },
            convert: if plan.spec.out == Dtype::BF16 { "cvt.rn.bf16x2.f32" } else { "cvt.rn.f16x2.f32" },
            write: staging.write(),
            inner: if row_major { "%r_out_col" } else { "%r_out_row" },
            outer: if row_major { "%r_out_row" } else { "%r_out_col" },
            adopt: super::batch::adopt_result(plan),
            pass_count: e.passes(),
            passes: passes(plan, staging),
        }
    }
}

/// Address variants: the swizzle's XOR needs one register for each value of the chunk bits that a constant flips.
fn variants(e: &Epilogue, staging: Staging) -> Vec<Variant> {
    let flips: Vec<String> = match staging {
        Staging::Row16 | Staging::Row32 => (0..e.span / 32).map(|q| (q * 32).to_string()).collect(),
        Staging::Row8 => (0..e.span / 16).map(|q| (q * 16).to_string()).collect(),
        Staging::Col8 | Staging::Col16 => vec![],
        Staging::Col32 => (0..4).map(|v| (v / 2 * 32 + v % 2 * 16).to_string()).collect(),
    };
    flips.into_iter().enumerate().map(|(i, flip)| Variant { register: format!("%r_st{i}"), flip }).collect()
}

fn pack_register(i: u32) -> String {
    format!("%r_pack{i}")
}

fn pack(i: u32) -> Pack {
    Pack { to: pack_register(i), high: format!("%f_acc{}", 2 * i + 1), low: format!("%f_acc{}", 2 * i) }
}

fn passes(plan: &Plan, staging: Staging) -> Vec<Pass> {
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
            match staging {
                Staging::Row8 => pass.writes.extend(writes_8_row(e, first, at)),
                Staging::Col8 => pass.writes.extend(writes_8_col(e, first, at)),
                Staging::Row32 => pass.writes.extend(writes_32_row(plan, first, at)),
                Staging::Col32 => pass.writes.extend(writes_32_col(plan, first, at)),
                Staging::Row16 | Staging::Col16 => {
                    if !e.deferred {
                        pass.packs.extend((first / 2..(first + count) / 2).map(pack));
                    }
                    pass.writes.extend(writes_16(e, first / 2, at, staging == Staging::Row16));
                }
            }
            for unit in 0..e.stores {
                let along = unit * e.store_box.0;
                let (rows, cols) = (m * 64, n * e.region_n);
                let row_major = plan.view.out == Layout::RowMajor;
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
                setup: vec![],
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

fn writes_32_row(plan: &Plan, first: u32, at: u32) -> Vec<Write> {
    let e = &plan.epilogue;
    let (unit_bytes, per_unit) = (e.region_bytes / e.stores, e.span / 32);
    let write = |t: u32, half: u32| {
        let acc = first + 4 * t + 2 * half;
        Write {
            setup: vec![],
            address: address(&format!("%r_st{}", t % per_unit), at + t / per_unit * unit_bytes + half * 8 * e.span),
            registers: format!("{{ {}, {} }}", accumulator_out(plan, acc), accumulator_out(plan, acc + 1)),
        }
    };
    (0..e.region_n / 8).flat_map(|t| [write(t, 0), write(t, 1)]).collect()
}

fn writes_32_col(plan: &Plan, first: u32, at: u32) -> Vec<Write> {
    let e = &plan.epilogue;
    let write = |t: u32, half: u32, column: u32| Write {
        setup: vec![],
        address: address(&format!("%r_st{}", 2 * half + column), at + t * 8 * e.span + column * e.span),
        registers: accumulator_out(plan, first + 4 * t + 2 * half + column),
    };
    (0..e.region_n / 8)
        .flat_map(|t| [(0, 0), (0, 1), (1, 0), (1, 1)].map(|(half, column)| write(t, half, column)))
        .collect()
}

/// The register whose 32 bits are an element of C: a sum as it is, or what was made of it.
fn accumulator_out(plan: &Plan, i: u32) -> String {
    if plan.spec.out == Dtype::I32 { accumulator(plan, i) } else { format!("%f_acc{i}") }
}

/// Two sums become two 8-bit values in a 16-bit register, beyond the largest value the largest value.
fn convert_8(acc: u32) -> String {
    format!("cvt.rn.satfinite.e4m3x2.f32 %h_pair, %f_acc{}, %f_acc{acc}", acc + 1)
}

/// A thread writes pairs of columns, 2 bytes.
fn writes_8_row(e: &Epilogue, first: u32, at: u32) -> Vec<Write> {
    let write = |t: u32, half: u32| Write {
        setup: vec![convert_8(first + 4 * t + 2 * half)],
        address: address(&format!("%r_st{}", t / 2), at + t % 2 * 8 + half * 8 * e.span),
        registers: "%h_pair".to_owned(),
    };
    (0..e.region_n / 8).flat_map(|t| [write(t, 0), write(t, 1)]).collect()
}

/// A thread writes single bytes, to two columns.
fn writes_8_col(e: &Epilogue, first: u32, at: u32) -> Vec<Write> {
    let write = |t: u32, half: u32, column: u32| Write {
        setup: match column {
            0 => vec![convert_8(first + 4 * t + 2 * half)],
            _ => vec!["shr.b16 %h_pair, %h_pair, 8".to_owned()],
        },
        address: address("%r_st0", at + (8 * t + column) * e.span + 8 * half),
        registers: "%h_pair".to_owned(),
    };
    (0..e.region_n / 8)
        .flat_map(|t| [(0, 0), (0, 1), (1, 0), (1, 1)].map(|(half, column)| write(t, half, column)))
        .collect()
}

fn address(register: &str, offset: u32) -> String {
    if offset == 0 { register.to_owned() } else { format!("{register} + {offset}") }
}
