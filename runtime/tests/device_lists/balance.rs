//! How level the lists are, next to those of the host.

use bsr_codegen::lists::specification;
use bsr_runtime::schedule::{WorkPlan, WorkTile};

use crate::shapes::{plan, rows, shape, structure};

/// The busiest cluster costs at most so much more than the host's.
const WORSE: f64 = 0.02;

#[test]
fn clusters_finish_as_early_as_with_the_lists_of_the_host() {
    let (flagship, square, small) = ("bm = 512, bn = 128, bk = 112", (8192, 8192), (12288, 12288));
    let mut wrong = vec![];
    for (spec, size, n, pattern, clusters) in [
        ("bm = 128, bn = 256, bk = 128, cluster = 2", square, 8192, "random:0.25", 66),
        ("bm = 128, bn = 256, bk = 128", square, 8192, "random:0.25", 132),
        ("bm = 128, bn = 256, bk = 128, cluster = 2", square, 8192, "random:0.03", 66),
        ("bm = 128, bn = 256, bk = 128", square, 8192, "random:0.03", 132),
        ("bm = 64, bn = 256, bk = 64, cluster = 4", small, 6144, "powerlaw:0.06", 32),
        ("bm = 64, bn = 256, bk = 64, cluster = 2", small, 6144, "powerlaw:0.06", 66),
        ("bm = 64, bn = 256, bk = 64", small, 6144, "powerlaw:0.06", 132),
        ("bm = 128, bn = 192, bk = 128, cluster = 2", small, 6144, "window:0.05", 66),
        ("bm = 64, bn = 256, bk = 64, cluster = 2", (4096, 4096), 4096, "random:0.125", 66),
        ("bm = 64, bn = 128, bk = 64", (4096, 4096), 4096, "random:0.125", 264),
        ("bm = 128, bn = 256, bk = 128, cluster = 2", square, 8192, "causal", 66),
        ("bm = 64, bn = 256, bk = 64", square, 2048, "causal", 132),
        ("bm = 64, bn = 256, bk = 64, cluster = 2", (4096, 65536), 8192, "one long row", 66),
        ("bm = 64, bn = 256, bk = 64, cluster = 2", (4096, 65536), 1024, "one long row", 66),
        (flagship, (16384, 14336), 4096, "random:0.25", 132),
        ("bm = 64, bn = 256, bk = 64, cluster = 2", (16384, 16384), 8192, "random:0.25", 66),
        ("bm = 128, bn = 256, bk = 128, cluster = 2, op = dds", square, 8192, "random:0.25", 66),
    ] {
        let plan = plan(spec);
        for seed in 0..3 {
            let structure = structure(&plan, size, pattern, seed);
            let shape = shape(&plan, &structure, n, clusters);
            let host = WorkPlan::new(&plan, &structure, n, clusters);
            let load = |list: &[WorkTile]| list.iter().map(|tile| shape.tile.cost(tile.blocks.into())).sum::<u64>();
            let busiest = host.lists().map(load).max().unwrap();
            let lists = specification::assign(&shape, &rows(&plan, &structure));
            let own = *lists.loads.iter().max().unwrap();
            let ratio = f64::from(own) / busiest as f64;
            let line = format!(
                "{ratio:.3}: {own} against {busiest}, {} rounds, longest list {}: {spec}, {pattern}, seed {seed}",
                lists.rounds,
                lists.lengths.iter().max().unwrap()
            );
            println!("{line}");
            assert_eq!(lists.tiles.iter().flatten().count() as u32, shape.tiles());
            assert!(lists.lengths.iter().all(|length| (1..=shape.list_rows()).contains(length)), "{line}");
            if ratio > 1.0 + WORSE {
                wrong.push(line);
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
