//! Attention: steps and tiles are those of the work list.

use bsr_codegen::Plan;
use bsr_codegen::probes::Kind;

use bsr_runtime::attention::{AttentionWork, HeadOrder, Mask, Shape, SimulatedAttention, Tensor};
use bsr_runtime::timeline::Timeline;
use half::f16;

use crate::{PROBES, count, probed, rules, timed, timeline};

const CTAS: u32 = 3;

fn run(spec: &str, density: f64) {
    let plan = probed(spec, PROBES);
    let ptx = plan.ptx();
    let kernel = SimulatedAttention::new(&plan, ptx.text(), ptx.entry()).unwrap().with_ctas(CTAS);
    let columns = plan.spec().bn as usize;
    let shape = Shape { batch: 1, heads: 2, key_heads: 2, queries: 600, keys: 600, columns };
    let block = (plan.spec().bm as usize, plan.spec().bk as usize);
    let mask = Mask::random((600, 600), block, density, 1).unwrap();
    let tensor = |seed| Tensor::<f16>::normal([1, 2, 600, columns], HeadOrder::HeadsFirst, seed);
    let [q, k, v] = [0, 1, 2].map(tensor);
    let (_, _, report) = kernel.run([&q, &k, &v], &mask, (0.1, &[][..]), &timed()).unwrap();
    assert!(report.is_clean(), "{spec}: {:?}", report.findings);
    let timeline = timeline(&plan, &kernel.records().unwrap());
    rules::hold(&timeline);
    let work = AttentionWork::new(&plan.attention_tiles().unwrap(), &shape, &mask, CTAS).unwrap();
    assert_eq!(timeline.ctas.len() as u32, work.ctas(), "{spec}");
    hold(&plan, &timeline, &work);
}

/// Every CTA of a timeline has the tiles and steps of the work list.
pub(crate) fn hold(plan: &Plan, timeline: &Timeline, work: &AttentionWork) {
    let (_, roles) = plan.probes().unwrap();
    for cta in &timeline.ctas {
        let range = &work.heads[cta.number as usize..];
        let words = plan.attention_tiles().unwrap().tile_words as usize;
        let all: Vec<&[u32]> = work.tiles.chunks(words).collect();
        let of_cta = &all[range[0] as usize..range[1] as usize];
        let total = |word: usize| of_cta.iter().map(|tile| tile[word] as usize).sum::<usize>();
        let steps = total(5);
        for track in &cta.tracks {
            let place = format!("{}: CTA {}, {}", plan.spec(), cta.number, track.name);
            let of = |kind| count(track, kind);
            assert_eq!(track.tiles.len(), of_cta.len(), "{place}: tiles");
            if roles.is_producer(track.role) {
                let loads = [Kind::LoadQueries, Kind::LoadKeys, Kind::LoadValues].map(of);
                assert_eq!(loads, [of_cta.len(), steps, steps], "{place}: loads");
                continue;
            }
            let own = total(6 + track.role - roles.producers.len());
            assert_eq!([Kind::WaitKeys, Kind::WaitValues].map(of), [steps, steps], "{place}: waits");
            assert_eq!([Kind::Scores, Kind::Output].map(of), [own, own], "{place}: products");
            assert!(own == 0 || of(Kind::Softmax) >= own, "{place}: softmax");
        }
    }
}

#[test]
fn steps_and_tiles_are_those_of_the_work_list() {
    run("op = attention, bm = 128, bn = 64, bk = 64", 0.6);
    run("op = attention, bm = 64, bn = 128, bk = 64", 0.6);
    run("op = attention, bm = 64, bn = 64, bk = 64, split = 2", 0.9);
}

#[test]
fn a_tile_is_called_by_its_queries_and_its_head() {
    let plan = probed("op = attention, bm = 128, bn = 64, bk = 64", PROBES);
    let (_, roles) = plan.probes().unwrap();
    assert_eq!(roles.tile.words([256, 3, 1]), "queries 256..448, head 3, problem 1");
}
