//! What the problems of a check are made for is there, whatever the plan.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;

use bsr_codegen::{AttentionTiles, Plan};
use bsr_runtime::attention::AttentionWork;

use super::by_blocks::TILES;
use super::{AttentionTrial, trials};

const CAUSAL: &str = "score = \"|| if i >= j { s * scale } else { -inf }\"";

fn plan(spec: &str) -> Plan {
    Plan::new(&format!("op = attention, {spec}").parse().unwrap()).unwrap()
}

/// Plans with steps of one block, of two and of a part of one; with tiles of one row of blocks and of several.
fn plans() -> Vec<Plan> {
    let of = |spec: &str| [plan(spec), plan(&format!("{spec}, {CAUSAL}"))];
    [
        "bm = 64, bn = 32, bk = 64",
        "bm = 128, bn = 64, bk = 128, stages = 2",
        "bm = 512, bn = 128, bk = 256",
        "bm = 192, bn = 16, bk = 48",
        "bm = 128, bn = 256, bk = 32",
        "bm = 64, bn = 16, bk = 32, pack_heads = 4",
        "bm = 64, bn = 16, bk = 32, split = 3",
        "bm = 64, bn = 16, bk = 32, split = 8, stages = 2",
        "bm = 128, bn = 64, bk = 64, split = auto",
        "bm = 64, bn = 16, bk = 32, work_list = 30720",
        "bm = 64, bn = 16, bk = 32, mma = mma_sync",
        "bm = 128, bn = 64, bk = 128, mma = mma_sync, stages = 2",
    ]
    .into_iter()
    .flat_map(of)
    .collect()
}

fn named<'t>(trials: &'t [AttentionTrial], name: &str) -> Vec<&'t AttentionTrial> {
    trials.iter().filter(|trial| trial.name == name).collect()
}

/// The runs of each step of a trial's tiles: the number of the step in its tile, the place in the step, the run.
fn runs(tiles: &AttentionTiles, trial: &AttentionTrial) -> BTreeSet<(bool, usize, u32)> {
    let work = AttentionWork::new(tiles, &trial.problem.shape, &trial.problem.mask, trial.ctas).unwrap();
    let blocks = tiles.blocks as usize;
    let of_tile = |tile: &[u32]| {
        let steps = &work.steps[tile[4] as usize * blocks..][..tile[5] as usize * blocks];
        let run = |(at, word): (usize, &u32)| (at >= blocks, at % blocks, word & AttentionTiles::NUMBER);
        steps.iter().enumerate().map(run).collect::<Vec<_>>()
    };
    work.tiles.chunks(tiles.tile_words as usize).flat_map(of_tile).collect()
}

#[test]
fn every_ring_goes_round_three_times() {
    for plan in plans() {
        let (tiles, stages) = (plan.attention_tiles().unwrap(), plan.profile().stages as usize);
        let most = |of: &dyn Fn(&AttentionWork) -> usize| {
            let all = trials(&plan, 0, 0).unwrap();
            let work = |trial: &AttentionTrial| {
                AttentionWork::new(&tiles, &trial.problem.shape, &trial.problem.mask, trial.ctas).unwrap()
            };
            all.iter().map(|trial| of(&work(trial))).max().unwrap()
        };
        let of_cta = |work: &AttentionWork| work.heads.windows(2).map(|ends| (ends[1] - ends[0]) as usize).max();
        assert!(most(&|work| of_cta(work).unwrap_or(0)) >= TILES, "{}", plan.spec());
        let words = tiles.tile_words as usize;
        let steps = |work: &AttentionWork| work.tiles.chunks(words).map(|tile| tile[5] as usize).max().unwrap_or(0);
        assert!(most(&steps) > 3 * stages, "{}", plan.spec());
    }
}

/// Each group of eight keys ends after its first key and within, at every place of a step, in a first step and in a later one.
#[test]
fn keys_end_at_every_place_where_a_kernel_asks() {
    for plan in plans() {
        let tiles = plan.attention_tiles().unwrap();
        let run = tiles.run() as usize;
        let mut found = BTreeSet::new();
        for trial in named(&trials(&plan, 0, 0).unwrap(), "remainders") {
            let (keys, rest) = (trial.problem.shape.keys, trial.problem.shape.keys % run);
            let last = |&(_, _, number): &(bool, usize, u32)| number as usize == keys / run;
            let places = runs(&tiles, trial).into_iter().filter(last);
            found.extend(places.map(|(later, place, _)| (later, place, rest / 8, rest % 8 == 1)));
            let lists = trial.problem.mask.lists().iter();
            let partial = lists.filter(|list| list.partial.contains(&true)).count();
            assert_eq!(2 * partial, if plan.spec().score.is_some() { trial.problem.mask.lists().len() } else { 0 });
        }
        for place in 0..tiles.blocks as usize {
            for eight in 0..run / 8 {
                let of = [(false, true), (false, false), (true, true), (true, false)];
                let all = of.map(|(later, first)| (later, place, eight, first));
                assert!(all.iter().all(|at| found.contains(at)), "{}: place {place}, keys {eight}", plan.spec());
            }
        }
    }
}

#[test]
fn tiles_begin_with_a_block_on_the_diagonal() {
    for plan in plans().into_iter().filter(|plan| plan.spec().score.is_some()) {
        let tiles = plan.attention_tiles().unwrap();
        let all = trials(&plan, 0, 0).unwrap();
        let [trial] = named(&all, "diagonal")[..] else { panic!("{}", plan.spec()) };
        assert!(trial.problem.mask.lists().iter().all(|list| list.partial.iter().all(|partial| *partial)));
        let work = AttentionWork::new(&tiles, &trial.problem.shape, &trial.problem.mask, trial.ctas).unwrap();
        let (blocks, run) = (tiles.blocks as usize, tiles.run());
        let mut found = BTreeSet::new();
        for tile in work.tiles.chunks(tiles.tile_words as usize) {
            let queries = tile[0]..tile[0] + tiles.rows;
            let steps = &work.steps[tile[4] as usize * blocks..][..tile[5] as usize * blocks];
            for (at, word) in steps.iter().enumerate() {
                let first = (word & AttentionTiles::NUMBER) * run;
                if first < queries.end && queries.start < first + run && word / AttentionTiles::PARTIAL > 0 {
                    found.insert((at >= blocks, at % blocks));
                }
            }
        }
        assert_eq!(found.len(), 2 * blocks, "{}: {found:?}", plan.spec());
    }
}

#[test]
fn rounds_have_other_sizes_and_values() {
    for plan in plans() {
        let [first, second] = [0, 1].map(|round| trials(&plan, 0, round).unwrap());
        let [first, second] = [first, second].map(|all| named(&all, "ragged")[0].problem.clone());
        assert!(first.shape != second.shape && first.seed != second.seed);
    }
}
