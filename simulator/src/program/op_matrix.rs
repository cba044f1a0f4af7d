//! Operations of the tensor core.

use super::operand::{PredSrc, Reg, Src};
use super::types::Ty;

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
    /// Integers: sums stop at the ends of the range instead of wrapping.
    pub(crate) saturate: bool,
}

/// `mma.sync`: D = A * B + C over one warp.
#[derive(Clone, Debug)]
pub(crate) struct Mma {
    /// Rows of A: 16, or 8 of f64.
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
