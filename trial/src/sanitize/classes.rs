//! The classes of findings: their names, what they are, and how serious.

use bsr_simulator::{Finding, FindingKind};

/// How serious a class is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// A defect.
    Error,
    /// What is common and does no harm: reported, and no reason to fail.
    Note,
}

/// A class of findings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Class {
    /// As in `--allow`, in JSON and in SARIF; the heading of its section in the book.
    pub name: &'static str,
    /// How serious it is.
    pub level: Level,
    /// What it is.
    pub what: &'static str,
}

const fn error(name: &'static str, what: &'static str) -> Class {
    Class { name, level: Level::Error, what }
}

/// A buffer does not hold what it must.
pub(super) const WRONG_RESULT: Class = error("wrong-result", "A buffer does not hold what the launch file says.");
/// Results that depend on the schedule.
pub(super) const UNSTABLE_RESULT: Class =
    error("unstable-result", "The results of two schedules differ, both of which the hardware may follow.");

const fn note(name: &'static str, what: &'static str) -> Class {
    Class { name, level: Level::Note, what }
}

/// What the ISA requires, and compilers leave out: the writer is `cp.async`.
const COPY_FENCE: Class =
    note("cp-async-fence", "cp.async writes what WGMMA or a copy reads, without fence.proxy.async.");
/// The same of a block that initializes its own barriers.
const OWN_INIT_FENCE: Class =
    note("own-init-fence", "An mbarrier is used by copies of its own block without a fence after its init.");
/// What the ISA forbids and a Hopper GPU does right: a block's own bulk stores, where no cluster is.
const UNREAD_STORE: Class = note("unread-store", "A block exits before its bulk stores have read its shared memory.");

/// Every class of the simulator's.
const CLASSES: &[(FindingKind, Class)] = {
    use FindingKind::*;
    &[
        (Race, error("race", "Two accesses of the same bytes, one of them a write, without an order between them.")),
        (EqualWrites, note("equal-writes", "Unordered writes of the same bytes that write the same values.")),
        (ClusterRace, error("block-race", "Two blocks or clusters access the same global bytes without an order.")),
        (
            MissingProxyFence,
            error("missing-proxy-fence", "Ordinary writes reach a copy or WGMMA without fence.proxy.async."),
        ),
        (UninitialisedRead, error("uninitialized-memory", "Memory is read before it is written.")),
        (UninitialisedRegister, error("uninitialized-register", "A register decides something before it has a value.")),
        (ReadOnlyPath, error("read-only-path", "ld.global.nc of bytes that the kernel writes.")),
        (OutOfBounds, error("out-of-bounds", "An access outside its buffer, shared memory or the parameters.")),
        (Misaligned, error("misaligned", "An address without the alignment that the instruction requires.")),
        (BarrierMisuse, error("mbarrier-misuse", "An mbarrier is used before init, after inval, or overwritten.")),
        (PhaseOverrun, error("mbarrier-phase", "More arrivals than a phase expects, or a wait that is overtaken.")),
        (TransactionUnderflow, error("mbarrier-bytes", "More bytes arrive at an mbarrier than its phase expects.")),
        (
            MissingInitFence,
            error("missing-init-fence", "An mbarrier is used by others without a fence after its init."),
        ),
        (NamedBarrierMisuse, error("barrier-misuse", "bar.sync with counts that disagree, or too many arrivals.")),
        (ClusterBarrierMisuse, error("cluster-barrier-misuse", "barrier.cluster arrive and wait out of turn.")),
        (
            WgmmaRegisters,
            error("wgmma-registers", "A register that WGMMA still uses is touched, or wgmma.fence is missing."),
        ),
        (
            WgmmaMisuse,
            error("wgmma-misuse", "The warps of a warpgroup disagree about a WGMMA, or a descriptor is malformed."),
        ),
        (SparseMetadata, error("sparse-metadata", "Metadata of a sparse matrix that name no elements.")),
        (TensorCopy, error("tensor-copy", "A tensor copy or a tensor map that is malformed or not fenced.")),
        (CopyStart, error("copy-start", "A tensor copy that begins where the hardware begins none.")),
        (IdleFence, note("idle-fence", "fence.proxy.tensormap of an address where no tensor map is.")),
        (ExitInFlight, error("exit-in-flight", "A block exits while asynchronous work still uses its memory.")),
        (RegisterPool, error("register-pool", "setmaxnreg against the rules of the register pool.")),
        (Divergence, error("divergence", "Threads that must execute an instruction together do not.")),
        (Deadlock, error("deadlock", "Nobody can proceed.")),
        (StepLimit, error("step-limit", "The kernel still runs after as many instructions as --max-steps allows.")),
        (Trap, error("trap", "trap is executed, or an integer is divided by zero.")),
        (Assertion, error("assertion", "An assertion of the kernel's source does not hold.")),
        (GridDependency, error("grid-dependency", "A dependent launch touches memory before griddepcontrol.wait.")),
    ]
};

/// The class of a finding; whether the launch has clusters of several blocks.
pub(super) fn class_of(finding: &Finding, clusters: bool) -> Class {
    let other = finding.sides.get(1).map_or("", |side| side.does.as_str());
    let is_unread = || other.starts_with("a bulk store ") || finding.message.starts_with("a copy reads ");
    match finding.kind {
        FindingKind::MissingProxyFence if other.starts_with("cp.async") => return COPY_FENCE,
        FindingKind::ExitInFlight if !clusters && is_unread() => return UNREAD_STORE,
        FindingKind::MissingInitFence if !clusters => return OWN_INIT_FENCE,
        _ => {}
    }
    let found = CLASSES.iter().find(|(of, _)| *of == finding.kind);
    found.map_or(error("finding", "A defect without a class of its own."), |(_, class)| *class)
}

/// All classes.
pub fn classes() -> impl Iterator<Item = Class> {
    CLASSES.iter().map(|(_, class)| *class).chain([
        COPY_FENCE,
        OWN_INIT_FENCE,
        UNREAD_STORE,
        WRONG_RESULT,
        UNSTABLE_RESULT,
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_has_a_section_in_the_book() {
        let book = include_str!("../../../docs/src/sanitize-classes.md");
        for class in classes() {
            assert!(book.contains(&format!("\n### {}\n", class.name)), "{} has no section", class.name);
        }
    }
}
