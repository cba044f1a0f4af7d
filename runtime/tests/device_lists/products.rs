//! Whole products on the simulator: the kernels that check and list a pattern, and the kernel that multiplies by their
//! lists, one after the other in one memory.

use bsr_runtime::kernel::arguments::ByKind;
use bsr_runtime::simulated::lists::ListKernels;
use bsr_runtime::simulated::{Options, Simulated};
use bsr_runtime::{Bsr, Dense, Inputs, Layout, reference};
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
