//! Which block a matrix should be cut into, and whether it should be cut at all.
//!
//! [`advise`] blocks a matrix in every way asked for, in the order of its rows and in a better one, and holds the
//! [predicted](model) time against that of the dense library on the whole matrix. Times that were measured go beside
//! ([`Candidate::measured`]).
//!
//! ```
//! use bsr_runtime::advise::{Request, advise, model::Card};
//! use bsr_runtime::read::Sparse;
//! use bsr_runtime::{Bsr, Layout, Pattern};
//!
//! let matrix = Bsr::<f32>::generate(Pattern::Random(0.1), 2048, 2048, (128, 64), 0)?;
//! let sparse = Sparse::from_dense(&matrix.to_dense(Layout::RowMajor))?;
//! let advice = advise(&sparse, &[(128, 64), (16, 16)], &Request { n: 8192, ..Request::default() }, &Card::H200)?;
//! let best = advice.best().expect("two candidates");
//! assert_eq!((best.block, best.chosen().fill_in), ([128, 64], 1.0));
//! assert!(best.speedup() > 2.0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod kernels;
pub mod model;

pub use kernels::kernels;

use rayon::prelude::*;
use serde::Serialize;

use crate::prune::{Keep, PruneError, prune};
use crate::read::Sparse;
use crate::{Structure, reorder};
use model::{Card, Prediction};

/// What to look at.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Request {
    /// Columns of B.
    pub n: usize,
    /// Prune to so many blocks first.
    pub keep: Option<Keep>,
    /// Look for a better order of rows, too.
    pub reorder: bool,
}

impl Default for Request {
    fn default() -> Self {
        Self { n: 4096, keep: None, reorder: true }
    }
}

/// The blocks that are looked at where none are asked for: low ones, which fit any matrix, to high ones, which are fast;
/// square and not.
pub const BLOCKS: [(usize, usize); 13] = [
    (8, 64),
    (16, 16),
    (16, 64),
    (32, 32),
    (32, 128),
    (64, 16),
    (64, 32),
    (64, 64),
    (128, 32),
    (128, 64),
    (128, 128),
    (256, 64),
    (256, 128),
];

/// What blocks of several sizes would cost.
///
/// Version 1 of the schema of `bsr advise --json`. Fields are added, never changed or removed, without a new version.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Advice {
    /// Version of this schema: 1.
    pub schema: u32,
    /// Where the matrix is from.
    pub source: String,
    /// The GPU that measured; `null` if nothing was.
    pub device: Option<String>,
    /// Rows of the matrix.
    pub rows: usize,
    /// Columns of the matrix.
    pub cols: usize,
    /// Values that are not zero.
    pub nonzeros: usize,
    /// Columns of B.
    pub n: usize,
    /// Of which card the times are predicted.
    pub card: Card,
    /// Predicted time of the dense product of this shape.
    pub dense: Prediction,
    /// One for each block, in the order asked for.
    pub candidates: Vec<Candidate>,
}

impl Advice {
    /// The candidate with the shortest time: of those that were measured, or else, as predicted, of those that a
    /// tensor-core kernel takes.
    pub fn best(&self) -> Option<&Candidate> {
        let measured = self.candidates.iter().filter_map(|c| Some((c, c.measured.as_ref()?.us)));
        let predicted = self.candidates.iter().filter(|c| c.kernel.is_some()).map(|c| (c, c.chosen().predicted.us));
        let shortest = |x: &(&Candidate, f64), y: &(&Candidate, f64)| x.1.total_cmp(&y.1);
        measured.min_by(shortest).or_else(|| predicted.min_by(shortest)).map(|(candidate, _)| candidate)
    }

    /// The advice as JSON; what is infinite, as the fill-in of a matrix of zeros, is `null`.
    ///
    /// # Errors
    /// None that is known: all keys are text.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string_pretty(self)
    }
}

/// A matrix in blocks of one size.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Candidate {
    /// Rows and columns of a block.
    pub block: [usize; 2],
    /// Rows in the order of the file.
    pub given: Blocking,
    /// Rows in a better order; `null` if none was looked for or found.
    pub reordered: Option<Blocking>,
    /// The density of blocks up to which this block is predicted to be no slower than dense, a fraction of all blocks.
    pub break_even: f64,
    /// Predicted dense time over predicted time of the better of the two orders: above 1, blocks are faster.
    pub predicted_speedup: f64,
    /// The spec of a tensor-core kernel that takes this block; `null` if none does.
    pub kernel: Option<String>,
    /// Why no such kernel takes this block; `null` if one does.
    pub no_kernel: Option<String>,
    /// What a GPU took; `null` if nothing was measured.
    pub measured: Option<Measured>,
    /// Why nothing was measured, if it was tried.
    pub not_measured: Option<String>,
}

impl Candidate {
    /// The better of the two orders.
    pub fn chosen(&self) -> &Blocking {
        match &self.reordered {
            Some(reordered) if reordered.predicted.us < self.given.predicted.us => reordered,
            _ => &self.given,
        }
    }

    /// Dense time over time: measured if both were, else predicted.
    pub fn speedup(&self) -> f64 {
        let measured = self.measured.as_ref().and_then(|measured| Some(measured.dense_us? / measured.us));
        measured.unwrap_or(self.predicted_speedup)
    }
}

/// A matrix in blocks of one size, in one order of its rows.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Blocking {
    /// Stored blocks.
    pub blocks: usize,
    /// Stored blocks as a fraction of all.
    pub density: f64,
    /// Stored values for each nonzero.
    pub fill_in: f64,
    /// The Frobenius norm that pruning keeps, as a fraction; `null` without pruning.
    pub norm: Option<f64>,
    /// Predicted time of the product.
    pub predicted: Prediction,
    /// Operations on nonzeros alone over the predicted time: what is left of the speed after fill-in.
    pub useful_tflops: f64,
    /// Where the blocks are.
    #[serde(skip)]
    pub structure: Structure,
}

/// What a GPU took for one candidate, in the order of the file.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measured {
    /// The kernel.
    pub spec: String,
    /// Microseconds, the median.
    pub us: f64,
    /// Microseconds that the dense library took for the whole matrix in the same run; `null` without the library.
    pub dense_us: Option<f64>,
    /// Operations on nonzeros alone over the time.
    pub useful_tflops: f64,
}

/// Looks at each of `blocks`.
///
/// # Errors
/// When a block has a zero side, or pruning is asked for and cannot be done.
pub fn advise(
    sparse: &Sparse,
    blocks: &[(usize, usize)],
    request: &Request,
    card: &Card,
) -> Result<Advice, PruneError> {
    let (rows, cols, n) = (sparse.rows(), sparse.cols(), request.n);
    let dense = card.dense(rows, n, cols);
    let candidate = |&block: &(usize, usize)| -> Result<Candidate, PruneError> {
        let order = match request.keep {
            _ if !request.reorder => None,
            None => reorder::rows(sparse, block)?,
            Some(keep) => reorder::rows_to_prune(sparse, block, keep)?,
        };
        let given = blocking(sparse, block, request, card)?;
        let reordered = match order.map(|order| sparse.reordered(&order)) {
            Some(Ok(reordered)) => Some(blocking(&reordered, block, request, card)?),
            // The order is of the matrix's own rows.
            None | Some(Err(_)) => None,
        };
        let kernel = kernels(block, n).map(|plans| plans[0].spec().to_string());
        let mut candidate = Candidate {
            block: [block.0, block.1],
            given,
            reordered,
            break_even: card.break_even((rows, n, cols), block),
            predicted_speedup: 1.0,
            kernel: kernel.as_ref().ok().cloned(),
            no_kernel: kernel.err(),
            measured: None,
            not_measured: None,
        };
        candidate.predicted_speedup = dense.us / candidate.chosen().predicted.us;
        Ok(candidate)
    };
    let candidates = blocks.par_iter().map(candidate).collect::<Result<_, _>>()?;
    let (source, device, nonzeros) = (String::new(), None, sparse.true_nnz());
    Ok(Advice { schema: 1, source, device, rows, cols, nonzeros, n, card: *card, dense, candidates })
}

fn blocking(sparse: &Sparse, block: (usize, usize), request: &Request, card: &Card) -> Result<Blocking, PruneError> {
    let (structure, norm) = match request.keep {
        None => (sparse.structure(block)?, None),
        Some(keep) => {
            let pruned = prune(sparse, block, keep)?;
            let norm = pruned.norm();
            (pruned.into_structure(), Some(norm))
        }
    };
    let fill_in = sparse.fill_in(&structure);
    let predicted = card.sparse(&structure, request.n);
    Ok(Blocking {
        blocks: structure.nnzb(),
        density: structure.density(),
        fill_in: fill_in.ratio(),
        norm,
        predicted,
        useful_tflops: 2.0 * fill_in.true_nnz() as f64 * request.n as f64 / (predicted.us * 1e6),
        structure,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::{Bsr, Layout, Pattern};

    fn of(pattern: Pattern, block: (usize, usize)) -> Sparse {
        let matrix = Bsr::<f32>::generate(pattern, 1024, 1024, block, 0).unwrap();
        Sparse::from_dense(&matrix.to_dense(Layout::RowMajor)).unwrap()
    }

    #[test]
    fn a_full_matrix_is_told_to_stay_dense() {
        let full = of(Pattern::Random(1.0), (64, 64));
        let advice = advise(&full, &BLOCKS, &Request::default(), &Card::H200).unwrap();
        let slow = |block: [usize; 2]| advice.candidates.iter().find(|c| c.block == block).unwrap();
        assert!(advice.candidates.iter().all(|c| c.reordered.is_none() && c.given.fill_in == 1.0));
        assert!(slow([16, 16]).speedup() < 0.5, "{}", slow([16, 16]).speedup());
        assert!(advice.best().unwrap().speedup() <= 1.01);
    }

    #[test]
    fn pruning_takes_norm_instead_of_filling_in() {
        let full = of(Pattern::Random(1.0), (64, 64));
        let request = Request { keep: Some(Keep::Fraction(0.25)), reorder: false, ..Request::default() };
        let advice = advise(&full, &[(64, 64), (128, 128)], &request, &Card::H200).unwrap();
        for candidate in &advice.candidates {
            assert_eq!((candidate.given.density, candidate.given.fill_in), (0.25, 1.0));
            let norm = candidate.given.norm.unwrap();
            assert!(norm > 0.5 && norm < 0.6, "{norm}");
        }
    }

    #[test]
    fn what_was_measured_outweighs_what_was_predicted() {
        let sparse = of(Pattern::Random(0.1), (64, 64));
        let mut advice = advise(&sparse, &[(64, 64), (128, 128)], &Request::default(), &Card::H200).unwrap();
        let measured = |us| Some(Measured { spec: String::new(), us, dense_us: Some(30.0), useful_tflops: 1.0 });
        advice.candidates[1].measured = measured(20.0);
        assert_eq!(advice.best().unwrap().block, [128, 128]);
        advice.candidates[0].measured = measured(10.0);
        assert_eq!((advice.best().unwrap().block, advice.best().unwrap().speedup()), ([64, 64], 3.0));
    }

    #[test]
    fn useful_operations_are_those_on_nonzeros() {
        let diagonal = Sparse::from_triplets(256, 256, (0..256).map(|i| (i, i, 1.0)).collect()).unwrap();
        let request = Request { n: 1000, ..Request::default() };
        let advice = advise(&diagonal, &[(64, 32)], &request, &Card::H200).unwrap();
        let given = &advice.candidates[0].given;
        assert_eq!((given.blocks, given.fill_in), (8, 64.0));
        assert!((given.useful_tflops * given.predicted.us * 1e6 - 2.0 * 256.0 * 1000.0).abs() < 1e-3);
    }
}
