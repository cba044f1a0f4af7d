//! Kinds of problems, and which a kernel has.

use bsr_codegen::{Plan, Schedule, SplitK};
use bsr_runtime::Launcher;

use super::scale::Scale;
use super::sddmm;

/// Kinds of problems.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Everything is a multiple of its tile; every cluster has several tiles.
    Whole,
    /// M, N and K end inside a tile and a block.
    Ragged,
    /// Block rows of very different lengths, two of them beyond two rounds of the ring; three tiles a cluster.
    Uneven,
    /// One block row of more than two batches of indices among rows of one block.
    FullRow,
    /// Block rows without blocks, the first and one between others.
    EmptyRows,
    /// Block rows of one block in a block column of its own, or none: a full tile, then three a cluster with a block each.
    Alone,
    /// All products are negative.
    Negative,
    /// The same, of a kernel that takes the greatest element of a row: N ends a pair of columns before a tile.
    LastPair,
    /// No blocks at all: C is zero.
    NoBlocks,
    /// N = 1.
    OneColumn,
    /// Lines of the dense operands lie gigabytes apart.
    FarLines,
    /// Clusters share the K of tiles.
    Split,
    /// The same of a sampled product's tiles of half the width.
    SplitHalf,
    /// Clusters share the K of rows that are much longer than others.
    LongRows,
    /// A list of products of one tile each, in one cluster.
    Members,
    /// Kernels list the work, as of a pattern on a GPU.
    DevicePattern,
    /// A single block of which C ends after other rows and columns in each, K in other places.
    Edge(u8),
}

impl Kind {
    const ALL: [Self; 10] = [
        Self::Whole,
        Self::Ragged,
        Self::Uneven,
        Self::FullRow,
        Self::EmptyRows,
        Self::Alone,
        Self::Negative,
        Self::NoBlocks,
        Self::OneColumn,
        Self::FarLines,
    ];

    /// Those of a kernel of which a single block takes long.
    const FEW: [Self; 4] = [Self::Ragged, Self::EmptyRows, Self::NoBlocks, Self::FarLines];

    /// The kinds of problems for a kernel.
    pub(crate) fn all(plan: &Plan) -> Vec<Self> {
        let scale = Scale::of(plan);
        if scale.is_slow() {
            return Self::FEW.to_vec();
        }
        let halves = sddmm::has_halves(plan) && shares_k(plan);
        let split = (plan.partial_bytes() > 0).then_some(Self::Split);
        let pair = (scale.takes_greatest && !scale.sparse_c).then_some(Self::LastPair);
        let divides_long = plan.spec().split == SplitK::Long && !plan.spec().batch.is_on();
        let long = divides_long.then_some(Self::LongRows);
        let edges = (0..scale.edges(plan.profile().kind)).map(|at| Self::Edge(at as u8));
        let members = plan.spec().batch.is_on().then_some(Self::Members);
        let (halves, listed) = (halves.then_some(Self::SplitHalf), Launcher::takes_device_pattern(plan).is_ok());
        let listed = listed.then_some(Self::DevicePattern);
        let all = Self::ALL.into_iter().chain(split).chain(halves).chain(long).chain(pair).chain(members);
        all.chain(listed).chain(edges).collect()
    }

    /// The kind of a kernel's problem number `index`, from 0.
    pub(crate) fn of(plan: &Plan, index: usize) -> Self {
        let kinds = Self::all(plan);
        kinds[index % kinds.len()]
    }

    /// The label of its line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Whole => "whole",
            Self::Ragged => "ragged",
            Self::Uneven => "uneven",
            Self::FullRow => "full row",
            Self::EmptyRows => "empty",
            Self::Alone => "alone",
            Self::Negative => "negative",
            Self::LastPair => "last pair",
            Self::NoBlocks => "no blocks",
            Self::OneColumn => "N = 1",
            Self::FarLines => "far lines",
            Self::Split => "split K",
            Self::SplitHalf => "split half",
            Self::LongRows => "long rows",
            Self::Members => "members",
            Self::DevicePattern => "GPU lists",
            Self::Edge(_) => "edges",
        }
    }
}

/// Whether clusters may share the K of an SDDMM's tiles.
fn shares_k(plan: &Plan) -> bool {
    plan.spec().schedule == Some(Schedule::Balanced) && !plan.spec().batch.is_on()
}
