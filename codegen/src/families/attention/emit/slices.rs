//! How the CTAs of a cluster merge the sums of their slices of a tile's steps.

use serde::Serialize;

use super::super::plan::{AttentionPlan, Slices};
use crate::scores::softmax::out;

/// What the templates of slices name.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Merge {
    size: u32,
    /// Bits of the size, and the greatest rank.
    shift: u32,
    last: u32,
    /// Columns of V and O, and those that a CTA stores.
    all_columns: u32,
    columns: u32,
    in_queries: bool,
    /// Of each consumer: the barrier that the others' sums complete, then the one that the others arrive at; maxima and sums.
    barriers: u32,
    barriers_bytes: u32,
    maxima: u32,
    maxima_bytes: u32,
    sums: u32,
    sums_bytes: u32,
    /// Bytes that arrive for one tile.
    arriving: u32,
    others: Vec<Other>,
    /// Sums that this CTA stores: register, factor.
    own: Vec<[String; 2]>,
}

/// Another CTA: one `distance` ranks on gets this one's sums, and one as far behind has sent its own.
#[derive(Clone, Debug, Serialize)]
struct Other {
    distance: u32,
    rows_at: u32,
    /// Registers of its maxima, sums and factors, by row.
    max: [String; 2],
    sum: [String; 2],
    factor: [String; 2],
    sent: Vec<Vector>,
    merged: Vec<Merged>,
}

/// Four registers, and where they are put.
#[derive(Clone, Debug, Serialize)]
struct Vector {
    offset: u32,
    registers: String,
}

/// Four registers that have come, and the sums that they are added to: sum, what is added, its factor.
#[derive(Clone, Debug, Serialize)]
struct Merged {
    from: Vector,
    adds: Vec<[String; 3]>,
}

const VECTOR: u32 = 4;

impl Merge {
    pub(super) fn new(plan: &AttentionPlan) -> Option<Self> {
        let slices = plan.slices()?;
        let at = plan.memory.slices_offset();
        Some(Self {
            size: slices.size,
            shift: slices.size.ilog2(),
            last: slices.size - 1,
            all_columns: plan.tiling.columns,
            columns: slices.columns,
            in_queries: slices.in_queries,
            barriers: at,
            barriers_bytes: Slices::barriers_bytes(),
            maxima: at + slices.maxima_offset(),
            maxima_bytes: slices.maxima_bytes,
            sums: at + slices.sums_offset(),
            sums_bytes: slices.sums_bytes,
            arriving: slices.arriving(),
            others: (1..slices.size).map(|distance| Other::new(plan, &slices, distance)).collect(),
            own: (0..slices.registers).map(|i| [out(i), format!("%f_factor{}", row(i))]).collect(),
        })
    }
}

impl Other {
    fn new(plan: &AttentionPlan, slices: &Slices, distance: u32) -> Self {
        let number = distance - 1;
        let named = |what: &str| [0, 1].map(|row| format!("%f_of{distance}_{what}{row}"));
        let factor = named("factor");
        let list = |registers: Vec<String>| format!("{{ {} }}", registers.join(", "));
        let vectors = slices.registers / VECTOR;
        let offset = |at: u32| slices.vector_offset(number * vectors + at, &plan.queries);
        let sent = |at: u32| {
            let first = distance * slices.registers + VECTOR * at;
            Vector { offset: offset(at), registers: list((first..first + VECTOR).map(out).collect()) }
        };
        let merged = |at: u32| {
            let other = |i: u32| format!("%f_other{}", VECTOR * at + i);
            let add = |i: u32| [out(VECTOR * at + i), other(i), factor[row(i) as usize].clone()];
            let from = Vector { offset: offset(at), registers: list((0..VECTOR).map(other).collect()) };
            Merged { from, adds: (0..VECTOR).map(add).collect() }
        };
        Self {
            distance,
            rows_at: number * slices.rows_bytes,
            max: named("max"),
            sum: named("sum"),
            sent: (0..vectors).map(sent).collect(),
            merged: (0..vectors).map(merged).collect(),
            factor,
        }
    }
}

/// Which of a thread's rows a register of O belongs to.
fn row(register: u32) -> u32 {
    register / 2 % 2
}
