//! The address map: what each number means.
//!
//! A shared address has 32 bits, as on hardware: the low 24 are the place in a block's shared memory (which starts at
//! [`SHARED_BASE`]), the high 8 the rank of the block in its cluster. A block's own symbols carry its own rank.
//! Generic addresses reach shared, parameter and local memory through windows above all global buffers.

/// First byte of a block's shared memory.
pub(crate) const SHARED_BASE: u32 = 0x400;
/// First byte of parameter space.
pub(crate) const PARAM_BASE: u32 = 0x210;
/// First byte of a thread's local memory; parameters are below.
pub(crate) const LOCAL_BASE: u32 = 1 << 24;
/// Where the first global buffer is.
pub(crate) const GLOBAL_BASE: u64 = 0x7000_0000_0000;
const SHARED_WINDOW: u64 = 1 << 48;
const PARAM_WINDOW: u64 = 1 << 49;
const LOCAL_WINDOW: u64 = 1 << 50;
const RANK_SHIFT: u32 = 24;

/// What a generic address points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Window {
    Shared(u32),
    Param(u32),
    Local(u32),
    Global(u64),
}

pub(crate) fn classify(generic: u64) -> Window {
    match generic >> 32 {
        w if w == SHARED_WINDOW >> 32 => Window::Shared(generic as u32),
        w if w == PARAM_WINDOW >> 32 => Window::Param(generic as u32),
        w if w == LOCAL_WINDOW >> 32 => Window::Local(generic as u32),
        _ => Window::Global(generic),
    }
}

pub(crate) fn shared_to_generic(a: u32) -> u64 {
    SHARED_WINDOW | u64::from(a)
}

pub(crate) fn param_to_generic(a: u32) -> u64 {
    PARAM_WINDOW | u64::from(a)
}

pub(crate) fn local_to_generic(a: u32) -> u64 {
    LOCAL_WINDOW | u64::from(a)
}

/// (rank, offset from the start of the block's shared memory)
pub(crate) fn split_shared(a: u32) -> (u32, u32) {
    (a >> RANK_SHIFT, (a & ((1 << RANK_SHIFT) - 1)).wrapping_sub(SHARED_BASE))
}

/// The same place in the block of rank `rank`.
pub(crate) fn with_rank(a: u32, rank: u32) -> u32 {
    (a & ((1 << RANK_SHIFT) - 1)) | rank << RANK_SHIFT
}
