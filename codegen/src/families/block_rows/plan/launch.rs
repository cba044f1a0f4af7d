//! The parameters of a launch: tensor maps of A, B and C, the work plan, the scales.

use super::operand::stored_by_columns;
use super::tiling::Share;
use super::{BlockRowsPlan, quadrants};
use crate::Scale;
use crate::hopper::split_k::Workspace;
use crate::hopper::{fused_plan as fused, permute};
use crate::plan::Major;
use crate::plan::{
    Argument, ClusterTile, Conversion, Operand, Parameter, Parameters, Problem, SharedColumns, SharedPairs, SplitForm,
    TensorMap,
};

/// Parameters of every kernel: A, B and C, the block columns, the heads, the work tiles.
const WORK: [Parameter; 3] = [
    Parameter { name: "col_idx", argument: Argument::ColIdx },
    Parameter { name: "work_head", argument: Argument::WorkHead },
    Parameter { name: "work", argument: Argument::Work },
];

/// The same of a kernel whose tiles have several block rows.
const PACKED_WORK: [Parameter; 3] = [
    Parameter { name: "columns", argument: Argument::StageMetadata },
    Parameter { name: "work_head", argument: Argument::WorkHead },
    Parameter { name: "work", argument: Argument::Work },
];

impl BlockRowsPlan {
    pub(crate) fn tile(&self) -> ClusterTile {
        ClusterTile {
            rows: self.tiling.cluster_m(),
            columns: self.tiling.cluster_n(),
            block_rows: self.view.rows,
            stages_per_block: (self.kloop.steps, self.kloop.sub_stages),
        }
    }

    /// The workspace of split-K partials, of a kernel that divides K.
    pub(crate) fn workspace(&self) -> Option<Workspace> {
        let t = &self.tiling;
        let workspace = || Workspace::new(t.cluster, t.roles.consumers, self.arch.warpgroup, self.accumulators());
        self.spec.split.is_on().then(workspace)
    }

    pub(crate) fn shared_columns(&self) -> SharedColumns {
        let (a, b) = (self.a.bytes() / self.tiling.pack, self.b.bytes());
        SharedColumns { pack: self.tiling.pack, rows: self.view.rows, block_bytes: a, b_bytes: b }
    }

    /// The tiles of a kernel whose blocks of C share pairs.
    pub(crate) fn shared_pairs(&self) -> Option<SharedPairs> {
        let (rows, columns) = (self.tiling.pack, self.tiling.cta_n / self.spec.bn.max(1));
        let bytes = (self.a.bytes() / rows, self.b.bytes() / columns.max(1));
        (self.spec.op.is_of_pairs() && rows > 1).then_some(SharedPairs {
            rows,
            columns,
            consumers: self.tiling.roles.consumers,
            bytes,
        })
    }

    /// Whether each of a consumer's blocks of C takes part in a stage or not.
    pub(crate) fn has_quadrants(&self) -> bool {
        self.spec.op.is_of_pairs() && self.tiling.pack > 1
    }

    /// Whether these blocks have places of their own among the values of C.
    pub(crate) fn has_blocks_of_c(&self) -> bool {
        quadrants::has_quadrants(&self.spec, self.tiling.pack) && self.spec.op.stores_blocks()
    }

    /// Columns of one WGMMA.
    pub(crate) fn instruction_n(&self) -> u32 {
        if self.has_quadrants() { self.spec.bn } else { self.tiling.wg_n }
    }

    pub(crate) fn split_form(&self) -> Option<SplitForm> {
        let stage_bytes = self.tiling.cluster * self.memory.transaction_bytes;
        self.workspace().map(|workspace| workspace.form(stage_bytes, self.work_tile_words()))
    }

    /// Words of a work tile, and the first of those that say how much of K it is.
    pub(crate) fn work_tile_words(&self) -> (u32, u32) {
        match (self.tiling.pack, self.spec.batch.is_on(), self.spec.split.is_on()) {
            (1, false, false) => (4, 4),
            (1, false, true) => (8, 4),
            (1, true, false) => (8, 8),
            (1, true, true) => (12, 8),
            _ => (SharedColumns::WORDS as u32, 12),
        }
    }

    pub(crate) fn arguments(&self, problem: &Problem) -> Parameters {
        let problem = &self.view.sizes(problem);
        let mut parameters = Parameters::new();
        let mut push = |name, argument| parameters.push(Parameter { name, argument });
        if self.spec.batch.is_on() {
            push("maps", Argument::Maps);
            for parameter in WORK {
                push(parameter.name, parameter.argument);
            }
            if self.spec.split.is_on() {
                push("workspace", Argument::Workspace);
            }
            if self.view.reads_block_columns() {
                push("block_idx", Argument::BlockIdx);
            }
            return parameters;
        }
        push("map_a", Argument::Map(self.map_a(problem)));
        let of_b = &self.factor(problem);
        push("map_b", Argument::Map(self.view.dense_map(&self.b, of_b)));
        if !self.spec.permute.is_on() {
            let out = self.view.out_map(self.spec.out, self.epilogue.store_box, self.epilogue.span, problem);
            push("map_c", Argument::Map(out));
        }
        match self.tiling.pack {
            1 => WORK.into_iter().for_each(|parameter| push(parameter.name, parameter.argument)),
            _ => PACKED_WORK.into_iter().for_each(|parameter| push(parameter.name, parameter.argument)),
        }
        if self.spec.split.is_on() {
            push("workspace", Argument::Workspace);
        }
        if self.has_block_index() {
            push("block_idx", Argument::BlockIdx);
        }
        if self.b.by_block {
            push("map_b_last", Argument::Map(self.view.dense_map_last(&self.b, of_b)));
            push("whole_blocks", Argument::Number((problem.k / u64::from(self.view.depth)) as u32));
        }
        if self.precision.scale != Scale::Unscaled {
            push("scale_a", Argument::Pointer(Operand::ScaleA));
            push("scale_b", Argument::Pointer(Operand::ScaleB));
        }
        if self.precision.scale == Scale::RowCol || self.fused.is_some() || self.spec.permute.is_on() {
            push("m", Argument::Number(problem.m as u32));
            push("n", Argument::Number(problem.n as u32));
        }
        if self.precision.scales_blocks() {
            let groups = problem.n.div_ceil(u64::from(super::precision::SCALE_COLUMNS));
            push("column_groups", Argument::Number(groups as u32));
        }
        if self.spec.permute.is_on() {
            parameters.extend(permute::parameters(&self.spec, problem));
        }
        if let Some(fused) = &self.fused {
            let out = self.view.out_map(self.spec.out, self.epilogue.store_box, self.epilogue.span, problem);
            parameters.extend(fused::parameters(fused.program, fused::dense(&out, problem)));
        }
        parameters
    }

    /// Does a second index tell where the blocks of the sparse factor are?
    pub(crate) fn has_block_index(&self) -> bool {
        self.view.reads_block_columns() || self.spec.op.is_of_pairs() && self.tiling.pack == 1
    }

    /// The problem as B's tensor map describes it: of a sparse B the lines of its stored blocks, which are their rows, or
    /// their columns.
    fn factor(&self, problem: &Problem) -> Problem {
        let [bn, bk] = [self.spec.bn, self.spec.bk].map(u64::from);
        match self.spec.op.is_of_pairs() {
            false => *problem,
            true if stored_by_columns(&self.spec) => {
                Problem { k: bk, n: (problem.k / bk * bn).max(1), ldb: bk, ..*problem }
            }
            true => Problem { n: bn, ldb: bn, ..*problem },
        }
    }

    /// The tensor maps of one problem: A, B, C, and what is left of B.
    pub(crate) fn maps(&self, problem: &Problem) -> Vec<TensorMap> {
        let problem = &self.view.sizes(problem);
        let mut maps = vec![
            self.map_a(problem),
            self.view.dense_map(&self.b, problem),
            self.view.out_map(self.spec.out, self.epilogue.store_box, self.epilogue.span, problem),
        ];
        maps.extend(self.b.by_block.then(|| self.view.dense_map_last(&self.b, problem)));
        maps
    }

    /// How many they are.
    pub(crate) fn maps_of_a_problem(&self) -> u32 {
        if self.b.by_block { 4 } else { 3 }
    }

    /// Stored values: lines of a block below one another, or, read transposed, a stack of blocks.
    fn map_a(&self, problem: &Problem) -> TensorMap {
        let (rows, bk) = (u64::from(self.view.rows), u64::from(self.view.depth));
        let (rows_per_line, bytes) = (u64::from(self.a.rows_per_line), u64::from(self.view.sparse_type.bytes()));
        let operand = (self.view.factors().0, self.view.sparse_type);
        if self.a.major == Major::Mn {
            return TensorMap {
                operand: operand.0,
                dtype: operand.1,
                conversion: Conversion::of(operand.0, operand.1),
                rank: 3,
                offset_bytes: 0,
                dims: [rows, bk, problem.nnzb.max(1)],
                strides_bytes: [rows * bytes, rows * bk * bytes],
                box_dims: [self.a.span_elements(), self.a.box_rows, 1],
                swizzle_bytes: self.a.span,
            };
        }
        TensorMap::matrix(
            operand,
            [bk * rows_per_line, (problem.nnzb * rows / rows_per_line).max(1)],
            bk * rows_per_line * bytes,
            [self.a.span_elements() * self.a.rows_per_line, self.a.box_rows / self.a.rows_per_line],
            self.a.span * self.a.rows_per_line,
        )
    }
}

impl Share {
    /// In words, for the plan's table and the PTX comments.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Nothing => "none",
            Self::A => "A, over column tiles",
            Self::B => "B, over row slices",
        }
    }
}
