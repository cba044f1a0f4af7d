//! Kernels with epilogues of their own: planned, rendered, assembled, refused.
#![allow(clippy::unwrap_used)]

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
fn a_launch_passes_the_parameters_in_order() {
    let plan = plan(TILE, "|bias: Rows<f32>, res: Dense<bf16>, alpha: f32| (alpha * acc + bias + res, row_sum(acc))");
    let problem = Problem { m: 1000, n: 999, k: 640, nnzb: 17, ldb: 1000, ldc: 1008, ldt: 1016 };
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
