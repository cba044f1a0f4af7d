//! Opcode and operands to an operation: one file per family of instructions.

mod arith;
mod barrier;
mod bulk;
mod convert;
mod extended;
mod flow;
mod matrix;
mod memory;
mod mma;
mod moves;
mod refused;
mod sparse;
mod tensormap;
mod wgmma;
mod wmma;

use super::context::Context;
use super::op::{Op, PredSrc};
use super::target::available;
use crate::parse::Parsed;

/// Decodes what follows the first word of an opcode.
type Decode = fn(&mut Context<'_>) -> Parsed<Op>;

/// The first words of all opcodes but those of arithmetic, which has a table of its own.
const OPCODES: &[(&str, Decode)] = &[
    ("mov", moves::mov),
    ("cvta", moves::cvta),
    ("mapa", moves::mapa),
    ("getctarank", moves::getctarank),
    ("setp", moves::setp),
    ("set", moves::set),
    ("selp", moves::selp),
    ("slct", moves::slct),
    ("testp", moves::testp),
    ("isspacep", moves::isspacep),
    ("addc", extended::decode),
    ("subc", extended::decode),
    ("madc", extended::decode),
    ("cvt", convert::decode),
    ("bra", flow::bra),
    ("brx", flow::brx),
    ("ret", flow::ret),
    ("exit", |cx| flow::without_operands(cx, Op::Exit)),
    ("trap", |cx| flow::without_operands(cx, Op::Trap)),
    ("brkpt", |cx| flow::without_operands(cx, Op::Trap)),
    ("nanosleep", flow::nanosleep),
    ("griddepcontrol", flow::griddepcontrol),
    ("setmaxnreg", flow::setmaxnreg),
    ("activemask", flow::activemask),
    ("elect", flow::elect),
    ("shfl", flow::shuffle),
    ("vote", flow::vote),
    ("match", flow::matching),
    ("redux", flow::redux),
    ("ld", memory::load),
    ("ldu", memory::load),
    ("st", memory::store),
    ("atom", |cx| memory::atomic(cx, true)),
    ("red", |cx| memory::atomic(cx, false)),
    ("prefetch", memory::prefetch),
    ("prefetchu", memory::uniform_prefetch),
    ("applypriority", memory::priority),
    ("pmevent", flow::event),
    ("createpolicy", memory::policy),
    ("tensormap", tensormap::decode),
    ("cp", |cx| if cx.has("bulk") { bulk::decode(cx) } else { memory::cp_async(cx) }),
    ("bar", |cx| barrier::named(cx, true)),
    ("barrier", |cx| if cx.eat("cluster") { barrier::cluster(cx) } else { barrier::named(cx, false) }),
    ("fence", barrier::fence),
    ("membar", barrier::membar),
    ("mbarrier", barrier::mbarrier),
    ("wgmma", wgmma::decode),
    ("mma", mma::decode),
    ("ldmatrix", |cx| matrix::rows(cx, true)),
    ("movmatrix", matrix::transposed),
    ("stmatrix", |cx| matrix::rows(cx, false)),
    ("wmma", wmma::decode),
];

/// What is refused, in Markdown.
pub(super) fn refused_table() -> String {
    refused::table()
}

/// Decodes one instruction; what is not known is an error on its own word.
pub(crate) fn decode(cx: &mut Context<'_>) -> Parsed<(Op, Option<PredSrc>)> {
    available(cx.level, &cx.instr.opcode)?;
    let guard = match &cx.instr.guard {
        Some((negated, name)) => Some(cx.guard(*negated, name)?),
        None => None,
    };
    let head = cx.head();
    let op = match OPCODES.iter().find(|(word, _)| *word == head) {
        Some((_, decode)) => decode(cx),
        None if cx.has("cc") => extended::decode(cx),
        None if arith::heads().any(|word| word == head) => arith::decode(cx),
        None => match refused::reason(head) {
            Some(why) => cx.error(cx.instr.opcode[0].span, format!("the instruction `{head}` is not modelled: {why}")),
            None => cx.error(cx.instr.opcode[0].span, format!("the instruction `{head}` is not modelled")),
        },
    }?;
    cx.end()?;
    Ok((op, guard))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::INSTRUCTIONS;

    #[test]
    fn the_documented_instructions_are_those_that_are_decoded() {
        let decoded: BTreeSet<&str> = OPCODES.iter().map(|(word, _)| *word).chain(arith::heads()).collect();
        let forms: String = INSTRUCTIONS.iter().map(|instruction| format!("{} ", instruction.form)).collect();
        let documented: BTreeSet<&str> =
            forms.split(|c: char| !(c.is_alphanumeric() || "._:".contains(c))).map(first).collect();
        let missing: Vec<_> = decoded.difference(&documented).collect();
        assert!(missing.is_empty(), "INSTRUCTIONS lacks {missing:?}");
    }

    fn first(word: &str) -> &str {
        word.split('.').next().unwrap_or_default()
    }
}
