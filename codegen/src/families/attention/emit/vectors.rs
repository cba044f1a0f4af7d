//! The loads of a score's vectors: which elements, from where, into the registers that the score's lines read.
//!
//! A vector has an element for each query, each key or each head, and a launch passes the number of elements between those of
//! one head and the next and of one problem and the next: none where they share it.

use super::super::plan::MOST_LOADS;
use crate::Dtype;
use crate::epilogue::{Input, InputKind, Lines, Program, widen};

/// Queries of a thread, and keys that are looked at together.
const PAIR: [u32; 2] = [0, 1];

/// The vectors of one score.
pub(super) struct Vectors<'l> {
    lines: &'l Lines,
    program: &'static Program,
}

impl<'l> Vectors<'l> {
    pub(super) fn new(lines: &'l Lines, program: &'static Program) -> Self {
        Self { lines, program }
    }

    /// Once a tile: the elements of its head and of the thread's queries.
    pub(super) fn tile(&self) -> Vec<String> {
        let kinds: Vec<InputKind> = self.program.inputs().iter().map(|input| input.kind).collect();
        let mut made = vec![];
        if kinds.iter().any(|kind| matches!(kind, InputKind::Rows(_))) {
            made.push("ld.param.u32 %r_last_query, [queries]".to_owned());
            made.push("sub.u32 %r_last_query, %r_last_query, 1".to_owned());
        }
        let held = |kind: InputKind| matches!(kind, InputKind::Rows(_) | InputKind::Heads(_));
        for (at, input) in self.program.inputs().iter().enumerate().filter(|(_, input)| held(input.kind)) {
            made.extend(address("%rd_vector", input));
            let dtype = input.kind.dtype();
            if let Some(to) = self.lines.uniform_input(at) {
                made.extend(load(dtype, &to, "%rd_vector"));
            }
            for row in PAIR {
                if let Some(to) = self.lines.row_input(at, row) {
                    made.push(format!("min.u32 %r_element, %r_query{row}, %r_last_query"));
                    made.push(format!("mad.wide.u32 %rd_t, %r_element, {}, %rd_vector", dtype.bytes()));
                    made.extend(load(dtype, &to, "%rd_t"));
                }
            }
        }
        made
    }

    /// The elements of a pair of keys, by its number in the run; zeros beyond the last key.
    pub(super) fn columns(&self, pair: u32) -> Vec<String> {
        let mut made = vec![];
        if self.by_key() > 0 && pair == 0 {
            made.push("sub.s32 %r_keys_from, %r_keys, %r_column".to_owned());
        }
        for (at, input) in self.program.inputs().iter().enumerate() {
            let bytes = input.kind.dtype().bytes();
            for column in PAIR {
                let Some(to) = self.lines.column_input(at, column) else { continue };
                if pair == 0 && column == 0 {
                    let of_key = format!("%rd_column{at}");
                    made.extend(address(&of_key, input));
                    made.push(format!("mad.wide.u32 {of_key}, %r_column, {bytes}, {of_key}"));
                }
                let key = 8 * pair + column;
                made.push(format!("setp.gt.s32 %p_element, %r_keys_from, {key}"));
                made.extend(load_if(input.kind.dtype(), &to, &format!("%rd_column{at} + {}", key * bytes)));
            }
        }
        made
    }

    /// Vectors by key.
    pub(super) fn by_key(&self) -> u32 {
        self.program.inputs().iter().filter(|input| matches!(input.kind, InputKind::Cols(_))).count() as u32
    }

    /// Whether a pair is the first one behind those whose elements are loaded together.
    ///
    /// There the kernel checks for further keys. Without a branch ptxas 13.0 loads the elements of all pairs first, and
    /// spills registers.
    pub(super) fn begins_group(&self, pair: u32) -> bool {
        let together = (MOST_LOADS / (2 * self.by_key().max(1))).max(1);
        self.by_key() > 0 && pair > 0 && pair.is_multiple_of(together)
    }
}

/// Where a vector's part for the head of the tile begins: base + (head * elements a head + problem * elements a problem)
/// elements.
fn address(to: &str, input: &Input) -> [String; 8] {
    let Input { symbol, strides, kind, .. } = input;
    [
        format!("ld.param.u64 {to}, [{symbol}]"),
        format!("cvta.to.global.u64 {to}, {to}"),
        format!("ld.param.u32 %r_stride, [{strides}]"),
        "mul.wide.u32 %rd_t, %r_head, %r_stride".to_owned(),
        format!("ld.param.u32 %r_stride, [{strides} + 4]"),
        "mad.wide.u32 %rd_t, %r_batch, %r_stride, %rd_t".to_owned(),
        format!("shl.b64 %rd_t, %rd_t, {}", kind.dtype().bytes().ilog2()),
        format!("add.s64 {to}, {to}, %rd_t"),
    ]
}

fn load(dtype: Dtype, to: &str, from: &str) -> Vec<String> {
    match dtype {
        Dtype::F32 => vec![format!("ld.global.nc.f32 {to}, [{from}]")],
        _ => vec![format!("ld.global.nc.b16 %h_element, [{from}]"), widen(dtype, to, "%h_element")],
    }
}

/// The same where `%p_element` is true, else zero.
fn load_if(dtype: Dtype, to: &str, from: &str) -> Vec<String> {
    match dtype {
        Dtype::F32 => vec![format!("mov.f32 {to}, 0f00000000"), format!("@%p_element ld.global.nc.f32 {to}, [{from}]")],
        _ => vec![
            "mov.b16 %h_element, 0".to_owned(),
            format!("@%p_element ld.global.nc.b16 %h_element, [{from}]"),
            widen(dtype, to, "%h_element"),
        ],
    }
}
