//! What a launch computes and moves: the counts under a prediction, for whoever holds a measured time against a card's roofs.

use std::sync::Arc;

use bsr_codegen::Plan;
use bsr_runtime::Structure;
use bsr_runtime::roofs::Traffic;

use super::shape::Shape;
use super::{Card, Simulation, attention};
use crate::{TuningProblem, operation};

/// The traffic of one launch. `structure` is the stored matrix where it is at hand; otherwise the pattern is drawn again, or
/// one with the same features.
pub fn traffic(plan: &Plan, problem: &TuningProblem, structure: Option<&Structure>, card: &Card) -> Traffic {
    if let Some(traffic) = attention::traffic(plan, problem) {
        return traffic;
    }
    let shape = match structure.filter(|_| !operation::of(plan.spec().op).has_second_factor()) {
        Some(structure) => Arc::new(Shape::new(Some(structure.clone()))),
        None => Shape::of(problem),
    };
    let traffic = Simulation::of_shape(plan, problem, card, shape).traffic(problem);
    Traffic { tf32: plan.spec().tf32.is_on(), ..traffic }
}

impl Simulation {
    fn traffic(&self, problem: &TuningProblem) -> Traffic {
        let Self { profile, view, tiles, lists, misses, .. } = self;
        let ctas = tiles.columns as f64 * f64::from(profile.cluster.max(1));
        let sum = |of: &dyn Fn(&super::tile::Tile) -> f64| tiles.column.iter().map(of).sum::<f64>() * ctas;
        let result = tiles.count() as f64 * f64::from(profile.cluster.max(1)) * tiles.out * tiles.needed;
        let written = result + f64::from(lists.places()) * self.partial_bytes;
        Traffic {
            dtype: self.dtype,
            tf32: false,
            flops: problem.executed_flops() as f64,
            issued_flops: sum(&|tile| tile.flops),
            l2_bytes: sum(&|tile| tile.sparse + tile.dense) * tiles.needed,
            stages: if profile.stages > 1 { sum(&|tile| tile.stages) * tiles.needed } else { 0.0 },
            hbm_least: view.compulsory_bytes(),
            hbm_read: (misses.bytes.max(view.compulsory_bytes()) - written).max(0.0),
            hbm_written: written,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use bsr_codegen::KernelSpec;
    use bsr_runtime::Pattern;

    use super::*;
    use crate::problem::Heads;
    use crate::{Facts, Source, Workload};

    fn of(spec: &str, (m, n, k): (usize, usize, usize), pattern: &str) -> Traffic {
        let spec: KernelSpec = spec.parse().unwrap();
        let plan = Plan::new(&spec).unwrap();
        let facts = Facts::of(&spec);
        let structure = pattern.parse::<Pattern>().unwrap().structure(m, k, facts.block(), 0).unwrap();
        let workload = Workload { facts, m, n, k, source: Source::Pattern(pattern.to_owned()), seed: 0 };
        let problem = TuningProblem::new(workload, &structure);
        let known = traffic(&plan, &problem, Some(&structure), &Card::h200());
        assert_eq!(known, traffic(&plan, &problem, None, &Card::h200()), "the pattern is drawn again as it was");
        known
    }

    #[test]
    fn the_flagships_counts_can_be_checked_by_hand() {
        let found = of("bm = 512, bn = 128, bk = 112", (8192, 8192, 8288), "topk:16");
        // 16 rows of blocks x 2 slices of 256 rows x 64 columns of tiles, 16 blocks of 2 stages each.
        let tiles = 16.0 * 2.0 * 64.0;
        assert_eq!(found.flops, 2.0 * 256.0 * 512.0 * 112.0 * 8192.0);
        assert_eq!(found.issued_flops, found.flops);
        assert_eq!(found.stages, tiles * 16.0 * 2.0);
        assert_eq!(found.l2_bytes, tiles * 16.0 * 112.0 * (256.0 + 128.0) * 2.0);
        assert_eq!(found.hbm_written, 8192.0 * 8192.0 * 2.0);
        assert!(found.hbm_read + found.hbm_written >= found.hbm_least);
    }

    #[test]
    fn what_a_cluster_shares_counts_once() {
        let shape = (8192, 8192, 8192);
        let alone = of("bm = 128, bn = 256, bk = 128", shape, "random:0.25");
        let two = of("bm = 128, bn = 256, bk = 128, cluster = 2", shape, "random:0.25");
        // Of 128 + 256 rows a stage, the 128 of A are loaded once for two CTAs.
        assert!((two.l2_bytes / alone.l2_bytes - 320.0 / 384.0).abs() < 1e-9, "{two:?}\n{alone:?}");
        assert_eq!(two.issued_flops, alone.issued_flops);
    }

    #[test]
    fn padding_is_issued_and_not_executed() {
        // A tile of 128 columns for 100 of them.
        let found = of("bm = 64, bn = 128, bk = 64", (1024, 100, 1024), "random:0.5");
        assert!((found.issued_flops / found.flops - 1.28).abs() < 1e-9, "{found:?}");
    }

    fn of_heads(op: &str) -> (TuningProblem, Traffic) {
        let spec: KernelSpec = format!("op = {op}, bm = 128, bn = 128, bk = 128, dtype = bf16").parse().unwrap();
        let plan = Plan::new(&spec).unwrap();
        let pattern = "random:0.25";
        let structure = pattern.parse::<Pattern>().unwrap().structure(8192, 8192, (128, 128), 0).unwrap();
        let source = Source::Mask { pattern: pattern.to_owned(), heads: Heads { batch: 1, heads: 16, key_heads: 4 } };
        let workload = Workload { facts: Facts::of(&spec), m: 8192, n: 8192, k: 128, source, seed: 0 };
        let problem = TuningProblem::new(workload, &structure);
        let found = traffic(&plan, &problem, None, &Card::h200());
        assert_eq!([found.flops, found.issued_flops], [problem.executed_flops() as f64; 2]);
        (problem, found)
    }

    #[test]
    fn an_attention_has_two_products() {
        let (_, found) = of_heads("attention");
        let [rows, keys] = [16.0 * 8192.0 * 128.0 * 2.0, 4.0 * 8192.0 * 256.0 * 2.0];
        assert_eq!((found.hbm_read, found.hbm_written), (rows + keys, rows));
    }

    #[test]
    fn the_gradient_of_an_attention_has_three_products_and_four() {
        let [rows, keys] = [16.0, 4.0].map(|heads| heads * 8192.0 * 128.0 * 2.0);
        let (problem, dq) = of_heads("attention_dq");
        let of_product = 2 * problem.features.nnzb as u64 * 128 * 128 * 128 * 16;
        assert_eq!(problem.executed_flops(), 3 * of_product);
        // Q, dO and O, K and V; dQ.
        assert_eq!((dq.hbm_read, dq.hbm_written), (3.0 * rows + 2.0 * keys, rows));
        let (problem, dkv) = of_heads("attention_dkv");
        assert_eq!(problem.executed_flops(), 4 * of_product);
        assert_eq!((dkv.hbm_read, dkv.hbm_written), (2.0 * rows + 2.0 * keys, 2.0 * keys));
    }
}
