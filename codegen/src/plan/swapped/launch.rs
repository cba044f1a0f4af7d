//! The parameters of a launch: tensor maps, the work plan, the packed pattern.

use super::Plan;
use crate::Layout;
use crate::plan::launch::{Argument, ClusterTile, Operand, Packing, Parameter, Parameters, Problem, TensorMap};
use crate::plan::view::Major;

impl Plan {
    pub(super) fn cluster_tile_of(&self) -> ClusterTile {
        ClusterTile {
            rows: self.tile.tile_rows(),
            columns: self.tile.cta_n,
            block_rows: self.view.rows,
            stages_per_block: (1, 1),
        }
    }

    pub(super) fn packing_of(&self) -> Packing {
        Packing {
            pack: self.tile.pack,
            rows: self.tile.rows,
            slices: self.tile.slices,
            slabs: self.memory.slabs,
            blocks: self.memory.blocks,
            chunk: self.chunk.depth,
            chunks: self.chunk.count,
            depth: self.view.depth,
            by_block: self.chunk.by_block,
            slab_bytes: self.memory.slab_bytes,
            block_bytes: self.memory.block_bytes,
        }
    }

    pub(super) fn arguments(&self, problem: &Problem) -> Parameters {
        let problem = &self.view.sizes(problem);
        let mut parameters = Parameters::new();
        let mut push = |name, argument| parameters.push(Parameter { name, argument });
        push("map_sparse", Argument::Map(self.map_sparse(problem)));
        push("map_dense", Argument::Map(self.map_dense(problem)));
        push("map_out", Argument::Map(self.map_out(problem)));
        push("packed", Argument::Packed);
        push("work_head", Argument::WorkHead);
        push("work", Argument::Work);
        if self.chunk.by_block {
            push("map_dense_last", Argument::Map(self.map_dense_last(problem)));
            push("whole_blocks", Argument::Number((problem.k / u64::from(self.view.depth)) as u32));
        }
        parameters
    }

    /// Stored blocks: what is contiguous in a block, what is not, the block.
    fn map_sparse(&self, problem: &Problem) -> TensorMap {
        let (rows, depth) = (u64::from(self.view.rows), u64::from(self.view.depth));
        let (inner, outer) = match self.view.sparse {
            Major::K => (depth, rows),
            Major::Mn => (rows, depth),
        };
        let bytes = u64::from(self.view.sparse_type.bytes());
        TensorMap {
            operand: self.view.factors().0,
            dtype: self.view.sparse_type,
            rank: 3,
            offset_bytes: 0,
            dims: [inner, outer, problem.nnzb.max(1)],
            strides_bytes: [inner * bytes, inner * outer * bytes],
            box_dims: [self.sparse.span_elements(), self.sparse.box_rows, 1],
            swizzle_bytes: self.sparse.span,
        }
    }

    fn map_dense(&self, problem: &Problem) -> TensorMap {
        if self.chunk.by_block {
            let depth = u64::from(self.view.depth);
            return self.blocks_of_dense(problem, [depth.min(problem.k.max(1)), (problem.k / depth).max(1)], 0);
        }
        TensorMap::matrix(
            (self.view.factors().1, self.view.dense_type),
            match self.view.dense {
                Layout::RowMajor => [problem.n, problem.k.max(1)],
                Layout::ColMajor => [problem.k.max(1), problem.n],
            },
            self.dense_line(problem),
            [self.dense.span_elements(), self.dense.box_rows],
            self.dense.span,
        )
    }

    /// What K leaves beyond whole blocks.
    fn map_dense_last(&self, problem: &Problem) -> TensorMap {
        let depth = u64::from(self.view.depth);
        let bytes = u64::from(self.view.dense_type.bytes());
        match (problem.k / depth * depth, problem.k % depth) {
            (_, 0) => self.map_dense(problem),
            (start, rest) => {
                let offset = match self.view.dense {
                    Layout::RowMajor => start * self.dense_line(problem),
                    Layout::ColMajor => start * bytes,
                };
                self.blocks_of_dense(problem, [rest, 1], offset)
            }
        }
    }

    /// The dense operand with K as two dimensions, `dims` = \[K in a block, blocks\]: zeros beyond a block's K.
    fn blocks_of_dense(&self, problem: &Problem, dims: [u64; 2], offset_bytes: u64) -> TensorMap {
        let (line, depth) = (self.dense_line(problem), u64::from(self.view.depth));
        let bytes = u64::from(self.view.dense_type.bytes());
        let n = problem.n.max(1);
        let (dims, strides_bytes, box_dims) = match self.view.dense {
            Layout::RowMajor => {
                ([n, dims[0], dims[1]], [line, depth * line], [self.dense.span_elements(), self.dense.box_rows, 1])
            }
            Layout::ColMajor => {
                ([dims[0], dims[1], n], [depth * bytes, line], [self.dense.span_elements(), 1, self.dense.box_rows])
            }
        };
        TensorMap {
            operand: self.view.factors().1,
            dtype: self.view.dense_type,
            rank: 3,
            offset_bytes,
            dims,
            strides_bytes,
            box_dims,
            swizzle_bytes: self.dense.span,
        }
    }

    fn dense_line(&self, problem: &Problem) -> u64 {
        (problem.ldb * u64::from(self.view.dense_type.bytes())).max(16)
    }

    fn map_out(&self, problem: &Problem) -> TensorMap {
        TensorMap::matrix(
            (Operand::C, self.spec.out),
            match self.view.out {
                Layout::RowMajor => [problem.n, problem.m],
                Layout::ColMajor => [problem.m, problem.n],
            },
            problem.ldc * u64::from(self.spec.out.bytes()),
            [self.store.store_box.0, self.store.store_box.1],
            self.store.span,
        )
    }
}
