//! Whole products on the simulator: the kernels that check and list a pattern, and the kernel that multiplies by their
//! lists, one after the other in one memory.

use bsr_runtime::kernel::arguments::ByKind;
use bsr_runtime::simulated::lists::ListKernels;
use bsr_runtime::simulated::{Options, Simulated};
use bsr_runtime::{Bsr, Dense, Inputs, Layout, Pattern, reference};
use half::f16;

use crate::shapes::{plan, structure};

/// A kernel whose work is listed by kernels.
fn kernel(spec: &str, clusters: u32) -> Simulated {
    let (plan, lists) = (plan(spec), ListKernels::own().unwrap());
    let ptx = plan.ptx();
    let kernel = Simulated::new(&plan, ptx.text(), ptx.entry()).unwrap();
    kernel.with_clusters(clusters).with_device_pattern(lists).unwrap()
}

#[test]
fn products_with_these_lists_are_right() {
    for (spec, (rows, cols), n, pattern, clusters) in [
        ("bm = 64, bn = 64, bk = 64", (256, 320), 136, "random:0.4", 3),
        ("bm = 128, bn = 64, bk = 64, cluster = 2, split = auto", (320, 256), 256, "powerlaw:0.4", 2),
        ("bm = 64, bn = 64, bk = 64, op = dds", (256, 320), 72, "causal", 4),
        // Every tile in parts, of rows that have fewer units, too.
        ("bm = 64, bn = 64, bk = 64, split = 3", (320, 512), 136, "powerlaw:0.4", 6),
        ("bm = 128, bn = 64, bk = 64, cluster = 2, split = 2", (320, 512), 256, "random:0.3", 4),
        ("bm = 64, bn = 64, bk = 64, op = dds, split = 4", (512, 320), 72, "random:0.3", 4),
        // Neighbouring block rows share tiles; some have no neighbour, some no block.
        ("bm = 64, bn = 64, bk = 64, pack = 2, swap = off", (320, 256), 136, "random:0.4", 3),
        ("bm = 64, bn = 64, bk = 64, pack = 3, swap = off, cluster = 2", (448, 320), 200, "powerlaw:0.3", 2),
        ("bm = 128, bn = 64, bk = 32, pack = 2, swap = off, split = auto", (640, 256), 72, "random:0.1", 4),
        ("bm = 64, bn = 64, bk = 64, pack = 2, swap = off", (320, 256), 72, "random:0", 3),
    ] {
        let kernel = kernel(spec, clusters);
        let a = Bsr::<f16>::normal(structure(kernel.plan(), (rows, cols), pattern, 4), 1);
        let (dense, m) = if spec.contains("dds") { ((n, rows), n) } else { ((cols, n), rows) };
        let dense = Dense::<f16>::normal(dense.0, dense.1, Layout::RowMajor, 2);
        let (inputs, all) = (Inputs::default(), (0..m).collect::<Vec<_>>());
        let run = kernel.multiply::<f16, _>(ByKind(&a, &dense, &inputs), &Options::default());
        let (results, report) = run.unwrap();
        assert!(report.is_clean(), "{spec}: {:#?}", report.findings);
        let want = reference::expected(kernel.plan().spec(), &a, &dense, &inputs, &all, rows.max(cols)).unwrap();
        assert_eq!(want.beyond(&results.c, &all), 0, "{spec}");
    }
}

/// Pairs that kernels list: the results are those of the host's lists, bit by bit.
#[test]
fn products_of_two_sparse_factors_with_these_lists_are_those_of_the_host() {
    for (spec, (m, n, k), stored, clusters) in [
        ("op = dss, bm = 64, bn = 32, bk = 32", (200, 100, 200), 0.5, 3),
        ("op = dss, bm = 64, bn = 32, bk = 32", (200, 100, 200), 0.1, 40),
        ("op = dss, bm = 256, bn = 32, bk = 32, pdl = on", (300, 100, 200), 0.5, 2),
        ("op = dss, bm = 512, bn = 128, bk = 64, cluster = 2", (1030, 260, 300), 0.5, 2),
        ("op = dss, bm = 64, bn = 64, bk = 32, schedule = strided", (300, 200, 200), 0.5, 4),
        ("op = dss, bm = 64, bn = 64, bk = 64", (200, 130, 200), 0.0, 3),
        ("op = sss, bm = 64, bn = 32, bk = 32", (200, 100, 200), 0.5, 3),
        ("op = sss, bm = 64, bn = 32, bk = 32", (200, 100, 200), 0.3, 40),
        ("op = sss, bm = 256, bn = 32, bk = 32, schedule = strided", (300, 100, 200), 0.5, 2),
    ] {
        let there = kernel(spec, clusters);
        let of = *there.plan().spec();
        let ptx = there.plan().ptx();
        let host = Simulated::new(there.plan(), ptx.text(), ptx.entry()).unwrap().with_clusters(clusters);
        let [bm, bn, bk] = [of.bm, of.bn, of.bk].map(|side| side as usize);
        let draw = |rows, cols, block, seed| Pattern::Random(stored).structure(rows, cols, block, seed).unwrap();
        let a = Bsr::<f16>::normal(draw(m, k, (bm, bk), 1), 3);
        let b = Bsr::<f16>::normal(draw(k, n, (bk, bn), 2), 4);
        let c = a.structure().product(b.structure()).unwrap();
        let bits = |values: &[f16]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
        let [there, host] = [there, host].map(|kernel| match of.op.stores_blocks() {
            true => {
                let (results, report) = kernel.multiply::<f16, _>((&a, &b, &c), &Options::default()).unwrap();
                assert!(report.is_clean(), "{spec}: {:#?}", report.findings);
                bits(&results.c)
            }
            false => {
                let (results, report) = kernel.multiply::<f16, _>((&a, &b), &Options::default()).unwrap();
                assert!(report.is_clean(), "{spec}: {:#?}", report.findings);
                bits(results.c.data())
            }
        });
        assert_eq!(there, host, "{spec}");
    }
}

#[test]
fn kernels_that_divide_pairs_or_share_tiles_are_refused() {
    for (spec, remedy) in [
        ("op = dss, bm = 64, bn = 64, bk = 64, split = 2", "split = off"),
        ("op = dss, bm = 64, bn = 64, bk = 64, pack = 2", "one block row a tile"),
    ] {
        let (plan, lists) = (plan(spec), ListKernels::own().unwrap());
        let ptx = plan.ptx();
        let kernel = Simulated::new(&plan, ptx.text(), ptx.entry()).unwrap();
        let text = kernel.with_device_pattern(lists).expect_err(spec).to_string();
        assert!(text.contains(remedy), "{spec}: {text}");
    }
}

#[test]
fn sddmms_with_these_lists_are_right_also_on_ctas_without_a_tile() {
    for (pattern, ctas) in [("random:0.4", 3), ("random:0.1", 9), ("random:0", 2)] {
        let kernel = kernel("op = sdd, bm = 64, bn = 64, bk = 64", ctas);
        let structure = structure(kernel.plan(), (256, 320), pattern, 4);
        let (a, b) =
            (Dense::<f16>::normal(256, 96, Layout::RowMajor, 1), Dense::<f16>::normal(96, 320, Layout::RowMajor, 2));
        let run = kernel.multiply::<f16, _>((&a, &b, &structure), &Options::default());
        let (results, report) = run.unwrap();
        assert!(report.is_clean(), "{pattern}: {:#?}", report.findings);
        let (blocks, inputs) = ((0..structure.nnzb()).collect::<Vec<_>>(), Inputs::default());
        let want = reference::expected_blocks(kernel.plan().spec(), &a, &b, &structure, &blocks, &inputs).unwrap();
        let got = Dense::from_vec(blocks.len(), 64 * 64, Layout::RowMajor, 64 * 64, results.c).unwrap();
        assert_eq!(want.beyond(&got, &blocks), 0, "{pattern}");
    }
}
