//! How the elements of a stored block lie in memory: row by row, as a [`Bsr`] has them, or column by column.

use std::borrow::Cow;

use bsr_codegen::Layout;
use rayon::prelude::*;

use super::Bsr;
use crate::Element;

impl<T: Element> Bsr<T> {
    /// The values of the stored blocks, those of each block in a layout.
    pub(crate) fn values_in(&self, layout: Layout) -> Cow<'_, [T]> {
        match layout {
            Layout::RowMajor => Cow::Borrowed(self.values()),
            Layout::ColMajor => Cow::Owned(turned(self.values(), self.block())),
        }
    }
}

/// Blocks whose lines are their columns, of blocks with so many lines of so many elements.
pub(crate) fn turned<T: Copy + Send + Sync>(values: &[T], (lines, elements): (usize, usize)) -> Vec<T> {
    let mut out = values.to_vec();
    out.par_chunks_exact_mut((lines * elements).max(1))
        .zip(values.par_chunks_exact((lines * elements).max(1)))
        .for_each(|(out, block)| {
            for (r, line) in block.chunks_exact(elements).enumerate() {
                line.iter().enumerate().for_each(|(c, value)| out[c * lines + r] = *value);
            }
        });
    out
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::Pattern;

    #[test]
    fn blocks_by_columns_are_those_of_the_transposed_matrix() {
        let structure = Pattern::Random(0.5).structure(20, 31, (4, 6), 1).unwrap();
        let a = Bsr::<f32>::normal(structure, 2);
        let (by_columns, transposed) = (a.values_in(Layout::ColMajor), a.transpose().unwrap());
        for (at, stored) in a.structure().transposed().unwrap().block_idx().iter().enumerate() {
            assert_eq!(&by_columns[24 * *stored as usize..][..24], transposed.block_values(at));
        }
        assert_eq!(turned(&by_columns, (6, 4)), a.values());
        assert!(turned::<f32>(&[], (0, 4)).is_empty());
    }
}
