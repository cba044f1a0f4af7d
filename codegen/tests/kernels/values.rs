//! Every value of every key, for every operation and family: it changes the kernel, its launch or the order of its work, or
//! it is what the kernel is without it, or it is refused by name.

use std::collections::{BTreeMap, BTreeSet};

use crate::random;
use bsr_codegen::spec::{Key, Takes};
use bsr_codegen::{
    AttentionProblem, GradientProblem, KernelSpec, Op, Plan, PlanErrors, Problem, Schedule, TensorStrides,
};

/// Specs of one operation and family.
const GROUPS: [(&str, &[&str]); 23] = [
    (
        "dsd",
        &[
            "bm = 128, bn = 128, bk = 64",
            "bm = 128, bn = 64, bk = 32",
            "bm = 128, bn = 128, bk = 128, dtype = e4m3",
            "bm = 128, bn = 128, bk = 128, dtype = i8",
            "bm = 128, bn = 128, bk = 64, dtype = f32, tf32 = on, b_layout = col",
        ],
    ),
    (
        "dsd, swap-AB",
        &[
            "bm = 32, bn = 128, bk = 32",
            "bm = 16, bn = 64, bk = 128, dtype = e4m3",
            "bm = 32, bn = 64, bk = 32, dtype = i8",
        ],
    ),
    ("dsd, packed rows", &["bm = 64, bn = 128, bk = 64, swap = off, pack = 2"]),
    (
        "dds",
        &["bm = 64, bn = 128, bk = 128, op = dds", "bm = 64, bn = 64, bk = 64, op = dds, transpose = on, dtype = e4m3"],
    ),
    ("dds, swap-AB", &["bm = 32, bn = 128, bk = 32, op = dds"]),
    (
        "sdd",
        &[
            "bm = 128, bn = 128, bk = 64, op = sdd",
            "bm = 16, bn = 128, bk = 32, op = sdd",
            "bm = 64, bn = 64, bk = 64, op = sdd, dtype = e4m3",
        ],
    ),
    (
        "dss",
        &[
            "bm = 128, bn = 128, bk = 64, op = dss",
            "bm = 512, bn = 64, bk = 32, op = dss, dtype = bf16",
            "bm = 128, bn = 128, bk = 128, op = dss, dtype = e4m3",
        ],
    ),
    (
        "sss",
        &[
            "bm = 128, bn = 128, bk = 64, op = sss",
            "bm = 512, bn = 64, bk = 32, op = sss",
            "bm = 64, bn = 64, bk = 64, op = sss, dtype = e4m3",
        ],
    ),
    (
        "attention",
        &[
            "bm = 64, bn = 64, bk = 64, op = attention",
            "bm = 128, bn = 128, bk = 128, op = attention, dtype = bf16",
            "bm = 128, bn = 128, bk = 128, op = attention, dtype = e4m3",
        ],
    ),
    (
        "attention, mma_sync",
        &[
            "bm = 128, bn = 64, bk = 128, op = attention, mma = mma_sync",
            "bm = 64, bn = 128, bk = 64, op = attention, mma = mma_sync, dtype = bf16",
        ],
    ),
    ("attention_dq", &["bm = 64, bn = 64, bk = 64, op = attention_dq"]),
    ("attention_dkv", &["bm = 128, bn = 128, bk = 128, op = attention_dkv, dtype = bf16"]),
    (
        "mma_sync",
        &["bm = 64, bn = 64, bk = 64, mma = mma_sync", "bm = 64, bn = 64, bk = 64, mma = mma_sync, dtype = e4m3"],
    ),
    ("mma_sync, dds", &["bm = 64, bn = 64, bk = 64, mma = mma_sync, op = dds"]),
    (
        "mma_sync, sdd",
        &[
            "bm = 64, bn = 64, bk = 64, mma = mma_sync, op = sdd",
            "bm = 64, bn = 64, bk = 64, mma = mma_sync, op = sdd, dtype = e4m3",
        ],
    ),
    ("wmma, sdd", &["bm = 64, bn = 64, bk = 64, mma = wmma, op = sdd"]),
    (
        "mma_sync, f64",
        &[
            "bm = 64, bn = 64, bk = 64, mma = mma_sync, dtype = f64, arch = sm_90a",
            "bm = 64, bn = 64, bk = 64, mma = mma_sync, dtype = f64",
        ],
    ),
    ("mma_sync, tf32", &["bm = 64, bn = 64, bk = 64, mma = mma_sync, dtype = f32, tf32 = on"]),
    ("wmma", &["bm = 64, bn = 64, bk = 64, mma = wmma"]),
    ("scalar", &["bm = 64, bn = 64, bk = 32, mma = scalar", "bm = 64, bn = 64, bk = 32, mma = scalar, dtype = f32"]),
    ("scalar, atomic", &["bm = 64, bn = 64, bk = 32, mma = scalar, out = f32, accumulate = atomic"]),
    (
        "small blocks",
        &["bm = 3, bn = 4, bk = 3, mma = scalar, dtype = f64", "bm = 8, bn = 1, bk = 2, mma = scalar, dtype = f32"],
    ),
    ("scalar, vectors", &["bm = 64, bn = 64, bk = 32, mma = scalar, vector = 8"]),
];

#[test]
fn every_value_changes_the_kernel_or_is_its_default() {
    let mut wrong = vec![];
    for (group, bases) in GROUPS {
        let bases: Vec<(&str, Kernel)> = bases.iter().map(|text| (*text, kernel(&parse(text)).unwrap())).collect();
        for key in Key::ALL.into_iter().filter(|key| !key.is_required()) {
            // Of each spec, the values that are planned and change nothing; those that change something anywhere; refusals.
            let (mut same, mut differs) = (BTreeMap::<&str, BTreeSet<String>>::new(), BTreeSet::new());
            let mut refusals = vec![];
            for (text, base) in bases.iter().filter(|(text, _)| !text.contains(&format!(" {key} = "))) {
                for value in values(key, parse(text).op) {
                    let Ok(spec) = format!("{text}, {key} = {value}").parse::<KernelSpec>() else { continue };
                    match kernel(&spec) {
                        _ if spec == parse(text) || differs.contains(&value) => {}
                        Ok(kernel) if kernel != *base => drop(differs.insert(value)),
                        Ok(_) => drop(same.entry(text).or_default().insert(value)),
                        Err(errors) => refusals.push(errors),
                    }
                }
            }
            for (text, same) in same {
                let idle: Vec<_> = same.difference(&differs).cloned().collect();
                // Where the plan decides, one value may say what it decides anyway.
                let by_the_plan = usize::from(parse(text).value(key) == "auto");
                if idle.len() > by_the_plan {
                    wrong.push(format!("{group}: {text}: `{key}` = {idle:?} change nothing, nor do others"));
                }
            }
            // What the operation does not have is refused by its name.
            if differs.is_empty()
                && !refusals.is_empty()
                && !refusals.iter().any(|errors| errors.contains(key.as_str()))
            {
                wrong.push(format!("{group}: no refusal names `{key}`: {refusals:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What was accepted and ignored, by name.
#[test]
fn values_that_mean_nothing_are_refused() {
    for (spec, words) in [
        ("bm = 64, bn = 64, bk = 64, op = attention, beta = on", "op = attention has no `beta`"),
        ("bm = 64, bn = 64, bk = 64, op = attention, split = long", "split = long"),
        ("bm = 128, bn = 128, bk = 64, batch = on, split = long", "split = long"),
        ("bm = 128, bn = 128, bk = 64, schedule = strided, split = long", "split = long"),
        ("bm = 32, bn = 128, bk = 32, batch = on, split = long", "split = long"),
    ] {
        let errors = kernel(&parse(spec)).err().unwrap_or_else(|| panic!("{spec} is planned"));
        assert!(errors.contains(words), "{spec}\n{errors}");
    }
    let one = "bm = 64, bn = 64, bk = 64, op = attention";
    assert!(kernel(&parse(&format!("{one}, pack_heads = 1"))) == kernel(&parse(one)));
}

/// A plan, what it is launched with, and the order in which the host assigns tiles.
struct Kernel {
    plan: Plan,
    launch: String,
}

/// Equal where the launch, the order and the instructions are.
impl PartialEq for Kernel {
    fn eq(&self, other: &Self) -> bool {
        let code = |plan: &Plan| {
            let ptx = plan.ptx();
            ptx.text().lines().skip_while(|line| line.starts_with("//")).collect::<Vec<_>>().join("\n")
        };
        self.launch == other.launch && code(&self.plan) == code(&other.plan)
    }
}

fn kernel(spec: &KernelSpec) -> Result<Kernel, String> {
    let words =
        |errors: PlanErrors| errors.iter().map(|error| format!("{}: {error}\n", error.key())).collect::<String>();
    let plan = Plan::new(spec).map_err(words)?;
    let problem = Problem { m: 1000, n: 1008, k: 1040, nnzb: 17, lda: 1040, ldb: 1040, ldc: 1040, ldt: 1040 };
    let strides = [TensorStrides::heads_first(64, 1000, 256); 4];
    let queries = AttentionProblem {
        batch: 2,
        heads: 64,
        key_heads: 1,
        queries: 1000,
        keys: 900,
        pages: 70,
        strides,
        factors: [1, 1],
    };
    let gradient = GradientProblem { attention: queries, strides };
    let launch = plan
        .attention_launch(&queries, 8)
        .or_else(|| plan.gradient_launch(&gradient, 8))
        .unwrap_or_else(|| plan.launch(&problem, [8, 1]));
    let schedule = spec.schedule.or((spec.op != Op::Sdd).then_some(Schedule::Balanced));
    let tiles =
        (plan.sddmm_tiles(), plan.attention_tiles(), plan.gradient_tiles(), plan.split_form(), plan.tile_scheduler());
    let order = format!("{schedule:?} {:?} {tiles:?} {:?}", spec.split, plan.cluster_tile());
    // How a text is compiled is not said in it.
    let compiled = spec.opt_level;
    let launch = format!("{launch:?} {:?} {order} {:?} {compiled:?}", plan.problem_maps(&problem), plan.arch());
    Ok(Kernel { plan, launch })
}

fn values(key: Key, op: Op) -> Vec<String> {
    let closures: &[&str] = match (key, op) {
        (Key::Score, _) => &["\"|| if i >= j { s * scale } else { -inf }\"", "\"|x: f32| s * scale + x\""],
        (_, op) if op.stores_blocks() => &["\"|| relu(acc)\"", "\"|x: Bsr<f16>| acc + x\""],
        _ => &["\"|| relu(acc)\"", "\"|x: Dense<f16>| acc + x\"", "\"|| (acc, row_max(acc))\""],
    };
    match key.takes() {
        Takes::Words(words) => words.iter().filter(|word| !word.is_alias).map(|word| word.text.to_owned()).collect(),
        Takes::Closure => closures.iter().map(|text| (*text).to_owned()).collect(),
        Takes::Pair => ["(1, 1)", "(2, 2)", "(2, 4)", "(4, 2)", "(4, 1)", "(8, 1)"].map(str::to_owned).to_vec(),
        _ => random::numbers(key).iter().map(u32::to_string).collect(),
    }
}

fn parse(text: &str) -> KernelSpec {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}
