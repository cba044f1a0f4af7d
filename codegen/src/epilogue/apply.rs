//! Functions as instructions: what the hardware approximates, made whole.
//!
//! `ex2`, `rcp`, `sqrt`, `rsqrt`, `lg2`, `sin` and `cos` are one instruction of the multi-function unit each. `tanh.approx` is too,
//! but with a relative error of 2^-11, so that hyperbolic tangents are made of exponentials instead.

use std::f64::consts::{LN_2, LOG2_E};

use super::functions::Function;
use super::program::Cmp;

/// sqrt(2 / pi) and the factor of the cube, in the tanh form of gelu (Hendrycks and Gimpel, arXiv:1606.08415).
const GELU: (f64, f64) = (0.797_884_560_802_865_4, 0.044_715);
/// Below this, tanh is a polynomial.
const TANH_LIMIT: f64 = 0.6;
/// tanh(x) = x + x^3 p(x^2) for |x| < 0.6, to 2^-26: interpolated at the Chebyshev nodes of x^2.
const TANH: [f64; 5] = [
    -0.333_333_303_327_330_85,
    0.133_329_153_670_213_58,
    -0.053_873_948_851_242_755,
    0.021_110_959_057_640_245,
    -0.006_269_119_728_486_935,
];
/// erfc(z) = exp(-z^2) t q(t) with t = 1 / (1 + z / 2), to 2^-21 for z in 0 .. 10: interpolated at Chebyshev nodes of t.
const ERFC: [f64; 9] = [
    0.282_082_676_887_512_2,
    0.282_445_043_325_424_2,
    0.242_572_888_731_956_48,
    0.204_853_653_907_775_88,
    -0.031_841_758_638_620_38,
    0.285_697_698_593_139_65,
    -0.493_863_642_215_728_76,
    0.287_768_304_347_991_94,
    -0.059_714_920_818_805_695,
];

/// A literal of PTX.
pub(super) fn literal(value: f32) -> String {
    format!("0f{:08X}", value.to_bits())
}

fn constant(value: f64) -> String {
    literal(value as f32)
}

/// A comparison as `setp` has it.
pub(super) fn condition(cmp: Cmp) -> &'static str {
    match cmp {
        Cmp::Lt => "lt",
        Cmp::Le => "le",
        Cmp::Gt => "gt",
        Cmp::Ge => "ge",
        Cmp::Eq => "eq",
        // True where one of them is a NaN.
        Cmp::Ne => "neu",
    }
}

/// The instructions that put `function` of `x` into `to`, which may be `x`.
pub(super) fn apply(function: Function, to: &str, x: &str) -> Vec<String> {
    let one = constant(1.0);
    match function {
        Function::Abs => vec![format!("abs.f32 {to}, {x}")],
        Function::Reciprocal => vec![format!("rcp.approx.f32 {to}, {x}")],
        Function::Sqrt => vec![format!("sqrt.approx.f32 {to}, {x}")],
        Function::Rsqrt => vec![format!("rsqrt.approx.f32 {to}, {x}")],
        Function::Sin => vec![format!("sin.approx.f32 {to}, {x}")],
        Function::Cos => vec![format!("cos.approx.f32 {to}, {x}")],
        Function::Floor => vec![format!("cvt.rmi.f32.f32 {to}, {x}")],
        Function::Log => {
            vec![format!("lg2.approx.f32 %f_step0, {x}"), format!("mul.f32 {to}, %f_step0, {}", constant(LN_2))]
        }
        Function::Exp => {
            vec![format!("mul.f32 %f_step0, {x}, {}", constant(LOG2_E)), format!("ex2.approx.ftz.f32 {to}, %f_step0")]
        }
        Function::Sigmoid => {
            let mut lines = vec![format!("mul.f32 %f_step0, {x}, {}", constant(-LOG2_E))];
            lines.extend(logistic(to, &one));
            lines
        }
        Function::Silu => {
            let mut lines = vec![format!("mul.f32 %f_step0, {x}, {}", constant(-LOG2_E))];
            lines.extend(logistic("%f_step0", &one));
            lines.push(format!("mul.f32 {to}, {x}, %f_step0"));
            lines
        }
        // (1 + tanh u) / 2 is the logistic function of 2 u.
        Function::Gelu => {
            let linear = -2.0 * LOG2_E * GELU.0;
            let mut lines = vec![
                format!("mul.f32 %f_step0, {x}, {x}"),
                format!("fma.rn.f32 %f_step0, %f_step0, {}, {}", constant(linear * GELU.1), constant(linear)),
                format!("mul.f32 %f_step0, %f_step0, {x}"),
            ];
            lines.extend(logistic("%f_step0", &one));
            lines.push(format!("mul.f32 {to}, {x}, %f_step0"));
            lines
        }
        Function::Tanh => tanh(to, x, &one),
        Function::GeluErf => gelu_erf(to, x, &one),
    }
}

/// 1 / (1 + 2^y), y in `%f_step0`.
fn logistic(to: &str, one: &str) -> [String; 3] {
    [
        "ex2.approx.ftz.f32 %f_step0, %f_step0".to_owned(),
        format!("add.f32 %f_step0, %f_step0, {one}"),
        format!("rcp.approx.ftz.f32 {to}, %f_step0"),
    ]
}

/// A polynomial of `variable` in `%f_step1`, by Horner's rule.
fn polynomial(coefficients: &[f64], variable: &str) -> Vec<String> {
    let mut coefficients = coefficients.iter().rev();
    let mut from = coefficients.next().map(|highest| constant(*highest)).unwrap_or_default();
    let mut lines = vec![];
    for next in coefficients {
        lines.push(match from.starts_with('%') {
            // Two constants: the variable comes first.
            false => format!("fma.rn.f32 %f_step1, {variable}, {from}, {}", constant(*next)),
            true => format!("fma.rn.f32 %f_step1, %f_step1, {variable}, {}", constant(*next)),
        });
        from = "%f_step1".to_owned();
    }
    lines
}

/// A polynomial near 0, elsewhere 1 - 2 / (1 + e^2|x|) with the sign of x.
fn tanh(to: &str, x: &str, one: &str) -> Vec<String> {
    let mut lines = vec![format!("mul.f32 %f_step0, {x}, {x}")];
    lines.extend(polynomial(&TANH, "%f_step0"));
    lines.push("mul.f32 %f_step1, %f_step1, %f_step0".to_owned());
    lines.push(format!("fma.rn.f32 %f_step1, %f_step1, {x}, {x}"));
    lines.push(format!("abs.f32 %f_step2, {x}"));
    lines.push(format!("mul.f32 %f_step0, %f_step2, {}", constant(2.0 * LOG2_E)));
    lines.extend(logistic("%f_step0", one));
    lines.push(format!("fma.rn.f32 %f_step0, %f_step0, {}, {one}", constant(-2.0)));
    lines.push(format!("setp.lt.f32 %p_near, %f_step2, {}", constant(TANH_LIMIT)));
    lines.push(format!("and.b32 %f_step2, {x}, 0x80000000"));
    lines.push("or.b32 %f_step0, %f_step0, %f_step2".to_owned());
    lines.push(format!("selp.f32 {to}, %f_step1, %f_step0, %p_near"));
    lines
}

/// x Phi(x), where Phi(-|x|) = erfc(|x| / sqrt(2)) / 2 and Phi(|x|) is what that leaves of 1.
fn gelu_erf(to: &str, x: &str, one: &str) -> Vec<String> {
    let halves = ERFC.map(|coefficient| coefficient / 2.0);
    let mut lines = vec![
        format!("abs.f32 %f_step0, {x}"),
        format!("fma.rn.f32 %f_step0, %f_step0, {}, {one}", constant(std::f64::consts::FRAC_1_SQRT_2 / 2.0)),
        "rcp.approx.ftz.f32 %f_step0, %f_step0".to_owned(),
    ];
    lines.extend(polynomial(&halves, "%f_step0"));
    lines.extend([
        "mul.f32 %f_step1, %f_step1, %f_step0".to_owned(),
        format!("mul.f32 %f_step0, {x}, {x}"),
        format!("mul.f32 %f_step0, %f_step0, {}", constant(-LOG2_E / 2.0)),
        "ex2.approx.ftz.f32 %f_step0, %f_step0".to_owned(),
        "mul.f32 %f_step1, %f_step1, %f_step0".to_owned(),
        format!("sub.f32 %f_step0, {one}, %f_step1"),
        format!("setp.lt.f32 %p_near, {x}, {}", constant(0.0)),
        "selp.f32 %f_step0, %f_step1, %f_step0, %p_near".to_owned(),
        format!("mul.f32 {to}, {x}, %f_step0"),
    ]);
    lines
}
