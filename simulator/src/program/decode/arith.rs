//! Integer, logic and floating-point arithmetic: a table of each.

use super::super::context::Context;
use super::super::op::{FloatFn, FloatMods, IntFn, Logic, Op, Permute, Pure, Round, Src};
use super::super::types::Ty;
use crate::parse::Parsed;

const INTS: &[Ty] = &[Ty::U16, Ty::U32, Ty::U64, Ty::S16, Ty::S32, Ty::S64];
/// With two integers in a register.
const AND_PAIRS: &[Ty] = &[Ty::U16, Ty::U32, Ty::U64, Ty::S16, Ty::S32, Ty::S64, Ty::U16x2, Ty::S16x2];
const SIGNED_WORD: &[Ty] = &[Ty::S32];
const RELU: &[Ty] = &[Ty::S32, Ty::S16x2];
const NARROW: &[Ty] = &[Ty::U16, Ty::U32, Ty::S16, Ty::S32];
const WIDE: &[Ty] = &[Ty::U32, Ty::U64, Ty::S32, Ty::S64];
const SIGNED: &[Ty] = &[Ty::S16, Ty::S32, Ty::S64];
const BITS: &[Ty] = &[Ty::B16, Ty::B32, Ty::B64];
const WIDE_BITS: &[Ty] = &[Ty::B32, Ty::B64];
const WORD: &[Ty] = &[Ty::B32];
const WORDS: &[Ty] = &[Ty::U32, Ty::S32];
const SHIFTED: &[Ty] = &[Ty::B16, Ty::B32, Ty::B64, Ty::U16, Ty::U32, Ty::U64, Ty::S16, Ty::S32, Ty::S64];

/// The type of an operand, beside that of its instruction.
#[derive(Clone, Copy, PartialEq)]
enum Operand {
    /// The same.
    Own,
    /// `.u32`, whatever the instruction's.
    U32,
    /// Twice as wide.
    Double,
    /// A constant of at most a byte.
    Byte,
    /// Not in the text: a number that the modifiers stand for.
    Is(u64),
}

use Operand::{Byte, Double, Is, Own};

/// An instruction on integers or bits: its opcode without the type, and the operands after the destination.
struct Integer {
    name: &'static str,
    f: IntFn,
    types: &'static [Ty],
    to: Operand,
    from: &'static [Operand],
}

const fn int(name: &'static str, f: IntFn, types: &'static [Ty], (to, from): (Operand, &'static [Operand])) -> Integer {
    Integer { name, f, types, to, from }
}

const ONE: (Operand, &[Operand]) = (Own, &[Own]);
const TWO: (Operand, &[Operand]) = (Own, &[Own, Own]);
const THREE: (Operand, &[Operand]) = (Own, &[Own, Own, Own]);
const COUNTED: (Operand, &[Operand]) = (Operand::U32, &[Own]);
const SHIFT: (Operand, &[Operand]) = (Own, &[Own, Operand::U32]);
const FUNNEL: (Operand, &[Operand]) = (Own, &[Own, Own, Operand::U32]);

const INTEGER: &[Integer] = &[
    int("add", IntFn::Add, AND_PAIRS, TWO),
    int("add.sat", IntFn::AddSat, SIGNED_WORD, TWO),
    int("sub", IntFn::Sub, INTS, TWO),
    int("sub.sat", IntFn::SubSat, SIGNED_WORD, TWO),
    int("mul.lo", IntFn::MulLo, INTS, TWO),
    int("mul.hi", IntFn::MulHi, INTS, TWO),
    int("mul.wide", IntFn::MulWide, NARROW, (Double, &[Own, Own])),
    int("mad.lo", IntFn::MadLo, INTS, THREE),
    int("mad.hi", IntFn::MadHi, INTS, THREE),
    int("mad.hi.sat", IntFn::MadHiSat, SIGNED_WORD, THREE),
    int("mul24.lo", IntFn::Mul24Lo, WORDS, TWO),
    int("mul24.hi", IntFn::Mul24Hi, WORDS, TWO),
    int("mad24.lo", IntFn::Mad24Lo, WORDS, THREE),
    int("mad24.hi", IntFn::Mad24Hi, WORDS, THREE),
    int("mad24.hi.sat", IntFn::Mad24HiSat, SIGNED_WORD, THREE),
    int("mad.wide", IntFn::MadWide, NARROW, (Double, &[Own, Own, Double])),
    int("div", IntFn::Div, INTS, TWO),
    int("rem", IntFn::Rem, INTS, TWO),
    int("min", IntFn::Min, AND_PAIRS, TWO),
    int("min.relu", IntFn::MinRelu, RELU, TWO),
    int("max", IntFn::Max, AND_PAIRS, TWO),
    int("max.relu", IntFn::MaxRelu, RELU, TWO),
    int("neg", IntFn::Neg, SIGNED, ONE),
    int("abs", IntFn::Abs, SIGNED, ONE),
    int("sad", IntFn::Sad, INTS, THREE),
    int("and", IntFn::And, BITS, TWO),
    int("or", IntFn::Or, BITS, TWO),
    int("xor", IntFn::Xor, BITS, TWO),
    int("not", IntFn::Not, BITS, ONE),
    int("cnot", IntFn::Cnot, BITS, ONE),
    int("shl", IntFn::Shl, BITS, SHIFT),
    int("shr", IntFn::Shr, SHIFTED, SHIFT),
    int("shf.l.wrap", IntFn::ShfL { wrap: true }, WORD, FUNNEL),
    int("shf.l.clamp", IntFn::ShfL { wrap: false }, WORD, FUNNEL),
    int("shf.r.wrap", IntFn::ShfR { wrap: true }, WORD, FUNNEL),
    int("shf.r.clamp", IntFn::ShfR { wrap: false }, WORD, FUNNEL),
    int("brev", IntFn::Brev, WIDE_BITS, ONE),
    int("popc", IntFn::Popc, WIDE_BITS, COUNTED),
    int("clz", IntFn::Clz, WIDE_BITS, COUNTED),
    int("bfind", IntFn::Bfind, WIDE, (Operand::U32, &[Own, Is(0)])),
    int("bfind.shiftamt", IntFn::Bfind, WIDE, (Operand::U32, &[Own, Is(1)])),
    int("bfe", IntFn::Bfe, WIDE, (Own, &[Own, Operand::U32, Operand::U32])),
    int("bfi", IntFn::Bfi, WIDE_BITS, (Own, &[Own, Own, Operand::U32, Operand::U32])),
    int("prmt", IntFn::Prmt, WORD, THREE),
    int("dp4a.s32", IntFn::Dp4a { signed: true }, WORDS, THREE),
    int("dp4a.u32", IntFn::Dp4a { signed: false }, WORDS, THREE),
    int("dp2a.lo.s32", IntFn::Dp2a { signed: true, high: false }, WORDS, THREE),
    int("dp2a.lo.u32", IntFn::Dp2a { signed: false, high: false }, WORDS, THREE),
    int("dp2a.hi.s32", IntFn::Dp2a { signed: true, high: true }, WORDS, THREE),
    int("dp2a.hi.u32", IntFn::Dp2a { signed: false, high: true }, WORDS, THREE),
    int("fns", IntFn::Fns, WORD, THREE),
    int("szext.wrap", IntFn::Szext { wrap: true }, WORDS, SHIFT),
    int("szext.clamp", IntFn::Szext { wrap: false }, WORDS, SHIFT),
    int("bmsk.wrap", IntFn::Bmsk { wrap: true }, WORD, TWO),
    int("bmsk.clamp", IntFn::Bmsk { wrap: false }, WORD, TWO),
    int("lop3", IntFn::Lop3, WORD, (Own, &[Own, Own, Own, Byte])),
];

/// Logic on predicates, `.pred` being the type.
const LOGIC: &[(&str, Logic)] = &[("and", Logic::And), ("or", Logic::Or), ("xor", Logic::Xor), ("not", Logic::Not)];

const FLOATS: &[Ty] = &[Ty::F16, Ty::F16x2, Ty::Bf16, Ty::Bf16x2, Ty::F32, Ty::F64];
const SINGLE: &[Ty] = &[Ty::F32, Ty::F64];
const SPECIAL: &[Ty] = &[Ty::F32, Ty::F16, Ty::F16x2, Ty::Bf16, Ty::Bf16x2];
const F32: &[Ty] = &[Ty::F32];

/// The modifiers of rounding and of accuracy, and whether one of them must be there.
type Rounding = (&'static [&'static str], bool);
const EXACT: Rounding = (&[], false);
const MAY_ROUND: Rounding = (&["rn", "rz", "rm", "rp"], false);
const ROUNDS: Rounding = (&["rn", "rz", "rm", "rp"], true);
const DIVIDES: Rounding = (&["rn", "rz", "rm", "rp", "approx", "full"], true);
const APPROXIMATES: Rounding = (&["approx"], true);

/// An instruction on floating-point numbers: so many operands after the destination, and modifiers after `.ftz`.
struct Float {
    name: &'static str,
    f: FloatFn,
    operands: usize,
    types: &'static [Ty],
    rounding: Rounding,
    modifiers: &'static [&'static str],
}

const fn float(
    name: &'static str,
    f: FloatFn,
    operands: usize,
    types: &'static [Ty],
    (rounding, modifiers): (Rounding, &'static [&'static str]),
) -> Float {
    Float { name, f, operands, types, rounding, modifiers }
}

const FLOAT: &[Float] = &[
    float("add", FloatFn::Add, 2, FLOATS, (MAY_ROUND, &["sat"])),
    float("sub", FloatFn::Sub, 2, FLOATS, (MAY_ROUND, &["sat"])),
    float("mul", FloatFn::Mul, 2, FLOATS, (MAY_ROUND, &["sat"])),
    float("fma", FloatFn::Fma, 3, FLOATS, (ROUNDS, &["sat", "relu"])),
    float("mad", FloatFn::Fma, 3, SINGLE, (ROUNDS, &["sat", "relu"])),
    float("neg", FloatFn::Neg, 1, FLOATS, (EXACT, &[])),
    float("abs", FloatFn::Abs, 1, FLOATS, (EXACT, &[])),
    float("min", FloatFn::Min, 2, FLOATS, (EXACT, &["NaN", "xorsign"])),
    float("max", FloatFn::Max, 2, FLOATS, (EXACT, &["NaN", "xorsign"])),
    float("copysign", FloatFn::Copysign, 2, SINGLE, (EXACT, &[])),
    float("div", FloatFn::Div, 2, SINGLE, (DIVIDES, &[])),
    float("rcp", FloatFn::Rcp, 1, SINGLE, (DIVIDES, &[])),
    float("sqrt", FloatFn::Sqrt, 1, SINGLE, (DIVIDES, &[])),
    float("rsqrt", FloatFn::Rsqrt, 1, SINGLE, (APPROXIMATES, &[])),
    float("ex2", FloatFn::Ex2, 1, SPECIAL, (APPROXIMATES, &[])),
    float("lg2", FloatFn::Lg2, 1, F32, (APPROXIMATES, &[])),
    float("sin", FloatFn::Sin, 1, F32, (APPROXIMATES, &[])),
    float("cos", FloatFn::Cos, 1, F32, (APPROXIMATES, &[])),
    float("tanh", FloatFn::Tanh, 1, SPECIAL, (APPROXIMATES, &[])),
];

/// The first words of these opcodes.
pub(super) fn heads() -> impl Iterator<Item = &'static str> {
    let first = |name: &'static str| name.split('.').next().unwrap_or_default();
    INTEGER.iter().map(|row| row.name).chain(FLOAT.iter().map(|row| row.name)).map(first)
}

pub(super) fn decode(cx: &mut Context<'_>) -> Parsed<Op> {
    let ty = cx.instr.opcode.iter().skip(1).rev().find_map(|n| Ty::parse(&n.text));
    if ty.is_some_and(Ty::float) {
        return match FLOAT.iter().find(|row| row.name == cx.head()) {
            Some(row) => floating(cx, row),
            None => other(cx),
        };
    }
    if let Some((_, f)) = LOGIC.iter().find(|(word, _)| *word == cx.head())
        && cx.eat("pred")
    {
        return predicates(cx, *f);
    }
    if cx.head() == "lop3" && !matches!(cx.peek(), Some("b32")) {
        return lop3_and_predicate(cx);
    }
    match cx.row(INTEGER, |row| row.name)? {
        Some(row) => integer(cx, row),
        None => other(cx),
    }
}

fn other(cx: &Context<'_>) -> Parsed<Op> {
    cx.error(cx.instr.span, format!("`{}` of this type is not modelled", cx.head()))
}

/// Type of the double-width result of `.wide`.
fn widened(ty: Ty) -> Ty {
    match ty {
        Ty::U16 => Ty::U32,
        Ty::S16 => Ty::S32,
        Ty::U32 => Ty::U64,
        _ => Ty::S64,
    }
}

fn integer(cx: &mut Context<'_>, row: &Integer) -> Parsed<Op> {
    let ty = cx.ty(row.types)?;
    let mode = if row.f == IntFn::Prmt { cx.choose_any(PERMUTATIONS) } else { None };
    let of = |operand: Operand| match operand {
        Operand::U32 => Ty::U32,
        Double => widened(ty),
        Own | Byte | Is(_) => ty,
    };
    let count = 1 + row.from.iter().filter(|operand| !matches!(operand, Is(_))).count();
    cx.count(count, count)?;
    let d = cx.dst(0, of(row.to))?;
    let mut s = [Src::Imm(0); 4];
    for (at, (slot, operand)) in s.iter_mut().zip(row.from).enumerate() {
        *slot = match operand {
            Is(number) => Src::Imm(*number),
            Byte => match cx.imm(at + 1)? {
                byte @ 0..=255 => Src::Imm(byte),
                _ => return cx.error(cx.operand(at + 1)?.span, "the truth table of lop3 is a byte"),
            },
            typed => cx.src(at + 1, of(*typed))?,
        };
    }
    Ok(Op::Pure { f: Pure::Int(mode.map_or(row.f, IntFn::Permute), ty), d, s })
}

/// The modes of `prmt`.
const PERMUTATIONS: &[(&str, Permute)] = &[
    ("f4e", Permute::F4e),
    ("b4e", Permute::B4e),
    ("rc8", Permute::Rc8),
    ("ecl", Permute::Ecl),
    ("ecr", Permute::Ecr),
    ("rc16", Permute::Rc16),
];

fn lop3_and_predicate(cx: &mut Context<'_>) -> Parsed<Op> {
    let f = cx.choose(&[("or", Logic::Or), ("and", Logic::And)])?;
    cx.ty(WORD)?;
    cx.count(6, 6)?;
    let (d, p) = cx.pair(0, Ty::B32, Ty::Pred)?;
    let Some(p) = p else {
        return cx.error(cx.instr.span, "lop3 with .or or .and writes `register|predicate`");
    };
    let s = [cx.src(1, Ty::B32)?, cx.src(2, Ty::B32)?, cx.src(3, Ty::B32)?];
    let table = cx.imm(4)?;
    if table > 255 {
        return cx.error(cx.operand(4)?.span, "the truth table of lop3 is a byte");
    }
    let q = cx.pred(5)?;
    Ok(Op::Lop3 { f, d, p, s, table, q })
}

fn predicates(cx: &mut Context<'_>, f: Logic) -> Parsed<Op> {
    let n = if f == Logic::Not { 2 } else { 3 };
    cx.count(n, n)?;
    let d = cx.dst(0, Ty::Pred)?;
    let a = cx.pred(1)?;
    let b = if n == 3 { cx.pred(2)? } else { a };
    Ok(Op::Logic { f, d, a, b })
}

fn floating(cx: &mut Context<'_>, row: &Float) -> Parsed<Op> {
    let word = match row.rounding {
        (words, true) => Some(cx.need(words)?),
        (words, false) => cx.eat_any(words),
    };
    let round = match word {
        Some("rz") => Round::Rz,
        Some("rm") => Round::Rm,
        Some("rp") => Round::Rp,
        _ => Round::None,
    };
    let ftz = cx.eat("ftz");
    let mut takes = |word: &str| row.modifiers.contains(&word) && cx.eat(word);
    let modifiers =
        FloatMods { ftz, sat: takes("sat"), relu: takes("relu"), nan: takes("NaN"), xorsign: takes("xorsign"), round };
    if modifiers.xorsign {
        cx.need(&["abs"])?;
    }
    // Other types are rounded to nearest alone.
    let ty = cx.ty(if round == Round::None { row.types } else { F32 })?;
    cx.count(row.operands + 1, row.operands + 1)?;
    let d = cx.dst(0, ty)?;
    let mut s = [Src::Imm(0); 4];
    for (i, slot) in s.iter_mut().enumerate().take(row.operands) {
        *slot = cx.src(i + 1, ty)?;
    }
    Ok(Op::Pure { f: Pure::Float(row.f, ty, modifiers), d, s })
}
