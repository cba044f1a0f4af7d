//! The expression as PTX: what a row or a column determines is computed for it once, the rest for every accumulator.
//!
//! Nothing here knows the layout of accumulators in the threads. A family of kernels says which register an accumulator is,
//! how many rows and columns it holds values of at a time, and in which order it asks for lines:
//!
//! ```text
//! uniform()                     once, before all, after those of vectors by heads are in uniform_input(..)
//!   row(r)                      after the elements of row r's vectors are in row_input(.., r)
//!     column(c)                 after those of column c's are in column_input(.., c)
//!       element(acc, r, c)      acc becomes the result
//! ```

use super::apply::{apply, condition, literal};
use super::double;
use super::program::{Given, Id, Input, InputKind, Level, Node, Program, Reduction};
use crate::words::Dtype;

/// Rows and columns that values are held of at the same time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    pub(crate) rows: u32,
    pub(crate) columns: u32,
}

/// An accumulator.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At<'n> {
    /// Its register, which the result is put in.
    pub(crate) acc: &'n str,
    /// Its row, of those with live values.
    pub(crate) row: u32,
    /// Its column, of those with live values.
    pub(crate) column: u32,
    /// The register with the full operand's element; unread where there is none.
    pub(crate) tile: &'n str,
}

/// A score and its derivatives: lines, and where they put all, which may be literals.
#[derive(Clone, Debug)]
pub(crate) struct Sloped {
    pub(crate) lines: Vec<String>,
    pub(crate) score: String,
    /// By `s * scale`, unless it is 1.
    pub(crate) slope: Option<String>,
    /// By parameters.
    pub(crate) slopes: Vec<String>,
}

/// Makes the lines of one program.
#[derive(Clone, Debug)]
pub(crate) struct Lines {
    program: &'static Program,
    held: Held,
    /// The type that values are computed in: f32, or f64.
    sums: Dtype,
    /// The number of a value among the used ones of its level.
    numbers: Vec<u32>,
}

impl Lines {
    /// In f32.
    pub(crate) fn new(program: &'static Program, held: Held) -> Self {
        Self::of_sums(program, held, Dtype::F32)
    }

    /// In the type of the sums, f32 or f64; of f64 a program has no functions that are [`lacking`](double::lacking).
    pub(crate) fn of_sums(program: &'static Program, held: Held, sums: Dtype) -> Self {
        let mut counts = [0_u32; 4];
        let number = |(id, node): (Id, &Node)| {
            let has_register = program.is_used(id) && !matches!(node, Node::Literal(_) | Node::Acc);
            let count = &mut counts[program.level(id) as usize];
            *count += u32::from(has_register);
            count.saturating_sub(1)
        };
        let numbers = program.nodes().iter().enumerate().map(number).collect();
        Self { program, held, sums, numbers }
    }

    /// Values that are the same for all of C, or for all of a head.
    pub(crate) fn uniform(&self) -> Vec<String> {
        let load = |input: usize, to: &str| match &self.program.inputs()[input] {
            Input { kind: InputKind::Scalar, symbol, .. } if self.sums == Dtype::F64 => {
                vec![format!("ld.param.f32 %f_given, [{symbol}]"), format!("cvt.f64.f32 {to}, %f_given")]
            }
            Input { kind: InputKind::Scalar, symbol, .. } => vec![format!("ld.param.f32 {to}, [{symbol}]")],
            _ => vec![],
        };
        self.level(Level::Uniform, &|id| self.register(id, None), &load)
    }

    /// The instruction that converts an operand of a score to f32. Of a transposed program queries are columns.
    fn given((given, level): (Given, Level), to: &str, at: Option<&At<'_>>) -> String {
        let number = at.map_or(0, |at| if level == Level::Row { at.row } else { at.column });
        match given {
            Given::Query => format!("cvt.rn.f32.u32 {to}, %r_query{number}"),
            Given::Key => format!("cvt.rn.f32.u32 {to}, %r_key{number}"),
            Given::Head => format!("cvt.rn.f32.u32 {to}, %r_head"),
            Given::Batch => format!("cvt.rn.f32.u32 {to}, %r_batch"),
            Given::Scale => format!("mov.f32 {to}, %f_scale"),
        }
    }

    /// The register that the element of a vector by heads must be in; none where the parameter is no such vector.
    pub(crate) fn uniform_input(&self, input: usize) -> Option<String> {
        let is_it = matches!(self.program.inputs()[input].kind, InputKind::Heads(_));
        self.input(input, Level::Uniform).filter(|_| is_it).map(|id| self.register(id, None))
    }

    /// The register that an element of a vector by rows must be in; none where the parameter is no such vector.
    pub(crate) fn row_input(&self, input: usize, row: u32) -> Option<String> {
        self.input(input, Level::Row).map(|id| self.of_row(id, row))
    }

    /// The register that an element of a vector by columns must be in; none where the parameter is no such vector.
    pub(crate) fn column_input(&self, input: usize, column: u32) -> Option<String> {
        self.input(input, Level::Column).map(|id| self.of_column(id, column))
    }

    /// What is computed for a row.
    pub(crate) fn row(&self, row: u32) -> Vec<String> {
        let at = At { acc: "", row, column: 0, tile: "" };
        self.level_at(Level::Row, &|id| self.register(id, Some(&at)), &|_, _| vec![], Some(&at))
    }

    /// What is computed for a column.
    pub(crate) fn column(&self, column: u32) -> Vec<String> {
        let at = At { acc: "", row: 0, column, tile: "" };
        self.level_at(Level::Column, &|id| self.register(id, Some(&at)), &|_, _| vec![], Some(&at))
    }

    /// The accumulator becomes the result; where there is a second one, `%f_collected` what its row collects.
    pub(crate) fn element(&self, at: &At<'_>) -> Vec<String> {
        let result = self.program.result();
        let alone = self.program.second().is_none() && self.program.level(result) == Level::Element;
        let is_made = !matches!(self.program.nodes()[result], Node::Acc | Node::Input(_) | Node::Given(_));
        // The result is the last value of all, so that its operands are read before it is written over `acc`.
        let in_place = alone && is_made;
        let register = |id: Id| {
            if in_place && id == result { at.acc.to_owned() } else { self.register(id, Some(at)) }
        };
        let mut lines = self.level(Level::Element, &register, &|_, _| vec![]);
        if let Some((_, second)) = self.program.second() {
            lines.push(format!("mov.f32 %f_collected, {}", register(second)));
        }
        if !in_place && result != self.acc() {
            lines.push(format!("mov.{} {}, {}", self.sums, at.acc, register(result)));
        }
        lines
    }

    /// The score and its derivatives; the product stays in `at.acc`.
    pub(crate) fn sloped(&self, at: &At<'_>) -> Option<Sloped> {
        let register = |id: Id| self.register(id, Some(at));
        self.program.is_sloped().then(|| Sloped {
            lines: self.level(Level::Element, &register, &|_, _| vec![]),
            score: register(self.program.result()),
            slope: self.program.slope().map(register),
            slopes: self.program.slopes().iter().map(|(_, id)| register(*id)).collect(),
        })
    }

    /// The register that a row's second result is collected in, and what it begins with.
    pub(crate) fn total(&self, row: u32) -> Option<(String, String)> {
        self.program.reduction().map(|reduction| (format!("%f_total{row}"), literal(reduction.start())))
    }

    /// `into` becomes what it and `value` are together.
    pub(crate) fn collect(&self, into: &str, value: &str) -> Option<String> {
        self.program.reduction().map(|reduction| match reduction {
            Reduction::Sum => format!("add.f32 {into}, {into}, {value}"),
            Reduction::Max => format!("max.NaN.f32 {into}, {into}, {value}"),
        })
    }

    /// Registers that rows take while a tile's elements are computed.
    pub(crate) fn row_registers(program: &Program, rows: u32) -> u32 {
        let by_row = |id: &Id| program.is_used(*id) && program.level(*id) == Level::Row;
        let kept = (0..program.nodes().len()).filter(by_row).count() as u32;
        (kept + u32::from(program.reduction().is_some())) * rows
    }

    /// Registers that hold what is the same for all of C, or for all of a head.
    pub(crate) fn uniform_registers(program: &Program) -> u32 {
        let is_held = |id: &Id| {
            let has_register = !matches!(program.nodes()[*id], Node::Literal(_));
            program.is_used(*id) && program.level(*id) == Level::Uniform && has_register
        };
        (0..program.nodes().len()).filter(is_held).count() as u32
    }

    fn acc(&self) -> Id {
        self.program.nodes().iter().position(|node| *node == Node::Acc).unwrap_or_default()
    }

    fn input(&self, input: usize, level: Level) -> Option<Id> {
        let is_it = |node: &Node| *node == Node::Input(input);
        let id = self.program.nodes().iter().position(is_it)?;
        (self.program.is_used(id) && self.program.level(id) == level).then_some(id)
    }

    /// The class of registers that hold values.
    fn class(&self) -> &'static str {
        if self.sums == Dtype::F64 { "d" } else { "f" }
    }

    fn of_row(&self, id: Id, row: u32) -> String {
        format!("%{}_by_row{}", self.class(), self.numbers[id] * self.held.rows + row)
    }

    fn of_column(&self, id: Id, column: u32) -> String {
        format!("%{}_by_col{}", self.class(), self.numbers[id] * self.held.columns + column)
    }

    fn register(&self, id: Id, at: Option<&At<'_>>) -> String {
        let node = self.program.nodes()[id];
        match (self.program.level(id), node, at) {
            (_, Node::Literal(bits), _) if self.sums == Dtype::F64 => double::literal(f32::from_bits(bits)),
            (_, Node::Literal(bits), _) => literal(f32::from_bits(bits)),
            (Level::Row, _, Some(at)) => self.of_row(id, at.row),
            (Level::Column, _, Some(at)) => self.of_column(id, at.column),
            (Level::Element, Node::Acc, Some(at)) => at.acc.to_owned(),
            (Level::Element, Node::Input(_), Some(at)) => at.tile.to_owned(),
            (Level::Element, _, Some(_)) => format!("%{}_value{}", self.class(), self.numbers[id]),
            _ => format!("%{}_scalar{}", self.class(), self.numbers[id]),
        }
    }

    fn level(
        &self,
        level: Level,
        register: &dyn Fn(Id) -> String,
        load: &dyn Fn(usize, &str) -> Vec<String>,
    ) -> Vec<String> {
        self.level_at(level, register, load, None)
    }

    fn level_at(
        &self,
        level: Level,
        register: &dyn Fn(Id) -> String,
        load: &dyn Fn(usize, &str) -> Vec<String>,
        at: Option<&At<'_>>,
    ) -> Vec<String> {
        let mut lines = vec![];
        for (id, node) in self.program.nodes().iter().enumerate() {
            if self.program.is_used(id) && self.program.level(id) == level {
                match node {
                    Node::Input(input) => lines.extend(load(*input, &register(id))),
                    Node::Given(given) => lines.push(Self::given((*given, level), &register(id), at)),
                    _ if self.sums == Dtype::F64 => lines.extend(double::make(node, &register(id), register)),
                    _ => lines.extend(make(node, &register(id), register)),
                }
            }
        }
        lines
    }
}

/// The instructions of one value.
fn make(node: &Node, to: &str, register: &dyn Fn(Id) -> String) -> Vec<String> {
    let two = |opcode: &str, a: Id, b: Id| vec![format!("{opcode} {to}, {}, {}", register(a), register(b))];
    match *node {
        Node::Acc | Node::Input(_) | Node::Given(_) | Node::Literal(_) => vec![],
        Node::Neg(a) => vec![format!("neg.f32 {to}, {}", register(a))],
        Node::Add(a, b) => two("add.f32", a, b),
        Node::Sub(a, b) => two("sub.f32", a, b),
        Node::Mul(a, b) => two("mul.f32", a, b),
        Node::Div(a, b) => two("div.full.f32", a, b),
        Node::Min(a, b) => two("min.NaN.f32", a, b),
        Node::Max(a, b) => two("max.NaN.f32", a, b),
        Node::Fma(a, b, c) => {
            vec![format!("fma.rn.f32 {to}, {}, {}, {}", register(a), register(b), register(c))]
        }
        Node::Apply(function, a) => apply(function, to, &register(a)),
        Node::Select(cmp, a, b, x, y) => vec![
            format!("setp.{}.f32 %p_choice, {}, {}", condition(cmp), register(a), register(b)),
            format!("selp.f32 {to}, {}, {}, %p_choice", register(x), register(y)),
        ],
        Node::Round(dtype, a) => {
            vec![format!("cvt.rn.{dtype}.f32 %h_rounded, {}", register(a)), widen(dtype, to, "%h_rounded")]
        }
    }
}

/// A 16-bit register's value as f32.
pub(crate) fn widen(dtype: Dtype, to: &str, from: &str) -> String {
    format!("cvt.f32.{dtype} {to}, {from}")
}

impl Program {
    /// The instructions that make register `acc` the result, as a kernel has them for every accumulator. For programs
    /// without parameters.
    #[doc(hidden)]
    pub fn instructions(&'static self, acc: &str) -> Vec<String> {
        let lines = Lines::new(self, Held { rows: 1, columns: 1 });
        let at = At { acc, row: 0, column: 0, tile: "" };
        let mut all = lines.uniform();
        all.extend(lines.element(&at));
        all
    }
}
