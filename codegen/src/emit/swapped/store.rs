//! The store's operands: packing, staging writes, TMA stores.
//!
//! A fragment of 64 dense columns by 8 rows of C is 4 accumulators a thread: dense column `16 * warp + 8 * h + lane / 4`,
//! row `2 * (lane % 4) + c`, accumulator `2 * h + c` (PTX ISA, "Register Fragments for wgmma.mma_async.m64nNk16").

use serde::Serialize;

use super::consumer::{accumulator, first_accumulator};
use crate::plan::swapped::Plan;
use crate::{Dtype, Layout};

/// The store's part of the context.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Store {
    /// Which of the templates addresses the staging buffer.
    staging: &'static str,
    bytes: u32,
    /// Stores that may still read their buffer when a pass begins.
    pending: u32,
    span: u32,
    swizzle_shift: u32,
    swizzle_mask: u32,
    unit_bytes: u32,
    convert: &'static str,
    variants: Vec<Variant>,
    inner: &'static str,
    outer: &'static str,
    passes: Vec<Pass>,
}

/// A staging address register and the bits by which it differs from the first.
#[derive(Clone, Debug, Serialize)]
struct Variant {
    register: String,
    flip: u32,
}

/// One filling of the staging buffer.
#[derive(Clone, Debug, Serialize)]
struct Pass {
    number: u32,
    packs: Vec<Pack>,
    writes: Vec<Write>,
    stores: Vec<Box>,
}

/// Two f32 accumulators become one register of two 16-bit values.
#[derive(Clone, Debug, Serialize)]
struct Pack {
    to: String,
    high: String,
    low: String,
}

#[derive(Clone, Debug, Serialize)]
struct Write {
    instruction: &'static str,
    address: String,
    registers: String,
}

#[derive(Clone, Debug, Serialize)]
struct Box {
    offset: u32,
    inner: u32,
    outer: u32,
}

/// How a thread's elements lie in staging: bytes of an element, and what is contiguous there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Staging {
    /// Dense columns, 16 bits.
    Columns16,
    /// Rows of C, 16 bits.
    Rows16,
    Columns32,
    Rows32,
}

impl Staging {
    fn new(plan: &Plan) -> Self {
        match (plan.spec.out.bytes(), plan.view.out) {
            (2, Layout::RowMajor) => Self::Columns16,
            (2, Layout::ColMajor) => Self::Rows16,
            (_, Layout::RowMajor) => Self::Columns32,
            (_, Layout::ColMajor) => Self::Rows32,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Columns16 => "16-bit dense columns",
            Self::Rows16 => "16-bit rows of C",
            Self::Columns32 => "32-bit dense columns",
            Self::Rows32 => "32-bit rows of C",
        }
    }
}

impl Store {
    pub(super) fn new(plan: &Plan) -> Self {
        let s = &plan.store;
        let staging = Staging::new(plan);
        let (swizzle_shift, swizzle_mask) = match s.span {
            128 => (0, 7),
            64 => (1, 3),
            32 => (2, 1),
            _ => (0, 0),
        };
        let (inner, outer) = match plan.view.out {
            Layout::RowMajor => ("%r_out_col", "%r_out_row"),
            Layout::ColMajor => ("%r_out_row", "%r_out_col"),
        };
        Self {
            staging: staging.words(),
            bytes: plan.memory.buffers * s.bytes.next_multiple_of(1024),
            pending: plan.memory.buffers - 1,
            span: s.span,
            swizzle_shift,
            swizzle_mask,
            unit_bytes: s.bytes / s.stores,
            convert: if plan.spec.out == Dtype::BF16 { "cvt.rn.bf16x2.f32" } else { "cvt.rn.f16x2.f32" },
            variants: variants(plan, staging),
            inner,
            outer,
            passes: passes(plan, staging),
        }
    }
}

/// Address variants: the swizzle's XOR needs one register for each value of the chunk bits that a constant flips.
fn variants(plan: &Plan, staging: Staging) -> Vec<Variant> {
    let flips: Vec<u32> = match staging {
        Staging::Columns16 => vec![0],
        Staging::Rows16 => (0..plan.store.rows.div_ceil(16)).map(|q| q * 32).collect(),
        Staging::Columns32 => vec![0, 16, 32, 48],
        Staging::Rows32 => (0..plan.store.rows / 8).map(|q| q * 32).collect(),
    };
    flips.into_iter().enumerate().map(|(i, flip)| Variant { register: format!("%r_st{i}"), flip }).collect()
}

/// Eight rows of C of a tile: the first of their accumulators.
fn eight_rows(plan: &Plan, group: u32, row: u32) -> u32 {
    first_accumulator(plan, row / plan.tile.rows, group) + row % plan.tile.rows / 2
}

fn passes(plan: &Plan, staging: Staging) -> Vec<Pass> {
    let (s, tile_rows) = (&plan.store, plan.tile.tile_rows());
    let mut passes = vec![];
    for group in 0..plan.tile.groups {
        for row in (0..tile_rows).step_by(s.rows as usize) {
            let eights: Vec<u32> = (row..row + s.rows).step_by(8).map(|row| eight_rows(plan, group, row)).collect();
            let at = passes.len() as u32 % plan.memory.buffers * s.bytes.next_multiple_of(1024);
            let stores = (0..s.stores).map(|unit| {
                let column = group * 64 + unit * s.store_box.0;
                let (inner, outer) = match plan.view.out {
                    Layout::RowMajor => (column, row),
                    Layout::ColMajor => (row, group * 64),
                };
                Box { offset: at + unit * (s.bytes / s.stores), inner, outer }
            });
            passes.push(Pass {
                number: passes.len() as u32 + 1,
                packs: packs(staging, &eights),
                writes: writes(plan, staging, &eights, at),
                stores: stores.collect(),
            });
        }
    }
    passes
}

/// The two packed registers of eight rows: `h` = 0 and 1.
fn packed(eight: usize, half: u32) -> String {
    format!("%r_pack{}", 2 * eight as u32 + half)
}

fn packs(staging: Staging, eights: &[u32]) -> Vec<Pack> {
    if !matches!(staging, Staging::Columns16 | Staging::Rows16) {
        return vec![];
    }
    let pack = |(eight, first): (usize, &u32)| {
        [0, 1].map(|half| Pack {
            to: packed(eight, half),
            high: format!("%f_acc{}", first + 2 * half + 1),
            low: format!("%f_acc{}", first + 2 * half),
        })
    };
    eights.iter().enumerate().flat_map(pack).collect()
}

fn writes(plan: &Plan, staging: Staging, eights: &[u32], buffer: u32) -> Vec<Write> {
    let s = &plan.store;
    match staging {
        Staging::Columns16 => by_stmatrix(eights.len(), true, |at| address("%r_st0", buffer + at as u32 * 8 * s.span)),
        Staging::Rows16 => by_stmatrix(eights.len(), false, |at| address(&format!("%r_st{}", at / 2), buffer)),
        Staging::Columns32 => {
            let write = |(at, first): (usize, &u32)| {
                [(0, 0), (0, 1), (1, 0), (1, 1)].map(|(half, row)| Write {
                    instruction: "st.shared.b32",
                    address: address(&format!("%r_st{}", 2 * half + row), buffer + (8 * at as u32 + row) * s.span),
                    registers: accumulator(plan, first + 2 * half + row),
                })
            };
            eights.iter().enumerate().flat_map(write).collect()
        }
        Staging::Rows32 => {
            let write = |(at, first): (usize, &u32)| {
                [0, 1].map(|half| Write {
                    instruction: "st.shared.v2.b32",
                    address: address(&format!("%r_st{at}"), buffer + half * 8 * s.span),
                    registers: format!(
                        "{{ {}, {} }}",
                        accumulator(plan, first + 2 * half),
                        accumulator(plan, first + 2 * half + 1)
                    ),
                })
            };
            eights.iter().enumerate().flat_map(write).collect()
        }
    }
}

/// Four 8 x 8 matrices, 16 rows of C, an instruction; two for what is left.
fn by_stmatrix(eights: usize, transposed: bool, address: impl Fn(usize) -> String) -> Vec<Write> {
    let write = |at: usize| {
        let count = 2.min(eights - at);
        let registers: Vec<String> = (at..at + count).flat_map(|eight| [packed(eight, 0), packed(eight, 1)]).collect();
        let instruction = match (count, transposed) {
            (2, true) => "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16",
            (2, false) => "stmatrix.sync.aligned.m8n8.x4.shared.b16",
            (_, true) => "stmatrix.sync.aligned.m8n8.x2.trans.shared.b16",
            (_, false) => "stmatrix.sync.aligned.m8n8.x2.shared.b16",
        };
        Write { instruction, address: address(at), registers: format!("{{ {} }}", registers.join(", ")) }
    };
    (0..eights).step_by(2).map(write).collect()
}

fn address(register: &str, offset: u32) -> String {
    if offset == 0 { register.to_owned() } else { format!("{register} + {offset}") }
}
