//! Number formats: bits to values and back.

use std::sync::LazyLock;

use half::{bf16, f16};

use crate::program::types::Ty;

static HALF: LazyLock<Vec<f32>> = LazyLock::new(|| (0..=u16::MAX).map(|b| f16::from_bits(b).to_f32()).collect());

static QUARTER: LazyLock<Vec<f32>> = LazyLock::new(|| (0..=u8::MAX).map(e4m3).collect());

/// The bits of up to 8 bytes of memory.
#[inline]
pub(crate) fn raw(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |v, b| v << 8 | u64::from(*b))
}

/// The value of the low bits of `raw`, exactly.
#[inline]
pub(crate) fn to_f32(raw: u64, ty: Ty) -> f32 {
    match ty {
        Ty::F16 => HALF[(raw & 0xffff) as usize],
        Ty::Bf16 => f32::from_bits((raw as u32) << 16),
        Ty::Tf32 => f32::from_bits(raw as u32 & !0x1fff),
        Ty::E4m3 => QUARTER[(raw & 0xff) as usize],
        Ty::E5m2 => HALF[((raw & 0xff) << 8) as usize],
        _ => f32::from_bits(raw as u32),
    }
}

/// The values of elements that are contiguous in memory, exactly.
pub(crate) fn widen(bytes: &[u8], ty: Ty, out: &mut Vec<f32>) {
    let halves = bytes.as_chunks::<2>().0.iter().map(|raw| u16::from_le_bytes(*raw));
    match ty {
        Ty::F16 => {
            let table: &[f32] = &HALF;
            out.extend(halves.map(|raw| table[usize::from(raw)]));
        }
        Ty::Bf16 => out.extend(halves.map(|raw| f32::from_bits(u32::from(raw) << 16))),
        Ty::E4m3 => {
            let table: &[f32] = &QUARTER;
            out.extend(bytes.iter().map(|raw| table[usize::from(*raw)]));
        }
        Ty::E5m2 => {
            let table: &[f32] = &HALF;
            out.extend(bytes.iter().map(|raw| table[usize::from(*raw) << 8]));
        }
        _ => {
            let words = bytes.as_chunks::<4>().0.iter();
            out.extend(words.map(|raw| to_f32(u64::from(u32::from_le_bytes(*raw)), ty)));
        }
    }
}

fn e4m3(b: u8) -> f32 {
    let sign = if b & 0x80 == 0 { 1.0 } else { -1.0 };
    let (e, m) = (i32::from(b >> 3 & 15), f32::from(b & 7));
    match (e, b & 7) {
        (15, 7) => f32::NAN,
        (0, _) => sign * m * 2f32.powi(-9),
        _ => sign * (1.0 + m / 8.0) * 2f32.powi(e - 7),
    }
}

/// e4m3 or e5m2, to nearest even, saturating to the largest finite value.
pub(crate) fn to_fp8(v: f32, ty: Ty) -> u8 {
    let (mantissa, bias, max) = if ty == Ty::E4m3 { (3, 7, 448.0) } else { (2, 15, 57344.0) };
    let sign = if v.is_sign_negative() { 0x80 } else { 0 };
    if v.is_nan() {
        return 0x7f;
    }
    let a = f64::from(v.abs()).min(max);
    if a == 0.0 {
        return sign;
    }
    let e = (a.log2().floor() as i32).max(1 - bias);
    let unit = 2f64.powi(e - mantissa);
    let steps = (a / unit).round_ties_even();
    let value = (steps * unit).min(max);
    // Encode the rounded value.
    let e = if value < 2f64.powi(1 - bias) { 1 - bias } else { value.log2().floor() as i32 };
    let scaled = (value / 2f64.powi(e - mantissa)) as u32;
    let hidden = 1 << mantissa;
    let bits = if scaled < hidden { scaled } else { ((e + bias) as u32) << mantissa | (scaled - hidden) };
    sign | bits as u8
}

/// The nearest TF32 of the bits of an f32, ties to even; infinities and NaN as they are.
pub(crate) fn nearest_tf32(bits: u32) -> u32 {
    let is_finite = f32::from_bits(bits).is_finite();
    if is_finite { bits.wrapping_add(0xfff + (bits >> 13 & 1)) & !0x1fff } else { bits }
}

/// Rounding of an `f32` or `f64` to a narrower format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Nearest,
    Zero,
    Down,
    Up,
}

/// Steps the 16- or 32-bit pattern nearest to `v` so that it is on the side that `d` requires.
fn directed(nearest: u32, value: impl Fn(u32) -> f64, v: f64, d: Direction, sign: u32) -> u32 {
    let low = match d {
        Direction::Nearest => return nearest,
        Direction::Zero => v > 0.0,
        Direction::Down => true,
        Direction::Up => false,
    };
    let at = value(nearest);
    if v.is_nan() || at == v {
        return nearest;
    }
    let step_down = low && at > v;
    let step_up = !low && at < v;
    if !(step_down || step_up) {
        return nearest;
    }
    let negative = nearest & sign != 0;
    let magnitude = nearest & (sign - 1);
    match (negative, step_down) {
        (false, true) if magnitude > 0 => magnitude - 1,
        (false, true) => sign | 1,
        (false, false) => magnitude + 1,
        (true, true) => sign | (magnitude + 1),
        (true, false) if magnitude > 0 => sign | (magnitude - 1),
        (true, false) => 1,
    }
}

pub(crate) fn round_f16(v: f64, d: Direction) -> u16 {
    let nearest = u32::from(f16::from_f64(v).to_bits());
    directed(nearest, |b| f16::from_bits(b as u16).to_f64(), v, d, 0x8000) as u16
}

pub(crate) fn round_bf16(v: f64, d: Direction) -> u16 {
    let nearest = u32::from(bf16::from_f64(v).to_bits());
    directed(nearest, |b| bf16::from_bits(b as u16).to_f64(), v, d, 0x8000) as u16
}

pub(crate) fn round_f32(v: f64, d: Direction) -> u32 {
    directed((v as f32).to_bits(), |b| f64::from(f32::from_bits(b)), v, d, 1 << 31)
}

/// The value of a scalar float of type `ty`.
#[inline]
pub(crate) fn to_f64(raw: u64, ty: Ty) -> f64 {
    match ty {
        Ty::F64 => f64::from_bits(raw),
        _ => f64::from(to_f32(raw, ty)),
    }
}

/// The bits of `v` in the scalar type `ty`, to nearest even; NaN is canonical.
#[inline]
pub(crate) fn from_f64(v: f64, ty: Ty) -> u64 {
    match ty {
        Ty::F64 => v.to_bits(),
        Ty::F16 if v.is_nan() => 0x7fff,
        Ty::Bf16 if v.is_nan() => 0x7fff,
        Ty::F16 => u64::from(round_f16(v, Direction::Nearest)),
        Ty::Bf16 => u64::from(round_bf16(v, Direction::Nearest)),
        _ if v.is_nan() => 0x7fff_ffff,
        _ => u64::from((v as f32).to_bits()),
    }
}

/// The scalar type of a packed type.
#[inline]
pub(crate) fn scalar(ty: Ty) -> Ty {
    match ty {
        Ty::F16x2 => Ty::F16,
        Ty::Bf16x2 => Ty::Bf16,
        Ty::E4m3x2 => Ty::E4m3,
        Ty::E5m2x2 => Ty::E5m2,
        other => other,
    }
}

/// Addition in a memory type, as atomics do it.
pub(crate) fn add(a: u64, b: u64, ty: Ty) -> u64 {
    match ty {
        Ty::F16x2 | Ty::Bf16x2 => {
            let s = scalar(ty);
            add(a & 0xffff, b & 0xffff, s) | add(a >> 16 & 0xffff, b >> 16 & 0xffff, s) << 16
        }
        Ty::F32 => u64::from((f32::from_bits(a as u32) + f32::from_bits(b as u32)).to_bits()),
        t if t.float() => from_f64(to_f64(a, t) + to_f64(b, t), t),
        _ => a.wrapping_add(b) & ty.mask(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eight_bit_floats_round_trip() {
        for ty in [Ty::E4m3, Ty::E5m2] {
            for b in 0..=255u8 {
                let v = to_f32(u64::from(b), ty);
                if v.is_finite() {
                    assert_eq!(to_fp8(v, ty), b, "{ty:?} {b:#x} {v}");
                }
            }
        }
        assert_eq!(to_fp8(1e9, Ty::E4m3), 0x7e);
        assert_eq!(to_fp8(-1e9, Ty::E5m2), 0xfb);
        assert_eq!(to_fp8(17.0, Ty::E4m3), to_fp8(16.0, Ty::E4m3));
    }

    #[test]
    fn directed_rounding() {
        let v = 1.0 + 1.0 / 4096.0;
        assert_eq!(round_f16(v, Direction::Zero), 0x3c00);
        assert_eq!(round_f16(v, Direction::Up), 0x3c01);
        assert_eq!(round_f16(-v, Direction::Up), 0xbc00);
        assert_eq!(round_f16(-v, Direction::Down), 0xbc01);
        assert_eq!(round_bf16(-v, Direction::Zero), 0xbf80);
        assert_eq!(round_f32(0.1, Direction::Down).abs_diff(round_f32(0.1, Direction::Up)), 1);
    }
}
