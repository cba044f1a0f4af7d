//! Classes of mistakes that a kernel of attention can have, each in every place. A name begins with its class.

use bsr_codegen::KernelSpec;

use super::gradient;
use crate::operators::{self, Change, join, parts};

/// Vectors of a score: an element or a head too far, and the last key's element not read.
const VECTORS: &[(&str, Change)] = &[
    ("vectors: the element after it", |_, s| element(s)),
    ("vectors: the first head's", |_, s| without_head(s)),
    ("vectors: the first problem's", |_, s| {
        parts(s)
            .filter(|p| p.opcode == "mad.wide.u32" && p.operands.contains("%r_batch, %r_stride"))
            .map(|_| String::new())
    }),
    ("vectors: one key less", |_, s| number(s, "%p_element", 1)),
];

/// Differences to minus infinity: where a query has no key, or none yet.
const INFINITIES: &[(&str, Change)] = &[("infinities: drop a guard", |_, s| unguarded(s))];

/// The last key, at every place of a step.
const KEYS: &[(&str, Change)] = &[
    ("keys: one less", |_, s| number(s, "%p_key", 1)),
    ("keys: one more", |_, s| {
        let p = parts(s).filter(|p| p.opcode == "setp.gt.s32" && p.operands.starts_with("%p_key"))?;
        Some(join(&p, "setp.ge.s32", p.operands))
    }),
    ("keys: a group less", |_, s| parts(s).filter(|p| p.opcode == "setp.le.s32").and_then(|_| number(s, "%p_t", 1))),
];

/// Rings of Q, K and V: right for two rounds.
pub(super) const RINGS: &[(&str, Change)] = &[("rings: the parity of the third round", |_, s| {
    let p = parts(s).filter(|p| p.opcode == "xor.b32" && p.operands.ends_with("_parity, 1"))?;
    let list: Vec<&str> = p.operands.split(", ").collect();
    (list[0] == list[1]).then(|| join(&p, "or.b32", p.operands))
})];

/// The numbers of keys, of a score that compares them.
const DIAGONAL: &[(&str, Change)] = &[("diagonal: the key after it", |_, s| number(s, "%r_key", 1))];

/// The mutants of every class that a kernel has.
pub(super) fn mutants(spec: &KernelSpec, text: &str) -> Vec<(String, String)> {
    if spec.op.is_gradient() {
        return gradient::mutants(spec, text);
    }
    let inputs = spec.score.map_or(&[][..], |score| score.program().inputs());
    let mut lists = vec![KEYS, RINGS];
    if inputs.iter().any(|input| input.kind.is_vector()) {
        // In other kernels all queries of a warp have a key, or none has one.
        lists.extend([VECTORS, INFINITIES]);
    }
    let mut all: Vec<_> = lists.into_iter().flat_map(|list| operators::mutants(text, list, usize::MAX)).collect();
    if spec.score.is_some_and(|score| score.to_string().contains("i >= j")) {
        all.extend(operators::mutants(text, DIAGONAL, usize::MAX));
        all.extend(strictly(text));
    }
    all
}

/// `i > j` for `i >= j`, in the first step of a tile and in the later ones.
fn strictly(text: &str) -> Vec<(String, String)> {
    let Some((first, later)) = text.split_once("\n$step:") else { return vec![] };
    let changed = |part: &str| part.replace("setp.ge.f32 %p_choice", "setp.gt.f32 %p_choice");
    let of =
        |name: &str, first: &str, later: &str| (format!("diagonal: {name} @ 0: "), format!("{first}\n$step:{later}"));
    vec![
        of("greater in the first step", &changed(first), later),
        of("greater in the later steps", first, &changed(later)),
    ]
}

/// One more for the number at the end of a statement that writes a register of this name.
pub(super) fn number(s: &str, register: &str, more: u32) -> Option<String> {
    let p = parts(s).filter(|p| p.operands.starts_with(register))?;
    let (rest, last) = p.operands.rsplit_once(", ")?;
    let old: u32 = last.parse().ok()?;
    Some(join(&p, p.opcode, &format!("{rest}, {}", old + more)))
}

/// A load of a vector, one element further.
fn element(s: &str) -> Option<String> {
    let p = parts(s).filter(|p| p.opcode.starts_with("ld.global.nc") && p.operands.contains("[%rd_"))?;
    let bytes = match p.opcode {
        "ld.global.nc.b16" => 2,
        "ld.global.nc.f32" => 4,
        _ => return None,
    };
    let (to, address) = p.operands.split_once('[')?;
    let (base, offset) = address.strip_suffix(']')?.split_once(" + ").unwrap_or((address.strip_suffix(']')?, "0"));
    let offset: u32 = offset.parse().ok()?;
    Some(join(&p, p.opcode, &format!("{to}[{base} + {}]", offset + bytes)))
}

fn without_head(s: &str) -> Option<String> {
    let p = parts(s).filter(|p| p.opcode == "mul.wide.u32" && p.operands.ends_with("%r_head, %r_stride"))?;
    Some(join(&p, "mov.u64", &format!("{}, 0", p.operands.split(',').next()?)))
}

/// The value that is chosen where there is something, chosen always.
fn unguarded(s: &str) -> Option<String> {
    let p = parts(s).filter(|p| p.opcode == "selp.f32")?;
    let list: Vec<&str> = p.operands.split(", ").collect();
    let value = match list[..] {
        [_, "0f00000000", value, _] | [_, value, "0f00000000", _] => value,
        _ => return None,
    };
    Some(join(&p, "mov.f32", &format!("{}, {value}", list[0])))
}
