//! Orders of rows in which fewer blocks hold the same elements.
//!
//! [`rows`] finds an order, [`Sparse::reordered`] takes it, and what is multiplied then has its rows in that order:
//! [`Permutation::undo`] brings them back. A [`Reordered`] matrix keeps the two together, as the files of
//! [`crate::write`] do.
//!
//! ```
//! use bsr_runtime::read::Sparse;
//! use bsr_runtime::reorder::{self, Reordered};
//! use bsr_runtime::{Dense, Layout, reference};
//!
//! // Even rows use the first four columns, odd rows the last four.
//! let elements = (0..8u32).flat_map(|row| (0..4).map(move |col| (row, col + 4 * (row % 2), 1.0 + f64::from(row))));
//! let sparse = Sparse::from_triplets(8, 8, elements.collect())?;
//! let order = reorder::rows(&sparse, (4, 4))?.expect("half of the blocks do");
//! let reordered = sparse.reordered(&order)?;
//! assert_eq!((sparse.structure((4, 4))?.nnzb(), reordered.structure((4, 4))?.nnzb()), (4, 2));
//!
//! let a = Reordered::new(reordered.to_bsr::<f32>((4, 4))?.0, order)?;
//! let b = Dense::from_fn(8, 1, Layout::RowMajor, |_, _| 1.0f32);
//! let product = reference::multiply(a.matrix(), &b)?.iter().map(|v| *v as f32).collect();
//! let product = a.order().undo(&Dense::from_vec(8, 1, Layout::RowMajor, 1, product)?)?;
//! assert_eq!(product.to_f64(), [4.0, 8.0, 12.0, 16.0, 20.0, 24.0, 28.0, 32.0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod cluster;

pub use crate::permutation::Permutation;
pub use cluster::cluster;

use crate::prune::{Keep, prune};
use crate::read::Sparse;
use crate::{Bsr, Element};
use bsr_codegen::Refusal;

/// An order of rows in which fewer blocks of size `block` hold the matrix; `None` if none was found.
///
/// # Errors
/// When the block has a zero side, or the blocks cannot be addressed.
pub fn rows(sparse: &Sparse, block: (usize, usize)) -> Result<Option<Permutation>, Refusal> {
    let order = cluster(&sparse.structure((1, block.1))?, block.0);
    let blocks = sparse.structure(block)?.nnzb();
    let fewer = reordered(sparse, &order).structure(block)?.nnzb();
    Ok((fewer < blocks).then_some(order))
}

/// An order of rows in which the blocks that [`prune`] keeps hold more of the Frobenius norm; `None` if none was found.
/// Rows are clustered by the blocks of one row that each would keep alone.
///
/// # Errors
/// As [`prune`].
pub fn rows_to_prune(sparse: &Sparse, block: (usize, usize), keep: Keep) -> Result<Option<Permutation>, Refusal> {
    let order = cluster(prune(sparse, (1, block.1), keep)?.structure(), block.0);
    let norm = prune(sparse, block, keep)?.norm();
    let more = prune(&reordered(sparse, &order), block, keep)?.norm();
    Ok((more > norm).then_some(order))
}

/// The matrix in an order that was made of its own rows.
fn reordered(sparse: &Sparse, order: &Permutation) -> Sparse {
    sparse.reordered(order).expect("the order is of the matrix's rows")
}

/// A matrix in blocks whose rows were reordered, and where they came from.
#[derive(Clone, Debug, PartialEq)]
pub struct Reordered<T> {
    matrix: Bsr<T>,
    order: Permutation,
}

impl<T: Element> Reordered<T> {
    /// Puts them together: row `i` of `matrix` is row `order.as_slice()[i]` of the original.
    ///
    /// # Errors
    /// When the order is of another number of rows.
    pub fn new(matrix: Bsr<T>, order: Permutation) -> Result<Self, Refusal> {
        order.check_rows(matrix.rows())?;
        Ok(Self { matrix, order })
    }

    /// The matrix, its rows in the new order.
    pub fn matrix(&self) -> &Bsr<T> {
        &self.matrix
    }

    /// Where the rows came from.
    pub fn order(&self) -> &Permutation {
        &self.order
    }

    /// The two of them.
    pub fn into_parts(self) -> (Bsr<T>, Permutation) {
        (self.matrix, self.order)
    }
}
