//! Lists of SDDMMs: heads of attention, experts.

use std::borrow::Cow;

use bsr_codegen::{Op, Scale};

use super::{Batch, Span};
use crate::gpu::{DeviceInputs, DevicePtr, NO_INPUTS, UntypedBsr, UntypedDense, UntypedVector};
use crate::kernel::arguments::{UntypedCall, UntypedResults};
use crate::kernel::launcher::check_overlap;
use crate::kernel::matrix::UntypedMatrix;
use crate::kernel::{KernelError, fit, inputs, sddmm};
use crate::operation::{Sddmm, Stored};
use crate::{Dtype, Structure};

/// One SDDMM of a list.
pub(super) type SddmmProblem<'m> = Sddmm<'static, Blocks<'m>>;

/// The blocks of a result: of a matrix, or of a part of it.
#[derive(Debug)]
pub(super) struct Blocks<'m> {
    /// Where they are: C^T's under `transpose = on`.
    structure: Cow<'m, Structure>,
    dtype: Dtype,
    /// First and last byte address (exclusive) of their values.
    values: (DevicePtr, DevicePtr),
}

impl Stored for Blocks<'_> {
    type Address = DevicePtr;

    fn structure(&self) -> &Structure {
        &self.structure
    }

    fn values(&self) -> DevicePtr {
        self.values.0
    }

    fn places(&self) -> usize {
        self.structure.nnzb()
    }
}

impl<'m> Batch<'_, 'm> {
    /// Adds the stored blocks of C = A * B.
    pub(super) fn push_sddmm(
        &mut self,
        call: &UntypedCall<'m>,
        results: UntypedResults<'m>,
    ) -> Result<(), KernelError> {
        let (a, b, c) = matrices(call, &results)?;
        let blocks = Blocks { structure: Cow::Borrowed(c.structure), dtype: c.dtype, values: c.values };
        self.add_sddmm((a, b), blocks, &call.inputs, results.second)
    }

    /// Adds `count` SDDMMs whose factors and results lie one below another.
    pub(super) fn stacked_sddmms(
        &mut self,
        call: &UntypedCall<'m>,
        results: UntypedResults<'m>,
        count: usize,
    ) -> Result<(), KernelError> {
        let (before, (a, b, c)) = (self.sddmms.len(), matrices(call, &results)?);
        let (bm, bk) = c.structure.block();
        for (operand, rows, unit) in [("A", a.rows, 1), ("B", b.rows, 1), ("C", c.structure.rows(), bm)] {
            if count == 0 || !rows.is_multiple_of(count) || !(rows / count).is_multiple_of(unit) {
                return Err(KernelError::Stack { operand, rows, count, unit });
            }
        }
        for index in 0..count {
            let part = |stack: &UntypedDense| stack.stacked(count, index).map_err(KernelError::from);
            let added = self.numbered(|this| {
                let (structure, first) = part_of(c.structure, count, index);
                let block = (bm * bk * c.dtype.bytes() as usize) as u64;
                let start = c.values.0 + first as u64 * block;
                let values = (start, start + structure.nnzb() as u64 * block);
                let blocks = Blocks { structure: Cow::Owned(structure), dtype: c.dtype, values };
                this.add_sddmm((part(&a)?, part(&b)?), blocks, &call.inputs, results.second)
            });
            if let Err(error) = added {
                self.sddmms.truncate(before);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Further operands and a second result, which kernels for lists do not have, are refused as by a launch.
    fn add_sddmm(
        &mut self,
        (a, b): (UntypedDense, UntypedDense),
        c: Blocks<'m>,
        given: &DeviceInputs<'_>,
        second: Option<UntypedVector>,
    ) -> Result<(), KernelError> {
        let (plan, shape) = (&self.launcher.plan, (c.structure.rows(), c.structure.cols()));
        sddmm::operands(plan, &fit::Operand::from(&a), &fit::Operand::from(&b), (c.dtype, &c.structure))?;
        sddmm::scales(plan, given.scales.map_or(Scale::Unscaled, |scales| scales.kind))?;
        inputs::check(plan, shape, |name| given.given(name, None), given.names(), second.map(|second| second.len))?;
        inputs::check_order(plan, shape.0, given.order.map(|order| order.len))?;
        check_overlap("A", c.values, a.range())?;
        check_overlap("B", c.values, b.range())?;
        self.sddmms.push(Sddmm { a, b, c, inputs: &NO_INPUTS, second: None });
        Ok(())
    }
}

/// The matrices of an SDDMM.
///
/// # Errors
/// [`KernelError::Factors`] for others.
fn matrices<'m>(
    call: &UntypedCall<'_>,
    results: &UntypedResults<'m>,
) -> Result<(UntypedDense, UntypedDense, UntypedBsr<'m>), KernelError> {
    match (call.a, call.b, results.c) {
        (.., UntypedMatrix::Sparse(c)) if c.pattern.is_some() => Err(KernelError::DevicePattern {
            why: "the kernel computes several products a launch".to_owned(),
            help: "a launch for each product",
        }),
        (UntypedMatrix::Dense(a), UntypedMatrix::Dense(b), UntypedMatrix::Sparse(c)) => Ok((a, b, c)),
        _ => Err(KernelError::Factors { expected: Op::Sdd }),
    }
}

/// Part `index` of `count` equal ones that lie one below another, and the number of its first block.
fn part_of(stack: &Structure, count: usize, index: usize) -> (Structure, usize) {
    let rows = stack.rows() / count / stack.block().0;
    (stack.part(index * rows..(index + 1) * rows), stack.row_ptr()[index * rows] as usize)
}

pub(super) fn spans(problems: &[SddmmProblem<'_>]) -> Vec<Span> {
    let each = |(index, problem): (usize, &SddmmProblem<'_>)| {
        let ranges = [("A", problem.a.range()), ("B", problem.b.range()), ("C", problem.c.values)];
        ranges.map(|(operand, range)| Span { range, index, operand, dense: None })
    };
    problems.iter().enumerate().flat_map(each).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::kernel::batch::check_overlaps;

    #[test]
    fn parts_of_a_stack_are_its_block_rows() {
        let stack = Structure::new(96, 40, (16, 8), vec![0, 1, 3, 3, 5, 5, 8], vec![4, 0, 2, 1, 3, 0, 2, 4]).unwrap();
        let parts: Vec<_> = (0..3).map(|index| part_of(&stack, 3, index)).collect();
        assert_eq!(parts.iter().map(|(_, first)| *first).collect::<Vec<_>>(), [0, 3, 5]);
        assert_eq!((parts[1].0.row_ptr(), parts[1].0.col_idx()), (&[0, 0, 2][..], &[1, 3][..]));
        assert_eq!((parts[2].0.rows(), parts[2].0.nnzb()), (32, 3));
    }

    #[test]
    fn a_result_that_another_problem_reads_or_writes_is_found() {
        let structure = Structure::empty(8, 8, (8, 8)).unwrap();
        let dense = |ptr| UntypedDense {
            ptr,
            dtype: Dtype::F16,
            layout: crate::Layout::RowMajor,
            rows: 8,
            cols: 8,
            ld: 8,
            foreign: true,
            on: None,
        };
        let problem = |a, b, c| Sddmm {
            a: dense(a),
            b: dense(b),
            c: Blocks { structure: Cow::Borrowed(&structure), dtype: Dtype::F16, values: (c, c + 128) },
            inputs: &NO_INPUTS,
            second: None,
        };
        assert!(check_overlaps(spans(&[problem(0, 128, 256), problem(0, 128, 384)])).is_ok());
        for (second, operand) in
            [(problem(0, 128, 300), "C"), (problem(300, 128, 512), "A"), (problem(0, 256, 512), "B")]
        {
            let error = check_overlaps(spans(&[problem(0, 128, 256), second])).unwrap_err();
            assert!(matches!(error, KernelError::BatchOverlap { operand: found, .. } if found == operand), "{error}");
        }
    }
}
