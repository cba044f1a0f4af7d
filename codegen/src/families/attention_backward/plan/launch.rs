//! Step 5: what a launch is told.

use super::{GradientPlan, program};
use crate::hopper::{OperandTile, heads};
use crate::plan::{Argument, GradientProblem, Operand, Parameter, Parameters, TensorStrides};
use crate::scores::launch;

impl GradientPlan {
    pub(crate) fn arguments(&self, problem: &GradientProblem) -> Parameters {
        let GradientProblem { attention, strides: [dout, dq, dk, dv] } = *problem;
        let [q, k, v, o] = attention.strides;
        let of_queries = [attention.queries, attention.heads, attention.batch];
        let of_keys = [attention.keys, attention.key_heads, attention.batch];
        let (depth, columns) = (self.tiling.depth, self.tiling.columns);
        let is_of_keys = self.tiling.is_of_keys();
        let ([of_s, of_dp], [passing_s, passing_dp]) = (self.operands.fixed, self.operands.passing);
        // A result is stored by each consumer for itself.
        let share = |tile: OperandTile| OperandTile { box_rows: tile.box_rows / self.tiling.roles.consumers, ..tile };
        let mut parameters = Parameters::new();
        let mut map = |name, operand, columns: u32, tile: &OperandTile, sizes, strides: TensorStrides| {
            let map = heads::map(&self.spec, (operand, columns.into()), tile, sizes, strides);
            parameters.push(Parameter { name, argument: Argument::Strided(map) });
        };
        let (of_q, of_k) = if is_of_keys { (passing_s, of_s) } else { (of_s, passing_s) };
        let (of_dout, of_v) = if is_of_keys { (passing_dp, of_dp) } else { (of_dp, passing_dp) };
        map("map_q", Operand::A, depth, &of_q, of_queries, q);
        map("map_k", Operand::B, depth, &of_k, of_keys, k);
        map("map_v", Operand::V, columns, &of_v, of_keys, v);
        map("map_do", Operand::OutputGradient, columns, &of_dout, of_queries, dout);
        if is_of_keys {
            map("map_dk", Operand::C, depth, &share(of_s), of_keys, dk);
            map("map_dv", Operand::ValueGradient, columns, &share(of_dp), of_keys, dv);
        } else {
            map("map_o", Operand::Output, columns, &self.operands.output, of_queries, o);
            map("map_dq", Operand::C, depth, &share(of_s), of_queries, dq);
        }
        let mut push = |name, argument| parameters.push(Parameter { name, argument });
        if !is_of_keys {
            push("row_sums", Argument::Pointer(Operand::Second));
            push("sum_gradients", Argument::Pointer(Operand::LseGradient));
        }
        push("row_terms", Argument::Pointer(Operand::RowTerms));
        if self.tiling.sums > 0 {
            push("score_sums", Argument::Pointer(Operand::ScoreSums));
        }
        push("work_head", Argument::WorkHead);
        push("work", Argument::Work);
        push("steps", Argument::ColIdx);
        push("scale", Argument::Scale);
        push("heads", Argument::Number(attention.heads as u32));
        if is_of_keys && self.tiling.sums > 0 {
            push("group", Argument::Number((attention.heads / attention.key_heads.max(1)) as u32));
        }
        push("queries", Argument::Number(attention.queries as u32));
        push("keys", Argument::Number(attention.keys as u32));
        push("block_queries", Argument::Number(self.tiling.tiles().queries_in_blocks(attention.queries) as u32));
        parameters.extend(launch::inputs(program(&self.spec)));
        parameters
    }
}
