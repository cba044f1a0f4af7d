//! Products of two sparse factors: what each tile loads and multiplies, and when each block is read.
//!
//! A tile has one block of C, or several that share what they load. Its stages traverse the union of the k of its pairs. The
//! clusters' lists are those of the launch.

pub(super) mod tiles;
pub(super) mod traffic;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use bsr_runtime::bsr::Pairs;
use bsr_runtime::schedule::places_of_pairs;

use super::view::View;

/// Reads of blocks that are followed, of each factor.
const MEETINGS: usize = 1 << 15;

/// The pairs of a product, and what several kernels ask of them.
#[derive(Debug)]
pub(super) struct PairShape {
    pairs: Pairs,
    unions: Mutex<HashMap<(Sides, u32), Arc<Unions>>>,
}

/// Block rows and columns of C in a tile, and how many of the rows a consumer has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Sides {
    high: usize,
    wide: usize,
    of_consumer: usize,
}

/// Tiles of several blocks of C, in the order in which they are computed.
#[derive(Debug, Default)]
pub(super) struct Unions {
    tiles: Vec<Union>,
    /// When blocks of A and of B are read: some of them, evenly chosen.
    met: [Met; 2],
}

/// A tile, whole.
#[derive(Debug)]
struct Union {
    /// First row of C.
    row: usize,
    /// Pairs of blocks, blocks of K, blocks that are loaded of A and of B.
    pairs: u32,
    depths: u32,
    /// Blocks of K of which one consumer alone has a block.
    lone: u32,
    loaded: [u32; 2],
    /// Where this tile's part of either factor's reads ends.
    ends: [u32; 2],
}

/// The reads of chosen blocks of a factor.
#[derive(Debug, Default)]
struct Met {
    /// One of so many blocks is chosen, and how many are.
    stride: usize,
    chosen: usize,
    /// Which one, and at which part of the tile.
    at: Vec<(u32, f32)>,
}

impl PairShape {
    pub(super) fn new(pairs: Pairs) -> Self {
        Self { pairs, unions: Mutex::default() }
    }

    /// Rows of all stored blocks of B.
    pub(super) fn lines(&self, view: &View) -> usize {
        self.pairs.blocks()[1] * view.depth as usize
    }

    fn unions(&self, sides: Sides, clusters: u32) -> Arc<Unions> {
        let mut unions = self.unions.lock().unwrap_or_else(PoisonError::into_inner);
        let make = || Arc::new(Unions::new(&self.pairs, sides, clusters));
        Arc::clone(unions.entry((sides, clusters)).or_insert_with(make))
    }
}

impl Unions {
    fn new(pairs: &Pairs, sides: Sides, clusters: u32) -> Self {
        let Sides { high, wide, of_consumer } = sides;
        let all = pairs.count();
        let met = pairs.blocks().map(|stored| {
            let stride = all.div_ceil(MEETINGS).max(1);
            Met { stride, chosen: stored.div_ceil(stride), at: vec![] }
        });
        let mut unions = Self { tiles: vec![], met };
        // {k, which of the tile's rows or columns, number of the block} of both factors, and which pair it is of.
        let mut reads: [Vec<[u32; 3]>; 2] = [vec![], vec![]];
        let mut depths = vec![];
        for (row, column) in places_of_pairs(pairs, (high, wide), clusters) {
            let (mut members, mut count) = (None, 0_u32);
            reads.iter_mut().for_each(Vec::clear);
            depths.clear();
            for (i, j) in (0..high).flat_map(|i| (0..wide).map(move |j| (i, j))) {
                let Some(block) = pairs.number(row + i, column + j) else { continue };
                members = members.or(Some(pairs.place(block).0));
                for [depth, of_a, of_b] in pairs.of_block(block) {
                    reads[0].push([depth, i as u32, of_a]);
                    reads[1].push([depth, j as u32, of_b]);
                    depths.push(depth);
                    count += 1;
                }
            }
            let Some(row) = members else { continue };
            if high * wide > 1 {
                depths.sort_unstable();
                depths.dedup();
                for reads in &mut reads {
                    reads.sort_unstable();
                    reads.dedup();
                }
            }
            let lone = if high > 1 { lone(&reads[0], of_consumer) } else { 0 };
            unions.add(row, [count, lone], &depths, &reads);
        }
        unions
    }

    /// Which chosen blocks of a factor a tile reads, and where in its K.
    fn met_by(&self, union: usize, which: usize) -> &[(u32, f32)] {
        let end = |union: usize| self.tiles[union].ends[which] as usize;
        &self.met[which].at[union.checked_sub(1).map_or(0, end)..end(union)]
    }

    fn add(&mut self, row: usize, [pairs, lone]: [u32; 2], depths: &[u32], reads: &[Vec<[u32; 3]>; 2]) {
        let length = depths.len().max(1) as f32;
        for (met, reads) in self.met.iter_mut().zip(reads) {
            let (mut place, stride) = (0, met.stride as u32);
            for [depth, _, block] in reads {
                while depths[place] < *depth {
                    place += 1;
                }
                if block.is_multiple_of(stride) {
                    met.at.push((block / stride, (place as f32 + 0.5) / length));
                }
            }
        }
        let [a, b] = &self.met;
        self.tiles.push(Union {
            row,
            pairs,
            depths: depths.len() as u32,
            lone,
            loaded: [0, 1].map(|of| reads[of].len() as u32),
            ends: [a.at.len() as u32, b.at.len() as u32],
        });
    }
}

/// Blocks of K of which one consumer alone has a block of A, by {k, row in the tile, block} in order.
fn lone(reads: &[[u32; 3]], of_consumer: usize) -> u32 {
    let consumer = |read: &[u32; 3]| read[1] as usize / of_consumer.max(1);
    let same = reads.chunk_by(|x, y| x[0] == y[0]);
    same.filter(|rows| rows.first().map(consumer) == rows.last().map(consumer)).count() as u32
}

/// The tiles of a launch: every union, in as many slices of its rows as a block has.
#[derive(Clone, Debug, Default)]
pub(super) struct PairTiles {
    unions: Arc<Unions>,
    /// Slices of a block's rows.
    slices: usize,
    /// Of each tile its union, and which slice it is.
    of: Vec<(u32, u32)>,
    /// CTAs begin their tiles together: parts of tiles are in no waves.
    pub(super) in_waves: bool,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use bsr_codegen::{KernelSpec, Plan};

    use crate::model::{Card, predict, traffic};
    use crate::search::rank_correlation_of;
    use crate::{Facts, Source, TuningProblem, Workload};

    /// Blocks, a pattern, and what more a kernel's spec says, with its microseconds.
    type Product = (&'static str, &'static str, &'static [(&'static str, f64)]);

    /// Microseconds of kernels of 8192 x 8192 x 8192 on one H200 (`benches/LOG.md`, 88 and 96).
    const MEASURED: &[Product] = &[
        (
            "bm = 128, bn = 128, bk = 128",
            "random:0.5",
            &[
                ("op = dss", 503.0),
                ("op = dss, stages = 4", 510.0),
                ("op = dss, schedule = strided", 553.0),
                ("op = dss, pack = 2", 498.0),
                ("op = dss, pack = 2, stages = 3", 560.0),
                ("op = sss", 502.0),
                ("op = sss, pack = 2", 496.0),
            ],
        ),
        (
            "bm = 128, bn = 128, bk = 128",
            "random:0.25",
            &[
                ("op = dss", 135.0),
                ("op = dss, schedule = strided", 150.0),
                ("op = dss, pack = 2", 143.0),
                ("op = sss", 135.0),
                ("op = sss, stages = 4", 137.0),
            ],
        ),
        (
            "bm = 64, bn = 64, bk = 64",
            "random:0.25",
            &[
                ("op = dss", 262.0),
                ("op = dss, consumers = 1", 254.0),
                ("op = dss, schedule = strided", 280.0),
                ("op = dss, pack = 2", 222.0),
                ("op = dss, pack = 3", 215.0),
                ("op = dss, pack = 4", 224.0),
                ("op = dss, pack = 4, schedule = strided", 220.0),
                ("op = dss, pack = 4, stages = 3", 235.0),
                ("op = sss", 256.0),
                ("op = sss, pack = 2", 222.0),
                ("op = sss, pack = 3", 219.0),
            ],
        ),
        (
            "bm = 128, bn = 128, bk = 128, dtype = e4m3",
            "random:0.25",
            &[("op = sss", 73.7), ("op = sss, split = auto", 84.3)],
        ),
    ];

    fn problem(spec: &KernelSpec, words: &str) -> TuningProblem {
        let source = Source::Pattern(words.to_owned());
        let workload = Workload { facts: Facts::of(spec), m: 8192, n: 8192, k: 8192, source, seed: 0 };
        let structure = workload.structure().unwrap();
        TuningProblem::new(workload, &structure)
    }

    #[test]
    fn kernels_take_about_as_long_as_was_measured() {
        for (block, words, kernels) in MEASURED {
            let mut times = vec![];
            for (text, measured) in *kernels {
                let spec: KernelSpec = format!("{block}, {text}").parse().unwrap();
                let predicted = predict(&Plan::new(&spec).unwrap(), &problem(&spec, words), &Card::h200());
                let ratio = predicted.us / measured;
                let terms = predicted.terms.iter().map(|term| format!("{} {:.0}", term.what.as_str(), term.us));
                let terms = terms.collect::<Vec<_>>().join(", ");
                eprintln!("{ratio:.2} {:>5.0} {measured:>5.0}  {spec}  {terms}", predicted.us);
                assert!((0.9..1.15).contains(&ratio), "{spec}: {:.1} of {measured} us", predicted.us);
                times.push((predicted.us, *measured));
            }
            let best = times.iter().map(|time| time.1).fold(f64::INFINITY, f64::min);
            let taken = times.iter().min_by(|x, y| x.0.total_cmp(&y.0)).unwrap().1;
            assert!(taken < 1.02 * best, "{block}, {words}: {taken} us, and {best} are the best");
            // Of two kernels there is none.
            let correlation = rank_correlation_of(&times).unwrap_or(1.0);
            assert!(correlation > 0.85, "{block}, {words}: {correlation:.2}");
        }
    }

    /// What tiles load and multiply is what the work lists of a launch have.
    #[test]
    fn tiles_have_the_pairs_of_the_product() {
        for text in [
            "bm = 128, bn = 128, bk = 128, op = dss",
            "bm = 256, bn = 128, bk = 64, op = dss",
            "bm = 128, bn = 128, bk = 128, op = sss, pack = 2",
            "bm = 64, bn = 64, bk = 64, op = dss, pack = 4",
        ] {
            let spec: KernelSpec = text.parse().unwrap();
            let (plan, problem) = (Plan::new(&spec).unwrap(), problem(&spec, "random:0.25"));
            let found = traffic(&plan, &problem, None, &Card::h200());
            assert_eq!(found.issued_flops, problem.executed_flops() as f64, "{text}");
            let of_pair = |loaded: f64| loaded / found.flops * 2.0 * f64::from(spec.bm * spec.bn * spec.bk);
            let (of_a, of_b) = (f64::from(spec.bm * spec.bk) * 2.0, f64::from(spec.bk * spec.bn) * 2.0);
            // A block of each factor a pair, and of B for every slice; fewer where a tile has several blocks of C.
            let [most, least] = match (spec.pack, spec.bm / plan.cluster_tile().rows) {
                (None, slices) => [1.0, 0.999].map(|part| part * (of_a + of_b * f64::from(slices))),
                (Some(2), _) => [1.9, 1.85].map(|part| part * of_a),
                _ => [1.6, 1.5].map(|part| part * of_a),
            };
            let bytes = of_pair(found.l2_bytes);
            assert!((least..=most * 1.001).contains(&bytes), "{text}: {bytes} of {least} to {most}");
            assert!(found.hbm_read + found.hbm_written >= found.hbm_least, "{text}");
        }
    }
}
