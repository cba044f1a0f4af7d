//! How long a product takes, predicted from what must be computed and moved.
//!
//! The time is the longest of four, and a launch:
//!
//! - **tensor**: operations on stored blocks over what the tensor cores do in blocks of this height
//!   ([`Card::rates`], measured on our own kernels);
//! - **L2**: bytes from L2 to shared memory. Every stored block reads its `bk` rows of B once for each CTA tile of at most
//!   [`TILE_ROWS`] rows, so a block row of twice the height moves B half as often; and its own values once for each
//!   [`TILE_COLS`] columns of C;
//! - **HBM**: what must move once with cold caches, as [`Work::compulsory_bytes`] counts it;
//! - **last tile**: the tiles of one SM after the other, none shorter than the longest block row. This is what small and
//!   skewed problems wait for.
//!
//! The model knows nothing of the families of kernels, of schedules or of clocks under load. Against the README's table of
//! measurements (f16, `mma = wgmma`) it is off by -12 to +6 %; a test holds it to 15 %. For problems
//! of a few microseconds it is a guess.

use bsr_codegen::{Op, Switch};
use serde::Serialize;

use crate::bench::Work;
use crate::{Dtype, Structure};

/// Rows of C that one CTA tile has at most.
pub const TILE_ROWS: usize = 256;
/// Columns of C that one CTA tile has, where C has as many.
pub const TILE_COLS: usize = 256;

/// What a GPU does in a second, as measured.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Card {
    /// Its name.
    pub name: &'static str,
    /// Streaming multiprocessors.
    pub sms: usize,
    /// TFLOP/s of the dense library on large products under load, in f16.
    pub dense_tflops: f64,
    /// TB/s from L2 to shared memory, in bulk copies of what L2 holds.
    pub l2_tbs: f64,
    /// TB/s of device memory, in a copy.
    pub hbm_tbs: f64,
    /// Microseconds that a launch takes before and after its work.
    pub launch_us: f64,
    /// TFLOP/s of our kernels on stored blocks by the height of a block, ascending. Between two heights the rate is
    /// interpolated over the logarithm of the height, beyond the last it stays, and below the first it falls with the
    /// height, as the reuse of B does.
    pub rates: &'static [(usize, f64)],
}

impl Card {
    /// NVIDIA H200: 640 TFLOP/s is what cuBLASLt does on 8192^3 under load (`benches/LOG.md`), the rates are those of
    /// 16 x 16, 32 x 32, 64 x 64 and 128 x 128 blocks at 8192^3: the first two with swap-AB.
    pub const H200: Self = Self {
        name: "NVIDIA H200",
        sms: 132,
        dense_tflops: 640.0,
        l2_tbs: 9.1,
        hbm_tbs: 4.3,
        launch_us: 5.0,
        rates: &[(16, 157.0), (32, 294.0), (64, 480.0), (128, 640.0)],
    };

    /// TFLOP/s in blocks of this height.
    pub fn rate(&self, height: usize) -> f64 {
        let height = height.max(1) as f64;
        let above = self.rates.iter().position(|&(known, _)| known as f64 >= height);
        match (above, self.rates) {
            (Some(0), &[(known, rate), ..]) => rate * height / known as f64,
            (Some(at), rates) => {
                let ((low, slow), (high, fast)) = (rates[at - 1], rates[at]);
                let part = (height / low as f64).ln() / (high as f64 / low as f64).ln();
                slow + (fast - slow) * part
            }
            (None, rates) => rates.last().map_or(self.dense_tflops, |&(_, rate)| rate),
        }
    }

    /// The product of a matrix with these blocks and an `n`-column B, in f16.
    pub fn sparse(&self, structure: &Structure, n: usize) -> Prediction {
        let (bm, bk) = structure.block();
        let work = Work {
            op: Op::Dsd,
            transpose: Switch::Off,
            m: structure.rows(),
            n,
            k: structure.cols(),
            block: (bm, bk),
            nnzb: structure.nnzb(),
            a: Dtype::F16,
            b: Dtype::F16,
            out: Dtype::F16,
        };
        let longest = structure.row_lengths().max().unwrap_or(0);
        self.predict(&work, longest * bk, self.rate(bm))
    }

    /// The dense product of the same shape, by the dense library, in f16.
    pub fn dense(&self, m: usize, n: usize, k: usize) -> Prediction {
        let block = (m.clamp(1, 128), k.max(1));
        let nnzb = m.div_ceil(block.0);
        let (a, b, out) = (Dtype::F16, Dtype::F16, Dtype::F16);
        self.predict(
            &Work { op: Op::Dsd, transpose: Switch::Off, m, n, k, block, nnzb, a, b, out },
            k,
            self.dense_tflops,
        )
    }

    /// The density of blocks up to which a product of this shape is predicted to take no longer than the dense one, if
    /// all block rows are about equally long: a fraction of all blocks.
    pub fn break_even(&self, (m, n, k): (usize, usize, usize), (bm, bk): (usize, usize)) -> f64 {
        let (block_rows, block_cols) = (m.div_ceil(bm.max(1)), k.div_ceil(bk.max(1)));
        let (all, dense) = (block_rows * block_cols, self.dense(m, n, k).us);
        if all == 0 {
            return 1.0;
        }
        let (a, b, out) = (Dtype::F16, Dtype::F16, Dtype::F16);
        let us = |nnzb: usize| {
            let work = Work { op: Op::Dsd, transpose: Switch::Off, m, n, k, block: (bm, bk), nnzb, a, b, out };
            self.predict(&work, nnzb.div_ceil(block_rows) * bk, self.rate(bm)).us
        };
        // The time grows with the blocks: the largest number that is fast enough lies in low..high.
        let (mut low, mut high) = (0, all + 1);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if us(middle) <= dense { low = middle } else { high = middle }
        }
        low as f64 / all as f64
    }

    /// The time of `work` whose longest row sums `longest` products, at `rate` TFLOP/s.
    fn predict(&self, work: &Work, longest: usize, rate: f64) -> Prediction {
        let ((bm, bk), size) = (work.block, 2.0);
        let tile_cols = work.n.clamp(1, TILE_COLS);
        let stored = (work.nnzb * bm) as f64 * bk as f64;
        let tile_rows = bm.min(TILE_ROWS);
        let of_b = stored / tile_rows as f64 * work.n as f64 * size;
        let of_a = stored * work.n.div_ceil(tile_cols) as f64 * size;

        let per_sm = rate / self.sms as f64;
        let tiles = work.m.div_ceil(tile_rows) * work.n.div_ceil(tile_cols);
        let tile = |products: f64| 2.0 * tile_rows as f64 * tile_cols as f64 * products / (per_sm * 1e6);
        // Whole rounds of average tiles where there are few, and no less than the longest.
        let average = stored / (work.m.div_ceil(tile_rows) * tile_rows).max(1) as f64;
        let rounds = if tiles < 4 * self.sms { tiles.div_ceil(self.sms) } else { 0 };

        let times = [
            (Bound::Tensor, work.executed_flops() as f64 / (rate * 1e6)),
            (Bound::L2, (of_a + of_b) / (self.l2_tbs * 1e6)),
            (Bound::Hbm, work.compulsory_bytes() as f64 / (self.hbm_tbs * 1e6)),
            (Bound::LastTile, (rounds as f64 * tile(average)).max(tile(longest as f64))),
        ];
        let (bound, us) = times.into_iter().max_by(|x, y| x.1.total_cmp(&y.1)).unwrap_or((Bound::Tensor, 0.0));
        Prediction { us: us + self.launch_us, bound }
    }
}

/// A predicted time, and what it is spent on.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Prediction {
    /// Microseconds of one launch from cold caches.
    pub us: f64,
    /// What takes longest.
    pub bound: Bound,
}

/// What limits a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// The tensor cores, at the rate that blocks of this height allow.
    Tensor,
    /// Bytes from L2 to shared memory.
    L2,
    /// Bytes from device memory.
    Hbm,
    /// The SM with the longest row, or the last round of tiles.
    LastTile,
}

impl std::fmt::Display for Bound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Tensor => "tensor",
            Self::L2 => "L2",
            Self::Hbm => "HBM",
            Self::LastTile => "last tile",
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::Pattern;

    fn predicted(pattern: &str, (m, n, k): (usize, usize, usize), block: (usize, usize)) -> f64 {
        let structure = pattern.parse::<Pattern>().unwrap().structure(m, k, block, 0).unwrap();
        Card::H200.sparse(&structure, n).us
    }

    #[test]
    fn measured_times_are_met() {
        // benches/LOG.md, 13: microseconds of bsr bench on one H200.
        let cube = (8192, 8192, 8192);
        for (pattern, shape, block, measured) in [
            ("topk:16", (8192, 8192, 8288), (512, 112), 393.6),
            ("random:0.5", cube, (128, 128), 849.8),
            ("random:0.25", cube, (128, 128), 428.0),
            ("random:0.125", cube, (128, 128), 224.0),
            ("random:0.25", cube, (64, 64), 563.2),
            ("topk:16", cube, (128, 32), 127.8),
            ("random:0.125", (4096, 4096, 4096), (64, 64), 43.9),
        ] {
            let ratio = predicted(pattern, shape, block) / measured;
            eprintln!("{pattern} {block:?}: {ratio:.3}");
            assert!((ratio - 1.0).abs() < 0.15, "{pattern} {shape:?} {block:?}: {ratio:.3} of measured");
        }
    }

    #[test]
    fn rates_are_those_measured_and_between() {
        let rate = |height| Card::H200.rate(height);
        for (height, expected) in [(8, 78.5), (16, 157.0), (32, 294.0), (64, 480.0), (128, 640.0), (512, 640.0)] {
            assert!((rate(height) - expected).abs() < 1e-9, "{height}: {}", rate(height));
        }
        let heights: Vec<f64> = (1..600).map(rate).collect();
        assert!(heights.is_sorted() && heights[0] > 0.0);
        assert!((rate(96) - 573.6).abs() < 0.1, "{}", rate(96));
    }

    #[test]
    fn higher_blocks_read_b_less_often() {
        let us = |block| predicted("random:0.1", (8192, 8192, 8192), block);
        assert!(us((16, 64)) > 1.7 * us((32, 64)) && us((32, 64)) > 1.7 * us((64, 64)) * 0.95);
    }

    #[test]
    fn nothing_and_little_take_a_launch_and_what_they_must() {
        let empty = Structure::empty(4096, 4096, (64, 64)).unwrap();
        let nothing = Card::H200.sparse(&empty, 4096);
        // C is written all the same: 33.5 MB.
        assert_eq!(nothing.bound, Bound::Hbm);
        assert!((nothing.us - (5.0 + 4096.0 * 4096.0 * 2.0 / 4.3e6)).abs() < 0.1, "{nothing:?}");
        let one = Card::H200.dense(16, 16, 16);
        assert!(one.us >= 5.0 && one.us < 6.0, "{one:?}");
        // One full row of blocks among empty ones: a single SM works on each of its tiles.
        let row = Structure::new(8192, 8192, (128, 128), [vec![0], vec![64; 64]].concat(), (0..64).collect()).unwrap();
        assert_eq!(Card::H200.sparse(&row, 256).bound, Bound::LastTile);
        let none = Card::H200.sparse(&Structure::empty(0, 0, (4, 4)).unwrap(), 0).us;
        assert!((none - 5.0).abs() < 1e-5, "{none}");
    }

    #[test]
    fn break_even_is_where_the_two_times_meet() {
        let shape = (8192, 8192, 8192);
        for (block, low, high) in [((128, 128), 0.9, 1.0), ((64, 64), 0.70, 0.76), ((16, 16), 0.18, 0.22)] {
            let density = Card::H200.break_even(shape, block);
            assert!((low..=high).contains(&density), "{block:?}: {density}");
            let below = predicted(&format!("random:{}", density * 0.97), shape, block);
            let above = predicted(&format!("random:{}", (density * 1.03).min(1.0)), shape, block);
            let dense = Card::H200.dense(8192, 8192, 8192).us;
            assert!(
                below < dense * 1.01 && (above > dense * 0.99 || density > 0.97),
                "{block:?}: {below} {dense} {above}"
            );
        }
        assert_eq!(Card::H200.break_even((0, 8, 8), (4, 4)), 1.0);
    }

    #[test]
    fn the_dense_library_is_met_at_its_rate() {
        // 8192 x 8192 x 8192 at 640 TFLOP/s and a launch.
        let us = Card::H200.dense(8192, 8192, 8192).us;
        assert!((us - (2.0 * 8192f64.powi(3) / 640e6 + 5.0)).abs() < 1.0, "{us}");
    }
}
