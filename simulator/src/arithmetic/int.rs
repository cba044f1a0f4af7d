//! Integer arithmetic and logic, one thread at a time.

use super::bits::{bmsk, find_nth, permute, szext};
use crate::program::op::IntFn;
use crate::program::types::{Ty, mask, sign_extend};

/// The result of `f`, or `None` for a division by zero.
///
/// Operands are zero-extended; the result is cut to the type (twice its width for the wide forms).
pub(crate) fn apply(f: IntFn, ty: Ty, a: u64, b: u64, c: u64, d: u64) -> Option<u64> {
    use IntFn::*;
    if let Some(half) = half_of(ty) {
        let part = |shift: u32| {
            let [a, b, c, d] = [a, b, c, d].map(|v| v >> shift & 0xffff);
            apply(f, half, a, b, c, d)
        };
        return Some(part(0)? | part(16)? << 16);
    }
    let bits = ty.bits();
    let m = mask(bits);
    let (a, b0) = (a & m, b);
    let b = b & m;
    let signed = ty.signed();
    let s = |v: u64| sign_extend(v, bits);
    let wide = |v: u64| if signed { i128::from(s(v)) } else { i128::from(v) };
    let product = || wide(a).wrapping_mul(wide(b));
    Some(match f {
        Add => a.wrapping_add(b) & m,
        Sub => a.wrapping_sub(b) & m,
        MulLo => a.wrapping_mul(b) & m,
        MulHi => high(a, b, ty),
        MulWide => product() as u64 & mask(bits * 2),
        MadLo => a.wrapping_mul(b).wrapping_add(c) & m,
        MadHi => high(a, b, ty).wrapping_add(c) & m,
        MadWide => (product() as u64).wrapping_add(c) & mask(bits * 2),
        Div if b == 0 => return None,
        Rem if b == 0 => return None,
        Div => (wide(a) / wide(b)) as u64 & m,
        Rem => (wide(a) % wide(b)) as u64 & m,
        Neg => a.wrapping_neg() & m,
        Abs => s(a).unsigned_abs() & m,
        Min => {
            if wide(a) <= wide(b) {
                a
            } else {
                b
            }
        }
        Max => {
            if wide(a) >= wide(b) {
                a
            } else {
                b
            }
        }
        Shl => {
            if b0 >= u64::from(bits) {
                0
            } else {
                a << b0 & m
            }
        }
        Shr if signed => (s(a) >> b0.min(u64::from(bits) - 1)) as u64 & m,
        Shr => {
            if b0 >= u64::from(bits) {
                0
            } else {
                a >> b0
            }
        }
        And => a & b,
        Or => a | b,
        Xor => a ^ b,
        Not => !a & m,
        Cnot => u64::from(a == 0),
        Popc => u64::from(a.count_ones()),
        Clz => u64::from(a.leading_zeros() - (64 - bits)),
        Brev => a.reverse_bits() >> (64 - bits),
        Bfe => bfe(a, b0, c, ty),
        Bfi => bfi(a, b, c, d, bits),
        Bfind => {
            let v = if signed && s(a) < 0 { !a & m } else { a };
            match 63u32.checked_sub(v.leading_zeros()) {
                None => mask(32),
                Some(at) if b0 == 1 => u64::from(bits - 1 - at),
                Some(at) => u64::from(at),
            }
        }
        Prmt => prmt(a, b, c),
        ShfL { wrap } => {
            let n = shift(c, wrap);
            ((b << 32 | a) << n >> 32) & m
        }
        ShfR { wrap } => {
            let n = shift(c, wrap);
            ((b << 32 | a) >> n) & m
        }
        AddSat => clamped(s(a) + s(b)),
        SubSat => clamped(s(a) - s(b)),
        MadHiSat => clamped(s(high(a, b, ty)) + s(c & m)),
        Mul24Lo => product24(a, b, ty) as u64 & m,
        Mul24Hi => (product24(a, b, ty) >> 16) as u64 & m,
        Mad24Lo => (product24(a, b, ty) as u64).wrapping_add(c) & m,
        Mad24Hi => ((product24(a, b, ty) >> 16) as u64).wrapping_add(c) & m,
        Mad24HiSat => clamped((product24(a, b, ty) >> 16) + s(c & m)),
        MinRelu => s(a).min(s(b)).max(0) as u64,
        MaxRelu => s(a).max(s(b)).max(0) as u64,
        Fns => find_nth(a as u32, b as u32, c as u32),
        Szext { wrap } => szext(a, b0, wrap, signed),
        Bmsk { wrap } => bmsk(a, b, wrap),
        Permute(mode) => permute(mode, a | b << 32, c & 3),
        Pack { bits: n, signed: to } => {
            let (least, most) = if to { (-(1 << (n - 1)), (1 << (n - 1)) - 1) } else { (0, (1i64 << n) - 1) };
            let one = |v: u64| s(v).clamp(least, most) as u64 & mask(n);
            (c << (2 * n) | one(a) << n | one(b)) & m
        }
        Dp2a { signed: first, high } => {
            let half =
                |i: u32| if first { sign_extend(a >> (16 * i) & 0xffff, 16) } else { (a >> (16 * i) & 0xffff) as i64 };
            let byte = |i: u32| {
                let byte = b >> (8 * (i + if high { 2 } else { 0 })) & 0xff;
                if signed { sign_extend(byte, 8) } else { byte as i64 }
            };
            (half(0) * byte(0) + half(1) * byte(1)).wrapping_add(c as i64) as u64 & m
        }
        Dp4a { signed: first } => dp4a((a, first), (b, signed)).wrapping_add(c as i64) as u64 & m,
        Lop3 => lop3(a, b, c, d),
        Sad => ((wide(a) - wide(b)).unsigned_abs() as u64).wrapping_add(c) & m,
    })
}

/// The type of each half of two integers in a word.
fn half_of(ty: Ty) -> Option<Ty> {
    match ty {
        Ty::U16x2 => Some(Ty::U16),
        Ty::S16x2 => Some(Ty::S16),
        _ => None,
    }
}

/// A signed word that stops at the ends of its range.
fn clamped(v: i64) -> u64 {
    v.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as u64 & mask(32)
}

/// The product of the low 24 bits.
fn product24(a: u64, b: u64, ty: Ty) -> i64 {
    let low = |v: u64| if ty.signed() { sign_extend(v & mask(24), 24) } else { (v & mask(24)) as i64 };
    low(a) * low(b)
}

fn shift(c: u64, wrap: bool) -> u64 {
    if wrap { c & 31 } else { (c & mask(32)).min(32) }
}

fn high(a: u64, b: u64, ty: Ty) -> u64 {
    let bits = ty.bits();
    let p = if ty.signed() {
        (i128::from(sign_extend(a, bits)) * i128::from(sign_extend(b, bits))) as u128
    } else {
        u128::from(a) * u128::from(b)
    };
    (p >> bits) as u64 & mask(bits)
}

fn bfe(a: u64, pos: u64, len: u64, ty: Ty) -> u64 {
    let bits = u64::from(ty.bits());
    let (pos, len) = (pos & 0xff, len & 0xff);
    let top = (pos + len).saturating_sub(1).min(bits - 1);
    let fill = ty.signed() && len > 0 && a >> top & 1 == 1;
    let mut out = 0;
    for i in 0..bits {
        let bit = if i < len && pos + i < bits { a >> (pos + i) & 1 } else { u64::from(fill) };
        out |= bit << i;
    }
    out
}

fn bfi(a: u64, b: u64, pos: u64, len: u64, bits: u32) -> u64 {
    let (pos, len) = (pos & 0xff, len & 0xff);
    let mut out = b;
    for i in 0..len.min(u64::from(bits)) {
        let at = pos + i;
        if at < u64::from(bits) {
            out = (out & !(1 << at)) | (a >> i & 1) << at;
        }
    }
    out
}

fn prmt(a: u64, b: u64, selector: u64) -> u64 {
    let bytes = a | b << 32;
    (0..4).fold(0, |out, i| {
        let s = selector >> (4 * i) & 0xf;
        let byte = bytes >> (8 * (s & 7)) & 0xff;
        let byte = if s & 8 != 0 { if byte & 0x80 != 0 { 0xff } else { 0 } } else { byte };
        out | byte << (8 * i)
    })
}

/// The sum of the products of four bytes each, signed or not.
fn dp4a((a, a_signed): (u64, bool), (b, b_signed): (u64, bool)) -> i64 {
    let byte = |v: u64, i: u32, signed: bool| {
        let byte = (v >> (8 * i)) as u8;
        if signed { i64::from(byte as i8) } else { i64::from(byte) }
    };
    (0..4).map(|i| byte(a, i, a_signed) * byte(b, i, b_signed)).sum()
}

fn lop3(a: u64, b: u64, c: u64, table: u64) -> u64 {
    (0..8u64).filter(|i| table >> i & 1 == 1).fold(0, |out, i| {
        let pick = |v: u64, on: u64| if on == 1 { v } else { !v };
        out | (pick(a, i >> 2 & 1) & pick(b, i >> 1 & 1) & pick(c, i & 1))
    }) & mask(32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use IntFn::*;

    fn run(f: IntFn, ty: Ty, a: i64, b: i64) -> u64 {
        apply(f, ty, a as u64, b as u64, 0, 0).unwrap_or(0xdead)
    }

    #[test]
    fn arithmetic_wraps_in_its_width() {
        assert_eq!(run(Add, Ty::U32, 0xffff_ffff, 2), 1);
        assert_eq!(run(Sub, Ty::U16, 1, 2), 0xffff);
        assert_eq!(run(MulLo, Ty::S32, -3, 5), 0xffff_fff1);
        assert_eq!(run(MulHi, Ty::U32, 0x8000_0000, 4), 2);
        assert_eq!(run(MulHi, Ty::S32, -1, 4), 0xffff_ffff);
        assert_eq!(run(MulHi, Ty::U64, -1, -1), u64::MAX - 1);
        assert_eq!(run(MulWide, Ty::S32, -2, 3), (-6i64) as u64);
        assert_eq!(run(MulWide, Ty::U32, 0xffff_ffff, 2), 0x1_ffff_fffe);
        assert_eq!(apply(MadWide, Ty::U32, 3, 4, 1 << 40, 0), Some((1 << 40) + 12));
        assert_eq!(run(Div, Ty::S32, -7, 2), (-3i32) as u32 as u64);
        assert_eq!(run(Rem, Ty::S32, -7, 2), (-1i32) as u32 as u64);
        assert_eq!(run(Div, Ty::S64, i64::MIN, -1), i64::MIN as u64);
        assert_eq!(apply(Div, Ty::U32, 1, 0, 0, 0), None);
        assert_eq!(run(Min, Ty::S32, -1, 1), 0xffff_ffff);
        assert_eq!(run(Min, Ty::U32, -1, 1), 1);
        assert_eq!(run(Abs, Ty::S32, -5, 0), 5);
    }

    #[test]
    fn shifts_clamp() {
        assert_eq!(run(Shl, Ty::B32, 1, 31), 1 << 31);
        assert_eq!(run(Shl, Ty::B32, 1, 32), 0);
        assert_eq!(run(Shr, Ty::U32, -1, 40), 0);
        assert_eq!(run(Shr, Ty::S32, -8, 40), 0xffff_ffff);
        assert_eq!(run(Shr, Ty::S32, -8, 1), 0xffff_fffc);
        assert_eq!(apply(ShfL { wrap: true }, Ty::B32, 0x8000_0000, 1, 33, 0), Some(3));
        assert_eq!(apply(ShfR { wrap: false }, Ty::B32, 5, 9, 64, 0), Some(9));
    }

    #[test]
    fn bit_fields() {
        assert_eq!(apply(Bfe, Ty::U32, 0xabcd, 4, 8, 0), Some(0xbc));
        assert_eq!(apply(Bfe, Ty::S32, 0xf0, 4, 4, 0), Some(0xffff_ffff));
        assert_eq!(apply(Bfi, Ty::B32, 0xf, 0, 8, 4), Some(0xf00));
        assert_eq!(apply(Bfind, Ty::U32, 0, 0, 0, 0), Some(0xffff_ffff));
        assert_eq!(apply(Bfind, Ty::U32, 0x100, 0, 0, 0), Some(8));
        assert_eq!(run(Popc, Ty::B64, -1, 0), 64);
        assert_eq!(run(Clz, Ty::B32, 1, 0), 31);
        assert_eq!(run(Brev, Ty::B32, 1, 0), 1 << 31);
        assert_eq!(apply(Prmt, Ty::B32, 0x4433_2211, 0x8877_6655, 0x7531, 0), Some(0x8866_4422));
        assert_eq!(apply(Prmt, Ty::B32, 0x80, 0, 0x8888, 0), Some(0xffff_ffff));
        assert_eq!(apply(Lop3, Ty::B32, 0xf0, 0xcc, 0xaa, 0x96), Some((0xf0 ^ 0xcc ^ 0xaa) & 0xff));
    }
}
