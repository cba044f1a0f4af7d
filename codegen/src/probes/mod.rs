//! What a probed kernel records of itself: kinds of slices, and the layout of the records in memory.
//!
//! Each role of a CTA, a producer's warp or a consumer's warpgroup, has a ring of its own in global memory: a header, then
//! records in the order in which they were written. The time of a role is cut into slices without gaps: a slice begins where
//! the one before it ended, the first one with the kernel, and one thread of the role writes a record of it at its end. One
//! register, the position of the next record, and a predicate are all of its state in a role.
//!
//! ```text
//! header   64 bytes   u64 %clock64 and u64 %globaltimer at the role's begin, the same two at its end,
//!                     u32 bytes of the header and of all records, u32 of nothing, u32 number of the multiprocessor,
//!                     u32 low half of the clock at the kernel's first instruction (of a CTA's first ring), 16 bytes of nothing
//! record    8 bytes   u32 end (low half of %clock64), u32 code of the kind + 256 x argument
//! ```
//!
//! Rings are contiguous from a multiple of [`Probes::alignment`] on, so that all their addresses have the same high
//! half. Not every record checks whether there is room for it: see [`Kind::looks`].
//!
//! Records of [`Kind::Tile`] are marks without a duration: their first word says which tile it is, and their argument is the
//! number of this word, from 0.

mod kind;

pub use kind::{Group, Kind};

use crate::{KernelSpec, Op};

/// Bytes of a ring's header.
pub const HEADER_BYTES: u32 = 64;
/// Bytes of a record.
pub const RECORD_BYTES: u32 = 8;
/// The most records of a ring.
pub const MOST_RECORDS: u32 = 1 << 20;
/// Slots of a record's size in a header.
const HEADER_SLOTS: u32 = HEADER_BYTES / RECORD_BYTES;
/// Slots at the end of a ring, for records between two looks at how full it is.
pub const SPARE_SLOTS: u32 = 16;

/// Which CTAs record, and how much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probes {
    /// The first CTA that records.
    pub first: u32,
    /// How many CTAs record.
    pub ctas: u32,
    /// Records that each role's ring has room for, at least; what comes after is counted and not kept.
    pub records: u32,
}

impl Probes {
    /// Slots of 8 bytes of one ring, its header's included: a power of two, so that an address says where a ring ends.
    fn slots(&self) -> u32 {
        self.records.saturating_add(HEADER_SLOTS + SPARE_SLOTS).next_power_of_two()
    }

    /// Records that a ring keeps of those that a role writes.
    pub fn room(&self) -> u32 {
        self.slots() - HEADER_SLOTS - SPARE_SLOTS
    }

    /// Bytes of one ring.
    pub fn ring_bytes(&self) -> u32 {
        self.slots() * RECORD_BYTES
    }

    /// Bytes of the rings of all CTAs that record, of a kernel with these roles.
    pub fn bytes(&self, roles: &Roles) -> usize {
        self.ring_bytes() as usize * self.ctas as usize * roles.count() as usize
    }

    /// What the address of the first ring must be a multiple of: a power of two that covers all rings.
    pub fn alignment(&self, roles: &Roles) -> u64 {
        (self.bytes(roles) as u64).next_power_of_two()
    }

    /// Records that a role has written or would have written, by the bytes in its header.
    pub fn counted(&self, bytes: u32) -> u32 {
        (bytes / RECORD_BYTES).saturating_sub(HEADER_SLOTS)
    }
}

/// The roles of a kernel's warps, in the order of their rings: producers, then consumers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Roles {
    /// What each of the producer's warps is called.
    pub producers: &'static [&'static str],
    /// Warpgroups that consume.
    pub consumers: u32,
    /// What a consumer's tile is called.
    pub tile: TileName,
}

impl Roles {
    /// How many there are.
    pub fn count(&self) -> u32 {
        self.producers.len() as u32 + self.consumers
    }

    /// What a role is called.
    pub fn name(&self, role: usize) -> String {
        match self.producers.get(role) {
            Some(name) => (*name).to_owned(),
            None => format!("consumer {}", role - self.producers.len()),
        }
    }

    /// Is it a producer?
    pub fn is_producer(&self, role: usize) -> bool {
        role < self.producers.len()
    }
}

/// How the arguments of a tile's mark and its extent become words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TileName {
    /// First row and first column of so many of each.
    Matrix {
        /// Rows of the tile.
        rows: u32,
        /// Columns of the tile.
        columns: u32,
    },
    /// The same of the transposed result: rows of the kernel are columns of C.
    Transposed {
        /// Columns of C of the tile.
        columns: u32,
        /// Rows of C of the tile.
        rows: u32,
    },
    /// First row of so many; the columns are gathered from anywhere.
    Rows(u32),
    /// First column of so many; the rows are gathered from anywhere.
    Columns(u32),
    /// First query of so many, head, problem.
    Queries(u32),
    /// First key of so many, head of K and V, problem.
    Keys(u32),
}

impl TileName {
    /// Of a kernel that sees its operation as sparse x dense: its tile of so many rows and columns.
    pub(crate) fn of_view(spec: &KernelSpec, rows: u32, columns: u32) -> Self {
        match spec.op {
            Op::Dds => Self::Transposed { columns: rows, rows: columns },
            _ => Self::Matrix { rows, columns },
        }
    }

    /// `rows 512..768, columns 0..128`.
    pub fn words(&self, [first, second, third]: [u32; 3]) -> String {
        let range = |what: &str, from: u32, count: u32| format!("{what} {from}..{}", from.saturating_add(count));
        match *self {
            Self::Matrix { rows, columns } => {
                format!("{}, {}", range("rows", first, rows), range("columns", second, columns))
            }
            Self::Transposed { columns, rows } => {
                format!("{}, {}", range("rows", second, rows), range("columns", first, columns))
            }
            Self::Rows(rows) => range("rows", first, rows),
            Self::Columns(columns) => range("columns", first, columns),
            Self::Queries(queries) => {
                format!("{}, head {second}, problem {third}", range("queries", first, queries))
            }
            Self::Keys(keys) => format!("{}, head {second}, problem {third}", range("keys", first, keys)),
        }
    }
}

/// Why a kernel cannot record what it does.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProbesError {
    /// Its family has no warps with roles.
    #[error(
        "kernels with mma = {mma} have no producer and no consumers, so there are no roles to probe\n  help: mma = wgmma has them"
    )]
    NoRoles {
        /// What it multiplies with.
        mma: crate::spec::Mma,
    },
    /// Capacity or CTAs out of bounds.
    #[error(
        "rings of {records} records for {ctas} CTAs of {roles} roles: at least 1 CTA and 1 record, at most {MOST_RECORDS} records per ring, and at most {most} bytes of rings, which are {ctas} x {roles} x {ring} = {bytes}\n  help: fewer CTAs \
         or fewer records"
    )]
    TooMuch {
        /// Records of a ring.
        records: u32,
        /// CTAs.
        ctas: u32,
        /// Roles of a CTA.
        roles: u32,
        /// Bytes of a ring: a header and records, rounded up to a power of two.
        ring: u64,
        /// Requested bytes.
        bytes: u64,
        /// Bytes allowed.
        most: u64,
    },
}
