//! The parameters of a launch: addresses, sizes, the work plan.

use super::WarpPlan;
use crate::plan::{Argument, ClusterTile, Operand, Parameter, Parameters, Problem};

impl WarpPlan {
    pub(crate) fn tile(&self) -> ClusterTile {
        ClusterTile {
            rows: self.tiling.cta_m,
            columns: self.tiling.cta_n,
            block_rows: self.spec.bm,
            stages_per_block: (self.kloop.steps, self.kloop.slots),
        }
    }

    pub(crate) fn arguments(&self, problem: &Problem) -> Parameters {
        [
            ("a", Argument::Pointer(Operand::A)),
            ("b", Argument::Pointer(Operand::B)),
            ("c", Argument::Pointer(Operand::C)),
            ("col_idx", Argument::ColIdx),
            ("work_head", Argument::WorkHead),
            ("work", Argument::Work),
            ("m", Argument::Number(problem.m as u32)),
            ("n", Argument::Number(problem.n as u32)),
            ("k", Argument::Number(problem.k as u32)),
            ("ldb", Argument::Number(problem.ldb as u32)),
            ("ldc", Argument::Number(problem.ldc as u32)),
        ]
        .map(|(name, argument)| Parameter { name, argument })
        .into_iter()
        .collect()
    }
}
