//! Products of a warp with a dense A, and `movmatrix`.

use super::program::{Program, list, load, mixed, numbers, store};

/// One instruction: its rows, its elements of K, the types of D, A, B and C, and what stands behind them.
struct Case {
    m: usize,
    k: usize,
    types: [&'static str; 4],
    tail: &'static str,
}

fn bits(ty: &str) -> usize {
    match ty {
        "b1" => 1,
        "u4" | "s4" => 4,
        "u8" | "s8" | "e4m3" | "e5m2" => 8,
        "f16" | "bf16" => 16,
        _ => 32,
    }
}

/// Registers of numbers, or of any bits where all of them are numbers.
fn operand(ty: &str, registers: usize, seed: u32) -> Vec<u8> {
    match ty {
        "b1" | "u4" | "s4" => (0..32 * registers).flat_map(|i| mixed(i, seed).to_le_bytes()).collect(),
        _ => numbers(ty, 128 * registers, seed),
    }
}

/// Every shape of the types of which hardware has had no word otherwise.
pub(crate) fn warps() -> Vec<Program> {
    let mut all = Vec::new();
    let mut add = |m, k, types, tail| all.push(warp(&Case { m, k, types, tail }, ".row.col"));
    for (a, b) in [("s8", "s8"), ("u8", "s8"), ("s8", "u8"), ("u8", "u8")] {
        for (m, k) in [(8, 16), (16, 16), (16, 32)] {
            add(m, k, ["s32", a, b, "s32"], "");
        }
    }
    for (a, b) in [("s4", "s4"), ("u4", "s4"), ("s4", "u4"), ("u4", "u4")] {
        for (m, k) in [(8, 32), (16, 32), (16, 64)] {
            add(m, k, ["s32", a, b, "s32"], "");
        }
    }
    for (m, k) in [(8, 128), (16, 128), (16, 256)] {
        for tail in [".xor.popc", ".and.popc"] {
            add(m, k, ["s32", "b1", "b1", "s32"], tail);
        }
    }
    for (a, b) in [("e4m3", "e4m3"), ("e4m3", "e5m2"), ("e5m2", "e4m3"), ("e5m2", "e5m2")] {
        for k in [16, 32] {
            for c in ["f32", "f16"] {
                add(16, k, [c, a, b, c], "");
            }
        }
    }
    for layout in [".row.col", ".row.row", ".col.row", ".col.col"] {
        for (d, c) in [("f32", "f32"), ("f32", "f16"), ("f16", "f16")] {
            all.push(warp(&Case { m: 32, k: 4, types: [d, "f16", "f16", c], tail: "" }, layout));
        }
    }
    all.push(transposed());
    all
}

/// `mma.m8n8k4` of f16 is four products, whose fragments are those of 32 rows, 32 columns, and 64 or 32 words of sums.
fn warp(case: &Case, layout: &str) -> Program {
    let [d, a, b, c] = case.types;
    let quads = case.m == 32;
    let shape = if quads { "m8n8k4".to_owned() } else { format!("m{}n8k{}", case.m, case.k) };
    let columns = if quads { 32 } else { 8 };
    let registers = |lines: usize, ty: &str| lines * case.k * bits(ty) / 1024;
    let sums = |ty: &str| if quads { 8 * bits(ty) / 32 } else { case.m * 8 * bits(ty) / 1024 };
    let (na, nb, nc, nd) = (registers(case.m, a), registers(columns, b), sums(c), sums(d));
    let mut body = load(0, 10, na) + &load(1, 20, nb) + &load(2, 30, nc);
    let mut named = |ty: &str, n: usize, first: usize| match ty {
        "f32" => {
            body += &(0..n).map(|i| format!("mov.b32 %f{i}, %r{};\n", first + i)).collect::<String>();
            list("%f", 0, n)
        }
        _ => list("%r", first, n),
    };
    let added = named(c, nc, 30);
    let result = if d == c { added.clone() } else { list(if d == "f32" { "%f" } else { "%r" }, 50, nd) };
    let opcode = format!("mma.sync.aligned.{shape}{layout}.{d}.{a}.{b}.{c}{}", case.tail);
    body += &format!("{opcode} {result}, {}, {}, {added};\n", list("%r", 10, na), list("%r", 20, nb));
    let from = if d == c { 0 } else { 50 };
    if d == "f32" {
        body += &(0..nd).map(|i| format!("mov.b32 %r{}, %f{};\n", 60 + i, from + i)).collect::<String>();
    }
    body += &store(3, if d == "f32" { 60 } else { 30 }, nd);
    let buffers = vec![operand(a, na, 1), operand(b, nb, 2), operand(c, nc, 3), vec![0xff; 128 * nd]];
    Program::new(opcode, 32, vec![], buffers, &body)
}

fn transposed() -> Program {
    let body = load(0, 10, 1) + "movmatrix.sync.aligned.m8n8.trans.b16 %r11, %r10;\n" + &store(1, 11, 1);
    let words = (0..32).flat_map(|i| mixed(i, 4).to_le_bytes()).collect();
    Program::new("movmatrix".to_owned(), 32, vec![], vec![words, vec![0xff; 128]], &body)
}
