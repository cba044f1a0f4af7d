//! Decoded instructions: every operand resolved, every modifier checked.

use super::types::{Space, Ty};

pub(crate) use super::op_async::*;
pub(crate) use super::op_matrix::*;
pub(crate) use super::op_pure::*;
pub(crate) use super::operand::*;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AtomFn {
    Add,
    Min,
    Max,
    And,
    Or,
    Xor,
    Exch,
    Cas,
    Inc,
    Dec,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shfl {
    Up,
    Down,
    Bfly,
    Idx,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Vote {
    All,
    Any,
    Uni,
    Ballot,
}

/// What `bar.red` makes of the predicates of all threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reduction {
    Popc,
    And,
    Or,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fence {
    /// Between threads: `membar`, `fence.acq_rel`, `fence.sc`.
    Thread {
        scope: Scope,
    },
    /// Between the generic and the async proxy, for accesses to shared memory, and to global memory.
    ProxyAsync {
        shared: bool,
        global: bool,
    },
    MbarrierInit,
    /// `fence.proxy.tensormap::generic.release`: of tensor maps that were written in global memory.
    MapRelease {
        scope: Scope,
    },
}

/// A decoded operation.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Pure {
        f: Pure,
        d: Reg,
        s: [Src; 4],
    },
    Setp {
        cmp: Cmp,
        ty: Ty,
        ftz: bool,
        p: Option<Reg>,
        q: Option<Reg>,
        a: Src,
        b: Src,
        with: Option<(Logic, PredSrc)>,
    },
    Set {
        cmp: Cmp,
        to: Ty,
        ty: Ty,
        d: Reg,
        a: Src,
        b: Src,
        with: Option<(Logic, PredSrc)>,
    },
    Testp {
        class: Class,
        ty: Ty,
        p: Reg,
        a: Src,
    },
    /// Whether a generic address is in a window.
    Isspacep {
        space: Space,
        p: Reg,
        a: Src,
    },
    /// `lop3` with a predicate: whether the result is not zero, combined with another one.
    Lop3 {
        f: Logic,
        d: Option<Reg>,
        p: Reg,
        s: [Src; 3],
        table: u64,
        q: PredSrc,
    },
    /// `add.cc`, `addc`, ..: whether the carry flag is read, and whether it is written.
    Extended {
        f: Extended,
        ty: Ty,
        d: Reg,
        s: [Src; 3],
        flag: Reg,
        takes: bool,
        gives: bool,
    },
    Selp {
        d: Reg,
        a: Src,
        b: Src,
        p: PredSrc,
    },
    Logic {
        f: Logic,
        d: Reg,
        a: PredSrc,
        b: PredSrc,
    },
    Pack {
        d: Reg,
        parts: Vec<Src>,
        bits: u32,
    },
    Unpack {
        a: Src,
        parts: Vec<Option<Reg>>,
        bits: u32,
    },
    Bra {
        target: u32,
        uniform: bool,
    },
    /// `brx.idx`
    Brx {
        index: Src,
        targets: Vec<u32>,
    },
    Exit,
    Trap,
    /// `vprintf`: the place in local memory of its result.
    Print {
        result: Option<u32>,
    },
    /// `__assertfail`: the places in local memory of its parameters.
    Assert {
        params: Vec<u32>,
    },
    /// `griddepcontrol.wait`
    GridWait,
    /// `griddepcontrol.launch_dependents`
    GridLaunch,
    /// An instruction that only gives time away.
    Sleep,
    /// One that changes nothing here.
    Nothing,
    Ld {
        ty: Ty,
        width: u32,
        d: Vec<Option<Reg>>,
        addr: Addr,
        order: Order,
        /// `.nc`: the bytes do not change while the kernel runs.
        constant: bool,
    },
    St {
        ty: Ty,
        s: Vec<Src>,
        addr: Addr,
        order: Order,
    },
    Atom {
        semantics: Semantics,
        f: AtomFn,
        ty: Ty,
        d: Option<Reg>,
        addr: Addr,
        b: Src,
        c: Src,
    },
    /// `red` and `atom` of a vector in global memory, each element by itself; `red` has no destinations.
    RedVector {
        semantics: Semantics,
        f: AtomFn,
        ty: Ty,
        d: Vec<Option<Reg>>,
        addr: Addr,
        b: Vec<Src>,
    },
    /// `st.async`, and with a function `red.async`: each lane writes to another block, where an mbarrier counts the bytes.
    Post {
        f: Option<AtomFn>,
        ty: Ty,
        s: Vec<Src>,
        to: Addr,
        barrier: Addr,
    },
    /// `fence.proxy.tensormap::generic.acquire`
    FenceMap {
        addr: Addr,
        scope: Scope,
    },
    /// `tensormap.replace`: `ordinal` is the dimension, where the field has several.
    MapReplace {
        field: MapField,
        addr: Addr,
        ordinal: u32,
        value: Src,
    },
    /// `tensormap.cp_fenceproxy`: copies a tensor map to global memory and releases it.
    MapRelease {
        to: Addr,
        from: Addr,
        scope: Scope,
    },
    /// Checks the address, touches nothing.
    Prefetch {
        addr: Addr,
        tensor_map: bool,
    },
    CpAsync {
        to: Addr,
        from: Addr,
        bytes: u32,
        source: Option<Src>,
        /// Where it holds, zeros are written.
        ignore: Option<PredSrc>,
    },
    CpAsyncCommit,
    CpAsyncWait {
        pending: u32,
        all: bool,
    },
    Shfl {
        f: Shfl,
        d: Reg,
        p: Option<Reg>,
        a: Src,
        b: Src,
        c: Src,
        members: Src,
    },
    Vote {
        f: Vote,
        d: Reg,
        a: PredSrc,
        members: Src,
    },
    Match {
        all: bool,
        ty: Ty,
        d: Reg,
        p: Option<Reg>,
        a: Src,
        members: Src,
    },
    Redux {
        f: AtomFn,
        ty: Ty,
        d: Reg,
        a: Src,
        members: Src,
    },
    Activemask {
        d: Reg,
    },
    Elect {
        d: Option<Reg>,
        p: Reg,
        members: Src,
    },
    WarpSync {
        members: Src,
    },
    Bar {
        arrive: bool,
        id: Src,
        count: Option<Src>,
        aligned: bool,
    },
    /// `bar.red`: a barrier of all its threads that also reduces a predicate.
    BarRed {
        f: Reduction,
        d: Reg,
        id: Src,
        count: Option<Src>,
        a: PredSrc,
        aligned: bool,
    },
    ClusterArrive {
        release: bool,
        aligned: bool,
    },
    ClusterWait {
        aligned: bool,
    },
    Fence(Fence),
    Mbar {
        op: Mbar,
        addr: Addr,
    },
    Tensor(Box<Tensor>),
    Bulk(Box<Bulk>),
    BulkCommit,
    BulkWait {
        pending: u32,
        read: bool,
    },
    WgFence,
    WgCommit,
    WgWait {
        pending: u32,
    },
    Wgmma(Box<Wgmma>),
    Mma(Box<Mma>),
    MmaQuads(Box<Quads>),
    /// `movmatrix`: transposes 8 x 8 elements of 16 bits, of which each thread has two neighbours of a row.
    Movmatrix {
        d: Reg,
        a: Reg,
    },
    Ldmatrix {
        d: Vec<Reg>,
        trans: bool,
        addr: Addr,
    },
    Stmatrix {
        s: Vec<Reg>,
        trans: bool,
        addr: Addr,
    },
    WmmaLoad {
        d: Vec<Reg>,
        matrix: WmmaMatrix,
        addr: Addr,
        stride: Src,
    },
    WmmaStore {
        s: Vec<Reg>,
        matrix: WmmaMatrix,
        addr: Addr,
        stride: Src,
    },
    WmmaMma(Box<WmmaMma>),
    Setmaxnreg {
        inc: bool,
        count: u32,
    },
}

impl Op {
    /// Must every live thread of the warp execute this together?
    pub(crate) fn aligned(&self) -> bool {
        match self {
            Op::Bar { aligned, .. }
            | Op::BarRed { aligned, .. }
            | Op::ClusterArrive { aligned, .. }
            | Op::ClusterWait { aligned, .. } => *aligned,
            Op::WgFence | Op::WgCommit | Op::WgWait { .. } | Op::Wgmma(_) | Op::Mma(_) => true,
            Op::MmaQuads(_) | Op::Movmatrix { .. } => true,
            Op::Ldmatrix { .. } | Op::Stmatrix { .. } | Op::Setmaxnreg { .. } => true,
            Op::WmmaLoad { .. } | Op::WmmaStore { .. } | Op::WmmaMma(_) | Op::MapRelease { .. } => true,
            _ => false,
        }
    }

    /// The membership mask of a `.sync` instruction that names its threads.
    pub(crate) fn members(&self) -> Option<Src> {
        match self {
            Op::Shfl { members, .. }
            | Op::Vote { members, .. }
            | Op::Match { members, .. }
            | Op::Redux { members, .. }
            | Op::Elect { members, .. }
            | Op::WarpSync { members } => Some(*members),
            _ => None,
        }
    }
}
