//! The problems of `bsr check`: small, and each of a kind that kernels get wrong.

use bsr::{BsrError, KernelSpec, Op, Plan, Structure};

/// Kinds of problems.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Everything is a multiple of its tile; every cluster has several tiles.
    Whole,
    /// M, N and K end inside a tile and a block.
    Ragged,
    /// Block rows without blocks, the first and one between others.
    EmptyRows,
    /// One block row of all block columns among rows of one: more stages than the ring has.
    FullRow,
    /// No blocks at all: C is zero.
    NoBlocks,
    /// N = 1.
    OneColumn,
}

/// One problem: the sparse factor's structure as it is stored, and the extent of C along the dense one. Shapes depend on
/// kernel and number alone, never on a seed.
#[derive(Clone, Debug)]
pub(super) struct Trial {
    pub(super) structure: Structure,
    pub(super) n: usize,
    /// Seed of the values.
    pub(super) seed: u64,
}

/// The dense factor and C of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    /// Rows and columns of the dense factor.
    pub(super) dense: (usize, usize),
    /// Rows of C.
    pub(super) rows: usize,
    /// Columns of C.
    pub(super) cols: usize,
}

impl Kind {
    pub(super) const ALL: [Self; 6] =
        [Self::Whole, Self::Ragged, Self::EmptyRows, Self::FullRow, Self::NoBlocks, Self::OneColumn];

    /// The kind of problem number `index`, from 0.
    pub(super) fn of(index: usize) -> Self {
        Self::ALL[index % Self::ALL.len()]
    }

    /// The label of its line.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Whole => "whole",
            Self::Ragged => "ragged",
            Self::EmptyRows => "empty",
            Self::FullRow => "full row",
            Self::NoBlocks => "no blocks",
            Self::OneColumn => "N = 1",
        }
    }
}

impl Trial {
    /// Problem number `index` for a kernel, from 0: the kinds in turn, varied from one round to the next.
    ///
    /// # Errors
    /// Sizes beyond 32 bits, which no kernel's blocks lead to.
    pub(super) fn new(plan: &Plan, index: usize) -> Result<Self, BsrError> {
        // Rows and columns of a block as the kernel reads it.
        let KernelSpec { bm, bk, .. } = *plan.spec();
        let (bm, bk) = if plan.walks_columns() { (bk, bm) } else { (bm, bk) };
        let (bm, bk, tile) = (bm as usize, bk as usize, plan.cluster_tile().columns as usize);
        let round = index / Kind::ALL.len();
        // Shorter by a little more in every round, but never by a whole block.
        let (short_m, short_k) = (1 + (bm / 3 + 7 * round) % (bm - 1), 1 + (bk / 2 + 3 * round) % (bk - 1));
        let extra = 3 + (tile / 2 + 5 * round) % tile;
        let (lengths, columns, n) = match Kind::of(index) {
            Kind::Whole => (vec![3, 2 + round % 4], 5, 2 * tile),
            Kind::Ragged => (vec![2, 3], 3, tile + extra),
            Kind::EmptyRows => (vec![0, 3, 0, 1], 4, tile - tile / 4),
            Kind::FullRow => (vec![1, 7, 1], 7, tile),
            Kind::NoBlocks => (vec![0, 0], 2, tile + 8),
            Kind::OneColumn => (vec![2, 1], 3, 1),
        };
        let (m, k) = match Kind::of(index) {
            Kind::Whole => (lengths.len() * bm, columns * bk),
            Kind::Ragged => (lengths.len() * bm - short_m, columns * bk - short_k),
            _ if round == 0 => (lengths.len() * bm, columns * bk),
            _ => (lengths.len() * bm - 7 * round % bm, columns * bk - 3 * round % bk),
        };
        let (mut row_ptr, mut col_idx) = (vec![0], Vec::new());
        for (row, &length) in lengths.iter().enumerate() {
            // Spread over the row, a little further to the right in every row and round.
            let slack = columns.checked_div(length).unwrap_or(0).max(1);
            col_idx.extend((0..length).map(|at| (at * columns / length + (row + round) % slack) as i32));
            row_ptr.push(col_idx.len() as i32);
        }
        let read = Structure::new(m, k, (bm, bk), row_ptr, col_idx)?;
        let structure = if plan.walks_columns() { read.transpose()? } else { read };
        Ok(Self { structure, n, seed: index as u64 })
    }

    /// The dense factor and C.
    pub(super) fn shape(&self, spec: &KernelSpec) -> Shape {
        let (rows, cols) = (self.structure.rows(), self.structure.cols());
        let (rows, cols) = if spec.transpose.is_on() { (cols, rows) } else { (rows, cols) };
        match spec.op {
            Op::Dds => Shape { dense: (self.n, rows), rows: self.n, cols },
            Op::Sdd => Shape { dense: (self.n, cols), rows, cols },
            _ => Shape { dense: (cols, self.n), rows, cols: self.n },
        }
    }

    /// The product in words.
    pub(super) fn words(&self, spec: &KernelSpec) -> String {
        let Shape { dense, rows: m, cols: n } = self.shape(spec);
        let k = if spec.op == Op::Dds { dense.1 } else { dense.0 };
        format!("C[{m}, {n}] = A[{m}, {k}] * B[{k}, {n}], {} blocks", self.structure.nnzb())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn plan(spec: &str) -> Plan {
        Plan::new(&spec.parse().unwrap()).unwrap()
    }

    #[test]
    fn every_kernel_has_problems_of_every_kind_in_every_round() {
        for spec in [
            "bm = 512, bn = 128, bk = 112",
            "bm = 64, bn = 16, bk = 16",
            "bm = 64, bn = 256, bk = 512",
            "bm = 64, bn = 64, bk = 48, dtype = e4m3, scale = block, accumulate = promoted",
            "bm = 16, bn = 32, bk = 16, mma = mma_sync",
            "bm = 8, bn = 16, bk = 8, mma = scalar, dtype = f32",
            "bm = 24, bn = 64, bk = 128, transpose = on",
            "bm = 112, bn = 64, bk = 128, op = dds",
            "bm = 128, bn = 64, bk = 72, op = dds, transpose = on",
        ] {
            let plan = plan(spec);
            let by_columns = plan.walks_columns();
            for index in 0..120 {
                let trial = Trial::new(&plan, index).unwrap();
                let read = if by_columns { trial.structure.transpose().unwrap() } else { trial.structure.clone() };
                let a = &read;
                let even = (a.rows().is_multiple_of(a.block().0), a.cols().is_multiple_of(a.block().1));
                match Kind::of(index) {
                    Kind::Whole => assert_eq!(even, (true, true)),
                    Kind::Ragged => assert_eq!(even, (false, false)),
                    Kind::EmptyRows => assert!(a.nnzb() > 0 && a.row_lengths().any(|length| length == 0)),
                    Kind::FullRow => assert!(a.row_lengths().any(|length| length == a.block_cols())),
                    Kind::NoBlocks => assert_eq!(a.nnzb(), 0),
                    Kind::OneColumn => assert_eq!(trial.n, 1),
                }
            }
        }
    }

    #[test]
    fn rounds_differ_and_a_number_names_one_problem() {
        let plan = plan("bm = 128, bn = 128, bk = 64");
        let words = |index| Trial::new(&plan, index).unwrap().words(plan.spec());
        assert_eq!(words(1), words(1));
        assert_ne!(words(1), words(7));
    }
}
