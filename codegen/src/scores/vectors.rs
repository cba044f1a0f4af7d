//! The vectors of a score: how many registers they take, and their loads: which elements, from where, into the registers that
//! the score's lines read.
//!
//! A vector has an element for each query, each key or each head, and a launch passes the number of elements between those of
//! one head and the next and of one problem and the next: none where they share it.

use crate::Dtype;
use crate::epilogue::{Given, Input, InputKind, Lines, Node, Program, widen};

/// Rows of a thread, and columns that are loaded together.
const PAIR: [u32; 2] = [0, 1];
/// Rows of a thread.
const THREAD_ROWS: u32 = 2;
/// Most elements of vectors by column that are loaded together, but for those of one pair of columns.
const MOST_LOADS: u32 = 16;

/// Registers that a score takes beside products: what it makes of the thread's rows and of the head, which is kept while a
/// tile is computed, and addresses and elements of vectors by column.
pub(crate) fn registers(program: &Program) -> u32 {
    let by_column = by_column(program);
    let loads = match (by_column, program.is_sloped()) {
        (0, _) => 0,
        (_, false) => MOST_LOADS.max(2 * by_column),
        // Derivatives are computed for one pair of columns at a time.
        (_, true) => 2 * by_column,
    };
    let uniform = Lines::uniform_registers(program) - numbers(program);
    Lines::row_registers(program, THREAD_ROWS) + uniform + 2 * by_column + loads
}

/// Values of a differentiated score that take no register: numbers of the launch, which are operands from memory there.
fn numbers(program: &Program) -> u32 {
    let is_number = |node: &Node| match node {
        Node::Input(at) => program.inputs()[*at].kind == InputKind::Scalar,
        node => *node == Node::Given(Given::Scale),
    };
    let used = program.nodes().iter().enumerate().filter(|(id, _)| program.is_used(*id));
    if program.is_sloped() { used.filter(|(_, node)| is_number(node)).count() as u32 } else { 0 }
}

/// What the rows of S are: the columns are the other ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowsOf {
    Queries,
    /// S is transposed, and so is the program.
    Keys,
}

impl RowsOf {
    fn row(self) -> &'static str {
        if self == Self::Queries { "query" } else { "key" }
    }

    /// The parameters with the numbers of rows and of columns.
    fn sizes(self) -> [&'static str; 2] {
        if self == Self::Queries { ["queries", "keys"] } else { ["keys", "queries"] }
    }
}

/// The vectors of one score.
pub(crate) struct Vectors<'l> {
    lines: &'l Lines,
    program: &'static Program,
    rows: RowsOf,
}

impl<'l> Vectors<'l> {
    pub(crate) fn new(lines: &'l Lines, program: &'static Program, rows: RowsOf) -> Self {
        Self { lines, program, rows }
    }

    /// The elements of the head and of the thread's rows.
    pub(crate) fn rows(&self) -> Vec<String> {
        let (row, [rows, _]) = (self.rows.row(), self.rows.sizes());
        let kinds: Vec<InputKind> = self.program.inputs().iter().map(|input| input.kind).collect();
        let mut made = vec![];
        if kinds.iter().any(|kind| matches!(kind, InputKind::Rows(_))) {
            made.push(format!("ld.param.u32 %r_last_{row}, [{rows}]"));
            made.push(format!("sub.u32 %r_last_{row}, %r_last_{row}, 1"));
        }
        let held = |kind: InputKind| matches!(kind, InputKind::Rows(_) | InputKind::Heads(_));
        for (at, input) in self.program.inputs().iter().enumerate().filter(|(_, input)| held(input.kind)) {
            made.extend(address("%rd_vector", input));
            let dtype = input.kind.dtype();
            if let Some(to) = self.lines.uniform_input(at) {
                made.extend(load(dtype, &to, "%rd_vector"));
            }
            for number in PAIR {
                if let Some(to) = self.lines.row_input(at, number) {
                    made.push(format!("min.u32 %r_element, %r_{row}{number}, %r_last_{row}"));
                    made.push(format!("mad.wide.u32 %rd_t, %r_element, {}, %rd_vector", dtype.bytes()));
                    made.extend(load(dtype, &to, "%rd_t"));
                }
            }
        }
        made
    }

    /// The elements of a pair of columns, by its number in the run; zeros beyond the last column.
    pub(crate) fn columns(&self, pair: u32) -> Vec<String> {
        let [_, columns] = self.rows.sizes();
        let mut made = if self.by_column() > 0 && pair == 0 { self.remaining() } else { vec![] };
        for (at, input) in self.program.inputs().iter().enumerate() {
            let bytes = input.kind.dtype().bytes();
            for column in PAIR {
                let Some(to) = self.lines.column_input(at, column) else { continue };
                if pair == 0 && column == 0 {
                    let from = format!("%rd_column{at}");
                    made.extend(address(&from, input));
                    made.push(format!("mad.wide.u32 {from}, %r_column, {bytes}, {from}"));
                }
                let number = 8 * pair + column;
                made.push(format!("setp.gt.s32 %p_element, %r_{columns}_from, {number}"));
                made.extend(load_if(input.kind.dtype(), &to, &format!("%rd_column{at} + {}", number * bytes)));
            }
        }
        made
    }

    /// The number of columns from the thread's first one to the last.
    pub(crate) fn remaining(&self) -> Vec<String> {
        let [_, columns] = self.rows.sizes();
        let load = (self.rows == RowsOf::Keys).then(|| "ld.param.u32 %r_queries, [queries]".to_owned());
        load.into_iter().chain([format!("sub.s32 %r_{columns}_from, %r_{columns}, %r_column")]).collect()
    }

    /// Vectors by column.
    pub(crate) fn by_column(&self) -> u32 {
        by_column(self.program)
    }

    /// Whether a pair is the first one behind those whose elements are loaded together.
    ///
    /// There the kernel checks for further columns. Without a branch ptxas 13.0 loads the elements of all pairs first, and
    /// spills registers.
    pub(crate) fn begins_group(&self, pair: u32) -> bool {
        let together = (MOST_LOADS / (2 * self.by_column().max(1))).max(1);
        self.by_column() > 0 && pair > 0 && pair.is_multiple_of(together)
    }
}

fn by_column(program: &Program) -> u32 {
    program.inputs().iter().filter(|input| matches!(input.kind, InputKind::Cols(_))).count() as u32
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
