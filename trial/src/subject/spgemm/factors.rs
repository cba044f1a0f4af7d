//! Two factors in blocks, and what chosen rows or blocks of their product must be.

use bsr_codegen::{Epilogue, KernelSpec};
use bsr_runtime::typed::Number;
use bsr_runtime::{Bsr, Dense, Inputs, Layout, Structure, reference};

use super::patterns::Patterns;
use crate::Failure;
use crate::problem::{inputs, scales};
use crate::verify::{Expected, RowChoice, Rows, longest_sum};

/// The factors, where the blocks of a sparse C are, and what its kernel reads besides.
pub(super) struct Factors<A: Number, B: Number> {
    pub(super) a: Bsr<A>,
    pub(super) b: Bsr<B>,
    pub(super) c: Option<Structure>,
    pub(super) inputs: Inputs,
    pub(super) expected: Expected,
}

impl<A: Number, B: Number> Factors<A, B> {
    /// Of a whole B those blocks that its pattern has, and the reference of chosen rows, or blocks of a sparse C.
    ///
    /// # Errors
    /// When the operands do not fit together.
    pub(super) fn new(
        spec: &KernelSpec,
        (a, whole): (Bsr<A>, &Dense<B>),
        Patterns { b, c }: Patterns,
        seed: u64,
        choice: RowChoice,
    ) -> Result<Self, Failure> {
        let b = Bsr::from_dense_mask(whole, b.block(), &flags(&b))?;
        let right = b.to_dense(Layout::RowMajor);
        let sizes = (a.rows(), b.cols());
        let scales = scales::<A, B>(spec.scale, a.structure(), sizes.1, seed)?;
        let (inputs, expected) = match &c {
            None => {
                let inputs = inputs(spec, sizes, None, seed).scales(scales);
                let rows = Rows::choose(spec, a.structure(), sizes, choice);
                let longest = longest_sum(spec, a.structure());
                let want = reference::expected(spec, &a, &right, &inputs, &rows.list, longest)?;
                (inputs, Expected::of_rows(rows, want))
            }
            Some(c) => {
                let drawn = |epilogue: Epilogue| Inputs::random_blocks(epilogue.program(), c, seed);
                let inputs = spec.epilogue.map(drawn).unwrap_or_default().scales(scales);
                let rows = Rows::of_blocks(spec, c, a.cols(), choice);
                let left = a.to_dense(Layout::RowMajor);
                let want = reference::expected_blocks(spec, &left, &right, c, &rows.list, &inputs)?;
                (inputs, Expected::of_blocks(rows, want, c))
            }
        };
        Ok(Self { a, b, c, inputs, expected })
    }
}

/// Of every block whether it is stored, row by row.
fn flags(structure: &Structure) -> Vec<bool> {
    let columns = structure.block_cols();
    let mut flags = vec![false; structure.block_rows() * columns];
    for row in 0..structure.block_rows() {
        for block in structure.blocks_of(row) {
            flags[row * columns + structure.col_idx()[block] as usize] = true;
        }
    }
    flags
}
