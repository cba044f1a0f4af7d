//! The kernels of attention: their plans, refusals and text, and what ptxas makes of them.
#![allow(clippy::unwrap_used)]

mod golden;

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use bsr_codegen::{
    Argument, AttentionProblem, KernelSpec, Operand, Plan, PlanErrors, StridedMap, TensorStrides, TileScheduler,
};
use golden::golden;

const CAUSAL: &str = "score = \"|| if i >= j { s * scale } else { -inf }\"";

const REFUSED: [&str; 21] = [
    "op = attention, bm = 96, bn = 128, bk = 128",
    "op = attention, bm = 128, bn = 264, bk = 128",
    "op = attention, bm = 128, bn = 72, bk = 24",
    "op = attention, bm = 1024, bn = 128, bk = 1024",
    "op = attention, bm = 128, bn = 128, bk = 128, dtype = e4m3",
    "op = attention, bm = 128, bn = 128, bk = 128, a = f16, b = bf16",
    "op = attention, bm = 128, bn = 128, bk = 128, out = f32",
    "op = attention, bm = 128, bn = 128, bk = 128, b_layout = col, transpose = on",
    "op = attention, bm = 128, bn = 128, bk = 128, epilogue = \"|| relu(acc)\"",
    "op = attention, bm = 128, bn = 128, bk = 128, cluster = 2, consumers = 2, pdl = on",
    "op = attention, bm = 128, bn = 128, bk = 128, stages = 3",
    "op = attention, bm = 128, bn = 256, bk = 128, k_step = 128",
    "op = attention, bm = 128, bn = 128, bk = 128, k_step = 48",
    "op = attention, bm = 128, bn = 256, bk = 128, split = auto",
    "op = attention, bm = 128, bn = 128, bk = 128, mma = mma_sync",
    "op = attention, bm = 128, bn = 128, bk = 128, score = \"|bias: Rows<f32>| s + bias\"",
    "op = attention, bm = 128, bn = 128, bk = 128, score = \"|| (s, row_sum(s))\"",
    "bm = 128, bn = 128, bk = 128, score = \"|| s * scale\"",
    "op = attention, bm = 128, bn = 128, bk = 128, score = \"|| acc * scale\"",
    "op = attention, bm = 128, bn = 128, bk = 128, score = \"|head: f32| s * head\"",
    "op = attention, bm = 128, bn = 128, bk = 128, score = 3",
];

fn try_plan(text: &str) -> Result<Plan, PlanErrors> {
    Plan::new(&text.parse().unwrap_or_else(|error| panic!("{text}: {error}")))
}

fn plan(text: &str) -> Plan {
    try_plan(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[test]
fn plans_by_hand() {
    let mut text = String::new();
    for spec in [
        format!("op = attention, bm = 128, bn = 128, bk = 128, dtype = bf16, {CAUSAL}"),
        "op = attention, bm = 64, bn = 64, bk = 64".to_owned(),
        "op = attention, bm = 128, bn = 256, bk = 128".to_owned(),
        "op = attention, bm = 192, bn = 80, bk = 96, stages = 3".to_owned(),
        "op = attention, bm = 64, bn = 128, bk = 128, split = auto".to_owned(),
    ] {
        writeln!(text, "{}\n", plan(&spec)).unwrap();
    }
    golden("attention_plans", &text);
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
    golden("attention_refusals", &text);
}

#[test]
fn maps_follow_the_strides() {
    let plan = plan("op = attention, bm = 128, bn = 80, bk = 64");
    assert_eq!(plan.tile_scheduler(), TileScheduler::Attention);
    let strides = |row| TensorStrides { row, head: 96, batch: 1 << 16 };
    let strides = [strides(960), strides(192), strides(200), strides(1000)];
    let problem = AttentionProblem { batch: 3, heads: 8, key_heads: 2, queries: 500, keys: 300, strides };
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
    ];
    let mut plans = vec![];
    for (at, (bm, bk)) in blocks.into_iter().enumerate() {
        for (number, columns) in columns.into_iter().enumerate() {
            let types = ["", "dtype = bf16"][(at + number) % 2];
            let knobs = ["", "stages = 2", "split = auto", "k_step = 16", "", "split = 16"][(at + number / 2) % 6];
            let knobs = if columns > 192 && knobs.starts_with("split") { "" } else { knobs };
            let given = [
                format!("op = attention, bm = {bm}, bn = {columns}, bk = {bk}"),
                types.into(),
                scores[(at + number) % 4].into(),
                knobs.into(),
            ];
            let text: Vec<String> = given.into_iter().filter(|part| !part.is_empty()).collect();
            plans.push(plan(&text.join(", ")));
        }
    }
    // Three consumers have the fewest registers, scores of two blocks in a step the most instructions.
    for (bm, bk, columns) in [(128, 128, 64), (64, 64, 64), (64, 64, 128)] {
        let of = |score: &str| plan(&format!("op = attention, bm = {bm}, bn = {columns}, bk = {bk}, {score}"));
        plans.extend(scores[1..].iter().map(|score| of(score)));
    }
    plans
}

#[test]
fn ptxas_assembles_every_kernel_without_spills() {
    let ptxas = std::env::var_os("PTXAS").map_or_else(|| PathBuf::from("ptxas"), PathBuf::from);
    if Command::new(&ptxas).arg("--version").output().is_err() {
        assert_ne!(std::env::var("BSR_REQUIRE_PTXAS").as_deref(), Ok("1"), "no ptxas at {}", ptxas.display());
        eprintln!("SKIPPED: no ptxas at {}", ptxas.display());
        return;
    }
    let (plans, next, bad) = (matrix(), AtomicUsize::new(0), Mutex::new(vec![]));
    std::thread::scope(|scope| {
        for thread in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            let (plans, next, bad, ptxas) = (&plans, &next, &bad, &ptxas);
            scope.spawn(move || {
                while let Some(plan) = plans.get(next.fetch_add(1, Ordering::Relaxed)) {
                    bad.lock().unwrap().extend(assemble(ptxas, plan, thread));
                }
            });
        }
    });
    let bad = bad.into_inner().unwrap();
    assert!(bad.is_empty(), "{} of {} kernels:\n{}", bad.len(), plans.len(), bad.join("\n"));
}

/// What ptxas has against a kernel: spills, warnings, and the info lines of serialized WGMMAs.
fn assemble(ptxas: &Path, plan: &Plan, thread: usize) -> Option<String> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("attention-{thread}"));
    std::fs::create_dir_all(&folder).unwrap();
    let (source, image) = (folder.join("kernel.ptx"), folder.join("kernel.cubin"));
    std::fs::write(&source, plan.ptx().text()).unwrap();
    let output = Command::new(ptxas).args(["-v", "-arch", "sm_90a", "-o"]).args([&image, &source]).output().unwrap();
    let log = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    let clean = log.contains("0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads");
    let complains = ["warning", "error", "(C7", "serialized"].iter().any(|word| log.contains(word));
    (!output.status.success() || !clean || complains).then(|| format!("{}\n{log}", plan.spec()))
}
