//! The functions of epilogues as instructions, against the same expressions in f64, over all of f32.
//!
//! Approximate instructions are computed here to better than the ISA's bounds: what shows is the error of the formulas.

use bsr_codegen::Epilogue;
use bsr_codegen::epilogue::Element;
use bsr_simulator::{GlobalMemory, Launch, Options, Param, parse, simulate};

/// Threads of a block.
const THREADS: usize = 1024;

/// What the instructions of `|| body` make of every value.
fn run(epilogue: Epilogue, values: &[f32]) -> Vec<f32> {
    let lines: String = epilogue.program().instructions("%f_acc0").iter().map(|line| format!("{line};\n")).collect();
    let text = format!(
        ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 data)\n.maxntid 1024, 1, 1\n{{\n\
         .reg .b16 %h_rounded;\n.reg .b32 %r<4>;\n.reg .b64 %rd<4>;\n.reg .f32 %f_acc<1>, %f_value<64>, %f_step<4>, \
         %f_scalar<16>;\n.reg .pred %p_near, %p_choice;\n\
         ld.param.u64 %rd0, [data];\ncvta.to.global.u64 %rd0, %rd0;\nmov.u32 %r0, %tid.x;\nmov.u32 %r1, %ctaid.x;\n\
         mad.lo.u32 %r0, %r1, {THREADS}, %r0;\nmad.wide.u32 %rd1, %r0, 4, %rd0;\nld.global.f32 %f_acc0, [%rd1];\n\
         {lines}st.global.f32 [%rd1], %f_acc0;\nret;\n}}\n"
    );
    let module = parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let mut memory = GlobalMemory::new();
    let id = memory.upload(values.iter().flat_map(|value| value.to_le_bytes()).collect(), 256);
    let launch = Launch {
        grid: [(values.len() / THREADS) as u32, 1, 1],
        cluster: [1; 3],
        block: [THREADS as u32, 1, 1],
        shared_bytes: 0,
        params: vec![Param::Buffer(id)],
    };
    let report = simulate(&module, "k", &launch, &mut memory, &Options::default()).unwrap();
    assert!(report.is_clean(), "{}", report.findings[0]);
    memory.bytes(id).chunks(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap())).collect()
}

/// Special values, values of every exponent, values between -30 and 30 and around 0: whole blocks of them.
fn values() -> Vec<f32> {
    let special =
        [0.0, -0.0, 1.0, -1.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::MAX, f32::MIN, f32::MIN_POSITIVE];
    let mut state = 1_u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1 << 24) as f32
    };
    let mut values: Vec<f32> = special.to_vec();
    for exponent in 1..255_u32 {
        for sign in [0, 1_u32 << 31] {
            let mantissas =
                [0, 1, (1 << 23) - 1, (random() * (1 << 23) as f32) as u32, (random() * (1 << 23) as f32) as u32];
            values.extend(mantissas.map(|mantissa| f32::from_bits(sign | exponent << 23 | mantissa)));
        }
    }
    while values.len() < 24 * THREADS {
        values.extend([60.0 * random() - 30.0, 4.0 * random() - 2.0, 200.0 * random() - 100.0]);
    }
    values.truncate(24 * THREADS);
    values
}

/// Runs `|| body` on all values, and holds each result against f64, relative to the result.
fn holds(body: &str, bound: impl Fn(f64) -> f64) {
    let epilogue: Epilogue = format!("|| {body}").parse().unwrap();
    let evaluate = epilogue.program().evaluator();
    let values = values();
    let mut worst = (0.0_f64, 0.0, 0.0, 0.0);
    for (x, got) in values.iter().zip(run(epilogue, &values)) {
        let x = f64::from(*x);
        let want = evaluate(Element { acc: x, inputs: &[] }).0;
        let got = f64::from(got);
        if want.is_nan() || want.is_infinite() || want.abs() > f64::from(f32::MAX) {
            let same = got.is_nan() == want.is_nan() && (want.is_nan() || got.signum() == want.signum());
            let large = want.is_nan() || got.is_infinite() || got.abs() > 0.99 * f64::from(f32::MAX);
            assert!(same && large, "{body} of {x:e}: {got:e}, not {want:e}");
            continue;
        }
        // Beyond the last f32 by less than its error.
        if got.is_infinite() && want.abs() > 0.999 * f64::from(f32::MAX) {
            continue;
        }
        // Subnormal exponentials are flushed to 0, and what they are multiplied by with them.
        let flushed = f64::from(f32::MIN_POSITIVE) * (1.0 + x.abs().min(200.0));
        if want.abs() < flushed && got.abs() < flushed {
            continue;
        }
        let error = (got - want).abs() / want.abs();
        let share = error / bound(x);
        assert!(error.is_finite(), "{body} of {x:e}: {got:e}, not {want:e}");
        if share > worst.0 {
            worst = (share, x, got, want);
        }
    }
    let (share, x, got, want) = worst;
    assert!(share <= 1.0, "{body} of {x:e}: {got:e}, not {want:e}: {share:.2} of the bound");
}

fn two(exponent: i32) -> f64 {
    f64::powi(2.0, exponent)
}

#[test]
fn arithmetic_is_rounded_once() {
    for body in ["acc + 1.5", "acc - 3", "acc * 0.1", "fma(acc, 0.1, 2)", "-acc", "abs(acc)"] {
        holds(body, |_| two(-24));
    }
    for body in ["min(acc, 1.5)", "max(acc, -2)", "clamp(acc, -1, 1)", "relu(acc)", "if acc != acc { 1 } else { 2 }"] {
        holds(body, |_| two(-30));
    }
    holds("acc as bf16", |_| two(-30));
    holds("acc as f16", |_| two(-30));
    holds("floor(acc)", |_| two(-30));
    holds("1 / acc", |_| two(-22));
    holds("acc / 3", |_| two(-22));
    holds("acc / (1 + abs(acc))", |_| two(-21));
}

#[test]
fn exponentials_and_logarithms_keep_their_bounds() {
    holds("exp(acc)", |x| two(-21) + x.abs() * two(-23));
    holds("sqrt(acc)", |_| two(-22));
    holds("rsqrt(acc)", |_| two(-22));
    holds("log(acc)", |x| two(-21) / if (0.5..2.0).contains(&x) { x.ln().abs().max(two(-40)) } else { 1.0 });
}

#[test]
fn sines_and_cosines_keep_their_bounds() {
    for (function, want) in [("sin", f64::sin as fn(f64) -> f64), ("cos", f64::cos)] {
        let values = values();
        let found = run(format!("|| {function}(acc)").parse().unwrap(), &values);
        for (x, got) in values.iter().zip(found) {
            let error = (f64::from(got) - want(f64::from(*x))).abs();
            assert!(if x.is_finite() { error <= two(-24) } else { got.is_nan() }, "{function} of {x:e}: {got:e}");
        }
    }
}

#[test]
fn activations_keep_their_bounds() {
    holds("tanh(acc)", |_| two(-20));
    holds("sigmoid(acc)", |x| two(-20) + x.abs() * two(-23));
    holds("silu(acc)", |x| two(-20) + x.abs() * two(-23));
    holds("gelu(acc)", |x| two(-20) + (x.abs() + x.abs().powi(3) / 16.0) * two(-22));
    holds("gelu_erf(acc)", |x| two(-19) + x * x * two(-23));
}
