//! Operations on values, thread by thread.

use super::types::{Space, Ty};

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
    ShfL {
        wrap: bool,
    },
    ShfR {
        wrap: bool,
    },
    Lop3,
    Sad,
    /// Four products of bytes and a sum; whether those of the first operand are signed.
    Dp4a {
        signed: bool,
    },
    /// Two products of a half and a byte of the low or the high half of the second operand, and a sum.
    Dp2a {
        signed: bool,
        high: bool,
    },
    Mul24Lo,
    Mul24Hi,
    Mad24Lo,
    Mad24Hi,
    /// Signed sums that stop at the ends of their range.
    AddSat,
    SubSat,
    MadHiSat,
    Mad24HiSat,
    /// The smaller and the larger one, and zero in place of what is negative.
    MinRelu,
    MaxRelu,
    Fns,
    Szext {
        wrap: bool,
    },
    Bmsk {
        wrap: bool,
    },
    /// `prmt` in one of its modes.
    Permute(Permute),
    /// Two saturated integers of so many bits, behind those of the third operand.
    Pack {
        bits: u32,
        signed: bool,
    },
}

/// The modes of `prmt`, by which the selector's two bits name all four bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Permute {
    F4e,
    B4e,
    Rc8,
    Ecl,
    Ecr,
    Rc16,
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
    Copysign,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct FloatMods {
    pub(crate) ftz: bool,
    pub(crate) sat: bool,
    pub(crate) nan: bool,
    pub(crate) relu: bool,
    /// `.xorsign.abs`
    pub(crate) xorsign: bool,
    /// A direction, or none for the nearest.
    pub(crate) round: Round,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Round {
    #[default]
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
    /// `.sat`: integers stop at the ends of their range, floats at 0 and 1.
    pub(crate) sat: bool,
    /// `.satfinite`: what overflows becomes the largest finite value.
    pub(crate) finite: bool,
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
    Mapa {
        generic: bool,
    },
    /// The rank of the block an address belongs to.
    Getctarank {
        generic: bool,
    },
    /// `slct`, by the sign of a third operand of this type, `.s32` or `.f32`.
    Slct(Ty),
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

/// What `testp` asks of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    Finite,
    Infinite,
    Number,
    NotANumber,
    Normal,
    Subnormal,
}

/// Arithmetic with the carry flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extended {
    Add,
    Sub,
    MadLo,
    MadHi,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Logic {
    And,
    Or,
    Xor,
    Not,
    Mov,
}
