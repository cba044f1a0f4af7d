//! What kernels read and write.

use crate::Op;

/// An operand in device memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operand {
    /// The first factor. Of a sparse operand it is the stored values that are addressed, a `[nnzb * bm, bk]` matrix.
    A,
    /// The second factor.
    B,
    /// The result.
    C,
    /// The f32 scales of A.
    ScaleA,
    /// The f32 scales of B.
    ScaleB,
    /// A vector or matrix of the epilogue, by the number of its parameter.
    Epilogue(usize),
    /// The second result of the epilogue: f32, one for every row of C.
    Second,
    /// The row of C, u32, that each row of the product is written to.
    Order,
    /// The values of an attention: V. Q is [`Operand::A`], K is [`Operand::B`], O is [`Operand::C`].
    V,
}

impl Operand {
    pub(super) fn words(self, op: Op) -> &'static str {
        match (self, op) {
            (Self::A, Op::Attention) => "Q",
            (Self::B, Op::Attention) => "K",
            (Self::C, Op::Attention) => "O",
            (Self::Second, Op::Attention) => "the LSE of each row, f32, or null",
            (Self::V, _) => "V",
            (Self::A, Op::Dsd) => "A's values, [nnzb * bm, bk]",
            (Self::A, _) => "A",
            (Self::B, Op::Dds) => "B's values, [nnzb * bm, bk]",
            (Self::B, _) => "B",
            (Self::C, Op::Sdd) => "C's values, [nnzb, bm, bk]",
            (Self::C, _) => "C",
            (Self::ScaleA, _) => "A's factors",
            (Self::ScaleB, _) => "B's factors",
            (Self::Epilogue(_), Op::Attention) => "a vector of the score",
            (Self::Epilogue(_), _) => "an operand of the epilogue",
            (Self::Second, _) => "the second result of the epilogue, f32 by rows",
            (Self::Order, _) => "the row of C for each row of the product, u32",
        }
    }
}
