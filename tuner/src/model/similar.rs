//! A pattern with the features of one that is not at hand.

use bsr_runtime::Structure;
use bsr_runtime::features::{Features, GROUP};
use bsr_runtime::read::check_memory;

/// Row lengths whose longest is at most so many standard deviations beyond the mean are those of random patterns; of others few
/// rows are long.
const EVEN: f64 = 4.0;

/// Blocks of a pattern that is drawn: what drawing takes grows with them, and these are seconds.
const MOST_BLOCKS: usize = 1 << 26;
/// Places for blocks up to which the columns of neighbouring rows are drawn from a pool of any size. In larger patterns a pool that
/// is so many times as large as what is drawn from it says nothing, and takes long.
const MOST_PLACES: usize = 1 << 32;
const LARGE_POOL: usize = 4;

/// A pattern with as many blocks, in rows whose lengths have the same mean, spread and maximum, and with as much reuse of columns
/// among neighbours; every seed of a random pattern has them, too. `None` of one that is too large to be drawn.
pub(super) fn structure(features: &Features, (rows, cols): (usize, usize), block: (usize, usize)) -> Option<Structure> {
    let Features { block_rows, block_cols, nnzb, .. } = *features;
    let bytes = [
        ("block rows", 24 * block_rows as u64),
        ("block columns", 24 * block_cols as u64),
        ("blocks", 16 * nnzb as u64),
    ];
    if nnzb > MOST_BLOCKS || check_memory(&bytes).is_err() {
        return None;
    }
    let lengths = lengths(features);
    let mut random = Random::new(0x9e37_79b9_7f4a_7c15);
    let block_cols = cols.div_ceil(block.1.max(1)).max(1);
    let (mut row_ptr, mut col_idx) = (vec![0_i64], vec![]);
    for rows in lengths.chunks(GROUP) {
        let stored: usize = rows.iter().sum();
        let longest = rows.iter().copied().max().unwrap_or(0);
        let distinct = stored as f64 / features.reuse.max(1.0);
        let pool = pool(rows, distinct, longest.max(1), block_cols.max(longest));
        let is_any = block_rows.saturating_mul(block_cols) > MOST_PLACES && pool > LARGE_POOL * stored;
        let pool = if is_any { vec![] } else { random.some(block_cols, pool) };
        for length in rows {
            let mut columns: Vec<i32> = match is_any {
                true => random.some(block_cols, *length).into_iter().map(|column| column as i32).collect(),
                false => random.some(pool.len(), *length).into_iter().map(|at| pool[at] as i32).collect(),
            };
            columns.sort_unstable();
            col_idx.extend(columns);
            row_ptr.push(col_idx.len() as i64);
        }
    }
    Structure::new(rows, cols, block, row_ptr, col_idx).or_else(|_| Structure::empty(rows, cols, block)).ok()
}

/// Columns of which rows of these lengths, drawn at random, have so many distinct ones among them.
fn pool(lengths: &[usize], distinct: f64, least: usize, most: usize) -> usize {
    let met = |pool: usize| {
        let free: f64 = lengths.iter().map(|length| 1.0 - (*length as f64 / pool as f64).min(1.0)).product();
        pool as f64 * (1.0 - free)
    };
    let (mut low, mut high) = (least, most.max(least));
    while low < high {
        let middle = low.midpoint(high);
        if met(middle) < distinct { low = middle + 1 } else { high = middle }
    }
    low
}

/// The lengths of all block rows.
fn lengths(features: &Features) -> Vec<usize> {
    let rows = features.block_rows;
    let mean = features.nnzb as f64 / rows.max(1) as f64;
    let longest = (features.longest_row as f64).min(features.block_cols as f64).max(mean);
    let deviation = mean * features.row_spread;
    // Quantiles: of a normal distribution, or of a power of the rank, whose exponent makes the mean.
    let exponent = if mean > 0.0 && longest > mean { longest / mean - 1.0 } else { 0.0 };
    let quantile = |q: f64| {
        if longest <= mean + EVEN * deviation && features.row_spread < 1.0 {
            mean + deviation * normal(q)
        } else {
            longest * q.powf(exponent)
        }
    };
    let mut lengths: Vec<usize> =
        (0..rows).map(|row| quantile((row as f64 + 0.5) / rows as f64).round().clamp(0.0, longest) as usize).collect();
    level(&mut lengths, features.nnzb, longest as usize);
    let mut random = Random::new(0x2545_f491_4f6c_dd1d);
    for at in (1..rows).rev() {
        lengths.swap(at, random.below(at + 1));
    }
    lengths
}

/// Adds blocks, or takes some away, one a row, until there are as many as there should be.
fn level(lengths: &mut [usize], wanted: usize, longest: usize) {
    let mut stored: usize = lengths.iter().sum();
    let mut moved = true;
    while stored != wanted && moved {
        moved = false;
        for length in lengths.iter_mut().rev() {
            if stored < wanted && *length < longest {
                (*length, stored, moved) = (*length + 1, stored + 1, true);
            } else if stored > wanted && *length > 0 {
                (*length, stored, moved) = (*length - 1, stored - 1, true);
            }
        }
    }
}

/// The quantile of the normal distribution, by way of the logistic one.
fn normal(q: f64) -> f64 {
    (q / (1.0 - q)).ln() / 1.702
}

/// Numbers that look random and are the same in every run: xorshift.
struct Random {
    state: u64,
    /// Which numbers have been drawn; none between two draws.
    taken: Vec<bool>,
}

impl Random {
    fn new(seed: u64) -> Self {
        Self { state: seed, taken: vec![] }
    }

    fn below(&mut self, limit: usize) -> usize {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        ((u128::from(self.state) * limit.max(1) as u128) >> 64) as usize
    }

    /// `count` different numbers below `limit`, of which there are as many (Floyd's sampling).
    fn some(&mut self, limit: usize, count: usize) -> Vec<usize> {
        let count = count.min(limit);
        self.taken.resize(limit.max(self.taken.len()), false);
        let mut chosen = Vec::with_capacity(count);
        for last in limit - count..limit {
            let drawn = self.below(last + 1);
            let number = if self.taken[drawn] { last } else { drawn };
            self.taken[number] = true;
            chosen.push(number);
        }
        chosen.iter().for_each(|number| self.taken[*number] = false);
        chosen
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use bsr_runtime::Pattern;

    use super::*;

    /// One with these features, of the sides and the block of another.
    fn like(features: &Features, other: &Structure) -> Structure {
        super::structure(features, (other.rows(), other.cols()), other.block()).unwrap()
    }

    #[test]
    fn a_pattern_that_is_not_at_hand_has_one_with_its_features() {
        for words in ["random:0.25", "random:0.03", "powerlaw:0.06", "window:0.1", "topk:16", "random:0.0"] {
            let pattern: Pattern = words.parse().unwrap();
            let structure = pattern.structure(8192, 8192, (64, 64), 3).unwrap();
            let drawn = like(&Features::of(&structure), &structure);
            let [was, is] = [&structure, &drawn].map(Features::of);
            assert_eq!((is.nnzb, is.block_rows, is.block_cols), (was.nnzb, was.block_rows, was.block_cols), "{words}");
            let close = |x: f64, y: f64| (x - y).abs() <= 0.35 * y.abs().max(0.3);
            assert!(close(is.row_spread, was.row_spread), "{words}: {is:?} {was:?}");
            assert!(close(is.reuse, was.reuse), "{words}: {is:?} {was:?}");
            assert!(close(is.longest_row as f64, was.longest_row as f64), "{words}: {is:?} {was:?}");
        }
    }

    #[test]
    fn a_matrix_with_many_places_and_few_blocks_has_a_pattern() {
        let pattern: Pattern = "topk:9".parse().unwrap();
        let structure = pattern.structure(150_000, 150_000, (1, 1), 3).unwrap();
        let drawn = like(&Features::of(&structure), &structure);
        assert_eq!((drawn.block_rows(), drawn.nnzb()), (150_000, 9 * 150_000));
        let mut features = Features::of(&structure);
        features.nnzb = MOST_BLOCKS + 1;
        assert_eq!(super::structure(&features, (150_000, 150_000), (1, 1)), None);
    }

    #[test]
    fn features_that_contradict_each_other_still_make_a_pattern() {
        let pattern: Pattern = "random:0.5".parse().unwrap();
        let structure = pattern.structure(512, 512, (64, 64), 0).unwrap();
        let mut features = Features::of(&structure);
        for (longest, spread, reuse) in [(0, 9.0, 0.0), (1000, 0.1, 100.0), (3, f64::NAN, f64::INFINITY)] {
            features.longest_row = longest;
            (features.row_spread, features.reuse) = (spread, reuse);
            let drawn = like(&features, &structure);
            assert_eq!((drawn.block_rows(), drawn.block_cols()), (8, 8));
        }
    }
}
