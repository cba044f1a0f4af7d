//! The tensor maps of a list of problems, in global memory: those of a problem one after the other, in the order of
//! [`Plan::problem_maps`](crate::Plan::problem_maps).

/// Bytes of a tensor map.
pub(crate) const MAP: u32 = 128;
/// The place of C's tensor map among those of a problem, behind the sparse factor's and the dense one's.
pub(crate) const C: u32 = 2;
/// The same of what K leaves of the dense factor beyond whole blocks.
pub(crate) const LAST: u32 = 3;
