//! What L2 must fetch from memory, from when each piece of the operands is read.
//!
//! The lists of all clusters say when: a tile reads its blocks of the sparse operand, and goes through the panels of the dense one in
//! the order of K. L2 keeps a piece for some time after it was read; what is read later than that is fetched again. That
//! time is the one in which what was read fills L2, as Che, Tung and Wang have it of any cache that forgets what was read
//! longest ago (*Hierarchical Web Caching Systems*, 2002). Some pieces are followed, evenly chosen, for all of them.
//!
//! Of CTAs that ask for the same piece at the same time L2 reads it once for all. CTAs start together, so these are the more the shorter the
//! launch is, and the more tiles share the piece.
//!
//! Kernels tell L2 to let go of the sparse operand last and of the result first, so the sparse operand has its room before the dense
//! one, and the result has none.

use bsr_runtime::schedule::Place;

use super::assign::{Lists, Part};
use super::tiles::Tiles;

/// The part of L2's bytes for operands that the sparse one may have: such that bytes are about those that Nsight Compute counts
/// (`benches/LOG.md`, 50). L2 has two halves, each with its own copy of what SMs of both read.
const FIRST: f64 = 0.6;
/// CTAs do not keep the pace of their lists: times between reads are so many times longer or shorter than these say.
const VARY: f64 = 2.5;

/// How far CTAs are apart that begin together and have lists of the same pace, in stages: so many times the root of the time, as random
/// walks are. With it L2 is as fast as it was measured both for windows, where many CTAs ask for the same blocks, and for random rows.
const DRIFT: f64 = 3.0;

/// Columns of tiles whose panels are followed, and tiles of a column whose blocks are.
const COLUMNS: usize = 4;
const TILES: usize = 64;

/// Bytes of the sparse operand, which has so many, and of the dense one that come from memory, and the parts of their requests that
/// are answered together with others. Time is counted in stages, with one for the ends of a tile. L2 has room for `capacity` bytes.
pub(super) fn fetched(tiles: &Tiles, lists: &Lists, values: f64, capacity: f64) -> [[f64; 2]; 2] {
    let mut reads = Reads::new(tiles, values);
    let end = follow(tiles, lists, |of| reads.add(tiles, of));
    let pieces = [reads.sparse, reads.dense];
    let joined = [0, 1].map(|which| pieces[which].joined());
    [fetched_of(pieces, end, capacity), joined]
}

/// The same, of pieces whose times of reading are known.
pub(super) fn fetched_of(pieces: [Pieces; 2], end: f64, capacity: f64) -> [f64; 2] {
    let [sparse, dense] = pieces.map(|pieces| Gaps::new(pieces, end));
    let (of_sparse, taken) = sparse.fetched(FIRST * capacity, end);
    let (of_dense, _) = dense.fetched(capacity - taken, end);
    [of_sparse, of_dense]
}

/// A tile of a list, or a part of its K.
#[derive(Clone, Copy, Debug)]
pub(super) struct Followed {
    pub(super) place: Place,
    /// When it begins.
    pub(super) now: f64,
    /// Where in the K of the tile, and how much of it.
    from: f64,
    part: f64,
}

impl Followed {
    /// When that of a tile of so many stages is read which stands at this part of its K; none where it is not this part's.
    pub(super) fn when(&self, at: f32, stages: f64) -> Option<f64> {
        let after = f64::from(at) - self.from;
        (0.0..self.part).contains(&after).then_some(self.now + after * stages)
    }
}

/// Follows all lists. Says when the last one ends.
pub(super) fn follow(tiles: &Tiles, lists: &Lists, mut visit: impl FnMut(&Followed)) -> f64 {
    let mut list = |list: &mut dyn Iterator<Item = (Place, f64, f64)>| {
        list.fold(0.0, |now, (place, from, part)| {
            visit(&Followed { place, now, from, part });
            now + tiles.at(place).stages * part + 1.0
        })
    };
    let mut end = 0.0_f64;
    match lists {
        Lists::Whole(lists) => {
            for of in lists {
                end = end.max(list(&mut of.iter().map(|place| (*place, 0.0, 1.0))));
            }
        }
        Lists::Parts { of, .. } => {
            let part = |part: &Part| {
                let all = f64::from(tiles.at(part.place).units.max(1));
                (part.place, f64::from(part.first) / all, f64::from(part.units) / all)
            };
            for of in of {
                end = end.max(list(&mut of.iter().map(part)));
            }
        }
    }
    end
}

/// Pieces that are followed: when each is read, and the bytes that one stands for.
pub(super) struct Pieces {
    times: Vec<Vec<f32>>,
    bytes: f64,
}

impl Pieces {
    /// So many, which stand for all bytes of an operand.
    pub(super) fn new(count: usize, bytes: f64) -> Self {
        Self { times: vec![vec![]; count], bytes: bytes / count.max(1) as f64 }
    }

    pub(super) fn read(&mut self, piece: usize, when: f64) {
        self.times[piece].push(when as f32);
    }

    /// The part of the reads that L2 answers together with others of the same piece.
    fn joined(&self) -> f64 {
        let joined = |others: f64| others / (1.0 + others);
        let of_piece = |times: &Vec<f32>| near(times.clone()).into_iter().map(joined).sum::<f64>();
        let reads: usize = self.times.iter().map(Vec::len).sum();
        self.times.iter().map(of_piece).sum::<f64>() / reads.max(1) as f64
    }
}

/// How many others are likely to come at the same time as each of these reads of a piece.
fn near(mut times: Vec<f32>) -> Vec<f64> {
    times.sort_unstable_by(f32::total_cmp);
    let mut others = vec![0.0; times.len()];
    let mut add = |order: &mut dyn Iterator<Item = usize>| {
        let (mut sum, mut last) = (0.0, None);
        for at in order {
            sum = last.map_or(0.0, |last: usize| (sum + 1.0) * f64::from(-(times[at] - times[last]).abs()).exp());
            others[at] += sum;
            last = Some(at);
        }
    };
    add(&mut (0..times.len()));
    add(&mut (0..times.len()).rev());
    others.iter().zip(&times).map(|(others, time)| others / (1.0 + DRIFT * f64::from(*time).sqrt())).collect()
}

/// When operands are read.
struct Reads {
    sparse: Pieces,
    dense: Pieces,
    /// Of so many columns of tiles one is followed, and of so many tiles of a column.
    strides: [usize; 2],
}

impl Reads {
    fn new(tiles: &Tiles, values: f64) -> Self {
        let (columns, rows) = (tiles.columns, tiles.column.len());
        let strides = [columns.div_ceil(COLUMNS).max(1), rows.div_ceil(TILES).max(1)];
        let panels = tiles.panel * columns as f64 * tiles.column_lists.of as f64;
        Self {
            sparse: Pieces::new(rows.div_ceil(strides[1]), values),
            dense: Pieces::new(columns.div_ceil(strides[0]) * tiles.column_lists.chosen, panels),
            strides,
        }
    }

    /// What a tile of a list reads.
    fn add(&mut self, tiles: &Tiles, of: &Followed) {
        let (tile, row, column) = (tiles.at(of.place), of.place.row as usize, of.place.column as usize);
        if row.is_multiple_of(self.strides[1]) {
            self.sparse.read(row / self.strides[1], of.now);
        }
        if column.is_multiple_of(self.strides[0]) {
            let first = column / self.strides[0] * tiles.column_lists.chosen;
            for (which, at) in tiles.column_lists.of(tile.column_list) {
                if let Some(when) = of.when(*at, tile.stages) {
                    self.dense.read(first + *which as usize, when);
                }
            }
        }
    }
}

/// The part of the reads of what was last read so long ago that are fetched again, where L2 keeps what was read so long.
pub(super) fn missed(gap: f64, kept: f64) -> f64 {
    let (least, most) = (kept / VARY, kept * VARY);
    ((gap - least) / (most - least).max(1e-9)).clamp(0.0, 1.0)
}

/// After how long the pieces of an operand are read again.
struct Gaps {
    /// The time, and whether it ends with a read or with the launch; the shortest first.
    all: Vec<(f32, bool)>,
    /// Pieces that are read at all, and the bytes of each.
    read: usize,
    bytes: f64,
}

impl Gaps {
    fn new(pieces: Pieces, end: f64) -> Self {
        let Pieces { mut times, bytes } = pieces;
        times.retain(|times| !times.is_empty());
        let mut all = vec![];
        for times in &mut times {
            times.sort_unstable_by(f32::total_cmp);
            all.extend(times.windows(2).map(|pair| (pair[1] - pair[0], true)));
            all.extend(times.last().map(|last| ((end as f32 - last).max(0.0), false)));
        }
        all.sort_unstable_by(|x, y| x.0.total_cmp(&y.0));
        Self { all, read: times.len(), bytes }
    }

    /// Bytes that are fetched where so many are resident, and how many are on average.
    fn fetched(&self, room: f64, end: f64) -> (f64, f64) {
        // Held is what was read within the time that pieces are kept: it is made as long as there is room.
        let (mut longest, mut resident) = (0.0, 0.0);
        let mut shorter = 0;
        for (gap, _) in &self.all {
            let more = (f64::from(*gap) - longest) / end * self.bytes * (self.all.len() - shorter) as f64;
            if resident + more > room {
                resident = room;
                break;
            }
            (longest, resident, shorter) = (f64::from(*gap), resident + more, shorter + 1);
        }
        if shorter == self.all.len() {
            return (self.read as f64 * self.bytes, resident);
        }
        let again: f64 =
            self.all.iter().filter(|(_, is_read)| *is_read).map(|(gap, _)| missed(f64::from(*gap), longest)).sum();
        ((self.read as f64 + again) * self.bytes, resident)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use bsr_codegen::{KernelSpec, Plan};
    use bsr_runtime::Pattern;

    use crate::model::{Card, traffic};
    use crate::{Facts, Source, TuningProblem, Workload};

    #[test]
    fn reads_at_the_same_time_are_joined() {
        let joined = |times: &[f32]| super::Pieces { times: vec![times.to_vec()], bytes: 1.0 }.joined();
        assert!((joined(&[0.0; 4]) - 0.75).abs() < 1e-9);
        assert!(joined(&[0.0]) == 0.0 && joined(&[0.0, 50.0]) < 1e-9);
        let later = [[0.0; 4], [16.0; 4], [400.0; 4]].map(|times| joined(&times));
        assert!(later.is_sorted_by(|x, y| x > y) && joined(&[400.0; 96]) > 0.6, "{later:?}");
        let apart = [joined(&[9.0, 9.0]), joined(&[9.0, 10.0]), joined(&[9.0, 12.0])];
        assert!(apart.is_sorted_by(|x, y| x > y), "{apart:?}");
    }

    type Counted = ((usize, usize, usize), &'static str, u64, &'static [(&'static str, f64)]);

    /// Megabytes that were read of memory, as Nsight Compute counted them on one H200 (`benches/LOG.md`, 50).
    const COUNTED: &[Counted] = &[
        (
            (12288, 6144, 12288),
            "powerlaw:0.06",
            0,
            &[
                ("bm = 64, bn = 128, bk = 64, swap = off", 796.0),
                ("bm = 64, bn = 128, bk = 64, swap = off, cluster = 2", 595.0),
                ("bm = 64, bn = 128, bk = 64, swap = off, cluster = 4", 531.0),
                ("bm = 64, bn = 256, bk = 64, swap = off", 960.0),
                ("bm = 64, bn = 256, bk = 64, swap = off, cluster = 2", 903.0),
                ("bm = 64, bn = 256, bk = 64, swap = off, cluster = 4", 858.0),
                ("bm = 64, bn = 256, bk = 64, swap = off, pack = 2", 931.0),
                ("bm = 64, bn = 256, bk = 64, swap = off, pack = 2, cluster = 2", 936.0),
                ("bm = 64, bn = 192, bk = 64, swap = off, pack = 3, cluster = 2", 835.0),
                ("bm = 64, bn = 128, bk = 64, swap = off, pack = 3, cluster = 2", 677.0),
                ("bm = 64, bn = 192, bk = 64, swap = off, pack = 2, cluster = 2", 776.0),
            ],
        ),
        (
            (8192, 6144, 8192),
            "powerlaw:0.06",
            7,
            &[
                ("bm = 128, bn = 128, bk = 128", 204.0),
                ("bm = 128, bn = 128, bk = 128, cluster = 2", 198.0),
                ("bm = 128, bn = 128, bk = 128, cluster = 4", 188.0),
                ("bm = 128, bn = 256, bk = 128", 256.0),
                ("bm = 128, bn = 256, bk = 128, cluster = 2", 260.0),
                ("bm = 128, bn = 256, bk = 128, cluster = 4", 259.0),
                ("bm = 128, bn = 512, bk = 128, cluster = 2", 261.0),
            ],
        ),
        (
            (8192, 8192, 8192),
            "random:0.03",
            0,
            &[
                ("bm = 128, bn = 128, bk = 128", 125.0),
                ("bm = 128, bn = 128, bk = 128, cluster = 2", 124.0),
                ("bm = 128, bn = 256, bk = 128", 139.0),
                ("bm = 128, bn = 256, bk = 128, cluster = 2", 144.0),
            ],
        ),
        (
            (6144, 7168, 8192),
            "random:0.05",
            7,
            &[
                ("bm = 128, bn = 128, bk = 128, cluster = 2", 114.0),
                ("bm = 128, bn = 256, bk = 128", 119.0),
                ("bm = 128, bn = 256, bk = 128, cluster = 2", 120.0),
            ],
        ),
        ((8192, 8192, 8192), "random:0.25", 0, &[("bm = 64, bn = 512, bk = 64, cluster = 2", 764.0)]),
        ((8192, 8192, 8288), "topk:16", 0, &[("bm = 512, bn = 256, bk = 112", 363.0)]),
        ((4096, 4096, 4096), "random:0.125", 0, &[("bm = 64, bn = 256, bk = 64, cluster = 2", 38.0)]),
        ((4096, 4096, 4096), "random:0.25", 0, &[("bm = 64, bn = 64, bk = 64, mma = mma_sync", 42.0)]),
    ];

    #[test]
    fn bytes_from_memory_are_about_those_that_were_counted() {
        let mut errors: Vec<f64> = vec![];
        for ((m, n, k), words, seed, kernels) in COUNTED.iter().copied() {
            for (text, counted) in kernels {
                let spec: KernelSpec = text.parse().unwrap();
                let facts = Facts::of(&spec);
                let structure = words.parse::<Pattern>().unwrap().structure(m, k, facts.block(), seed).unwrap();
                let workload = Workload { facts, m, n, k, source: Source::Pattern(words.to_owned()), seed };
                let problem = TuningProblem::new(workload, &structure);
                let found = traffic(&Plan::new(&spec).unwrap(), &problem, Some(&structure), &Card::h200());
                let read = found.hbm_read / 1e6;
                eprintln!("{:>6.2} {read:>6.0} {counted:>6.0}  {words} {text}", read / counted);
                assert!((0.7..1.33).contains(&(read / counted)), "{text}: {read:.0} of {counted} MB");
                errors.push((read / counted).ln());
            }
        }
        let mean = errors.iter().map(|error| error.abs()).sum::<f64>() / errors.len() as f64;
        assert!(mean < 0.08, "{mean:.3}");
    }
}
