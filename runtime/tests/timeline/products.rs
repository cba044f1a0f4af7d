//! Products and SDDMMs: loads, WGMMAs and tiles are those of the work lists.

use bsr_codegen::probes::{Kind, Probes};
use bsr_codegen::{Op, Plan, TileScheduler};
use bsr_runtime::schedule::WorkLists;
use bsr_runtime::simulated::Simulated;
use bsr_runtime::timeline::{Summary, Timeline, beside, compare};
use bsr_runtime::{Bsr, Dense, Inputs, Layout, Pattern, Permutation, Structure};
use half::f16;
use serde_json::{Value, json};

use crate::{PROBES, count, probed, rules, timed, timeline};

/// Clusters of a run.
const CLUSTERS: u32 = 3;

/// Tiles and stages of every CTA, as the work lists have them.
pub(crate) fn expected(plan: &Plan, structure: &Structure, n: usize, clusters: u32) -> Vec<(usize, usize)> {
    let work = WorkLists::new(plan, structure, n, clusters);
    let clusters = work.grid[0] as usize;
    let (steps, gathered) = plan.cluster_tile().stages_per_block;
    // Work tiles lie in rows of one for each cluster; which word has blocks, and what a block is worth.
    let (words, at) = match plan.tile_scheduler() {
        TileScheduler::StageMetadata(_) => {
            return work.heads.chunks(2).map(|head| (head[0] as usize, head[1] as usize)).collect();
        }
        TileScheduler::SharedColumns(_) => (16, 2),
        TileScheduler::Sddmm => (plan.sddmm_tiles().unwrap().tile_words as usize, 2),
        _ => (if plan.split_form().is_some() { 8 } else { 4 }, 3),
    };
    let stages = |blocks: u32| match plan.spec().op {
        Op::Sdd => blocks as usize,
        _ => (blocks.max(1).div_ceil(gathered) * steps) as usize,
    };
    let of_cluster = |cluster: usize| {
        let tiles = work.heads[cluster] as usize;
        let blocks = (0..tiles).map(|tile| work.tiles[(tile * clusters + cluster) * words + at]);
        (tiles, blocks.map(stages).sum())
    };
    let ctas = plan.cluster() as usize;
    (0..clusters).flat_map(|cluster| std::iter::repeat_n(of_cluster(cluster), ctas)).collect()
}

/// Runs a kernel on a problem of 8 rows of blocks and 12 columns or more, half of them stored.
fn run(spec: &str, probes: Probes) -> (Plan, Timeline, Vec<(usize, usize)>) {
    let plan = probed(spec, probes);
    let ptx = plan.ptx();
    let kernel = Simulated::new(&plan, ptx.text(), ptx.entry()).unwrap().with_clusters(CLUSTERS);
    let spec = *plan.spec();
    let (bm, bk) = (spec.bm as usize, spec.bk as usize);
    // What a role does after its last slice, some 15 cycles, must be a small part of its time.
    let (m, k) = ((8 * bm).max(768), (12 * bk).max(1024));
    let structure = Pattern::Random(0.5).structure(m, k, (bm, bk), 3).unwrap();
    let n = 2 * spec.bn as usize;
    let expected = match spec.op {
        Op::Sdd => {
            let (a, b) = (dense(m, 200), dense(200, k));
            let (_, report) = kernel.multiply::<f16, _>((&a, &b, &structure), &timed()).unwrap();
            assert!(report.is_clean(), "{spec}: {:?}", report.findings);
            expected(&plan, &structure, 200, CLUSTERS)
        }
        _ => {
            let a = Bsr::<f16>::normal(structure, 1);
            let b = dense(k, n);
            let inputs = match spec.permute.is_on() {
                true => Inputs::new().order(Permutation::identity(m)),
                false => Inputs::new(),
            };
            let (_, report) = kernel.multiply::<f16, _>((&a, &b, &inputs), &timed()).unwrap();
            assert!(report.is_clean(), "{spec}: {:?}", report.findings);
            expected(&plan, a.structure(), n, CLUSTERS)
        }
    };
    let timeline = timeline(&plan, &kernel.records().unwrap());
    (plan, timeline, expected)
}

pub(crate) fn dense(rows: usize, cols: usize) -> Dense<f16> {
    Dense::normal(rows, cols, Layout::RowMajor, 2)
}

/// Every family, with what changes the order of its stages.
const SPECS: [&str; 13] = [
    "bm = 128, bn = 64, bk = 48",
    "bm = 64, bn = 32, bk = 16",
    "bm = 64, bn = 64, bk = 32, consumers = 1",
    "bm = 128, bn = 64, bk = 64, cluster = 2",
    "bm = 64, bn = 64, bk = 64, pdl = early",
    "bm = 64, bn = 64, bk = 64, split = 3",
    "bm = 64, bn = 64, bk = 64, swap = off, pack = 2",
    "bm = 16, bn = 64, bk = 16",
    "bm = 40, bn = 64, bk = 32, pdl = on",
    "bm = 16, bn = 64, bk = 64, permute = on",
    "bm = 64, bn = 64, bk = 64, op = sdd",
    "bm = 32, bn = 64, bk = 32, op = sdd",
    "bm = 128, bn = 64, bk = 128, op = sdd",
];

/// Every CTA of a timeline has the tiles and stages of the work list.
pub(crate) fn hold(plan: &Plan, timeline: &Timeline, expected: &[(usize, usize)]) {
    let (_, roles) = plan.probes().unwrap();
    let is_packed = matches!(plan.tile_scheduler(), TileScheduler::SharedColumns(_));
    for cta in &timeline.ctas {
        let (tiles, stages) = expected[cta.number as usize];
        for track in &cta.tracks {
            let place = format!("{}: CTA {}, {}", plan.spec(), cta.number, track.name);
            let of = |kind| count(track, kind);
            if roles.is_producer(track.role) {
                let loads = of(Kind::Load) + of(Kind::LoadBlocks) + of(Kind::LoadPanels);
                assert_eq!(loads, stages, "{place}: loads");
                continue;
            }
            assert_eq!(track.tiles.len(), tiles, "{place}: tiles");
            assert_eq!((of(Kind::WaitFull), of(Kind::Release)), (stages, stages), "{place}: stages");
            // A consumer of a packed tile multiplies where its own block row has a block.
            let products = of(Kind::Wgmma);
            assert!(products == stages || is_packed && products < stages, "{place}: {products} of {stages}");
        }
    }
}

#[test]
fn loads_products_and_tiles_are_those_of_the_work_list() {
    for spec in SPECS {
        let (plan, timeline, expected) = run(spec, PROBES);
        rules::hold(&timeline);
        assert_eq!(timeline.ctas.len(), expected.len(), "{spec}");
        hold(&plan, &timeline, &expected);
        let merges =
            |kind| timeline.ctas.iter().flat_map(|cta| &cta.tracks).map(|track| count(track, kind)).sum::<usize>();
        if plan.spec().split.is_on() {
            assert!(merges(Kind::AddPart) > 0 && merges(Kind::AddPart) == merges(Kind::PassOn), "{spec}: parts");
        }
    }
}

#[test]
fn tiles_are_called_by_their_rows_and_columns() {
    let names = |spec: &str| {
        let (_, timeline, _) = run(spec, PROBES);
        let trace = timeline.perfetto();
        let events = trace["traceEvents"].as_array().unwrap().clone();
        events.iter().filter(|event| event["cat"] == "tile").map(|event| event["name"].to_string()).collect::<Vec<_>>()
    };
    let tall = names("bm = 128, bn = 64, bk = 48");
    assert!(tall.iter().any(|name| name.contains("tile (rows 128..192, columns 64..128)")), "{tall:?}");
    let sampled = names("bm = 64, bn = 64, bk = 64, op = sdd");
    assert!(sampled.iter().any(|name| name.contains("tile (rows 64..128)")), "{sampled:?}");
}

#[test]
fn a_ring_that_is_too_small_says_so() {
    let spec = "bm = 64, bn = 32, bk = 16";
    let (_, whole, _) = run(spec, PROBES);
    let probes = Probes { records: 20, ..PROBES };
    let (_, cut, _) = run(spec, probes);
    let room = probes.room() as usize;
    for (whole, cut) in whole.ctas.iter().zip(&cut.ctas) {
        for (whole, cut) in whole.tracks.iter().zip(&cut.tracks) {
            assert_eq!((whole.kept, cut.kept), (whole.counted, whole.counted.min(room)), "{}", cut.name);
            assert_eq!(whole.counted, cut.counted, "{}", cut.name);
            assert!(cut.slices.len() <= room && cut.slices.len() <= whole.slices.len(), "{}", cut.name);
        }
    }
    let summary = Summary::of_trace(&cut.perfetto()).unwrap();
    assert!(summary.to_string().contains("events kept"), "{summary}");
}

#[test]
fn ctas_that_are_not_asked_for_record_nothing() {
    let spec = "bm = 64, bn = 32, bk = 16";
    let (_, one, _) = run(spec, Probes { first: 1, ctas: 1, records: 4000 });
    let numbers: Vec<u32> = one.ctas.iter().map(|cta| cta.number).collect();
    assert_eq!(numbers, [1]);
    let plan = probed(spec, Probes { first: 100, ctas: 2, records: 4000 });
    let (probes, roles) = plan.probes().unwrap();
    let nothing = Timeline::new(&plan, &vec![0; probes.bytes(roles) / 4], bsr_runtime::timeline::Clock::Simulator);
    assert!(nothing.unwrap_err().to_string().contains("CTAs 100 to 101"));
}

#[test]
fn two_kernels_are_compared_role_by_role() {
    let summary = |spec| Summary::of_trace(&run(spec, PROBES).1.perfetto()).unwrap();
    let (a, b) = (summary("bm = 64, bn = 64, bk = 64"), summary("bm = 64, bn = 64, bk = 64, stages = 2"));
    let text = compare(&a, &b);
    for words in ["stages = 2", "consumer 0", "waiting for full", "waiting for empty", "WGMMA", "epilogue", "B - A"] {
        assert!(text.contains(words), "{words} is not in\n{text}");
    }
    // The points of a role add up to nothing: one's gain is the other's loss.
    let role = |summary: &Summary| summary.roles.iter().find(|role| role.name == "producer").unwrap().shares;
    let less: f64 = role(&a).iter().zip(role(&b)).map(|(a, b)| b - a).sum();
    assert!(less.abs() < 1e-9, "{less}");
}

#[test]
fn kernels_of_lists_record_every_product() {
    for spec in ["bm = 128, bn = 64, bk = 48, batch = on", "bm = 16, bn = 64, bk = 16, batch = on"] {
        let plan = probed(spec, PROBES);
        let ptx = plan.ptx();
        let kernel = Simulated::new(&plan, ptx.text(), ptx.entry()).unwrap().with_clusters(CLUSTERS);
        let spec = plan.spec();
        let (m, k) = (8 * spec.bm as usize, 20 * spec.bk as usize);
        let a = Bsr::<f16>::generate(Pattern::TopK(6), m, k, (spec.bm as usize, spec.bk as usize), 3).unwrap();
        let b = dense(k, 128);
        let (_, report) = kernel.multiply_batch::<f16, _>([(&a, &b), (&a, &b)], &timed()).unwrap();
        assert!(report.is_clean(), "{spec}: {:?}", report.findings);
        let timeline = timeline(&plan, &kernel.records().unwrap());
        rules::hold(&timeline);
        let rows = plan.cluster_tile().rows as usize;
        let consumers = plan.probes().unwrap().1.consumers as usize;
        let tiles: usize = timeline
            .ctas
            .iter()
            .flat_map(|cta| cta.tracks.iter().filter(|track| track.name.starts_with("consumer")))
            .map(|track| track.tiles.len())
            .sum();
        // Two products of as many tiles of 64 columns each.
        let columns = plan.cluster_tile().columns as usize;
        assert_eq!(tiles, 2 * m.div_ceil(rows) * 128_usize.div_ceil(columns) * consumers, "{spec}");
    }
}

#[test]
fn an_sddmm_of_lists_records_every_product() {
    let plan = probed("bm = 64, bn = 64, bk = 64, op = sdd, batch = on", PROBES);
    let ptx = plan.ptx();
    let kernel = Simulated::new(&plan, ptx.text(), ptx.entry()).unwrap().with_clusters(CLUSTERS);
    let structure = Pattern::Random(0.5).structure(512, 512, (64, 64), 3).unwrap();
    let (a, b) = (dense(512, 200), dense(200, 512));
    let list = [(&a, &b, &structure), (&a, &b, &structure)];
    let (_, report) = kernel.multiply_batch::<f16, _>(list, &timed()).unwrap();
    assert!(report.is_clean(), "{:?}", report.findings);
    let timeline = timeline(&plan, &kernel.records().unwrap());
    rules::hold(&timeline);
    assert_eq!(timeline.ctas.len(), CLUSTERS as usize);
}

#[test]
fn two_traces_in_one_file_share_no_process_no_thread_and_no_flow() {
    let trace = |spec| run(spec, PROBES).1.perfetto();
    let (a, b) = (trace("bm = 64, bn = 64, bk = 64"), trace("bm = 64, bn = 64, bk = 64, stages = 2"));
    let both = beside(&a, &b).unwrap();
    let count = |trace: &Value, phase: &str| {
        trace["traceEvents"].as_array().unwrap().iter().filter(|event| event["ph"] == phase).count()
    };
    for phase in ["X", "s", "f"] {
        assert_eq!(count(&both, phase), count(&a, phase) + count(&b, phase), "{phase}");
    }
    let events = both["traceEvents"].as_array().unwrap();
    let named = |what: &str, part: &str| -> Vec<String> {
        events.iter().filter(|event| event["name"] == what).map(|event| event[part].to_string()).collect()
    };
    for (what, part) in [("process_name", "pid"), ("thread_name", "tid")] {
        let all = named(what, part);
        let different: std::collections::HashSet<&String> = all.iter().collect();
        assert_eq!(different.len(), all.len(), "{what}");
    }
    let processes = named("process_name", "args");
    assert!(
        processes.iter().any(|name| name.contains("A: CTA 0"))
            && processes.iter().any(|name| name.contains("B: CTA 0"))
    );
    // CTA 0 of B stands right below CTA 0 of A.
    let orders = named("process_sort_index", "args");
    assert_eq!(orders[..2], [json!({ "sort_index": 2 }).to_string(), json!({ "sort_index": 4 }).to_string()]);
    assert!(orders.contains(&json!({ "sort_index": 3 }).to_string()));
    let ids: Vec<String> =
        events.iter().filter(|event| event["ph"] == "s").map(|event| event["id"].to_string()).collect();
    assert_eq!(ids.iter().collect::<std::collections::HashSet<_>>().len(), ids.len());
    assert!(beside(&a, &both).unwrap_err().to_string().contains("roles"));
}
