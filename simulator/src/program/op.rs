//! Decoded instructions: every operand resolved, every modifier checked.

use super::types::{Space, Special, Ty};

/// Index of a register in a thread's file.
pub(crate) type Reg = u32;

/// A value that an instruction reads, zero-extended to 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Src {
    Reg(Reg),
    Imm(u64),
    Special(Special),
    /// The address of a shared array: the executing block's rank is added.
    Shared(u32),
}

/// A predicate that an instruction reads. `reg` none: constantly true.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PredSrc {
    pub(crate) reg: Option<Reg>,
    pub(crate) negated: bool,
}

/// `[base + offset]`
#[derive(Clone, Copy, Debug)]
pub(crate) struct Addr {
    pub(crate) base: Src,
    pub(crate) offset: i64,
    pub(crate) space: Space,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IntFn {
    Add,
    Sub,
    MulLo,
    MulHi,
    MulWide,
    MadLo,
    MadHi,
    MadWide,
    Div,
    Rem,
    Neg,
    Abs,
    Min,
    Max,
    Shl,
    Shr,
    And,
    Or,
    Xor,
    Not,
    Cnot,
    Popc,
    Clz,
    Brev,
    Bfe,
    Bfi,
    Bfind,
    Prmt,
    ShfL { wrap: bool },
    ShfR { wrap: bool },
    Lop3,
    Sad,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FloatFn {
    Add,
    Sub,
    Mul,
    Fma,
    Div,
    Neg,
    Abs,
    Min,
    Max,
    Rcp,
    Sqrt,
    Rsqrt,
    Ex2,
    Lg2,
    Sin,
    Cos,
    Tanh,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct FloatMods {
    pub(crate) ftz: bool,
    pub(crate) sat: bool,
    pub(crate) nan: bool,
    pub(crate) relu: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Round {
    None,
    Rn,
    Rz,
    Rm,
    Rp,
    Rna,
    Rni,
    Rzi,
    Rmi,
    Rpi,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cvt {
    pub(crate) to: Ty,
    pub(crate) from: Ty,
    pub(crate) round: Round,
    pub(crate) sat: bool,
    pub(crate) ftz: bool,
    pub(crate) relu: bool,
    /// Width of the destination register, to which an integer is extended.
    pub(crate) width: u32,
}

/// A function of up to four values, thread by thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pure {
    Int(IntFn, Ty),
    Float(FloatFn, Ty, FloatMods),
    Cvt(Cvt),
    /// A copy.
    Mov(Ty),
    /// Window arithmetic of `cvta`.
    CvtaTo(Space),
    CvtaFrom(Space),
    /// `mapa`: the address of the same place in another block of the cluster.
    Mapa { generic: bool },
    /// The rank of the block an address belongs to.
    Getctarank { generic: bool },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cmp {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    Equ,
    Neu,
    Ltu,
    Leu,
    Gtu,
    Geu,
    Num,
    Nan,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Logic {
    And,
    Or,
    Xor,
    Not,
    Mov,
}

/// The ordering of a memory access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Weak,
    Strong,
}

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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fence {
    /// Between threads: `membar`, `fence.acq_rel`, `fence.sc`.
    Thread,
    /// Between the generic and the async proxy.
    ProxyAsync,
    MbarrierInit,
}

#[derive(Clone, Debug)]
pub(crate) enum Mbar {
    Init { count: Src },
    Inval,
    ExpectTx { bytes: Src },
    CompleteTx { bytes: Src },
    Arrive { state: Option<Reg>, count: Src, expect: Option<Src>, drop: bool, complete: bool, release: bool },
    Wait { done: Reg, parity: bool, what: Src, acquire: bool, suspends: bool },
    /// `cp.async.mbarrier.arrive`
    CpAsyncArrive { noinc: bool },
}

/// Which way a bulk or tensor copy goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    ToShared,
    ToGlobal,
    /// `cp.reduce.async.bulk`: add to global memory.
    ReduceAdd,
    /// `shared::cta` to another block's `shared::cluster`.
    ToCluster,
    Prefetch,
}

#[derive(Clone, Debug)]
pub(crate) struct Tensor {
    pub(crate) way: Way,
    /// The shared-memory side; absent for a prefetch.
    pub(crate) shared: Option<Addr>,
    pub(crate) map: Addr,
    pub(crate) coords: Vec<Src>,
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

/// The A operand of `wgmma`.
#[derive(Clone, Debug)]
pub(crate) enum WgA {
    Desc(Src),
    Regs(Vec<Reg>),
}

#[derive(Clone, Debug)]
pub(crate) struct Wgmma {
    pub(crate) n: u32,
    pub(crate) k: u32,
    pub(crate) d_ty: Ty,
    pub(crate) a_ty: Ty,
    pub(crate) b_ty: Ty,
    pub(crate) d: Vec<Reg>,
    pub(crate) a: WgA,
    pub(crate) b: Src,
    pub(crate) scale_d: PredSrc,
    pub(crate) negate_a: bool,
    pub(crate) negate_b: bool,
    pub(crate) trans_a: bool,
    pub(crate) trans_b: bool,
}

/// `mma.sync`: D = A * B + C over one warp.
#[derive(Clone, Debug)]
pub(crate) struct Mma {
    pub(crate) k: u32,
    pub(crate) d_ty: Ty,
    pub(crate) a_ty: Ty,
    pub(crate) b_ty: Ty,
    pub(crate) c_ty: Ty,
    pub(crate) d: Vec<Reg>,
    pub(crate) a: Vec<Reg>,
    pub(crate) b: Vec<Reg>,
    pub(crate) c: Vec<Src>,
}

/// A decoded operation.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Pure { f: Pure, d: Reg, s: [Src; 4] },
    Setp { cmp: Cmp, ty: Ty, ftz: bool, p: Option<Reg>, q: Option<Reg>, a: Src, b: Src, with: Option<(Logic, PredSrc)> },
    Set { cmp: Cmp, to: Ty, ty: Ty, d: Reg, a: Src, b: Src },
    Selp { d: Reg, a: Src, b: Src, p: PredSrc },
    Logic { f: Logic, d: Reg, a: PredSrc, b: PredSrc },
    Pack { d: Reg, parts: Vec<Src>, bits: u32 },
    Unpack { a: Src, parts: Vec<Option<Reg>>, bits: u32 },
    Bra { target: u32, uniform: bool },
    Exit,
    Trap,
    Nop,
    /// An instruction that only gives time away.
    Sleep,
    Ld { ty: Ty, width: u32, d: Vec<Option<Reg>>, addr: Addr, order: Order },
    St { ty: Ty, s: Vec<Src>, addr: Addr, order: Order },
    Atom { f: AtomFn, ty: Ty, d: Option<Reg>, addr: Addr, b: Src, c: Src },
    /// Checks the address, touches nothing.
    Prefetch { addr: Addr, tensor_map: bool },
    CpAsync { to: Addr, from: Addr, bytes: u32, source: Option<Src> },
    CpAsyncCommit,
    CpAsyncWait { pending: u32, all: bool },
    Shfl { f: Shfl, d: Reg, p: Option<Reg>, a: Src, b: Src, c: Src, members: Src },
    Vote { f: Vote, d: Reg, a: PredSrc, members: Src },
    Match { all: bool, ty: Ty, d: Reg, p: Option<Reg>, a: Src, members: Src },
    Redux { f: AtomFn, ty: Ty, d: Reg, a: Src, members: Src },
    Activemask { d: Reg },
    Elect { d: Option<Reg>, p: Reg, members: Src },
    WarpSync { members: Src },
    Bar { arrive: bool, id: Src, count: Option<Src>, aligned: bool },
    ClusterArrive { release: bool, aligned: bool },
    ClusterWait { acquire: bool, aligned: bool },
    Fence(Fence),
    Mbar { op: Mbar, addr: Addr },
    Tensor(Box<Tensor>),
    Bulk(Box<Bulk>),
    BulkCommit,
    BulkWait { pending: u32, read: bool },
    WgFence,
    WgCommit,
    WgWait { pending: u32 },
    Wgmma(Box<Wgmma>),
    Mma(Box<Mma>),
    Ldmatrix { d: Vec<Reg>, trans: bool, addr: Addr },
    Stmatrix { s: Vec<Reg>, trans: bool, addr: Addr },
    WmmaLoad { d: Vec<Reg>, frag: Frag, row: bool, ty: Ty, addr: Addr, stride: Src },
    WmmaStore { s: Vec<Reg>, row: bool, ty: Ty, addr: Addr, stride: Src },
    WmmaMma { d: Vec<Reg>, a: Vec<Reg>, b: Vec<Reg>, c: Vec<Reg>, ty: Ty, d_ty: Ty, c_ty: Ty },
    Setmaxnreg { inc: bool, count: u32 },
}

/// Which operand a `wmma` fragment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Frag {
    A,
    B,
    C,
}

impl Op {
    /// Must every live thread of the warp execute this together?
    pub(crate) fn aligned(&self) -> bool {
        match self {
            Op::Bar { aligned, .. } | Op::ClusterArrive { aligned, .. } | Op::ClusterWait { aligned, .. } => *aligned,
            Op::WgFence | Op::WgCommit | Op::WgWait { .. } | Op::Wgmma(_) | Op::Mma(_) => true,
            Op::Ldmatrix { .. } | Op::Stmatrix { .. } | Op::Setmaxnreg { .. } => true,
            Op::WmmaLoad { .. } | Op::WmmaStore { .. } | Op::WmmaMma { .. } => true,
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
