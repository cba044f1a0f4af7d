//! The kernels of attention: their plans, refusals and text, and what ptxas makes of them.

use std::fmt::Write;

use crate::golden::golden;
use crate::planning::{joined, plan, try_plan};
use crate::ptxas;
use bsr_codegen::probes::Probes;
use bsr_codegen::{Argument, AttentionProblem, KernelSpec, Operand, Plan, StridedMap, TensorStrides, TileScheduler};

const CAUSAL: &str = "score = \"|| if i >= j { s * scale } else { -inf }\"";

/// Documents, slopes and biases: a vector of every kind.
const DOCUMENTS: &str = "score = \"|of_query: Rows<f32>, of_key: Cols<f32>, slopes: Heads<f16>, bias: Cols<bf16>| if of_query == \
                         of_key { s * scale - slopes * abs(i - j) + bias } else { -inf }\"";

/// As many vectors by key as a score may have parameters.
const MOST_VECTORS: &str = "score = \"|a: Cols<f32>, b: Cols<f32>, c: Cols<f32>, e: Cols<f32>, f: Cols<f32>, g: Cols<f32>, h: \
                            Rows<f32>, k: Rows<f32>| if a == h { s * scale + b * h + c * k + e * f + g } else { -inf }\"";

const REFUSED: [&str; 51] = [
    "op = attention, bm = 96, bn = 128, bk = 128",
    "op = attention, bm = 128, bn = 264, bk = 128",
    "op = attention, bm = 128, bn = 72, bk = 24",
    "op = attention, bm = 1024, bn = 128, bk = 1024",
    "op = attention, bm = 128, bn = 128, bk = 128, a = f16, b = bf16",
    "op = attention, bm = 128, bn = 128, bk = 128, out = f32",
    "op = attention, bm = 128, bn = 128, bk = 128, b_layout = col, transpose = on",
    "op = attention, bm = 128, bn = 128, bk = 128, epilogue = \"|| relu(acc)\"",
    "op = attention, bm = 128, bn = 128, bk = 128, cta_m = 128, consumers = 2, pdl = early",
    "op = attention, bm = 128, bn = 128, bk = 128, cluster = 3",
    "op = attention, bm = 128, bn = 128, bk = 128, cluster = 2, split = auto",
    "op = attention, bm = 128, bn = 128, bk = 128, cluster = 2, page = 64",
    "op = attention, bm = 128, bn = 128, bk = 128, cluster = 2, dtype = e4m3",
    "op = attention, bm = 128, bn = 80, bk = 128, cluster = 2",
    "op = attention, bm = 64, bn = 128, bk = 128, cluster = 2, consumers = 2",
    "op = attention, bm = 64, bn = 256, bk = 128, cluster = 2",
    "op = attention, bm = 128, bn = 128, bk = 128, cluster = 8, stages = 8",
    "op = attention, bm = 128, bn = 128, bk = 128, stages = 3",
    "op = attention, bm = 128, bn = 256, bk = 128, k_step = 128",
    "op = attention, bm = 128, bn = 128, bk = 128, k_step = 48",
    "op = attention, bm = 128, bn = 256, bk = 128, split = auto",
    "op = attention, bm = 128, bn = 128, bk = 128, pack_heads = 3",
    "op = attention, bm = 128, bn = 128, bk = 128, pack_heads = 4, score = \"|| s * scale - head\"",
    "op = attention, bm = 128, bn = 128, bk = 128, pack_heads = 4, score = \"|slopes: Heads<f32>| s * scale - slopes\"",
    "op = attention, bm = 128, bn = 128, bk = 128, pack = 4",
    "op = attention, bm = 128, bn = 128, bk = 128, pack = 4, score = \"|| s * scale - head\"",
    "bm = 32, bn = 128, bk = 32, pack_heads = 4",
    "op = attention, bm = 128, bn = 128, bk = 128, mma = wmma",
    "op = attention, bm = 128, bn = 128, bk = 128, score = \"|bias: Dense<f32>| s + bias\"",
    "op = attention, bm = 128, bn = 128, bk = 128, score = \"|bias: Row<f32>| s + bias\"",
    "op = attention, bm = 128, bn = 128, bk = 128, score = \"|id: Rows<i32>| s + id\"",
    "op = attention, bm = 128, bn = 128, bk = 128, score = \"|slopes: Heads<f32>| s\"",
    "op = attention, bm = 128, bn = 256, bk = 128, k_step = 64, score = \"|a: Rows<f32>, b: Rows<f32>, c: Cols<f32>, \
     d: Cols<f32>, e: Cols<f32>, f: Cols<f32>, g: Rows<f32>, h: Rows<f32>| s + (a + b) * c + (a * b) * d + (g - h) * e + (g + h) * f\"",
    "op = attention, bm = 128, bn = 128, bk = 128, d = 72",
    "op = attention, bm = 128, bn = 128, bk = 128, d = 272",
    "op = attention, bm = 128, bn = 256, bk = 16, d = 256, stages = 8",
    "bm = 128, bn = 128, bk = 128, d = 64",
    "bm = 128, bn = 128, bk = 128, sinks = on",
    "bm = 128, bn = 128, bk = 128, page = 64",
    "op = attention, bm = 128, bn = 128, bk = 128, page = 24",
    "op = attention, bm = 128, bn = 128, bk = 128, page = 512",
    "op = attention, bm = 128, bn = 128, bk = 96, page = 64, k_step = 96",
    "bm = 128, bn = 128, bk = 128, work_list = 4096",
    "op = attention, bm = 128, bn = 128, bk = 128, work_list = 32764",
    "op = attention, bm = 128, bn = 128, bk = 128, work_list = 4096, page = 64",
    "bm = 128, bn = 128, bk = 128, epilogue = \"|slopes: Heads<f32>| acc * slopes\"",
    "op = attention, bm = 128, bn = 128, bk = 128, score = \"|| (s, row_sum(s))\"",
    "bm = 128, bn = 128, bk = 128, score = \"|| s * scale\"",
    "op = attention, bm = 128, bn = 128, bk = 128, score = \"|| acc * scale\"",
    "op = attention, bm = 128, bn = 128, bk = 128, score = \"|head: f32| s * head\"",
    "op = attention, bm = 128, bn = 128, bk = 128, score = 3",
];

#[test]
fn plans_by_hand() {
    let mut text = String::new();
    for spec in [
        format!("op = attention, bm = 128, bn = 128, bk = 128, dtype = bf16, {CAUSAL}"),
        "op = attention, bm = 64, bn = 64, bk = 64".to_owned(),
        "op = attention, bm = 128, bn = 256, bk = 128".to_owned(),
        "op = attention, bm = 192, bn = 80, bk = 96, stages = 3".to_owned(),
        "op = attention, bm = 64, bn = 128, bk = 128, split = auto".to_owned(),
        "op = attention, bm = 64, bn = 128, bk = 128, pack_heads = 4, split = 8, dtype = bf16".to_owned(),
        format!("op = attention, bm = 128, bn = 128, bk = 128, dtype = bf16, d = 192, {DOCUMENTS}"),
        "op = attention, bm = 64, bn = 128, bk = 128, pack_heads = 4, split = auto, dtype = bf16, page = 16".to_owned(),
        "op = attention, bm = 64, bn = 128, bk = 64, cluster = 2, dtype = bf16".to_owned(),
        "op = attention, bm = 128, bn = 128, bk = 128, cluster = 4, pdl = on".to_owned(),
        "op = attention, bm = 64, bn = 128, bk = 64, consumers = 1, work_list = 8192".to_owned(),
    ] {
        writeln!(text, "{}\n", plan(&spec)).unwrap();
    }
    golden("attention_plans", &text);
}

/// A small kernel whole, the same with divided keys, with heads that share a tile, with keys in pages, and in clusters.
#[test]
fn whole_kernels() {
    let small = "op = attention, bm = 64, bn = 64, bk = 64, stages = 2";
    for (name, keys) in [
        ("plain", ""),
        ("split", ", split = 2"),
        ("pack", ", pack_heads = 4"),
        ("page", ", page = 32"),
        ("cluster", ", cluster = 2, pdl = on"),
    ] {
        golden(&format!("attention_whole_{name}"), plan(&format!("{small}{keys}")).ptx().text());
    }
}

/// The sums of the rows of a tile where heads share it.
#[test]
fn sums_with_sinks() {
    let plan = plan("op = attention, bm = 64, bn = 64, bk = 64, stages = 2, pack_heads = 4, split = 2, sinks = on");
    let ptx = plan.ptx();
    let text = &ptx.text()[ptx.text().find("    // The sink of each row's head").unwrap()..];
    golden("attention_sums_with_sinks", &text[..text.find("    mul.f32 %f_o0").unwrap()]);
}

#[test]
fn refusals() {
    let mut text = String::new();
    for spec in REFUSED {
        let why = match spec.parse::<KernelSpec>() {
            Ok(read) => Plan::new(&read).expect_err(spec).to_string(),
            Err(errors) => errors.to_string(),
        };
        writeln!(text, "{spec}\n{why}\n").unwrap();
    }
    // A score that keeps more of its queries than there are registers beside the smallest step.
    let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let parameters = names.map(|name| format!("{name}: Rows<f32>")).join(", ");
    let pairs = (0..8).flat_map(|one| (0..one).map(move |other| format!("({} * {}) * j", names[one], names[other])));
    let body = pairs.collect::<Vec<_>>().join(" + ");
    let spec = format!("op = attention, bm = 128, bn = 256, bk = 128, score = \"|{parameters}| s + {body}\"");
    writeln!(text, "28 products by query\n{}\n", try_plan(&spec).unwrap_err()).unwrap();
    golden("attention_refusals", &text);
}

#[test]
fn maps_follow_the_strides() {
    let plan = plan("op = attention, bm = 128, bn = 80, bk = 64");
    assert_eq!(plan.tile_scheduler(), TileScheduler::Attention);
    let strides = |row| TensorStrides { row, head: 96, batch: 1 << 16 };
    let strides = [strides(960), strides(192), strides(200), strides(1000)];
    let problem = AttentionProblem {
        batch: 3,
        heads: 8,
        key_heads: 2,
        queries: 500,
        keys: 300,
        pages: 0,
        strides,
        factors: [0, 0],
    };
    let launch = plan.attention_launch(&problem, 7).unwrap();
    assert_eq!((launch.grid, launch.block, launch.cluster), ([7, 1], 384, 1));
    let map = |name: &str| -> StridedMap {
        let parameter = launch.parameters.iter().find(|parameter| parameter.name == name).unwrap();
        let Argument::Strided(map) = parameter.argument else { panic!("{name}") };
        map
    };
    let (q, k, v, o) = (map("map_q"), map("map_k"), map("map_v"), map("map_o"));
    assert_eq!([q, k, v, o].map(|map| map.operand), [Operand::A, Operand::B, Operand::V, Operand::C]);
    assert_eq!((q.dims, q.strides_bytes, q.box_dims), ([80, 500, 8, 3], [1920, 192, 1 << 17], [16, 128, 1, 1]));
    assert_eq!((k.dims, k.strides_bytes, k.box_dims), ([80, 300, 2, 3], [384, 192, 1 << 17], [16, 64, 1, 1]));
    assert_eq!((v.dims, v.strides_bytes[0], v.box_dims), (k.dims, 400, k.box_dims));
    assert_eq!((o.dims, o.strides_bytes[0], o.box_dims), (q.dims, 2000, [16, 64, 1, 1]));
    assert_eq!(q.swizzle_bytes, 32);
    assert!(plan.attention_tiles().is_some_and(|tiles| tiles.uniform && (tiles.step, tiles.blocks) == (128, 2)));
}

/// Where V has other columns than Q and K, Q and O share a buffer and the span of their swizzle.
#[test]
fn maps_of_two_head_dimensions() {
    let of = |bn: u32, d: u32| {
        let plan = plan(&format!("op = attention, bm = 128, bn = {bn}, bk = 64, d = {d}"));
        let problem =
            AttentionProblem { batch: 1, heads: 2, key_heads: 2, queries: 99, keys: 88, ..Default::default() };
        let launch = plan.attention_launch(&problem, 1).unwrap();
        let map = |parameter: &bsr_codegen::Parameter| match parameter.argument {
            Argument::Strided(map) => Some((map.operand, map.dims[0], map.box_dims, map.swizzle_bytes)),
            _ => None,
        };
        launch.parameters.iter().filter_map(map).collect::<Vec<_>>()
    };
    let map = |operand, columns, box_dims, swizzle| (operand, columns, box_dims, swizzle);
    assert_eq!(
        of(128, 192),
        [
            map(Operand::A, 192, [64, 128, 1, 1], 128),
            map(Operand::B, 192, [64, 64, 1, 1], 128),
            map(Operand::V, 128, [64, 64, 1, 1], 128),
            map(Operand::C, 128, [64, 64, 1, 1], 128),
        ]
    );
    assert_eq!(
        of(64, 80),
        [
            map(Operand::A, 80, [16, 128, 1, 1], 32),
            map(Operand::B, 80, [16, 64, 1, 1], 32),
            map(Operand::V, 64, [64, 64, 1, 1], 128),
            map(Operand::C, 64, [16, 64, 1, 1], 32),
        ]
    );
}

/// A vector is an address and its strides; the signature has them in the order of the parameters.
#[test]
fn a_score_declares_its_vectors() {
    let plan = plan(&format!("op = attention, bm = 64, bn = 64, bk = 64, {DOCUMENTS}"));
    let launch = plan.attention_launch(&AttentionProblem::default(), 1).unwrap();
    let arguments: Vec<_> =
        launch.parameters.iter().skip(12).map(|parameter| (parameter.name, parameter.argument)).collect();
    assert_eq!(arguments.len(), 8);
    for (at, name) in ["of_query", "of_key", "slopes", "bias"].into_iter().enumerate() {
        assert_eq!(arguments[2 * at], (format!("epilogue_{name}").as_str(), Argument::Pointer(Operand::Epilogue(at))));
        assert_eq!(arguments[2 * at + 1], (format!("strides_{name}").as_str(), Argument::VectorStrides(at)));
    }
}

/// Blocks of the sizes that masks have, with every head dimension: all are planned, and steps become smaller where registers
/// or shared memory ask for it.
#[test]
fn every_head_dimension_is_planned() {
    for (bm, bk) in [(64, 64), (64, 128), (128, 64), (128, 128)] {
        for bn in (16..=256).step_by(16) {
            for (dtype, score) in [("f16", ""), ("bf16", CAUSAL), ("bf16", DOCUMENTS)] {
                let block = format!("op = attention, bm = {bm}, bn = {bn}, bk = {bk}, dtype = {dtype}");
                let text = joined(&[&block, score]);
                let plan = plan(&text);
                let tiles = plan.attention_tiles().unwrap();
                assert!(tiles.step >= 64 || bn > 192, "{text}: steps of {}", tiles.step);
                assert!(plan.shared_bytes() <= 232_448);
            }
        }
    }
}

#[test]
fn text_and_toml_say_the_same_score() {
    let text = format!("op = attention, bm = 128, bn = 128, bk = 128, {CAUSAL}");
    let spec: KernelSpec = text.parse().unwrap();
    assert_eq!(spec.to_string().parse::<KernelSpec>().unwrap(), spec);
    let toml = "op = \"attention\"\nbm = 128\nbn = 128\nbk = 128\nscore = \"|| if i >= j { s*scale } else { -inf }\"\n";
    assert_eq!(KernelSpec::from_toml(toml).unwrap(), spec);
    let json = serde_json::to_string(&spec).unwrap();
    assert_eq!(serde_json::from_str::<KernelSpec>(&json).unwrap(), spec);
    assert!(!serde_json::to_string(&KernelSpec::new(64, 64, 64)).unwrap().contains("score"));
}

/// Blocks, heads, types and scores in turn.
fn matrix() -> Vec<Plan> {
    let blocks = [(128, 128), (64, 64), (64, 128), (128, 64), (192, 96), (256, 256), (512, 16)];
    let columns = [128, 64, 256, 80, 16, 192, 96, 112, 160, 32, 224];
    let scores = [
        "",
        CAUSAL,
        "score = \"|cap: f32| cap * tanh(s * scale / cap)\"",
        "score = \"|slope: f32| s * scale - slope * (head + 1) * abs(i - j)\"",
        DOCUMENTS,
    ];
    let mut plans = vec![];
    for (at, (bm, bk)) in blocks.into_iter().enumerate() {
        for (number, columns) in columns.into_iter().enumerate() {
            let types = ["", "dtype = bf16"][(at + number) % 2];
            let heads = if (at + number) % 5 > 2 {
                ""
            } else {
                ["", "pack_heads = 4", "", "pack_heads = 8", ""][(2 * at + number) % 5]
            };
            let knobs = ["", "stages = 2", "split = auto", "k_step = 16", "", "split = 16"][(at + number / 2) % 6];
            let knobs = if columns > 176 && knobs.starts_with("split") { "" } else { knobs };
            let sinks = ["", "sinks = on", ""][(at + number) % 3];
            let block = format!("op = attention, bm = {bm}, bn = {columns}, bk = {bk}");
            plans.push(plan(&joined(&[&block, types, heads, scores[(at + number) % 5], sinks, knobs])));
        }
    }
    // Three consumers have the fewest registers, scores of two blocks in a step the most instructions.
    for (bm, bk, columns) in [(128, 128, 64), (64, 64, 64), (64, 64, 128)] {
        let of = |score: &str| plan(&format!("op = attention, bm = {bm}, bn = {columns}, bk = {bk}, {score}"));
        plans.push(of("sinks = on"));
        plans.extend(scores[1..].iter().map(|score| of(score)));
    }
    // The widest heads whose keys are divided.
    let widest = "op = attention, bm = 128, bn = 176, bk = 128, split = auto, sinks = on";
    plans.extend(scores.iter().map(|score| plan(&joined(&[widest, score]))));
    // Other columns of Q and K than of V, and as many vectors as a score may have.
    for (number, (d, bn)) in
        [(192, 128), (64, 128), (128, 64), (80, 64), (256, 16), (16, 256), (96, 192)].into_iter().enumerate()
    {
        let score = [DOCUMENTS, MOST_VECTORS][number % 2];
        for bm in [64, 128] {
            plans
                .push(plan(&format!("op = attention, bm = {bm}, bn = {bn}, bk = 128, dtype = bf16, d = {d}, {score}")));
        }
    }
    // Pages of one box of a step and of several, beside two consumers and three, of which the producer has fewer registers.
    for (number, page) in [16, 32, 64, 256].into_iter().enumerate() {
        for columns in [64, 128, 256] {
            let knobs =
                if columns > 176 { "" } else { ["split = auto, pack_heads = 4", "split = auto, d = 192"][number % 2] };
            let score = if knobs.contains("pack") { "" } else { DOCUMENTS };
            let block = format!("op = attention, bm = 64, bn = {columns}, bk = 128, page = {page}");
            plans.push(plan(&joined(&[&block, knobs, score])));
        }
    }
    plans
}

#[test]
fn ptxas_assembles_every_kernel_without_spills() {
    ptxas::assemble_all(&matrix(), "attention");
}

/// Other blocks, whose steps are found in more registers, have none left for probes under some scores.
#[test]
fn ptxas_assembles_kernels_of_blocks_of_128_with_probes_without_spills() {
    let probes = Probes { first: 1, ctas: 3, records: 1 << 16 };
    let is_asked = |plan: &&Plan| (plan.spec().bm, plan.spec().bk) == (128, 128) && plan.spec().bn < 176;
    let with: Vec<Plan> = matrix().iter().filter(is_asked).map(|plan| plan.probed(probes).unwrap()).collect();
    assert!(with.len() > 10, "{} kernels", with.len());
    ptxas::assemble_all(&with, "attention-probed");
}

/// Clusters of every size, beside scores and sinks, with as many columns as they take; and the launch of one.
#[test]
fn ptxas_assembles_clusters_without_spills() {
    let mut plans = vec![];
    for (at, size) in [2, 4, 8].into_iter().enumerate() {
        for (number, (bm, bn)) in
            [(64, 128), (128, 128), (128, 256), (64, 64 * size.min(3)), (192, 64)].into_iter().enumerate()
        {
            let keys = ["", "sinks = on, pdl = on", CAUSAL, DOCUMENTS, "pack_heads = 4"][(at + number) % 5];
            if bn % (16 * size) == 0 {
                let spec = format!("op = attention, bm = {bm}, bn = {bn}, bk = 64, dtype = bf16, cluster = {size}");
                plans.push(plan(&joined(&[&spec, keys])));
            }
        }
    }
    ptxas::assemble_all(&plans, "attention-clusters");
    let launch = plans[0].attention_launch(&AttentionProblem::default(), 66).unwrap();
    assert_eq!((launch.grid, launch.cluster, launch.is_dependent), ([132, 1], 2, false));
    let pdl = plan("op = attention, bm = 64, bn = 64, bk = 64, pdl = on");
    assert!(pdl.attention_launch(&AttentionProblem::default(), 1).unwrap().is_dependent);
}

/// Lists in the parameters, short and as long as they can be, beside what else reads steps.
#[test]
fn ptxas_assembles_lists_in_parameters_without_spills() {
    let keys = ["", "cluster = 2", "split = auto", "pdl = on, consumers = 1", CAUSAL, "pack_heads = 4, sinks = on"];
    let plans: Vec<Plan> = keys
        .into_iter()
        .enumerate()
        .map(|(at, keys)| {
            let (bk, bytes) = ([64, 32, 128][at % 3], [256, 8192, 30_720][at % 3]);
            let spec = format!("op = attention, bm = 64, bn = 128, bk = {bk}, dtype = bf16, work_list = {bytes}");
            plan(&joined(&[&spec, keys]))
        })
        .collect();
    ptxas::assemble_all(&plans, "attention-lists");
    for plan in &plans {
        assert!(!plan.ptx().text().contains("[steps]") && plan.ptx().text().contains(".version 8.1"));
    }
}

/// Steps of neighbouring blocks: S takes more registers than in other kernels.
#[test]
fn ptxas_assembles_steps_of_neighbouring_blocks_without_spills() {
    let window = "score = \"|| if i < j { -inf } else if i - j > 127 { -inf } else { s * scale }\"";
    let specs = [
        "bm = 16, bn = 64, bk = 16, pack_heads = 8, consumers = 2, k_step = 144",
        "bm = 16, bn = 64, bk = 16, pack_heads = 8, consumers = 2, k_step = 192",
        "bm = 16, bn = 128, bk = 16, pack_heads = 8, consumers = 2, k_step = 144",
        "bm = 32, bn = 64, bk = 32, pack_heads = 4, consumers = 2, k_step = 160",
        "bm = 64, bn = 64, bk = 16, pack_heads = 2, consumers = 2, k_step = 192",
        "bm = 8, bn = 64, bk = 16, pack_heads = 8, consumers = 1, k_step = 144",
        "bm = 8, bn = 64, bk = 16, pack_heads = 8, consumers = 1, k_step = 80",
        "bm = 24, bn = 64, bk = 16, pack_heads = 8, consumers = 3, k_step = 80",
        "bm = 128, bn = 64, bk = 16, k_step = 128, consumers = 2",
    ];
    let of = |keys: &str| specs.map(|spec| plan(&joined(&["op = attention, dtype = bf16", spec, keys])));
    let plans: Vec<Plan> = ["", window, "sinks = on"].into_iter().flat_map(of).collect();
    ptxas::assemble_all(&plans, "attention-joined");
}

/// Two CTAs of one consumer share an SM, with 128 registers a thread: up to 192 columns ptxas has enough of them, and beyond them the
/// kernel is refused with what it takes.
#[test]
fn ptxas_assembles_tiles_of_one_consumer_up_to_the_widest() {
    let spec = |bn: u32, keys: &str| {
        joined(&[&format!("op = attention, bm = 64, bn = {bn}, bk = 64, consumers = 1, dtype = bf16"), keys])
    };
    let keys = ["", "page = 64", DOCUMENTS];
    let all = [64, 128, 192].into_iter().flat_map(|bn| keys.map(|keys| spec(bn, keys)));
    let plans: Vec<Plan> =
        all.chain([spec(160, "page = 32, split = auto, sinks = on")]).map(|text| plan(&text)).collect();
    ptxas::assemble_all(&plans, "attention-alone");
    for bn in [208, 224, 240, 256] {
        let errors = Plan::new(&spec(bn, "").parse().unwrap()).unwrap_err().to_string();
        let of_output = format!("takes {} of O and 30 more; up to 192 columns fit", bn / 2);
        assert!(errors.contains(&of_output) && errors.contains("consumers = 2"), "{errors}");
    }
}
