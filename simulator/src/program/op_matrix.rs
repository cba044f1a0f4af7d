//! Operations of the tensor core.

use super::op_pure::Logic;
use super::operand::{PredSrc, Reg, Src};
use super::types::Ty;

/// The A operand of `wgmma`.
#[derive(Clone, Debug)]
pub(crate) enum WgA {
    Desc(Src),
    Regs(Vec<Reg>),
}

/// What says where the elements of a sparse A belong: half of each row, or more exactly of each two or four neighbours, is zero
/// and not stored.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sparse {
    pub(crate) metadata: Reg,
    /// The type of A, and the elements of a row with those that are not stored.
    pub(crate) ty: Ty,
    pub(crate) k: u32,
    /// Which threads of four have the metadata: the first, second, .. [`threads`](Self::threads) of them.
    pub(crate) selector: u32,
    /// Whether the places of a chunk have to ascend.
    pub(crate) ordered: bool,
}

impl Sparse {
    /// Elements of a chunk, of which half are stored.
    pub(crate) fn chunk(&self) -> u32 {
        match self.ty.bits() {
            4 => 8,
            32 => 2,
            _ => 4,
        }
    }

    /// Neighbours that are stored or not together: two of 4 bits.
    pub(crate) fn together(&self) -> u32 {
        if self.ty.bits() == 4 { 2 } else { 1 }
    }

    /// Threads of four that have metadata: 4 bits of each chunk of 16 rows, in registers of eight fours of threads.
    pub(crate) fn threads(&self) -> u32 {
        self.k / self.chunk() / 4
    }
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
    /// Integers: sums stop at the ends of the range instead of wrapping.
    pub(crate) saturate: bool,
    pub(crate) sparse: Option<Sparse>,
}

impl Wgmma {
    /// Elements of a row of A that are stored.
    pub(crate) fn stored_k(&self) -> u32 {
        if self.sparse.is_some() { self.k / 2 } else { self.k }
    }

    /// The registers that the tensor core reads beside accumulators.
    pub(crate) fn inputs(&self) -> impl Iterator<Item = Reg> {
        let a: &[Reg] = match &self.a {
            WgA::Regs(all) => all,
            WgA::Desc(_) => &[],
        };
        a.iter().copied().chain(self.sparse.map(|sparse| sparse.metadata))
    }
}

/// `mma.sync`: D = A * B + C over one warp.
#[derive(Clone, Debug)]
pub(crate) struct Mma {
    /// Rows of A: 16 or 8.
    pub(crate) m: u32,
    pub(crate) k: u32,
    pub(crate) d_ty: Ty,
    pub(crate) a_ty: Ty,
    pub(crate) b_ty: Ty,
    pub(crate) c_ty: Ty,
    pub(crate) d: Vec<Reg>,
    pub(crate) a: Vec<Reg>,
    pub(crate) b: Vec<Reg>,
    pub(crate) c: Vec<Src>,
    /// Integers: sums stop at the ends of the range instead of wrapping.
    pub(crate) saturate: bool,
    /// Of single bits: how two of them are combined before the ones are counted.
    pub(crate) bitwise: Option<Logic>,
    pub(crate) sparse: Option<Sparse>,
}

impl Mma {
    /// Elements of a row of A that are stored.
    pub(crate) fn stored_k(&self) -> u32 {
        if self.sparse.is_some() { self.k / 2 } else { self.k }
    }
}

/// `mma.m8n8k4` of f16: four products, one for each eight threads.
#[derive(Clone, Debug)]
pub(crate) struct Quads {
    pub(crate) d_ty: Ty,
    pub(crate) c_ty: Ty,
    pub(crate) a_by_rows: bool,
    pub(crate) b_by_columns: bool,
    pub(crate) d: Vec<Reg>,
    pub(crate) a: Vec<Reg>,
    pub(crate) b: Vec<Reg>,
    pub(crate) c: Vec<Src>,
}

/// Which operand a `wmma` fragment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Frag {
    A,
    B,
    C,
}

/// K of every `wmma` shape that is modelled.
pub(crate) const WMMA_K: u32 = 16;

/// A matrix whose elements a warp holds in a `wmma` fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WmmaMatrix {
    pub(crate) frag: Frag,
    /// The shape's M and N.
    pub(crate) m: u32,
    pub(crate) n: u32,
    pub(crate) row_major: bool,
    pub(crate) ty: Ty,
}

impl WmmaMatrix {
    pub(crate) fn rows(&self) -> u32 {
        if self.frag == Frag::B { WMMA_K } else { self.m }
    }

    pub(crate) fn columns(&self) -> u32 {
        if self.frag == Frag::A { WMMA_K } else { self.n }
    }

    pub(crate) fn elements(&self) -> usize {
        (self.rows() * self.columns()) as usize
    }

    /// (lines, elements of a line): rows or columns, as it is in memory.
    pub(crate) fn lines(&self) -> (u32, u32) {
        if self.row_major { (self.rows(), self.columns()) } else { (self.columns(), self.rows()) }
    }

    /// Registers of a thread's fragment. Those of f16 operands are 8 whatever the shape: they have some elements
    /// more than once.
    pub(crate) fn registers(&self) -> usize {
        match (self.frag, self.ty) {
            (Frag::C, Ty::F16) => 4,
            (Frag::C, _) | (_, Ty::F16) => 8,
            _ => self.elements() / 64,
        }
    }
}

/// `wmma.mma`: D = A * B + C.
#[derive(Clone, Debug)]
pub(crate) struct WmmaMma {
    pub(crate) a: WmmaMatrix,
    pub(crate) b: WmmaMatrix,
    pub(crate) c: WmmaMatrix,
    pub(crate) d: WmmaMatrix,
    pub(crate) d_regs: Vec<Reg>,
    pub(crate) a_regs: Vec<Reg>,
    pub(crate) b_regs: Vec<Reg>,
    pub(crate) c_regs: Vec<Reg>,
}
