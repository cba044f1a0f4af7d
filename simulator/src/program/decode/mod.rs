//! Opcode and operands to an operation: one file per family of instructions.

mod arith;
mod barrier;
mod bulk;
mod convert;
mod flow;
mod matrix;
mod memory;
mod moves;
mod wgmma;
mod wmma;

use super::context::Context;
use super::op::{Op, PredSrc};
use super::target::available;
use crate::parse::Parsed;

/// Decodes one instruction; what is not known is an error on its own word.
pub(crate) fn decode(cx: &mut Context<'_>) -> Parsed<(Op, Option<PredSrc>)> {
    available(cx.level, &cx.instr.opcode)?;
    let guard = match &cx.instr.guard {
        Some((negated, name)) => Some(cx.guard(*negated, name)?),
        None => None,
    };
    let op = match cx.head() {
        "add" | "sub" | "mul" | "mad" | "fma" | "div" | "rem" | "neg" | "abs" | "min" | "max" | "shl" | "shr"
        | "and" | "or" | "xor" | "not" | "cnot" | "popc" | "clz" | "brev" | "bfe" | "bfi" | "bfind" | "prmt"
        | "shf" | "lop3" | "sad" | "rcp" | "sqrt" | "rsqrt" | "ex2" | "lg2" | "sin" | "cos" | "tanh" => {
            arith::decode(cx)
        }
        "setp" | "set" | "selp" => moves::compare(cx),
        "mov" | "cvta" | "mapa" | "getctarank" => moves::decode(cx),
        "cvt" => convert::decode(cx),
        "bra" | "ret" | "exit" | "trap" | "nanosleep" | "griddepcontrol" | "setmaxnreg" | "shfl" | "vote" | "match"
        | "redux" | "activemask" | "elect" => flow::decode(cx),
        "ld" | "ldu" | "st" | "atom" | "red" | "prefetch" | "createpolicy" | "discard" | "applypriority" => {
            memory::decode(cx)
        }
        "cp" if cx.instr.opcode.iter().any(|n| n.text == "bulk") => bulk::decode(cx),
        "cp" => memory::cp_async(cx),
        "bar" | "barrier" | "fence" | "membar" | "mbarrier" => barrier::decode(cx),
        "wgmma" => wgmma::decode(cx),
        "ldmatrix" | "stmatrix" | "mma" => matrix::decode(cx),
        "wmma" => wmma::decode(cx),
        other => cx.error(cx.instr.opcode[0].span, format!("the instruction `{other}` is not modelled")),
    }?;
    cx.end()?;
    Ok((op, guard))
}
