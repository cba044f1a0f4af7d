//! What a kernel reads of each problem of a list, where it finds operands by their addresses.

use super::{Operand, Problem};

/// The record of a problem: 48 bytes of device memory.
///
/// | bytes | what |
/// |---|---|
/// | 0, 8, 16 | addresses of the sparse factor's values, of the dense factor and of C |
/// | 24 .. 36 | rows, columns and K of the product as the kernel computes it |
/// | 36 .. 48 | leading dimensions of a dense left factor, of the dense right factor and of C, in elements |
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProblemRecord {
    operands: [Operand; 3],
    numbers: [u32; 6],
}

impl ProblemRecord {
    pub(crate) const A: u32 = 0;
    pub(crate) const B: u32 = 8;
    pub(crate) const C: u32 = 16;
    pub(crate) const M: u32 = 24;
    pub(crate) const N: u32 = 28;
    pub(crate) const K: u32 = 32;
    pub(crate) const LDA: u32 = 36;
    pub(crate) const LDB: u32 = 40;
    pub(crate) const LDC: u32 = 44;
    /// Bytes of a record.
    pub(crate) const BYTES: u32 = 48;
    /// Words of a record.
    #[doc(hidden)]
    pub const WORDS: usize = 6;

    /// That of `problem`, whose factors are these.
    pub(crate) fn new([a, b]: [Operand; 2], problem: &Problem) -> Self {
        let Problem { m, n, k, lda, ldb, ldc, .. } = *problem;
        Self { operands: [a, b, Operand::C], numbers: [m, n, k, lda, ldb, ldc].map(|number| number as u32) }
    }

    /// Its words of 64 bits, with operands at these addresses.
    ///
    /// # Errors
    /// Those of `address`.
    #[doc(hidden)]
    pub fn words<E>(&self, mut address: impl FnMut(Operand) -> Result<u64, E>) -> Result<[u64; Self::WORDS], E> {
        let [m, n, k, lda, ldb, ldc] = self.numbers.map(u64::from);
        let [a, b, c] = self.operands;
        Ok([address(a)?, address(b)?, address(c)?, m | n << 32, k | lda << 32, ldb | ldc << 32])
    }
}
