//! Every number that a kernel needs, decided in one place and in one order.
//!
//! A *family* of kernels is made around one kind of multiply instruction and has a room of its own: `wgmma`,
//! `warp`, `scalar`. What all share is here: errors, the table that shows a plan, the launch.

mod display;
mod error;
mod factors;
mod keys;
mod kloop;
mod launch;
mod maps;
pub(crate) mod scalar;
pub(crate) mod sdd;
pub(crate) mod swapped;
mod view;
pub(crate) mod warp;
pub(crate) mod wgmma;

pub use error::{PlanError, PlanErrors};
pub(crate) use view::{Major, View};

pub(crate) use launch::SECOND;
pub use launch::{
    Argument, ClusterTile, LaunchShape, Operand, Packing, Parameter, Parameters, Problem, TensorMap, Walk,
};
pub use sdd::Sampling;

use crate::spec::Target;
use crate::{Arch, Dtype, KernelSpec, Mma, Op};

/// A legal kernel: the spec, and every number that its PTX and its launch need.
///
/// `Display` prints the numbers with their arithmetic, so that a person can check them by hand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    spec: KernelSpec,
    arch: Arch,
    kernel: Kernel,
}

/// The plan of one family.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Kernel {
    Wgmma(wgmma::Plan),
    Swapped(swapped::Plan),
    Warp(warp::Plan),
    Scalar(scalar::Plan),
    Sampled(sdd::Plan),
}

/// What every family tells about its plan.
pub(crate) trait Family {
    /// The plan in one line: the second line of the PTX.
    fn summary(&self) -> String;
    /// The rows of the table: what, how much, why.
    fn rows(&self) -> Vec<[String; 3]>;
    fn cluster_tile(&self) -> ClusterTile;
    fn threads(&self) -> u32;
    fn shared_bytes(&self) -> u32;
    fn parameters(&self, problem: &Problem) -> Parameters;
    /// The tensor maps of one problem of a batch.
    fn problem_maps(&self, _problem: &Problem) -> Vec<TensorMap> {
        vec![]
    }
    /// What stands between the signature and the body: `.maxntid` and the like.
    fn directives(&self) -> Vec<String>;
    /// The instructions.
    fn body(&self) -> String;

    fn walk(&self) -> Walk {
        Walk::Tiles
    }

    fn sampling(&self) -> Option<Sampling> {
        None
    }

    fn cluster(&self) -> u32 {
        1
    }

    fn stores_by_tma(&self) -> bool {
        false
    }

    /// The `.version` that the kernel's instructions need, where the architecture's own is older.
    fn ptx_version(&self) -> Option<&'static str> {
        None
    }
}

impl Plan {
    /// Plans `spec` for the architecture that it names, or else for the one that its instruction is made for.
    ///
    /// # Errors
    ///
    /// Every reason why the spec cannot be planned, not only the first: sizes that the instruction cannot take,
    /// accumulators that do not fit the register file, stages that do not fit shared memory.
    pub fn new(spec: &KernelSpec) -> Result<Self, PlanErrors> {
        let target = target(spec);
        let mut errors = PlanErrors::default();
        keys::check(spec, target, &mut errors);
        errors.check()?;
        let arch = Arch::of(target);
        let kernel = match spec.mma {
            Mma::Wgmma if spec.op == Op::Sdd => Kernel::Sampled(sdd::Plan::new(spec, arch)?),
            Mma::Wgmma => hopper(spec, arch)?,
            Mma::Wmma | Mma::MmaSync => Kernel::Warp(warp::Plan::new(spec, arch)?),
            Mma::Scalar => Kernel::Scalar(scalar::Plan::new(spec, arch)?),
        };
        Ok(Self { spec: *spec, arch: *arch, kernel })
    }

    /// What was asked.
    pub fn spec(&self) -> &KernelSpec {
        &self.spec
    }

    /// What it was planned for.
    pub fn arch(&self) -> &Arch {
        &self.arch
    }

    /// The plan in one line: the second line of the PTX.
    pub fn summary(&self) -> String {
        self.family().summary()
    }

    /// The rows of the table: what, how much, why.
    pub fn rows(&self) -> Vec<[String; 3]> {
        self.family().rows()
    }

    pub(crate) fn family(&self) -> &dyn Family {
        match &self.kernel {
            Kernel::Wgmma(plan) => plan,
            Kernel::Swapped(plan) => plan,
            Kernel::Warp(plan) => plan,
            Kernel::Scalar(plan) => plan,
            Kernel::Sampled(plan) => plan,
        }
    }
}

/// Which of Hopper's families: blocks of whole WGMMA rows are its rows, all others its columns.
fn hopper(spec: &KernelSpec, arch: &Arch) -> Result<Kernel, PlanErrors> {
    let rows = View::new(spec).rows;
    let why = match spec.swap {
        Some(swap) if swap.is_on() => "as the spec asks".to_owned(),
        None if spec.pack.is_some() => "pack is a choice of swapped operands".to_owned(),
        None if !rows.is_multiple_of(wgmma::WGMMA_M) => {
            format!("{rows} rows are not a multiple of WGMMA's {} rows, but of its 8 columns", wgmma::WGMMA_M)
        }
        _ if spec.pack.is_some() => {
            return Err(PlanError::new(
                "pack",
                "block rows share a tile where operands are swapped",
                "swap = off keeps the rows of a block as WGMMA's rows",
                "drop `pack`, or `swap`",
            )
            .into());
        }
        _ => return Ok(Kernel::Wgmma(wgmma::Plan::new(spec, arch)?)),
    };
    Ok(Kernel::Swapped(swapped::Plan::new(spec, why, arch)?))
}

/// The architecture of a spec that names none: the oldest that has the instructions, except that `wmma` gets
/// asynchronous copies.
fn target(spec: &KernelSpec) -> Target {
    spec.arch.unwrap_or(match spec.mma {
        Mma::Wgmma => Target::Sm90a,
        Mma::MmaSync if spec.a.is_fp8() => Target::Sm89,
        Mma::MmaSync | Mma::Wmma => Target::Sm80,
        Mma::Scalar if spec.a == Dtype::BF16 && spec.vector.is_some_and(|vector| vector > 1) => Target::Sm80,
        Mma::Scalar => Target::Sm70,
    })
}
