//! What the simulator reports.

use std::fmt;
use std::ops::Range;

/// The kind of a [`Finding`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum FindingKind {
    /// Two accesses to the same bytes, at least one a write, with no order between them.
    Race,
    /// Two unordered writes of the same bytes that write the same values: common, and of no consequence.
    EqualWrites,
    /// Bytes that the generic proxy wrote reach the asynchronous proxy without `fence.proxy.async`.
    MissingProxyFence,
    /// Shared memory is read before it is written.
    UninitialisedRead,
    /// A register or predicate is read that nothing has written.
    UninitialisedRegister,
    /// `ld.global.nc` reads bytes that the kernel writes, or that an earlier one may write while it runs.
    ReadOnlyPath,
    /// An access outside its buffer, its block's shared memory or its parameters.
    OutOfBounds,
    /// An address or size that does not have the alignment that the instruction requires.
    Misaligned,
    /// An mbarrier used before init, after inval, or overwritten.
    BarrierMisuse,
    /// More arrivals than an mbarrier's phase expects, or a waiter overtaken by two phases.
    PhaseOverrun,
    /// More bytes arrived at an mbarrier than its phase expects.
    TransactionUnderflow,
    /// A barrier is used by the asynchronous proxy or another block without a fence after its init.
    MissingInitFence,
    /// `bar.sync` with counts that disagree, or too many arrivals.
    NamedBarrierMisuse,
    /// `barrier.cluster` arrive and wait out of turn.
    ClusterBarrierMisuse,
    /// A register that the tensor core still reads or writes is touched, or `wgmma.fence` is missing.
    WgmmaRegisters,
    /// The warps of a warpgroup execute different `wgmma`, or a descriptor is malformed.
    WgmmaMisuse,
    /// Metadata of a sparse matrix that name no elements.
    SparseMetadata,
    /// An ill-formed tensor copy: coordinates, box, alignment or tensor map.
    TensorCopy,
    /// A tensor copy that begins where the hardware begins none.
    CopyStart,
    /// `fence.proxy.tensormap` of an address where no tensor map is.
    IdleFence,
    /// Shared memory is given up (a block exits) while asynchronous work still uses it.
    ExitInFlight,
    /// `setmaxnreg` against the register pool's rules.
    RegisterPool,
    /// Threads that must execute an instruction together do not.
    Divergence,
    /// Nobody can proceed.
    Deadlock,
    /// More steps than the limit of the run.
    StepLimit,
    /// Integer division by zero, or an execution of `trap`.
    Trap,
    /// An assertion of the kernel's source does not hold: `__assertfail` was called.
    Assertion,
    /// Two clusters access the same global bytes, at least one writing.
    ClusterRace,
    /// A dependent launch touches global memory before a `griddepcontrol.wait`.
    GridDependency,
}

/// One of the instructions that take part in a finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Side {
    /// Line of the PTX text, from 1.
    pub line: u32,
    /// The line itself.
    pub text: String,
    /// The comment at the head of its section.
    pub section: Option<String>,
    /// Block rank within its cluster.
    pub cta: u32,
    /// Warp within the block.
    pub warp: u32,
    /// The lanes concerned.
    pub lanes: u32,
    /// What it does there: `tensor copy writes`, `ld reads`, ...
    pub does: String,
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.text)?;
        if let Some(s) = &self.section {
            write!(f, "\n        in section: {s}")?;
        }
        write!(
            f,
            "\n        {} (block {} of its cluster, warp {}, lanes {:#010x})",
            self.does, self.cta, self.warp, self.lanes
        )
    }
}

/// A defect that the run showed.
///
/// `Display` prints the fact, both sides with their lines and sections, and the seed that replays it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What is wrong.
    pub kind: FindingKind,
    /// The fact in words, with its numbers and the remedy.
    pub message: String,
    /// The instructions concerned, the later one first.
    pub sides: Vec<Side>,
    /// The bytes concerned, from the first to the last that was seen: addresses of the shared window, or global ones.
    pub addresses: Option<Range<u64>>,
    /// Number of the cluster in the grid.
    pub cluster: u32,
    /// The seed of the run.
    pub seed: u64,
    /// How often it was seen (same kind, same lines).
    pub times: u32,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.kind, self.message)?;
        match &self.addresses {
            Some(bytes) if bytes.end > bytes.start + 1 => {
                write!(f, "\n    at addresses {:#x} to {:#x}", bytes.start, bytes.end - 1)?;
            }
            Some(byte) => write!(f, "\n    at address {:#x}", byte.start)?,
            None => {}
        }
        for s in &self.sides {
            write!(f, "\n    {s}")?;
        }
        write!(f, "\n    cluster {}, seed {}, seen {}x", self.cluster, self.seed, self.times)
    }
}
