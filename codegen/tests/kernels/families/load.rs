//! Warps that only load: the plans, the refusals, the text, and what ptxas makes of it.

use crate::golden::{golden_plans, golden_refusals};
use crate::planning::{joined, plan};
use crate::ptxas;
use bsr_codegen::{Argument, Operand, Plan, Problem};

/// Both ways to load beside both instructions: types, layouts, blocks that share a stage, that are one and that take several.
const CHOSEN: [&str; 24] = [
    "bm = 128, bn = 256, bk = 128, mma = mma_sync",
    "bm = 128, bn = 128, bk = 128, mma = mma_sync",
    "bm = 128, bn = 128, bk = 128, mma = mma_sync, warps = (2, 2)",
    "bm = 128, bn = 256, bk = 128, mma = mma_sync, warps = (2, 2)",
    "bm = 128, bn = 256, bk = 128, mma = mma_sync, stages = 3",
    "bm = 128, bn = 256, bk = 128, mma = mma_sync, k_step = 32",
    "bm = 128, bn = 256, bk = 128, mma = mma_sync, b_layout = col",
    "bm = 128, bn = 256, bk = 128, mma = mma_sync, c_layout = col, out = f32",
    "bm = 128, bn = 256, bk = 128, mma = mma_sync, dtype = bf16",
    "bm = 128, bn = 256, bk = 128, mma = mma_sync, acc = f16",
    "bm = 128, bn = 128, bk = 128, mma = mma_sync, dtype = i8",
    "bm = 128, bn = 128, bk = 128, mma = mma_sync, dtype = e4m3",
    "bm = 128, bn = 128, bk = 128, mma = mma_sync, dtype = f32, tf32 = on, b_layout = col",
    "bm = 512, bn = 256, bk = 112, mma = mma_sync",
    "bm = 64, bn = 80, bk = 48, mma = mma_sync",
    "bm = 64, bn = 64, bk = 16, mma = mma_sync",
    "bm = 32, bn = 32, bk = 32, mma = mma_sync, b_layout = col",
    "bm = 16, bn = 16, bk = 16, mma = mma_sync",
    "bm = 128, bn = 256, bk = 128, mma = wmma",
    "bm = 128, bn = 128, bk = 128, mma = wmma, b_layout = col",
    "bm = 64, bn = 64, bk = 32, mma = wmma, dtype = bf16, out = f32",
    "bm = 64, bn = 64, bk = 48, mma = wmma, shape = m32n8k16",
    "bm = 64, bn = 64, bk = 48, mma = wmma, shape = m8n32k16, b_layout = col",
    "bm = 512, bn = 256, bk = 112, mma = wmma, acc = f16",
];

const REFUSED: [&str; 11] = [
    "bm = 64, bn = 64, bk = 64, mma = wmma, load = producer, arch = sm_70",
    "bm = 64, bn = 64, bk = 64, mma = wmma, load = tma, arch = sm_75",
    "bm = 64, bn = 64, bk = 64, mma = mma_sync, load = tma, arch = sm_80",
    "bm = 64, bn = 64, bk = 64, mma = mma_sync, load = tma, arch = sm_120",
    "bm = 64, bn = 64, bk = 64, mma = mma_sync, load = producer, maxnreg = 128",
    "bm = 64, bn = 64, bk = 64, mma = mma_sync, load = tma, dtype = f64",
    "bm = 64, bn = 64, bk = 64, mma = mma_sync, load = tma, dtype = f32, tf32 = on",
    "bm = 64, bn = 64, bk = 16, mma = mma_sync, load = tma, dtype = e4m3",
    "bm = 64, bn = 64, bk = 64, mma = wmma, load = tma",
    "bm = 64, bn = 64, bk = 64, load = tma",
    "bm = 64, bn = 64, bk = 64, op = attention, mma = mma_sync, load = producer",
];

/// By cp.async on Ampere and on Hopper, and by TMA.
fn all() -> Vec<Plan> {
    let ways = ["load = producer", "load = producer, arch = sm_90a", "load = tma"];
    let of = |text: &'static str| {
        let ways = ways.into_iter().filter(|way| !(text.contains("wmma") && way.contains("tma")));
        ways.map(|way| plan(&joined(&[text, way]))).collect::<Vec<_>>()
    };
    let doubles = ["", "b_layout = col", "shape = m16n8k8"]
        .map(|rest| plan(&joined(&["bm = 64, bn = 64, bk = 48, mma = mma_sync, dtype = f64, load = producer", rest])));
    CHOSEN.into_iter().flat_map(of).chain(doubles).collect()
}

#[test]
fn plans_accepted() {
    let specs: Vec<String> = all().iter().map(|plan| plan.spec().to_string()).collect();
    golden_plans("load_plans", specs.iter().map(String::as_str), |_| String::new());
}

#[test]
fn plans_refused() {
    golden_refusals("snapshots", "load_refused", &REFUSED);
}

#[test]
fn kernels_assemble_without_spills() {
    ptxas::assemble_all(&all(), "load");
}

/// Warps that multiply come first, and with `setmaxnreg` no more registers are given than an SM has.
#[test]
fn registers_are_moved_within_the_register_file() {
    for plan in all() {
        let text = plan.ptx();
        let number = |instruction: &str| -> Option<u32> {
            let (_, rest) = text.text().split_once(instruction)?;
            rest.split(';').next()?.trim().parse().ok()
        };
        let moved = ["setmaxnreg.dec.sync.aligned.u32", "setmaxnreg.inc.sync.aligned.u32"].map(number);
        let profile = plan.profile();
        let (consumers, threads) = (profile.consumers * 32, plan.launch(&PROBLEM, [1, 1]).block);
        assert!(threads > consumers, "{}", plan.spec());
        if let [Some(less), Some(more)] = moved {
            let registers = ((threads - consumers) * less + consumers * more) * profile.resident;
            assert!(less < more && registers <= plan.arch().registers, "{}: {registers}", plan.spec());
        } else {
            assert_eq!(moved, [None, None], "{}", plan.spec());
        }
    }
}

const PROBLEM: Problem = Problem { m: 500, n: 300, k: 700, nnzb: 9, lda: 704, ldb: 704, ldc: 704, ldt: 704 };

/// TMA swizzles as the addresses of fragments expect: rows of a box are as long as what repeats.
#[test]
fn boxes_are_as_wide_as_their_swizzle() {
    for plan in all() {
        let maps: Vec<_> = plan
            .launch(&PROBLEM, [1, 1])
            .parameters
            .into_iter()
            .filter_map(|parameter| match parameter.argument {
                Argument::Map(map) => Some(map),
                _ => None,
            })
            .collect();
        let by_tma = plan.spec().load == bsr_codegen::Load::Tma;
        let operands: Vec<Operand> = maps.iter().map(|map| map.operand).collect();
        assert_eq!(operands, if by_tma { vec![Operand::A, Operand::B] } else { vec![] }, "{}", plan.spec());
        for map in maps {
            let bytes = map.box_dims[0] * map.dtype.bytes();
            assert_eq!(map.swizzle_bytes, bytes, "{}: {map:?}", plan.spec());
        }
    }
}
