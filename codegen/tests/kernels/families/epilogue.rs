//! Kernels with epilogues of their own: planned, rendered, assembled, refused.

use crate::golden::golden;
use bsr_codegen::{Argument, Dtype, Epilogue, KernelSpec, Operand, Plan, Problem};

const TILE: &str = "bm = 128, bn = 256, bk = 64, dtype = bf16";

fn spec(base: &str, epilogue: &str) -> KernelSpec {
    let text = format!("{base}, epilogue = \"{epilogue}\"");
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

fn plan(base: &str, epilogue: &str) -> Plan {
    Plan::new(&spec(base, epilogue)).unwrap_or_else(|errors| panic!("{base}: {epilogue}\n{errors}"))
}

#[test]
fn the_canonical_text_of_a_spec_reads_back() {
    for (written, canonical) in [
        ("|bias:Rows<f32>|relu( acc+bias )", "|bias: Rows<f32>| relu(acc + bias)"),
        ("||{acc}", "|| acc"),
        ("|| { let x = acc*2.0; (x, row_sum(x)) }", "|| { let x = acc * 2.0; (x, row_sum(x)) }"),
        (
            "|a1: Cols<bf16>,| if acc<a1 {-acc} else {acc as f16}",
            "|a1: Cols<bf16>| if acc < a1 { -acc } else { acc as f16 }",
        ),
    ] {
        let spec = spec(TILE, written);
        let text = spec.to_string();
        assert_eq!(text, format!("{TILE}, epilogue = \"{canonical}\""));
        assert_eq!(text.parse::<KernelSpec>().unwrap(), spec);
        let toml = format!("bm = 128\nbn = 256\nbk = 64\ndtype = 'bf16'\nepilogue = '{written}'\n");
        assert_eq!(KernelSpec::from_toml(&toml).unwrap(), spec);
        let json = serde_json::to_string(&spec).unwrap();
        assert_eq!(serde_json::from_str::<KernelSpec>(&json).unwrap(), spec);
        assert_eq!(Epilogue::compiled(canonical).program(), spec.epilogue.unwrap().program());
    }
    assert_eq!("bm = 64, bn = 64, bk = 64, epilogue = none".parse::<KernelSpec>().unwrap().epilogue, None);
}

#[test]
fn beta_is_an_epilogue_of_its_own() {
    for (types, out) in [("", "f16"), (", dtype = bf16", "bf16"), (", out = f32", "f32")] {
        let text = format!("bm = 64, bn = 64, bk = 64{types}");
        let spec: KernelSpec = format!("{text}, beta = on").parse().unwrap();
        assert_eq!(spec.epilogue.unwrap().text(), format!("|c: Dense<{out}>, beta: f32| acc + beta * c"));
        assert_eq!(spec.to_string(), format!("{text}, beta = on"));
        assert_eq!(format!("{text}, beta = off").parse::<KernelSpec>().unwrap().epilogue, None);
        assert!(Plan::new(&spec).is_ok());
    }
    let both = "bm = 64, bn = 64, bk = 64, beta = on, epilogue = \"|| relu(acc)\"".parse::<KernelSpec>().unwrap_err();
    assert!(both.to_string().contains("`beta = on` is an epilogue, and the spec has another one"), "{both}");
}

#[test]
fn a_launch_passes_the_parameters_in_order() {
    let plan = plan(TILE, "|bias: Rows<f32>, res: Dense<bf16>, alpha: f32| (alpha * acc + bias + res, row_sum(acc))");
    let problem = Problem { m: 1000, n: 999, k: 640, nnzb: 17, ldb: 1000, lda: 1000, ldc: 1008, ldt: 1016 };
    let launch = plan.launch(&problem, [1, 1]);
    let named = |name: &str| launch.parameters.iter().find(|parameter| parameter.name == name).unwrap().argument;
    assert_eq!(named("epilogue_bias"), Argument::Pointer(Operand::Epilogue(0)));
    assert_eq!(named("epilogue_alpha"), Argument::Scalar(2));
    assert_eq!(named("epilogue_rows"), Argument::Pointer(Operand::Second));
    let (Argument::Map(tile), Argument::Map(c)) = (named("epilogue_res"), named("map_c")) else { panic!() };
    assert_eq!((tile.operand, tile.dtype, tile.strides_bytes[0]), (Operand::Epilogue(1), Dtype::BF16, 2032));
    assert_eq!((tile.dims, tile.box_dims, tile.swizzle_bytes), (c.dims, c.box_dims, c.swizzle_bytes));
    assert!(plan.ptx().text().contains(".param .f32 epilogue_alpha"));
}

/// The kernel's rows are columns of C.
#[test]
fn vectors_of_a_sparse_right_factor_change_places() {
    let closure = "|bias: Rows<f32>, gate: Cols<bf16>, res: Dense<bf16>| gate * acc + bias + res";
    let dds = plan(&format!("{TILE}, op = dds, transpose = on, a_layout = col, c_layout = col"), closure);
    let dsd = plan(TILE, &closure.replace("Rows", "Other").replace("Cols", "Rows").replace("Other", "Cols"));
    let after = |plan: &Plan| {
        let text = plan.ptx().text().to_owned();
        let at = text.find("// The epilogue:").unwrap();
        text[at..].lines().skip(1).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(after(&dds), after(&dsd));
}

#[test]
fn epilogues_that_are_not_planned_are_refused_with_a_remedy() {
    for (base, epilogue, fact, help) in [
        ("bm = 128, bn = 128, bk = 64, batch = on", "|| relu(acc)", "list of problems", "batch = off"),
        ("bm = 32, bn = 128, bk = 32, batch = on", "|| relu(acc)", "list of problems", "batch = off"),
        ("bm = 128, bn = 128, bk = 128, op = sdd", "|x: Dense<f16>| acc + x", "C is stored in blocks", "x: Bsr<f16>"),
    ] {
        let refused = Plan::new(&spec(base, epilogue)).unwrap_err().to_string();
        assert!(refused.contains(fact) && refused.contains(help), "{base}: {refused}");
    }
}

/// The lines of a kernel from its epilogue's first comment up to the branch to the next tile, and those that a full
/// operand adds to the prologue.
#[test]
fn the_instructions_of_small_tiles() {
    for (name, base, epilogue) in [
        (
            "late",
            "bm = 64, bn = 16, bk = 16, dtype = bf16",
            "|bias: Rows<f32>, gate: Cols<bf16>, s: f32| s * acc + bias * gate",
        ),
        (
            "full",
            "bm = 64, bn = 16, bk = 16, out = f32, c_layout = col",
            "|res: Dense<f32>, s: f32| (gelu(acc) + s * res, row_sum(acc))",
        ),
        ("most", "bm = 64, bn = 16, bk = 16, dtype = e4m3", "|low: Rows<f16>| (max(acc, low), row_max(acc))"),
        (
            "swap_ab",
            "bm = 16, bn = 64, bk = 16, pack = 1, dtype = bf16",
            "|bias: Rows<f32>, gate: Cols<bf16>, res: Dense<bf16>| ((acc + bias) * gate - res, row_sum(acc))",
        ),
        (
            "swap_ab_across",
            "op = dds, bm = 48, bn = 64, bk = 8, pack = 1, out = f32",
            "|bias: Rows<f32>, gate: Cols<bf16>| (acc * bias + gate, row_max(acc))",
        ),
    ] {
        let plan = plan(base, epilogue);
        let ptx = plan.ptx();
        let text = ptx.text();
        let consumer = text.find("$consumer_tile:").unwrap();
        let rest = &text[consumer..];
        let end = rest.find("@%p_more bra").unwrap();
        let kept = rest[..end].lines().filter(|line| !line.contains("wgmma.mma_async"));
        let kept: Vec<&str> = kept.collect();
        golden(&format!("epilogue_{name}"), &format!("{}\n\n{}\n", plan.spec(), kept.join("\n")));
    }
}

#[test]
fn a_plan_says_what_its_epilogue_needs() {
    let plan = plan(TILE, "|bias: Rows<f32>, res: Dense<bf16>, alpha: f32| gelu(alpha * acc + bias) + res");
    golden("epilogue_plan", &plan.to_string());
    let swap_ab = "bm = 32, bn = 256, bk = 32";
    golden("epilogue_plan_swap_ab", &self::plan(swap_ab, "|c: Dense<f16>, beta: f32| acc + beta * c").to_string());
}

#[test]
fn what_cannot_be_fused_is_refused_with_a_remedy() {
    let mut all = String::new();
    for (base, epilogue) in [
        ("bm = 64, bn = 64, bk = 64, dtype = i8", "|| relu(acc)"),
        ("bm = 64, bn = 64, bk = 64, dtype = bf16", "|x: Dense<f32>| acc + x"),
        ("bm = 64, bn = 64, bk = 64, dtype = bf16", "|x: Dense<bf16>, y: Dense<bf16>| acc + x * y"),
        ("bm = 64, bn = 64, bk = 64, dtype = e4m3, out = e4m3", "|x: Dense<bf16>| acc + x"),
        ("bm = 64, bn = 64, bk = 64, mma = mma_sync", "|x: Dense<f16>, y: Dense<f16>| acc + x * y"),
        ("bm = 64, bn = 64, bk = 64, mma = scalar", "|x: Cols<f16>| acc + x"),
        (
            "bm = 256, bn = 128, bk = 64, out = f32",
            "|a1: Rows<f32>, a2: Rows<f32>, a3: Rows<f32>, a4: Rows<f32>, a5: Rows<f32>, a6: Rows<f32>, a7: Rows<f32>, \
             a8: Rows<f32>| (acc * a1 + a2 * (acc + a3 * (acc + a4)) + a5 * acc * a6 + a7 * a8, \
             row_sum(acc * exp(a1) * exp(a2) * exp(a3) * exp(a4) * exp(a5) * exp(a6) * exp(a7) * exp(a8)))",
        ),
    ] {
        let spec = spec(base, epilogue);
        match Plan::new(&spec) {
            Ok(plan) => panic!("{spec} is planned:\n{plan}"),
            Err(errors) => all.push_str(&format!("{spec}\n\n{errors}\n\n")),
        }
    }
    golden("epilogue_refused", &all);
}
