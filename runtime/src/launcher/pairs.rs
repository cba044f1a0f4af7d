//! Work of pairs of blocks on a GPU.

use std::sync::Arc;

use arrayvec::ArrayVec;
use bsr_codegen::lists::PairLists;
use bsr_codegen::{Plan, Refusal};

use super::Launcher;
use super::gpu::{Gpu, UploadedWork};
use super::listed::{self, Listed, MOST_PATTERNS};
use crate::Element;
use crate::bsr::Pairs;
use crate::error::KernelError;
use crate::gpu::{DeviceBsr, DeviceBuffer, DevicePattern, DevicePtr, Plain, Stored, StreamRef, UntypedBsr};
use crate::lists::{self, Table};
use crate::machine::Work;
use crate::operation::spgemm;
use crate::schedule::WorkLists;

/// The matrices whose pairs are listed.
type Matrices<'l, 'm> = (&'l UntypedBsr<'m>, &'l UntypedBsr<'m>, Option<&'l UntypedBsr<'m>>);

/// Patterns on the GPU: A, B, and C where it is in blocks.
type Patterns<'l> = ArrayVec<&'l DevicePattern, MOST_PATTERNS>;

/// The patterns of the matrices, if they live on the GPU: all, or none.
///
/// # Errors
/// Some that do and some that do not.
fn on_gpu<'l>((a, b, c): Matrices<'l, '_>) -> Result<Option<Patterns<'l>>, KernelError> {
    let all: ArrayVec<(&str, Option<&DevicePattern>), MOST_PATTERNS> =
        [("A", a.pattern()), ("B", b.pattern())].into_iter().chain(c.map(|c| ("C", c.pattern()))).collect();
    let there: Patterns<'l> = all.iter().filter_map(|(_, pattern)| *pattern).collect();
    let named = |lives: bool| {
        let names = all.iter().filter(|(_, pattern)| pattern.is_some() == lives);
        names.map(|(name, _)| *name).collect::<Vec<_>>().join(" and ")
    };
    if there.is_empty() {
        Ok(None)
    } else if there.len() == all.len() {
        Ok(Some(there))
    } else {
        let (here, there) = (named(false), named(true));
        Err(Refusal::new(format!("patterns on the GPU: {there}; on the host: {here}"))
            .why("pairs of blocks are listed where all of their patterns are")
            .help(format!("`DevicePattern::upload` for {here}"))
            .into())
    }
}

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

    /// What the lists of patterns that live on the GPU take, allocated now or before.
    ///
    /// # Errors
    /// [`KernelError::Lists`].
    fn listed_pairs(&self, plan: &Plan, patterns: &Patterns<'_>) -> Result<Arc<Listed>, KernelError> {
        let ([a, b], c) = ([patterns[0], patterns[1]], patterns.get(2));
        self.listed_pairs.of(([a.id(), b.id()], c.map(|c| c.id())), || {
            let of_c = c.map(|c| c.shape());
            let request = lists::request_of_pairs(plan, [a.shape(), b.shape()], of_c, self.clusters);
            Listed::new(&self.device, Table::pairs(&PairLists::new(&request)?, c.is_some()))
        })
    }

    /// The work of a product, enqueued where its patterns live on the GPU and the lists are of other arrays: the clusters that
    /// get work, and what the launch reads.
    pub(super) fn list_pairs(
        &self,
        plan: &Plan,
        stream: StreamRef<'_>,
        matrices: Matrices<'_, '_>,
    ) -> Result<Work<DevicePtr>, KernelError> {
        let Some(patterns) = on_gpu(matrices)? else {
            let work = self.pairs(plan, matrices)?;
            return Ok((work.grid, work.lists(stream)?));
        };
        let work = self.listed_pairs(plan, &patterns)?;
        let (mut made, mut index) = (ArrayVec::<_, MOST_PATTERNS>::new(), ArrayVec::<_, MOST_PATTERNS>::new());
        for pattern in &patterns {
            let now = pattern.now(stream)?;
            index.push(pattern.enqueue(stream, now, false)?);
            made.push(now);
        }
        work.make(stream, &made, (&index, None), (patterns[0].kernels(), &self.device), None)
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
        let (a, b) = (a.untyped(), b.untyped());
        let matrices = (&a, &b, c.as_ref());
        match on_gpu(matrices)? {
            Some(patterns) => self.machine().listed_pairs(self.plan(), &patterns).map(drop),
            None => self.machine().pairs(self.plan(), matrices).map(drop),
        }
    }
}
