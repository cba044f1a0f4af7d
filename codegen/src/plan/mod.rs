//! Every number that a kernel needs, decided before any text is made.
//!
//! This is the frame that kernel families fill: a family's plan implements `KernelPlan`, and `families` chooses the
//! family of a spec. Errors, the table that shows a plan and the launch are the same for all of them.

mod attention;
mod attention_backward;
mod display;
mod error;
mod kernel;
mod kloop;
mod launch;
mod launchable;
mod launching;
mod operand;
mod probed;
mod problem_record;
mod profile;
mod remedy;
mod sparse_times_dense;
mod tensor_map;

use std::sync::Arc;

pub use attention::{AttentionProblem, AttentionSplit, AttentionTiles, TensorStrides};
pub use attention_backward::{GradientProblem, GradientSide, GradientTiles};
pub(crate) use error::check_factors;
pub use error::{PlanError, PlanErrors};
pub(crate) use kernel::KernelPlan;
pub(crate) use kloop::KLoop;
pub use launch::{
    Argument, ClusterTile, LaunchShape, Parameter, Parameters, Problem, SddmmTiles, SharedColumns, SharedPairs,
    SplitForm, StagePacking, TileScheduler,
};
pub use operand::Operand;
pub use problem_record::ProblemRecord;
pub use profile::{KernelKind, Multicast, Profile, Unit};
pub(crate) use sparse_times_dense::{Major, SparseTimesDense};
pub use tensor_map::{Conversion, StridedMap, TensorMap, TensorMapError, TensorMapFault, Tiled};

use crate::fingerprint::fingerprint;
use crate::probes::{Probes, Roles};
use crate::{Arch, KernelSpec};

/// A legal kernel: the spec, and every number that its PTX and its launch need.
///
/// `Display` prints the numbers with their arithmetic, so that a person can check them by hand.
#[derive(Clone, Debug)]
pub struct Plan {
    spec: KernelSpec,
    arch: Arch,
    kernel: Arc<dyn KernelPlan>,
    probes: Option<(Probes, Roles)>,
}

/// A plan follows from its spec, and from what it records.
impl PartialEq for Plan {
    fn eq(&self, other: &Self) -> bool {
        (self.spec, self.probes) == (other.spec, other.probes)
    }
}

impl Eq for Plan {}

impl Plan {
    pub(crate) fn of_kernel(spec: &KernelSpec, arch: &Arch, kernel: Arc<dyn KernelPlan>) -> Self {
        Self { spec: *spec, arch: *arch, kernel, probes: None }
    }

    /// The request.
    pub fn spec(&self) -> &KernelSpec {
        &self.spec
    }

    /// What it was planned for.
    pub fn arch(&self) -> &Arch {
        &self.arch
    }

    /// The plan in one line: the second line of the PTX.
    pub fn summary(&self) -> String {
        self.kernel.summary()
    }

    /// The rows of the table: what, how much, why.
    pub fn rows(&self) -> Vec<[String; 3]> {
        self.kernel.rows()
    }

    /// How the kernel divides its work, and what it keeps in flight.
    pub fn profile(&self) -> Profile {
        self.kernel().profile()
    }

    /// The kernel, whatever it was called in the spec: of two plans for one product, equal digests mean the same
    /// instructions and the same order of work. `stages = 4` and `stages = auto`, where four are chosen, are one kernel.
    pub fn digest(&self) -> String {
        fingerprint(&format!("{} {:?}", self.kernel().numbers(profile::settled(self.spec())), self.arch()))
    }

    pub(crate) fn kernel(&self) -> &dyn KernelPlan {
        &*self.kernel
    }
}
