//! The CTAs of a cluster, each of which computes a slice of a tile's steps (`cluster`): what they pass to each other.
//!
//! At the end of a tile every CTA has sums of all columns of O for its own keys, and stores a part of the columns. It sends the sums of
//! the other parts to the CTAs that store them. V is loaded with the columns rotated by a part for every rank, so that the sums of a
//! CTA's own part are in the first registers, and those for the CTA `d` ranks on are `d` parts further, in every CTA.

use super::Tiling;
use crate::hopper::{BARRIER, OperandTile};
use crate::plan::{PlanError, PlanErrors};
use crate::spec::Key;
use crate::{Arch, KernelSpec};

/// CTAs of a cluster: those of a larger one do not run on every Hopper GPU.
const SIZES: [u32; 4] = [1, 2, 4, 8];
/// Columns of O that a part is a multiple of: those that `stmatrix` writes at once.
const PART_UNIT: u32 = 16;
/// Bytes of four f32: what an instruction sends of a thread.
const VECTOR: u32 = 16;
/// Threads that share a row: one of them sends its maximum and its sum.
const OF_ROW: u32 = 4;
/// Barriers of a consumer: that the others' sums are there, and that the others take those of this CTA.
const BARRIERS: u32 = 2;
/// The first PTX that has `st.async`.
pub(crate) const PTX_VERSION: &str = "8.1";

/// What a consumer gets from the same consumer of the other CTAs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slices {
    /// CTAs of a cluster.
    pub(crate) size: u32,
    /// Columns of O that a CTA stores, and registers of a thread for them.
    pub(crate) columns: u32,
    pub(crate) registers: u32,
    /// Bytes of a vector of all threads of a consumer.
    pub(crate) vector_bytes: u32,
    /// Maxima and sums of a consumer's rows, from one CTA and from all.
    pub(crate) rows_bytes: u32,
    pub(crate) maxima_bytes: u32,
    /// Sums of O from all CTAs.
    pub(crate) sums_bytes: u32,
    /// The sums lie where the consumer's rows of Q were; else behind the maxima.
    pub(crate) in_queries: bool,
    consumers: u32,
}

impl Slices {
    /// None without clusters.
    pub(crate) fn new(spec: &KernelSpec, tiling: &Tiling, queries: &OperandTile, arch: &Arch) -> Option<Self> {
        let size = spec.cluster.filter(|size| *size > 1)?;
        let (columns, consumers, others) = (tiling.columns / size, tiling.roles.consumers, size - 1);
        let registers = columns / 2;
        let vector_bytes = VECTOR * arch.warpgroup;
        let rows_bytes = vector_bytes / OF_ROW;
        let sums_bytes = others * registers / 4 * vector_bytes;
        Some(Self {
            size,
            columns,
            registers,
            vector_bytes,
            rows_bytes,
            maxima_bytes: others * rows_bytes,
            sums_bytes,
            in_queries: sums_bytes <= queries.bytes() / consumers,
            consumers,
        })
    }

    /// Bytes of shared memory beside Q: barriers, maxima and, where they are not there, sums.
    pub(crate) fn bytes(&self) -> u32 {
        self.sums_offset() + if self.in_queries { 0 } else { self.consumers * self.sums_bytes }
    }

    /// Bytes of a consumer's barriers.
    pub(crate) const fn barriers_bytes() -> u32 {
        BARRIERS * BARRIER
    }

    /// Where maxima begin, from the start of this memory.
    pub(crate) fn maxima_offset(&self) -> u32 {
        self.consumers * Self::barriers_bytes()
    }

    /// Where sums begin that are not in Q.
    pub(crate) fn sums_offset(&self) -> u32 {
        self.maxima_offset() + self.consumers * self.maxima_bytes
    }

    /// Bytes that arrive at a consumer for one tile.
    pub(crate) fn arriving(&self) -> u32 {
        self.maxima_bytes + self.sums_bytes
    }

    /// Where vector `number` of the sums lies, from the consumer's first: in its rows of each panel of Q, or one after the other.
    pub(crate) fn vector_offset(&self, number: u32, queries: &OperandTile) -> u32 {
        if !self.in_queries {
            return number * self.vector_bytes;
        }
        let of_panel = queries.panel_bytes() / self.consumers / self.vector_bytes;
        number / of_panel * queries.panel_bytes() + number % of_panel * self.vector_bytes
    }
}

/// Refuses clusters that are not planned. `rows` are those of a consumer, `widest` the columns of the widest head of one alone.
pub(super) fn check(spec: &KernelSpec, (rows, widest): (u32, u32), errors: &mut PlanErrors) {
    let Some(size) = spec.cluster.filter(|size| *size != 1) else { return };
    let mut refuse = |fact: String, why: String| {
        errors.push(PlanError::new(Key::Cluster.as_str(), fact, why, "cluster = 1"));
    };
    if !SIZES.contains(&size) {
        return refuse(
            format!("clusters of {size} CTAs are not supported"),
            "each CTA of a cluster has a slice of a tile's steps and a part of the columns of O: 1, 2, 4 or 8"
                .to_owned(),
        );
    }
    let foreign = [
        (
            spec.split.is_on(),
            format!("split = {}", spec.split),
            "CTAs share the keys of a tile through a workspace there",
        ),
        (
            spec.page.is_some(),
            "keys in pages".to_owned(),
            "their steps are divided by `split`, by the lengths that are known at launch",
        ),
        (
            spec.a.is_fp8(),
            spec.a.to_string(),
            "the columns of V are rows of its tensor there, and they are not rotated",
        ),
    ];
    if let Some((_, what, why)) = foreign.into_iter().find(|(is_said, ..)| *is_said) {
        refuse(format!("clusters are not supported with {what}"), why.to_owned());
    }
    if !spec.bn.is_multiple_of(size * PART_UNIT) {
        refuse(
            format!("clusters of {size} CTAs are not supported for heads of {} columns", spec.bn),
            format!(
                "each CTA stores a part of the columns of O, a multiple of {PART_UNIT}: bn is a multiple of {}",
                size * PART_UNIT
            ),
        );
    }
    let is_of_row = |consumers: u32| spec.bm.is_multiple_of(consumers * rows);
    let why = "a CTA has a slice of the steps of all its queries, so all consumers compute the same blocks";
    match spec.consumers {
        Some(consumers) if !is_of_row(consumers) => refuse(
            format!("clusters are not supported for {consumers} consumers and blocks of {} queries", spec.bm),
            format!("{why}: bm is a multiple of {consumers} x {rows}"),
        ),
        None if spec.bn > widest && !is_of_row(2) => refuse(
            format!("clusters are not supported for heads of {} columns and blocks of {} queries", spec.bn, spec.bm),
            format!(
                "{why}, and heads of more than {widest} columns take two consumers: bm is a multiple of {}",
                2 * rows
            ),
        ),
        _ => {}
    }
}
