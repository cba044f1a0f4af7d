//! Values, roundings and edges of every type.

#![allow(clippy::unwrap_used)]

use std::cmp::Ordering;

use super::*;

/// Every finite f16, ascending.
fn finite_f16() -> Vec<f64> {
    let mut all: Vec<f64> = (0..=u16::MAX).map(f16::from_bits).filter(|v| v.is_finite()).map(Element::to_f64).collect();
    all.sort_by(f64::total_cmp);
    all.dedup();
    all
}

#[test]
fn every_f16_survives_the_round_trip() {
    for v in finite_f16() {
        assert_eq!(<f16 as Element>::from_f64(v).to_f64(), v);
    }
}

#[test]
fn a_value_just_beside_a_tie_goes_to_its_side() {
    // 1 + 2^-11 is half way between 1 and the next f16, 1 + 2^-10; 2^-40 is lost in f32.
    let (tie, hair) = (1.0 + 2f64.powi(-11), 2f64.powi(-40));
    assert_eq!(<f16 as Element>::from_f64(tie).to_f64(), 1.0);
    assert_eq!(<f16 as Element>::from_f64(tie + hair).to_f64(), 1.0 + 2f64.powi(-10));
    assert_eq!(<f16 as Element>::from_f64(-tie - hair).to_f64(), -1.0 - 2f64.powi(-10));
    let tie = 1.0 + 2f64.powi(-10) + 2f64.powi(-11);
    assert_eq!(<f16 as Element>::from_f64(tie).to_f64(), 1.0 + 2f64.powi(-9));
    assert_eq!(<f16 as Element>::from_f64(tie - hair).to_f64(), 1.0 + 2f64.powi(-10));

    let tie = 1.0 + 2f64.powi(-8);
    assert_eq!(<bf16 as Element>::from_f64(tie).to_f64(), 1.0);
    assert_eq!(<bf16 as Element>::from_f64(tie + hair).to_f64(), 1.0 + 2f64.powi(-7));
}

#[test]
fn the_middle_of_every_f16_pair_rounds_to_even_and_its_neighbours_apart() {
    for pair in finite_f16().windows(2) {
        let (low, high) = (pair[0], pair[1]);
        let middle = (low + high) / 2.0;
        let hair = (high - low) * 2f64.powi(-30);
        assert_eq!(<f16 as Element>::from_f64(middle - hair).to_f64(), low);
        assert_eq!(<f16 as Element>::from_f64(middle + hair).to_f64(), high);
        assert_eq!(<f16 as Element>::from_f64(middle).to_bits() & 1, 0, "{middle}");
    }
}

#[test]
fn the_edges_of_the_range() {
    assert!(!Element::is_finite(<f16 as Element>::from_f64(65_520.0)));
    assert_eq!(<f16 as Element>::from_f64(65_519.0).to_f64(), <f16 as Element>::LARGEST);
    assert_eq!(<f16 as Element>::LARGEST, f16::MAX.to_f64());
    assert_eq!(<bf16 as Element>::LARGEST, bf16::MAX.to_f64());
    assert_eq!(<bf16 as Element>::from_f64(1e300), bf16::INFINITY);
    assert_eq!(<f16 as Element>::from_f64(-1e-300).to_bits(), 0x8000);
    assert!(<bf16 as Element>::from_f64(f64::NAN).is_nan());
    assert_eq!(<f16 as Element>::from_f64(f64::NEG_INFINITY), f16::NEG_INFINITY);
}

#[test]
fn bytes_are_little_endian_and_come_back() {
    let values = [1.0f32, -2.5, f32::MIN_POSITIVE, f32::INFINITY];
    assert_eq!(f32::to_bytes(&values)[..4], [0, 0, 0x80, 0x3F]);
    assert_eq!(f32::from_bytes(&f32::to_bytes(&values)), values);
    let halves: Vec<f16> = finite_f16().into_iter().map(<f16 as Element>::from_f64).collect();
    assert_eq!(f16::from_bytes(&f16::to_bytes(&halves)), halves);
    assert_eq!(bf16::to_bytes(&[bf16::ONE]), [0x80, 0x3F]);
    assert_eq!(bf16::from_bytes(&[0x80, 0x3F, 0x80]), [bf16::ONE]);
}

#[test]
fn widening_is_exact() {
    let halves: Vec<f16> = (0..1000).map(|i| f16::from_bits(i * 31)).collect();
    let mut wide = vec![0.0; halves.len()];
    Element::widen(&halves, &mut wide);
    assert!(halves.iter().zip(&wide).all(|(h, w)| h.to_f64() == *w));
}

/// A value of an 8-bit format, from its definition: sign, exponent, mantissa.
fn defined(bits: u8, mantissa_bits: i32, bias: i32) -> f64 {
    let (stored, mantissa) = (i32::from(bits & 0x7F) >> mantissa_bits, i32::from(bits) & ((1 << mantissa_bits) - 1));
    let fraction = f64::from(mantissa) / f64::from(1 << mantissa_bits);
    let magnitude = match stored {
        0 => fraction * 2f64.powi(1 - bias),
        _ => (1.0 + fraction) * 2f64.powi(stored - bias),
    };
    if bits & 0x80 == 0 { magnitude } else { -magnitude }
}

#[test]
fn every_byte_is_the_fp8_value_that_the_format_defines() {
    for bits in 0..=u8::MAX {
        let value = e4m3::from_bits(bits);
        match bits & 0x7F {
            0x7F => assert!(value.is_nan() && !Element::is_finite(value) && value.to_f64().is_nan()),
            _ => {
                assert!(Element::is_finite(value) && !value.is_nan());
                assert_eq!(value.to_f64().to_bits(), defined(bits, 3, 7).to_bits(), "{bits:#x}");
            }
        }
        let value = e5m2::from_bits(bits);
        match bits & 0x7F {
            0x7D.. => assert!(value.is_nan() && !Element::is_finite(value) && value.to_f64().is_nan()),
            0x7C => {
                assert!(!Element::is_finite(value) && !value.is_nan());
                assert_eq!(value.to_f64(), if bits < 0x80 { f64::INFINITY } else { f64::NEG_INFINITY });
            }
            _ => {
                assert!(Element::is_finite(value) && !value.is_nan());
                assert_eq!(value.to_f64().to_bits(), defined(bits, 2, 15).to_bits(), "{bits:#x}");
            }
        }
    }
    assert_eq!([e4m3::MAX, e4m3::MIN, e4m3::ONE, e4m3::MIN_POSITIVE].map(f64::from), [448.0, -448.0, 1.0, 0.015_625]);
    assert_eq!([e5m2::MAX, e5m2::MIN, e5m2::ONE].map(f64::from), [57_344.0, -57_344.0, 1.0]);
    assert_eq!(f64::from(e5m2::MIN_POSITIVE), 2f64.powi(-14));
    assert_eq!((e4m3::LARGEST, e5m2::LARGEST), (448.0, 57_344.0));
}

/// The byte that is nearest to `value` of all finite ones, the even one of two, by looking at each.
fn nearest(value: f64, finite: &[(f64, u8)]) -> u8 {
    let distance = |entry: &(f64, u8)| (entry.0 - value.abs()).abs();
    let better = |a: &&(f64, u8), b: &&(f64, u8)| match distance(a).total_cmp(&distance(b)) {
        Ordering::Equal => (a.1 & 1).cmp(&(b.1 & 1)),
        order => order,
    };
    let found = finite.iter().min_by(better).unwrap().1;
    found | if value.is_sign_negative() { 0x80 } else { 0 }
}

fn rounds_to_the_nearest(finite: &[(f64, u8)], convert: impl Fn(f64) -> u8, from_f32: impl Fn(f32) -> u8) {
    let both = |value: f64| [value, -value];
    // Around every value, every middle of two, and every quarter; the neighbours in f64 decide.
    for pair in finite.windows(2) {
        let (low, high) = (pair[0].0, pair[1].0);
        for point in [low, 0.75 * low + 0.25 * high, (low + high) / 2.0, 0.25 * low + 0.75 * high, high] {
            for value in [point.next_down().max(0.0), point, point.next_up()].into_iter().flat_map(both) {
                assert_eq!(convert(value), nearest(value, finite), "{value:e}");
            }
        }
    }
    // Every f16 is exact in f64; those beyond the range saturate.
    for value in (0..=u16::MAX).map(|bits| f16::from_bits(bits).to_f64()).filter(|value| !value.is_nan()) {
        let largest = finite.last().unwrap().0;
        let want = nearest(value.clamp(-largest, largest), finite);
        assert_eq!((convert(value), from_f32(value as f32)), (want, want), "{value:e}");
    }
    let (smallest, (_, top)) = (finite[1].0, *finite.last().unwrap());
    for tiny in [5e-324, f64::MIN_POSITIVE, 1e-300, smallest / 2.0, (smallest / 2.0).next_down()] {
        assert_eq!((convert(tiny), convert(-tiny)), (0, 0x80), "{tiny:e}");
    }
    assert_eq!(convert((smallest / 2.0).next_up()), 1);
    for huge in [1e6, 1e300, f64::MAX, f64::INFINITY] {
        assert_eq!((convert(huge), convert(-huge)), (top, top | 0x80), "{huge:e}");
    }
    assert_eq!((convert(f64::NAN), convert(-f64::NAN), from_f32(f32::NAN)), (0x7F, 0x7F, 0x7F));
}

#[test]
fn fp8_is_rounded_to_the_nearest_even_once_and_saturates() {
    let finite: Vec<(f64, u8)> = (0..=0x7E).map(|bits| (defined(bits, 3, 7), bits)).collect();
    rounds_to_the_nearest(&finite, |v| <e4m3 as Element>::from_f64(v).to_bits(), |v| e4m3::from_f32(v).to_bits());
    let finite: Vec<(f64, u8)> = (0..=0x7B).map(|bits| (defined(bits, 2, 15), bits)).collect();
    rounds_to_the_nearest(&finite, |v| <e5m2 as Element>::from_f64(v).to_bits(), |v| e5m2::from_f32(v).to_bits());
}

#[test]
fn fp8_compares_and_prints_as_a_float() {
    assert_eq!(e4m3::from_bits(0x80), e4m3::ZERO);
    assert_ne!(e4m3::NAN, e4m3::NAN);
    assert_ne!(e5m2::from_bits(0xFE), e5m2::from_bits(0xFE));
    assert!(e4m3::MIN < e4m3::ZERO && e5m2::ONE < e5m2::MAX && e4m3::NAN.partial_cmp(&e4m3::ONE).is_none());
    assert_eq!(format!("{} {:?} {:8.3}", e4m3::MAX, e5m2::from_f64(-0.5), e4m3::from_f64(1.1)), "448 -0.5    1.125");
}

#[test]
fn integers_round_to_the_nearest_even_saturate_and_have_no_nan() {
    for (value, want) in [(0.5, 0), (1.5, 2), (2.5, 2), (-0.5, 0), (-1.5, -2), (126.6, 127), (0.499, 0)] {
        assert_eq!((<i8 as Element>::from_f64(value), <i32 as Element>::from_f64(value)), (want, i32::from(want)));
    }
    for (value, want) in [(127.5, 127), (1e300, 127), (f64::INFINITY, 127), (-128.5, -128), (-1e9, -128)] {
        assert_eq!(<i8 as Element>::from_f64(value), want);
    }
    assert_eq!(<i32 as Element>::from_f64(f64::NEG_INFINITY), i32::MIN);
    assert_eq!(<i32 as Element>::from_f64(2_147_483_647.5), i32::MAX);
    assert_eq!((<i8 as Element>::from_f64(f64::NAN), <i32 as Element>::from_f64(f64::NAN)), (0, 0));
    for value in i8::MIN..=i8::MAX {
        assert_eq!(<i8 as Element>::from_f64(value.to_f64()), value);
    }
    assert_eq!(i32::MAX.to_f64(), i32::LARGEST);
    assert!(i8::saturates() && e4m3::saturates() && !f16::saturates() && !f32::saturates());
}

#[test]
fn poison_is_made_of_its_byte_and_is_no_result() {
    fn check<T: Element>() {
        let bytes = vec![T::POISON_BYTE; size_of::<T>()];
        let poison = T::from_bytes(&bytes)[0];
        assert_eq!(T::to_bytes(&[T::POISON]), bytes, "{}", T::DTYPE);
        assert_eq!(poison.is_finite(), T::DTYPE.is_integer());
        assert!(!poison.is_finite() || poison == T::POISON);
        assert_eq!(size_of::<T>() as u32, T::DTYPE.bytes());
    }
    check::<f16>();
    check::<bf16>();
    check::<f32>();
    check::<e4m3>();
    check::<e5m2>();
    check::<i8>();
    check::<i32>();
    assert_eq!((i8::POISON, i32::POISON), (-128, -2_139_062_144));
}

#[test]
fn eight_bit_values_are_bytes() {
    let all: Vec<u8> = (0..=u8::MAX).collect();
    assert_eq!(e4m3::to_bytes(&e4m3::from_bytes(&all)), all);
    assert_eq!(e5m2::to_bytes(&e5m2::from_bytes(&all)), all);
    assert_eq!(i8::from_bytes(&[0xFF, 0x80]), [-1, -128]);
    assert_eq!(i32::to_bytes(&[-2]), [0xFE, 0xFF, 0xFF, 0xFF]);
    let mut wide = [0.0; 2];
    i32::widen(&[i32::MAX, -1], &mut wide);
    assert_eq!(wide, [2_147_483_647.0, -1.0]);
}
