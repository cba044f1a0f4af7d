//! Imbalance of work plans.
use bsr_codegen::{Arch, Plan};
use bsr_runtime::{Bsr, Pattern, schedule::WorkPlan};
use half::f16;
fn main() {
    for (m, n, k, spec, pat, g) in [
        (8192usize, 8192usize, 8192usize, "bm = 128, bn = 256, bk = 128, cluster = 2", "random:0.5", 66u32),
        (8192, 8192, 8192, "bm = 128, bn = 256, bk = 128, cluster = 2", "random:0.25", 66),
        (8192, 8192, 8192, "bm = 128, bn = 256, bk = 128, cluster = 2", "random:0.125", 66),
        (8192, 8192, 8192, "bm = 128, bn = 256, bk = 128", "random:0.125", 132),
        (8192, 8192, 8192, "bm = 64, bn = 512, bk = 64, cluster = 2", "random:0.25", 66),
        (8192, 8192, 8192, "bm = 64, bn = 256, bk = 64, cluster = 2", "random:0.25", 66),
        (4096, 4096, 4096, "bm = 64, bn = 256, bk = 64", "random:0.125", 132),
        (4096, 4096, 4096, "bm = 64, bn = 256, bk = 64, cluster = 2", "random:0.125", 66),
        (4096, 4096, 4096, "bm = 64, bn = 512, bk = 64", "random:0.125", 132),
        (4096, 4096, 4096, "bm = 64, bn = 512, bk = 64, cluster = 2", "random:0.125", 66),
        (8192, 8192, 8192, "bm = 128, bn = 256, bk = 128, cluster = 2", "powerlaw:0.05", 66),
    ] {
        let plan = Plan::new(&spec.parse().unwrap(), &Arch::SM_90A).unwrap();
        let s = plan.spec();
        let pat: Pattern = pat.parse().unwrap();
        let a = pat.structure(m, k, (s.bm as usize, s.bk as usize), 7).unwrap();
        let w = WorkPlan::new(&plan, a.row_ptr(), m, n, g);
        let steps = plan.cluster_tile().stages_per_block.0 as f64;
        let loads: Vec<f64> = w.offsets.windows(2).map(|e| w.items[e[0] as usize..e[1] as usize].iter().map(|i| i.blocks as f64 * steps + 1.0).sum()).collect();
        let avg = loads.iter().sum::<f64>() / loads.len() as f64;
        let max = loads.iter().cloned().fold(0.0, f64::max);
        println!("{spec} {pat}: avg {avg:.1} max {max:.1} +{:.1}%", (max / avg - 1.0) * 100.0);
    }
    let _ = std::mem::size_of::<Bsr<f16>>();
}
