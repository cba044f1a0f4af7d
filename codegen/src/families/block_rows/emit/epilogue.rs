//! The epilogue's operands: packing, staging writes, TMA stores.

use serde::Serialize;

use super::super::plan::{BlockRowsPlan, Epilogue};
use super::consumer::accumulator;
use super::fused::{self, Emitter, Piece};
use super::scale::Finish;
use crate::hopper::fused::{Pack, STRIP};
use crate::hopper::permuted::{Staged, swizzle};
use crate::{Dtype, Layout};

/// The epilogue's part of the context.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Context {
    deferred: bool,
    /// C is written by threads, not by TMA.
    permuted: bool,
    finish: Finish,
    /// The spec's epilogue.
    fused: Option<fused::Fused>,
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

/// One filling of the staging buffer.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Pass {
    number: u32,
    packs: Vec<Pack>,
    writes: Vec<Write>,
    stores: Vec<Store>,
    /// Where the epilogue reads a full operand: what is done in place of `packs` and `writes`.
    pieces: Vec<WrittenPiece>,
    /// Bytes of the full operand.
    tile_bytes: u32,
    /// Where rows of C are in an order of the launch: what is done in place of `stores`.
    permuted: Vec<String>,
    is_last: bool,
}

/// A piece of the full operand and the part of C that takes its place.
#[derive(Clone, Debug, Serialize)]
struct WrittenPiece {
    /// A branch keeps ptxas from scheduling it together with the pieces before it.
    is_apart: bool,
    piece: Piece,
    packs: Vec<Pack>,
    writes: Vec<Write>,
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
pub(super) enum Staging {
    Row8,
    Col8,
    Row16,
    Col16,
    Row32,
    Col32,
}

impl Staging {
    fn new(plan: &BlockRowsPlan) -> Self {
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

    /// The instruction that reads back what `write` writes, to the same threads.
    pub(super) fn read(self) -> &'static str {
        match self {
            Self::Row8 | Self::Col8 => "",
            Self::Row16 => "ldmatrix.sync.aligned.m8n8.x4.shared.b16",
            Self::Col16 => "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16",
            Self::Row32 => "ld.shared.v2.f32",
            Self::Col32 => "ld.shared.f32",
        }
    }

    pub(super) fn row_major(self) -> bool {
        matches!(self, Self::Row8 | Self::Row16 | Self::Row32)
    }

    /// Where 16 rows of columns 16 q .. 16 q + 16 of a region go.
    pub(super) fn address_16(self, e: &Epilogue, q: u32, at: u32) -> String {
        match self.row_major() {
            true => address(&format!("%r_st{q}"), at),
            false => address("%r_st0", at + q * 16 * e.span),
        }
    }

    /// Where two columns of 8 t .. 8 t + 8 of a region go.
    pub(super) fn address_32_row(self, e: &Epilogue, (t, half): (u32, u32), at: u32) -> String {
        let (unit_bytes, per_unit) = (e.region_bytes / e.stores, e.span / 32);
        address(&format!("%r_st{}", t % per_unit), at + t / per_unit * unit_bytes + half * 8 * e.span)
    }

    /// Where one of them goes.
    pub(super) fn address_32_col(self, e: &Epilogue, (t, half, column): (u32, u32, u32), at: u32) -> String {
        address(&format!("%r_st{}", 2 * half + column), at + t * 8 * e.span + column * e.span)
    }

    pub(super) fn is_16_bit(self) -> bool {
        matches!(self, Self::Row16 | Self::Col16)
    }
}

impl Context {
    pub(super) fn new(plan: &BlockRowsPlan) -> Self {
        let e = &plan.epilogue;
        let staging = Staging::new(plan);
        let row_major = plan.view.out == Layout::RowMajor;
        let (swizzle_shift, swizzle_mask) = swizzle(e.span);
        let packed = if staging.is_16_bit() { plan.tiling.accumulators() / 2 } else { 0 };
        Self {
            deferred: e.deferred,
            permuted: plan.spec.permute.is_on(),
            finish: Finish::new(plan),
            fused: Emitter::new(plan).map(|emitter| emitter.context()),
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
            // The spec's epilogue packs what it is done with.
            packs: if e.deferred && plan.fused.is_none() { (0..packed).map(pack).collect() } else { vec![] },
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

pub(super) fn pack(i: u32) -> Pack {
    Pack { to: pack_register(i), high: format!("%f_acc{}", 2 * i + 1), low: format!("%f_acc{}", 2 * i) }
}

fn passes(plan: &BlockRowsPlan, staging: Staging) -> Vec<Pass> {
    let e = &plan.epilogue;
    let mut passes = vec![];
    let emitter = Emitter::new(plan).filter(|_| e.has_tile);
    let regions: Vec<(u32, u32)> = (0..e.regions.0).flat_map(|m| (0..e.regions.1).map(move |n| (m, n))).collect();
    for (number, chunk) in regions.chunks(e.staged as usize).enumerate() {
        let number = number as u32 + 1;
        let mut pass = Pass { number, is_last: number == e.passes(), ..Pass::default() };
        for (place, &(m, n)) in chunk.iter().enumerate() {
            let at = place as u32 * e.region_bytes;
            // Accumulators of this region: 64 rows are 4 a thread for every 8 columns.
            let first = (m * plan.tiling.wg_n + n * e.region_n) / 2;
            let count = e.region_n / 2;
            match &emitter {
                Some(emitter) => {
                    let pieces = emitter.pieces(staging, (m, n), at).into_iter();
                    let written = |(piece, q)| written(plan, staging, (piece, q), first, at);
                    pass.pieces.extend(pieces.map(written));
                }
                None => {
                    if staging.is_16_bit() && !e.deferred {
                        pass.packs.extend((first / 2..(first + count) / 2).map(pack));
                    }
                    pass.writes.extend(writes(plan, staging, first, at));
                }
            }
            for unit in 0..e.stores {
                let along = unit * e.store_box.0;
                let (rows, cols) = (m * 64, n * e.region_n);
                let row_major = plan.view.out == Layout::RowMajor;
                let (inner, outer) = if row_major { (cols + along, rows) } else { (rows + along, cols) };
                pass.stores.push(Store { offset: at + unit * (e.region_bytes / e.stores), inner, outer });
            }
            pass.tile_bytes += e.region_bytes;
        }
        if plan.spec.permute.is_on() {
            pass.permuted = permuted(plan, &pass.stores);
        }
        passes.push(pass);
    }
    passes
}

/// The stores of a pass, row by row.
fn permuted(plan: &BlockRowsPlan, stores: &[Store]) -> Vec<String> {
    let (shift, mask) = swizzle(plan.epilogue.span);
    let (span, rows) = (plan.epilogue.span, plan.epilogue.store_box.1);
    let staged = Staged { span, shift, mask, rows, bytes: plan.spec.out.bytes() };
    let units = stores.iter().flat_map(|store| staged.unit(store.offset, (store.outer, store.inner)));
    staged.begin().into_iter().chain(units).collect()
}

/// All writes of the region whose first accumulator is `first`.
fn writes(plan: &BlockRowsPlan, staging: Staging, first: u32, at: u32) -> Vec<Write> {
    let e = &plan.epilogue;
    match staging {
        Staging::Row8 => writes_8_row(e, first, at),
        Staging::Col8 => writes_8_col(e, first, at),
        Staging::Row16 | Staging::Col16 => {
            (0..e.region_n / 16).map(|q| write_16(e, staging, (first / 2, q), at)).collect()
        }
        Staging::Row32 | Staging::Col32 => {
            (0..e.region_n / 8).flat_map(|t| writes_32(plan, staging, (first, t), at)).collect()
        }
    }
}

/// The writes that a piece of a full operand is followed by.
fn written(plan: &BlockRowsPlan, staging: Staging, (piece, q): (Piece, u32), first: u32, at: u32) -> WrittenPiece {
    let e = &plan.epilogue;
    match staging.is_16_bit() {
        true => WrittenPiece {
            is_apart: q > 0 && q.is_multiple_of(STRIP / 8),
            piece,
            packs: (first / 2 + 4 * q..first / 2 + 4 * q + 4).map(pack).collect(),
            writes: vec![write_16(e, staging, (first / 2, q), at)],
        },
        false => WrittenPiece {
            is_apart: q > 0 && q.is_multiple_of(STRIP / 4),
            piece,
            packs: vec![],
            writes: writes_32(plan, staging, (first, q), at),
        },
    }
}

/// stmatrix writes 16 rows x 16 columns a warp: four registers.
fn write_16(e: &Epilogue, staging: Staging, (first, q): (u32, u32), at: u32) -> Write {
    let registers: Vec<String> = (first + 4 * q..first + 4 * q + 4).map(pack_register).collect();
    Write { setup: vec![], address: staging.address_16(e, q, at), registers: format!("{{ {} }}", registers.join(", ")) }
}

/// The four accumulators of columns 8 t .. 8 t + 8.
fn writes_32(plan: &BlockRowsPlan, staging: Staging, (first, t): (u32, u32), at: u32) -> Vec<Write> {
    let e = &plan.epilogue;
    let out = |half: u32, column: u32| accumulator_out(plan, first + 4 * t + 2 * half + column);
    let write = |address: String, registers: String| Write { setup: vec![], address, registers };
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
