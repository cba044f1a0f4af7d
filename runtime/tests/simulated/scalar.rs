//! The kernels of the CUDA cores on the simulator: every way to sum, every type, ragged edges, empty and full rows.
//!

//! B is NaN wherever no stored block has rows, and between its lines: nothing of that may reach C.

use bsr_codegen::{Plan, TileScheduler};
use bsr_runtime::reference::{Comparison, multiply, tolerance_of};
use bsr_runtime::simulated::{Options, Report, Schedule, Simulated};
use bsr_runtime::{Bsr, Dense, Element, Layout, Results, Structure};
use half::{bf16, f16};

use crate::kernel;

/// Block columns of A; no row has the third.
const BLOCK_COLUMNS: usize = 4;
const NEVER: usize = 2;

struct Case {
    kernel: Simulated,
    /// Rows, columns of A, columns of B.
    sizes: [usize; 3],
    block: (usize, usize),
}

/// The kernel of a spec, and a problem with edges that no tile divides: three block rows of which the last has a few
/// rows, K that ends in the middle of a block, N that ends `n` columns into a tile.
fn case(spec: &str, n: usize) -> Case {
    let kernel = kernel(spec);
    let spec = kernel.plan().spec();
    let (bm, bn, bk) = (spec.bm as usize, spec.bn as usize, spec.bk as usize);
    Case { kernel, sizes: [2 * bm + 5, BLOCK_COLUMNS * bk - bk / 2 - 3, bn + n], block: (bm, bk) }
}

/// A row with all blocks but one, one without, one with the ragged block alone.
fn structure(case: &Case) -> Structure {
    let [rows, cols, _] = case.sizes;
    let (row_ptr, col_idx) = (vec![0, 3, 3, 4], vec![0, 1, 3, 3]);
    Structure::new(rows, cols, case.block, row_ptr, col_idx).unwrap()
}

/// Random values where there are blocks of A, NaN elsewhere and between the lines.
fn right<T: Element>(case: &Case) -> Dense<T> {
    let [_, k, n] = case.sizes;
    let drawn = Dense::<T>::normal(k, n, Layout::RowMajor, 7);
    let ld = Dense::<T>::padded_ld(n) + 16;
    let mut data = vec![T::POISON; k * ld];
    for (row, line) in data.chunks_mut(ld).enumerate() {
        if row / case.block.1 != NEVER {
            line[..n].copy_from_slice(drawn.view().line(row));
        }
    }
    Dense::from_vec(k, n, Layout::RowMajor, ld, data).unwrap()
}

fn run<T: Element, C: Element>(case: &Case, options: &Options) -> (f64, Report) {
    let (a, b) = (Bsr::<T>::normal(structure(case), 3), right::<T>(case));
    let (Results { c, .. }, report) = case.kernel.multiply::<C, _>((&a, &b), options).unwrap();
    let spec = case.kernel.plan().spec();
    assert!(report.is_clean(), "{spec}\n{:?}", report.findings);
    let comparison = Comparison::of_dense(&c, &multiply(&a, &b).unwrap()).unwrap();
    assert!(comparison.passes(tolerance_of(spec, case.sizes[1])), "{spec}\n{comparison}");
    let empty = case.block.0;
    assert!((empty..2 * empty).all(|row| c.view().line(row).iter().all(|x| x.to_f64() == 0.0)), "{spec}");
    (comparison.relative, report)
}

fn check<T: Element, C: Element>(spec: &str, n: usize) {
    run::<T, C>(&case(spec, n), &Options::default());
}

const BLOCKS: [&str; 4] = [
    "mma = scalar, bm = 16, bn = 64, bk = 16",
    "mma = scalar, bm = 64, bn = 64, bk = 64",
    "mma = scalar, bm = 96, bn = 64, bk = 80",
    "mma = scalar, bm = 48, bn = 64, bk = 112",
];

#[test]
fn blocks_are_added_in_global_memory() {
    for block in BLOCKS {
        check::<f16, f32>(&format!("{block}, accumulate = atomic, out = f32"), 21);
        check::<f32, f32>(&format!("{block}, accumulate = atomic, dtype = f32"), 1);
    }
    check::<bf16, f32>(&format!("{}, accumulate = atomic, dtype = bf16, out = f32", BLOCKS[3]), 40);
}

#[test]
fn tiles_are_summed_in_registers() {
    for block in BLOCKS {
        check::<f16, f16>(block, 21);
        check::<bf16, bf16>(&format!("{block}, dtype = bf16"), 33);
        check::<f32, f32>(&format!("{block}, dtype = f32"), 1);
    }
}

#[test]
fn tiles_are_summed_from_vectors() {
    for block in BLOCKS {
        check::<f16, f16>(&format!("{block}, vector = 8"), 21);
        check::<bf16, bf16>(&format!("{block}, vector = 8, dtype = bf16"), 33);
        check::<f32, f32>(&format!("{block}, vector = 4, dtype = f32"), 1);
    }
}

#[test]
fn results_have_any_float_type() {
    let block = BLOCKS[0];
    for vector in ["", ", vector = 8"] {
        check::<f16, f32>(&format!("{block}{vector}, out = f32"), 3);
        check::<f16, bf16>(&format!("{block}{vector}, out = bf16"), 3);
        check::<f16, bf16>(&format!("{block}{vector}, out = bf16, arch = sm_80"), 3);
        check::<bf16, f16>(&format!("{block}{vector}, dtype = bf16, out = f16, arch = sm_90a"), 3);
        check::<bf16, f32>(&format!("{block}{vector}, dtype = bf16, out = f32, arch = sm_80"), 3);
    }
    for vector in ["", ", vector = 4"] {
        check::<f32, f16>(&format!("{block}{vector}, dtype = f32, out = f16"), 3);
        check::<f32, bf16>(&format!("{block}{vector}, dtype = f32, out = bf16"), 3);
        check::<f32, bf16>(&format!("{block}{vector}, dtype = f32, out = bf16, arch = sm_89"), 3);
    }
}

/// Where threads do not come out even with rows, columns or loads, and where there are as many as there can be.
#[test]
fn tiles_of_any_size_divide_over_threads() {
    for (spec, n) in [
        ("bm = 8, bn = 16, bk = 8", 5),
        ("bm = 24, bn = 48, bk = 8", 5),
        ("bm = 40, bn = 496, bk = 24", 100),
        ("bm = 80, bn = 32, bk = 16", 0),
        ("bm = 512, bn = 16, bk = 16", 8),
        ("bm = 128, bn = 512, bk = 16", 1),
        ("bm = 8, bn = 256, bk = 16, vector = 8", 8),
        ("bm = 16, bn = 16, bk = 16, vector = 8", 8),
        ("bm = 32, bn = 96, bk = 48, vector = 8", 7),
        ("bm = 80, bn = 128, bk = 16, vector = 8", 128),
        ("bm = 256, bn = 128, bk = 32, vector = 8", 9),
        ("bm = 64, bn = 512, bk = 16, vector = 8", 0),
    ] {
        check::<f16, f16>(&format!("mma = scalar, {spec}"), n);
    }
    for (spec, n) in [
        ("bm = 8, bn = 64, bk = 8", 4),
        ("bm = 48, bn = 32, bk = 24", 7),
        ("bm = 128, bn = 128, bk = 8", 3),
        ("bm = 16, bn = 256, bk = 8", 6),
    ] {
        check::<f32, f32>(&format!("mma = scalar, {spec}, vector = 4, dtype = f32"), n);
    }
}

/// The bound of short chains is not there for nothing: f32 sums would meet another one.
#[test]
fn chains_are_as_exact_as_they_are_said_to_be() {
    for (spec, unit) in [("vector = 8", 11), ("vector = 8, dtype = bf16", 8)] {
        let case = case(&format!("mma = scalar, bm = 16, bn = 64, bk = 112, out = f32, {spec}"), 0);
        let options = Options::default();
        let (error, _) = if unit == 11 { run::<f16, f32>(&case, &options) } else { run::<bf16, f32>(&case, &options) };
        let unit = f64::powi(2.0, -unit);
        assert!((0.5 * unit..2.0 * unit).contains(&error), "{spec}: {error:.2e}");
    }
}

#[test]
fn any_order_of_threads_and_any_number_of_ctas_will_do() {
    for spec in ["", ", vector = 8", ", accumulate = atomic"] {
        let case = case(&format!("mma = scalar, bm = 32, bn = 64, bk = 32, out = f32{spec}"), 70);
        for (schedule, seed) in
            [(Schedule::Early, 0), (Schedule::Late, 0), (Schedule::Scrambled, 1), (Schedule::Scrambled, 2)]
        {
            run::<f16, f32>(&case, &Options { schedule, seed, ..Options::default() });
        }
        for clusters in [1, 2, 100] {
            let kernel = case.kernel.clone().with_clusters(clusters);
            run::<f16, f32>(&Case { kernel, ..case }, &Options::default());
        }
    }
}

/// What no barrier orders is found: the kernel that shares through shared memory, without one of its barriers.
#[test]
fn a_missing_barrier_is_found() {
    for spec in ["vector = 1", "vector = 8"] {
        let plan = Plan::new(&format!("mma = scalar, bm = 64, bn = 64, bk = 64, {spec}").parse().unwrap()).unwrap();
        let ptx = plan.ptx();
        let barriers = ptx.text().match_indices("    bar.sync 0;\n").map(|(at, _)| at);
        for at in barriers {
            let mut text = ptx.text().to_owned();
            text.replace_range(at..at + "    bar.sync 0;\n".len(), "");
            let a = Bsr::<f16>::normal(Structure::new(64, 128, (64, 64), vec![0, 2], vec![0, 1]).unwrap(), 0);
            let b = Dense::<f16>::normal(128, 128, Layout::RowMajor, 0);
            let kernel = Simulated::new(&plan, &text, ptx.entry()).unwrap().with_clusters(1);
            let found = (0..4).any(|seed| {
                let options = Options { seed, ..Options::default() };
                !kernel.multiply::<f16, _>((&a, &b), &options).unwrap().1.findings.is_empty()
            });
            assert!(found, "{spec}: the barrier at byte {at} seems to be for nothing");
        }
    }
}

#[test]
fn matrices_without_blocks_are_products_of_zeros() {
    for (spec, tile_scheduler) in [
        ("vector = 1", TileScheduler::Static),
        ("vector = 8", TileScheduler::Static),
        ("accumulate = atomic", TileScheduler::CtaPerBlock),
    ] {
        let case = case(&format!("mma = scalar, bm = 16, bn = 64, bk = 16, out = f32, {spec}"), 0);
        assert_eq!(case.kernel.plan().tile_scheduler(), tile_scheduler);
        let a = Bsr::<f16>::normal(Structure::empty(50, 40, (16, 16)).unwrap(), 0);
        let b = Dense::<f16>::filled(40, 70, Layout::RowMajor, f16::NAN);
        let (Results { c, .. }, report) = case.kernel.multiply::<f32, _>((&a, &b), &Options::default()).unwrap();
        assert!(report.is_clean() && (0..50).all(|row| c.view().line(row).iter().all(|x| *x == 0.0)), "{spec}");
    }
}
