//! What holds for every spec: planning never panics, a plan keeps within the hardware's limits, a refusal helps.
//!
//! The limits are written down here once more, and the numbers are read where they take effect: from the launch
//! and from the PTX. Only the places of the regions of shared memory are taken from the plan's table.

use bsr_codegen::spec::Key;
use bsr_codegen::{
    Accumulate, Argument, Dtype, KernelSpec, Layout, Op, Operand, Plan, Problem, Scale, Schedule, Switch, TensorMap,
};
use proptest::prelude::*;
use proptest::sample::select;

/// Shared memory of a CTA in bytes.
const SHARED: u64 = 232_448;
/// 32-bit registers of an SM.
const REGISTERS: u64 = 65_536;

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_spec_is_planned_within_the_limits_or_refused_with_help(spec in any_spec(), way in 0..4) {
        let spec = turned(spec, way);
        match Plan::new(&spec) {
            Ok(plan) => check_plan(&plan)?,
            Err(errors) => {
                prop_assert!(errors.iter().len() > 0, "refused without a reason");
                for error in errors.iter() {
                    let help = error.help().unwrap_or_default();
                    prop_assert!(!help.trim().is_empty(), "no help: {error}");
                    prop_assert!(Key::find(error.key()).is_some(), "no key `{}`", error.key());
                    prop_assert!(!error.to_string().trim().is_empty());
                }
            }
        }
    }

    #[test]
    fn a_likely_spec_is_planned_within_the_limits(spec in likely_spec(), way in 0..4) {
        let spec = turned(spec, way);
        match Plan::new(&spec) {
            Ok(plan) => check_plan(&plan)?,
            Err(errors) => prop_assert!(errors.iter().all(|e| e.help().is_some()), "{errors}"),
        }
    }
}

type Checked = Result<(), TestCaseError>;

/// The same kernel as another operation: transposed, of a sparse B, or both.
fn turned(spec: KernelSpec, way: i32) -> KernelSpec {
    let (dds, transpose) = (way & 1 == 1, way & 2 == 2);
    let flipped = if dds != transpose { spec.bm(spec.bk).bk(spec.bm) } else { spec };
    let transpose = if transpose { Switch::On } else { Switch::Off };
    match dds {
        false => flipped.transpose(transpose),
        true => flipped
            .op(Op::Dds)
            .transpose(transpose)
            .a(spec.b)
            .b(spec.a)
            .a_layout(spec.b_layout.flipped())
            .b_layout(spec.a.default_b_layout())
            .c_layout(spec.c_layout.flipped()),
    }
}

/// Is it a swap-AB kernel, another kind of kernel, with tests of its own?
fn is_swap_ab(plan: &Plan) -> bool {
    plan.rows().iter().any(|[what, value, _]| (what.as_str(), value.as_str()) == ("operands", "swap-AB"))
}

fn check_plan(plan: &Plan) -> Checked {
    if is_swap_ab(plan) {
        prop_assert!(u64::from(plan.shared_bytes()) <= SHARED, "{}", plan.spec());
        return Ok(());
    }
    let ptx = plan.ptx();
    let text = ptx.text();
    let spec = plan.spec();
    let cluster = u64::from(plan.cluster());
    prop_assert!(cluster.is_power_of_two() && cluster <= 8, "{spec}: cluster {cluster}");
    let threads = u64::from(plan.threads());
    prop_assert!(threads % 128 == 0 && (256..=1024).contains(&threads), "{spec}: {threads} threads");
    let consumers = threads / 128 - 1;
    check_registers(spec, text, threads, consumers)?;
    let maps = check_maps(plan)?;
    let bytes = check_transactions(spec, text, &maps, cluster)?;
    check_regions(plan, text, bytes, consumers * 4 * cluster)?;
    let tile = plan.cluster_tile();
    let rows = if plan.reads_block_columns() { spec.bk } else { spec.bm };
    prop_assert!(rows.is_multiple_of(tile.rows), "{spec}: {tile:?}");
    prop_assert!((tile.block_rows, tile.columns % spec.bn) == (rows, 0), "{spec}: {tile:?}");
    Ok(())
}

/// The CTA never holds more registers than it was given at entry.
fn check_registers(spec: &KernelSpec, text: &str, threads: u64, consumers: u64) -> Checked {
    let count = |word| numbers(line_with(text, word)).pop().unwrap();
    let (producer, consumer) = (count("setmaxnreg.dec"), count("setmaxnreg.inc"));
    prop_assert!(numbers(line_with(text, ".maxntid"))[0] == threads, "{spec}");
    for registers in [producer, consumer] {
        prop_assert!(registers % 8 == 0 && (24..=256).contains(&registers), "{spec}: {registers}");
    }
    let entry = (REGISTERS / threads).min(255) / 8 * 8;
    let after = producer + consumers * consumer;
    prop_assert!(after <= entry * (consumers + 1), "{spec}: {after} > {entry} x {}", consumers + 1);
    Ok(())
}

/// What TMA asks of boxes and swizzles.
fn check_maps(plan: &Plan) -> Result<[TensorMap; 3], TestCaseError> {
    let spec = plan.spec();
    let problem = Problem { m: 1000, n: 1000, k: 1000, nnzb: 7, lda: 1008, ldb: 1008, ldc: 1008, ldt: 1008 };
    let launch = plan.launch(&problem, [5, 1]);
    prop_assert!((launch.grid, launch.cluster) == ([5 * plan.cluster(), 1], plan.cluster()), "{spec}");
    prop_assert!(launch.block == plan.threads(), "{spec}");
    prop_assert!(launch.shared_bytes == plan.shared_bytes(), "{spec}");
    let maps: Vec<TensorMap> = launch
        .parameters
        .iter()
        .filter_map(|parameter| match parameter.argument {
            Argument::Map(map) => Some(map),
            _ => None,
        })
        .collect();
    let (sparse, dense) = if spec.op == Op::Dds { (Operand::B, Operand::A) } else { (Operand::A, Operand::B) };
    for (map, operand) in maps.iter().zip([sparse, dense, Operand::C, dense]) {
        let (inner, outer) = (map.box_dims[0], map.box_dims[1] * map.box_dims[2]);
        prop_assert!(map.operand == operand, "{spec}");
        prop_assert!((1..=256).contains(&inner) && (1..=256).contains(&outer), "{spec}: {map:?}");
        // A row of one vector has nothing to swizzle.
        let span = if map.swizzle_bytes == 0 && operand == Operand::C { 16 } else { map.swizzle_bytes };
        prop_assert!(inner * map.dtype.bytes() == span && [16, 32, 64, 128].contains(&span), "{spec}: {map:?}");
        let strides = &map.strides_bytes[..map.rank as usize - 1];
        prop_assert!(strides.iter().all(|stride| *stride > 0 && stride % 16 == 0), "{spec}: {map:?}");
        // Where K within a block is a dimension of its own, a box is of one block.
        let one_block = map.box_dims[1] == 1 || map.box_dims[2] == 1;
        prop_assert!(map.rank == 2 || operand != Operand::C && one_block, "{spec}: {map:?}");
        if operand != Operand::C {
            prop_assert!(map.swizzle_bytes <= spec.swizzle.unwrap_or(128), "{spec}: {map:?}");
        }
    }
    Ok([maps[0], maps[1], maps[2]])
}

/// A full barrier expects exactly the bytes of the boxes that reach it: its own CTA's, and with multicast those of
/// every CTA of the cluster. Returns that number.
fn check_transactions(
    spec: &KernelSpec,
    text: &str,
    maps: &[TensorMap; 3],
    cluster: u64,
) -> Result<u64, TestCaseError> {
    let bytes =
        |map: &TensorMap| map.box_dims.iter().map(|d| u64::from(*d)).product::<u64>() * u64::from(map.dtype.bytes());
    let mut fills: Vec<(u64, u64)> = vec![];
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.contains("expect_tx") {
            fills.push((numbers(line).pop().unwrap(), 0));
        } else if line.contains("cp.async.bulk.tensor") && line.contains("shared::cluster.global") {
            let operands = lines.next().unwrap();
            let map = if operands.contains("map_a") { &maps[0] } else { &maps[1] };
            let copies = if line.contains("multicast") { cluster } else { 1 };
            fills.last_mut().expect("a load before any barrier expects it").1 += copies * bytes(map);
        }
    }
    prop_assert!(!fills.is_empty(), "{spec}: nothing is loaded");
    for (expected, delivered) in &fills {
        prop_assert!(expected == delivered, "{spec}: {fills:?}");
    }
    Ok(fills[0].0)
}

/// Stages, staging buffers and barriers follow each other, aligned, and end within a CTA's shared memory.
fn check_regions(plan: &Plan, text: &str, transaction: u64, arrivals: u64) -> Checked {
    let spec = plan.spec();
    let rows = plan.rows();
    let row = |name: &str| -> (Vec<u64>, Vec<u64>) {
        let row = rows.iter().find(|row| row[0] == name);
        let row = row.unwrap_or_else(|| panic!("the plan's table has no row `{name}`"));
        (numbers(&row[1]), numbers(&row[2]))
    };
    let stage = row("stage").0[0];
    let (stages, ring) = row("stages");
    let (staging, at) = row("staging");
    let (barriers, places) = row("barriers");
    let (total, _) = row("shared memory");
    let (stages, ring_end, staging_at) = (stages[0], ring[1], at[0]);
    let (full, empty) = (places[0], places[1]);

    prop_assert!((2..=64).contains(&stages), "{spec}: {stages} stages");
    prop_assert!(spec.stages.is_none_or(|s| u64::from(s) == stages), "{spec}: {stages} stages");
    prop_assert!(transaction <= stage && stage % 1024 == 0, "{spec}: stage of {stage}");
    prop_assert!(ring == [0, stages * stage], "{spec}");
    prop_assert!(staging_at >= ring_end && staging_at % 1024 == 0, "{spec}: staging at {staging_at}");
    prop_assert!(full >= staging_at + staging[0] && full % 8 == 0, "{spec}: full at {full}");
    prop_assert!(empty >= full + 8 * stages && empty % 8 == 0, "{spec}: empty at {empty}");
    prop_assert!(barriers[0] == 2 * stages, "{spec}");
    prop_assert!(total[0] >= empty + 8 * stages, "{spec}: {} B", total[0]);
    prop_assert!(total[0] == u64::from(plan.shared_bytes()), "{spec}");
    prop_assert!(total[0] <= SHARED, "{spec}: {} B", total[0]);

    let inits: Vec<&str> = text.lines().filter(|line| line.contains("mbarrier.init")).collect();
    prop_assert!(inits.len() as u64 == 2 * stages, "{spec}");
    let of = |count: u64| inits.iter().filter(|line| numbers(line).last() == Some(&count)).count();
    prop_assert!((of(1), of(arrivals)) == (inits.len() / 2, inits.len() / 2), "{spec}: {inits:?}");
    Ok(())
}

/// Any numbers at all.
fn any_spec() -> impl Strategy<Value = KernelSpec> {
    let size = || {
        prop_oneof![
            6 => (1u32..=32).prop_map(|i| i * 16),
            1 => 0u32..=600,
            1 => select(vec![0, 1, 8, 1024, u32::MAX - 15, u32::MAX]),
        ]
    };
    let knob = |usual: &'static [u32]| {
        prop_oneof![
            4 => Just(None),
            3 => select(usual).prop_map(Some),
            1 => select(vec![0, 1, 5, 17, 1 << 31, u32::MAX - 15, u32::MAX]).prop_map(Some),
        ]
    };
    let knobs = (
        knob(&[2, 3, 4, 5, 8, 12]),
        knob(&[1, 2, 3, 4]),
        knob(&[1, 2, 4, 8, 16]),
        knob(&[16, 32, 48, 64, 96, 128, 512]),
        knob(&[32, 64, 128]),
        select(vec![None, Some(Schedule::Balanced), Some(Schedule::Strided)]),
    );
    let rare = prop_oneof![12 => Just(None), 1 => select(DTYPES.to_vec()).prop_map(Some)];
    let types = (select(DTYPES.to_vec()), rare.clone(), rare, any_dtype());
    let sums = (any_scale(), select(vec![None, Some(Accumulate::Fast), Some(Accumulate::Promoted)]));
    ((size(), size(), size()), knobs, types, any_layouts(), sums).prop_map(
        |(sizes, knobs, (a, b, acc, out), layouts, (scale, accumulate))| {
            let (stages, consumers, cluster, k_step, swizzle, schedule) = knobs;
            let mut spec = sized(sizes, layouts).a(a).b(b.unwrap_or(a)).acc(acc.unwrap_or(a.accumulator()));
            (spec.stages, spec.consumers, spec.cluster, spec.k_step) = (stages, consumers, cluster, k_step);
            (spec.swizzle, spec.schedule, spec.accumulate) = (swizzle, schedule, accumulate);
            spec.out(out).scale(scale)
        },
    )
}

/// Block sizes and tiles that the compiler supports, few knobs: most of these are planned.
fn likely_spec() -> impl Strategy<Value = KernelSpec> {
    let sizes = (
        (1u32..=8).prop_map(|i| i * 64),
        select(vec![16u32, 32, 64, 128, 192, 256, 384, 512]),
        (1u32..=32).prop_map(|i| i * 16),
    );
    let types = (select(DTYPES[..5].to_vec()), any_dtype(), any_scale());
    let one_knob = (0usize..9, 0u32..=8);
    (sizes, types, any_layouts(), one_knob).prop_map(|(sizes, (a, out, scale), layouts, (which, n))| {
        let small = a.bytes() == 1;
        let out = if out == Dtype::I32 && (a != Dtype::I8 || scale != Scale::Unscaled) { Dtype::F32 } else { out };
        let scale = if small { scale } else { Scale::Unscaled };
        let sized = sized(sizes, if small { (Layout::ColMajor, layouts.1) } else { layouts });
        let mut spec = sized.a(a).b(a).acc(a.accumulator()).out(out).scale(scale);
        spec.accumulate = (a.is_fp8() && which == 8).then_some(Accumulate::Promoted);
        match which {
            0 => with(spec, "stages", n),
            1 => with(spec, "consumers", n),
            2 => with(spec, "cluster", n),
            3 => with(spec, "k_step", 16 * n),
            4 => with(spec, "swizzle", 32 << (n % 3)),
            _ => spec,
        }
    })
}

/// Types that WGMMA multiplies, and others.
const DTYPES: [Dtype; 7] = [Dtype::F16, Dtype::BF16, Dtype::E4M3, Dtype::E5M2, Dtype::I8, Dtype::F32, Dtype::I32];

fn any_dtype() -> impl Strategy<Value = Dtype> {
    select(vec![Dtype::F16, Dtype::BF16, Dtype::F32, Dtype::E4M3, Dtype::I32])
}

fn any_scale() -> impl Strategy<Value = Scale> {
    prop_oneof![3 => Just(Scale::Unscaled), 1 => select(vec![Scale::Tensor, Scale::RowCol, Scale::Block])]
}

fn any_layouts() -> impl Strategy<Value = (Layout, Layout)> {
    let one = || select(vec![Layout::RowMajor, Layout::ColMajor]);
    (one(), one())
}

fn sized((bm, bn, bk): (u32, u32, u32), (b_layout, c_layout): (Layout, Layout)) -> KernelSpec {
    KernelSpec::new(bm, bn, bk).b_layout(b_layout).c_layout(c_layout)
}

fn with(mut spec: KernelSpec, key: &str, number: u32) -> KernelSpec {
    match key {
        "bm" => spec.bm = number,
        "bn" => spec.bn = number,
        "bk" => spec.bk = number,
        "stages" => spec.stages = Some(number),
        "consumers" => spec.consumers = Some(number),
        "cluster" => spec.cluster = Some(number),
        "k_step" => spec.k_step = Some(number),
        "swizzle" => spec.swizzle = Some(number),
        other => panic!("no numeric key `{other}`"),
    }
    spec
}

fn line_with<'t>(text: &'t str, word: &str) -> &'t str {
    text.lines().find(|line| line.contains(word)).unwrap_or_else(|| panic!("no `{word}`"))
}

/// The whole numbers of a line, in order; digits inside of words are not numbers.
fn numbers(line: &str) -> Vec<u64> {
    line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter_map(|word| word.parse().ok()).collect()
}
