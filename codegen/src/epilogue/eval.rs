//! The expression as a function on the CPU, in f64: the reference for the results of kernels.

use super::functions::Function;
use super::program::{Cmp, Given, Id, Node, Program, Reduction};
use crate::words::Dtype;

/// A query and a key as a score finds them.
#[derive(Clone, Copy, Debug)]
pub struct Pair<'v> {
    /// Their product.
    pub product: f64,
    /// The number of the query.
    pub query: usize,
    /// The number of the key.
    pub key: usize,
    /// The query's head.
    pub head: usize,
    /// The problem of a batch.
    pub batch: usize,
    /// What products are multiplied by where no score is computed.
    pub scale: f64,
    /// What the parameters are for this pair, in their order.
    pub inputs: &'v [f64],
}

impl Pair<'_> {
    fn given(&self, given: Given) -> f64 {
        match given {
            Given::Query => self.query as f64,
            Given::Key => self.key as f64,
            Given::Head => self.head as f64,
            Given::Batch => self.batch as f64,
            Given::Scale => self.scale,
        }
    }
}

/// An element of C as an epilogue finds it.
#[derive(Clone, Copy, Debug)]
pub struct Element<'v> {
    /// The sum.
    pub acc: f64,
    /// What the parameters are at this element, in their order.
    pub inputs: &'v [f64],
}

impl Program {
    /// The epilogue as a closure: from an element to its result and, where there is a second one, to what its row
    /// collects.
    ///
    /// Every operation is done in f64 and not rounded, except by casts.
    pub fn evaluator(&self) -> impl Fn(Element<'_>) -> (f64, Option<f64>) + '_ {
        move |element| {
            let mut values = vec![0.0; self.nodes().len()];
            for (id, node) in self.nodes().iter().enumerate().filter(|(id, _)| self.is_used(*id)) {
                values[id] = value(node, &values, element);
            }
            (values[self.result()], self.second().map(|(_, id)| values[id]))
        }
    }

    /// The score of a query and a key, every operation in f64 and not rounded, except by casts.
    pub fn score(&self, pair: &Pair<'_>) -> f64 {
        self.values(pair)[self.result()]
    }

    /// The score of a query and a key, and its derivative by their product, in f64.
    ///
    /// Derivatives are computed beside the values, from the operands to the result. That of a cast is the one of its operand,
    /// that of `floor` is 0, and where two values are equal `min` and `max` have that of the second one.
    #[doc(hidden)]
    pub fn score_and_slope(&self, pair: &Pair<'_>) -> (f64, f64) {
        self.score_and_slope_by(Node::Acc, pair)
    }

    /// The derivative of the score of a query and a key by a parameter, in f64.
    #[doc(hidden)]
    pub fn slope_by_parameter(&self, number: usize, pair: &Pair<'_>) -> f64 {
        self.score_and_slope_by(Node::Input(number), pair).1
    }

    fn score_and_slope_by(&self, by: Node, pair: &Pair<'_>) -> (f64, f64) {
        let values = self.values(pair);
        let mut slopes = vec![0.0; self.nodes().len()];
        for (id, node) in self.nodes().iter().enumerate().filter(|(id, _)| self.is_used(*id)) {
            slopes[id] = if *node == by { 1.0 } else { slope(node, &values, &slopes, values[id]) };
        }
        (values[self.result()], slopes[self.result()])
    }

    /// The values of a score that its results depend on.
    pub(super) fn values(&self, pair: &Pair<'_>) -> Vec<f64> {
        let element = Element { acc: pair.product, inputs: pair.inputs };
        let mut values = vec![0.0; self.nodes().len()];
        for (id, node) in self.nodes().iter().enumerate().filter(|(id, _)| self.is_used(*id)) {
            values[id] = match node {
                Node::Given(given) => pair.given(*given),
                node => value(node, &values, element),
            };
        }
        values
    }
}

impl Reduction {
    /// Adds one more value of a row.
    pub fn collect(self, so_far: f64, value: f64) -> f64 {
        match self {
            Self::Sum => so_far + value,
            Self::Max => max(so_far, value),
        }
    }
}

fn value(node: &Node, values: &[f64], element: Element<'_>) -> f64 {
    let of = |id: Id| values[id];
    match *node {
        Node::Acc => element.acc,
        Node::Input(input) => element.inputs[input],
        // Only a score has it, which `Program::score` computes.
        Node::Given(_) => f64::NAN,
        Node::Literal(bits) => f64::from(f32::from_bits(bits)),
        Node::Neg(a) => -of(a),
        Node::Add(a, b) => of(a) + of(b),
        Node::Sub(a, b) => of(a) - of(b),
        Node::Mul(a, b) => of(a) * of(b),
        Node::Div(a, b) => of(a) / of(b),
        Node::Fma(a, b, c) => of(a).mul_add(of(b), of(c)),
        Node::Min(a, b) => -max(-of(a), -of(b)),
        Node::Max(a, b) => max(of(a), of(b)),
        Node::Apply(function, a) => apply(function, of(a)),
        Node::Select(cmp, a, b, x, y) => {
            if compare(cmp, of(a), of(b)) {
                of(x)
            } else {
                of(y)
            }
        }
        Node::Round(dtype, a) => round(dtype, of(a)),
    }
}

/// The derivative of a value by those of what it is made of.
fn slope(node: &Node, values: &[f64], slopes: &[f64], y: f64) -> f64 {
    let (of, by) = (|id: Id| values[id], |id: Id| slopes[id]);
    match *node {
        Node::Acc | Node::Input(_) | Node::Given(_) | Node::Literal(_) => 0.0,
        Node::Neg(a) => -by(a),
        Node::Add(a, b) => by(a) + by(b),
        Node::Sub(a, b) => by(a) - by(b),
        Node::Mul(a, b) => by(a) * of(b) + of(a) * by(b),
        Node::Div(a, b) => (by(a) * of(b) - of(a) * by(b)) / (of(b) * of(b)),
        Node::Fma(a, b, c) => by(a) * of(b) + of(a) * by(b) + by(c),
        Node::Min(a, b) => by(if of(a) < of(b) { a } else { b }),
        Node::Max(a, b) => by(if of(a) > of(b) { a } else { b }),
        // What does not depend on the product does not, wherever the function has no derivative.
        Node::Apply(_, a) if by(a) == 0.0 => 0.0,
        Node::Apply(function, a) => by(a) * slope_of(function, of(a), y),
        Node::Select(cmp, a, b, x, y) => by(if compare(cmp, of(a), of(b)) { x } else { y }),
        Node::Round(_, a) => by(a),
    }
}

/// The derivative of a function at `x`, where its value is `y`.
fn slope_of(function: Function, x: f64, y: f64) -> f64 {
    let sigmoid = |x: f64| apply(Function::Sigmoid, x);
    match function {
        Function::Abs if x == 0.0 => 0.0,
        Function::Abs => x.signum(),
        Function::Reciprocal => -1.0 / (x * x),
        Function::Exp => y,
        Function::Log => 1.0 / x,
        Function::Sqrt => 0.5 / y,
        Function::Rsqrt => -0.5 * y / x,
        Function::Sin => x.cos(),
        Function::Cos => -x.sin(),
        Function::Floor => 0.0,
        Function::Tanh => 1.0 / x.cosh().powi(2),
        Function::Sigmoid => sigmoid(x) * sigmoid(-x),
        Function::Silu => sigmoid(x) + x * sigmoid(x) * sigmoid(-x),
        Function::Gelu => {
            let k = (8.0 / std::f64::consts::PI).sqrt();
            let u = k * (x + 0.044_715 * x * x * x);
            sigmoid(u) + x * sigmoid(u) * sigmoid(-u) * k * (1.0 + 3.0 * 0.044_715 * x * x)
        }
        Function::GeluErf => {
            let density = (-0.5 * x * x).exp() / (2.0 * std::f64::consts::PI).sqrt();
            0.5 * libm::erfc(-x * std::f64::consts::FRAC_1_SQRT_2) + x * density
        }
    }
}

/// The greater; NaN where one is.
fn max(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) }
}

fn compare(cmp: Cmp, a: f64, b: f64) -> bool {
    match cmp {
        Cmp::Lt => a < b,
        Cmp::Le => a <= b,
        Cmp::Gt => a > b,
        Cmp::Ge => a >= b,
        Cmp::Eq => a == b,
        Cmp::Ne => a != b,
    }
}

pub(super) fn apply(function: Function, x: f64) -> f64 {
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    match function {
        Function::Abs => x.abs(),
        Function::Reciprocal => 1.0 / x,
        Function::Exp => x.exp(),
        Function::Log => x.ln(),
        Function::Sqrt => x.sqrt(),
        Function::Rsqrt => 1.0 / x.sqrt(),
        Function::Sin => x.sin(),
        Function::Cos => x.cos(),
        Function::Floor => x.floor(),
        Function::Tanh => x.tanh(),
        Function::Sigmoid => sigmoid(x),
        Function::Silu => x * sigmoid(x),
        // (1 + tanh u) / 2 is the sigmoid of 2 u, without its cancellation.
        Function::Gelu => {
            let u = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x * x * x);
            x * sigmoid(2.0 * u)
        }
        // (1 + erf z) / 2 is erfc(-z) / 2, without its cancellation.
        Function::GeluErf => x * 0.5 * libm::erfc(-x * std::f64::consts::FRAC_1_SQRT_2),
    }
}

/// To nearest, ties to even, with the subnormal numbers and the overflow of the type.
fn round(dtype: Dtype, value: f64) -> f64 {
    let (digits, least, largest) = match dtype {
        Dtype::F16 => (11, -14, 65504.0),
        Dtype::BF16 => (8, -126, f64::from(f32::from_bits(0x7f7f_0000))),
        _ => return value,
    };
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let exponent = (value.abs().log2().floor() as i32).max(least);
    let ulp = f64::powi(2.0, exponent - (digits - 1));
    let rounded = (value / ulp).round_ties_even() * ulp;
    if rounded.abs() > largest { f64::INFINITY.copysign(value) } else { rounded }
}
