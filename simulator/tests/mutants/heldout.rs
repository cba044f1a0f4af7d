//! Operators that the simulator was not tuned to: the mistakes of people who write kernels, beside those that drop or turn a
//! single word.

use super::operators::{Change, Parts, join, parts};

/// Name and change of every operator; the statements before are those of the text in order.
pub(crate) const OPERATORS: &[(&str, Change)] = &[
    ("swap the operands", |_, s| swap_last(s, &["sub.", "shl.", "shr.", "div.", "rem."])),
    ("address of the next barrier", |_, s| moved(s, &["mbarrier."], 8)),
    ("address 16 bytes on", |_, s| {
        moved(s, &["ld.shared", "st.shared", "ldmatrix", "stmatrix", "wmma.load", "wmma.store"], 16)
    }),
    ("global address 16 bytes on", |_, s| moved(s, &["ld.global", "st.global", "red.global", "atom.global"], 16)),
    ("and equal", |_, s| word(s, &["setp."], ".ge.", ".gt.").or_else(|| word(s, &["setp."], ".le.", ".lt."))),
    ("another predicate", |before, s| another_predicate(before, s)),
    ("no multicast", |_, s| no_multicast(s)),
    ("multicast without the first", |_, s| multicast_mask(s)),
    ("the parity twice", |_, s| last(s, &["xor.b32"], "1", "2")),
    ("the other parity", |_, s| parity(s)),
    ("scope of the CTA", |_, s| word(s, &["mbarrier.", "red.", "atom.", "ld.", "st.", "fence."], ".cluster", ".cta")),
    ("relax a release", |_, s| word(s, &["red.", "atom.", "st.", "mbarrier.arrive"], ".release", ".relaxed")),
    ("coordinates swapped", |_, s| coordinates(s, |list| list.swap(0, 1))),
    ("box one further", |_, s| coordinates(s, |list| list[0] = last_of(&list[1..]))),
    ("reduce in place of a copy", |_, s| reduce(s)),
    ("copy in place of a reduce", |_, s| unreduce(s)),
    ("shift by one more", |_, s| number(s, &["shl.", "shr."], |n| n + 1)),
    ("half of a mask", |_, s| number(s, &["and.b32"], |n| n >> 1)),
    ("a factor one larger", |_, s| factor(s)),
    ("choose the other", |_, s| select(s)),
    ("min for max", |_, s| word(s, &["min."], "min.", "max.").or_else(|| word(s, &["max."], "max.", "min."))),
    ("another named barrier", |_, s| {
        parts(s).filter(|p| p.opcode == "bar.sync").filter(|p| p.operands.contains(',')).and_then(|p| barrier(&p))
    }),
    ("arrive, do not wait", |_, s| word(s, &["bar.sync"], "bar.sync", "bar.arrive").filter(|s| s.contains(','))),
    ("elements of a vector swapped", |_, s| vector(s)),
    ("transpose an operand", |_, s| transpose(s)),
    ("descriptors swapped", |_, s| descriptors(s)),
    ("add, or do not", |_, s| scale(s)),
    ("transpose a fragment", |_, s| fragment(s)),
    ("do not go round again", |_, s| parts(s).filter(|p| p.guard.is_some() && back(p)).map(|_| String::new())),
    ("always go on", |_, s| {
        parts(s).filter(|p| p.guard.is_some() && p.opcode.starts_with("bra")).map(|p| unguarded(&p))
    }),
    ("for every thread", |_, s| {
        parts(s).filter(|p| p.guard.is_some() && !p.opcode.starts_with("bra")).map(|p| unguarded(&p))
    }),
    ("do it twice", |_, s| twice(s)),
    ("before, not after", |before, s| reorder(before, s)),
    ("copy without a bound", |_, s| unbounded(s)),
    ("wait for the grid in one warp", |_, s| {
        parts(s)
            .filter(|p| p.opcode == "griddepcontrol.wait" && p.guard.is_none())
            .map(|_| "    { .reg .pred %one; .reg .b32 %thread; mov.u32 %thread, %tid.x; setp.lt.u32 %one, %thread, 32; @%one griddepcontrol.wait; }".to_owned())
    }),
    ("32-bit address", |_, s| narrow(s)),
];

fn is(p: &Parts<'_>, opcodes: &[&str]) -> bool {
    opcodes.iter().any(|o| p.opcode.starts_with(o))
}

fn word(s: &str, opcodes: &[&str], from: &str, to: &str) -> Option<String> {
    let p = parts(s).filter(|p| is(p, opcodes) && p.opcode.contains(from))?;
    Some(join(&p, &p.opcode.replacen(from, to, 1), p.operands))
}

fn last(s: &str, opcodes: &[&str], from: &str, to: &str) -> Option<String> {
    let p = parts(s).filter(|p| is(p, opcodes))?;
    let (rest, last) = p.operands.rsplit_once(", ")?;
    (last == from).then(|| join(&p, p.opcode, &format!("{rest}, {to}")))
}

fn number(s: &str, opcodes: &[&str], change: fn(u64) -> u64) -> Option<String> {
    let p = parts(s).filter(|p| is(p, opcodes))?;
    let (rest, last) = p.operands.rsplit_once(", ")?;
    let old: u64 = match last.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok()?,
        None => last.parse().ok()?,
    };
    (change(old) != old).then(|| join(&p, p.opcode, &format!("{rest}, {}", change(old))))
}

/// The operands of a statement, brackets kept whole.
pub(crate) fn operands(text: &str) -> Vec<String> {
    let (mut depth, mut list) = (0, vec![String::new()]);
    for c in text.chars() {
        match c {
            '[' | '{' => depth += 1,
            ']' | '}' => depth -= 1,
            ',' if depth == 0 => {
                list.push(String::new());
                continue;
            }
            _ => {}
        }
        list.last_mut().map(|last| last.push(c)).unwrap_or_default();
    }
    list.into_iter().map(|operand| operand.trim().to_owned()).collect()
}

fn swap_last(s: &str, opcodes: &[&str]) -> Option<String> {
    let p = parts(s).filter(|p| is(p, opcodes))?;
    let mut list = operands(p.operands);
    let count = list.len();
    (count == 3 && list[1].starts_with('%') && list[2].starts_with('%')).then(|| {
        list.swap(count - 1, count - 2);
        join(&p, p.opcode, &list.join(", "))
    })
}

/// The first address of an instruction, so many bytes further.
fn moved(s: &str, opcodes: &[&str], bytes: u32) -> Option<String> {
    let p = parts(s).filter(|p| is(p, opcodes))?;
    let (before, rest) = p.operands.split_once('[')?;
    let (address, after) = rest.split_once(']')?;
    (!address.contains(',')).then(|| join(&p, p.opcode, &format!("{before}[{address} + {bytes}]{after}")))
}

/// The guard of the statement before in place of its own.
fn another_predicate(before: &str, s: &str) -> Option<String> {
    let (p, other) = (parts(s)?, parts(before)?);
    let own = p.guard?.trim_start_matches('!');
    let written = operands(other.operands).into_iter().next().filter(|d| d.starts_with("%p"));
    let other = other.guard.map(|g| g.trim_start_matches('!').to_owned()).or(written)?;
    (other != own).then(|| format!("    @{other} {} {};", p.opcode, p.operands))
}

fn no_multicast(s: &str) -> Option<String> {
    let p = parts(s).filter(|p| p.opcode.contains(".multicast::cluster"))?;
    let mut list = operands(p.operands);
    let policy = usize::from(p.opcode.contains("cache_hint"));
    list.remove(list.len().checked_sub(1 + policy)?);
    Some(join(&p, &p.opcode.replace(".multicast::cluster", ""), &list.join(", ")))
}

fn multicast_mask(s: &str) -> Option<String> {
    let p = parts(s).filter(|p| p.opcode.contains(".multicast::cluster"))?;
    let mut list = operands(p.operands);
    let policy = usize::from(p.opcode.contains("cache_hint"));
    let at = list.len().checked_sub(1 + policy)?;
    let mask = match list[at].strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok()?,
        None => list[at].parse().ok()?,
    };
    (mask.count_ones() > 1).then(|| {
        list[at] = format!("{}", mask & (mask - 1));
        join(&p, p.opcode, &list.join(", "))
    })
}

/// A wait for the parity as a number, where it is a register of its own.
fn parity(s: &str) -> Option<String> {
    let p = parts(s).filter(|p| p.opcode.starts_with("mbarrier.try_wait.parity"))?;
    let mut list = operands(p.operands);
    let at = list.iter().rposition(|operand| operand.starts_with("%r"))?;
    list[at] = "0".to_owned();
    Some(join(&p, p.opcode, &list.join(", ")))
}

/// The coordinates of a tensor copy.
fn coordinates(s: &str, change: fn(&mut Vec<String>)) -> Option<String> {
    let p = parts(s).filter(|p| p.opcode.contains(".async.bulk.tensor"))?;
    let (before, rest) = p.operands.split_once('{')?;
    let (list, after) = rest.split_once('}')?;
    let mut list: Vec<String> = list.split(',').map(|c| c.trim().to_owned()).collect();
    let old = list.clone();
    (list.len() > 1).then(|| change(&mut list));
    (list != old).then(|| join(&p, p.opcode, &format!("{before}{{ {} }}{after}", list.join(", "))))
}

fn last_of(list: &[String]) -> String {
    list.last().cloned().unwrap_or_default()
}

fn reduce(s: &str) -> Option<String> {
    let p = parts(s)
        .filter(|p| p.opcode.starts_with("cp.async.bulk.tensor") && p.opcode.contains(".global.shared::cta"))?;
    let opcode = p.opcode.replacen("cp.async", "cp.reduce.async", 1).replacen(
        ".global.shared::cta",
        ".global.shared::cta.add",
        1,
    );
    Some(join(&p, &opcode, p.operands))
}

fn unreduce(s: &str) -> Option<String> {
    let p = parts(s).filter(|p| p.opcode.starts_with("cp.reduce.async.bulk.tensor"))?;
    Some(join(&p, &p.opcode.replacen("cp.reduce.async", "cp.async", 1).replacen(".add", "", 1), p.operands))
}

/// The factor of a multiplication that is a number.
fn factor(s: &str) -> Option<String> {
    let p = parts(s).filter(|p| is(p, &["mul.", "mad."]))?;
    let mut list = operands(p.operands);
    let factor: u32 = list.get(2)?.parse().ok()?;
    list[2] = (factor + 1).to_string();
    Some(join(&p, p.opcode, &list.join(", ")))
}

fn select(s: &str) -> Option<String> {
    let p = parts(s).filter(|p| p.opcode.starts_with("selp"))?;
    let mut list = operands(p.operands);
    (list.len() == 4 && list[1] != list[2]).then(|| {
        list.swap(1, 2);
        join(&p, p.opcode, &list.join(", "))
    })
}

fn barrier(p: &Parts<'_>) -> Option<String> {
    let mut list = operands(p.operands);
    let id: u32 = list[0].parse().ok()?;
    list[0] = (id + 5).to_string();
    Some(join(p, p.opcode, &list.join(", ")))
}

fn vector(s: &str) -> Option<String> {
    let p = parts(s).filter(|p| is(p, &["ld.", "st.", "ldmatrix", "stmatrix"]))?;
    let (before, rest) = p.operands.split_once('{')?;
    let (list, after) = rest.split_once('}')?;
    let mut list: Vec<&str> = list.split(',').map(str::trim).collect();
    (list.len() > 1 && list[0] != list[1]).then(|| {
        list.swap(0, 1);
        join(&p, p.opcode, &format!("{before}{{ {} }}{after}", list.join(", ")))
    })
}

/// The transposition of an operand of a 16-bit wgmma.
fn transpose(s: &str) -> Option<String> {
    let p = parts(s).filter(|p| p.opcode.starts_with("wgmma.mma_async") && p.operands.contains(", 1, 1, "))?;
    let (rest, last) = p.operands.rsplit_once(", ")?;
    Some(join(&p, p.opcode, &format!("{rest}, {}", if last == "0" { "1" } else { "0" })))
}

fn descriptors(s: &str) -> Option<String> {
    let p = parts(s).filter(|p| p.opcode.starts_with("wgmma.mma_async"))?;
    let mut list = operands(p.operands);
    (list.get(1)?.starts_with("%rd") && list.get(2)?.starts_with("%rd")).then(|| {
        list.swap(1, 2);
        join(&p, p.opcode, &list.join(", "))
    })
}

/// Whether the accumulators are added to.
fn scale(s: &str) -> Option<String> {
    let p = parts(s).filter(|p| p.opcode.starts_with("wgmma.mma_async"))?;
    let mut list = operands(p.operands);
    let at = list.iter().position(|operand| operand.starts_with("%p") || operand == "0")?;
    // The first product of a tile overwrites; the predicate of all others is true.
    list[at] = if list[at].contains("overwrite") { "1" } else { "0" }.to_owned();
    Some(join(&p, p.opcode, &list.join(", ")))
}

fn fragment(s: &str) -> Option<String> {
    let p = parts(s).filter(|p| is(p, &["ldmatrix", "stmatrix"]))?;
    let opcode = match p.opcode.contains(".trans") {
        true => p.opcode.replace(".trans", ""),
        false => p.opcode.replace(".shared", ".trans.shared"),
    };
    Some(join(&p, &opcode, p.operands))
}

/// A loop's branch back, by the name of its label.
fn back(p: &Parts<'_>) -> bool {
    p.opcode.starts_with("bra")
        && ["loop", "stage", "next", "again", "batch"].iter().any(|word| p.operands.contains(word))
}

fn unguarded(p: &Parts<'_>) -> String {
    format!("    {} {};", p.opcode, p.operands)
}

fn twice(s: &str) -> Option<String> {
    let of = [
        "mbarrier.arrive",
        "mbarrier.init",
        "wgmma.mma_async",
        "red.",
        "bar.sync",
        "mma.sync",
        "cp.async.bulk.tensor",
        "xor.b32",
        "add.",
    ];
    let p = parts(s).filter(|p| is(p, &of))?;
    let twice = p.opcode.starts_with("add.").then(|| operands(p.operands)).is_none_or(|list| list[0] == list[1]);
    twice.then(|| format!("{} {}", s.trim_end(), s.trim()))
}

/// A statement before the one that stands before it.
fn reorder(before: &str, s: &str) -> Option<String> {
    let (first, second) = (parts(before)?, parts(s)?);
    let of =
        ["fence.", "bar.sync", "mbarrier.", "wgmma.wait", "cp.async.bulk.wait", "cp.async.bulk.commit", "wgmma.commit"];
    (is(&first, &of) && !second.opcode.starts_with("bra") && first.opcode != second.opcode)
        .then(|| format!("REORDER {} {}", s.trim(), before.trim()))
}

/// A copy that reads whole pieces at the edges too.
fn unbounded(s: &str) -> Option<String> {
    let p = parts(s).filter(|p| p.opcode.starts_with("cp.async.cg") || p.opcode.starts_with("cp.async.ca"))?;
    let mut list = operands(p.operands);
    (list.len() == 4).then(|| {
        list.pop();
        join(&p, p.opcode, &list.join(", "))
    })
}

/// A wide product of an address that is computed in 32 bits.
fn narrow(s: &str) -> Option<String> {
    let p = parts(s).filter(|p| is(p, &["mad.wide.u32", "mul.wide.u32"]))?;
    // The product of an index and a small constant does not reach four gigabytes in any operand.
    let list = operands(p.operands);
    list.get(2).filter(|factor| factor.starts_with('%'))?;
    let add = list.get(3).map_or_else(String::new, |c| format!(" add.s64 {}, {}, {c};", list[0], list[0]));
    let guard = p.guard.map(|guard| format!("@{guard} ")).unwrap_or_default();
    (guard.is_empty() && list.get(3) != Some(&list[0])).then(|| {
        format!(
            "    {{ .reg .b32 %narrow; mul.lo.u32 %narrow, {}, {}; cvt.u64.u32 {}, %narrow;{add} }}",
            list[1], list[2], list[0]
        )
    })
}
