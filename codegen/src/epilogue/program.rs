//! The typed expression: a graph in which every value is computed once.

use std::collections::HashMap;

use super::functions::Function;
use crate::words::Dtype;

/// A parameter of an epilogue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    /// Its name in the source.
    pub name: String,
    /// What it is.
    pub kind: InputKind,
    /// Its name in the PTX.
    pub(crate) symbol: String,
    /// That of the strides of a vector of a score.
    pub(crate) strides: String,
}

impl Input {
    pub(super) fn new(name: &str, kind: InputKind) -> Self {
        let (symbol, strides) = (format!("epilogue_{name}"), format!("strides_{name}"));
        Self { name: name.to_owned(), kind, symbol, strides }
    }
}

/// What a parameter of an epilogue is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum InputKind {
    /// A vector with an element for every row of C.
    Rows(Dtype),
    /// A vector with an element for every column of C.
    Cols(Dtype),
    /// A vector with an element for every head of an attention: of its scores alone.
    Heads(Dtype),
    /// A matrix of C's shape and layout.
    Dense(Dtype),
    /// The values of a block-sparse matrix with the blocks of C: one for every stored element of the C of an SDDMM.
    Blocks(Dtype),
    /// One f32.
    Scalar,
}

impl InputKind {
    /// As it is written.
    pub fn words(self) -> String {
        match self {
            Self::Rows(dtype) => format!("Rows<{dtype}>"),
            Self::Cols(dtype) => format!("Cols<{dtype}>"),
            Self::Heads(dtype) => format!("Heads<{dtype}>"),
            Self::Dense(dtype) => format!("Dense<{dtype}>"),
            Self::Blocks(dtype) => format!("Bsr<{dtype}>"),
            Self::Scalar => "f32".to_owned(),
        }
    }

    /// Whether it is a vector: by rows, by columns or by heads.
    pub fn is_vector(self) -> bool {
        matches!(self, Self::Rows(_) | Self::Cols(_) | Self::Heads(_))
    }

    /// The type of its elements.
    pub fn dtype(self) -> Dtype {
        match self {
            Self::Rows(dtype) | Self::Cols(dtype) | Self::Heads(dtype) | Self::Dense(dtype) | Self::Blocks(dtype) => {
                dtype
            }
            Self::Scalar => Dtype::F32,
        }
    }

    /// What it is of the transposed C.
    fn transposed(self) -> Self {
        match self {
            Self::Rows(dtype) => Self::Cols(dtype),
            Self::Cols(dtype) => Self::Rows(dtype),
            whole => whole,
        }
    }

    pub(super) fn level(self) -> Level {
        match self {
            Self::Rows(_) => Level::Row,
            Self::Cols(_) => Level::Column,
            Self::Dense(_) | Self::Blocks(_) => Level::Element,
            Self::Heads(_) | Self::Scalar => Level::Uniform,
        }
    }
}

/// What an expression's value depends on: how often it must be computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// On scalars and on the head alone: once a launch, or once a head.
    Uniform,
    /// On the row of C.
    Row,
    /// On the column of C.
    Column,
    /// On the element.
    Element,
}

impl Level {
    /// The level in the transposed C.
    fn transposed(self) -> Self {
        match self {
            Self::Row => Self::Column,
            Self::Column => Self::Row,
            whole => whole,
        }
    }

    pub(super) fn with(self, other: Self) -> Self {
        match (self, other) {
            (Self::Uniform, level) | (level, Self::Uniform) => level,
            (one, other) if one == other => one,
            _ => Self::Element,
        }
    }
}

/// How a value is collected along a row of C.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reduction {
    /// The sum.
    Sum,
    /// The greatest value; NaN where there is one.
    Max,
}

impl Reduction {
    /// What it begins with: that of a row without columns.
    pub const fn start(self) -> f32 {
        match self {
            Self::Sum => 0.0,
            Self::Max => f32::NEG_INFINITY,
        }
    }

    /// As it is written.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Sum => "row_sum",
            Self::Max => "row_max",
        }
    }
}

/// Comparisons.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Cmp {
    Lt,
    Le,
    Gt,
    Ge,
    Eq,
    Ne,
}

/// The operands of a score besides the product of a query and a key, each as an f32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Given {
    /// The number of the query, `i`.
    Query,
    /// The number of the key, `j`.
    Key,
    /// The number of the query's head, `head`.
    Head,
    /// The number of the problem, `batch`.
    Batch,
    /// What products are multiplied by in blocks where no score is computed, `scale`.
    Scale,
}

impl Given {
    /// Every one, with its name.
    pub(crate) const ALL: [(&'static str, Self); 5] =
        [("i", Self::Query), ("j", Self::Key), ("head", Self::Head), ("batch", Self::Batch), ("scale", Self::Scale)];

    pub(super) fn level(self) -> Level {
        match self {
            Self::Query => Level::Row,
            Self::Key => Level::Column,
            Self::Head | Self::Batch | Self::Scale => Level::Uniform,
        }
    }
}

/// The number of a value in its program.
pub(crate) type Id = usize;

/// How a value is made of earlier ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Node {
    /// The sum of an element of C.
    Acc,
    /// A parameter, by its number.
    Input(usize),
    /// The coordinates of a score.
    Given(Given),
    /// The bits of an f32.
    Literal(u32),
    Neg(Id),
    Add(Id, Id),
    Sub(Id, Id),
    Mul(Id, Id),
    Div(Id, Id),
    Fma(Id, Id, Id),
    Min(Id, Id),
    Max(Id, Id),
    Apply(Function, Id),
    /// `if a < b { x } else { y }`.
    Select(Cmp, Id, Id, Id, Id),
    /// Rounded to a narrower type and back.
    Round(Dtype, Id),
}

impl Node {
    pub(crate) fn operands(self) -> arrayvec::ArrayVec<Id, 4> {
        let mut ids = arrayvec::ArrayVec::new();
        match self {
            Self::Acc | Self::Input(_) | Self::Given(_) | Self::Literal(_) => {}
            Self::Neg(a) | Self::Apply(_, a) | Self::Round(_, a) => ids.push(a),
            Self::Add(a, b) | Self::Sub(a, b) | Self::Mul(a, b) | Self::Div(a, b) => ids.extend([a, b]),
            Self::Min(a, b) | Self::Max(a, b) => ids.extend([a, b]),
            Self::Fma(a, b, c) => ids.extend([a, b, c]),
            Self::Select(_, a, b, x, y) => ids.extend([a, b, x, y]),
        }
        ids
    }
}

/// A graph of values: operands precede their uses, and no two values are equal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Graph {
    nodes: Vec<Node>,
    levels: Vec<Level>,
    ids: HashMap<Node, Id>,
}

impl Graph {
    pub(super) fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    pub(super) fn level(&self, id: Id) -> Level {
        self.levels[id]
    }

    /// The value of `node`, which may exist already.
    pub(super) fn add(&mut self, node: Node, level: Level) -> Id {
        *self.ids.entry(node).or_insert_with(|| {
            self.nodes.push(node);
            self.levels.push(level);
            self.nodes.len() - 1
        })
    }

    /// The same for a node that is made of others, or a literal, in the form that costs least.
    pub(super) fn made_of(&mut self, node: Node) -> Id {
        match node {
            Node::Neg(a) => match self.nodes[a] {
                Node::Neg(inner) => return inner,
                Node::Literal(bits) => return self.made_of(Node::Literal(bits ^ 1 << 31)),
                _ => {}
            },
            // One reciprocal for many elements.
            Node::Div(a, b) if self.levels[b] < self.levels[a].with(self.levels[b]) => {
                let reciprocal = self.made_of(Node::Apply(Function::Reciprocal, b));
                return self.made_of(Node::Mul(a, reciprocal));
            }
            _ => {}
        }
        let level = node.operands().iter().fold(Level::Uniform, |level, id| level.with(self.levels[*id]));
        self.add(node, level)
    }

    /// Whether one of these values depends on each value.
    fn used(&self, by: impl IntoIterator<Item = Id>) -> Vec<bool> {
        let mut used = vec![false; self.nodes.len()];
        let mut open: Vec<Id> = by.into_iter().collect();
        while let Some(id) = open.pop() {
            if !std::mem::replace(&mut used[id], true) {
                open.extend(self.nodes[id].operands());
            }
        }
        used
    }
}

/// What an epilogue computes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    text: String,
    inputs: Vec<Input>,
    graph: Graph,
    /// Whether a result depends on it.
    used: Vec<bool>,
    result: Id,
    second: Option<(Reduction, Id)>,
    /// The derivative of a score by `s * scale`, unless it is 1.
    slope: Option<Id>,
    /// Its derivatives by parameters, by the numbers of these.
    slopes: Vec<(usize, Id)>,
}

impl Program {
    pub(super) fn new(
        text: String,
        inputs: Vec<Input>,
        graph: Graph,
        result: Id,
        second: Option<(Reduction, Id)>,
    ) -> Self {
        let used = graph.used(std::iter::once(result).chain(second.map(|(_, id)| id)));
        Self { text, inputs, graph, used, result, second, slope: None, slopes: vec![] }
    }

    /// The same with its derivatives by `s * scale` and by parameters, which are values of a larger graph.
    pub(super) fn with_slopes(&self, graph: Graph, slope: Option<Id>, slopes: Vec<(usize, Id)>) -> Self {
        let used = graph.used([self.result].into_iter().chain(slope).chain(slopes.iter().map(|(_, id)| *id)));
        let (text, inputs) = (self.text.clone(), self.inputs.clone());
        Self { text, inputs, graph, used, result: self.result, second: None, slope, slopes }
    }

    /// The same of the transposed C, whose rows are C's columns. A second result is still one value for each row of C: for
    /// each column of what is transposed.
    pub(super) fn transposed(&self) -> Self {
        let mut transposed = self.clone();
        for input in &mut transposed.inputs {
            input.kind = input.kind.transposed();
        }
        for level in &mut transposed.graph.levels {
            *level = level.transposed();
        }
        transposed
    }

    /// The canonical text: a closure.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The parameters, in order.
    pub fn inputs(&self) -> &[Input] {
        &self.inputs
    }

    /// How the second result is collected, where there is one.
    pub fn reduction(&self) -> Option<Reduction> {
        self.second.map(|(reduction, _)| reduction)
    }

    /// The number and the type of the parameter that is a full operand; the first of several.
    pub fn tile(&self) -> Option<(usize, Dtype)> {
        self.inputs.iter().enumerate().find_map(|(at, input)| match input.kind {
            InputKind::Dense(dtype) | InputKind::Blocks(dtype) => Some((at, dtype)),
            _ => None,
        })
    }

    /// Whether it names the number of the query's head.
    pub(crate) fn names_head(&self) -> bool {
        self.graph.nodes.iter().zip(&self.used).any(|(node, used)| *used && matches!(node, Node::Given(Given::Head)))
    }

    pub(crate) fn nodes(&self) -> &[Node] {
        &self.graph.nodes
    }

    pub(crate) fn level(&self, id: Id) -> Level {
        self.graph.levels[id]
    }

    /// Is some value the less or the greater of two?
    pub(crate) fn bounds(&self) -> bool {
        self.nodes().iter().any(|node| matches!(node, Node::Min(..) | Node::Max(..)))
    }

    /// Is some value rounded to `dtype` on the way?
    pub(crate) fn rounds_to(&self, dtype: Dtype) -> bool {
        self.nodes().iter().any(|node| matches!(node, Node::Round(to, _) if *to == dtype))
    }

    pub(crate) fn is_used(&self, id: Id) -> bool {
        self.used[id]
    }

    pub(crate) fn result(&self) -> Id {
        self.result
    }

    pub(crate) fn second(&self) -> Option<(Reduction, Id)> {
        self.second
    }

    /// The derivative of a score by `s * scale`, of a differentiated program.
    pub(crate) fn slope(&self) -> Option<Id> {
        self.slope
    }

    /// Its derivatives by parameters, by the numbers of these: where they are wanted and not 0.
    pub(crate) fn slopes(&self) -> &[(usize, Id)] {
        &self.slopes
    }

    /// Whether a derivative is computed with the score.
    pub(crate) fn is_sloped(&self) -> bool {
        self.slope.is_some() || !self.slopes.is_empty()
    }

    pub(super) fn graph(&self) -> &Graph {
        &self.graph
    }
}

impl Program {
    /// Every function: its name, its arguments, its value, and the bound of its relative error on the GPU where its
    /// arguments are exact.
    ///
    /// Bounds follow from those of `ex2.approx` and `div.full` (2 ulp), `rcp.approx` (1 ulp), `lg2.approx` (2^-22,
    /// absolute between 1/2 and 2), `sqrt.approx` (2^-23), `rsqrt.approx` (2^-22.9), `sin.approx` and `cos.approx` in the PTX ISA, section
    /// "Floating Point Instructions", and from fits of our own. Where a bound holds |x|, rounding the argument of an
    /// exponential is what counts. Subnormal values of exponentials are 0: `sigmoid`, `silu` and `gelu` are 0 where e^x is.
    pub const FUNCTIONS: [(&'static str, &'static str, &'static str, &'static str); 21] = [
        ("fma", "x, y, z", "x y + z, rounded once", "2^-24"),
        ("min", "x, y", "the smaller; NaN if either is", "0"),
        ("max", "x, y", "the larger; NaN if either is", "0"),
        ("clamp", "x, low, high", "min(max(x, low), high)", "0"),
        ("select", "a < b, x, y", "x where a < b, else y", "0"),
        ("relu", "x", "max(x, 0)", "0"),
        ("abs", "x", "|x|", "0"),
        ("exp", "x", "e^x", "2^-21 + |x| 2^-23"),
        ("log", "x", "the natural logarithm", "2^-21; absolute between 1/2 and 2"),
        ("sqrt", "x", "the square root", "2^-22"),
        ("rsqrt", "x", "1 / sqrt(x)", "2^-22"),
        ("sin", "x", "the sine of x in radians", "absolute: 2^-20.5 to |x| = 2 pi, 2^-14.7 to 100 pi"),
        ("cos", "x", "the cosine of x in radians", "absolute: 2^-20.5 to |x| = 2 pi, 2^-14.7 to 100 pi"),
        ("floor", "x", "the largest integer that is not above x", "0"),
        ("tanh", "x", "the hyperbolic tangent", "2^-20"),
        ("sigmoid", "x", "1 / (1 + e^-x)", "2^-20 + |x| 2^-23"),
        ("silu", "x", "x sigmoid(x)", "2^-20 + |x| 2^-23"),
        ("gelu", "x", "x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))", "2^-20 + (|x| + |x|^3 / 16) 2^-22"),
        ("gelu_erf", "x", "x / 2 (1 + erf(x / sqrt(2)))", "2^-19 + x^2 2^-23"),
        ("row_sum", "x", "the second result: the sum of x along each row of C", "of f32 sums in any order"),
        ("row_max", "x", "the second result: the largest x of each row of C", "0"),
    ];
}
