//! Kernels of the warp family (`mma_sync`, `wmma`) on the simulator, between walls of poison.
//!
//! B's padding and the rows of B that no stored block meets are NaN, C starts as NaN and its padding must stay so. Rows

//! of A are half full, empty, full and of one block that reaches beyond K, in turn.

use bsr_codegen::KernelSpec;
use bsr_runtime::reference::{Comparison, multiply, tolerance_of};
use bsr_runtime::simulated::{Options, Schedule};
use bsr_runtime::{Bsr, Dense, Dtype, Element, Layout, Results, Structure, e4m3, e5m2};
use half::{bf16, f16};

use crate::kernel;

/// What a kernel is asked to multiply, and by how many CTAs.
#[derive(Clone, Copy)]
struct CaseShape {
    m: usize,
    n: usize,
    k: usize,
    ctas: u32,
}

const fn problem(m: usize, n: usize, k: usize, ctas: u32) -> CaseShape {
    CaseShape { m, n, k, ctas }
}

#[test]
fn blocks_of_every_shape() {
    for (block, problem) in [
        ("bm = 16, bn = 16, bk = 16", problem(70, 41, 75, 3)),
        ("bm = 64, bn = 64, bk = 64", problem(250, 100, 150, 2)),
        ("bm = 96, bn = 64, bk = 80", problem(380, 70, 250, 2)),
        ("bm = 48, bn = 96, bk = 112", problem(190, 107, 250, 3)),
        ("bm = 128, bn = 128, bk = 128", problem(500, 130, 260, 3)),
        ("bm = 16, bn = 128, bk = 32", problem(60, 130, 120, 2)),
    ] {
        right(&format!("{block}, mma = mma_sync"), problem);
        right(&format!("{block}, mma = wmma"), problem);
    }
}

#[test]
fn types_and_layouts() {
    let problem = problem(130, 83, 110, 2);
    for mma in ["mma_sync", "wmma"] {
        for types in ["dtype = f16, out = f32", "dtype = bf16", "dtype = f16, out = bf16"] {
            for layouts in ["b_layout = row, c_layout = col", "b_layout = col, c_layout = row"] {
                right(&format!("bm = 32, bn = 48, bk = 48, mma = {mma}, {types}, {layouts}"), problem);
            }
        }
        let fp8 = "out = e4m3, arch = sm_89";
        right(&format!("bm = 32, bn = 64, bk = 48, mma = {mma}, {fp8}, b_layout = col"), problem);
        right(&format!("bm = 32, bn = 64, bk = 48, mma = {mma}, {fp8}, c_layout = col"), problem);
    }
}

#[test]
fn eight_bits() {
    for (block, problem) in [
        ("bm = 64, bn = 64, bk = 64", problem(200, 90, 210, 2)),
        ("bm = 16, bn = 32, bk = 16", problem(60, 45, 90, 2)),
        ("bm = 48, bn = 64, bk = 48", problem(180, 65, 200, 2)),
        ("bm = 64, bn = 32, bk = 144", problem(200, 40, 400, 1)),
    ] {
        right(&format!("{block}, mma = mma_sync, dtype = e4m3"), problem);
        right(&format!("{block}, mma = mma_sync, a = e5m2, b = e4m3, out = f32, c_layout = col"), problem);
        right(&format!("{block}, mma = mma_sync, dtype = i8"), problem);
    }
    let wide = problem(100, 70, 150, 2);
    for out in ["out = f16", "out = bf16, c_layout = col", "out = f32", "out = i32, c_layout = col"] {
        right(&format!("bm = 32, bn = 64, bk = 64, mma = mma_sync, dtype = i8, {out}"), wide);
    }
    for out in ["out = e4m3", "out = e4m3, c_layout = col", "out = f16"] {
        right(&format!("bm = 32, bn = 64, bk = 64, mma = mma_sync, a = e4m3, b = e5m2, {out}"), wide);
    }
}

#[test]
fn fragments_of_every_shape_on_every_architecture() {
    let problem = problem(140, 75, 100, 2);
    for arch in ["sm_70", "sm_75", "sm_80", "sm_86", "sm_90a", "sm_120"] {
        for shape in ["m16n16k16", "m32n8k16", "m8n32k16"] {
            for layouts in ["", ", b_layout = col, c_layout = col"] {
                let spec = "bm = 32, bn = 64, bk = 48, mma = wmma";
                right(&format!("{spec}, shape = {shape}, arch = {arch}{layouts}"), problem);
            }
        }
    }
    for shape in ["m32n8k16", "m8n32k16"] {
        right(&format!("bm = 32, bn = 64, bk = 48, mma = wmma, dtype = bf16, shape = {shape}"), problem);
    }
}

#[test]
fn stages_depths_and_warps() {
    let problem = problem(256, 131, 300, 2);
    for knobs in [
        "stages = 2",
        "stages = 5, k_step = 16",
        "k_step = 112",
        "k_step = 48",
        "warps = (1, 1)",
        "warps = (2, 1)",
        "warps = (1, 3), b_layout = col",
        "warps = (1, 3)",
        "warps = (4, 2), schedule = strided",
    ] {
        right(&format!("bm = 64, bn = 96, bk = 112, mma = mma_sync, {knobs}"), problem);
    }
    for knobs in ["k_step = 64", "k_step = 32", "k_step = 16, stages = 4", "b_layout = col", "warps = (1, 1)"] {
        right(&format!("bm = 16, bn = 48, bk = 16, mma = mma_sync, {knobs}"), problem);
        right(&format!("bm = 16, bn = 48, bk = 16, mma = wmma, {knobs}"), problem);
    }
    for knobs in ["", ", b_layout = col", ", k_step = 16"] {
        right(&format!("bm = 64, bn = 96, bk = 112, mma = wmma, arch = sm_75{knobs}"), problem);
        right(&format!("bm = 16, bn = 48, bk = 16, mma = wmma, arch = sm_70{knobs}"), problem);
    }
}

/// Long rows: more blocks than an index batch of 32 columns, and fewer tiles than CTAs.
#[test]
fn long_rows() {
    for spec in ["bm = 16, bn = 32, bk = 16", "bm = 32, bn = 32, bk = 48", "bm = 16, bn = 16, bk = 16, arch = sm_90a"] {
        right(&format!("{spec}, mma = mma_sync"), problem(60, 40, 1130, 2));
        right(&format!("{spec}, mma = mma_sync, b_layout = col"), problem(60, 40, 1130, 100));
    }
}

/// Multiplies under every order that the simulator knows, by the types of the spec.
fn right(text: &str, problem: CaseShape) {
    let spec: KernelSpec = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
    match (spec.a, spec.b) {
        (Dtype::F16, _) => with_result::<f16, f16>(&spec, problem),
        (Dtype::BF16, _) => with_result::<bf16, bf16>(&spec, problem),
        (Dtype::I8, _) => with_result::<i8, i8>(&spec, problem),
        (Dtype::E4M3, Dtype::E4M3) => with_result::<e4m3, e4m3>(&spec, problem),
        (Dtype::E4M3, _) => with_result::<e4m3, e5m2>(&spec, problem),
        (Dtype::E5M2, Dtype::E4M3) => with_result::<e5m2, e4m3>(&spec, problem),
        (Dtype::E5M2, _) => with_result::<e5m2, e5m2>(&spec, problem),
        (other, _) => panic!("no case of {other}"),
    }
}

fn with_result<A: Element, B: Element>(spec: &KernelSpec, problem: CaseShape) {
    match spec.out {
        Dtype::F16 => multiplied::<A, B, f16>(spec, problem),
        Dtype::BF16 => multiplied::<A, B, bf16>(spec, problem),
        Dtype::F32 => multiplied::<A, B, f32>(spec, problem),
        Dtype::E4M3 => multiplied::<A, B, e4m3>(spec, problem),
        Dtype::I32 => multiplied::<A, B, i32>(spec, problem),
        other => panic!("no case of {other}"),
    }
}

fn multiplied<A: Element, B: Element, C: Element>(spec: &KernelSpec, problem: CaseShape) {
    let kernel = kernel(&spec.to_string()).with_clusters(problem.ctas);
    for full in [true, false] {
        let a = Bsr::<A>::normal(structure(spec, problem, full), 1);
        let b = walled_b::<B>(spec, problem, full);
        let schedule = if full { Schedule::Scrambled } else { Schedule::Late };
        let options = Options { schedule, ..Options::default() };
        let (Results { c, .. }, report) = kernel.multiply::<C, _>((&a, &b), &options).unwrap();
        assert!(report.is_clean(), "{spec}\n{:?}", report.findings);
        let comparison = Comparison::of_dense(&c, &multiply(&a, &b).unwrap()).unwrap();
        assert!(comparison.passes(tolerance_of(spec, problem.k)), "{spec}\n{comparison}");
        let line = if spec.c_layout == Layout::RowMajor { problem.n } else { problem.m };
        for whole in c.data().chunks(c.ld()) {
            let poison = C::to_bytes(&vec![C::POISON; c.ld() - line]);
            assert!(C::to_bytes(&whole[line..]) == poison, "{spec}\nC's padding is written");
        }
    }
}

/// Block rows in turn: every other block, none, all (or every other, unless `full`), the last one.
fn structure(spec: &KernelSpec, problem: CaseShape, full: bool) -> Structure {
    let (bm, bk) = (spec.bm as usize, spec.bk as usize);
    let columns = problem.k.div_ceil(bk) as i32;
    let (mut row_ptr, mut col_idx) = (vec![0], vec![]);
    for row in 0..problem.m.div_ceil(bm) {
        match row % 4 {
            0 => col_idx.extend((0..columns).step_by(2)),
            1 => {}
            2 => col_idx.extend((0..columns).step_by(if full { 1 } else { 2 })),
            _ => col_idx.push((columns - 1) / 2 * 2),
        }
        row_ptr.push(col_idx.len() as i32);
    }
    Structure::new(problem.m, problem.k, (bm, bk), row_ptr, col_idx).unwrap()
}

/// Random values, with poison between the lines and, unless every block column is stored, in the odd ones.
fn walled_b<B: Element>(spec: &KernelSpec, problem: CaseShape, full: bool) -> Dense<B> {
    let CaseShape { n, k, .. } = problem;
    let mut b = Dense::<B>::normal(k, n, spec.b_layout, 2);
    let (ld, bk) = (b.ld(), spec.bk as usize);
    let row_major = spec.b_layout == Layout::RowMajor;
    for (at, value) in b.data_mut().iter_mut().enumerate() {
        let (line, inner) = (at / ld, at % ld);
        let (row, column) = if row_major { (line, inner) } else { (inner, line) };
        if row >= k || column >= n || (!full && row / bk % 2 == 1) {
            *value = B::POISON;
        }
    }
    b
}
