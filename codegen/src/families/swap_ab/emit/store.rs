//! The store's operands: packing, staging writes, TMA stores.
//!
//! A fragment of 64 dense columns by 8 rows of C is 4 accumulators a thread: dense column `16 * warp + 8 * h + lane / 4`,
//! row `2 * (lane % 4) + c`, accumulator `2 * h + c` (PTX ISA, "Register Fragments for wgmma.mma_async.m64nNk16").

use serde::Serialize;

use super::super::plan::SwapAbPlan;
use super::consumer::{accumulator, first_accumulator};
use super::fused::{Emitter, Fused, Group, Piece, Strip, Total};
use super::rows::Staged;
use crate::hopper::permuted::swizzle;
use crate::hopper::store::Pack;
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
    /// The spec's epilogue.
    fused: Option<Fused>,
    /// The full operand of the first pass.
    first: Option<Request>,
}

/// A staging address register and the bits by which it differs from the first.
#[derive(Clone, Debug, Serialize)]
struct Variant {
    register: String,
    flip: u32,
}

/// One filling of the staging buffer.
#[derive(Clone, Debug, Default, Serialize)]
struct Pass {
    number: u32,
    /// Which staging buffer it fills, and bytes to the barrier of this buffer's full operand.
    buffer: u32,
    barrier: u32,
    /// What the epilogue needs of 64 dense columns, where they begin.
    group: Option<Group>,
    /// What it makes of the accumulators.
    strips: Vec<Strip>,
    /// Where it reads a full operand: what is done in place of `strips`, `packs` and `writes`.
    pieces: Vec<Piece>,
    /// What it has collected where 64 dense columns end.
    totals: Vec<Total>,
    /// The full operand of a pass to come.
    request: Option<Request>,
    /// Where rows of C are in an order of the launch: what is done in place of `stores`.
    permuted: Vec<String>,
    /// The last buffer: their barriers' phases change.
    is_round: bool,
    packs: Vec<Pack>,
    writes: Vec<Write>,
    stores: Vec<Box>,
}

/// The full operand of a pass.
#[derive(Clone, Debug, Serialize)]
struct Request {
    number: u32,
    /// Bytes to its barrier.
    barrier: u32,
    boxes: Vec<Box>,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct Write {
    instruction: String,
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
pub(super) enum Staging {
    /// Dense columns, 16 bits.
    Columns16,
    /// Rows of C, 16 bits.
    Rows16,
    Columns32,
    Rows32,
}

impl Staging {
    fn new(plan: &SwapAbPlan) -> Self {
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
    pub(super) fn new(plan: &SwapAbPlan) -> Self {
        let s = &plan.store;
        let staging = Staging::new(plan);
        let (swizzle_shift, swizzle_mask) = swizzle(s.span);
        let (inner, outer) = match plan.view.out {
            Layout::RowMajor => ("%r_out_col", "%r_out_row"),
            Layout::ColMajor => ("%r_out_row", "%r_out_col"),
        };
        let passes = passes(plan, staging);
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
            first: first(plan, &passes),
            fused: Emitter::new(plan).map(|emitter| emitter.context()),
            passes,
        }
    }
}

/// Address variants: the swizzle's XOR needs one register for each value of the chunk bits that a constant flips.
fn variants(plan: &SwapAbPlan, staging: Staging) -> Vec<Variant> {
    let flips: Vec<u32> = match staging {
        Staging::Columns16 => vec![0],
        Staging::Rows16 => (0..plan.store.rows.div_ceil(16)).map(|q| q * 32).collect(),
        Staging::Columns32 => vec![0, 16, 32, 48],
        Staging::Rows32 => (0..plan.store.rows / 8).map(|q| q * 32).collect(),
    };
    flips.into_iter().enumerate().map(|(i, flip)| Variant { register: format!("%r_st{i}"), flip }).collect()
}

/// The stores of a pass, row by row.
fn permuted(plan: &SwapAbPlan, stores: &[Box]) -> Vec<String> {
    let (shift, mask) = swizzle(plan.store.span);
    let (span, rows, bytes) = (plan.store.span, plan.store.rows, plan.spec.out.bytes());
    let staged = Staged { span, shift, mask, rows, bytes };
    let units = stores.iter().flat_map(|store| staged.unit(store.offset, (store.outer, store.inner)));
    staged.begin().into_iter().chain(units).collect()
}

/// Eight rows of C of a tile: the first of their accumulators.
fn eight_rows(plan: &SwapAbPlan, group: u32, row: u32) -> u32 {
    first_accumulator(plan, row / plan.tile.rows, group) + row % plan.tile.rows / 2
}

fn passes(plan: &SwapAbPlan, staging: Staging) -> Vec<Pass> {
    let (s, tile_rows) = (&plan.store, plan.tile.tile_rows());
    let emitter = Emitter::new(plan);
    let mut passes: Vec<Pass> = vec![];
    for group in 0..plan.tile.groups {
        for row in (0..tile_rows).step_by(s.rows as usize) {
            let eights: Vec<(u32, u32)> =
                (row..row + s.rows).step_by(8).map(|row| (row, eight_rows(plan, group, row))).collect();
            let at = passes.len() as u32 % plan.memory.buffers * s.bytes.next_multiple_of(1024);
            let stores = (0..s.stores).map(|unit| {
                let column = group * 64 + unit * s.store_box.0;
                let (inner, outer) = match plan.view.out {
                    Layout::RowMajor => (column, row),
                    Layout::ColMajor => (row, group * 64),
                };
                Box { offset: at + unit * (s.bytes / s.stores), inner, outer }
            });
            let mut pass = Pass {
                number: passes.len() as u32 + 1,
                buffer: passes.len() as u32 % plan.memory.buffers,
                barrier: passes.len() as u32 % plan.memory.buffers * 8,
                stores: stores.collect(),
                ..Pass::default()
            };
            if plan.spec.permute.is_on() {
                pass.permuted = permuted(plan, &pass.stores);
            }
            if let Some(emitter) = &emitter {
                pass.group = if row == 0 { emitter.group(group) } else { None };
                pass.totals = if row + s.rows == tile_rows { emitter.totals() } else { vec![] };
            }
            match &emitter {
                Some(emitter) if emitter.has_tile() => pass.pieces = emitter.pieces(staging, &eights, at),
                emitter => {
                    let pieces = eights.chunks(staging.eights_of_a_piece()).enumerate();
                    pass.strips = emitter.as_ref().map_or(vec![], |emitter| emitter.strips(passes.is_empty(), &eights));
                    pass.packs = staging.packs(0, &eights);
                    pass.writes = pieces.flat_map(|piece| staging.writes(plan, piece, at)).collect();
                }
            }
            passes.push(pass);
        }
    }
    request(plan, &mut passes);
    passes
}

fn first(plan: &SwapAbPlan, passes: &[Pass]) -> Option<Request> {
    plan.fused.as_ref()?.tile?;
    passes.first().map(Request::new)
}

impl Request {
    fn new(pass: &Pass) -> Self {
        Self { number: pass.number, barrier: pass.barrier, boxes: pass.stores.clone() }
    }
}

/// A full operand is asked for one buffer ahead of the pass that uses it, that of the first pass before all.
fn request(plan: &SwapAbPlan, passes: &mut [Pass]) {
    if plan.fused.as_ref().is_none_or(|fused| fused.tile.is_none()) {
        return;
    }
    let ahead = plan.memory.buffers as usize - 1;
    for at in 0..passes.len() {
        let wanted = if at + ahead == 0 { None } else { passes.get(at + ahead) };
        passes[at].request = wanted.map(Request::new);
        passes[at].is_round = passes[at].buffer as usize == ahead;
    }
}

impl Staging {
    pub(super) fn is_16_bit(self) -> bool {
        matches!(self, Self::Columns16 | Self::Rows16)
    }

    /// Eights of rows of C that one instruction writes, or that are written together.
    pub(super) fn eights_of_a_piece(self) -> usize {
        if self.is_16_bit() { 2 } else { 1 }
    }

    /// Sums of eights of rows from the pass's number `from` on become 16-bit values.
    pub(super) fn packs(self, from: usize, eights: &[(u32, u32)]) -> Vec<Pack> {
        if !self.is_16_bit() {
            return vec![];
        }
        let pack = |(eight, (_, first)): (usize, &(u32, u32))| {
            [0, 1].map(|half| {
                Pack::of(packed(from + eight, half), accumulated(first + 2 * half + 1), accumulated(first + 2 * half))
            })
        };
        eights.iter().enumerate().flat_map(pack).collect()
    }

    /// What writes piece `at` of a pass, `eights` being its part of C.
    pub(super) fn writes(self, plan: &SwapAbPlan, (at, eights): (usize, &[(u32, u32)]), buffer: u32) -> Vec<Write> {
        let word = |i: u32| if plan.fused.is_some() { accumulated(i) } else { accumulator(plan, i) };
        let write = |instruction, address, registers| Write { instruction, address, registers };
        let first = eights[0].1;
        let addresses = self.addresses(plan, at, buffer).into_iter();
        match self {
            Self::Columns16 | Self::Rows16 => {
                let packed = (2 * at..2 * at + eights.len()).flat_map(|eight| [packed(eight, 0), packed(eight, 1)]);
                let registers: Vec<String> = packed.collect();
                let matrices = self.matrices("stmatrix", eights.len());
                addresses.map(|to| write(matrices.clone(), to, format!("{{ {} }}", registers.join(", ")))).collect()
            }
            Self::Columns32 => {
                let words = (0..4).map(|i| word(first + i));
                addresses.zip(words).map(|(to, word)| write("st.shared.b32".to_owned(), to, word)).collect()
            }
            Self::Rows32 => {
                let words =
                    [0, 1].map(|half| format!("{{ {}, {} }}", word(first + 2 * half), word(first + 2 * half + 1)));
                addresses.zip(words).map(|(to, words)| write("st.shared.v2.b32".to_owned(), to, words)).collect()
            }
        }
    }

    /// What reads piece `at` of a pass back, of `eights` eights of rows, to the threads that write it: pairs of 16-bit values into
    /// `pairs`, or f32 into `values`.
    pub(super) fn reads(
        self,
        plan: &SwapAbPlan,
        (at, eights): (usize, usize),
        buffer: u32,
        pairs: &[String],
        values: &[String],
    ) -> Vec<String> {
        let addresses = self.addresses(plan, at, buffer).into_iter();
        match self {
            Self::Columns16 | Self::Rows16 => {
                let matrices = self.matrices("ldmatrix", eights);
                addresses.map(|from| format!("{matrices} {{ {} }}, [{from}]", pairs.join(", "))).collect()
            }
            Self::Columns32 => {
                addresses.zip(values).map(|(from, value)| format!("ld.shared.f32 {value}, [{from}]")).collect()
            }
            Self::Rows32 => {
                let read = |(from, pair): (String, &[String])| {
                    format!("ld.shared.v2.f32 {{ {}, {} }}, [{from}]", pair[0], pair[1])
                };
                addresses.zip(values.chunks(2)).map(read).collect()
            }
        }
    }

    /// Two 8 x 8 matrices for every eight rows of C.
    fn matrices(self, instruction: &str, eights: usize) -> String {
        let trans = if self == Self::Columns16 { ".trans" } else { "" };
        format!("{instruction}.sync.aligned.m8n8.x{}{trans}.shared.b16", 2 * eights)
    }

    /// Where piece `at` of a pass is staged, in the order of a thread's registers.
    fn addresses(self, plan: &SwapAbPlan, at: usize, buffer: u32) -> Vec<String> {
        let (span, number) = (plan.store.span, at as u32);
        match self {
            Self::Columns16 => vec![address("%r_st0", buffer + number * 16 * span)],
            Self::Rows16 => vec![address(&format!("%r_st{at}"), buffer)],
            Self::Columns32 => [(0, 0), (0, 1), (1, 0), (1, 1)]
                .map(|(half, row)| address(&format!("%r_st{}", 2 * half + row), buffer + (8 * number + row) * span))
                .to_vec(),
            Self::Rows32 => [0, 1].map(|half| address(&format!("%r_st{at}"), buffer + half * 8 * span)).to_vec(),
        }
    }
}

/// The two packed registers of eight rows: `h` = 0 and 1.
fn packed(eight: usize, half: u32) -> String {
    format!("%r_pack{}", 2 * eight as u32 + half)
}

/// The name of a sum, or of what was made of it, as f32.
pub(super) fn accumulated(i: u32) -> String {
    format!("%f_acc{i}")
}

fn address(register: &str, offset: u32) -> String {
    if offset == 0 { register.to_owned() } else { format!("{register} + {offset}") }
}
