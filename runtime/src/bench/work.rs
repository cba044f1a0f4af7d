//! How much there is to do: operations executed, bytes that must move, and the dense problem of equal work.

use bsr_codegen::{Dtype, Op, Switch};
use serde::{Deserialize, Serialize};

use crate::extents::{Counted, Extents, counted};

/// The size of one sparse product C\[m, n\] = A\[m, k\] * B\[k, n\], A or B sparse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Work {
    /// Which factor is sparse.
    #[serde(default)]
    pub op: Op,
    /// Whether it is read transposed.
    #[serde(default)]
    pub transpose: Switch,
    /// Rows of A and C.
    pub m: usize,
    /// Columns of B and C.
    pub n: usize,
    /// Columns of A, rows of B.
    pub k: usize,
    /// Rows and columns of a block.
    pub block: (usize, usize),
    /// Stored blocks.
    pub nnzb: usize,
    /// Multiplications, where they do not follow from the rest: of pairs of stored blocks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub products: Option<u64>,
    /// Element type of A.
    pub a: Dtype,
    /// Element type of B.
    pub b: Dtype,
    /// Element type of C.
    pub out: Dtype,
}

impl Work {
    /// Operations on stored blocks alone: `2 * nnzb * bm * bk * n`, or `m` where B is sparse, or `k` where C is. What
    /// extends beyond the edge of the matrix counts, since it is stored and multiplied. Of two sparse factors those of all
    /// pairs of stored blocks: `2 * pairs * bm * bk * bn`.
    pub fn executed_flops(&self) -> u64 {
        2 * self.products.unwrap_or(self.stored() * self.along() as u64)
    }

    /// The K of the dense product of M and N that executes as many operations:
    /// `executed_flops / (2 * m * n)`, rounded to the nearest multiple of 16 bytes of A, and of 8 elements at least, so
    /// that cuBLASLt can use its widest loads. `None` if there is nothing to execute.
    ///
    /// The flagship (M = N = 8192, blocks of 512 x 112, 16 a row) gives 16 * 112 = 1792 exactly.
    ///
    /// An SDDMM is compared with a dense product over the same K, and this returns that K.
    pub fn equal_dense_k(&self) -> Option<usize> {
        if self.samples() {
            return (self.executed_flops() > 0).then_some(self.k);
        }
        let rows = self.rows() as u64;
        if rows == 0 || self.along() == 0 || self.executed_flops() == 0 {
            return None;
        }
        let unit = u64::from(16 / self.a.bytes()).max(8);
        let stored = self.products.map_or(self.stored(), |products| products / self.along() as u64);
        let units = (stored + unit / 2 * rows) / (unit * rows);
        usize::try_from(unit * units.max(1)).ok()
    }

    /// M, N and K of the dense product of equal work: of the same M and N, or, for an SDDMM, of the same M and K
    /// and as many columns as make as many elements as are stored, rounded to a multiple of 16 bytes.
    pub fn equal_dense(&self) -> Option<[usize; 3]> {
        let k = self.equal_dense_k()?;
        if !self.samples() {
            return Some([self.m, self.n, k]);
        }
        let (rows, unit) = (self.m as u64, u64::from(16 / self.b.bytes()).max(8));
        let units = (self.stored() + unit / 2 * rows) / (unit * rows);
        Some([self.m, usize::try_from(unit * units.max(1)).ok()?, k])
    }

    /// Bytes that must cross HBM at least once when every cache starts cold: stored values, column indices and
    /// row pointers (and block numbers where block columns are read); as many lines of the dense factor as there can
    /// be stored columns; all of C. For an SDDMM: the pattern, as many rows of A and columns of B as there can be
    /// blocks for, the stored values.
    pub fn compulsory_bytes(&self) -> u64 {
        if self.samples() {
            return self.sddmm_bytes();
        }
        let by_columns = self.transpose.is_on() != (self.op == Op::Dds);
        let (rows, depth) = if by_columns { (self.block.1, self.block.0) } else { self.block };
        let (sparse, dense) = if self.op == Op::Dds { (self.b, self.a) } else { (self.a, self.b) };
        let size = |dtype: Dtype| u64::from(dtype.bytes());
        let indices = self.nnzb * if by_columns { 2 } else { 1 };
        let pattern = 4 * (indices + self.rows().div_ceil(rows.max(1)) + 1) as u64;
        let lines = self.k.min(self.nnzb.saturating_mul(depth)) as u64;
        self.stored() * size(sparse)
            + pattern
            + lines * self.along() as u64 * size(dense)
            + self.m as u64 * self.n as u64 * size(self.out)
    }

    fn sddmm_bytes(&self) -> u64 {
        let size = |dtype: Dtype| u64::from(dtype.bytes());
        let (rows, cols) = if self.transpose.is_on() { (self.block.1, self.block.0) } else { self.block };
        let blocks = |side: usize, all: usize| all.min(self.nnzb.saturating_mul(side)) as u64;
        let stored_rows = if self.transpose.is_on() { self.n } else { self.m };
        let pattern = 4 * (self.nnzb + stored_rows.div_ceil(self.block.0.max(1)) + 1) as u64;
        let lines = blocks(rows, self.m) * size(self.a) + blocks(cols, self.n) * size(self.b);
        self.stored() * size(self.out) + pattern + lines * self.k as u64
    }

    /// Whether the result is in blocks.
    fn samples(&self) -> bool {
        match counted(self.op) {
            Counted::Factor => false,
            Counted::Result => true,
        }
    }

    /// GB/s of the compulsory bytes in `us` microseconds; 0 for no time.
    pub fn hbm_gbs(&self, us: f64) -> f64 {
        if us > 0.0 { self.compulsory_bytes() as f64 / us / 1e3 } else { 0.0 }
    }

    /// The extent of C along the sparse factor.
    fn rows(&self) -> usize {
        if self.op == Op::Dds { self.n } else { self.m }
    }

    /// The extent of C along the dense factor, or for an SDDMM, K.
    fn along(&self) -> usize {
        Extents { m: self.m, n: self.n, k: self.k }.along(self.op)
    }

    fn stored(&self) -> u64 {
        self.nnzb as u64 * self.block.0 as u64 * self.block.1 as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLAGSHIP: Work = Work {
        op: Op::Dsd,
        transpose: Switch::Off,
        m: 8192,
        n: 8192,
        k: 8288,
        block: (512, 112),
        nnzb: 16 * 16,
        products: None,
        a: Dtype::F16,
        b: Dtype::F16,
        out: Dtype::F16,
    };

    #[test]
    fn the_flagship_counts_as_its_documentation_says() {
        assert_eq!(FLAGSHIP.executed_flops(), 2 * 256 * 512 * 112 * 8192);
        assert_eq!(FLAGSHIP.equal_dense_k(), Some(1792));
        let (a, b, c) = (256 * 512 * 112 * 2, 8288 * 8192 * 2, 8192 * 8192 * 2);
        assert_eq!(FLAGSHIP.compulsory_bytes(), a + b + c + 4 * (256 + 17));
    }

    #[test]
    fn an_sddmm_is_compared_over_the_same_k() {
        // 1024 blocks of 128 x 128 are 2048 columns of 8192 rows.
        let work = Work { op: Op::Sdd, k: 4096, block: (128, 128), nnzb: 1024, ..FLAGSHIP };
        assert_eq!(work.executed_flops(), 2 * 8192 * 2048 * 4096);
        assert_eq!(work.equal_dense(), Some([8192, 2048, 4096]));
        assert_eq!(work.compulsory_bytes(), 2 * (8192 * 4096 * 2 + 8192 * 2048) + 4 * (1024 + 65));
        let few = Work { nnzb: 2, ..work };
        assert_eq!(few.equal_dense(), Some([8192, 8, 4096]));
        assert_eq!(few.compulsory_bytes(), 2 * (256 * 4096 * 2 + 2 * 128 * 128) + 4 * (2 + 65));
        assert_eq!(Work { nnzb: 0, ..work }.equal_dense(), None);
    }

    #[test]
    fn pairs_of_blocks_are_counted() {
        // Half of all blocks in either factor: a quarter of the pairs of 8192^3.
        let pairs = 64 * 64 * 64 / 4;
        let products = Some(pairs * 128 * 128 * 128);
        let work = Work { op: Op::Dss, k: 8192, block: (128, 128), nnzb: 2048, products, ..FLAGSHIP };
        assert_eq!(work.executed_flops(), 2 * 8192 * 8192 * 2048);
        assert_eq!(work.equal_dense(), Some([8192, 8192, 2048]));
        assert_eq!(Work { products: Some(0), ..work }.equal_dense(), None);
    }

    #[test]
    fn the_equal_k_is_rounded_to_whole_loads_and_never_zero() {
        // 3 blocks of 64 x 64 over 192 rows: 64 executed elements a row.
        let work = Work { m: 192, block: (64, 64), nnzb: 3, ..FLAGSHIP };
        assert_eq!(work.equal_dense_k(), Some(64));
        assert_eq!(Work { m: 190, ..work }.equal_dense_k(), Some(64));
        assert_eq!(Work { m: 8192, nnzb: 1, ..work }.equal_dense_k(), Some(8));
        // 65.4 elements a row: to 16 of one byte each, to 8 of more.
        for (a, k) in [(Dtype::E4M3, 64), (Dtype::I8, 64), (Dtype::F16, 64), (Dtype::F32, 64)] {
            assert_eq!(Work { m: 188, a, ..work }.equal_dense_k(), Some(k), "{a}");
        }
        assert_eq!(Work { m: 170, a: Dtype::E4M3, ..work }.equal_dense_k(), Some(80));
        assert_eq!(Work { m: 170, ..work }.equal_dense_k(), Some(72));
        assert_eq!(Work { nnzb: 0, ..work }.equal_dense_k(), None);
        assert_eq!(Work { m: 0, nnzb: 0, ..work }.equal_dense_k(), None);
    }

    #[test]
    fn a_product_with_a_sparse_b_is_the_transposed_one() {
        // B^T stored: 8192 columns of C in blocks of 512, 1000 rows of A.
        let dsd = Work { n: 1000, ..FLAGSHIP };
        let dds = Work { op: Op::Dds, transpose: Switch::On, m: dsd.n, n: dsd.m, ..dsd };
        assert_eq!(dds.executed_flops(), dsd.executed_flops());
        assert_eq!((dds.equal_dense_k(), dds.compulsory_bytes()), (dsd.equal_dense_k(), dsd.compulsory_bytes()));
        let walked = Work { transpose: Switch::On, block: (112, 512), ..dsd };
        assert_eq!(walked.compulsory_bytes(), dsd.compulsory_bytes() + 4 * 256);
    }

    #[test]
    fn rows_of_b_that_no_block_touches_need_not_move() {
        let one = Work { nnzb: 1, ..FLAGSHIP };
        let c = 8192 * 8192 * 2;
        assert_eq!(one.compulsory_bytes(), 512 * 112 * 2 + 4 * 18 + 112 * 8192 * 2 + c);
        assert!((one.hbm_gbs(1e6) - one.compulsory_bytes() as f64 / 1e9).abs() < 1e-9);
    }
}
