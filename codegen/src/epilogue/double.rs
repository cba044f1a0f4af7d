//! Values of f64 as instructions, for kernels whose sums are f64.
//!
//! What f32 approximates has no instruction in f64: exponentials, logarithms, sines, and functions made of them.

use super::apply::condition;
use super::functions::Function;
use super::program::{Id, Node, Program};

/// A literal, which the language has in f32.
pub(super) fn literal(value: f32) -> String {
    format!("0d{:016X}", f64::from(value).to_bits())
}

/// The functions of a program that f64 has no instructions for, by their names in the language.
pub(crate) fn lacking(program: &Program) -> Vec<&'static str> {
    let is_there = |function: Function| {
        let used = program.nodes().iter().enumerate().filter(|(id, _)| program.is_used(*id));
        used.into_iter().any(|(_, node)| matches!(node, Node::Apply(found, _) if *found == function))
    };
    Function::ALL
        .into_iter()
        .filter(|(_, function)| !has(*function) && is_there(*function))
        .map(|(name, _)| name)
        .collect()
}

const fn has(function: Function) -> bool {
    matches!(function, Function::Abs | Function::Sqrt | Function::Rsqrt | Function::Floor | Function::Reciprocal)
}

/// The instructions of one value, each rounded to nearest.
pub(super) fn make(node: &Node, to: &str, register: &dyn Fn(Id) -> String) -> Vec<String> {
    let two = |opcode: &str, a: Id, b: Id| vec![format!("{opcode} {to}, {}, {}", register(a), register(b))];
    match *node {
        Node::Acc | Node::Input(_) | Node::Given(_) | Node::Literal(_) => vec![],
        Node::Neg(a) => vec![format!("neg.f64 {to}, {}", register(a))],
        Node::Add(a, b) => two("add.f64", a, b),
        Node::Sub(a, b) => two("sub.f64", a, b),
        Node::Mul(a, b) => two("mul.f64", a, b),
        Node::Div(a, b) => two("div.rn.f64", a, b),
        Node::Min(a, b) => or_nan("min.f64", to, &register(a), &register(b)),
        Node::Max(a, b) => or_nan("max.f64", to, &register(a), &register(b)),
        Node::Fma(a, b, c) => vec![format!("fma.rn.f64 {to}, {}, {}, {}", register(a), register(b), register(c))],
        Node::Apply(function, a) => apply(function, to, &register(a)),
        Node::Select(cmp, a, b, x, y) => vec![
            format!("setp.{}.f64 %p_choice, {}, {}", condition(cmp), register(a), register(b)),
            format!("selp.f64 {to}, {}, {}, %p_choice", register(x), register(y)),
        ],
        Node::Round(dtype, a) => {
            vec![format!("cvt.rn.{dtype}.f64 %h_rounded, {}", register(a)), format!("cvt.f64.{dtype} {to}, %h_rounded")]
        }
    }
}

/// The lesser or the greater of two, which is NaN where one of them is: of f64 the instructions have no `.NaN` (PTX ISA, "max").
fn or_nan(opcode: &str, to: &str, a: &str, b: &str) -> Vec<String> {
    vec![
        format!("setp.nan.f64 %p_choice, {a}, {b}"),
        format!("{opcode} {to}, {a}, {b}"),
        format!("@%p_choice mov.f64 {to}, 0d7FF8000000000000"),
    ]
}

/// A plan has refused the others.
fn apply(function: Function, to: &str, x: &str) -> Vec<String> {
    match function {
        Function::Abs => vec![format!("abs.f64 {to}, {x}")],
        Function::Sqrt => vec![format!("sqrt.rn.f64 {to}, {x}")],
        Function::Rsqrt => vec![format!("sqrt.rn.f64 {to}, {x}"), format!("rcp.rn.f64 {to}, {to}")],
        Function::Floor => vec![format!("cvt.rmi.f64.f64 {to}, {x}")],
        Function::Reciprocal => vec![format!("rcp.rn.f64 {to}, {x}")],
        Function::Exp
        | Function::Log
        | Function::Sin
        | Function::Cos
        | Function::Tanh
        | Function::Sigmoid
        | Function::Silu
        | Function::Gelu
        | Function::GeluErf => vec![],
    }
}
