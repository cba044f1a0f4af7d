//! From accumulators to C: a warp stages one subtile after the other and stores it in whole 16-byte vectors.

use serde::Serialize;

use super::super::plan::{VECTOR_BYTES, WarpPlan, fused};
use super::multiply::sums;
use super::operands::{accumulator, address};
use super::sources::{Source, Sources};
use super::words;
use crate::{Dtype, Layout};

/// The epilogue's part of the context.
#[derive(Serialize)]
pub(super) struct Store {
    /// C's extent across lines and along them, and where the warp's tile begins in both.
    lines: Source,
    inner: Source,
    first_line: &'static str,
    first_inner: &'static str,
    line_mask: u32,
    line_shift: u32,
    subtile_bytes: u32,
    /// In a subtile, from one row of C to the next, and from a thread's columns to the next one's.
    row_bytes: u32,
    column_pair_bytes: u32,
    /// Elements from one line of a subtile to the next.
    stride: u32,
    idle_lanes: bool,
    out_bytes: u32,
    staged_bytes: u32,
    /// Elements of 16 bytes of C, and the bytes that they take in a subtile.
    per_vector: u32,
    per_vector_mask: u32,
    staged_vector_bytes: u32,
    /// Sums in s32 that become f32.
    converted: Vec<u32>,
    /// The sums that make one 32-bit word of C, word by word; none where a subtile holds C's own type.
    words: Vec<Vec<String>>,
    subtiles: Vec<Subtile>,
    end: End,
}

#[derive(Serialize)]
struct Subtile {
    number: u32,
    first_line: u32,
    /// What is staged, one of the three.
    fragments: Vec<Fragment>,
    pairs: Vec<Pair>,
    halves: Vec<Half>,
    vectors: Vec<Vector>,
}

/// An opaque fragment.
#[derive(Serialize)]
struct Fragment {
    at: String,
    sums: String,
}

/// The sums of two neighbouring columns, and where in the subtile they go.
#[derive(Serialize)]
struct Pair {
    low: String,
    high: String,
    at: String,
    /// The next column's place.
    next: String,
}

/// The same of f16, both in one register.
#[derive(Serialize)]
struct Half {
    sums: String,
    at: String,
    next: String,
}

/// 16 bytes of C a lane.
#[derive(Serialize)]
struct Vector {
    line: u32,
    /// Elements from the lane's first vector to this one, and to its end.
    elements: u32,
    needed: u32,
    reads: Vec<Read>,
    to: String,
    advance: bool,
}

/// 16 bytes of a subtile.
#[derive(Serialize)]
pub(super) struct Read {
    kind: &'static str,
    to: Vec<String>,
    from: String,
}

/// The end of a line that is less than a vector: element by element.
#[derive(Serialize)]
struct End {
    bits: u32,
    register: &'static str,
    step: u32,
    staged_bytes: u32,
    out_bytes: u32,
}

impl Store {
    pub(super) fn new(plan: &WarpPlan) -> Self {
        let (e, out) = (&plan.epilogue, plan.spec.out);
        let (out_bytes, staged_bytes) = (out.bytes(), e.staged.bytes());
        let row_major = plan.spec.c_layout == Layout::RowMajor;
        let Sources { m, n, .. } = Sources::of_result(plan);
        let (rows, columns) = ((m, "%r_tile_row"), (n, "%r_tile_col"));
        let (across, along) = if row_major { (rows, columns) } else { (columns, rows) };
        let (row_bytes, column_bytes) = line_bytes(plan);
        let per_vector = VECTOR_BYTES / out_bytes;
        let step = 32 / e.lines;
        let converts = plan.spec.a.is_integer() && out != Dtype::I32;
        Self {
            lines: across.0,
            inner: along.0,
            first_line: across.1,
            first_inner: along.1,
            line_mask: e.lines - 1,
            line_shift: e.lines.trailing_zeros(),
            subtile_bytes: e.subtile_bytes(),
            row_bytes,
            column_pair_bytes: if plan.words() { 4 } else { 2 } * column_bytes,
            stride: e.pitch / staged_bytes,
            idle_lanes: e.lanes * e.lines_a_pass < 32,
            out_bytes,
            staged_bytes,
            per_vector,
            per_vector_mask: per_vector - 1,
            staged_vector_bytes: per_vector * staged_bytes,
            converted: (0..if converts { plan.tiling.accumulators(&plan.spec) } else { 0 }).collect(),
            words: if e.staged == out { vec![] } else { staged_sums(per_vector, per_vector / 4) },
            subtiles: (0..e.subtiles).map(|number| Subtile::new(plan, number)).collect(),
            end: End {
                bits: 8 * out_bytes,
                register: if out_bytes == 4 { "%r_tail" } else { "%h_tail" },
                step,
                staged_bytes: step * staged_bytes,
                out_bytes: step * out_bytes,
            },
        }
    }
}

impl Subtile {
    fn new(plan: &WarpPlan, number: u32) -> Self {
        let is_half = plan.spec.acc == Dtype::F16;
        Self {
            number,
            first_line: number * plan.epilogue.lines,
            fragments: if plan.opaque() { fragments(plan, number) } else { vec![] },
            pairs: if plan.opaque() || is_half { vec![] } else { pairs(plan, number) },
            halves: if plan.opaque() || !is_half { vec![] } else { halves(plan, number) },
            vectors: vectors(plan, number),
        }
    }
}

/// A thread's sums of a subtile.
fn pairs(plan: &WarpPlan, subtile: u32) -> Vec<Pair> {
    if plan.words() {
        return pairs_of_words(plan, subtile);
    }
    let sum = |i: u32| if plan.spec.out == Dtype::I32 { accumulator(plan, i) } else { format!("%f_acc{i}") };
    let pair =
        |(number, [at, next]): (u32, [String; 2])| Pair { low: sum(2 * number), high: sum(2 * number + 1), at, next };
    pair_places(plan, subtile).into_iter().map(pair).collect()
}

/// The same where B was read in words.
fn pairs_of_words(plan: &WarpPlan, subtile: u32) -> Vec<Pair> {
    let (rows, columns) = plan.tiling.fragments();
    let (row_bytes, column_bytes) = line_bytes(plan);
    // Fragments of the subtile, and the rows and columns in it from which they begin.
    let parts: Vec<(u32, u32, u32)> = match plan.spec.c_layout {
        Layout::RowMajor => (0..columns).map(|j| (subtile, j, 32 * j * column_bytes)).collect(),
        Layout::ColMajor => (0..rows).map(|i| (i, subtile, 16 * i * row_bytes)).collect(),
    };
    let of_part = |(i, j, first): (u32, u32, u32)| {
        words::pairs(plan, i, j).into_iter().map(move |([low, high], (row, column))| {
            let offset = first + row * row_bytes + column * column_bytes;
            let [at, next] = [offset, offset + column_bytes].map(|offset| address("%r_place", offset));
            Pair { low: accumulator(plan, low), high: accumulator(plan, high), at, next }
        })
    };
    parts.into_iter().flat_map(of_part).collect()
}

/// The same of f16.
fn halves(plan: &WarpPlan, subtile: u32) -> Vec<Half> {
    let half = |(number, [at, next]): (u32, [String; 2])| Half { sums: accumulator(plan, number), at, next };
    pair_places(plan, subtile).into_iter().map(half).collect()
}

/// The pairs of columns that a thread has in a subtile, 16 rows of the warp's tile or 16 columns of it: the number of each
/// among all pairs of a thread, and where both of its columns go.
fn pair_places(plan: &WarpPlan, subtile: u32) -> Vec<(u32, [String; 2])> {
    let (rows, columns) = (plan.tiling.warp_m / 16, plan.tiling.warp_n / 8);
    let (row_bytes, column_bytes) = line_bytes(plan);
    let pair = |i: u32, j: u32, half: u32, number: u32| {
        let offset = (16 * i + 8 * half) * row_bytes + 8 * j * column_bytes;
        (2 * number + half, [offset, offset + column_bytes].map(|offset| address("%r_place", offset)))
    };
    let places: Vec<(u32, u32, u32)> = match plan.spec.c_layout {
        Layout::RowMajor => (0..columns).map(|j| (0, j, subtile * columns + j)).collect(),
        Layout::ColMajor => {
            let two = |i: u32| [0, 1].map(|j| (i, j, i * columns + 2 * subtile + j));
            (0..rows).flat_map(two).collect()
        }
    };
    places.into_iter().flat_map(|(i, j, number)| [0, 1].map(|half| pair(i, j, half, number))).collect()
}

/// In a subtile, bytes from one row of C to the next, and from one column to the next.
fn line_bytes(plan: &WarpPlan) -> (u32, u32) {
    let (pitch, bytes) = (plan.epilogue.pitch, plan.epilogue.staged.bytes());
    if plan.spec.c_layout == Layout::RowMajor { (pitch, bytes) } else { (bytes, pitch) }
}

fn fragments(plan: &WarpPlan, subtile: u32) -> Vec<Fragment> {
    let (parts_m, parts_n) = plan.tiling.fragments();
    let (m, n) = plan.tiling.fragment;
    let (size, bytes) = (plan.spec.acc.registers(8), plan.epilogue.staged.bytes());
    let fragment =
        |number: u32, offset: u32| Fragment { at: address("%r_place", offset), sums: sums(plan, number, size) };
    match plan.spec.c_layout {
        Layout::RowMajor => (0..parts_n).map(|j| fragment(subtile * parts_n + j, bytes * n * j)).collect(),
        Layout::ColMajor => (0..parts_m).map(|i| fragment(i * parts_n + subtile, bytes * m * i)).collect(),
    }
}

fn vectors(plan: &WarpPlan, subtile: u32) -> Vec<Vector> {
    let (e, out) = (&plan.epilogue, plan.spec.out);
    let per_vector = VECTOR_BYTES / out.bytes();
    let places = (0..e.lines / e.lines_a_pass).flat_map(|pass| (0..e.parts).map(move |part| (pass, part)));
    places
        .map(|(pass, part)| {
            let elements = part * e.lanes * per_vector;
            Vector {
                line: subtile * e.lines + pass * e.lines_a_pass,
                elements,
                needed: elements + per_vector,
                reads: reads(plan, pass * e.lines_a_pass * e.pitch + elements * e.staged.bytes()),
                to: address("%rd_c", elements * out.bytes()),
                advance: part + 1 == e.parts,
            }
        })
        .collect()
}

/// From the subtile: 16 bytes of C, or the sums that become 16 bytes of C.
pub(super) fn reads(plan: &WarpPlan, offset: u32) -> Vec<Read> {
    if plan.epilogue.staged == plan.spec.out && !fused::is_on(&plan.spec) {
        let to = (0..4).map(|i| format!("%r_out{i}")).collect();
        return vec![Read { kind: "b32", to, from: address("%r_from", offset) }];
    }
    let read = |(i, to)| Read { kind: "f32", to, from: address("%r_from", offset + VECTOR_BYTES * i) };
    (0..).zip(staged_sums(VECTOR_BYTES / plan.spec.out.bytes(), 4)).map(read).collect()
}

/// The registers of `count` staged sums, `together` at a time.
fn staged_sums(count: u32, together: u32) -> Vec<Vec<String>> {
    let names: Vec<String> = (0..count).map(|i| format!("%f_out{i}")).collect();
    names.chunks(together as usize).map(<[String]>::to_vec).collect()
}
