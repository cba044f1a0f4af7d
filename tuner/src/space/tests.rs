#![allow(clippy::unwrap_used)]

use std::collections::{HashMap, HashSet};

use bsr_codegen::spec::LocatedFamily;
use bsr_codegen::{Arch, KernelSpec, Mma, Op, Plan, Schedule};
use proptest::prelude::*;
use rayon::prelude::*;

use super::*;

const FLAGSHIP: &str = "bm = 512, bk = 112";

fn try_points(space: &str, facts: &str) -> Result<Points, String> {
    let space = Space::find(space).map_err(|error| error.to_string())?;
    space.points(&facts.parse::<Facts>().unwrap()).map_err(|error| error.to_string())
}

fn points(space: &str, facts: &str) -> Points {
    try_points(space, facts).unwrap_or_else(|error| panic!("{error}"))
}

/// What a launch of the kernel does: its instructions, without the two lines that tell of spec and plan, and how
/// the tile scheduler assigns and divides tiles.
fn kernel(plan: &Plan) -> String {
    let schedule = plan.spec().schedule.or((plan.spec().op != Op::Sdd).then_some(Schedule::Balanced));
    let ptx = plan.ptx();
    let body: Vec<&str> = ptx.text().lines().skip(2).collect();
    // A name is no choice: that of an SDDMM has `bn`, which is rounded to whole blocks.
    let body = body.join("\n").replace(ptx.entry(), "entry");
    // The level at which it is compiled is in no text.
    format!("{schedule:?} {:?} {:?}\n{body}", plan.spec().split, plan.spec().opt_level)
}

#[test]
fn the_flagship_has_hundreds_of_kernels_and_the_older_ones_among_them() {
    let points = points("hopper-f16", FLAGSHIP);
    assert!(points.legal.len() >= 300, "{}", points.legal.len());
    let says = |text: &str| {
        let spec: KernelSpec = text.parse().unwrap();
        points.legal.iter().any(|point| point.spec == spec)
    };
    for seed in [
        "bm = 512, bn = 128, bk = 112, stages = 3",
        "bm = 512, bn = 64, bk = 112, mma = scalar, accumulate = register",
        "bm = 512, bn = 128, bk = 112, mma = scalar, accumulate = register, vector = 8",
        "bm = 512, bn = 64, bk = 112, mma = wmma, arch = sm_70, warps = (2, 2)",
        "bm = 512, bn = 64, bk = 112, mma = wmma, arch = sm_80, warps = (4, 2)",
        "bm = 512, bn = 256, bk = 112, mma = wmma, arch = sm_80",
        "bm = 512, bn = 256, bk = 112, mma = mma_sync",
    ] {
        assert!(says(seed), "{seed}");
    }
    // C in f32 is another product: atomics are kernels of that one.
    let atomics = "bm = 512, bn = 64, bk = 112, mma = scalar, accumulate = atomic";
    let refused = points.rejected.iter().find(|rejected| rejected.spec == atomics.parse().unwrap()).unwrap();
    assert!(refused.reasons[0].to_string().starts_with("accumulate: "), "{:?}", refused.reasons);
    let wide = super::tests::points("hopper-f16", "bm = 512, bk = 112, out = f32");
    assert!(wide.legal.iter().any(|point| point.spec.accumulate == Some(bsr_codegen::Accumulate::Atomic)));
}

#[test]
fn every_block_has_kernels_in_the_spaces_made_for_it() {
    for (space, facts, least) in [
        ("hopper-f16", "bm = 128, bk = 128", 300),
        ("hopper-f16", "bm = 128, bk = 32", 300),
        ("hopper-f16", "bm = 64, bk = 64, dtype = bf16", 300),
        ("hopper-f16", "bm = 32, bk = 32", 200),
        ("hopper-f16", "bm = 16, bk = 16", 200),
        ("hopper-f16", "bm = 96, bk = 80", 100),
        ("hopper-f16", "bm = 128, bk = 128, op = sdd", 20),
        ("hopper-f16", "bm = 128, bk = 128, op = dds, transpose = on, out = f32", 200),
        ("hopper-f16", "bm = 128, bk = 64, epilogue = \"|bias: Rows<f32>| relu(acc + bias)\"", 200),
        ("hopper-fp8", "bm = 128, bk = 128, dtype = e4m3", 300),
        ("hopper-fp8", "bm = 128, bk = 128, dtype = e4m3, accumulate = promoted", 200),
        ("hopper-fp8", "bm = 512, bk = 112, dtype = e4m3", 300),
        ("hopper-fp8", "bm = 64, bk = 64, a = e4m3, b = e5m2, scale = row_col", 100),
        ("hopper-fp8", "bm = 128, bk = 128, dtype = i8", 200),
        ("ampere-wmma", "bm = 128, bk = 128", 200),
        ("ampere-wmma", "bm = 16, bk = 16, dtype = bf16", 50),
        ("ampere-wmma", "bm = 128, bk = 128, dtype = e4m3", 50),
        ("ampere-wmma", "bm = 128, bk = 128, dtype = f64", 50),
        ("ampere-wmma", "bm = 128, bk = 128, op = sdd", 100),
        ("ampere-wmma", "bm = 32, bk = 32, op = sdd, transpose = on, dtype = bf16", 50),
        ("hopper-f64", "bm = 64, bk = 64, dtype = f64", 100),
        ("ampere-wmma", "bm = 128, bk = 128, dtype = f32, tf32 = on", 50),
        ("hopper-tf32", "bm = 128, bk = 128, dtype = f32, tf32 = on", 50),
        ("hopper-tf32", "bm = 128, bk = 128, dtype = f32, tf32 = on, b_layout = col", 250),
        ("hopper-tf32", "bm = 32, bk = 32, dtype = f32, tf32 = on, b_layout = col", 100),
        ("ampere-attention", "op = attention, bm = 128, bn = 128, bk = 128, dtype = bf16", 20),
        ("ampere-attention", "op = attention, bm = 64, bn = 64, bk = 64", 8),
        ("hopper-pairs", "bm = 128, bn = 128, bk = 128, op = dss", 40),
        ("hopper-pairs", "bm = 64, bn = 64, bk = 64, op = sss, dtype = bf16", 40),
        ("hopper-pairs", "bm = 256, bn = 128, bk = 64, op = dss, out = f32", 30),
        ("hopper-pairs", "bm = 128, bn = 128, bk = 128, op = sss, dtype = e4m3", 140),
        ("hopper-pairs", "bm = 128, bn = 64, bk = 256, op = dss, dtype = e4m3, accumulate = promoted", 60),
        ("scalar", "bm = 128, bk = 128, dtype = f32", 10),
        ("scalar", "bm = 8, bk = 8, dtype = f32", 20),
        ("scalar", "bm = 3, bk = 3, dtype = f64, b_layout = col, c_layout = col", 15),
        ("scalar", "bm = 5, bk = 5, a = f32, b = f64, out = f64", 10),
        ("quick", "bm = 128, bk = 128", 8),
        ("quick", "bm = 24, bk = 24", 4),
        ("quick", "bm = 8, bk = 8", 3),
        ("quick", "bm = 64, bk = 64, dtype = e4m3", 4),
        ("quick", "bm = 64, bk = 64, dtype = f32", 1),
    ] {
        let points = points(space, facts);
        let parts: HashSet<usize> = points.legal.iter().map(|point| point.part).collect();
        println!(
            "{space} {facts}: {} kernels of {} points, from {} parts",
            points.legal.len(),
            points.len(),
            parts.len()
        );
        assert!(points.legal.len() >= least, "{space} {facts}: {}", points.legal.len());
        let counted: usize = points.reasons().iter().map(|(_, count)| count).sum();
        assert_eq!(counted, points.len() - points.legal.len());
        assert!(points.legal.iter().all(|point| Facts::of(&point.spec) == facts.parse().unwrap()));
    }
}

/// Each GPU has the kernels that its own architecture has, within its shared memory.
#[test]
fn a_space_is_planned_for_the_architecture_of_a_gpu() {
    let facts: Facts = "bm = 128, bk = 128".parse().unwrap();
    for target in [Target::Sm70, Target::Sm75, Target::Sm86, Target::Sm120] {
        let points = Space::named("ampere-wmma").unwrap().on(target).points(&facts).unwrap();
        let has = |mma: Mma| points.legal.iter().any(|point| point.spec.mma == mma);
        assert_eq!(
            [has(Mma::MmaSync), has(Mma::Wmma), has(Mma::Scalar)],
            [target >= Target::Sm80, true, true],
            "{target}"
        );
        for Point { spec, plan, .. } in &points.legal {
            let arch = Arch::of(target);
            assert_eq!((spec.arch, plan.arch().target), (Some(target), arch.target), "{spec}");
            assert!(plan.shared_bytes() <= arch.shared_bytes, "{spec}");
        }
    }
}

/// Equal digests are equal kernels, and other digests other kernels.
#[test]
fn points_are_told_apart_by_what_they_execute() {
    for (space, facts, every) in [
        ("quick", "bm = 64, bk = 64", 1),
        ("hopper-f16", FLAGSHIP, 7),
        ("hopper-f16", "bm = 16, bk = 16", 7),
        ("hopper-f16", "bm = 64, bk = 32, op = sdd", 5),
        ("hopper-fp8", "bm = 128, bk = 128, dtype = e4m3, scale = block", 7),
        ("ampere-wmma", "bm = 64, bk = 32", 5),
        ("ampere-wmma", "bm = 64, bk = 32, op = sdd", 5),
        ("hopper-f64", "bm = 64, bk = 64, dtype = f64", 5),
        ("hopper-pairs", "bm = 64, bn = 64, bk = 64, op = dss", 3),
        ("hopper-pairs", "bm = 128, bn = 128, bk = 128, op = sss", 3),
        ("hopper-pairs", "bm = 64, bn = 64, bk = 256, op = sss, dtype = e4m3", 5),
        ("ampere-attention", "op = attention, bm = 128, bn = 64, bk = 128", 1),
        ("scalar", "bm = 8, bk = 8, dtype = f32", 1),
        ("scalar", "bm = 3, bk = 3, dtype = f64", 1),
    ] {
        let points = points(space, facts);
        let sample: Vec<&Point> = points.legal.iter().step_by(every).collect();
        let kernels: Vec<String> = sample.par_iter().map(|point| kernel(&point.plan)).collect();
        let mut seen: HashMap<&String, KernelSpec> = HashMap::new();
        for (point, kernel) in sample.iter().zip(&kernels) {
            let earlier = seen.insert(kernel, point.spec);
            assert!(earlier.is_none(), "{} and {} are one kernel", earlier.unwrap(), point.spec);
        }
        points.repeated.par_iter().step_by(every).for_each(|repeated| {
            let (first, again) = (&points.legal[repeated.of], Plan::new(&repeated.spec).unwrap());
            assert!(kernel(&first.plan) == kernel(&again), "{} is not {}", first.spec, repeated.spec);
        });
    }
}

#[test]
fn the_order_is_that_of_the_lists_and_the_same_every_time() {
    let text = "bm = 128, bn = [128, 256], bk = 64, stages = 3..=4, cluster = [1, 2]";
    let family = LocatedFamily::from_text(text).unwrap();
    let members: Vec<KernelSpec> = family.family().members().iter().map(|member| member.spec).collect();
    let facts = Space::from_text(text).unwrap().facts().unwrap();
    let specs = |points: &Points| points.legal.iter().map(|point| point.spec).collect::<Vec<_>>();
    for _ in 0..5 {
        let points = Space::from_text(text).unwrap().points(&facts).unwrap();
        assert_eq!(specs(&points), members);
    }
    let (one, two) = (points("hopper-f16", FLAGSHIP), points("hopper-f16", FLAGSHIP));
    assert_eq!((specs(&one), &one.rejected, &one.repeated), (specs(&two), &two.rejected, &two.repeated));
}

#[test]
fn a_file_says_the_same_as_text() {
    let toml = "\
        name = \"mine\"\n\
        [[part]]\n\
        keys = \"bn = [64, 128], stages = 2..=4, mma = wgmma\"\n\
        [[part]]\n\
        name = \"warps\"\n\
        constraints = [\"warps_m * warps_n == 8\"]\n\
        [part.keys] # a comment, with an \u{fc}mlaut\n\
        mma = \"mma_sync\"\n\
        bn = [64, 128]\n\
        warps = [[2, 4], [2, 2], \"(4, 2)\"]\n";
    let space = Space::from_toml(toml).unwrap();
    let facts = "bm = 64, bk = 32".parse::<Facts>().unwrap();
    let found = space.points(&facts).unwrap();
    let text =
        |text: &str| points(text, "bm = 64, bk = 32").legal.into_iter().map(|point| point.spec).collect::<Vec<_>>();
    let mut expected = text("bn = [64, 128], stages = 2..=4");
    expected.extend(text("mma = mma_sync, bn = [64, 128], warps = [(2, 4), (4, 2)]"));
    assert_eq!(found.legal.iter().map(|point| point.spec).collect::<Vec<_>>(), expected);
    assert_eq!(found.reasons()[0].1, 2);
    assert_eq!((space.name(), space.parts()[1].name()), ("mine", "warps"));
    let plain = Space::from_toml("bm = 64\nbn = [64, 128]\nbk = 32\nstages = \"2..=3\"\n").unwrap();
    assert_eq!(plain.points(&plain.facts().unwrap()).unwrap().legal.len(), 4);
}

#[test]
fn wrong_spaces_say_where_and_why() {
    let mut report = String::new();
    for (space, facts) in [
        ("bn = [64, 128], stagse = 3", FLAGSHIP),
        ("bn = [64, wide], stages = [2, many]", FLAGSHIP),
        ("bn = [64, 128", FLAGSHIP),
        ("bn = 128, dtype = bf16", FLAGSHIP),
        ("bn = 128, dtype = [e4m3, bf16]", FLAGSHIP),
        ("bn = 128, bm = 256", FLAGSHIP),
        ("bn = 128, accumulate = fast", "bm = 128, bk = 128, dtype = e4m3, accumulate = promoted"),
        ("bn = 1..=200, stages = 1..=200, k_step = 1..=200", FLAGSHIP),
        ("stages = 3", FLAGSHIP),
        ("no-such-space", FLAGSHIP),
    ] {
        report += &format!("## {space}\n{}\n\n", try_points(space, facts).unwrap_err());
    }
    for toml in [
        "[[part]]\nkeys = 3",
        "[[part]]\nname = \"x\"",
        "[[part]]\nkeys = { bn = 64 }",
        "[[part]]\nkeyz = \"bn = 64\"",
        "parts = 3\n[[part]]\nkeys = \"bn = 64\"",
        "[[part]]\nkeys = \"bn = 64\"\nconstraints = [\"bn * <= 3\"]",
        "[[part]]\nconstraints = []\n\n[part.keys]\nbn = 64\nstagse = 3",
        "part = 3",
        "name = ",
    ] {
        let error =
            Space::from_toml(toml).and_then(|space| space.points(&FLAGSHIP.parse::<Facts>().unwrap())).unwrap_err();
        report += &format!("## {toml}\n{error}\n\n");
    }
    for text in ["bn = 64, bm = 512", "bm = [64, 128], bn = 64, bk = 64"] {
        report += &format!("## {text}\n{}\n\n", Space::from_text(text).unwrap().facts().unwrap_err());
    }
    insta::assert_snapshot!(report);
}

#[test]
fn lists_of_facts_are_narrowed_to_the_product() {
    let of = |dtype: &str| points("bn = [64, 128], dtype = [f16, bf16, e4m3]", &format!("bm = 64, bk = 64{dtype}"));
    assert_eq!((of("").len(), of(", dtype = bf16, out = f32").len(), of(", dtype = e4m3").len()), (2, 2, 2));
    assert!(of(", dtype = bf16, out = f32").legal.iter().all(|point| point.spec.out == bsr_codegen::Dtype::F32));
}

#[test]
fn points_that_fail_alike_fall_together() {
    let bins = points("bn = [128, 256], stages = 7..=30", "bm = 128, bk = 64").reasons();
    assert_eq!(bins.len(), 1, "{bins:?}");
    assert!(bins[0].0.starts_with("stages: … stages do not fit shared memory"), "{bins:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    /// A further constraint takes points away and adds none, and what it takes away it is blamed for.
    #[test]
    fn constraints_only_take_away(
        limit in 100_i64..900,
        key in prop::sample::select(vec!["bn", "shared_bytes / 300", "stage_k * 4", "threads"]),
        rows in prop::sample::select(vec![16_u32, 32, 64, 128, 192]),
    ) {
        let keys = "keys = \"bn = [64, 128, 192, 256], stages = [auto, 2, 3, 4], cluster = [1, 2]\"";
        let facts: Facts = format!("bm = {rows}, bk = 64").parse().unwrap();
        let of = |constraints: &str| {
            Space::from_toml(&format!("[[part]]\n{keys}\nconstraints = [{constraints}]")).unwrap().points(&facts).unwrap()
        };
        let text = format!("{key} <= {limit}");
        let (all, some) = (of(""), of(&format!("\"{text}\"")));
        prop_assert_eq!(all.len(), some.len());
        let digests = |points: &Points| points.legal.iter().map(|point| point.digest.clone()).collect::<HashSet<_>>();
        prop_assert!(digests(&some).is_subset(&digests(&all)));
        let blamed = some.rejected.iter().filter(|rejected| rejected.reasons == [Reason::Constraint(text.clone())]);
        let repeated = all.repeated.iter().map(|point| point.spec);
        let specs: HashSet<KernelSpec> = all.legal.iter().map(|point| point.spec).chain(repeated).collect();
        if key != "bn" {
            prop_assert!(blamed.clone().all(|rejected| specs.contains(&rejected.spec)));
            prop_assert_eq!(blamed.count() + some.legal.len() + some.repeated.len(), specs.len());
        }
    }

    /// Every kernel of a random space is there once, and every combination of its lists is accounted for.
    #[test]
    fn every_combination_is_a_point_and_every_kernel_there_once(
        widths in prop::sample::subsequence(vec![16_u32, 32, 64, 96, 128, 256, 512], 1..4),
        stages in 1_u32..5,
        rows in prop::sample::select(vec![8_u32, 48, 64, 128, 256]),
    ) {
        let most = 1 + stages;
        let text = format!("bn = {widths:?}, stages = [auto, 2..={most}], swap = [auto, on, off], pack = [auto, 1, 2]");
        let points = points(&text, &format!("bm = {rows}, bk = 48"));
        prop_assert_eq!(points.len(), widths.len() * (1 + stages as usize) * 9);
        let digests: HashSet<&String> = points.legal.iter().map(|point| &point.digest).collect();
        prop_assert_eq!(digests.len(), points.legal.len());
        prop_assert!(points.rejected.iter().all(|rejected| !rejected.reasons.is_empty()));
        prop_assert!(points.legal.iter().all(|point| Plan::new(&point.spec).unwrap().digest() == point.digest));
    }
}
