//! What every kernel family reports of its plans: the frame around [`Plan`](super::Plan) knows nothing else.

use std::fmt;

use super::{
    AttentionProblem, AttentionTiles, ClusterTile, GradientProblem, GradientTiles, Parameters, Problem, ProblemRecord,
    Profile, SddmmTiles, SplitForm, TensorMap, TileScheduler,
};
use crate::KernelSpec;
use crate::probes::Roles;

/// A legal kernel of one family.
pub(crate) trait KernelPlan: fmt::Debug + Send + Sync {
    /// The plan in one line: the second line of the PTX.
    fn summary(&self) -> String;
    /// The rows of the table: what, how much, why.
    fn rows(&self) -> Vec<[String; 3]>;
    fn cluster_tile(&self) -> ClusterTile;
    fn threads(&self) -> u32;
    fn shared_bytes(&self) -> u32;
    fn parameters(&self, problem: &Problem) -> Parameters;
    /// What its speed depends on.
    fn profile(&self) -> Profile;
    /// Every number of the plan as text, with `spec` in place of its own.
    fn numbers(&self, spec: KernelSpec) -> String;
    /// The directives between the signature and the body, such as `.maxntid`.
    fn directives(&self) -> Vec<String>;
    /// The instructions.
    fn body(&self) -> String;

    /// What its warps are, of a kernel that has roles to be probed.
    fn roles(&self) -> Option<Roles> {
        None
    }

    /// The tensor maps of one problem of a batch.
    fn problem_maps(&self, _problem: &Problem) -> Vec<TensorMap> {
        vec![]
    }

    /// The record of one problem of a batch.
    fn problem_record(&self, _problem: &Problem) -> Option<ProblemRecord> {
        None
    }

    fn tile_scheduler(&self) -> TileScheduler {
        TileScheduler::Static
    }

    fn sddmm_tiles(&self) -> Option<SddmmTiles> {
        None
    }

    fn split_form(&self) -> Option<SplitForm> {
        None
    }

    fn attention_tiles(&self) -> Option<AttentionTiles> {
        None
    }

    fn attention_parameters(&self, _problem: &AttentionProblem) -> Option<Parameters> {
        None
    }

    fn gradient_tiles(&self) -> Option<GradientTiles> {
        None
    }

    fn gradient_parameters(&self, _problem: &GradientProblem) -> Option<Parameters> {
        None
    }

    fn cluster(&self) -> u32 {
        1
    }

    fn stores_by_tma(&self) -> bool {
        false
    }

    /// The `.version` that the kernel's instructions need, if it may be newer than the architecture's own.
    fn ptx_version(&self) -> Option<&'static str> {
        None
    }
}
