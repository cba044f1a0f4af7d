//! The gradient of attention: steps and tiles of both kernels are those of their work lists.

use bsr_codegen::probes::Kind;
use bsr_codegen::{GradientSide, KernelSpec};

use bsr_runtime::attention::{GradientWork, Mask, Shape, SimulatedGradient};
use bsr_runtime::timeline::Timeline;
use bsr_trial::attention::{Backward, Problem};
use half::f16;

use crate::{PROBES, count, probed, rules, timed, timeline};

const CTAS: u32 = 3;

/// Both kernels of an attention, with heads in groups.
fn run(text: &str) {
    let spec: KernelSpec = format!("op = attention, {text}").parse().unwrap();
    let shape = Shape { batch: 1, heads: 2, key_heads: 1, queries: 500, keys: 600, columns: spec.bn as usize };
    let mask = Mask::random((500, 600), (spec.bm as usize, spec.bk as usize), 0.6, 1).unwrap();
    let backward = Backward::<f16>::new(&spec, &Problem::new(&spec, shape, mask, "").unwrap()).unwrap();
    for spec in spec.gradients() {
        let plan = probed(&spec.to_string(), PROBES);
        let kernel = SimulatedGradient::of_plan(&plan).unwrap().with_ctas(CTAS);
        let report = kernel.run(&backward.saved(), None, &backward.mask, &timed()).unwrap().report;
        assert!(report.is_clean(), "{spec}: {:?}", report.findings);
        let timeline = timeline(&plan, &kernel.records().unwrap());
        rules::hold(&timeline);
        let form = plan.gradient_tiles().unwrap();
        let work = GradientWork::new(&form, &shape, &backward.mask, CTAS).unwrap();
        assert_eq!(timeline.ctas.len() as u32, work.ctas(), "{spec}");
        hold(&spec, form.side, &timeline, &work);
    }
}

/// Every CTA has the tiles and steps of the work list.
pub(crate) fn hold(spec: &KernelSpec, side: GradientSide, timeline: &Timeline, work: &GradientWork) {
    let (waits, loads) = match side {
        GradientSide::Queries => ([Kind::WaitKeys, Kind::WaitValues], [Kind::LoadKeys, Kind::LoadValues]),
        GradientSide::Keys => ([Kind::WaitQueries, Kind::WaitGradients], [Kind::LoadQueries, Kind::LoadGradients]),
    };
    let tiles: Vec<&[u32]> = work.tiles.chunks(8).collect();
    for cta in &timeline.ctas {
        let ends = &work.heads[cta.number as usize..][..2];
        let of_cta = &tiles[ends[0] as usize..ends[1] as usize];
        let total = |word: usize| of_cta.iter().map(|tile| tile[word] as usize).sum::<usize>();
        for track in &cta.tracks {
            let place = format!("{spec}: CTA {}, {}", cta.number, track.name);
            let of = |kind| count(track, kind);
            assert_eq!(track.tiles.len(), of_cta.len(), "{place}: tiles");
            if track.role == 0 {
                assert_eq!(
                    [of(Kind::LoadRows), of(loads[0]), of(loads[1])],
                    [of_cta.len(), total(5), total(5)],
                    "{place}"
                );
                continue;
            }
            let own = total(5 + track.role);
            assert_eq!([of(Kind::WaitRows), of(waits[0]), of(waits[1])], [of_cta.len(), total(5), total(5)], "{place}");
            assert_eq!([Kind::Slopes, Kind::Slope, Kind::Sums, Kind::Issue].map(of), [own; 4], "{place}");
            assert_eq!(of(Kind::Store), of_cta.len(), "{place}");
        }
    }
}

#[test]
fn steps_and_tiles_of_gradients_are_those_of_the_work_list() {
    run("bm = 128, bn = 64, bk = 64");
    run("bm = 64, bn = 128, bk = 64");
    run("bm = 64, bn = 64, bk = 64, score = \"|cap: f32| if i >= j { cap * tanh(s * scale / cap) } else { -inf }\"");
}

#[test]
fn a_tile_of_a_gradient_is_called_by_its_rows_and_its_head() {
    let words = |op: &str| {
        let plan = probed(&format!("op = {op}, bm = 128, bn = 64, bk = 64"), PROBES);
        plan.probes().unwrap().1.tile.words([256, 3, 1])
    };
    assert_eq!(words("attention_dq"), "queries 256..384, head 3, problem 1");
    assert_eq!(words("attention_dkv"), "keys 256..384, head 3, problem 1");
}
