//! The matrices that ranks own, and the whole again.

use bsr_codegen::Refusal;

use super::{Owned, Sharding, Side};
use crate::{Bsr, Element, Structure};

impl Sharding {
    /// The numbers, in the whole matrix, of the stored blocks that a rank owns: ascending, and in the order in which its
    /// shard stores them.
    ///
    /// # Panics
    /// When there is no such rank, or the structure is another one's.
    pub fn blocks(&self, structure: &Structure, rank: usize) -> Vec<usize> {
        let Owned { lines, .. } = &self.ranks[rank];
        match self.side {
            Side::Rows => (structure.blocks_of(lines.start).start..structure.blocks_of(lines.end - 1).end).collect(),
            Side::Cols => {
                let owns = |block: &usize| lines.contains(&(structure.col_idx()[*block] as usize));
                (0..structure.nnzb()).filter(owns).collect()
            }
        }
    }

    /// Where the blocks of a rank are in its own matrix.
    ///
    /// # Panics
    /// As [`Sharding::blocks`].
    pub fn structure(&self, structure: &Structure, rank: usize) -> Structure {
        let Owned { lines, .. } = &self.ranks[rank];
        match self.side {
            Side::Rows => structure.part(lines.clone()),
            Side::Cols => structure.columns(lines.clone()),
        }
    }

    /// The shard of a rank: a matrix of the rows or columns that it owns.
    ///
    /// # Panics
    /// When there is no such rank, or the matrix is another than the divided one.
    pub fn part<T: Element>(&self, a: &Bsr<T>, rank: usize) -> Bsr<T> {
        let structure = self.structure(a.structure(), rank);
        let values: Vec<T> = match self.side {
            Side::Rows => {
                let Owned { lines, .. } = &self.ranks[rank];
                let area = a.block().0 * a.block().1;
                let (first, end) = (a.blocks_of(lines.start).start, a.blocks_of(lines.end - 1).end);
                a.values()[first * area..end * area].to_vec()
            }
            Side::Cols => {
                let blocks = self.blocks(a.structure(), rank);
                blocks.into_iter().flat_map(|block| a.block_values(block)).copied().collect()
            }
        };
        Bsr::from_valid(structure, values)
    }

    /// The whole matrix, of the shards of all ranks in their order.
    ///
    /// # Errors
    /// Matrices that are not the shards of this division.
    pub fn gather<T: Element>(&self, shards: &[Bsr<T>]) -> Result<Bsr<T>, Refusal> {
        if shards.len() != self.ranks.len() {
            let (shards, ranks) = (shards.len(), self.ranks.len());
            return Err(Refusal::new(format!("{shards} shards of a matrix that {ranks} ranks own"))
                .help("give the shards of all ranks, in their order"));
        }
        self.check(shards)?;
        match self.side {
            Side::Rows => gather_rows(shards),
            Side::Cols => gather_cols(shards, self),
        }
    }

    fn check<T: Element>(&self, shards: &[Bsr<T>]) -> Result<(), Refusal> {
        let first = &shards[0];
        for (rank, (shard, Owned { elements, .. })) in shards.iter().zip(&self.ranks).enumerate() {
            let (along, across, expected) = match self.side {
                Side::Rows => (shard.rows(), shard.cols(), first.cols()),
                Side::Cols => (shard.cols(), shard.rows(), first.rows()),
            };
            if along != elements.len() || across != expected || shard.block() != first.block() {
                let (rows, cols, (bm, bk)) = (shard.rows(), shard.cols(), shard.block());
                let (owned, side, block) = (elements.len(), self.side.as_str(), first.block());
                let shard = format!("the shard of rank {rank} is {rows} x {cols} in blocks of {bm} x {bk}");
                let whole = format!("a matrix with blocks of {} x {}", block.0, block.1);
                return Err(Refusal::new(format!("{shard}, and this rank owns {owned} {side} of {whole}"))
                    .help("give the shards in the order of the ranks"));
            }
        }
        Ok(())
    }
}

fn gather_rows<T: Element>(shards: &[Bsr<T>]) -> Result<Bsr<T>, Refusal> {
    let rows = shards.iter().map(Bsr::rows).sum();
    let (mut row_ptr, mut col_idx, mut values) = (vec![0], Vec::new(), Vec::new());
    for shard in shards {
        let before = col_idx.len() as i64;
        row_ptr.extend(shard.row_ptr()[1..].iter().map(|at| before + at));
        col_idx.extend_from_slice(shard.col_idx());
        values.extend_from_slice(shard.values());
    }
    Bsr::new(rows, shards[0].cols(), shards[0].block(), row_ptr, col_idx, values)
}

fn gather_cols<T: Element>(shards: &[Bsr<T>], sharding: &Sharding) -> Result<Bsr<T>, Refusal> {
    let cols = shards.iter().map(Bsr::cols).sum();
    let (mut row_ptr, mut col_idx, mut values) = (vec![0], Vec::new(), Vec::new());
    for block_row in 0..shards[0].block_rows() {
        for (shard, owned) in shards.iter().zip(sharding.ranks()) {
            for block in shard.blocks_of(block_row) {
                col_idx.push(owned.lines.start as i32 + shard.col_idx()[block]);
                values.extend_from_slice(shard.block_values(block));
            }
        }
        row_ptr.push(col_idx.len() as i64);
    }
    Bsr::new(shards[0].rows(), cols, shards[0].block(), row_ptr, col_idx, values)
}
