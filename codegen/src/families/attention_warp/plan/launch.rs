//! Step 5: the arguments of a launch.

use super::{AttentionWarpPlan, VECTOR_BYTES};
use crate::plan::{
    Argument, AttentionProblem, AttentionTiles, Operand, Parameter, Parameters, StridedMap, TensorStrides,
};
use crate::scores::launch;

/// The tensors, and what the parameters of their strides are called: bytes from one row to the next, between heads, between
/// problems.
const TENSORS: [(Operand, &str, [&str; 3]); 4] = [
    (Operand::A, "q", ["q_row", "q_head", "q_batch"]),
    (Operand::B, "k", ["k_row", "k_head", "k_batch"]),
    (Operand::V, "v", ["v_row", "v_head", "v_batch"]),
    (Operand::C, "o", ["o_row", "o_head", "o_batch"]),
];

impl AttentionWarpPlan {
    pub(crate) fn tiles(&self) -> AttentionTiles {
        AttentionTiles {
            block: (self.spec.bm, self.spec.bk),
            rows: self.tiling.rows,
            consumers: 1,
            step: self.tiling.step,
            blocks: 1,
            uniform: true,
            columns: self.tiling.columns,
            tile_words: 8,
            split: None,
            packed: None,
            page: None,
        }
    }

    pub(crate) fn arguments(&self, problem: &AttentionProblem) -> Parameters {
        let mut parameters = Parameters::new();
        let mut push = |name, argument| parameters.push(Parameter { name, argument });
        for ((operand, name, names), strides) in TENSORS.into_iter().zip(problem.strides) {
            let map = self.map(problem, operand, strides);
            push(name, Argument::Rows(map));
            names.into_iter().zip(map.strides_bytes).for_each(|(name, bytes)| push(name, Argument::Stride(bytes)));
        }
        push("row_sums", Argument::Pointer(Operand::Second));
        push("work_head", Argument::WorkHead);
        push("work", Argument::Work);
        push("steps", Argument::ColIdx);
        if self.spec.sinks.is_on() {
            push("sinks", Argument::Pointer(Operand::Sinks));
        }
        push("scale", Argument::Scale);
        push("heads", Argument::Number(problem.heads as u32));
        push("queries", Argument::Number(problem.queries as u32));
        push("keys", Argument::Number(problem.keys as u32));
        parameters.extend(launch::inputs(self.score()));
        parameters
    }

    /// What a tensor is: rows that are copied in vectors.
    fn map(&self, problem: &AttentionProblem, operand: Operand, strides: TensorStrides) -> StridedMap {
        let AttentionProblem { batch, heads, key_heads, queries, keys, .. } = *problem;
        let (columns, rows, heads) = match operand {
            Operand::A => (self.tiling.depth, queries, heads),
            Operand::B => (self.tiling.depth, keys, key_heads),
            Operand::V => (self.tiling.columns, keys, key_heads),
            _ => (self.tiling.columns, queries, heads),
        };
        let bytes = self.spec.a.bytes();
        let TensorStrides { row, head, batch: problem } = strides;
        StridedMap {
            operand,
            dtype: self.spec.a,
            dims: [columns.into(), rows.max(1), heads.max(1), batch.max(1)],
            strides_bytes: [row, head, problem].map(|stride| (stride * u64::from(bytes)).max(VECTOR_BYTES.into())),
            box_dims: [VECTOR_BYTES / bytes, 1, 1, 1],
            swizzle_bytes: 0,
        }
    }
}
