//! From accumulators to C: a warp stages one slab after the other and stores it in whole 16-byte pieces.

use serde::Serialize;

use super::super::plan::{PIECE, WarpPlan};
use super::multiply::{accumulator, layout, shape, sums};
use crate::{Dtype, Layout};

/// The epilogue's part of the context.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Epilogue {
    dtype: String,
    staged: String,
    staging_offset: u32,
    slab_bytes: u32,
    pitch: u32,
    /// C's dimension across lines and along them, and where the warp's tile begins in both.
    lines: &'static str,
    inner: &'static str,
    first_line: &'static str,
    first_inner: &'static str,
    length: u32,
    slab_lines: u32,
    slab_lines_mask: u32,
    slab_lines_shift: u32,
    lanes: u32,
    lines_a_pass: u32,
    idle: bool,
    per_piece: u32,
    rest_mask: u32,
    out_bytes: u32,
    piece_bytes: u32,
    staged_bytes: u32,
    /// s32 sums become f32.
    conversions: Vec<String>,
    /// Where a thread's sums go in the slab.
    place: Vec<String>,
    slabs: Vec<Slab>,
    rest: Rest,
}

#[derive(Clone, Debug, Serialize)]
struct Slab {
    number: u32,
    first_line: u32,
    writes: Vec<Write>,
    pieces: Vec<Piece>,
}

#[derive(Clone, Debug, Serialize)]
struct Write {
    setup: Vec<String>,
    instruction: String,
    address: String,
    registers: String,
    stride: String,
}

/// 16 bytes of C a lane.
#[derive(Clone, Debug, Serialize)]
struct Piece {
    line: u32,
    /// Elements from the lane's first piece to the end of this one.
    needed: u32,
    loads: Vec<String>,
    to: String,
    advance: bool,
}

/// The end of a line that is less than a piece: element by element.
#[derive(Clone, Debug, Serialize)]
struct Rest {
    step: u32,
    step_staged: u32,
    step_out: u32,
    load: &'static str,
    convert: Vec<&'static str>,
    store: &'static str,
}

impl Epilogue {
    pub(super) fn new(plan: &WarpPlan) -> Self {
        let (e, out) = (&plan.epilogue, plan.spec.out);
        let row_major = plan.spec.c_layout == Layout::RowMajor;
        let sum = plan.spec.a.accumulator();
        let per_piece = PIECE / out.bytes();
        let step = 32 / e.lines;
        Self {
            dtype: out.to_string(),
            staged: e.staged.to_string(),
            staging_offset: plan.memory.staging_offset,
            slab_bytes: e.slab_bytes(),
            pitch: e.pitch,
            lines: if row_major { "m" } else { "n" },
            inner: if row_major { "n" } else { "m" },
            first_line: if row_major { "%r_tile_row" } else { "%r_tile_col" },
            first_inner: if row_major { "%r_tile_col" } else { "%r_tile_row" },
            length: e.length,
            slab_lines: e.lines,
            slab_lines_mask: e.lines - 1,
            slab_lines_shift: e.lines.trailing_zeros(),
            lanes: e.lanes,
            lines_a_pass: e.lines_a_pass,
            idle: e.lanes * e.lines_a_pass < 32,
            per_piece,
            rest_mask: per_piece - 1,
            out_bytes: out.bytes(),
            piece_bytes: per_piece * e.staged.bytes(),
            staged_bytes: e.staged.bytes(),
            conversions: if sum == Dtype::I32 && out != Dtype::I32 {
                (0..plan.tiling.accumulators()).map(|i| format!("cvt.rn.f32.s32 %f_acc{i}, %r_acc{i}")).collect()
            } else {
                vec![]
            },
            place: place(plan),
            slabs: (0..e.slabs).map(|number| slab(plan, number)).collect(),
            rest: rest(plan, step),
        }
    }
}

fn slab(plan: &WarpPlan, number: u32) -> Slab {
    let row_major = plan.spec.c_layout == Layout::RowMajor;
    Slab {
        number,
        first_line: number * plan.epilogue.lines,
        writes: match (plan.opaque(), row_major) {
            (true, _) => write_fragments(plan, number),
            (false, true) => write_rows(plan, number),
            (false, false) => write_columns(plan, number),
        },
        pieces: pieces(plan, number),
    }
}

/// A thread of `mma.sync` has two neighbouring columns of row lane / 4, and of the row 8 below.
fn place(plan: &WarpPlan) -> Vec<String> {
    if plan.opaque() {
        return vec!["mov.u32 %r_place, %r_slab".to_owned()];
    }
    let (e, bytes) = (&plan.epilogue, plan.spec.out.bytes());
    let (by_row, by_column) = match plan.spec.c_layout {
        Layout::RowMajor => (e.pitch, 2 * bytes),
        Layout::ColMajor => (bytes, 2 * e.pitch),
    };
    vec![
        "shr.u32 %r_t, %r_lane, 2".to_owned(),
        format!("mad.lo.u32 %r_place, %r_t, {by_row}, %r_slab"),
        "and.b32 %r_t, %r_lane, 3".to_owned(),
        format!("mad.lo.u32 %r_place, %r_t, {by_column}, %r_place"),
    ]
}

fn at(base: &str, offset: u32) -> String {
    if offset == 0 { base.to_owned() } else { format!("{base} + {offset}") }
}

fn write(setup: Vec<String>, instruction: &str, offset: u32, registers: String) -> Write {
    let address = at("%r_place", offset);
    Write { setup, instruction: instruction.to_owned(), address, registers, stride: String::new() }
}

/// The register that is converted: a sum, or the f32 that was made of it.
fn sum(plan: &WarpPlan, i: u32) -> String {
    if plan.spec.out == Dtype::I32 { accumulator(plan, i) } else { format!("%f_acc{i}") }
}

/// 16 rows of the warp's tile.
fn write_rows(plan: &WarpPlan, slab: u32) -> Vec<Write> {
    let (e, out) = (&plan.epilogue, plan.spec.out);
    let columns = plan.tiling.warp_n / 8;
    let pair = |j: u32, half: u32| {
        let first = 4 * (slab * columns + j) + 2 * half;
        let (low, high) = (sum(plan, first), sum(plan, first + 1));
        let offset = half * 8 * e.pitch + j * 8 * out.bytes();
        match out {
            Dtype::F16 => packed(format!("cvt.rn.f16x2.f32 %r_pair, {high}, {low}"), offset),
            Dtype::BF16 => packed(format!("cvt.rn.bf16x2.f32 %r_pair, {high}, {low}"), offset),
            Dtype::E4M3 => {
                let convert = format!("cvt.rn.satfinite.e4m3x2.f32 %h_pair, {high}, {low}");
                write(vec![convert], "st.shared.b16", offset, "%h_pair".to_owned())
            }
            _ => write(vec![], "st.shared.v2.b32", offset, format!("{{ {low}, {high} }}")),
        }
    };
    (0..columns).flat_map(|j| [pair(j, 0), pair(j, 1)]).collect()
}

fn packed(convert: String, offset: u32) -> Write {
    write(vec![convert], "st.shared.b32", offset, "%r_pair".to_owned())
}

/// 16 columns of the warp's tile, element by element.
fn write_columns(plan: &WarpPlan, slab: u32) -> Vec<Write> {
    let (e, out) = (&plan.epilogue, plan.spec.out);
    let (rows, columns) = (plan.tiling.warp_m / 16, plan.tiling.warp_n / 8);
    let mut writes = vec![];
    for i in 0..rows {
        for (j, half) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            let first = 4 * (i * columns + 2 * slab + j) + 2 * half;
            let offset = 8 * j * e.pitch + (16 * i + 8 * half) * out.bytes();
            let (low, high) = (sum(plan, first), sum(plan, first + 1));
            let half_word = |sum: &str| match out {
                Dtype::BF16 => vec![format!("cvt.rn.bf16.f32 %h_one, {sum}")],
                _ => vec![format!("cvt.rn.f16.f32 %h_one, {sum}")],
            };
            writes.extend(match out {
                Dtype::F16 | Dtype::BF16 => [(low, offset), (high, offset + e.pitch)]
                    .map(|(sum, offset)| write(half_word(&sum), "st.shared.b16", offset, "%h_one".to_owned())),
                Dtype::E4M3 => {
                    let convert = format!("cvt.rn.satfinite.e4m3x2.f32 %h_pair, {high}, {low}");
                    let shift = "shr.b16 %h_pair, %h_pair, 8".to_owned();
                    [(convert, offset), (shift, offset + e.pitch)]
                        .map(|(setup, offset)| write(vec![setup], "st.shared.b8", offset, "%h_pair".to_owned()))
                }
                _ => [(low, offset), (high, offset + e.pitch)]
                    .map(|(sum, offset)| write(vec![], "st.shared.b32", offset, sum)),
            });
        }
    }
    writes
}

/// Opaque fragments, as the sums that they are.
fn write_fragments(plan: &WarpPlan, slab: u32) -> Vec<Write> {
    let (parts_m, parts_n) = plan.tiling.fragments();
    let (m, n) = plan.tiling.fragment;
    let (way, stride) = (layout(plan.spec.c_layout), plan.epilogue.pitch / 4);
    let fragments: Vec<(u32, u32)> = match plan.spec.c_layout {
        Layout::RowMajor => (0..parts_n).map(|j| (slab * parts_n + j, 4 * n * j)).collect(),
        Layout::ColMajor => (0..parts_m).map(|i| (i * parts_n + slab, 4 * m * i)).collect(),
    };
    fragments
        .into_iter()
        .map(|(fragment, offset)| Write {
            setup: vec![],
            instruction: format!("wmma.store.d.sync.aligned.{way}.{}.shared.f32", shape(plan)),
            address: at("%r_place", offset),
            registers: sums(plan, fragment, 8),
            stride: format!(", {stride}"),
        })
        .collect()
}

fn pieces(plan: &WarpPlan, slab: u32) -> Vec<Piece> {
    let e = &plan.epilogue;
    let per_piece = PIECE / plan.spec.out.bytes();
    let passes = e.lines / e.lines_a_pass;
    let mut pieces = vec![];
    for pass in 0..passes {
        for part in 0..e.parts {
            let elements = part * e.lanes * per_piece;
            let offset = pass * e.lines_a_pass * e.pitch + elements * e.staged.bytes();
            pieces.push(Piece {
                line: slab * e.lines + pass * e.lines_a_pass,
                needed: elements + per_piece,
                loads: loads(plan, offset),
                to: at("%rd_c", elements * plan.spec.out.bytes()),
                advance: part + 1 == e.parts,
            });
        }
    }
    pieces
}

/// From the slab to `%r_out0` .. `%r_out3`, converted where sums were staged.
fn loads(plan: &WarpPlan, offset: u32) -> Vec<String> {
    let out = plan.spec.out;
    if plan.epilogue.staged == out {
        let from = at("%r_from", offset);
        return vec![format!("ld.shared.v4.b32 {{ %r_out0, %r_out1, %r_out2, %r_out3 }}, [{from}]")];
    }
    let values = PIECE / out.bytes();
    let mut lines: Vec<String> = (0..values / 4)
        .map(|i| {
            let names: Vec<String> = (4 * i..4 * i + 4).map(value).collect();
            format!("ld.shared.v4.f32 {{ {} }}, [{}]", names.join(", "), at("%r_from", offset + 16 * i))
        })
        .collect();
    for i in 0..4 {
        let value = |j: u32| value(values / 4 * i + j);
        match out {
            Dtype::E4M3 => {
                lines.push(format!("cvt.rn.satfinite.e4m3x2.f32 %h_low, {}, {}", value(1), value(0)));
                lines.push(format!("cvt.rn.satfinite.e4m3x2.f32 %h_high, {}, {}", value(3), value(2)));
                lines.push(format!("mov.b32 %r_out{i}, {{ %h_low, %h_high }}"));
            }
            _ if plan.arch.cp_async => {
                lines.push(format!("cvt.rn.{out}x2.f32 %r_out{i}, {}, {}", value(1), value(0)));
            }
            // Packed conversions came with sm_80.
            _ => {
                lines.push(format!("cvt.rn.f16.f32 %h_low, {}", value(0)));
                lines.push(format!("cvt.rn.f16.f32 %h_high, {}", value(1)));
                lines.push(format!("mov.b32 %r_out{i}, {{ %h_low, %h_high }}"));
            }
        }
    }
    lines
}

fn value(i: u32) -> String {
    format!("%f_out{i}")
}

fn rest(plan: &WarpPlan, step: u32) -> Rest {
    let out = plan.spec.out;
    let converts = plan.epilogue.staged != out;
    let (load, store) = match (converts, out.bytes()) {
        (true, 1) => ("ld.shared.f32 %f_rest", "st.global.b8 [%rd_to], %h_rest"),
        (true, _) => ("ld.shared.f32 %f_rest", "st.global.b16 [%rd_to], %h_rest"),
        (false, 1) => ("ld.shared.b8 %h_rest", "st.global.b8 [%rd_to], %h_rest"),
        (false, 2) => ("ld.shared.b16 %h_rest", "st.global.b16 [%rd_to], %h_rest"),
        (false, _) => ("ld.shared.b32 %r_rest", "st.global.b32 [%rd_to], %r_rest"),
    };
    Rest {
        step,
        step_staged: step * plan.epilogue.staged.bytes(),
        step_out: step * out.bytes(),
        load,
        convert: match (converts, out) {
            (false, _) => vec![],
            (true, Dtype::E4M3) => vec!["cvt.rn.satfinite.e4m3x2.f32 %h_rest, 0f00000000, %f_rest"],
            (true, Dtype::BF16) => vec!["cvt.rn.bf16.f32 %h_rest, %f_rest"],
            (true, _) => vec!["cvt.rn.f16.f32 %h_rest, %f_rest"],
        },
        store,
    }
}
