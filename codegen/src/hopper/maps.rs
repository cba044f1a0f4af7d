//! The tensor maps of the dense matrices of a product with a sparse factor, for every family that loads tiles by TMA.

use super::OperandTile;
use crate::plan::SparseTimesDense;
use crate::plan::{Conversion, Operand, Problem, TensorMap};
use crate::{Dtype, Layout};

impl SparseTimesDense {
    /// The dense factor, `problem` being the view's. Where its tile goes block by block, its whole blocks of K.
    pub(crate) fn dense_map(&self, tile: &OperandTile, problem: &Problem) -> TensorMap {
        if tile.by_block {
            let depth = u64::from(self.depth);
            return self.blocks_of_dense(tile, problem, [depth.min(problem.k.max(1)), (problem.k / depth).max(1)], 0);
        }
        TensorMap::matrix(
            (self.factors().1, self.dense_type),
            match self.dense {
                Layout::RowMajor => [problem.n, problem.k.max(1)],
                Layout::ColMajor => [problem.k.max(1), problem.n],
            },
            self.dense_line(problem),
            [tile.span_elements(), tile.box_rows],
            tile.span,
        )
    }

    /// What K leaves beyond whole blocks: the block that [`Self::dense_map`] cannot bound.
    pub(crate) fn dense_map_last(&self, tile: &OperandTile, problem: &Problem) -> TensorMap {
        let depth = u64::from(self.depth);
        match (problem.k / depth * depth, problem.k % depth) {
            (_, 0) => self.dense_map(tile, problem),
            (start, rest) => self.blocks_of_dense(tile, problem, [rest, 1], start),
        }
    }

    /// The dense factor from element `start` of K on as `within` = [K in a block, blocks] by n: zeros beyond a block's K.
    fn blocks_of_dense(&self, tile: &OperandTile, problem: &Problem, within: [u64; 2], start: u64) -> TensorMap {
        let (element, line) = (u64::from(self.dense_type.bytes()), self.dense_line(problem));
        let (depth, columns) = (u64::from(self.depth), problem.n.max(1));
        let (dims, strides_bytes, box_dims, offset_bytes) = match self.dense {
            // Here the lines are those of K.
            Layout::RowMajor => (
                [columns, within[0], within[1]],
                [line, depth * line],
                [tile.span_elements(), tile.box_rows, 1],
                start * line,
            ),
            Layout::ColMajor => (
                [within[0], within[1], columns],
                [depth * element, line],
                [tile.span_elements(), 1, tile.box_rows],
                start * element,
            ),
        };
        TensorMap {
            operand: self.factors().1,
            dtype: self.dense_type,
            conversion: Conversion::of(self.factors().1, self.dense_type),
            rank: 3,
            offset_bytes,
            dims,
            strides_bytes,
            box_dims,
            swizzle_bytes: tile.span,
        }
    }

    /// Bytes from one line of the dense factor to the next.
    fn dense_line(&self, problem: &Problem) -> u64 {
        (problem.ldb * u64::from(self.dense_type.bytes())).max(16)
    }

    /// The result, stored in boxes of `store_box` elements. A staging row of one 16-byte vector has nothing to swizzle.
    pub(crate) fn out_map(&self, out: Dtype, store_box: (u32, u32), span: u32, problem: &Problem) -> TensorMap {
        TensorMap::matrix(
            (Operand::C, out),
            match self.out {
                Layout::RowMajor => [problem.n, problem.m],
                Layout::ColMajor => [problem.m, problem.n],
            },
            problem.ldc * u64::from(out.bytes()),
            [store_box.0, store_box.1],
            if span > 16 { span } else { 0 },
        )
    }
}
