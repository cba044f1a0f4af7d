//! How accumulators become C: one epilogue subtile after the other is made, staged and stored.

use serde::Serialize;

use super::super::plan::{GROUP, SwapAbPlan};
use super::fused::{Eight, Emitter};
use super::mainloop::sums;
use super::staging::{Access, Elements, buffer_bytes};
use crate::hopper::fused::COLUMN_BATCH;
use crate::hopper::permuted::StoredRows;
use crate::hopper::store::{Pack, StoreBox, convert};
use crate::{Dtype, Layout};

/// Accumulators of eight rows of C.
const SUMS_OF_EIGHT_ROWS: u32 = 4;

/// The epilogue's part of the context.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Epilogue {
    convert: &'static str,
    /// The first coordinates of this consumer's part of C.
    inner: &'static str,
    outer: &'static str,
    /// Stores that may still read their buffer when a subtile begins.
    pending: u32,
    subtiles: Vec<Subtile>,
    /// The first subtile, whose full operand is requested before the mainloop.
    first_request: Option<Place>,
}

/// 64 dense columns by some rows of C: one filling of a staging buffer.
#[derive(Clone, Debug, Serialize)]
struct Subtile {
    #[serde(flatten)]
    place: Place,
    /// It is the first, or the last, of its 64 dense columns, and what the spec's epilogue collects along them is complete.
    begins_columns: bool,
    ends_columns: bool,
    first_column: u32,
    /// It is in the last staging buffer: the phases of the full operand's barriers change.
    is_last_buffer: bool,
    /// The subtile to come whose full operand is requested.
    request: Option<Place>,
    parts: Vec<Part>,
    /// Where rows of C are in an order of the launch: what is done in place of TMA stores.
    permuted: Option<StoredRows>,
}

/// The position of a subtile in C and in the staging buffers.
#[derive(Clone, Debug, Serialize)]
struct Place {
    number: u32,
    /// Bytes to the barrier of this buffer's full operand.
    barrier: u32,
    boxes: Vec<StoreBox>,
}

/// Two 16-bit values of one register, and where they go as f32.
#[derive(Clone, Debug, Serialize)]
struct Unpacked {
    packed: String,
    low: String,
    high: String,
}

/// The rows of a subtile that are read and written together.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Part {
    /// A branch keeps ptxas from scheduling it together with those before it.
    is_apart: bool,
    /// The full operand out of staging, and its 16-bit values as f32.
    reads: Vec<Access>,
    unpacked: Vec<Unpacked>,
    /// What the spec's epilogue makes of the accumulators.
    eights: Vec<Eight>,
    packs: Vec<Pack>,
    writes: Vec<Access>,
}

impl Epilogue {
    pub(super) fn new(plan: &SwapAbPlan, fused: Option<&Emitter>) -> Self {
        let (inner, outer) = match plan.view.out {
            Layout::RowMajor => ("%r_out_col", "%r_out_row"),
            Layout::ColMajor => ("%r_out_row", "%r_out_col"),
        };
        let emitter = Subtiles { plan, fused, elements: Elements::new(plan) };
        Self {
            convert: convert(plan.spec.out),
            inner,
            outer,
            pending: plan.memory.buffers - 1,
            subtiles: (0..plan.store.subtiles(&plan.tile)).map(|at| emitter.subtile(at)).collect(),
            first_request: emitter.has_tile().then(|| emitter.place(0)),
        }
    }
}

struct Subtiles<'p> {
    plan: &'p SwapAbPlan,
    fused: Option<&'p Emitter<'p>>,
    elements: Elements,
}

impl Subtiles<'_> {
    fn has_tile(&self) -> bool {
        self.fused.is_some_and(Emitter::has_tile)
    }

    /// The group of 64 dense columns and the first row of C.
    fn origin(&self, at: u32) -> (u32, u32) {
        let per_group = self.plan.tile.tile_rows() / self.plan.store.rows;
        (at / per_group, at % per_group * self.plan.store.rows)
    }

    fn buffer(&self, at: u32) -> u32 {
        at % self.plan.memory.buffers
    }

    fn place(&self, at: u32) -> Place {
        let (store, (group, row)) = (&self.plan.store, self.origin(at));
        let buffer = self.buffer(at) * buffer_bytes(self.plan);
        let boxes = (0..store.stores).map(|number| {
            let column = group * GROUP + number * store.store_box.0;
            let (inner, outer) = match self.plan.view.out {
                Layout::RowMajor => (column, row),
                Layout::ColMajor => (row, group * GROUP),
            };
            StoreBox { offset: buffer + number * (store.bytes / store.stores), inner, outer, row_at: None }
        });
        Place { number: at + 1, barrier: self.buffer(at) * 8, boxes: boxes.collect() }
    }

    fn subtile(&self, at: u32) -> Subtile {
        let (plan, place, (group, row)) = (self.plan, self.place(at), self.origin(at));
        // A full operand is requested one buffer ahead of the subtile that uses it, that of the first before all.
        let ahead = at + plan.memory.buffers - 1;
        let is_requested = self.has_tile() && (1..plan.store.subtiles(&plan.tile)).contains(&ahead);
        let is_complete = row + plan.store.rows == plan.tile.tile_rows();
        Subtile {
            begins_columns: row == 0,
            ends_columns: is_complete && self.fused.is_some_and(Emitter::collects_along_columns),
            first_column: group * GROUP,
            is_last_buffer: self.buffer(at) + 1 == plan.memory.buffers,
            request: is_requested.then(|| self.place(ahead)),
            parts: self.parts(at),
            permuted: plan.spec.permute.is_on().then(|| permuted(plan, &place.boxes)),
            place,
        }
    }

    fn parts(&self, at: u32) -> Vec<Part> {
        let (plan, (group, row)) = (self.plan, self.origin(at));
        let rows: Vec<u32> = (row..row + plan.store.rows).step_by(8).collect();
        rows.chunks(self.elements.eights()).enumerate().map(|(part, rows)| self.part(at, part, group, rows)).collect()
    }

    /// Part `at` of a subtile: the rows of C from each of `rows` on, eight each.
    fn part(&self, subtile: u32, at: usize, group: u32, rows: &[u32]) -> Part {
        let sums: Vec<Vec<String>> = (0..).zip(rows).map(|(at, row)| self.sums(group, at, *row)).collect();
        let tile = names("%f_tile", 0, SUMS_OF_EIGHT_ROWS as usize * rows.len());
        let eight = |fused: &Emitter| {
            let eights = rows.iter().zip(&sums).zip(tile.chunks(SUMS_OF_EIGHT_ROWS as usize));
            eights.map(|((row, sums), tile)| fused.eight(*row, sums, self.halves(group, *row), tile)).collect()
        };
        let packed = names("%r_pack", 2 * self.elements.eights() * at, 2 * rows.len());
        let (packs, written) = match (self.elements.is_16_bit(), self.has_half_sums()) {
            (_, true) => (vec![], rows.iter().flat_map(|row| self.halves(group, *row)).collect()),
            (true, _) => (packs(&sums.concat(), &packed), packed),
            (false, _) => (vec![], sums.concat()),
        };
        let (reads, unpacked) = self.full_operand(subtile, at, &tile);
        Part {
            is_apart: self.is_apart(subtile, at),
            reads,
            unpacked,
            eights: self.fused.map_or(vec![], eight),
            packs,
            writes: self.accesses(subtile, at, &written),
        }
    }

    /// The sums of eight rows of C, from `row` of the tile on, in registers of their own; `at` is the number of the eight in
    /// its part.
    fn sums(&self, group: u32, at: usize, row: u32) -> Vec<String> {
        if self.has_half_sums() {
            return names("%f_sum", SUMS_OF_EIGHT_ROWS as usize * at, SUMS_OF_EIGHT_ROWS as usize);
        }
        let first = self.first_sum(group, row);
        (first..first + SUMS_OF_EIGHT_ROWS).map(|i| sums(self.plan).name(i)).collect()
    }

    /// The accumulators that have them, where these are pairs of f16.
    fn halves(&self, group: u32, row: u32) -> Vec<String> {
        let first = self.first_sum(group, row) / 2;
        let held = first..first + SUMS_OF_EIGHT_ROWS / 2;
        held.filter(|_| self.has_half_sums()).map(|i| sums(self.plan).name(i)).collect()
    }

    fn first_sum(&self, group: u32, row: u32) -> u32 {
        let rows = self.plan.tile.rows;
        self.plan.tile.first_sum(row / rows, group) + row % rows / 2
    }

    fn has_half_sums(&self) -> bool {
        self.plan.spec.acc == Dtype::F16
    }

    /// What brings the elements of a full operand into the registers `tile`: pairs of 16-bit values are read, or f32.
    fn full_operand(&self, subtile: u32, at: usize, tile: &[String]) -> (Vec<Access>, Vec<Unpacked>) {
        if !self.has_tile() {
            return (vec![], vec![]);
        }
        if !self.elements.is_16_bit() {
            return (self.accesses(subtile, at, tile), vec![]);
        }
        let pairs = names("%r_tile", 0, tile.len() / 2);
        let reads = self.accesses(subtile, at, &pairs);
        let unpacked = |(packed, to): (String, &[String])| Unpacked { packed, low: to[0].clone(), high: to[1].clone() };
        (reads, pairs.into_iter().zip(tile.chunks(2)).map(unpacked).collect())
    }

    fn accesses(&self, subtile: u32, at: usize, registers: &[String]) -> Vec<Access> {
        let buffer = self.buffer(subtile) * buffer_bytes(self.plan);
        self.elements.accesses(self.plan.store.span, at, buffer, registers)
    }

    /// Does a column_group of accumulators begin with this part that ptxas should not schedule together with those before it?
    fn is_apart(&self, subtile: u32, part: usize) -> bool {
        let column_group = (COLUMN_BATCH / SUMS_OF_EIGHT_ROWS) as usize / self.elements.eights();
        let is_first = part == 0 && (subtile == 0 || self.has_tile());
        self.fused.is_some() && part.is_multiple_of(column_group) && !is_first
    }
}

/// Each two of `sums` become one of `packed`.
fn packs(sums: &[String], packed: &[String]) -> Vec<Pack> {
    let pack = |(to, pair): (&String, &[String])| Pack::of(to.clone(), pair[1].clone(), pair[0].clone());
    packed.iter().zip(sums.chunks(2)).map(pack).collect()
}

/// `count` registers from number `first` on.
fn names(stem: &str, first: usize, count: usize) -> Vec<String> {
    (first..first + count).map(|i| format!("{stem}{i}")).collect()
}

/// The stores of a subtile, row by row.
fn permuted(plan: &SwapAbPlan, boxes: &[StoreBox]) -> StoredRows {
    StoredRows::new((plan.store.span, plan.store.rows, plan.spec.out.bytes()), boxes)
}
