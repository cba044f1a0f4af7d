//! Step 5: the arguments of a launch.

use super::AttentionPlan;
use crate::hopper::{OperandTile, heads};
use crate::plan::{
    Argument, AttentionProblem, AttentionSplit, AttentionTiles, Operand, Parameter, Parameters, StridedMap,
    TensorStrides,
};
use crate::scores::launch;

impl AttentionPlan {
    pub(crate) fn tiles(&self) -> AttentionTiles {
        AttentionTiles {
            block: (self.spec.bm, self.spec.bk),
            rows: self.tiling.rows / self.tiling.pack,
            consumers: self.tiling.roles.consumers,
            step: self.tiling.step,
            blocks: self.tiling.blocks,
            uniform: self.tiling.uniform,
            columns: self.tiling.columns,
            tile_words: self.tiling.words,
            split: self
                .workspace
                .map(|workspace| AttentionSplit { parts: self.spec.split, place_bytes: workspace.places_bytes }),
            packed: (self.tiling.pack > 1).then_some(self.tiling.pack),
            page: self.spec.page,
        }
    }

    pub(crate) fn arguments(&self, problem: &AttentionProblem) -> Parameters {
        let mut parameters = Parameters::new();
        let mut push = |name, argument| parameters.push(Parameter { name, argument });
        let [q, k, v, o] = self.maps(problem).map(Argument::Strided);
        push("map_q", q);
        push("map_k", k);
        push("map_v", v);
        push("map_o", o);
        push("row_sums", Argument::Pointer(Operand::Second));
        match self.spec.work_list {
            Some(bytes) => push("work_list", Argument::WorkList(bytes)),
            None => {
                push("work_head", Argument::WorkHead);
                push("work", Argument::Work);
            }
        }
        match self.spec.page {
            Some(page) => {
                push("pages", Argument::Pointer(Operand::Pages));
                push("table_width", Argument::Number((problem.keys / u64::from(page)) as u32));
            }
            None if self.spec.work_list.is_none() => push("steps", Argument::ColIdx),
            None => {}
        }
        if self.workspace.is_some() {
            push("workspace", Argument::Workspace);
        }
        if self.has_factors() {
            let [head, problem] = problem.factors;
            push("factors_q", Argument::Pointer(Operand::ScaleA));
            push("factors_k", Argument::Pointer(Operand::ScaleB));
            push("factors_v", Argument::Pointer(Operand::ScaleV));
            push("factor_head", Argument::Number(head));
            push("factor_problem", Argument::Number(problem));
        }
        if self.has_block_factors() {
            push("factors_q", Argument::Pointer(Operand::ScaleA));
            push("factors_k", Argument::Pointer(Operand::ScaleB));
            push("factors_v", Argument::Pointer(Operand::ScaleV));
            push("factor_head", Argument::Number(problem.factors[0]));
            push("factor_problem", Argument::Number(problem.factors[1]));
            push("query_blocks", Argument::Number(problem.queries.div_ceil(self.spec.bm.into()) as u32));
        }
        if self.spec.sinks.is_on() {
            push("sinks", Argument::Pointer(Operand::Sinks));
        }
        push("scale", Argument::Scale);
        push("heads", Argument::Number(problem.heads as u32));
        push("queries", Argument::Number(problem.queries as u32));
        if self.spec.page.is_none() {
            push("keys", Argument::Number(problem.keys as u32));
        }
        parameters.extend(launch::inputs(self.score()));
        parameters
    }

    fn maps(&self, problem: &AttentionProblem) -> [StridedMap; 4] {
        let AttentionProblem { batch, heads, key_heads, queries, keys, pages, strides: [q, k, v, o], .. } = *problem;
        let of_queries = [queries, heads, batch];
        let of_keys = match self.spec.page {
            Some(page) => [page.into(), key_heads, pages],
            None => [keys, key_heads, batch],
        };
        // O is stored by each consumer for itself.
        let share = OperandTile { box_rows: self.output.box_rows / self.tiling.roles.consumers, ..self.output };
        if self.tiling.pack > 1 {
            return [
                self.packed_map(Operand::A, &self.queries, of_queries, q),
                self.map(Operand::B, &self.keys, of_keys, k),
                self.map_of_values(of_keys, v),
                self.packed_map(Operand::C, &share, of_queries, o),
            ];
        }
        [
            self.map(Operand::A, &self.queries, of_queries, q),
            self.map(Operand::B, &self.keys, of_keys, k),
            self.map_of_values(of_keys, v),
            self.map(Operand::C, &share, of_queries, o),
        ]
    }

    /// The map of Q or O where heads share a tile: a box has some heads of every query, side by side.
    fn packed_map(&self, operand: Operand, tile: &OperandTile, sizes: [u64; 3], strides: TensorStrides) -> StridedMap {
        let map = self.map(operand, tile, sizes, strides);
        let ([columns, rows, heads, problems], [row, head, batch]) = (map.dims, map.strides_bytes);
        StridedMap {
            dims: [columns, heads, rows, problems],
            strides_bytes: [head, row, batch],
            box_dims: [map.box_dims[0], self.tiling.pack, tile.box_rows / self.tiling.pack, 1],
            ..map
        }
    }

    /// The map of V; of 8-bit operands its rows are columns, and its columns keys.
    fn map_of_values(&self, of_keys: [u64; 3], strides: TensorStrides) -> StridedMap {
        if !self.is_fp8() {
            return self.map(Operand::V, &self.values, of_keys, strides);
        }
        let [keys, heads, problems] = of_keys;
        let sizes = [self.tiling.columns.into(), heads, problems];
        heads::map(&self.spec, (Operand::V, AttentionTiles::places(keys as usize) as u64), &self.values, sizes, strides)
    }

    fn map(&self, operand: Operand, tile: &OperandTile, sizes: [u64; 3], strides: TensorStrides) -> StridedMap {
        let columns = match operand {
            Operand::A | Operand::B => self.tiling.depth,
            _ => self.tiling.columns,
        };
        heads::map(&self.spec, (operand, columns.into()), tile, sizes, strides)
    }
}
