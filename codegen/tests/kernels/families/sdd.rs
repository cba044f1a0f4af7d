//! The kernels of SDDMM: their plans, refusals and text, and what ptxas makes of them.

use std::collections::BTreeSet;

use crate::golden::{added, golden, golden_plans, golden_refusals, section};
use crate::planning::{joined, plan, try_plan};
use crate::ptxas;
use bsr_codegen::{Argument, Dtype, KernelSpec, Operand, Plan, Problem, TileScheduler};
use proptest::prelude::*;
use proptest::sample::select;

/// Blocks of every class: whole and ragged tiles of rows, packed rows, divided and padded columns.
const BLOCKS: [(u32, u32); 16] = [
    (128, 128),
    (64, 64),
    (32, 32),
    (16, 16),
    (96, 80),
    (24, 40),
    (8, 64),
    (512, 112),
    (256, 256),
    (192, 96),
    (72, 24),
    (8, 8),
    (64, 512),
    (40, 264),
    (320, 200),
    (128, 136),
];

const LAYOUTS: [&str; 5] =
    ["", "a_layout = col", "b_layout = col", "a_layout = col, b_layout = col", "transpose = on, b_layout = col"];

const TYPES: [&str; 8] = [
    "",
    "dtype = bf16",
    "out = f32",
    "dtype = e4m3, out = bf16",
    "dtype = i8",
    "a = e5m2, b = e4m3, out = f32",
    "dtype = bf16, out = f16",
    "dtype = i8, out = f16",
];

const KNOBS: [&str; 6] =
    ["bn = 256", "bn = 128", "bn = 256, consumers = 1", "bn = 192, stages = 3", "bn = 64", "bn = 8"];

/// Epilogues with every kind of parameter and both second results.
const EPILOGUES: [&str; 6] = [
    "|| relu(acc)",
    "|bias: Rows<f32>, gate: Cols<bf16>| gelu(acc + bias) * gate",
    "|mask: Bsr<f16>, alpha: f32| alpha * acc * mask",
    "|scale: Cols<f32>, low: Rows<f16>| (acc * scale, row_max(max(acc * scale, low)))",
    "|mask: Bsr<f32>, bias: Cols<f16>| (exp(acc + bias) * mask, row_sum(acc * mask))",
    "|| (silu(acc) as bf16, row_sum(acc * acc))",
];

const REFUSED: [&str; 26] = [
    "op = sdd, bm = 100, bn = 256, bk = 128",
    "op = sdd, bm = 128, bn = 256, bk = 520",
    "op = sdd, bm = 128, bn = 264, bk = 128",
    "op = sdd, bm = 128, bn = 256, bk = 128, dtype = f32",
    "op = sdd, bm = 128, bn = 256, bk = 128, a = f16, b = bf16",
    "op = sdd, bm = 128, bn = 256, bk = 128, out = e4m3",
    "op = sdd, bm = 128, bn = 256, bk = 128, out = i32",
    "op = sdd, bm = 128, bn = 256, bk = 128, dtype = e4m3, out = bf16, a_layout = col",
    "op = sdd, bm = 128, bn = 256, bk = 128, dtype = i8, b_layout = row",
    "op = sdd, bm = 128, bn = 256, bk = 128, c_layout = col",
    "op = sdd, bm = 128, bn = 256, bk = 128, dtype = e4m3, out = bf16, scale = tensor",
    "op = sdd, bm = 128, bn = 256, bk = 128, dtype = e4m3, out = bf16, accumulate = promoted",
    "op = sdd, bm = 128, bn = 256, bk = 128, cluster = 2",
    "op = sdd, bm = 128, bn = 256, bk = 128, batch = on, swap = on",
    "op = sdd, bm = 128, bn = 256, bk = 128, batch = on, schedule = balanced",
    "op = sdd, bm = 128, bn = 256, bk = 128, batch = on, beta = on",
    "op = sdd, bm = 128, bn = 256, bk = 128, dtype = i8, out = i32, epilogue = \"|| relu(acc)\"",
    "op = sdd, bm = 128, bn = 256, bk = 128, epilogue = \"|x: Dense<f16>| acc + x\"",
    "op = sdd, bm = 128, bn = 256, bk = 128, epilogue = \"|x: Bsr<f32>| acc + x\"",
    "op = sdd, bm = 128, bn = 256, bk = 128, epilogue = \"|x: Bsr<f16>, y: Bsr<f16>| acc + x * y\"",
    "bm = 128, bn = 256, bk = 128, epilogue = \"|x: Bsr<f16>| acc + x\"",
    "op = sdd, bm = 128, bn = 256, bk = 128, k_step = 32, swizzle = 64",
    "op = sdd, bm = 128, bn = 256, bk = 128, stages = 6",
    "op = sdd, bm = 64, bn = 128, bk = 256, consumers = 2",
    "op = sdd, bm = 24, bn = 256, bk = 128, pack = 3",
    "op = sdd, bm = 16, bn = 64, bk = 16, mma = scalar",
];

/// Combinations whose strides share no factor: every value of every list, most pairs.
fn matrix() -> Vec<Plan> {
    let mut plans = vec![];
    for (i, (bm, bk)) in BLOCKS.into_iter().cycle().take(3 * BLOCKS.len()).enumerate() {
        let (layout, types, knobs) = (LAYOUTS[i % 5], TYPES[(i / 2 + i / 16) % 8], KNOBS[(i + i / 16) % 6]);
        // 8-bit operands have their own layouts.
        let layout =
            if types.contains("8") && !types.contains("f16, out") || types.contains("e4m3") { "" } else { layout };
        let block = format!("op = sdd, bm = {bm}, bk = {bk}");
        plans.extend(try_plan(&joined(&[&block, knobs, layout, types])).ok());
    }
    // Tiles of two widths, in every layout: ptxas has complained of single ones of them.
    for (bm, bk) in [(128, 128), (128, 64), (512, 112), (96, 80), (72, 24), (256, 32)] {
        let block = format!("op = sdd, bm = {bm}, bn = 256, bk = {bk}");
        plans.extend(LAYOUTS.map(|layout| plan(&joined(&[&block, layout]))));
        for types in ["dtype = e4m3, out = f16", "dtype = i8", "dtype = i8, out = f16", "dtype = bf16, out = f32"] {
            plans.push(plan(&joined(&[&block, types])));
        }
    }
    plans.extend(fused());
    plans
}

/// Every epilogue with blocks of every class, results of two and of four bytes, in turn.
fn fused() -> Vec<Plan> {
    let mut plans = vec![];
    for (i, (bm, bk)) in BLOCKS.into_iter().enumerate() {
        for (j, epilogue) in EPILOGUES.into_iter().enumerate() {
            let (layout, knobs) = (LAYOUTS[(i + j) % 5], KNOBS[(i + j / 2) % 6]);
            let types = match (epilogue.contains("Bsr<f16>"), epilogue.contains("Bsr<f32>")) {
                (true, _) => ["", "dtype = bf16"][i % 2],
                (_, true) => "out = f32",
                _ => ["", "out = f32", "dtype = e4m3, out = bf16", "dtype = i8, out = f16"][(i + j) % 4],
            };
            let layout = if types.contains('8') { "" } else { layout };
            let [block, epilogue] = [format!("op = sdd, bm = {bm}, bk = {bk}"), format!("epilogue = \"{epilogue}\"")];
            plans.extend(try_plan(&joined(&[&block, knobs, layout, types, &epilogue])).ok());
        }
    }
    plans.push(plan("op = sdd, bm = 128, bn = 256, bk = 128, beta = on, schedule = balanced"));
    plans.push(plan("op = sdd, bm = 128, bn = 256, bk = 128, batch = on"));
    plans
}

#[test]
fn plans_accepted() {
    let specs = BLOCKS.map(|(bm, bk)| format!("op = sdd, bm = {bm}, bn = 256, bk = {bk}"));
    golden_plans("sdd_plans", specs.iter().map(String::as_str), |plan| {
        plan.rows()[1..3].iter().map(|[what, _, why]| format!("{what}: {why}\n")).collect()
    });
    golden("sdd_plan", &plan("op = sdd, bm = 128, bn = 256, bk = 128").to_string());
    let fused = "epilogue = \"|mask: Bsr<f16>, bias: Rows<f32>| (acc * mask + bias, row_max(acc))\"";
    golden("sdd_plan_fused", &plan(&format!("op = sdd, bm = 128, bn = 256, bk = 128, {fused}")).to_string());
    golden("sdd_plan_transposed", &plan("op = sdd, bm = 24, bn = 256, bk = 40, transpose = on").to_string());
}

#[test]
fn plans_refused() {
    golden_refusals("snapshots", "sdd_refused", &REFUSED);
}

/// One kernel whole, of others the sections that differ, and the lines that a list of problems adds.
#[test]
fn text() {
    golden("sdd_whole", plan("op = sdd, bm = 64, bn = 16, bk = 16, consumers = 1, stages = 2").ptx().text());
    let small = plan("op = sdd, bm = 24, bn = 64, bk = 24, out = f32, b_layout = col, a_layout = col, stages = 2");
    golden("sdd_producer_packed", section(small.ptx().text(), "Producer"));
    golden("sdd_consumer_packed", section(small.ptx().text(), "Consumers"));
    let fused =
        "epilogue = \"|mask: Bsr<f16>, gate: Cols<bf16>, low: Rows<f32>| (max(acc, low) * gate + mask, row_sum(acc))\"";
    let fused = plan(&format!("op = sdd, bm = 24, bn = 32, bk = 16, consumers = 1, stages = 2, {fused}"));
    golden("sdd_fused", section(fused.ptx().text(), "Consumers"));
    let single = "op = sdd, bm = 64, bn = 16, bk = 16, consumers = 1, stages = 2, out = f32";
    let listed = plan(&format!("{single}, batch = on"));
    golden("sdd_batch", &added(listed.ptx().text(), plan(single).ptx().text()));
}

/// A full operand has C's tensor map, vectors and the second result are addresses, and rows are those of what is stored.
#[test]
fn an_epilogues_parameters_are_those_of_the_stored_matrix() {
    for (transpose, rows) in [("off", 1000), ("on", 300)] {
        let text = format!(
            "op = sdd, bm = 128, bn = 256, bk = 64, transpose = {transpose}, \
             epilogue = \"|mask: Bsr<bf16>, bias: Rows<f32>, alpha: f32| (alpha * acc * mask + bias, row_max(acc))\""
        );
        let problem = Problem { m: 1000, n: 300, k: 64, nnzb: 7, lda: 1008, ldb: 1008, ldc: 0, ldt: 0 };
        let launch = plan(&text).launch(&problem, [1, 1]);
        let named = |name: &str| launch.parameters.iter().find(|parameter| parameter.name == name).unwrap().argument;
        assert_eq!(named("m"), Argument::Number(rows));
        assert_eq!(named("n"), Argument::Number(1300 - rows));
        assert_eq!(named("epilogue_bias"), Argument::Pointer(Operand::Epilogue(1)));
        assert_eq!(named("epilogue_alpha"), Argument::Scalar(2));
        assert_eq!(named("epilogue_rows"), Argument::Pointer(Operand::Second));
        let (Argument::Map(mask), Argument::Map(c)) = (named("epilogue_mask"), named("map_c")) else { panic!() };
        assert_eq!((mask.operand, mask.dtype, c.dtype), (Operand::Epilogue(0), Dtype::BF16, Dtype::F16));
        assert_eq!((mask.dims, mask.strides_bytes, mask.box_dims), (c.dims, c.strides_bytes, c.box_dims));
    }
}

/// A list of problems: three tensor maps each, which are no parameters.
#[test]
fn a_list_has_the_maps_of_every_problem_in_memory() {
    let (single, listed) =
        ("op = sdd, bm = 128, bn = 256, bk = 64", "op = sdd, bm = 128, bn = 256, bk = 64, batch = on");
    let problem = Problem { m: 1000, n: 300, k: 64, nnzb: 7, lda: 1008, ldb: 1008, ldc: 0, ldt: 0 };
    let parameters = plan(listed).launch(&problem, [1, 1]).parameters;
    assert_eq!(parameters.iter().map(|parameter| parameter.name).collect::<Vec<_>>(), ["maps", "work_head", "work"]);
    let maps: Vec<Argument> = plan(listed).problem_maps(&problem).into_iter().map(Argument::Map).collect();
    let of_one = plan(single).launch(&problem, [1, 1]).parameters;
    assert_eq!(maps, of_one.iter().take(3).map(|parameter| parameter.argument).collect::<Vec<_>>());
    assert!(plan(single).problem_maps(&problem).is_empty());
}

/// Every plan renders, with labels that exist once, and addresses its operands by legal tensor maps.
#[test]
fn every_plan_renders() {
    let plans = matrix();
    assert!(plans.len() > 40, "{} plans", plans.len());
    for plan in &plans {
        let (spec, ptx) = (plan.spec(), plan.ptx());
        assert!(!ptx.text().contains("{{") && !ptx.text().contains("<%"), "{spec}");
        assert!(ptx.text().lines().all(|line| line == line.trim_end()), "{spec}: trailing blanks");
        let labels: Vec<&str> = ptx.text().lines().filter(|line| line.starts_with('$')).collect();
        assert_eq!(labels.iter().collect::<BTreeSet<_>>().len(), labels.len(), "{spec}: a label twice");
        assert_eq!(plan.tile_scheduler(), TileScheduler::Sddmm);
        let tiles = plan.sddmm_tiles().unwrap();
        assert!(tiles.pack * spec.bm <= tiles.rows || tiles.pack == 1, "{spec}");
        assert!(
            tiles.slices * tiles.rows >= spec.bm && tiles.groups_per_block * tiles.group_columns >= spec.bk,
            "{spec}"
        );
        let problem = Problem { m: 1000, n: 1000, k: 1000, nnzb: 7, lda: 1008, ldb: 1008, ldc: 0, ldt: 0 };
        for parameter in plan.launch(&problem, [1, 1]).parameters {
            if let Argument::Map(map) = parameter.argument {
                let size = map.dtype.bytes();
                assert!((map.box_dims[0] * size).is_multiple_of(16), "{spec}: {map:?}");
                assert!(map.swizzle_bytes == 0 || map.box_dims[0] * size <= map.swizzle_bytes, "{spec}: {map:?}");
                assert!(map.box_dims.iter().all(|side| (1..=256).contains(side)), "{spec}: {map:?}");
                assert!(map.strides_bytes.iter().all(|stride| stride % 16 == 0), "{spec}: {map:?}");
            }
        }
    }
}

#[test]
fn kernels_assemble_without_spills() {
    ptxas::assemble_all(&matrix(), "sddmm");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// Whatever is asked, the answer is a kernel within the limits of its architecture, or a reason and a remedy.
    #[test]
    fn any_spec_is_planned_within_limits_or_refused_in_words(text in any_spec()) {
        let spec: KernelSpec = text.parse().unwrap();
        match Plan::new(&spec) {
            Err(errors) => {
                for error in errors.iter() {
                    prop_assert!(!error.to_string().is_empty() && error.help().is_some(), "{text}: {error}");
                }
            }
            Ok(plan) => {
                prop_assert!(plan.shared_bytes() <= plan.arch().shared_bytes, "{text}: {}", plan.shared_bytes());
                let tiles = plan.sddmm_tiles().unwrap();
                prop_assert!(tiles.tile_words.is_multiple_of(4), "{text}");
                prop_assert!(tiles.column_groups * tiles.group_columns <= 256.max(tiles.group_columns), "{text}");
            }
        }
    }
}

fn any_spec() -> impl Strategy<Value = String> {
    let side = || prop_oneof![6 => (1u32..=64).prop_map(|i| i * 8), 1 => 1u32..=600];
    let knob = |key: &'static str, values: &'static [&'static str]| {
        let given = select(values).prop_map(move |value| format!(", {key} = {value}"));
        prop_oneof![2 => Just(String::new()), 1 => given]
    };
    let words = (
        knob("dtype", &["f16", "bf16", "e4m3", "e5m2", "i8"]),
        knob("out", &["f16", "bf16", "f32", "i32"]),
        knob("a_layout", &["row", "col"]),
        knob("b_layout", &["row", "col"]),
        knob("transpose", &["on", "off"]),
        knob("consumers", &["1", "2", "3"]),
        knob("stages", &["2", "3", "4", "6"]),
        knob("pack", &["1", "2", "4"]),
    );
    ((side(), side(), side()), words).prop_map(|((bm, bn, bk), (a, out, la, lb, t, consumers, stages, pack))| {
        format!("op = sdd, bm = {bm}, bn = {bn}, bk = {bk}{a}{out}{la}{lb}{t}{consumers}{stages}{pack}")
    })
}
