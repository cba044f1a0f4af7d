//! The extents of a product and the blocks that are stored of it.

use bsr_codegen::{Plan, Refusal};
use bsr_runtime::Structure;

use super::edges::{FEWEST, end, other};
use super::long::Long;
use super::scale::Scale;
use super::split::{Split, Width};
use super::{Kind, Member};

/// The extents of a product.
#[derive(Clone, Debug)]
pub(super) struct Sizes {
    /// Stored blocks of every block row.
    pub(super) lengths: Vec<usize>,
    /// Block columns.
    pub(super) columns: usize,
    /// Rows of the last block row, and columns of the last block column.
    pub(super) last_rows: usize,
    pub(super) last_columns: usize,
    /// The extent along the dense factor.
    pub(super) along: usize,
    /// The most clusters, where it matters.
    pub(super) clusters: Option<u32>,
}

impl Sizes {
    /// # Errors
    /// Sizes beyond 32 bits, which no kernel's blocks lead to.
    pub(super) fn new(plan: &Plan, scale: &Scale, kind: Kind, round: usize) -> Result<Self, Refusal> {
        let extra = 3 + (scale.tile / 2 + 5 * round) % scale.tile;
        let (last_rows, last_columns) = (scale.last_rows(kind, round), scale.last_columns(kind, round));
        let split = match kind {
            Kind::Split => Some(Split::new(plan, scale.block, scale.tile, Width::Full)?),
            Kind::SplitHalf => Some(Split::new(plan, scale.block, scale.tile, Width::Half)?),
            _ => None,
        };
        if let Some(Split { block_rows, blocks_a_row, along, clusters }) = split {
            let lengths = vec![blocks_a_row; block_rows];
            return Ok(Self {
                lengths,
                columns: blocks_a_row,
                last_rows,
                last_columns,
                along,
                clusters: Some(clusters),
            });
        }
        if kind == Kind::LongRows {
            let Long { lengths, columns, along, clusters } = Long::new(plan, scale.block, scale.tile)?;
            return Ok(Self { lengths, columns, last_rows, last_columns, along, clusters: Some(clusters) });
        }
        let lengths = scale.lengths(kind, round);
        let most = lengths.iter().copied().max().unwrap_or(0);
        let columns = match kind {
            Kind::Alone => lengths.len(),
            Kind::FullRow | Kind::OneColumn | Kind::Edge(_) => most,
            _ => most + 1,
        };
        let along = match kind {
            Kind::Edge(at) => {
                let extent = if scale.sparse_c { scale.stage } else { scale.tile };
                let (count, at) = (scale.edges(plan.profile().kind), at as usize + round);
                // Where C ends in the first columns of a tile, no whole vector of a line is stored: the tile before it has some.
                let before = if !scale.sparse_c && count > FEWEST && at.is_multiple_of(count) { extent } else { 0 };
                before + end(extent, count, at)
            }
            _ => scale.along(kind, &lengths, extra),
        };
        let mut sizes = Self { lengths, columns, last_rows, last_columns, along, clusters: None };
        if let Kind::Edge(at) = kind {
            let (count, at) = (scale.edges(plan.profile().kind), at as usize + round);
            sizes.last_rows = end(scale.edge_extents().0, count, at);
            // In another order, so that K ends early and late in a block where N ends in the same group of columns.
            sizes.last_columns = end(scale.block.1, count, other(count, at));
        }
        Ok(sizes)
    }

    pub(super) fn most(&self) -> usize {
        self.lengths.iter().copied().max().unwrap_or(0)
    }

    /// # Errors
    /// Sizes beyond 32 bits, which no kernel's blocks lead to.
    pub(super) fn member(
        &self,
        plan: &Plan,
        scale: &Scale,
        (kind, round): (Kind, usize),
        seed: u64,
    ) -> Result<Member, Refusal> {
        let (bm, bk) = scale.block;
        let (m, k) = ((self.lengths.len() - 1) * bm + self.last_rows, (self.columns - 1) * bk + self.last_columns);
        let (row_ptr, col_idx) = stored(kind, round, &self.lengths, self.columns);
        let read = Structure::new(m, k, (bm, bk), row_ptr, col_idx)?;
        let structure = if plan.reads_block_columns() { read.transpose()? } else { read };
        Ok(Member { structure, n: self.along, seed })
    }
}

/// Where rows of these lengths begin, and the block columns of each.
pub(super) fn stored(kind: Kind, round: usize, lengths: &[usize], columns: usize) -> (Vec<i32>, Vec<i32>) {
    let (mut row_ptr, mut col_idx) = (vec![0], Vec::new());
    for (row, &length) in lengths.iter().enumerate() {
        col_idx.extend(places(kind, (row, round), length, columns));
        row_ptr.push(col_idx.len() as i32);
    }
    (row_ptr, col_idx)
}

/// The block columns of a row: spread over it, a little further to the right in every row and round, and up to the last
/// column in every other row.
fn places(kind: Kind, (row, round): (usize, usize), length: usize, columns: usize) -> Vec<i32> {
    if kind == Kind::Alone {
        return vec![row as i32; length];
    }
    let slack = columns.checked_div(length).unwrap_or(0).max(1);
    let at = |place: usize| match row % 2 == 0 && place + 1 == length {
        true => columns - 1,
        false => place * columns / length + (row + round) % slack,
    };
    (0..length).map(|place| at(place) as i32).collect()
}
