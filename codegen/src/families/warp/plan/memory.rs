//! Step 4: the depth of a stage, the number of stages, and the layout of shared memory.

use serde::Serialize;

use super::epilogue::Epilogue;
use super::kloop::{self, DEEP, SHALLOW};
use super::operand::{self, Operand};
use super::tiling::Tiling;
use crate::hopper::BARRIER;
use crate::plan::{KLoop, PlanError, PlanErrors};
use crate::{Arch, KernelSpec};

/// Stages beyond which a deeper ring hides nothing more.
const MOST_STAGES: u32 = 4;
/// Stages that hide the latency of memory.
const ENOUGH_STAGES: u32 = 3;
/// Most stages that a spec may ask for.
const LIMIT: u32 = 8;
/// Bytes of the barriers of such a ring, full ones and empty ones.
const BARRIERS: u32 = 2 * LIMIT * BARRIER;

/// The ring of stages, then a subtile for every warp.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Memory {
    pub(crate) stages: u32,
    pub(crate) stage_bytes: u32,
    /// Offset of B within a stage.
    pub(crate) b_offset: u32,
    pub(crate) staging_offset: u32,
    pub(crate) total: u32,
    /// CTAs that an SM has room for, in registers and in shared memory.
    pub(crate) resident: u32,
}

/// What follows from the depth of a stage.
pub(crate) struct Pipeline {
    pub(crate) kloop: KLoop,
    pub(crate) a: Operand,
    pub(crate) b: Operand,
    pub(crate) memory: Memory,
}

/// As many CTAs an SM as the tiling hopes for, at the depth that leaves them enough stages; fewer CTAs otherwise.
pub(crate) fn plan(
    spec: &KernelSpec,
    tiling: &Tiling,
    epilogue: &Epilogue,
    arch: &Arch,
) -> Result<Pipeline, PlanErrors> {
    // Without asynchronous copies a stage passes through registers: deep ones would take too many.
    let depths: &[u32] = if arch.cp_async { &[DEEP, SHALLOW] } else { &[SHALLOW] };
    let mut pipelines = vec![];
    for depth in depths {
        pipelines.push(Pipeline::new(spec, tiling, epilogue, *depth)?);
    }
    check_stages(spec, arch)?;
    let wanted = spec.stages.unwrap_or(if arch.cp_async { ENOUGH_STAGES } else { 2 });
    for enough in [wanted, spec.stages.unwrap_or(2)] {
        for resident in (1..=tiling.resident).rev() {
            for pipeline in &pipelines {
                let room = pipeline.room(spec, tiling, epilogue, resident, arch);
                if room >= enough {
                    let most = if arch.cp_async { MOST_STAGES } else { 2 };
                    return Ok(pipeline.with(spec, spec.stages.unwrap_or(room.min(most)), resident, tiling, epilogue));
                }
            }
        }
    }
    Err(too_large(spec, &pipelines[pipelines.len() - 1], tiling, epilogue, arch).into())
}

impl Memory {
    /// Offset of the full barriers; the empty ones follow.
    pub(crate) fn barrier_offset(&self) -> u32 {
        self.total - BARRIERS
    }
}

impl Pipeline {
    fn new(spec: &KernelSpec, tiling: &Tiling, epilogue: &Epilogue, depth: u32) -> Result<Self, PlanError> {
        let kloop = kloop::plan(spec, depth)?;
        let a = operand::plan_a(spec, tiling, &kloop);
        let b = operand::plan_b(spec, tiling, &kloop);
        let memory = Memory {
            stages: 0,
            stage_bytes: a.bytes() + b.bytes(),
            b_offset: a.bytes(),
            staging_offset: 0,
            total: staging(spec, tiling, epilogue),
            resident: 1,
        };
        Ok(Self { kloop, a, b, memory })
    }

    /// Stages that fit when an SM holds `resident` CTAs.
    fn room(&self, spec: &KernelSpec, tiling: &Tiling, epilogue: &Epilogue, resident: u32, arch: &Arch) -> u32 {
        let share = (arch.shared_bytes_per_sm / resident).saturating_sub(arch.shared_bytes_reserved);
        share.min(arch.shared_bytes).saturating_sub(staging(spec, tiling, epilogue)) / self.memory.stage_bytes
    }

    fn with(&self, spec: &KernelSpec, stages: u32, resident: u32, tiling: &Tiling, epilogue: &Epilogue) -> Self {
        let staging_offset = stages * self.memory.stage_bytes;
        let total = staging_offset + staging(spec, tiling, epilogue);
        Self { memory: Memory { stages, staging_offset, total, resident, ..self.memory }, ..*self }
    }
}

/// A subtile for every warp that multiplies, and behind them the barriers of the ring, where warps have roles.
fn staging(spec: &KernelSpec, tiling: &Tiling, epilogue: &Epilogue) -> u32 {
    let barriers = if spec.load.has_roles() { BARRIERS } else { 0 };
    tiling.threads() / 32 * epilogue.subtile_bytes() + barriers
}

fn check_stages(spec: &KernelSpec, arch: &Arch) -> Result<(), PlanError> {
    match spec.stages {
        Some(stages) if !arch.cp_async && stages != 2 => Err(PlanError::new(
            "stages",
            format!("{stages} stages are not supported on {}", arch.target),
            "without cp.async stages are loaded through registers, one while the other is multiplied",
            "stages = 2, or arch = sm_80",
        )),
        Some(stages) if !(2..=LIMIT).contains(&stages) => Err(PlanError::new(
            "stages",
            format!("a ring of {stages} stage(s) is not supported"),
            format!("one stage is filled while another is multiplied: 2 to {LIMIT}"),
            "stages = 3",
        )),
        _ => Ok(()),
    }
}

fn too_large(spec: &KernelSpec, pipeline: &Pipeline, tiling: &Tiling, epilogue: &Epilogue, arch: &Arch) -> PlanError {
    let room = pipeline.room(spec, tiling, epilogue, 1, arch);
    let (stages, bytes) = (spec.stages.unwrap_or(2), pipeline.memory.stage_bytes);
    PlanError::new(
        match (spec.stages, spec.k_step) {
            (Some(_), _) => "stages",
            (None, Some(_)) => "k_step",
            (None, None) => "bn",
        },
        format!("{stages} stages do not fit shared memory"),
        format!(
            "{stages} x {bytes} B + {} B staging = {} B; a CTA has {} B on {}",
            staging(spec, tiling, epilogue),
            stages * bytes + staging(spec, tiling, epilogue),
            arch.shared_bytes,
            arch.target
        ),
        if room >= 2 { format!("stages = {room}, or fewer") } else { "bn = ?, or k_step = ?".to_owned() },
    )
}
