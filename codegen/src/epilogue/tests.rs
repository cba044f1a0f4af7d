//! The language: what is read, what is refused, what it means.
#![allow(clippy::unwrap_used)]

use super::eval::apply;
use super::functions::Function;
use super::{Element, Epilogue, Level, Program, Reduction, read};

fn program(text: &str) -> Program {
    read(text).unwrap_or_else(|errors| panic!("{text}: {errors:?}"))
}

/// The result of `body` for sum `acc`, with x, y and z as parameters of every kind.
fn value(body: &str, acc: f64, inputs: [f64; 3]) -> f64 {
    let program = program(&format!("|x: f32, y: Rows<f32>, z: Cols<f32>| {body} + 0 * (x + y + z)"));
    program.evaluator()(Element { acc, inputs: &inputs }).0
}

#[test]
fn operators_bind_as_in_rust() {
    for (body, want) in [
        ("acc + x * y", 2.0 + 3.0 * 5.0),
        ("(acc + x) * y", 25.0),
        ("acc - x - y", -6.0),
        ("acc / x / y", 2.0 / 3.0 / 5.0),
        ("-acc * x", -6.0),
        ("--acc", 2.0),
        ("2 - -acc", 4.0),
        ("{ let t = acc * acc; let acc2 = t + 1; acc2 * t }", 20.0),
        ("if acc < x { y } else if acc > x { z } else { 0 }", 5.0),
        ("select(acc >= x, y, z)", 7.0),
        ("fma(acc, x, y)", 11.0),
        ("clamp(acc, x, y)", 3.0),
        ("min(acc, x) + max(y, z)", 9.0),
        ("relu(-acc) + abs(-x)", 3.0),
        ("floor(-acc / 4) + floor(2.5) + floor(-x)", -2.0),
        ("1_0.5e-1f32 + 2", 3.05_f32 as f64),
        ("(acc + 0.001) as bf16", 2.0),
        ("(acc + 0.001) as f16", 2.001_953_125),
        ("-x as f16", -3.0),
    ] {
        let got = value(body, 2.0, [3.0, 5.0, 7.0]);
        assert!((got - want).abs() <= 1e-6 * want.abs(), "{body}: {got}, not {want}");
    }
}

#[test]
fn functions_are_what_their_names_say() {
    let x = 0.75_f64;
    for (function, want) in [
        (Function::Exp, 2.117_000_016_612_675),
        (Function::Log, -0.287_682_072_451_780_9),
        (Function::Sqrt, 0.866_025_403_784_438_6),
        (Function::Rsqrt, 1.154_700_538_379_251_7),
        (Function::Sin, 0.681_638_760_023_334_2),
        (Function::Cos, 0.731_688_868_873_820_9),
        (Function::Floor, 0.0),
        (Function::Tanh, 0.635_148_952_387_287_3),
        (Function::Sigmoid, 0.679_178_699_175_393_1),
        (Function::Silu, 0.509_384_024_381_544_8),
        // By their definitions, with tanh and erf of the C library.
        (Function::Gelu, 0.579960555165620),
        (Function::GeluErf, 0.580029485717349),
    ] {
        assert!((apply(function, x) - want).abs() < 2e-6, "{function:?}: {}", apply(function, x));
    }
    assert!(value("max(acc, 0)", f64::NAN, [0.0; 3]).is_nan());
    assert!(value("min(0, acc)", f64::NAN, [0.0; 3]).is_nan());
    assert_eq!(value("if acc != acc { 1 } else { 2 }", f64::NAN, [0.0; 3]), 1.0);
}

#[test]
fn equal_expressions_are_computed_once_and_unused_ones_not_at_all() {
    let program = program("|s: f32, r: Rows<f32>| { let dead = exp(acc); let u = s * r + 1; (acc * u) / (s * r + 1) }");
    let used = (0..program.nodes().len()).filter(|id| program.is_used(*id));
    let levels: Vec<Level> = used.map(|id| program.level(id)).collect();
    let count = |level| levels.iter().filter(|found| **found == level).count();
    // s and 1; r, s r, s r + 1 and its reciprocal; acc and two products.
    assert_eq!((count(Level::Uniform), count(Level::Row), count(Level::Element)), (2, 4, 3));
}

#[test]
fn second_results_are_collected_along_rows() {
    let program = program("|| (acc + 1, row_max(acc * acc))");
    assert_eq!(program.reduction(), Some(Reduction::Max));
    let evaluate = program.evaluator();
    assert_eq!(evaluate(Element { acc: -3.0, inputs: &[] }), (-2.0, Some(9.0)));
    assert_eq!(Reduction::Max.collect(f64::NEG_INFINITY, -2.0), -2.0);
    assert!(Reduction::Max.collect(1.0, f64::NAN).is_nan());
}

#[test]
fn handles_are_equal_where_their_text_is() {
    let [one, other]: [Epilogue; 2] =
        ["|b: Rows<f32>| acc+b", "|b : Rows<f32>,| { acc + b }"].map(|text| text.parse().unwrap());
    assert_eq!(one, other);
    assert!(std::ptr::eq(one.program(), other.program()));
    assert_ne!(one, "|b: Cols<f32>| acc + b".parse().unwrap());
    for out in [crate::words::Dtype::F16, crate::words::Dtype::BF16, crate::words::Dtype::F32, crate::words::Dtype::F64]
    {
        let accumulate = Epilogue::accumulate(out);
        assert_eq!(accumulate.to_string().parse::<Epilogue>().unwrap(), accumulate);
        assert_eq!(accumulate.program().tile(), Some((0, out)));
    }
}

#[test]
fn every_function_of_the_list_can_be_called() {
    for (name, takes, ..) in Program::FUNCTIONS {
        let arguments = takes.replace(['y', 'z'], "1").replace("low", "0").replace("high", "1").replace('x', "acc");
        let arguments = arguments.replace("a < b", "acc < 1");
        let body = match name.starts_with("row_") {
            true => format!("(acc, {name}({arguments}))"),
            false => format!("{name}({arguments})"),
        };
        program(&format!("|| {body}"));
    }
}

#[test]
fn wrong_text_is_refused_where_it_is_wrong() {
    let report = |text: &&str| {
        let mut report = format!("## {text}\n");
        match read(text) {
            Ok(program) => report.push_str(&format!("read as {}\n", program.text())),
            Err(errors) => {
                for error in errors {
                    let at = text.get(error.place.clone()).unwrap_or_default();
                    report.push_str(&format!("`{at}`: {}\n", error.fact));
                    error.help.iter().for_each(|line| report.push_str(&format!("  help: {line}\n")));
                }
            }
        }
        report
    };
    let texts = [
        "relu(acc)",
        "|bias Rows<f32>| acc",
        "|bias: Rows<f32> acc",
        "|bias: Rows<f32>| acc",
        "|bias: Rows<f23>, gate: cols<f32>, x: f32<f32>| acc + bias * gate * x",
        "|acc: f32, x: f32, x: f32| x",
        "|| acc + bias",
        "|| gelu_tanh(acc) + sofmax(acc)",
        "|| clamp(acc, 1)",
        "|| if acc { 1 } else { 2 }",
        "|| if acc < 1 { 1 }",
        "|| acc < 1",
        "|| acc < 1 < 2",
        "|| row_sum(acc)",
        "|| (acc, acc)",
        "|| (acc, row_sum(acc), row_max(acc))",
        "|| 1 + (acc, row_sum(acc))",
        "|| acc as i8",
        "|| acc +",
        "|| (acc",
        "|| acc; acc",
        "|| let x = acc; x",
        "|| { let x = acc }",
        "|| { let acc = 1; acc }",
        "|| acc.max(0)",
        "|| 1e99 * acc + 0x10",
        "|| select(acc, 1, 2)",
        "|| relu",
        "|a: f32, b: f32, c: f32, d: f32, e: f32, f: f32, g: f32, h: f32, i: f32| acc + a + b + c + d + e + f + g + h",
        "",
        "|| é",
    ];
    let text = texts.iter().map(report).collect::<Vec<_>>().join("\n");
    insta::with_settings!({ omit_expression => true }, { insta::assert_snapshot!("wrong_epilogues", text) });
}

#[test]
fn the_mathematics_are_pinned_by_what_they_cannot_be() {
    // Tails: no cancellation of 1 - 1.
    assert!(apply(Function::GeluErf, -9.0) < 0.0 && apply(Function::Gelu, -9.0) < 0.0);
    assert!(apply(Function::Silu, -80.0) < 0.0);
    for function in Function::ALL.map(|(_, function)| function) {
        assert!(apply(function, f64::NAN).is_nan(), "{function:?}");
    }
}

#[test]
fn depth_has_a_limit_and_length_has_none() {
    let nested = |depth: usize| {
        let [open, close] = ["(", ")"].map(|bracket| bracket.repeat(depth));
        let [calls, ends] = ["relu(", ")"].map(|part| part.repeat(depth));
        let [blocks, braces] = ["{ ", " }"].map(|part| part.repeat(depth));
        let branches = "if acc < 0 { 0 } else ".repeat(depth);
        [
            format!("|| {open}acc{close}"),
            format!("|| {calls}acc{ends}"),
            format!("|| 1 + {blocks}acc{braces}"),
            format!("|| {}acc", "-".repeat(depth)),
            format!("|| {branches}{{ acc }}"),
            format!("|| {}acc{}", "if acc < 0 { ".repeat(depth), " } else { 0 }".repeat(depth)),
        ]
    };
    for text in nested(98) {
        assert!(read(&text).is_ok(), "{:?} of {text}", read(&text));
    }
    for text in [101, 50_000].into_iter().flat_map(nested) {
        let errors = read(&text).unwrap_err();
        assert_eq!(errors[0].fact, "an expression is nested more than 100 levels deep");
        assert_eq!(errors[0].help, ["name an inner expression: `let x = ..;`"]);
    }
    // One after the other there may be any number of them.
    let terms: String = (0..60_000).map(|term| format!(" + {term}.5 * (acc)")).collect();
    let names: String = (0..20_000).map(|name| format!("let x{name} = acc * {name}; ")).collect();
    for text in [format!("|| acc{terms}"), format!("|| {{ {names}acc }}")] {
        assert!(read(&text).is_ok());
    }
}
