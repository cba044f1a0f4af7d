//! Step 4: the tile whose ring fits shared memory, the stages of the ring, CTAs of an SM.

use super::lines::Lines;
use super::tiling::{Tiling, WARP_ROWS};
use crate::plan::{PlanError, PlanErrors};
use crate::{Arch, KernelSpec};

/// Stages below which a product would wait for each copy, and beyond which more hide nothing more.
const FEWEST_STAGES: u32 = 2;
const MOST_STAGES: u32 = 4;
/// Most stages that a spec may ask for.
const LIMIT: u32 = 8;
/// Warps of an SM that hide each other's softmax.
const ENOUGH_WARPS: u32 = 8;

/// The ring of K and V, then Q of each warp, where O is staged too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Memory {
    pub(crate) stages: u32,
    pub(crate) key_bytes: u32,
    pub(crate) value_bytes: u32,
    pub(crate) queries_offset: u32,
    /// Bytes of a warp's Q or O.
    pub(crate) warp_bytes: u32,
    pub(crate) total: u32,
    /// CTAs that an SM has room for, in registers and in shared memory.
    pub(crate) resident: u32,
}

/// The first tile of which an SM holds enough warps, or else the one of which it holds the most.
pub(super) fn choose(spec: &KernelSpec, arch: &Arch) -> Result<(Tiling, Memory), PlanErrors> {
    let candidates = Tiling::candidates(spec, arch)?;
    if let Some(stages) = spec.stages.filter(|stages| !(FEWEST_STAGES..=LIMIT).contains(stages)) {
        return Err(PlanError::new(
            "stages",
            format!("{stages} stages are not supported"),
            format!("a ring has {FEWEST_STAGES} to {LIMIT} stages"),
            format!("stages = {}", stages.clamp(FEWEST_STAGES, LIMIT)),
        )
        .into());
    }
    let fitting: Vec<_> =
        candidates.iter().filter_map(|tiling| Some((*tiling, Memory::new(spec, tiling, arch)?))).collect();
    let warps = |(tiling, memory): &&(Tiling, Memory)| memory.resident * tiling.warps();
    // Of several with as many warps, the first.
    let most = fitting.iter().rev().max_by_key(warps);
    let chosen = fitting.iter().find(|choice| warps(choice) >= ENOUGH_WARPS).or(most);
    chosen.copied().ok_or_else(|| too_large(spec, &candidates[candidates.len() - 1], arch).into())
}

impl Memory {
    /// As many CTAs an SM as registers allow and a ring leaves room for, and as many stages as they then have room for.
    fn new(spec: &KernelSpec, tiling: &Tiling, arch: &Arch) -> Option<Self> {
        let one = Self::of(spec, tiling, 0);
        let room = |resident: u32| {
            let share = (arch.shared_bytes_per_sm / resident).saturating_sub(arch.shared_bytes_reserved);
            share.min(arch.shared_bytes).saturating_sub(one.total) / (one.key_bytes + one.value_bytes)
        };
        let wanted = spec.stages.unwrap_or(FEWEST_STAGES);
        let resident = (1..=tiling.resident(arch)).rev().find(|resident| room(*resident) >= wanted)?;
        let stages = spec.stages.unwrap_or(room(resident).min(MOST_STAGES));
        Some(Self { resident, ..Self::of(spec, tiling, stages) })
    }

    fn of(spec: &KernelSpec, tiling: &Tiling, stages: u32) -> Self {
        let bytes = |rows, columns| Lines::new(rows, columns * spec.a.bytes(), tiling.threads()).bytes();
        let (key_bytes, value_bytes) = (bytes(tiling.step, tiling.depth), bytes(tiling.step, tiling.columns));
        let warp_bytes = bytes(WARP_ROWS, tiling.depth.max(tiling.columns));
        let queries_offset = stages * (key_bytes + value_bytes);
        let total = queries_offset + tiling.warps() * warp_bytes;
        Self { stages, key_bytes, value_bytes, queries_offset, warp_bytes, total, resident: 1 }
    }
}

fn too_large(spec: &KernelSpec, tiling: &Tiling, arch: &Arch) -> PlanError {
    let stages = spec.stages.unwrap_or(FEWEST_STAGES);
    let Memory { key_bytes, value_bytes, queries_offset, total, .. } = Memory::of(spec, tiling, stages);
    PlanError::new(
        if spec.stages.is_some() { "stages" } else { "bn" },
        format!("{stages} stages do not fit shared memory"),
        format!(
            "{stages} x ({key_bytes} B of K + {value_bytes} B of V) + {} B of Q = {total} B of the {} B that a CTA has",
            total - queries_offset,
            arch.shared_bytes
        ),
        if spec.stages.is_some() { "drop `stages`: the plan takes as many as fit" } else { "bn = 64" },
    )
}
