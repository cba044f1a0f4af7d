//! The kernels of the CUDA cores: their plans, refusals and text, and what ptxas makes of them.

use std::fmt::Write;

use crate::golden::{golden_in, golden_refusals, section};
use crate::planning::{plan, try_plan};
use crate::ptxas;
use bsr_codegen::{KernelSpec, Plan, Problem, Target, TileScheduler};

const ATOMIC: &str = "mma = scalar, bm = 16, bn = 32, bk = 16, out = f32, accumulate = atomic";
const REGISTER: &str = "mma = scalar, bm = 16, bn = 32, bk = 16";
const VECTOR: &str = "mma = scalar, bm = 16, bn = 64, bk = 16, vector = 8";

const ACCEPTED: [&str; 14] = [
    ATOMIC,
    REGISTER,
    VECTOR,
    "mma = scalar, bm = 512, bn = 128, bk = 112",
    "mma = scalar, bm = 512, bn = 128, bk = 112, vector = 8",
    "mma = scalar, bm = 512, bn = 128, bk = 112, vector = 8, dtype = bf16",
    "mma = scalar, bm = 512, bn = 128, bk = 112, vector = 4, dtype = f32",
    "mma = scalar, bm = 96, bn = 64, bk = 80, vector = 8",
    "mma = scalar, bm = 48, bn = 256, bk = 112, vector = 8, arch = sm_90a",
    "mma = scalar, bm = 40, bn = 496, bk = 24",
    "mma = scalar, bm = 512, bn = 512, bk = 512, out = f32, accumulate = atomic",
    "mma = scalar, bm = 8, bn = 16, bk = 8, dtype = f32, accumulate = register",
    "mma = scalar, bm = 512, bn = 128, bk = 112, cta_m = 64",
    "mma = scalar, bm = 512, bn = 128, bk = 112, vector = 8, cta_m = 64",
];

const REFUSED: [&str; 21] = [
    "mma = scalar, bm = 100, bn = 100, bk = 100",
    "mma = scalar, bm = 1024, bn = 8, bk = 4",
    "mma = scalar, bm = 64, bn = 64, bk = 24, vector = 8",
    "mma = scalar, bm = 64, bn = 64, bk = 12, vector = 4, dtype = f32",
    "mma = scalar, bm = 24, bn = 16, bk = 16, vector = 8",
    "mma = scalar, bm = 64, bn = 64, bk = 64, vector = 4",
    "mma = scalar, bm = 64, bn = 64, bk = 64, vector = 8, dtype = f32",
    "mma = scalar, bm = 64, bn = 64, bk = 64, vector = 8, dtype = bf16, arch = sm_75",
    "mma = scalar, bm = 64, bn = 64, bk = 64, accumulate = atomic",
    "mma = scalar, bm = 64, bn = 64, bk = 64, accumulate = atomic, out = f32, vector = 8, schedule = strided",
    "mma = scalar, bm = 64, bn = 64, bk = 64, accumulate = promoted",
    "mma = scalar, bm = 64, bn = 64, bk = 64, dtype = e4m3",
    "mma = scalar, bm = 64, bn = 64, bk = 64, dtype = i8",
    "mma = scalar, bm = 64, bn = 64, bk = 64, a = f16, b = bf16",
    "mma = scalar, bm = 64, bn = 64, bk = 64, b_layout = col, c_layout = col",
    "mma = scalar, bm = 64, bn = 64, bk = 64, out = e4m3",
    "mma = scalar, bm = 64, bn = 64, bk = 64, stages = 4, cluster = 2",
    "mma = scalar, bm = 96, bn = 64, bk = 64, cta_m = 64",
    "mma = scalar, bm = 128, bn = 512, bk = 64, cta_m = 128",
    "mma = scalar, bm = 512, bn = 128, bk = 64, vector = 8, cta_m = 512",
    "mma = scalar, bm = 8, bn = 8, bk = 8, cta_m = 8",
];

#[test]
fn plans_accepted() {
    for text in ACCEPTED {
        let plan = plan(text);
        golden(&format!("plan_{}", file_name(text)), &format!("{}\n{}\n\n{plan}", plan.spec(), plan.summary()));
    }
}

#[test]
fn plans_refused() {
    golden_refusals("snapshots/scalar", "plans_refused", &REFUSED);
}

/// A help that names a number or a word for one key takes its error away.
#[test]
fn help_helps() {
    for text in REFUSED {
        for error in try_plan(text).expect_err(text).iter() {
            let help = error.help().unwrap();
            let Some((key, value)) = help.split([',']).next().and_then(|first| first.split_once(" = ")) else {
                continue;
            };
            let value = value.split(' ').next().unwrap();
            let kept = text.split(", ").filter(|part| !part.starts_with(&format!("{key} = ")));
            let mended = kept.chain([format!("{key} = {value}").as_str()]).collect::<Vec<_>>().join(", ");
            let left = mended.parse::<KernelSpec>().map(|spec| Plan::new(&spec).err());
            let left: Vec<String> = left
                .into_iter()
                .flatten()
                .flat_map(|e| e.iter().map(ToString::to_string).collect::<Vec<_>>())
                .collect();
            assert!(!left.contains(&error.to_string()), "{text}: {mended}: {left:?}");
        }
    }
}

/// The vector kernel whole; of the kernels of single elements, and of vectors of other types, the sections that differ.
#[test]
fn text() {
    let small = "mma = scalar, bm = 16, bn = 32, bk = 16";
    golden("whole_vector", plan(&format!("{small}, vector = 8")).ptx().text());
    for types in ["vector = 8, dtype = bf16", "vector = 4, dtype = f32"] {
        let ptx = plan(&format!("{small}, {types}")).ptx();
        golden(&format!("vector_multiply_{}", file_name(types)), section(ptx.text(), "Multiply"));
    }
    for (name, text, sections) in [
        ("atomic", ATOMIC, ["Prologue", "Multiply", "Add"].as_slice()),
        ("register", REGISTER, &["Block", "Stage", "Multiply", "Store"]),
    ] {
        let ptx = plan(text).ptx();
        let kept: Vec<&str> = sections.iter().map(|name| section(ptx.text(), name)).collect();
        golden(name, &kept.concat());
    }
}

/// C in every type, with and without the conversions of newer architectures.
#[test]
fn stores() {
    for out in ["f16", "bf16", "f32"] {
        for arch in ["sm_70", "sm_80"] {
            let ptx =
                plan(&format!("mma = scalar, bm = 8, bn = 256, bk = 16, vector = 8, out = {out}, arch = {arch}")).ptx();
            golden(&format!("store_{out}_{arch}"), section(ptx.text(), "Store"));
        }
    }
}

#[test]
fn launches() {
    let problem = Problem { m: 1000, n: 999, k: 1001, nnzb: 17, lda: 1008, ldb: 1008, ldc: 1008, ldt: 1008 };
    let mut all = String::new();
    for (text, tile_scheduler) in [(ATOMIC, TileScheduler::CtaPerBlock), (VECTOR, TileScheduler::Static)] {
        let plan = plan(text);
        assert_eq!(plan.tile_scheduler(), tile_scheduler);
        writeln!(all, "{text}\n{:#?}\n{:#?}\n", plan.cluster_tile(), plan.launch(&problem, [60, 1])).unwrap();
    }
    golden("launches", &all);
}

/// Every plan keeps within the CTA, the block and the smallest shared memory there is.
#[test]
fn tiles_divide_blocks_and_fit_every_architecture() {
    for plan in plans() {
        let (tile, spec) = (plan.cluster_tile(), plan.spec());
        assert!(spec.bm.is_multiple_of(tile.rows) && tile.columns == spec.bn, "{spec}");
        assert!(plan.threads().is_multiple_of(32) && plan.threads() <= 512, "{spec}");
        assert!(plan.shared_bytes() <= 48 << 10, "{spec}: {} B", plan.shared_bytes());
    }
}

#[test]
fn every_kernel_assembles_without_spills() {
    ptxas::assemble_all(&plans(), "scalar");
}

/// Every method and type over blocks that divide well and badly.
fn plans() -> Vec<Plan> {
    let mut plans = vec![];
    let methods = [
        "out = f32, accumulate = atomic",
        "dtype = bf16, out = f32, accumulate = atomic",
        "dtype = f32, accumulate = atomic",
        "dtype = f16",
        "dtype = bf16",
        "dtype = f32",
        "vector = 8",
        "vector = 8, out = f32",
        "vector = 8, out = bf16",
        "vector = 8, dtype = bf16",
        "vector = 8, dtype = bf16, arch = sm_90a",
        "vector = 4, dtype = f32",
        "vector = 4, dtype = f32, out = f16",
    ];
    let sizes = [
        (16, 64, 16),
        (512, 128, 112),
        (96, 64, 80),
        (48, 256, 112),
        (128, 512, 32),
        (40, 496, 24),
        (32, 16, 48),
        (320, 192, 64),
    ];
    for (i, method) in methods.into_iter().enumerate() {
        for (j, (bm, bn, bk)) in sizes.into_iter().enumerate() {
            let spec: KernelSpec = format!("mma = scalar, bm = {bm}, bn = {bn}, bk = {bk}, {method}").parse().unwrap();
            // Every other size for every other method; what a vector kernel cannot divide is left to the others.
            if (i + j).is_multiple_of(2) {
                plans.extend(Plan::new(&spec));
            }
        }
    }
    assert!(plans.len() >= 48, "{} plans", plans.len());
    assert!(plans.iter().any(|plan| plan.arch().target == Target::Sm70.as_str()));
    plans
}

/// `mma = scalar, bm = 16, bn = 64, bk = 16, vector = 8` is `16_64_16_vector_8`.
fn file_name(text: &str) -> String {
    let parts = text.split(", ").filter(|part| *part != "mma = scalar");
    let parts = parts.map(|part| {
        part.split_once(" = ").map_or(part.to_owned(), |(key, value)| match key {
            "bm" | "bn" | "bk" => value.to_owned(),
            _ => format!("{key}_{value}"),
        })
    });
    parts.collect::<Vec<_>>().join("_")
}

fn golden(name: &str, text: &str) {
    golden_in("snapshots/scalar", name, text);
}
