//! Floating-point arithmetic, comparison and conversion, one thread at a time.
//!
//! Single precision is IEEE with rounding to nearest; `.approx` functions are computed to better than the ISA's bound.
//! 16-bit formats are computed in double precision and rounded once.

use half::{bf16, f16};

use super::directed::directed;
use super::numbers::{Direction, from_f64, nearest_tf32, round_bf16, round_f16, round_f32, scalar, to_f64, to_fp8};
use crate::program::op::{Class, Cmp, Cvt, FloatFn, FloatMods, Round};
use crate::program::types::{Ty, mask, sign_extend};

pub(crate) fn apply(f: FloatFn, ty: Ty, m: FloatMods, a: u64, b: u64, c: u64) -> u64 {
    if matches!(ty, Ty::F16x2 | Ty::Bf16x2) {
        let s = scalar(ty);
        let low = apply(f, s, m, a & 0xffff, b & 0xffff, c & 0xffff);
        let high = apply(f, s, m, a >> 16 & 0xffff, b >> 16 & 0xffff, c >> 16 & 0xffff);
        return low | high << 16;
    }
    // Sign operations touch one bit, NaN or not.
    let sign = 1u64 << (ty.bits() - 1);
    match f {
        FloatFn::Neg => return flush(a, ty, m.ftz) ^ sign,
        FloatFn::Abs => return flush(a, ty, m.ftz) & !sign & ty.mask(),
        FloatFn::Copysign => return a & sign | b & !sign & ty.mask(),
        FloatFn::Min | FloatFn::Max if m.xorsign => {
            let sizes = FloatMods { xorsign: false, ..m };
            let size = apply(f, ty, sizes, a & !sign, b & !sign, 0);
            return if to_f64(size, ty).is_nan() { size } else { size & !sign | (a ^ b) & sign };
        }
        _ => {}
    }
    let out = if ty == Ty::F32 {
        let (x, y, z) = (single(a, m.ftz), single(b, m.ftz), single(c, m.ftz));
        let v = match f {
            _ if m.round != Round::None => directed(f, m.round, x, y, z),
            FloatFn::Add => x + y,
            FloatFn::Sub => x - y,
            FloatFn::Mul => x * y,
            FloatFn::Fma => x.mul_add(y, z),
            FloatFn::Div => x / y,
            FloatFn::Sqrt => x.sqrt(),
            _ => double(f, m, f64::from(x), f64::from(y), f64::from(z)) as f32,
        };
        if v.is_nan() { 0x7fff_ffff } else { u64::from(v.to_bits()) }
    } else {
        from_f64(double(f, m, to_f64(a, ty), to_f64(b, ty), to_f64(c, ty)), ty)
    };
    let out = flush(out, ty, m.ftz);
    let v = to_f64(out, ty);
    if m.sat {
        return from_f64(if v.is_nan() { 0.0 } else { v.clamp(0.0, 1.0) }, ty);
    }
    if m.relu && (v < 0.0 || (v == 0.0 && out & sign != 0)) {
        return 0;
    }
    out
}

fn single(raw: u64, ftz: bool) -> f32 {
    f32::from_bits(flush(raw & mask(32), Ty::F32, ftz) as u32)
}

fn flush(raw: u64, ty: Ty, ftz: bool) -> u64 {
    if ftz && ty == Ty::F32 && f32::from_bits(raw as u32).is_subnormal() { raw & 1 << 31 } else { raw }
}

fn double(f: FloatFn, m: FloatMods, x: f64, y: f64, z: f64) -> f64 {
    match f {
        FloatFn::Add => x + y,
        FloatFn::Sub => x - y,
        FloatFn::Mul => x * y,
        FloatFn::Fma => x.mul_add(y, z),
        FloatFn::Div => x / y,
        FloatFn::Neg => -x,
        FloatFn::Abs => x.abs(),
        FloatFn::Copysign => y.copysign(x),
        FloatFn::Min | FloatFn::Max if m.nan && (x.is_nan() || y.is_nan()) => f64::NAN,
        FloatFn::Min if x == y => {
            if x.is_sign_negative() {
                x
            } else {
                y
            }
        }
        FloatFn::Max if x == y => {
            if x.is_sign_negative() {
                y
            } else {
                x
            }
        }
        FloatFn::Min => x.min(y),
        FloatFn::Max => x.max(y),
        FloatFn::Rcp => 1.0 / x,
        FloatFn::Sqrt => x.sqrt(),
        FloatFn::Rsqrt => 1.0 / x.sqrt(),
        FloatFn::Ex2 => x.exp2(),
        FloatFn::Lg2 => x.log2(),
        FloatFn::Sin => x.sin(),
        FloatFn::Cos => x.cos(),
        FloatFn::Tanh => x.tanh(),
    }
}

/// The value of `set`: 1, or all ones of an integer, where the comparison holds.
/// `also` combines it with a predicate.
pub(crate) fn set(c: Cmp, to: Ty, ty: Ty, (a, b): (u64, u64), also: impl Fn(bool) -> bool) -> u64 {
    let one = match to {
        Ty::F32 => u64::from(1f32.to_bits()),
        Ty::F16 | Ty::F16x2 => 0x3c00,
        Ty::Bf16 | Ty::Bf16x2 => 0x3f80,
        _ => mask(32),
    };
    let value = |a, b, ty| if also(compare(c, ty, false, a, b)) { one } else { 0 };
    match ty {
        Ty::F16x2 | Ty::Bf16x2 => {
            let half = scalar(ty);
            value(a & 0xffff, b & 0xffff, half) | value(a >> 16 & 0xffff, b >> 16 & 0xffff, half) << 16
        }
        _ => value(a, b, ty),
    }
}

/// What `testp` asks.
pub(crate) fn is(class: Class, ty: Ty, a: u64) -> bool {
    let v = to_f64(a, ty);
    let subnormal = if ty == Ty::F32 { f32::from_bits(a as u32).is_subnormal() } else { v.is_subnormal() };
    match class {
        Class::Finite => v.is_finite(),
        Class::Infinite => v.is_infinite(),
        Class::Number => !v.is_nan(),
        Class::NotANumber => v.is_nan(),
        // Zero counts as normal (PTX ISA, testp).
        Class::Normal => v.is_finite() && !subnormal,
        Class::Subnormal => subnormal,
    }
}

/// A comparison of type `ty`.
pub(crate) fn compare(c: Cmp, ty: Ty, ftz: bool, a: u64, b: u64) -> bool {
    use Cmp::*;
    if !ty.float() {
        let (a, b) = (a & ty.mask(), b & ty.mask());
        let order = if ty.signed() { sign_extend(a, ty.bits()).cmp(&sign_extend(b, ty.bits())) } else { a.cmp(&b) };
        return match c {
            Eq | Equ => order.is_eq(),
            Ne | Neu => order.is_ne(),
            Lt | Ltu => order.is_lt(),
            Le | Leu => order.is_le(),
            Gt | Gtu => order.is_gt(),
            Ge | Geu => order.is_ge(),
            Num => true,
            Nan => false,
        };
    }
    let (x, y) = (to_f64(flush(a, ty, ftz), ty), to_f64(flush(b, ty, ftz), ty));
    let nan = x.is_nan() || y.is_nan();
    match c {
        Eq => x == y,
        Ne => !nan && x != y,
        Lt => x < y,
        Le => x <= y,
        Gt => x > y,
        Ge => x >= y,
        Equ => nan || x == y,
        Neu => nan || x != y,
        Ltu => nan || x < y,
        Leu => nan || x <= y,
        Gtu => nan || x > y,
        Geu => nan || x >= y,
        Num => !nan,
        Nan => nan,
    }
}

/// `cvt`; `b` is the second source of the packing forms.
pub(crate) fn convert(c: &Cvt, a: u64, b: u64) -> u64 {
    let packed = |t: Ty| matches!(t, Ty::F16x2 | Ty::Bf16x2 | Ty::E4m3x2 | Ty::E5m2x2);
    if packed(c.to) {
        let to = scalar(c.to);
        let bits = to.bits();
        if c.from == Ty::F32 {
            // The first source becomes the upper half.
            return one(c, Ty::F32, to, a) << bits | one(c, Ty::F32, to, b);
        }
        let (from, width) = (scalar(c.from), scalar(c.from).bits());
        return one(c, from, to, a >> width & mask(width)) << bits | one(c, from, to, a & mask(width));
    }
    one(c, c.from, c.to, a)
}

fn one(c: &Cvt, from: Ty, to: Ty, raw: u64) -> u64 {
    if from.int() && to.int() {
        return int_to_int(c, from, to, raw & from.mask());
    }
    if from.int() {
        let exact = if from.signed() {
            sign_extend(raw & from.mask(), from.bits()) as i128
        } else {
            i128::from(raw & from.mask())
        };
        return int_to_float(c, exact, to);
    }
    let v = to_f64(flush(raw & from.mask(), from, c.ftz), from);
    if to.int() {
        return float_to_int(c, v, to);
    }
    float_to_float(c, v, raw, from, to)
}

fn int_to_int(c: &Cvt, from: Ty, to: Ty, raw: u64) -> u64 {
    let v = if from.signed() { i128::from(sign_extend(raw, from.bits())) } else { i128::from(raw) };
    let v = if c.sat { v.clamp(least(to), most(to)) } else { v };
    let cut = v as u64 & to.mask();
    if to.signed() { sign_extend(cut, to.bits()) as u64 & mask(c.width) } else { cut }
}

fn least(ty: Ty) -> i128 {
    if ty.signed() { -(1 << (ty.bits() - 1)) } else { 0 }
}

fn most(ty: Ty) -> i128 {
    if ty.signed() { (1 << (ty.bits() - 1)) - 1 } else { (1i128 << ty.bits()) - 1 }
}

fn int_to_float(c: &Cvt, exact: i128, to: Ty) -> u64 {
    let v = exact as f64;
    // A 64-bit integer may round in f64 first; nudge so that the second rounding goes the right way.
    let sticky = exact - v as i128;
    let v = if to == Ty::F64 || sticky == 0 {
        v
    } else {
        f64::from_bits(if (sticky > 0) == (v > 0.0) { v.to_bits() | 1 } else { (v.to_bits() - 1) | 1 })
    };
    narrow(c.round, v, to)
}

fn float_to_int(c: &Cvt, v: f64, to: Ty) -> u64 {
    if v.is_nan() {
        // Conversions of NaN give 0, but the largest pattern for 64-bit... by the ISA: 0 for 32 bits and fewer.
        return if to.bits() == 64 { 1 << 63 } else { 0 };
    }
    let r = match c.round {
        Round::Rni => v.round_ties_even(),
        Round::Rmi => v.floor(),
        Round::Rpi => v.ceil(),
        _ => v.trunc(),
    };
    let i = (r as i128).clamp(least(to), most(to));
    let cut = i as u64 & to.mask();
    if to.signed() { sign_extend(cut, to.bits()) as u64 & mask(c.width) } else { cut }
}

fn narrow(round: Round, v: f64, to: Ty) -> u64 {
    let d = match round {
        Round::Rz => Direction::Zero,
        Round::Rm => Direction::Down,
        Round::Rp => Direction::Up,
        _ => Direction::Nearest,
    };
    match to {
        Ty::F16 | Ty::Bf16 if v.is_nan() => 0x7fff,
        Ty::F16 => u64::from(round_f16(v, d)),
        Ty::Bf16 => u64::from(round_bf16(v, d)),
        Ty::F32 if v.is_nan() => 0x7fff_ffff,
        Ty::F32 => u64::from(round_f32(v, d)),
        _ => v.to_bits(),
    }
}

fn float_to_float(c: &Cvt, v: f64, raw: u64, from: Ty, to: Ty) -> u64 {
    let out = match to {
        Ty::E4m3 | Ty::E5m2 => u64::from(to_fp8(if c.relu && v <= 0.0 { 0.0 } else { v as f32 }, to)),
        Ty::Tf32 => {
            let bits = raw as u32;
            u64::from(match c.round {
                Round::Rz => bits & !0x1fff,
                Round::Rn => nearest_tf32(bits),
                _ => bits.wrapping_add(0x1000) & !0x1fff,
            })
        }
        _ => match c.round {
            Round::Rni => from_f64(v.round_ties_even(), to),
            Round::Rzi => from_f64(v.trunc(), to),
            Round::Rmi => from_f64(v.floor(), to),
            Round::Rpi => from_f64(v.ceil(), to),
            _ if from == to => raw & to.mask(),
            r => narrow(r, v, to),
        },
    };
    let out = flush(out, to, c.ftz);
    if !to.float() {
        return out;
    }
    let v = to_f64(out, to);
    if c.finite && v.is_infinite() {
        let largest = if to == Ty::F16 { f64::from(f16::MAX) } else { f64::from(bf16::MAX) };
        return if c.relu && v < 0.0 { 0 } else { from_f64(largest.copysign(v), to) };
    }
    if c.relu && v < 0.0 {
        return 0;
    }
    if c.sat {
        return from_f64(if v.is_nan() { 0.0 } else { v.clamp(0.0, 1.0) }, to);
    }
    out
}

/// The value of a 32-bit pattern, for tests of other families.
#[cfg(test)]
pub(crate) fn f(v: f32) -> u64 {
    u64::from(v.to_bits())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cvt(to: Ty, from: Ty, round: Round, a: u64, b: u64) -> u64 {
        convert(&Cvt { to, from, round, sat: false, finite: true, ftz: false, relu: false, width: to.bits() }, a, b)
    }

    #[test]
    fn single_precision() {
        let m = FloatMods::default();
        assert_eq!(apply(FloatFn::Fma, Ty::F32, m, f(2.0), f(3.0), f(1.0)), f(7.0));
        assert_eq!(apply(FloatFn::Max, Ty::F32, m, f(f32::NAN), f(1.0), 0), f(1.0));
        assert_eq!(apply(FloatFn::Max, Ty::F32, FloatMods { nan: true, ..m }, f(f32::NAN), f(1.0), 0), 0x7fff_ffff);
        assert_eq!(apply(FloatFn::Min, Ty::F32, m, f(0.0), f(-0.0), 0), f(-0.0));
        assert_eq!(apply(FloatFn::Add, Ty::F32, FloatMods { sat: true, ..m }, f(0.75), f(0.75), 0), f(1.0));
        assert_eq!(apply(FloatFn::Add, Ty::F32, FloatMods { ftz: true, ..m }, 1, 0, 0), 0);
        assert_eq!(apply(FloatFn::Neg, Ty::F32, m, f(1.0), 0, 0), f(-1.0));
    }

    #[test]
    fn packed_halves_are_two_operations() {
        let a = 0x3c00 | 0x4000 << 16; // 1, 2
        let out = apply(FloatFn::Add, Ty::F16x2, FloatMods::default(), a, a, 0);
        assert_eq!(out, 0x4000 | 0x4400 << 16);
    }

    #[test]
    fn conversions() {
        assert_eq!(cvt(Ty::F16, Ty::F32, Round::Rn, f(1.0 + 1.0 / 2048.0), 0), 0x3c00);
        assert_eq!(cvt(Ty::F16x2, Ty::F32, Round::Rn, f(2.0), f(1.0)), 0x4000_3c00);
        assert_eq!(cvt(Ty::Bf16x2, Ty::F32, Round::Rn, f(-1.0), f(1.0)), 0xbf80_3f80);
        assert_eq!(cvt(Ty::F32, Ty::F16, Round::None, 0x3555, 0), f(0.333_251_95));
        assert_eq!(cvt(Ty::S32, Ty::F32, Round::Rzi, f(-1.9), 0), (-1i32) as u32 as u64);
        assert_eq!(cvt(Ty::U32, Ty::F32, Round::Rni, f(2.5), 0), 2);
        assert_eq!(cvt(Ty::U32, Ty::F32, Round::Rzi, f(-2.5), 0), 0);
        assert_eq!(cvt(Ty::S32, Ty::F32, Round::Rzi, f(1e20), 0), i32::MAX as u64);
        assert_eq!(cvt(Ty::F32, Ty::S32, Round::Rn, (-3i32) as u32 as u64, 0), f(-3.0));
        assert_eq!(cvt(Ty::F32, Ty::U64, Round::Rn, (1 << 24) + 1 + (1 << 60), 0), f((1u64 << 60) as f32));
        assert_eq!(cvt(Ty::F32, Ty::S32, Round::Rz, 0x0100_0001, 0), f(16_777_216.0));
        assert_eq!(cvt(Ty::U16, Ty::U32, Round::None, 0x12345, 0), 0x2345);
        assert_eq!(cvt(Ty::F16x2, Ty::F32, Round::Rn, f(-1e9), f(1e9)), 0xfbff_7bff);
        let plain = Cvt {
            to: Ty::S8,
            from: Ty::S32,
            round: Round::None,
            sat: false,
            finite: false,
            ftz: false,
            relu: false,
            width: 32,
        };
        assert_eq!(
            convert(&Cvt { to: Ty::F16, from: Ty::F32, round: Round::Rn, width: 16, ..plain }, f(1e9), 0),
            0x7c00
        );
        let wide = Cvt { sat: true, ..plain };
        assert_eq!(convert(&wide, (-1000i32) as u32 as u64, 0), (-128i32) as u32 as u64);
        assert_eq!(cvt(Ty::Tf32, Ty::F32, Round::Rna, f(1.0 + 1.0 / 2048.0), 0), f(1.0 + 1.0 / 1024.0));
        assert_eq!(cvt(Ty::E4m3x2, Ty::F32, Round::Rn, f(1.0), f(500.0)), 0x387e);
    }

    #[test]
    fn comparisons_and_nan() {
        let n = f(f32::NAN);
        assert!(!compare(Cmp::Ne, Ty::F32, false, n, f(1.0)));
        assert!(compare(Cmp::Neu, Ty::F32, false, n, f(1.0)));
        assert!(compare(Cmp::Lt, Ty::S32, false, 0xffff_ffff, 0));
        assert!(!compare(Cmp::Lt, Ty::U32, false, 0xffff_ffff, 0));
        assert!(compare(Cmp::Nan, Ty::F32, false, n, 0));
    }
}
