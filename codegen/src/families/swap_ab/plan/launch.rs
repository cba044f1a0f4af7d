//! The parameters of a launch: tensor maps, work tiles, the packed pattern.

use super::SwapAbPlan;
use crate::hopper::split_k::Workspace;
use crate::hopper::{fused_plan as fused, permute};
use crate::plan::Major;
use crate::plan::{Argument, Conversion, Parameter, Parameters, Problem, SplitForm, TensorMap};

impl SwapAbPlan {
    /// The workspace of split-K partials, of a kernel that divides K.
    pub(crate) fn workspace(&self) -> Option<Workspace> {
        let workspace =
            || Workspace::new(1, self.tile.roles.consumers, self.arch.warpgroup, self.tile.accumulators(self.spec.acc));
        self.spec.split.is_on().then(workspace)
    }

    pub(crate) fn split_form(&self) -> Option<SplitForm> {
        self.workspace().map(|workspace| workspace.form(self.memory.ring.stage_bytes, self.work_tile_words()))
    }

    /// Words of a work tile, and the first of those that say how much of K it is.
    pub(crate) fn work_tile_words(&self) -> (u32, u32) {
        match (self.spec.batch.is_on(), self.spec.split.is_on()) {
            (true, _) => (8, 6),
            (false, true) => (8, 4),
            (false, false) => (4, 4),
        }
    }

    /// The parameters of the kernel, in the order of its signature.
    pub(crate) fn arguments(&self, problem: &Problem) -> Parameters {
        let problem = &self.view.sizes(problem);
        let mut parameters = Parameters::new();
        let mut push = |name, argument| parameters.push(Parameter { name, argument });
        if self.spec.batch.is_on() {
            push("maps", Argument::Maps);
            push("packed", Argument::StageMetadata);
            push("work_head", Argument::WorkHead);
            push("work", Argument::Work);
            if self.spec.split.is_on() {
                push("workspace", Argument::Workspace);
            }
            return parameters;
        }
        push("map_sparse", Argument::Map(self.map_sparse(problem)));
        push("map_dense", Argument::Map(self.view.dense_map(&self.dense, problem)));
        let out = self.out_map(problem);
        if !self.spec.permute.is_on() {
            push("map_out", Argument::Map(out));
        }
        push("packed", Argument::StageMetadata);
        push("work_head", Argument::WorkHead);
        push("work", Argument::Work);
        if self.spec.split.is_on() {
            push("workspace", Argument::Workspace);
        }
        if self.k_slice.by_block {
            push("map_dense_last", Argument::Map(self.view.dense_map_last(&self.dense, problem)));
            push("whole_blocks", Argument::Number((problem.k / u64::from(self.view.depth)) as u32));
        }
        if self.fused.is_some() || self.spec.permute.is_on() {
            push("m", Argument::Number(problem.m as u32));
            push("n", Argument::Number(problem.n as u32));
        }
        if self.spec.permute.is_on() {
            parameters.extend(permute::parameters(&self.spec, problem));
        }
        if let Some(fused) = &self.fused {
            parameters.extend(fused::parameters(fused.program, fused::dense(&out, problem)));
        }
        parameters
    }

    /// The tensor maps of one problem of a batch: the sparse factor, the dense one, C, and what is left of the dense one.
    pub(crate) fn maps(&self, problem: &Problem) -> Vec<TensorMap> {
        let problem = &self.view.sizes(problem);
        let mut maps = vec![self.map_sparse(problem), self.view.dense_map(&self.dense, problem), self.out_map(problem)];
        maps.extend(self.k_slice.by_block.then(|| self.view.dense_map_last(&self.dense, problem)));
        maps
    }

    /// How many they are.
    pub(crate) fn maps_of_a_problem(&self) -> u32 {
        if self.k_slice.by_block { 4 } else { 3 }
    }

    fn out_map(&self, problem: &Problem) -> TensorMap {
        self.view.out_map(self.spec.out, self.store.store_box, self.store.span, problem)
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
            conversion: Conversion::of(self.view.factors().0, self.view.sparse_type),
            rank: 3,
            offset_bytes: 0,
            dims: [inner, outer, problem.nnzb.max(1)],
            strides_bytes: [inner * bytes, inner * outer * bytes],
            box_dims: [self.sparse.span_elements(), self.sparse.box_rows, 1],
            swizzle_bytes: self.sparse.span,
        }
    }
}
