//! The kernel families, and which of them a spec is planned for.
//!
//! A family is made around one way of multiplying. Each has a folder: `plan` decides every number, `emit` makes the
//! operands of the templates, `kernel.rs` reports both to the frame. A family depends on `hopper`, the frame and what
//! is below them, and never on another family.

pub(crate) mod attention;
pub(crate) mod attention_backward;
pub(crate) mod attention_warp;
pub(crate) mod block_rows;
mod fallback;
mod keys;
pub(crate) mod scalar;
pub(crate) mod sddmm;
pub(crate) mod small_blocks;
pub(crate) mod swap_ab;
pub(crate) mod warp;

use std::sync::Arc;

use crate::hopper::WGMMA_M;
use crate::plan::{KernelPlan, PlanError, PlanErrors, SparseTimesDense};
use crate::spec::Target;
use crate::{Arch, Dtype, KernelSpec, Load, Mma, Op, Plan};

impl Plan {
    /// Plans `spec` for the architecture that it names, or else for the one that its instruction is made for.
    ///
    /// # Errors
    ///
    /// Every reason why the spec cannot be planned, not only the first: sizes that the instruction cannot take,
    /// accumulators that do not fit the register file, stages that do not fit shared memory.
    pub fn new(spec: &KernelSpec) -> Result<Self, PlanErrors> {
        Self::planned(spec).map_err(|errors| errors.with_remedies(spec, |spec| Self::planned(spec).map(drop)))
    }

    /// The same, with remedies as they are worded.
    fn planned(spec: &KernelSpec) -> Result<Self, PlanErrors> {
        let target = target(spec);
        let mut errors = PlanErrors::default();
        keys::check(spec, target, &mut errors);
        check_f64(spec, &mut errors);
        errors.check()?;
        let arch = Arch::of(target);
        let kernel: Arc<dyn KernelPlan> = match spec.mma {
            Mma::Wgmma => match spec.op {
                Op::Dsd | Op::Dds => sparse_times_dense(spec, arch)?,
                Op::Dss | Op::Sss => Arc::new(block_rows::BlockRowsPlan::new(spec, arch)?),
                Op::Sdd => Arc::new(sddmm::SddmmPlan::new(spec, arch)?),
                Op::Attention => Arc::new(attention::AttentionPlan::new(spec, arch)?),
                Op::AttentionDq | Op::AttentionDkv => Arc::new(attention_backward::GradientPlan::new(spec, arch)?),
            },
            Mma::MmaSync if spec.op == Op::Attention => Arc::new(attention_warp::AttentionWarpPlan::new(spec, arch)?),
            Mma::Wmma | Mma::MmaSync if spec.op == Op::Sdd => Arc::new(warp::SampledPlan::new(spec, arch)?),
            Mma::Wmma | Mma::MmaSync => Arc::new(warp::WarpPlan::new(spec, arch)?),
            Mma::Scalar if small_blocks::takes(spec) => Arc::new(small_blocks::SmallBlocksPlan::new(spec, arch)?),
            Mma::Scalar => Arc::new(scalar::ScalarPlan::new(spec, arch)?),
        };
        let plan = Self::of_kernel(spec, arch, kernel);
        plan.check_launch()?;
        Ok(plan)
    }
}

/// Small blocks and `mma_sync` alone have f64. Of several operands the first is told.
fn check_f64(spec: &KernelSpec, errors: &mut PlanErrors) {
    if spec.mma == Mma::MmaSync && spec.a == Dtype::F64 {
        return;
    }
    let operands = [("a", spec.a), ("b", spec.b), ("out", spec.out), ("acc", spec.acc)];
    let found = operands.into_iter().find(|(_, dtype)| *dtype == Dtype::F64);
    if let Some((key, _)) = found.filter(|_| !small_blocks::takes(spec)) {
        let key = if key == "a" { spec.type_key(key) } else { key };
        let help = match (spec.mma, small_blocks::takes(&KernelSpec { mma: Mma::Scalar, ..*spec })) {
            (Mma::Scalar, _) if spec.a == Dtype::F64 && spec.b == Dtype::F64 => "mma = mma_sync".to_owned(),
            (Mma::Scalar, _) => format!("{key} = {}", Dtype::F32),
            (_, true) => "mma = scalar".to_owned(),
            (_, false) if spec.a == Dtype::F64 && spec.b == Dtype::F64 => "mma = mma_sync".to_owned(),
            (_, false) if key == "acc" => format!("{key} = {}", spec.a.accumulator()),
            (_, false) => format!("{key} = {}", Dtype::F16),
        };
        errors.push(PlanError::new(
            key,
            format!("{key} = f64 is not supported with mma = {}", spec.mma),
            "kernels of f64 have mma = mma_sync, or mma = scalar with bm and bk up to 8 and bn up to 16",
            help,
        ));
    }
}

/// Which of Hopper's families: blocks of whole WGMMA rows are its rows, all others its columns.
fn sparse_times_dense(spec: &KernelSpec, arch: &Arch) -> Result<Arc<dyn KernelPlan>, PlanErrors> {
    let rows = SparseTimesDense::new(spec).rows;
    let why = match spec.swap {
        Some(swap) if swap.is_on() => "as the spec asks".to_owned(),
        None if spec.pack.is_some() => "pack without swap = off packs the rows of swap-AB kernels".to_owned(),
        None if !rows.is_multiple_of(WGMMA_M) => {
            format!("{rows} rows are not a multiple of WGMMA's {} rows, but of its 8 columns", WGMMA_M)
        }
        _ => return Ok(Arc::new(block_rows::BlockRowsPlan::new(spec, arch)?)),
    };
    Ok(Arc::new(swap_ab::SwapAbPlan::new(spec, why, arch)?))
}

/// The architecture of a spec that names none: the oldest that has the instructions, except that `wmma` gets
/// asynchronous copies.
fn target(spec: &KernelSpec) -> Target {
    spec.arch.unwrap_or(match spec.mma {
        Mma::Wgmma => Target::Sm90a,
        Mma::MmaSync | Mma::Wmma if spec.load == Load::Tma => Target::Sm90a,
        Mma::MmaSync if spec.a.is_fp8() => Target::Sm89,
        Mma::MmaSync if spec.a == Dtype::F64 && spec.shape.is_some_and(|shape| shape.mnk().0 == 16) => Target::Sm90a,
        Mma::MmaSync | Mma::Wmma => Target::Sm80,
        Mma::Scalar if spec.a == Dtype::BF16 && spec.vector.is_some_and(|vector| vector > 1) => Target::Sm80,
        Mma::Scalar if spec.epilogue.is_some() => Target::Sm90a,
        Mma::Scalar => Target::Sm70,
    })
}
