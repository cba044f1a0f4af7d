//! Operators of one class each, and the kernels that have something of it: mistakes that problems of one kind alone find.

use super::heldout::operands;
use super::operators::{Change, join, parts};

/// A class: its name, its kernels, and its operators.
pub(crate) type Class = (&'static str, &'static [&'static str], &'static [(&'static str, Change)]);

pub(crate) const CLASSES: &[Class] = &[
    (
        "lists of products",
        &[
            "bm = 64, bn = 32, bk = 64, batch = on",
            "bm = 128, bn = 64, bk = 64, batch = on, cluster = 2",
            "bm = 64, bn = 64, bk = 64, op = dds, batch = on",
            "bm = 64, bn = 64, bk = 64, op = sdd, batch = on",
            "bm = 16, bn = 64, bk = 16, batch = on",
        ],
        &[
            ("maps of problem 0", |_, s| maps_of_first(s)),
            ("a map of problem 0", |_, s| map_of_first(s)),
            ("the problem of the tile before", |_, s| {
                parts(s).filter(|p| p.opcode == "mov.u32" && p.operands.contains("problem")).map(|_| String::new())
            }),
        ],
    ),
    (
        "guards of rows and columns",
        &[
            "bm = 16, bn = 32, bk = 16, mma = mma_sync",
            "bm = 64, bn = 64, bk = 32, mma = mma_sync, out = f32",
            "bm = 32, bn = 32, bk = 32, mma = wmma, arch = sm_70",
            "bm = 8, bn = 16, bk = 8, mma = scalar, dtype = f32",
            "bm = 32, bn = 64, bk = 32, mma = scalar, dtype = f32",
            "bm = 64, bn = 64, bk = 32, permute = on, out = f32",
            "bm = 64, bn = 64, bk = 32, epilogue = \"|bias: Rows<f32>| (acc + bias, row_max(acc))\"",
        ],
        &[("a guard lets one more pass", |_, s| guard(s, false)), ("a guard lets all pass", |_, s| guard(s, true))],
    ),
    (
        "rings",
        &[
            "bm = 64, bn = 64, bk = 64, consumers = 1, cluster = 4",
            "bm = 128, bn = 128, bk = 112",
            "bm = 16, bn = 64, bk = 16",
            "bm = 64, bn = 64, bk = 64, op = sdd",
            "bm = 64, bn = 64, bk = 32, epilogue = \"|res: Dense<f16>| acc + res\"",
            "bm = 64, bn = 64, bk = 32, swap = off, pack = 3",
        ],
        &[
            ("the parity stays 1", |_, s| parity(s, "or.b32", "1")),
            ("the parity stays 0", |_, s| parity(s, "and.b32", "0")),
        ],
    ),
];

/// The tensor maps of problem 0, whatever the problem of a tile.
fn maps_of_first(s: &str) -> Option<String> {
    let p = parts(s).filter(|p| p.opcode == "mad.wide.u32")?;
    let list = operands(p.operands);
    (list.len() == 4 && list[1].contains("problem") && list[3] != list[0])
        .then(|| join(&p, "mov.u64", &format!("{}, {}", list[0], list[3])))
}

/// That of one operand alone.
fn map_of_first(s: &str) -> Option<String> {
    let p = parts(s).filter(|p| p.opcode.starts_with("add.") && p.operands.contains("%rd_map_a,"))?;
    Some(join(&p, p.opcode, &p.operands.replace("%rd_map_a,", "%rd_maps,")))
}

/// Registers that say where C ends.
const ENDS: [&str; 6] = ["%r_m", "%r_n", "%r_lines", "%r_lines_left", "%r_inner_left", "%r_fused_limit"];

/// A comparison with the end of C that is true for one row or column more, or for all.
fn guard(s: &str, all: bool) -> Option<String> {
    let p = parts(s).filter(|p| p.opcode.starts_with("setp."))?;
    let mut list = operands(p.operands);
    let at = list.iter().position(|operand| ENDS.contains(&operand.as_str())).filter(|at| *at > 0)?;
    let comparison = p.opcode.split('.').nth(1)?;
    if all {
        let other = list[at].clone();
        (list[1], list[2]) = (other.clone(), other);
        return Some(join(&p, &p.opcode.replacen(comparison, "eq", 1), &list.join(", ")));
    }
    match comparison {
        "lt" => Some(join(&p, &p.opcode.replacen("lt", "le", 1), p.operands)),
        "gt" => Some(join(&p, &p.opcode.replacen("gt", "ge", 1), p.operands)),
        "ge" => {
            let least: i64 = list[2].parse().ok()?;
            list[2] = (least - 1).to_string();
            Some(join(&p, p.opcode, &list.join(", ")))
        }
        _ => None,
    }
}

/// A parity that no longer changes after the first round of a ring, so that the second or the third one goes wrong.
fn parity(s: &str, opcode: &str, operand: &str) -> Option<String> {
    let p = parts(s).filter(|p| p.opcode == "xor.b32")?;
    let list = operands(p.operands);
    (list[0] == list[1] && list[0].contains("parity") && list[2] == "1")
        .then(|| join(&p, opcode, &format!("{}, {}, {operand}", list[0], list[1])))
}
