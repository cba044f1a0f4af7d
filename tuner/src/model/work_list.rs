//! Which cluster computes which tiles when, as the model has it: a simulated timeline of a launch.

use bsr_codegen::Plan;

use super::tile_time::Setting;
use super::{Card, Simulation, timeline};
use crate::TuningProblem;

/// For every cluster of a launch from when to when it computes each of its tiles, in microseconds since its beginning. Empty of
/// an attention and of its gradient, whose lists the model does not follow, and where there is nothing to compute.
pub fn work_list(plan: &Plan, problem: &TuningProblem, card: &Card) -> Vec<Vec<[f64; 2]>> {
    if plan.attention_tiles().is_some() || plan.gradient_tiles().is_some() {
        return vec![];
    }
    let simulation = Simulation::new(plan, problem, card);
    let Simulation { profile, view, tiles, lists, .. } = &simulation;
    if tiles.count() == 0 {
        return vec![];
    }
    let setting = Setting::new(profile, view, tiles, simulation.misses, card);
    let rates = simulation.at_its_clock(&card.rates, &setting);
    timeline::spans(&rates, &setting, (tiles, lists), simulation.partial_bytes)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use bsr_codegen::KernelSpec;
    use bsr_runtime::Pattern;

    use super::*;
    use crate::model::predict;
    use crate::{Facts, Source, Workload};

    #[test]
    fn every_tile_is_computed_once_and_the_last_ends_with_the_launch() {
        for (text, pattern, tiles) in [
            ("bm = 512, bn = 128, bk = 112", "topk:16", 16 * 2 * 64),
            ("bm = 512, bn = 128, bk = 112, schedule = strided", "powerlaw:0.2", 16 * 2 * 64),
        ] {
            let spec: KernelSpec = text.parse().unwrap();
            let (m, n, k) = (8192, 8192, 8288);
            let facts = Facts::of(&spec);
            let structure = pattern.parse::<Pattern>().unwrap().structure(m, k, facts.block(), 0).unwrap();
            let workload = Workload { facts, m, n, k, source: Source::Pattern(pattern.to_owned()), seed: 0 };
            let problem = TuningProblem::new(workload, &structure);
            let plan = Plan::new(&spec).unwrap();
            let clusters = work_list(&plan, &problem, &Card::h200());
            assert_eq!(clusters.len(), 132, "{text}");
            assert_eq!(clusters.iter().map(Vec::len).sum::<usize>(), tiles, "{text}");
            let in_order = |list: &Vec<[f64; 2]>| list.windows(2).all(|pair| pair[0][1] <= pair[1][0] + 1e-9);
            assert!(clusters.iter().all(in_order), "{text}");
            let last = clusters.iter().flatten().map(|span| span[1]).fold(0.0, f64::max);
            let us = predict(&plan, &problem, &Card::h200()).us;
            // The model speeds up what is left when others have ended, and adds the launch.
            assert!((0.8..1.6).contains(&(last / us)), "{text}: {last} of {us} us");
        }
    }
}
