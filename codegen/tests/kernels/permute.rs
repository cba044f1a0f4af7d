//! Rows of C in an order of the launch: what a kernel is given, what is refused.

use crate::planning::try_plan;
use bsr_codegen::{Argument, KernelSpec, Operand, Problem};

#[test]
fn a_launch_gives_c_its_lines_and_the_order() {
    for text in ["bm = 128, bn = 64, bk = 64, permute = on", "bm = 32, bn = 64, bk = 64, out = f32, permute = on"] {
        let plan = try_plan(text).unwrap();
        let problem = Problem { m: 1000, n: 999, k: 640, nnzb: 17, ldb: 1000, lda: 1000, ldc: 1008, ldt: 1008 };
        let launch = plan.launch(&problem, [1, 1]);
        let named = |name: &str| launch.parameters.iter().find(|parameter| parameter.name == name).unwrap().argument;
        assert_eq!(named("c"), Argument::Pointer(Operand::C));
        assert_eq!(named("order"), Argument::Pointer(Operand::Order));
        let bytes = plan.spec().out.bytes();
        assert_eq!((named("m"), named("n")), (Argument::Number(1000), Argument::Number(999)));
        assert_eq!(named("c_line"), Argument::Number(1008 * bytes / 16));
        let of_c = |map: &bsr_codegen::TensorMap| map.operand == Operand::C;
        assert!(launch.parameters.iter().all(|p| !matches!(&p.argument, Argument::Map(map) if of_c(map))), "{text}");
        let text = plan.ptx().text().to_owned();
        assert!(text.contains("st.global.v4.u32") && !text.contains("cp.async.bulk.tensor.2d.global"));
        assert_eq!(plan.spec().to_string().parse::<KernelSpec>().unwrap(), *plan.spec());
    }
    assert!(!try_plan("bm = 128, bn = 64, bk = 64").unwrap().ptx().text().contains("order"));
}

#[test]
fn what_has_no_order_of_rows_is_refused_with_a_remedy() {
    for (text, fact, help) in [
        ("bm = 128, bn = 64, bk = 64, op = dds", "needs a sparse A", "op = dsd"),
        ("bm = 128, bn = 128, bk = 128, op = sdd", "needs a sparse A", "op = dsd"),
        ("bm = 128, bn = 64, bk = 64, transpose = on", "not transposed", "transpose = off"),
        ("bm = 32, bn = 64, bk = 64, c_layout = col", "column-major C", "c_layout = row"),
        ("bm = 32, bn = 64, bk = 64, batch = on", "list of problems", "batch = off"),
        ("bm = 64, bn = 64, bk = 64, mma = mma_sync", "have no `permute`", "mma = wgmma"),
        ("bm = 64, bn = 64, bk = 64, beta = on", "`c: Dense<f16>`", "permute = off"),
        ("bm = 32, bn = 64, bk = 64, epilogue = \"|x: Rows<f32>| acc + x\"", "`x: Rows<f32>`", "vectors by columns"),
        ("bm = 64, bn = 64, bk = 64, epilogue = \"|| (acc, row_max(acc))\"", "a `row_max`", "vectors by columns"),
    ] {
        let refused = try_plan(&format!("{text}, permute = on")).unwrap_err().to_string();
        assert!(refused.contains(fact) && refused.contains(help), "{text}: {refused}");
        assert!(try_plan(text).is_ok(), "{text} without an order");
    }
    assert!(try_plan("bm = 64, bn = 64, bk = 64, permute = on, epilogue = \"|x: Cols<f32>| acc * x\"").is_ok());
}
