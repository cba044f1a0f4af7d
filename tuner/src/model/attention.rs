//! How long an attention takes: a roofline of its own, of tensor cores, exponentials, L2 and device memory.
//!
//! A work tile is 128 queries of a head. Its steps take what the tensor cores need, and the exponentials of one consumer run
//! under the products of the other: of the two the longer counts. Consumers with blocks of their own do not take turns, and
//! a part of the shorter counts, too.

use bsr_codegen::{AttentionTiles, Plan};
use bsr_runtime::roofs::Traffic;

use super::{Card, Prediction, Term, What, both};
use crate::TuningProblem;
use crate::features::GROUP;
use crate::problem::Heads;

/// Exponentials of one SM in a clock.
const EXPONENTIALS: f64 = 16.0;
/// Instructions beside each exponential, in its own time: the maximum, the difference, the sum, the conversion.
const BESIDE: f64 = 0.5;
/// GHz under load of tensor cores.
const GHZ: f64 = 1.49;
/// What consumers without turns do not hide of the shorter of products and exponentials.
const EXPOSED: f64 = 0.6;
/// The dense library's rate in those of attention's products, whose operands stay in shared memory and registers.
const FASTER: f64 = 1.08;
/// Microseconds of a step's barriers, and of a tile's first load, last product and store.
const STEP_US: f64 = 0.06;
const TILE_US: f64 = 1.2;

/// How sharply the slowest of these alone decides.
const SHARPNESS: f64 = 6.0;

/// What an attention computes and loads.
struct Amounts {
    /// Pairs of a query and a key in stored blocks, of all heads.
    pairs: f64,
    /// Rows of K and of V that tiles load.
    loads: f64,
    /// Elements of Q, K and V, and of O.
    read: f64,
    written: f64,
}

impl Amounts {
    fn new(plan: &Plan, tiles: &AttentionTiles, problem: &TuningProblem) -> Self {
        let (features, workload, spec) = (&problem.features, &problem.workload, plan.spec());
        let Heads { batch, heads, key_heads } = workload.source.heads();
        let (bm, bk, rows) = (f64::from(spec.bm), f64::from(spec.bk), f64::from(tiles.rows));
        let (depth, columns) = (f64::from(spec.score_depth()), f64::from(tiles.columns));
        let pairs = features.nnzb as f64 * bm * bk * (batch * heads) as f64;
        // Neighbouring rows of blocks that share a tile load the keys once that both need.
        let of_two = 1.0 + (features.reuse - 1.0) / (GROUP - 1) as f64;
        let together = if tiles.uniform { 1.0 } else { of_two.clamp(1.0, rows / bm) };
        let [queries, keys] = [batch * heads * workload.m, batch * key_heads * workload.n].map(|rows| rows as f64);
        Self {
            pairs,
            loads: pairs / (bm.min(rows) * together),
            read: queries * depth + keys * (depth + columns),
            written: queries * columns,
        }
    }
}

pub(super) fn traffic(plan: &Plan, tiles: &AttentionTiles, problem: &TuningProblem) -> Traffic {
    let Amounts { pairs, loads, read, written } = Amounts::new(plan, tiles, problem);
    let (spec, bytes) = (plan.spec(), f64::from(plan.spec().a.bytes()));
    let both = f64::from(spec.score_depth()) + f64::from(tiles.columns);
    Traffic {
        dtype: spec.a,
        flops: problem.executed_flops() as f64,
        issued_flops: 2.0 * pairs * both,
        l2_bytes: loads * both * bytes,
        stages: loads / f64::from(tiles.step),
        hbm_least: (read + written) * bytes,
        hbm_read: read * bytes,
        hbm_written: written * bytes,
    }
}

pub(super) fn predict(plan: &Plan, tiles: &AttentionTiles, problem: &TuningProblem, card: &Card) -> Prediction {
    let (features, workload, spec) = (&problem.features, &problem.workload, plan.spec());
    let Amounts { pairs, loads, read, written } = Amounts::new(plan, tiles, problem);
    let Heads { batch, heads, .. } = workload.source.heads();
    let (depth, columns, rows) = (f64::from(spec.score_depth()), f64::from(tiles.columns), f64::from(tiles.rows));
    let bytes = f64::from(spec.a.bytes());
    let all = (batch * heads) as f64;
    let places = card.sms as f64;

    let tensor = 2.0 * pairs * (depth + columns) / (FASTER * card.dense_tflops * 1e6);
    let exponentials = pairs * (1.0 + BESIDE) / (EXPONENTIALS * GHZ * 1e3 * places);
    let l2 = loads * (depth + columns) * bytes / (card.l2_tbs * 1e6);
    let steps = loads / f64::from(tiles.step);
    let barriers = steps * STEP_US / places;
    let count = all * (workload.m as f64 / rows).ceil();
    let ends = count * TILE_US / places;
    let core = match tiles.uniform {
        true => both(tensor, exponentials, SHARPNESS),
        false => tensor.max(exponentials) + EXPOSED * tensor.min(exponentials),
    };
    let even = both(core, l2, SHARPNESS) + barriers + ends;
    // The longest tile of all, and whole tiles on every SM.
    let mean = features.nnzb as f64 / features.block_rows.max(1) as f64;
    let longest = if mean > 0.0 { features.longest_row as f64 / mean } else { 1.0 };
    let of_tile = even * places / count.max(1.0);
    let busiest = (even + 0.5 * of_tile.min(even)).max(of_tile * longest);
    let hbm = (read + written) * bytes / (card.hbm_tbs * 1e6);
    let terms = [
        (What::Tensor, tensor),
        (What::Exponentials, exponentials),
        (What::L2, l2),
        (What::Hbm, hbm),
        (What::Barriers, barriers),
        (What::Stores, ends),
        (What::Imbalance, busiest - even),
        (What::Launch, card.launch_us),
    ];
    let us = both(busiest, hbm, SHARPNESS) + card.launch_us;
    Prediction { us, terms: terms.map(|(what, us)| Term { what, us }).to_vec() }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use bsr_codegen::{KernelSpec, Plan};
    use bsr_runtime::Pattern;

    use super::super::{Prediction, predict};
    use super::*;
    use crate::{Facts, Source, Workload};

    fn predicted(spec: &str, queries: usize, heads: usize, pattern: &str) -> (Prediction, u64) {
        let spec: KernelSpec = spec.parse().unwrap();
        let plan = Plan::new(&spec).unwrap();
        let words: Pattern = pattern.parse().unwrap();
        let structure = words.structure(queries, queries, (spec.bm as usize, spec.bk as usize), 1).unwrap();
        let heads = Heads { batch: 1, heads, key_heads: heads };
        let source = Source::Mask { pattern: pattern.to_owned(), heads };
        let k = spec.score_depth() as usize;
        let workload = Workload { facts: Facts::of(&spec), m: queries, n: queries, k, source, seed: 1 };
        let problem = TuningProblem::new(workload, &structure);
        (predict(&plan, &problem, &Card::H200), problem.executed_flops())
    }

    /// The rates of the measured kernels at 16384 queries and 16 heads are met within a third (`benches/LOG.md`, 31).
    #[test]
    fn rates_are_those_that_were_measured() {
        for (columns, block, tflops) in [(128, 128, 685.0), (128, 64, 500.0), (64, 128, 443.0), (64, 64, 305.0)] {
            let spec = format!("op = attention, bm = {block}, bn = {columns}, bk = {block}, dtype = bf16");
            let (prediction, flops) = predicted(&spec, 16384, 16, "random:0.25");
            let rate = flops as f64 / prediction.us * 1e-6;
            assert!((rate / tflops).ln().abs() < 0.34, "{spec}: {rate:.0} TFLOP/s, not {tflops}");
        }
    }

    #[test]
    fn more_work_takes_longer_and_small_steps_do_too() {
        let us = |more: &str, queries, heads, pattern| {
            predicted(&format!("op = attention, bm = 128, bn = 128, bk = 128{more}"), queries, heads, pattern).0.us
        };
        let base = us("", 8192, 8, "random:0.25");
        assert!(us("", 8192, 16, "random:0.25") > 1.7 * base);
        assert!(us("", 8192, 8, "random:0.5") > 1.7 * base);
        assert!(us("", 16384, 8, "random:0.25") > 3.0 * base);
        assert!(us(", k_step = 32", 8192, 8, "random:0.25") > base);
        assert!(us(", d = 256", 8192, 8, "random:0.25") > 1.2 * base);
        let (prediction, _) = predicted("op = attention, bm = 64, bn = 64, bk = 64", 8192, 8, "random:0.1");
        assert!(prediction.us > prediction.term(What::Hbm) && prediction.term(What::Exponentials) > 0.0);
    }
}
