//! Step 6: the arguments of a launch: tensor maps, and the form of a work tile.

use super::SddmmPlan;
use super::sides::Side;
use crate::hopper::split_k::Workspace;
use crate::hopper::{OperandTile, fused_plan as fused};
use crate::plan::Major;
use crate::plan::{Argument, Conversion, Operand, Parameter, Parameters, Problem, SddmmTiles, TensorMap};

impl SddmmPlan {
    pub(crate) fn tiles(&self) -> SddmmTiles {
        let t = &self.tiling;
        SddmmTiles {
            block: (self.spec.bm, self.spec.bk),
            rows: t.cta_m,
            slices: t.slices,
            pack: t.pack,
            groups_per_block: t.parts,
            group_columns: t.panel_columns,
            column_groups: t.panels,
            half: t.half(),
            k_step: self.k_step(),
            tile_words: self.work_tile.words(),
            partial_bytes: self.workspace().places_bytes,
        }
    }

    /// The workspace of split-K partials.
    pub(crate) fn workspace(&self) -> Workspace {
        Workspace::new(1, self.tiling.roles.consumers, self.arch.warpgroup, self.tiling.accumulators())
    }

    pub(crate) fn arguments(&self, problem: &Problem) -> Parameters {
        let mut parameters = Parameters::new();
        let mut push = |name, argument| parameters.push(Parameter { name, argument });
        if self.spec.batch.is_on() {
            push("maps", Argument::Maps);
            push("work_head", Argument::WorkHead);
            push("work", Argument::Work);
            return parameters;
        }
        let [left, right, c] = self.maps(problem);
        push("map_a", Argument::Map(left));
        push("map_b", Argument::Map(right));
        push("map_c", Argument::Map(c));
        push("work_head", Argument::WorkHead);
        push("work", Argument::Work);
        push("workspace", Argument::Workspace);
        if let Some(fused) = &self.fused {
            let (rows, columns) = match self.sides.left.operand {
                Operand::A => (problem.m, problem.n),
                _ => (problem.n, problem.m),
            };
            push("m", Argument::Number(rows as u32));
            push("n", Argument::Number(columns as u32));
            let tile = |at, dtype| TensorMap { operand: Operand::Epilogue(at), dtype, ..c };
            parameters.extend(fused::parameters(fused.program, tile));
        }
        parameters
    }

    /// The tensor maps of one problem: the factors, C.
    pub(crate) fn maps(&self, problem: &Problem) -> [TensorMap; 3] {
        [
            self.map_of(&self.sides.left, &self.left, problem),
            self.map_of(&self.sides.right, &self.right, problem),
            self.map_c(problem),
        ]
    }

    /// A factor as stored in memory, its contiguous dimension first.
    fn map_of(&self, side: &Side, tile: &OperandTile, problem: &Problem) -> TensorMap {
        let (other, ld) = match side.operand {
            Operand::A => (problem.m, problem.lda),
            _ => (problem.n, problem.ldb),
        };
        let dims = match side.major {
            Major::K => [problem.k, other],
            Major::Mn => [other, problem.k],
        };
        TensorMap::matrix(
            (side.operand, side.dtype),
            dims.map(|dim| dim.max(1)),
            (ld * u64::from(side.dtype.bytes())).max(16),
            [tile.span_elements(), tile.box_rows],
            tile.span,
        )
    }

    /// The stored blocks: \[columns of a block, rows of a block, blocks\].
    fn map_c(&self, problem: &Problem) -> TensorMap {
        let (bm, bk) = (u64::from(self.spec.bm), u64::from(self.spec.bk));
        let line = bk * u64::from(self.spec.out.bytes());
        TensorMap {
            operand: Operand::C,
            dtype: self.spec.out,
            conversion: Conversion::Unchanged,
            rank: 3,
            offset_bytes: 0,
            dims: [bk, bm, problem.nnzb.max(1)],
            strides_bytes: [line, bm * line],
            box_dims: [self.epilogue.unit, self.epilogue.box_rows, 1],
            swizzle_bytes: self.epilogue.swizzle,
        }
    }
}
