//! A part of a product in f64, which results are compared with before they are timed.

use bsr_codegen::{KernelSpec, Op};

use crate::error::KernelError;
use crate::reference::{Comparison, product_rows, sddmm_blocks};
use crate::{Bsr, Dense, Element, Scales, Structure};

/// Lines that are compared.
const LINES: usize = 16;

/// Some rows of a product in f64, or some blocks of a sparse one.
#[derive(Clone, Debug)]
pub struct Sample {
    lines: Vec<usize>,
    values: Vec<f64>,
    longest: usize,
}

impl Sample {
    /// Rows of a product of a sparse factor and a dense one.
    pub(super) fn of_rows<S: Element, D: Element>(
        spec: &KernelSpec,
        sparse: &Bsr<S>,
        dense: &Dense<D>,
    ) -> Result<Self, KernelError> {
        let (rows, cols) = match spec.transpose.is_on() {
            true => (sparse.cols(), sparse.rows()),
            false => (sparse.rows(), sparse.cols()),
        };
        let (m, longest) = if spec.op == Op::Dds { (dense.rows(), rows) } else { (rows, cols) };
        let lines = spread(m);
        let values = product_rows(spec, sparse, dense, &Scales::NONE, &lines)?;
        Ok(Self { lines, values, longest })
    }

    /// Stored blocks of an SDDMM.
    pub(super) fn of_blocks<A: Element, B: Element>(
        spec: &KernelSpec,
        a: &Dense<A>,
        b: &Dense<B>,
        structure: &Structure,
    ) -> Result<Self, KernelError> {
        let lines = spread(structure.nnzb());
        let values = match spec.transpose.is_on() {
            true => sddmm_blocks(b.view().transposed(), a.view().transposed(), structure, &lines)?,
            false => sddmm_blocks(a, b, structure, &lines)?,
        };
        Ok(Self { lines, values, longest: a.cols() })
    }

    /// How far these rows of a result are from the sample, or these blocks, one a row.
    pub(super) fn compare<C: Element>(&self, c: &Dense<C>) -> Result<Comparison, KernelError> {
        Ok(Comparison::of_rows(c, &self.lines, &self.values)?)
    }

    /// The most products that an element sums.
    pub fn longest(&self) -> usize {
        self.longest
    }
}

/// So many lines spread over all of them, the first and the last among them.
fn spread(all: usize) -> Vec<usize> {
    let count = LINES.min(all);
    let mut lines: Vec<usize> = (0..count).map(|at| at * (all - 1) / (count - 1).max(1)).collect();
    lines.dedup();
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_has_the_first_line_and_the_last() {
        assert!(spread(0).is_empty());
        assert_eq!(spread(1), [0]);
        assert_eq!(spread(3), [0, 1, 2]);
        let lines = spread(1000);
        assert_eq!((lines.len(), lines[0], lines[15]), (16, 0, 999));
    }
}
