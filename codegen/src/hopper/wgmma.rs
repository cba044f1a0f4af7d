//! WGMMA: its shape, the registers of its sums, the operands of one instruction.
//!
//! An instruction multiplies `m64nNk(32 bytes)`; A and B are read from shared memory through matrix descriptors (PTX ISA,
//! "Asynchronous warpgroup level matrix multiply-accumulate instructions").

use std::ops::Range;

use serde::Serialize;

use super::OperandTile;
use crate::Dtype;
use crate::plan::Major;

/// Rows that one WGMMA instruction computes.
pub(crate) const WGMMA_M: u32 = 64;
/// Sums on one line of an operand list.
const PER_LINE: usize = 16;

/// Elements of K that one WGMMA instruction consumes: 32 bytes.
pub(crate) const fn wgmma_k(dtype: Dtype) -> u32 {
    32 / dtype.bytes()
}

/// What an instruction of `n` columns is called, with the types of its sums and of its operands.
pub(crate) fn shape(n: u32, sum: Dtype, (a, b): (Dtype, Dtype)) -> String {
    let k = wgmma_k(a);
    match a {
        Dtype::I8 => format!("m64n{n}k{k}.s32.s8.s8"),
        _ => format!("m64n{n}k{k}.{sum}.{}.{}", multiplied(a), multiplied(b)),
    }
}

/// What the tensor cores make of a factor, in words: of f32, TF32.
pub(crate) fn multiplied(factor: Dtype) -> &'static str {
    if factor == Dtype::F32 { "tf32" } else { factor.as_str() }
}

/// The 16-bit types alone are read transposed (PTX ISA, "wgmma.mma_async": `imm-trans-a`, `imm-trans-b`); 8-bit types and
/// TF32 are read along K.
pub(crate) const fn is_read_along_k(factor: Dtype) -> bool {
    factor.bytes() != 2
}

/// What follows the predicate: negations, and for 16-bit types which operands are read transposed.
pub(crate) fn modifiers(dtype: Dtype, (a, b): (Major, Major)) -> String {
    let transposed = |major: Major| u32::from(major == Major::Mn);
    match dtype {
        Dtype::I8 => String::new(),
        _ if is_read_along_k(dtype) => ", 1, 1".to_owned(),
        _ => format!(", 1, 1, {}, {}", transposed(a), transposed(b)),
    }
}

/// The same where A is read from registers, which have no transpose.
pub(crate) fn register_modifiers(dtype: Dtype, b: Major) -> String {
    match is_read_along_k(dtype) {
        true => ", 1, 1".to_owned(),
        false => format!(", 1, 1, {}", u32::from(b == Major::Mn)),
    }
}

/// The registers of a warpgroup's sums: `%f_acc0` and on of f32, else `%r_acc0` and on, with an integer or two f16 in each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sums {
    pub(crate) stem: &'static str,
    pub(crate) dtype: Dtype,
}

impl Sums {
    pub(crate) fn name(self, i: u32) -> String {
        format!("{}_{}{i}", if self.is_f32() { "%f" } else { "%r" }, self.stem)
    }

    pub(crate) fn is_f32(self) -> bool {
        self.dtype == Dtype::F32
    }

    /// An operand list of some of them.
    pub(crate) fn list(self, range: Range<u32>) -> String {
        register_list(range.map(|i| self.name(i)))
    }
}

/// Registers of an operand list, as many a line as are read well.
pub(crate) fn register_list(names: impl Iterator<Item = String>) -> String {
    let names: Vec<String> = names.collect();
    let lines: Vec<String> = names.chunks(PER_LINE).map(|line| line.join(", ")).collect();
    lines.join(",\n")
}

/// One instruction, and the additions that make its descriptors.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Wgmma {
    descriptors: Vec<Descriptor>,
    sums: String,
    a: String,
    b: String,
    /// The predicate that says whether the sums are added to.
    scale_d: &'static str,
}

/// A descriptor some units of 16 bytes after another one.
#[derive(Clone, Debug, Serialize)]
struct Descriptor {
    register: String,
    base: &'static str,
    units: u32,
}

/// Where in a stage an instruction's operands begin, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At {
    pub(crate) a: u32,
    pub(crate) b: u32,
}

impl Wgmma {
    /// An instruction on operands at these bytes of a stage whose descriptors are `%rd_a` and `%rd_b`.
    pub(crate) fn new(sums: String, at: At, overwrites: bool) -> Self {
        Self::with(sums, at, if overwrites { "%p_overwrite" } else { "%p_add" })
    }

    /// An instruction that overwrites the sums unless some have been made (`%p_sum`).
    pub(crate) fn after_first(sums: String, at: At) -> Self {
        Self::with(sums, at, "%p_sum")
    }

    fn with(sums: String, at: At, scale_d: &'static str) -> Self {
        let mut descriptors = vec![];
        let b = descriptor("%rd_b", at.b, &mut descriptors);
        let a = descriptor("%rd_a", at.a, &mut descriptors);
        Self { descriptors, sums, a, b, scale_d }
    }
}

/// The register that holds `base` and `offset` bytes.
fn descriptor(base: &'static str, offset: u32, made: &mut Vec<Descriptor>) -> String {
    if offset == 0 {
        return base.to_owned();
    }
    let register = format!("{base}_k");
    made.push(Descriptor { register: register.clone(), base, units: offset / 16 });
    register
}

/// The WGMMA descriptors of stage 0 for one consumer: their constant parts, and bytes from one consumer's to the next one's.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Descriptors {
    a: String,
    b: String,
    a_stride: u32,
    b_stride: u32,
}

impl Descriptors {
    /// `rows` and `columns` are the distances between the consumers' parts of the tile.
    pub(crate) fn new((a, b): (&OperandTile, &OperandTile), (rows, columns): (u32, u32)) -> Self {
        Self {
            a: format!("{:#018x}", a.descriptor()),
            b: format!("{:#018x}", b.descriptor()),
            a_stride: a.mn_offset(rows),
            b_stride: b.mn_offset(columns),
        }
    }
}
