//! Products with a sparse A: `mma.sp` and `wgmma.mma_async.sp`.

use super::program::{Program, list, load, mixed, numbers, store, to_shared};

/// In which order the places of a chunk stand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Places {
    Ascending,
    Any,
}

/// A word of metadata: eight pairs of different places, or of 32-bit types eight single places.
fn metadata(ty: &str, places: Places, i: usize) -> u32 {
    const PAIRS: [u32; 12] =
        [0b0100, 0b1000, 0b1100, 0b1001, 0b1101, 0b1110, 0b0001, 0b0010, 0b0011, 0b0110, 0b0111, 0b1011];
    let count = if places == Places::Ascending { 6 } else { 12 };
    let nibble = |n: usize| match ty {
        "tf32" => [0b0100, 0b1110][mixed(i * 8 + n, 9) as usize % 2],
        _ => PAIRS[mixed(i * 8 + n, 9) as usize % count],
    };
    (0..8).fold(0, |word, n| word | nibble(n) << (4 * n))
}

fn metadata_of(ty: &str, places: Places, threads: usize) -> Vec<u8> {
    (0..threads).flat_map(|t| metadata(ty, places, t).to_le_bytes()).collect()
}

/// Bits of an element of `mma.sp`.
fn bits(ty: &str) -> usize {
    if ty.ends_with('4') { 4 } else { 8 * width(ty) }
}

/// Bytes of an element.
fn width(ty: &str) -> usize {
    match ty {
        "u8" | "s8" | "e4m3" | "e5m2" => 1,
        "f16" | "bf16" => 2,
        _ => 4,
    }
}

/// Every type and shape of `mma.sp`, with every selector.
pub(crate) fn warps() -> Vec<Program> {
    let shapes = [
        (16, "f16", "f16", "f32", 4),
        (16, "f16", "f16", "f16", 4),
        (16, "bf16", "bf16", "f32", 4),
        (32, "f16", "f16", "f32", 2),
        (32, "f16", "f16", "f16", 2),
        (32, "bf16", "bf16", "f32", 2),
        (8, "tf32", "tf32", "f32", 4),
        (16, "tf32", "tf32", "f32", 2),
        (32, "s8", "u8", "s32", 2),
        (32, "u8", "s8", "s32", 2),
        (64, "s8", "s8", "s32", 1),
        (64, "u8", "s8", "s32", 1),
        (64, "e4m3", "e5m2", "f32", 1),
        (64, "e5m2", "e4m3", "f32", 1),
        (64, "s4", "u4", "s32", 2),
        (64, "u4", "s4", "s32", 2),
        (128, "s4", "s4", "s32", 1),
        (128, "u4", "u4", "s32", 1),
    ];
    let orders = [("", Places::Ascending), ("", Places::Any), ("::ordered_metadata", Places::Ascending)];
    let mut all = Vec::new();
    for (k, a, b, c, selectors) in shapes {
        for selector in 0..selectors {
            for (kind, places) in orders {
                all.push(warp(k, (a, b, c), selector, kind, places));
            }
        }
    }
    all
}

fn warp(k: usize, (a, b, c): (&str, &str, &str), selector: usize, kind: &str, places: Places) -> Program {
    // 16 rows of half of k, and 8 columns of k, over 32 threads.
    let registers = k * bits(a) / 128;
    let sums = if c == "f16" { 2 } else { 4 };
    let bytes = |registers: usize| 32 * registers * 4;
    let mut body = load(0, 10, registers) + &load(1, 20, registers) + &load(2, 30, sums) + &load(3, 40, 1);
    let (into, name) = if c == "f32" { ("mov.b32 %f", list("%f", 0, 4)) } else { ("", list("%r", 30, sums)) };
    if c == "f32" {
        body += &(0..4).map(|i| format!("{into}{i}, %r{};\n", 30 + i)).collect::<String>();
    }
    let opcode = format!("mma.sp{kind}.sync.aligned.m16n8k{k}.row.col.{c}.{a}.{b}.{c}");
    body += &format!(
        "{opcode} {name}, {}, {}, {name}, %r40, {selector};\n",
        list("%r", 10, registers),
        list("%r", 20, registers)
    );
    if c == "f32" {
        body += &(0..4).map(|i| format!("mov.b32 %r{}, %f{i};\n", 30 + i)).collect::<String>();
    }
    body += &store(4, 30, sums);
    let buffers = vec![
        numbers(a, bytes(registers), 1),
        numbers(b, bytes(registers), 2),
        numbers(c, bytes(sums), 3),
        metadata_of(a, places, 32),
        vec![0xff; bytes(sums)],
    ];
    Program::new(format!("{opcode} selector {selector}, {places:?}"), 32, vec![], buffers, &body)
}

/// Where the operands of a WGMMA are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operands {
    Registers,
    /// Without swizzle.
    Plain,
    /// A in 32 bytes and B in 64, which are their lines.
    Swizzled,
    /// A by columns, without swizzle.
    Across,
    /// A by columns, in 128 bytes.
    AcrossSwizzled,
}

/// Types and places of `wgmma.mma_async.sp`.
pub(crate) fn warpgroups() -> Vec<Program> {
    let types = [
        ("f16", "f16", "f32", 2),
        ("f16", "f16", "f16", 2),
        ("bf16", "bf16", "f32", 2),
        ("tf32", "tf32", "f32", 2),
        ("e4m3", "e5m2", "f32", 1),
        ("e5m2", "e4m3", "f16", 1),
        ("s8", "s8", "s32", 1),
        ("u8", "s8", "s32", 1),
    ];
    let mut all = Vec::new();
    for (a, b, d, selectors) in types {
        for selector in 0..selectors {
            for operands in [Operands::Registers, Operands::Plain, Operands::Swizzled] {
                all.push(warpgroup((a, b, d), 16, selector, operands, Places::Ascending));
            }
            all.push(warpgroup((a, b, d), 64, selector, Operands::Plain, Places::Any));
            if width(a) == 2 {
                for operands in [Operands::Across, Operands::AcrossSwizzled] {
                    all.push(warpgroup((a, b, d), 16, selector, operands, Places::Ascending));
                }
            }
        }
    }
    all
}

/// Where B is in shared memory.
const B_AT: usize = 8192;

fn warpgroup((a, b, d): (&str, &str, &str), n: usize, selector: usize, operands: Operands, places: Places) -> Program {
    let k = 64 / width(a);
    let registers = if d == "f16" { n / 4 } else { n / 2 };
    let (a_bytes, b_bytes) = (64 * 32, n * 64);
    // Start, leading and stride in units of 16 bytes, and the swizzle.
    let desc = |leading: u64, stride: u64, swizzle: u64| leading >> 4 << 16 | stride >> 4 << 32 | swizzle << 62;
    let of_a = match operands {
        Operands::Swizzled => desc(16, 256, 3),
        Operands::Across => desc(1024, 128, 0),
        Operands::AcrossSwizzled => desc(16, 1024, 1),
        Operands::Registers | Operands::Plain => desc(128, 256, 0),
    };
    let of_b = if operands == Operands::Swizzled { desc(16, 512, 2) } else { desc(128, 512, 0) };
    let mut body = to_shared(0, a_bytes / 4, 0, 128) + &to_shared(1, b_bytes / 4, B_AT, 128);
    body += &(load(2, 100, registers) + &load(3, 40, 1) + &load(0, 10, 4));
    body += &format!(
        "fence.proxy.async.shared::cta;\nbar.sync 0;\nbfe.u32 %r5, %r1, 4, 14;\ncvt.u64.u32 %rd10, %r5;\nadd.u64 %rd11, %rd10, {};\n\
         or.b64 %rd10, %rd10, {of_a};\nor.b64 %rd11, %rd11, {of_b};\n",
        B_AT >> 4
    );
    let name = if d == "f32" { list("%f", 0, registers) } else { list("%r", 100, registers) };
    if d == "f32" {
        body += &(0..registers).map(|i| format!("mov.b32 %f{i}, %r{};\n", 100 + i)).collect::<String>();
    }
    let in_registers = operands == Operands::Registers;
    let first = if in_registers { list("%r", 10, 4) } else { "%rd10".to_owned() };
    let across = u32::from(matches!(operands, Operands::Across | Operands::AcrossSwizzled));
    let scales = match (d, width(a)) {
        ("s32", _) => String::new(),
        (_, 2) if in_registers => ", 1, 1, 0".to_owned(),
        (_, 2) => format!(", 1, 1, {across}, 0"),
        _ => ", 1, 1".to_owned(),
    };
    let opcode = format!("wgmma.mma_async.sp.sync.aligned.m64n{n}k{k}.{d}.{a}.{b}");
    body += &format!(
        "setp.eq.u32 %p1, 0, 0;\nwgmma.fence.sync.aligned;\n{opcode} {name}, {first}, %rd11, %r40, {selector}, %p1{scales};\n\
         wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n"
    );
    if d == "f32" {
        body += &(0..registers).map(|i| format!("mov.b32 %r{}, %f{i};\n", 100 + i)).collect::<String>();
    }
    body += &store(4, 100, registers);
    let sums = 128 * registers * 4;
    let buffers = vec![
        numbers(a, a_bytes, 1),
        numbers(b, b_bytes, 2),
        numbers(d, sums, 3),
        metadata_of(a, places, 128),
        vec![0xff; sums],
    ];
    Program::new(format!("{opcode} selector {selector}, {operands:?}, {places:?}"), 128, vec![], buffers, &body)
}
