//! One product of a problem.

use bsr_codegen::KernelSpec;
use bsr_runtime::{Extents, Structure};

/// A product: the sparse factor's structure as it is stored, and the extent of C along the dense one.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) structure: Structure,
    pub(crate) n: usize,
    /// Seed of the values.
    pub(crate) seed: u64,
}

impl Member {
    /// M, N and K.
    pub(crate) fn extents(&self, spec: &KernelSpec) -> Extents {
        Extents::of_stored(spec, (self.structure.rows(), self.structure.cols()), self.n)
    }
}
