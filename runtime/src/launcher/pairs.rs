//! Work of pairs of blocks on a GPU.

use std::sync::Arc;

use bsr_codegen::Plan;

use super::gpu::{Gpu, UploadedWork};
use super::{Launcher, listed};
use crate::Element;
use crate::bsr::Pairs;
use crate::error::KernelError;
use crate::gpu::{DeviceBsr, DeviceBuffer, Plain, UntypedBsr};
use crate::operation::spgemm;
use crate::schedule::WorkLists;

/// The matrices whose pairs are listed.
type Matrices<'l, 'm> = (&'l UntypedBsr<'m>, &'l UntypedBsr<'m>, Option<&'l UntypedBsr<'m>>);

impl Gpu {
    /// The work of a product of two patterns, listed now or before.
    pub(super) fn pairs(&self, plan: &Plan, (a, b, c): Matrices<'_, '_>) -> Result<Arc<UploadedWork>, KernelError> {
        let clusters = self.clusters_used();
        let key = ([a.fingerprint, b.fingerprint], c.map(|c| c.fingerprint), clusters);
        self.pairs.of(key, || {
            let pairs = Pairs::new(a.structure, b.structure, c.map(|c| c.structure))?;
            let WorkLists { grid, heads, tiles, workspace, stage_metadata } =
                WorkLists::of_pairs(plan, &pairs, clusters);
            let lists = [pairs.index().col_idx(), pairs.a_blocks()];
            let [b_blocks, a_blocks] = lists.map(|list| DeviceBuffer::from_slice(&self.device, list));
            let work = UploadedWork::new(&self.device, grid, [&heads, &tiles, &stage_metadata], workspace)?;
            Ok(work.with_pairs([b_blocks?, a_blocks?]))
        })
    }
}

impl Launcher {
    /// Lists the pairs of blocks of a product of two block-sparse matrices ahead of the first launch, which then allocates
    /// nothing. `c` is the result of a kernel with `op = sss`.
    ///
    /// # Errors
    /// As [`Launcher::launch`].
    pub fn prepare_pairs<A: Element + Plain, B: Element + Plain, C: Element + Plain>(
        &self,
        a: &DeviceBsr<A>,
        b: &DeviceBsr<B>,
        c: Option<&DeviceBsr<C>>,
    ) -> Result<(), KernelError> {
        let patterns = [a.device_pattern(), b.device_pattern(), c.and_then(DeviceBsr::device_pattern)];
        patterns.into_iter().flatten().try_for_each(|pattern| listed::check(self.plan(), pattern))?;
        spgemm::check_patterns(self.plan(), a.structure(), b.structure(), c.map(DeviceBsr::structure))?;
        let c = c.map(DeviceBsr::untyped);
        self.machine().pairs(self.plan(), (&a.untyped(), &b.untyped(), c.as_ref())).map(drop)
    }
}
