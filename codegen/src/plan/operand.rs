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
    /// The f32 scales of V.
    ScaleV,
    /// A vector or matrix of the epilogue, by the number of its parameter.
    Epilogue(usize),
    /// The second result of the epilogue: f32, one for every row of C.
    Second,
    /// The row of C, u32, that each row of the product is written to.
    Order,
    /// The values of an attention: V. Q is [`Operand::A`], K is [`Operand::B`], O is [`Operand::C`], LSE is
    /// [`Operand::Second`]. In its gradient, [`Operand::C`] is dQ or dK.
    V,
    /// The logit of each head that takes part in the softmax of an attention and has no value, f32.
    Sinks,
    /// The pages of K and V of each problem, in the order of its keys, i32.
    Pages,
    /// The O of an attention whose gradient is computed.
    Output,
    /// The gradient of O: dO.
    OutputGradient,
    /// The gradient of LSE, f32 for each query, or null where nothing depends on LSE.
    LseGradient,
    /// What the kernel of dQ passes on to that of dK and dV, f32: for each head, -LSE in units of log 2 of its queries, then
    /// their delta. Queries count up to the end of the last block.
    RowTerms,
    /// The gradient of V: dV.
    ValueGradient,
    /// The gradients of a score's parameters, f32, summed for each row: `[problems, heads, parameters, rows]`, of the queries or
    /// keys whose kernel sums them.
    ScoreSums,
}

impl Operand {
    pub(super) fn words(self, op: Op) -> &'static str {
        match (self, op) {
            (Self::A, Op::Dsd | Op::Dss | Op::Sss) => "A's values, [nnzb * bm, bk]",
            (Self::A, Op::Dds | Op::Sdd) => "A",
            (Self::A, Op::Attention | Op::AttentionDq | Op::AttentionDkv) => "Q",
            (Self::B, Op::Dds) => "B's values, [nnzb * bm, bk]",
            (Self::B, Op::Dsd | Op::Sdd) => "B",
            (Self::B, Op::Dss | Op::Sss) => "B's values, [nnzb * bk, bn]",
            (Self::B, Op::Attention | Op::AttentionDq | Op::AttentionDkv) => "K",
            (Self::C, Op::Dsd | Op::Dds | Op::Dss) => "C",
            (Self::C, Op::Sss) => "C's values, [nnzb * bm, bn]",
            (Self::C, Op::Sdd) => "C's values, [nnzb, bm, bk]",
            (Self::C, Op::Attention) => "O",
            (Self::C, Op::AttentionDq) => "dQ",
            (Self::C, Op::AttentionDkv) => "dK",
            (Self::V, _) => "V",
            (Self::Sinks, _) => "the sink of each head, f32",
            (Self::Pages, _) => "the page table, i32",
            (Self::Output, _) => "O",
            (Self::OutputGradient, _) => "dO",
            (Self::LseGradient, _) => "the gradient of LSE, f32, or null",
            (Self::RowTerms, _) => "-LSE in units of log 2, then delta, f32, of each head's queries in whole blocks",
            (Self::ValueGradient, _) => "dV",
            (Self::ScoreSums, Op::AttentionDkv) => {
                "sums of the score's gradients, f32, [problems, heads, parameters, keys]"
            }
            (Self::ScoreSums, _) => "sums of the score's gradients, f32, [problems, heads, parameters, queries]",
            (Self::ScaleA, Op::Attention) => "Q's factors, f32, by head of K",
            (Self::ScaleB, Op::Attention) => "K's factors",
            (Self::ScaleV, _) => "V's factors",
            (Self::ScaleA, _) => "A's factors",
            (Self::ScaleB, _) => "B's factors",
            (Self::Epilogue(_), op) if op.is_of_heads() => "a vector of the score",
            (Self::Epilogue(_), _) => "an operand of the epilogue",
            (Self::Second, Op::Attention) => "the LSE of each row, f32, or null",
            (Self::Second, op) if op.is_gradient() => "LSE, the logarithm of each row's sum of exponentials, f32",
            (Self::Second, _) => "the second result of the epilogue, f32 by rows",
            (Self::Order, _) => "the row of C for each row of the product, u32",
        }
    }
}
