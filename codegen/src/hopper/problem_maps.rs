//! The tensor maps of a list of problems, in global memory: those of a problem one after the other, in the order of
//! [`Plan::problem_maps`](crate::Plan::problem_maps).

use crate::KernelSpec;

/// Bytes of a tensor map.
pub(crate) const MAP: u32 = 128;
/// The place of C's tensor map among those of a problem, behind the sparse factor's and the dense one's.
pub(crate) const C: u32 = 2;
/// The same of what K leaves of the dense factor beyond whole blocks.
pub(crate) const LAST: u32 = 3;

/// The `.version` that a kernel needs for a list of problems: tensor maps in global memory are fenced
/// (`fence.proxy.tensormap`), which came with PTX 8.3.
pub(crate) fn ptx_version(spec: &KernelSpec) -> Option<&'static str> {
    spec.batch.is_on().then_some("8.3")
}
