//! Operations on mbarriers and of the copy engine.

use super::op::AtomFn;
use super::operand::{Addr, Reg, Scope, Src};
use super::types::Ty;

/// A field that `tensormap.replace` writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MapField {
    Address,
    Rank,
    Box,
    Extent,
    Stride,
    ElementStride,
    Element,
    Interleave,
    Swizzle,
    Fill,
}

/// Where the state of an mbarrier that an arrival returns has the pending count; the phase is below it.
pub(crate) const PENDING_AT: u32 = 40;

#[derive(Clone, Debug)]
pub(crate) enum Mbar {
    Init {
        count: Src,
    },
    Inval,
    ExpectTx {
        bytes: Src,
    },
    CompleteTx {
        bytes: Src,
    },
    Arrive {
        state: Option<Reg>,
        count: Src,
        expect: Option<Src>,
        drop: bool,
        complete: bool,
        /// For whom it releases; none if it is relaxed.
        release: Option<Scope>,
    },
    Wait {
        done: Reg,
        parity: bool,
        what: Src,
        /// From whom it acquires; none if it is relaxed.
        acquire: Option<Scope>,
        suspends: bool,
    },
    /// `cp.async.mbarrier.arrive`
    CpAsyncArrive {
        noinc: bool,
    },
}

/// Which way a bulk or tensor copy goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    ToShared,
    ToGlobal,
    /// `cp.reduce.async.bulk`: what is in global memory is combined with it.
    Reduce(AtomFn),
    /// `shared::cta` to another block's `shared::cluster`.
    ToCluster,
    Prefetch,
}

impl Way {
    /// The function of a reduction.
    pub(crate) fn reduction(self) -> Option<AtomFn> {
        match self {
            Self::Reduce(f) => Some(f),
            _ => None,
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Tensor {
    pub(crate) way: Way,
    /// The shared-memory side; absent for a prefetch.
    pub(crate) shared: Option<Addr>,
    pub(crate) map: Addr,
    pub(crate) coords: Vec<Src>,
    /// The offsets of im2col mode; none of a tile.
    pub(crate) im2col: Option<Vec<Src>>,
    pub(crate) barrier: Option<Addr>,
    pub(crate) multicast: Option<Src>,
}

#[derive(Clone, Debug)]
pub(crate) struct Bulk {
    pub(crate) way: Way,
    pub(crate) to: Option<Addr>,
    pub(crate) from: Addr,
    pub(crate) bytes: Src,
    pub(crate) barrier: Option<Addr>,
    pub(crate) multicast: Option<Src>,
    /// Element type of a reduction.
    pub(crate) ty: Ty,
}
