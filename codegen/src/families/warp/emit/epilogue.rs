//! From accumulators to C: a warp stages one slab after the other and stores it in whole 16-byte vectors.

use serde::Serialize;

use super::super::plan::{PIECE, WarpPlan};
use super::multiply::{accumulator, sums};
use super::operands::address;
use crate::{Dtype, Layout};

/// The epilogue's part of the context.
#[derive(Serialize)]
pub(super) struct Store {
    /// C's dimension across lines and along them, and where the warp's tile begins in both.
    lines: &'static str,
    inner: &'static str,
    first_line: &'static str,
    first_inner: &'static str,
    line_mask: u32,
    line_shift: u32,
    slab_bytes: u32,
    /// In a slab, from one row of C to the next, and from a pair of columns to the next.
    row_bytes: u32,
    column_pair_bytes: u32,
    /// Elements from one line of a slab to the next.
    stride: u32,
    idle_lanes: bool,
    out_bytes: u32,
    staged_bytes: u32,
    /// Elements of 16 bytes of C, and the bytes that they take in a slab.
    per_vector: u32,
    per_vector_mask: u32,
    staged_vector_bytes: u32,
    /// Sums in s32 that become f32.
    converted: Vec<u32>,
    /// The sums that make one 32-bit word of C, word by word; none where a slab holds C's own type.
    words: Vec<Vec<String>>,
    slabs: Vec<Slab>,
    end: End,
}

#[derive(Serialize)]
struct Slab {
    number: u32,
    first_line: u32,
    /// What is staged, one of the three.
    fragments: Vec<Fragment>,
    row_pairs: Vec<Pair>,
    column_pairs: Vec<Pair>,
    vectors: Vec<Vector>,
}

/// An opaque fragment.
#[derive(Serialize)]
struct Fragment {
    at: String,
    sums: String,
}

/// The sums of two neighbouring columns, and where in the slab they go.
#[derive(Serialize)]
struct Pair {
    low: String,
    high: String,
    at: String,
    /// The next column's place.
    next: String,
}

/// 16 bytes of C a lane.
#[derive(Serialize)]
struct Vector {
    line: u32,
    /// Elements from the lane's first vector to the end of this one.
    needed: u32,
    reads: Vec<Read>,
    to: String,
    advance: bool,
}

/// 16 bytes of a slab.
#[derive(Serialize)]
struct Read {
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
        let (rows, columns) = (("m", "%r_tile_row"), ("n", "%r_tile_col"));
        let (across, along) = if row_major { (rows, columns) } else { (columns, rows) };
        let per_vector = PIECE / out_bytes;
        let step = 32 / e.lines;
        let converts = plan.spec.a.is_integer() && out != Dtype::I32;
        Self {
            lines: across.0,
            inner: along.0,
            first_line: across.1,
            first_inner: along.1,
            line_mask: e.lines - 1,
            line_shift: e.lines.trailing_zeros(),
            slab_bytes: e.slab_bytes(),
            row_bytes: if row_major { e.pitch } else { out_bytes },
            column_pair_bytes: 2 * if row_major { out_bytes } else { e.pitch },
            stride: e.pitch / staged_bytes,
            idle_lanes: e.lanes * e.lines_a_pass < 32,
            out_bytes,
            staged_bytes,
            per_vector,
            per_vector_mask: per_vector - 1,
            staged_vector_bytes: per_vector * staged_bytes,
            converted: (0..if converts { plan.tiling.accumulators() } else { 0 }).collect(),
            words: if e.staged == out { vec![] } else { staged_sums(per_vector, per_vector / 4) },
            slabs: (0..e.slabs).map(|number| Slab::new(plan, number)).collect(),
            end: End {
                bits: 8 * out_bytes,
                register: if out_bytes == 4 { "%r_rest" } else { "%h_rest" },
                step,
                staged_bytes: step * staged_bytes,
                out_bytes: step * out_bytes,
            },
        }
    }
}

impl Slab {
    fn new(plan: &WarpPlan, number: u32) -> Self {
        let row_major = plan.spec.c_layout == Layout::RowMajor;
        let opaque = plan.opaque();
        Self {
            number,
            first_line: number * plan.epilogue.lines,
            fragments: if opaque { fragments(plan, number) } else { vec![] },
            row_pairs: if !opaque && row_major { row_pairs(plan, number) } else { vec![] },
            column_pairs: if !opaque && !row_major { column_pairs(plan, number) } else { vec![] },
            vectors: vectors(plan, number),
        }
    }
}

/// Sums `first` and `first + 1`, as they are stored or converted: themselves, or the f32 that were made of them.
fn pair(plan: &WarpPlan, first: u32, offset: u32, next: u32) -> Pair {
    let sum = |i: u32| if plan.spec.out == Dtype::I32 { accumulator(plan, i) } else { format!("%f_acc{i}") };
    let at = |offset: u32| address("%r_place", offset);
    Pair { low: sum(first), high: sum(first + 1), at: at(offset), next: at(next) }
}

/// 16 rows of the warp's tile.
fn row_pairs(plan: &WarpPlan, slab: u32) -> Vec<Pair> {
    let (pitch, bytes) = (plan.epilogue.pitch, plan.spec.out.bytes());
    let columns = plan.tiling.warp_n / 8;
    let places = (0..columns).flat_map(|j| [(j, 0), (j, 1)]);
    places
        .map(|(j, half)| {
            let offset = half * 8 * pitch + j * 8 * bytes;
            pair(plan, 4 * (slab * columns + j) + 2 * half, offset, offset + bytes)
        })
        .collect()
}

/// 16 columns of the warp's tile.
fn column_pairs(plan: &WarpPlan, slab: u32) -> Vec<Pair> {
    let (pitch, bytes) = (plan.epilogue.pitch, plan.spec.out.bytes());
    let (rows, columns) = (plan.tiling.warp_m / 16, plan.tiling.warp_n / 8);
    let places = (0..rows).flat_map(|i| [(i, 0, 0), (i, 0, 1), (i, 1, 0), (i, 1, 1)]);
    places
        .map(|(i, j, half)| {
            let offset = 8 * j * pitch + (16 * i + 8 * half) * bytes;
            pair(plan, 4 * (i * columns + 2 * slab + j) + 2 * half, offset, offset + pitch)
        })
        .collect()
}

fn fragments(plan: &WarpPlan, slab: u32) -> Vec<Fragment> {
    let (parts_m, parts_n) = plan.tiling.fragments();
    let (m, n) = plan.tiling.fragment;
    let fragment = |number: u32, offset: u32| Fragment { at: address("%r_place", offset), sums: sums(plan, number, 8) };
    match plan.spec.c_layout {
        Layout::RowMajor => (0..parts_n).map(|j| fragment(slab * parts_n + j, 4 * n * j)).collect(),
        Layout::ColMajor => (0..parts_m).map(|i| fragment(i * parts_n + slab, 4 * m * i)).collect(),
    }
}

fn vectors(plan: &WarpPlan, slab: u32) -> Vec<Vector> {
    let (e, out) = (&plan.epilogue, plan.spec.out);
    let per_vector = PIECE / out.bytes();
    let places = (0..e.lines / e.lines_a_pass).flat_map(|pass| (0..e.parts).map(move |part| (pass, part)));
    places
        .map(|(pass, part)| {
            let elements = part * e.lanes * per_vector;
            Vector {
                line: slab * e.lines + pass * e.lines_a_pass,
                needed: elements + per_vector,
                reads: reads(plan, pass * e.lines_a_pass * e.pitch + elements * e.staged.bytes()),
                to: address("%rd_c", elements * out.bytes()),
                advance: part + 1 == e.parts,
            }
        })
        .collect()
}

/// From the slab: 16 bytes of C, or the sums that become 16 bytes of C.
fn reads(plan: &WarpPlan, offset: u32) -> Vec<Read> {
    if plan.epilogue.staged == plan.spec.out {
        let to = (0..4).map(|i| format!("%r_out{i}")).collect();
        return vec![Read { kind: "b32", to, from: address("%r_from", offset) }];
    }
    let read = |(i, to)| Read { kind: "f32", to, from: address("%r_from", offset + PIECE * i) };
    (0..).zip(staged_sums(PIECE / plan.spec.out.bytes(), 4)).map(read).collect()
}

/// The registers of `count` staged sums, `together` at a time.
fn staged_sums(count: u32, together: u32) -> Vec<Vec<String>> {
    let names: Vec<String> = (0..count).map(|i| format!("%f_out{i}")).collect();
    names.chunks(together as usize).map(<[String]>::to_vec).collect()
}
