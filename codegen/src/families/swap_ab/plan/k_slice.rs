//! Step 3: how much of a block's K one B panel holds.

use serde::Serialize;

use crate::KernelSpec;
use crate::hopper::wgmma_k;
use crate::plan::PlanError;
use crate::plan::SparseTimesDense;

/// Bytes of K that a K slice should have.
const DEEP: u32 = 128;
/// Bytes of K that it may hold where nothing smaller divides the block.
const DEEPEST: u32 = 256;
/// Rows of TMA are multiples of this many bytes.
const VECTOR_BYTES: u32 = 16;
/// Largest block.
const LARGEST: u32 = 512;

/// A block's K in equal slices, one a B panel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct KSlice {
    /// Elements of K from one slice of a block to the next.
    pub(crate) depth: u32,
    /// Elements of K in shared memory: whole WGMMAs.
    pub(crate) held: u32,
    /// K slices of a block.
    pub(crate) count: u32,
    /// The last slice, or the last WGMMA of every slice, reaches beyond the block: tensor maps have the block as a
    /// dimension of its own and fill with zeros on both sides, so that a zero never meets a NaN of the next block.
    pub(crate) by_block: bool,
}

pub(crate) fn plan(spec: &KernelSpec, view: &SparseTimesDense) -> Result<KSlice, PlanError> {
    let (_, key) = view.keys;
    let (bytes, unit, depth) = (view.sparse_type.bytes(), wgmma_k(view.sparse_type), view.depth);
    let vector = VECTOR_BYTES / bytes;
    if depth == 0 || !depth.is_multiple_of(vector) || depth > LARGEST {
        return Err(PlanError::new(
            key,
            format!("blocks with {depth} of K are not supported"),
            format!(
                "TMA reads rows of whole 16-byte vectors, {vector} elements of {}; {LARGEST} is the largest block",
                view.sparse_type
            ),
            format!("{key} = {}", (depth.min(LARGEST).div_ceil(vector) * vector).max(vector)),
        ));
    }
    let chosen = match spec.k_step {
        Some(k) if k < depth && (k == 0 || k % unit != 0) => {
            return Err(PlanError::new(
                "k_step",
                format!("k_step = {k} is not a multiple of the K of a WGMMA"),
                format!("a WGMMA of {} consumes {unit} elements of K", view.sparse_type),
                format!("k_step = {}", (k / unit * unit).max(unit)),
            ));
        }
        Some(k) => k.min(depth).min(DEEPEST / bytes),
        None => automatic(depth, unit, bytes),
    };
    let count = depth.div_ceil(chosen);
    let held = chosen.next_multiple_of(unit);
    Ok(KSlice { depth: chosen, held, count, by_block: held * count != depth || held != chosen })
}

/// The whole block where it is shallow; else its largest part that divides it in whole WGMMAs; else parts as even as
/// whole WGMMAs allow, the last one padded.
fn automatic(depth: u32, unit: u32, bytes: u32) -> u32 {
    if depth * bytes <= DEEP {
        return depth;
    }
    let divides = |most: u32, least: u32| {
        (least / bytes..=most / bytes).rev().find(|k| k % unit == 0 && depth.is_multiple_of(*k))
    };
    divides(DEEP, DEEP / 2).or_else(|| divides(DEEPEST, DEEP)).unwrap_or_else(|| {
        let parts = (depth * bytes).div_ceil(DEEP);
        depth.div_ceil(parts).next_multiple_of(unit)
    })
}
