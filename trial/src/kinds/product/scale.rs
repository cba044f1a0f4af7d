//! What of a plan the problems of a check are sized by.

use bsr_codegen::epilogue::Reduction;
use bsr_codegen::{KernelSpec, Operand, Plan, SplitK, Unit};
use bsr_runtime::extents::sparse_operand;

use super::{EFFORT, Kind};

/// Block columns that a producer reads at once.
pub(super) const INDEX_BATCH: usize = 32;
/// Lines that a far operand has at least: offsets in bytes, and in elements of four, overflow 32 bits long before the last.
pub(super) const FAR_LINES: usize = 33;
/// Multiplications and additions that take as long as writing an element of C, as applying an epilogue to it, and as passing it on
/// to the cluster that adds the parts of its sum.
const STORE: u64 = 200;
const FUSED: u64 = 400;
const PASSED_ON: u64 = 2000;

/// What of a plan the problems are sized by.
pub(super) struct Scale {
    /// Rows and columns of a block as the kernel reads it.
    pub(super) block: (usize, usize),
    /// Columns of a cluster's tile.
    pub(super) tile: usize,
    /// Tiles that cover the rows of a block.
    pub(super) slices: usize,
    /// Blocks that fill the ring.
    pub(super) ring: usize,
    /// Blocks that a stage has.
    pub(super) gathered: usize,
    /// Block rows that share a tile.
    pub(super) pack: usize,
    /// Parts of every block row that clusters share.
    pub(super) parts: usize,
    /// Elements of K in a stage, and in all of them.
    pub(super) stage: usize,
    pub(super) stages: usize,
    /// The structure has M and N, and the other extent is K.
    pub(super) sparse_c: bool,
    /// The second result is the greatest element of each row.
    pub(super) takes_greatest: bool,
    /// Threads multiply element by element: no indices are read ahead, and a block takes long.
    pub(super) scalar: bool,
    /// What a multiplication and an addition cost, beside those of a warpgroup's instructions.
    pub(super) flop: u64,
    /// What an element of C costs beside its products.
    pub(super) element: u64,
    /// Products of one run.
    pub(super) products: u64,
}

impl Scale {
    pub(super) fn of(plan: &Plan) -> Self {
        let KernelSpec { bm, bk, .. } = *plan.spec();
        let (rows, cols) = if plan.reads_block_columns() { (bk, bm) } else { (bm, bk) };
        let (profile, tile) = (plan.profile(), plan.cluster_tile());
        let sparse_c = sparse_operand(plan.spec().op) == Operand::C;
        let ring = (profile.stages * profile.stage_k).div_ceil(profile.held_k.max(1)).max(1);
        let parts = if let SplitK::Parts(parts) = plan.spec().split { parts } else { 1 };
        let reduction = plan.spec().epilogue.and_then(|epilogue| epilogue.program().reduction());
        let fused = if plan.spec().epilogue.is_some() { FUSED } else { 0 };
        Self {
            block: (rows as usize, cols as usize),
            tile: tile.columns as usize,
            slices: if sparse_c { 1 } else { (rows / tile.rows.max(1)).max(1) as usize },
            ring: ring as usize,
            gathered: (profile.stage_k / profile.held_k.max(1)).max(1) as usize,
            pack: profile.pack.max(1) as usize,
            parts: parts as usize,
            stage: profile.stage_k as usize,
            stages: profile.stages as usize,
            sparse_c,
            takes_greatest: reduction == Some(Reduction::Max),
            scalar: profile.kind.unit() == Unit::Threads,
            flop: match profile.kind.unit() {
                Unit::Warpgroups => 1,
                Unit::Warps => 6,
                Unit::Threads => 64,
            },
            element: STORE + fused + PASSED_ON * u64::from(parts - 1),
            // A batch has two, as everything else runs a kernel's second launch on what the first has left.
            products: if plan.spec().batch.is_on() { 2 } else { 1 },
        }
    }

    /// Roughly how long a run takes on block rows of these lengths times `n` columns, in multiplications and additions.
    pub(super) fn effort(&self, lengths: &[usize], n: usize) -> u64 {
        self.effort_of((lengths, self.block.0), n)
    }

    /// The same where so many rows of the last block row lie in M.
    pub(super) fn effort_of(&self, (lengths, last_rows): (&[usize], usize), n: usize) -> u64 {
        let along = if self.sparse_c { n.next_multiple_of(self.stage) } else { n.next_multiple_of(self.tile) } as u64;
        let slice = self.block.0.div_ceil(self.slices);
        let (mut stored, mut elements) = (0, 0);
        for (row, &length) in lengths.iter().enumerate() {
            let rows = if row + 1 == lengths.len() { last_rows.next_multiple_of(slice) } else { self.block.0 };
            // Tensor cores multiply zeros where there is no block.
            let blocks = if self.scalar || self.sparse_c { length } else { length.max(1) };
            stored += (blocks * rows * self.block.1) as u64;
            elements += (if self.sparse_c { length * rows * self.block.1 } else { rows }) as u64;
        }
        let elements = if self.sparse_c { elements } else { elements * along };
        self.products * (2 * self.flop * stored * along + self.element * elements)
    }

    /// Whether a run on block rows of these lengths is short enough.
    fn has_room(&self, lengths: &[usize], n: usize) -> bool {
        self.effort(lengths, n) <= EFFORT
    }

    /// Whether there is no time for a second tile of columns; kernels other than scalar ones and large ones have it unless one
    /// is too long already.
    fn has_one_tile(&self, lengths: &[usize]) -> bool {
        let tiles = if self.scalar || self.is_large() { 2 } else { 1 };
        !self.has_room(lengths, tiles * self.tile)
    }

    /// Whether the product of a single block takes so long that there is time for few of them.
    pub(super) fn is_slow(&self) -> bool {
        self.scalar && self.effort(&[1], self.tile) > EFFORT / 2
    }

    /// One tile of single blocks, then tiles that have one block each.
    pub(super) fn alone(&self, tiles: usize) -> Vec<usize> {
        (0..tiles * self.pack + 1).map(|row| usize::from(row <= self.pack || row % self.pack == 0)).collect()
    }

    /// Blocks in each row of `kind`.
    pub(super) fn lengths(&self, kind: Kind, round: usize) -> Vec<usize> {
        if kind == Kind::DevicePattern {
            let base: &[usize] = if self.is_large() { &[1, 0, 2] } else { &[2, 0, 1, 4, 1] };
            return (0..base.len() * self.pack).map(|row| base[(row + row / base.len()) % base.len()]).collect();
        }
        if let Some(few) = self.is_large().then(|| self.few(kind, round)).flatten() {
            return few;
        }
        let wanted = self.wanted(kind, round);
        let fits = |lengths: &[usize]| self.has_room(lengths, self.tile);
        if fits(&wanted) {
            return wanted;
        }
        let shorter: Vec<usize> = wanted.iter().map(|length| 2.min(*length)).collect();
        match kind {
            // Still beyond three rounds of the ring, and three tiles a cluster.
            Kind::Uneven if !self.scalar => {
                let base = [3 * self.ring + 1, 0, 1, 1, self.ring + 1, 1, 0];
                (0..base.len().max(3 * self.pack + 1)).map(|row| base[row % base.len()]).collect()
            }
            Kind::Whole | Kind::Ragged | Kind::EmptyRows | Kind::Negative | Kind::LastPair if !self.scalar => shorter,
            _ if !self.scalar => wanted,
            _ if fits(&shorter) => shorter,
            Kind::Whole | Kind::FullRow => vec![2],
            Kind::Ragged => vec![2, 1],
            Kind::Uneven => vec![2, 0, 1],
            Kind::EmptyRows => vec![0, 1],
            Kind::Alone => vec![1, 0, 1],
            Kind::Negative | Kind::LastPair => vec![1],
            _ => wanted,
        }
    }

    /// The same, however long they take.
    fn wanted(&self, kind: Kind, round: usize) -> Vec<usize> {
        let (thrice, pack) = (3 * self.ring + 1, self.pack);
        match kind {
            Kind::Whole => vec![3, 2 + round % 4, 1, 4],
            Kind::Ragged => vec![2, 3, 1, 4],
            Kind::Uneven => {
                // Tiles of three stages and of two end while C of those before them is being stored.
                let (three, two) = (2 * self.gathered + 1, self.gathered + 1);
                let base = [thrice, three, 1, 0, thrice, two, self.ring + 1, 1, 0, 4];
                (0..base.len().max(3 * pack + 1)).map(|row| base[(row + row / base.len()) % base.len()]).collect()
            }
            Kind::FullRow if self.scalar => vec![1, thrice + round, 1],
            Kind::FullRow => {
                // Parts are whole stages, of which a block may be the last.
                let second = self.second_batch();
                let long = thrice.max(2 * INDEX_BATCH + 3).max(second);
                if self.has_room(&[1, long, 1, long], self.tile) {
                    // The second of a cluster is read ahead while the first is multiplied.
                    return vec![1, long + round, 1, long + round];
                }
                vec![1, if self.has_room(&[long], self.tile) { long } else { second } + round, 1]
            }
            Kind::EmptyRows => vec![0, 3, 0, 1],
            // Of a sampled product three rounds of its ring of work tiles, which has one a stage and three.
            Kind::Alone => {
                let many = self.alone(if self.sparse_c { 3 * (self.stages + 3) + 1 } else { 6 });
                if self.has_room(&many, self.stage + 16) { many } else { self.alone(6) }
            }
            Kind::Negative | Kind::LastPair => vec![2, 1, 3],
            Kind::NoBlocks => vec![0; 4 * pack + 1],
            // The only block of its tile is all that a cluster has; of a batch, each problem is one such tile.
            Kind::OneColumn if self.products > 1 => (0..pack).map(|row| usize::from(row == 0)).collect(),
            Kind::OneColumn => (0..=pack).map(|row| if row == 0 { 2 } else { usize::from(row == pack) }).collect(),
            Kind::FarLines => {
                let lengths = |rows: usize| -> Vec<usize> {
                    (0..rows).map(|row| if row % 2 == 0 { FAR_LINES.div_ceil(self.block.1) } else { 1 }).collect()
                };
                // More than what is read ahead before the first is multiplied, if that is possible.
                let (few, many) = (FAR_LINES.div_ceil(self.block.0).max(2), 2 * (self.ring + 2) * pack);
                match self.has_room(&lengths(many), self.tile + 1) {
                    true => lengths(many.max(few)),
                    false => lengths(few),
                }
            }
            Kind::Edge(_) => vec![1],
            // What divides its tiles is found by `Split` and `Long`, and `members` has the products of a list.
            Kind::Split | Kind::SplitHalf | Kind::LongRows | Kind::Members | Kind::DevicePattern => Vec::new(),
        }
    }

    /// Blocks of a row whose parts have more than one batch of indices each.
    pub(super) fn second_batch(&self) -> usize {
        self.parts * (INDEX_BATCH + 3)
    }

    /// The extent along the dense factor, for block rows of these lengths; `extra` is a part of a tile.
    pub(super) fn along(&self, kind: Kind, lengths: &[usize], extra: usize) -> usize {
        if self.sparse_c {
            let ring = self.stages * self.stage;
            return match kind {
                Kind::Whole => 2 * ring + self.stage,
                Kind::Ragged => ring + self.stage / 2 + 3,
                Kind::Uneven | Kind::DevicePattern => 2 * self.stage + 8,
                Kind::FullRow => self.stage,
                Kind::EmptyRows => self.stage.div_ceil(2),
                Kind::Alone | Kind::Negative | Kind::LastPair => self.stage + 16,
                Kind::NoBlocks => 8,
                Kind::OneColumn => 1,
                Kind::FarLines => (self.stage + 8).max(FAR_LINES),
                Kind::Split | Kind::SplitHalf | Kind::LongRows | Kind::Members | Kind::Edge(_) => 0,
            };
        }
        match kind {
            Kind::Whole if self.has_room(lengths, 2 * self.tile) => 2 * self.tile,
            Kind::Ragged if self.has_one_tile(lengths) => extra.min(self.tile - 1).max(1),
            Kind::Ragged => self.tile + extra,
            // Odd, and in another group of eight columns each: the last column is alone there.
            Kind::Uneven | Kind::DevicePattern if self.has_room(lengths, self.tile + 9) => self.tile + 9,
            Kind::Uneven | Kind::DevicePattern => self.tile - self.tile / 4 + 9,
            Kind::EmptyRows if self.is_slow() => self.tile,
            Kind::EmptyRows => self.tile - self.tile / 2 + 7,
            Kind::Negative => self.tile - self.tile / 4 + 1,
            Kind::LastPair => self.tile.saturating_sub(2).max(1),
            Kind::NoBlocks => self.tile + 8,
            Kind::OneColumn => 1,
            Kind::FarLines if self.has_one_tile(lengths) => (self.tile / 2).max(FAR_LINES),
            Kind::FarLines => (self.tile + self.tile / 2).saturating_sub(7).max(FAR_LINES),
            // Whole pieces of a tile.
            // A second column of tiles is read ahead while the first is multiplied.
            Kind::Alone if self.has_room(lengths, 2 * self.tile) => self.tile + (self.tile / 2).max(1),
            Kind::Alone => (self.tile / 2).max(1),
            Kind::Whole | Kind::FullRow => self.tile,
            Kind::Split | Kind::SplitHalf | Kind::LongRows | Kind::Members | Kind::Edge(_) => 0,
        }
    }

    /// An extent along the dense factor for the second product of a list, where the first one has `along`.
    pub(super) fn shorter(&self, kind: Kind, along: usize) -> usize {
        let tile = if self.sparse_c { self.stage } else { self.tile };
        match kind {
            Kind::Whole if along > tile => along - tile,
            Kind::Whole | Kind::OneColumn => along,
            Kind::FarLines => along + 1,
            // The edge of the next one.
            Kind::Edge(_) => along,
            _ => (along - 1).max(1),
        }
    }
}
