//! Instructions of f64: arithmetic with one rounding, conversions that are exact, memory, and shuffles of halves. What
//! they must give is what Rust's own f64 gives, bit for bit (PTX ISA, "fma", "add", "mul", "cvt", "ld", "st",
//! "shfl.sync").

use crate::formats::run;
use bsr_simulator::Options;
use half::{bf16, f16};

const SM_80: &str = ".version 7.4\n.target sm_80";
const LANES: usize = 32;

/// Zeros of both signs, infinities, a NaN, a denormal number, one that rounds, and numbers of many sizes.
fn values(seed: u64) -> Vec<f64> {
    let special = [0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, f64::MIN_POSITIVE / 8.0, 1.0 + f64::EPSILON];
    let drawn = (0..).map(|i: u64| {
        let bits = (seed + i).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let bits = (bits ^ bits >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        // Exponents of -32 to 31.
        f64::from_bits(bits & !(0x7ff << 52) | (1023 - 32 + (bits >> 52) % 64) << 52)
    });
    let offset = (seed % 7) as usize;
    special.into_iter().cycle().skip(offset).take(7).chain(drawn).take(LANES).collect()
}

/// Runs `body` in one warp, with `%rd5` the address of a thread's element of the input, of so many bytes; gives what it
/// leaves in `%d0`.
fn warp(input: Vec<u8>, bytes: usize, body: &str) -> Vec<f64> {
    let body = format!(
        ".reg .f64 %d<8>;\nmad.wide.u32 %rd5, %r0, {bytes}, %rd0;\nmad.wide.u32 %rd6, %r0, 8, %rd1;\n{body}\n\
         st.global.f64 [%rd6], %d0;"
    );
    let (report, out) = run(SM_80, LANES as u32, &[input, vec![0xFF; 8 * LANES]], &body, &Options::default());
    assert!(report.is_clean(), "{}", report.findings[0]);
    out[1].chunks(8).map(|value| f64::from_le_bytes(value.try_into().unwrap())).collect()
}

fn bytes(values: impl IntoIterator<Item = f64>) -> Vec<u8> {
    values.into_iter().flat_map(f64::to_le_bytes).collect()
}

/// Equal bit for bit, but that NaNs are all one.
fn assert_equal(got: &[f64], want: impl Iterator<Item = f64>, what: &str) {
    for (lane, (got, want)) in got.iter().zip(want).enumerate() {
        assert!(got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan(), "{what} {lane}: {got:e}, {want:e}");
    }
}

#[test]
fn arithmetic_rounds_once() {
    let (x, y, z) = (values(1), values(2), values(3));
    let input = || bytes((0..LANES).flat_map(|i| [x[i], y[i], z[i], 0.0]));
    let load = "ld.global.nc.v2.f64 {%d1, %d2}, [%rd5];\nld.global.nc.f64 %d3, [%rd5 + 16];";
    let of = |instruction: &str| warp(input(), 32, &format!("{load}\n{instruction}"));
    let each = |f: fn(f64, f64, f64) -> f64| (0..LANES).map(|i| f(x[i], y[i], z[i])).collect::<Vec<_>>().into_iter();
    assert_equal(&of("fma.rn.f64 %d0, %d1, %d2, %d3;"), each(|x, y, z| x.mul_add(y, z)), "fma");
    assert_equal(&of("add.f64 %d0, %d1, %d2;"), each(|x, y, _| x + y), "add");
    assert_equal(&of("mul.f64 %d0, %d1, %d2;"), each(|x, y, _| x * y), "mul");
    // Two roundings would lose this.
    let small = (1.0 + f64::EPSILON).mul_add(1.0 - f64::EPSILON, -1.0);
    let input = bytes((0..LANES).flat_map(|_| [1.0 + f64::EPSILON, 1.0 - f64::EPSILON]));
    let body = "ld.global.v2.f64 {%d1, %d2}, [%rd5];\nmov.f64 %d3, 0dBFF0000000000000;\nfma.rn.f64 %d0, %d1, %d2, %d3;";
    assert!(warp(input, 16, body).iter().all(|got| *got == small && small != 0.0));
}

#[test]
fn narrower_types_widen_exactly() {
    let of_f32: Vec<f32> = values(4).iter().map(|x| *x as f32).collect();
    let input = of_f32.iter().flat_map(|x| x.to_le_bytes()).collect();
    let got = warp(input, 4, "ld.global.f32 %f1, [%rd5];\ncvt.f64.f32 %d0, %f1;");
    assert_equal(&got, of_f32.iter().map(|x| f64::from(*x)), "f32");

    let of_f16: Vec<f16> = values(5).iter().map(|x| f16::from_f64(*x)).collect();
    let input = of_f16.iter().flat_map(|x| x.to_le_bytes()).collect();
    let got = warp(input, 2, "ld.global.b16 %h1, [%rd5];\ncvt.f64.f16 %d0, %h1;");
    assert_equal(&got, of_f16.iter().map(|x| x.to_f64()), "f16");

    let of_bf16: Vec<bf16> = values(6).iter().map(|x| bf16::from_f64(*x)).collect();
    let input = of_bf16.iter().flat_map(|x| x.to_le_bytes()).collect();
    let body = "mov.b16 %h0, 0;\nld.global.b16 %h1, [%rd5];\nmov.b32 %f1, {%h0, %h1};\ncvt.f64.f32 %d0, %f1;";
    assert_equal(&warp(input, 2, body), of_bf16.iter().map(|x| x.to_f64()), "bf16");
}

#[test]
fn halves_travel_between_threads() {
    let x = values(7);
    let body = "ld.global.f64 %d1, [%rd5];\nmov.b64 {%r2, %r3}, %d1;\nshfl.sync.down.b32 %r2, %r2, 6, 6175, 0xffffffff;\n\
                shfl.sync.down.b32 %r3, %r3, 6, 6175, 0xffffffff;\nmov.b64 %d0, {%r2, %r3};";
    // Groups of 8 threads, (32 - 8) << 8 | 31: who has no partner in its own keeps its value.
    let partner = |lane: usize| if lane % 8 + 6 < 8 { lane + 6 } else { lane };
    assert_equal(&warp(bytes(x.clone()), 8, body), (0..LANES).map(|lane| x[partner(lane)]), "shfl");
}

#[test]
fn vectors_are_stored_in_order() {
    let x = values(8);
    let body = "ld.global.f64 %d0, [%rd5];\nmad.wide.u32 %rd7, %r0, 16, %rd1;\nadd.f64 %d1, %d0, %d0;\n\
                st.global.v2.f64 [%rd7], {%d0, %d1};";
    let head = ".reg .f64 %d<8>;\nmad.wide.u32 %rd5, %r0, 8, %rd0;\n";
    let buffers = [bytes(x.clone()), vec![0xFF; 16 * LANES]];
    let (report, out) = run(SM_80, LANES as u32, &buffers, &format!("{head}{body}"), &Options::default());
    assert!(report.is_clean(), "{}", report.findings[0]);
    let got: Vec<f64> = out[1].chunks(8).map(|value| f64::from_le_bytes(value.try_into().unwrap())).collect();
    assert_equal(&got, x.iter().flat_map(|x| [*x, x + x]), "v2");
}
