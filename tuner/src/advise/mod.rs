//! Which block a matrix should be cut into, and whether it should be cut at all.
//!
//! [`advise`] blocks a matrix in every way asked for, in the order of its rows and in a better one, and compares the time
//! that the cost [`model`] predicts for the best of a few kernels with that of the dense library on the whole matrix, which
//! is interpolated between measured ones. Times that were measured go beside ([`Candidate::measured`]).
//!
//! ```
//! use bsr_tuner::advise::{Request, advise};
//! use bsr_tuner::model::Card;
//! use bsr_runtime::read::Sparse;
//! use bsr_runtime::{Bsr, Layout, Pattern};
//!
//! let matrix = Bsr::<f32>::generate(Pattern::Random(0.1), 2048, 2048, (128, 64), 0)?;
//! let sparse = Sparse::from_dense(&matrix.to_dense(Layout::RowMajor))?;
//! let advice = advise(&sparse, &[(128, 64), (16, 16)], &Request { n: 8192, ..Request::default() }, &Card::h200())?;
//! let best = advice.best().expect("two candidates");
//! assert_eq!((best.block, best.chosen().fill_in), ([128, 64], 1.0));
//! assert!(best.speedup() > Some(2.0));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod kernels;
mod spread;
#[cfg(test)]
mod tests;

use bsr_codegen::{Dtype, Plan, Refusal};
use bsr_runtime::prune::{Keep, prune};
use bsr_runtime::read::Sparse;
use bsr_runtime::{Pattern, Structure, reorder};
pub use kernels::kernels;
use rayon::prelude::*;
use serde::Serialize;
pub use spread::Spread;

use crate::model::{self, Card, Prediction};
pub use crate::model::{SURE_MEASURED, SURE_PREDICTED, Verdict};

/// What to look at.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Request {
    /// Columns of B.
    pub n: usize,
    /// Prune to so many blocks first.
    pub keep: Option<Keep>,
    /// Look for a better order of rows, too.
    pub reorder: bool,
    /// The type of A and B: f16, bf16, f32 or f64.
    pub dtype: Dtype,
}

impl Default for Request {
    fn default() -> Self {
        Self { n: 4096, keep: None, reorder: true, dtype: Dtype::F16 }
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

/// The same for f32 and f64: those of finite elements.
pub const SMALL_BLOCKS: [(usize, usize); 8] = [(1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (6, 6), (7, 7), (8, 8)];

/// What blocks of several sizes would cost.
///
/// Version 2 of the schema of `bsr advise --json`. Fields are added, never changed or removed, without a new version.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Advice {
    /// Version of this schema: 2.
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
    /// The type of A and B.
    pub dtype: Dtype,
    /// Of which card the times are predicted.
    pub card: Card,
    /// The dense product of this shape.
    pub dense: Dense,
    /// How the nonzeros are spread over the matrix, in blocks of the size that fits them best.
    pub spread: Spread,
    /// One for each block, in the order asked for.
    pub candidates: Vec<Candidate>,
}

impl Advice {
    /// The candidate with the shortest time: of those that were measured, or else, as predicted, of those that a
    /// kernel takes.
    pub fn best(&self) -> Option<&Candidate> {
        let measured = self.candidates.iter().filter_map(|c| Some((c, c.measured.as_ref()?.us)));
        let predicted = self.candidates.iter().filter_map(|c| Some((c, c.chosen().us()?)));
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

/// The product of the whole matrix by the dense library.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Dense {
    /// Microseconds, interpolated between measured times of other sizes.
    pub us: f64,
}

/// A matrix in blocks of one size.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Candidate {
    /// Rows and columns of a block.
    pub block: [usize; 2],
    /// Rows in the order of the file.
    #[serde(rename = "given")]
    pub original: Blocking,
    /// Rows in a better order; `null` if none was looked for or found.
    pub reordered: Option<Blocking>,
    /// The density of blocks up to which this block is predicted to be no slower than dense, a fraction of all blocks, where
    /// they are at random; `null` where no kernel takes the block, or so many blocks are needed that only a part of the matrix
    /// could be looked at that takes no time.
    pub break_even: Option<f64>,
    /// Predicted dense time over predicted time of the better of the two orders: above 1, blocks are faster. At most 1 where
    /// every block is stored: the dense library computes the same then. `null` where no kernel takes the block.
    pub predicted_speedup: Option<f64>,
    /// The spec of the kernel that is predicted to be the fastest of a few; `null` if none takes this block.
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
        let us = |blocking: &Blocking| blocking.us().unwrap_or(f64::INFINITY);
        match &self.reordered {
            Some(reordered) if us(reordered) < us(&self.original) => reordered,
            _ => &self.original,
        }
    }

    /// Dense time over time: measured if both were, else predicted; none of what no kernel takes.
    pub fn speedup(&self) -> Option<f64> {
        self.measured_speedup().or(self.predicted_speedup)
    }

    fn measured_speedup(&self) -> Option<f64> {
        self.measured.as_ref().and_then(|measured| Some(measured.dense_us? / measured.us))
    }

    /// What these blocks are beside the dense library, by measured times where there are any.
    pub fn verdict(&self) -> Verdict {
        let measured = self.measured_speedup();
        let sure = if measured.is_some() { SURE_MEASURED } else { SURE_PREDICTED };
        let is_full = self.original.density >= 1.0 && self.original.blocks > 0;
        let speedup = measured.or(self.predicted_speedup);
        speedup.map_or(Verdict::NoKernel, |speedup| Verdict::of(speedup, sure, is_full))
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
    /// Predicted time of the product; `null` where no kernel takes the block.
    pub predicted: Option<Prediction>,
    /// Operations on nonzeros alone over the predicted time: what is left of the speed after fill-in.
    pub useful_tflops: Option<f64>,
    /// Operations on nonzeros alone.
    #[serde(skip)]
    pub useful_flops: f64,
    /// Where the blocks are.
    #[serde(skip)]
    pub structure: Structure,
}

impl Blocking {
    /// Microseconds, as predicted.
    pub fn us(&self) -> Option<f64> {
        self.predicted.as_ref().map(|predicted| predicted.us)
    }
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
pub fn advise(sparse: &Sparse, blocks: &[(usize, usize)], request: &Request, card: &Card) -> Result<Advice, Refusal> {
    let (rows, cols, n) = (sparse.rows(), sparse.cols(), request.n);
    let dense = Dense { us: card.dense_us([rows, n, cols], request.dtype) };
    let candidate = |&block: &(usize, usize)| -> Result<Candidate, Refusal> {
        let order = match request.keep {
            _ if !request.reorder => None,
            None => reorder::rows(sparse, block)?,
            Some(keep) => reorder::rows_to_prune(sparse, block, keep)?,
        };
        let plans = kernels(block, n, request.dtype);
        let of = |sparse: &Sparse| blocking(sparse, block, request, plans.as_deref().unwrap_or_default(), card);
        let original = of(sparse)?;
        let reordered = match order.map(|order| sparse.reordered(&order)) {
            Some(Ok(reordered)) => Some(of(&reordered)?),
            // The order is of the matrix's own rows.
            None | Some(Err(_)) => None,
        };
        let mut candidate = Candidate {
            block: [block.0, block.1],
            original: original.0,
            reordered: None,
            break_even: None,
            predicted_speedup: None,
            kernel: original.1,
            no_kernel: plans.as_ref().err().cloned(),
            measured: None,
            not_measured: None,
        };
        if let Some((reordered, kernel)) = reordered {
            candidate.reordered = Some(reordered);
            if candidate.chosen() != &candidate.original {
                candidate.kernel = kernel;
            }
        }
        let most = if candidate.original.density >= 1.0 { 1.0 } else { f64::INFINITY };
        candidate.predicted_speedup = candidate.chosen().us().map(|us| (dense.us / us).min(most));
        let chosen = plans.iter().flatten().filter(|plan| Some(plan.spec().to_string()) == candidate.kernel);
        candidate.break_even = chosen.filter_map(|plan| break_even(plan, (rows, n, cols), dense.us, card)).next();
        Ok(candidate)
    };
    let candidates = blocks.par_iter().map(candidate).collect::<Result<Vec<_>, _>>()?;
    let (source, device, nonzeros) = (String::new(), None, sparse.true_nnz());
    let spread = Spread::of((rows, cols), nonzeros, &candidates);
    let dtype = request.dtype;
    Ok(Advice { schema: 2, source, device, rows, cols, nonzeros, n, dtype, card: *card, dense, spread, candidates })
}

/// A matrix in blocks, and the kernel that should be the fastest.
fn blocking(
    sparse: &Sparse,
    block: (usize, usize),
    request: &Request,
    plans: &[Plan],
    card: &Card,
) -> Result<(Blocking, Option<String>), Refusal> {
    let (structure, norm) = match request.keep {
        None => (sparse.structure(block)?, None),
        Some(keep) => {
            let pruned = prune(sparse, block, keep)?;
            let norm = pruned.norm();
            (pruned.into_structure(), Some(norm))
        }
    };
    let fill_in = sparse.fill_in(&structure);
    let (plan, predicted) = model::fastest(plans, &structure, request.n, card).unzip();
    let useful_flops = 2.0 * fill_in.true_nnz() as f64 * request.n as f64;
    let blocking = Blocking {
        blocks: structure.nnzb(),
        density: structure.density(),
        fill_in: fill_in.ratio(),
        norm,
        useful_tflops: predicted.as_ref().map(|predicted| useful_flops / (predicted.us * 1e6)),
        predicted,
        useful_flops,
        structure,
    };
    Ok((blocking, plan.map(|plan| plan.spec().to_string())))
}

/// The density of blocks at random up to which a kernel is predicted to take no longer than `dense_us`, to 1 %. Of a large
/// matrix a part is looked at, and as much of the dense time; none where a kernel
/// without blocks takes a quarter of that.
fn break_even(plan: &Plan, (mut m, n, mut k): (usize, usize, usize), dense_us: f64, card: &Card) -> Option<f64> {
    const STEPS: usize = 7;
    const MOST_BLOCKS: usize = 1 << 16;
    let (bm, bk) = (plan.spec().bm as usize, plan.spec().bk as usize);
    let all = m * k;
    while m.div_ceil(bm) * k.div_ceil(bk) > MOST_BLOCKS {
        let longest = if m.div_ceil(bm) > k.div_ceil(bk) { &mut m } else { &mut k };
        *longest = longest.div_ceil(2);
    }
    let us = |density: f64| {
        let structure = Pattern::Random(density).structure(m, k, (bm, bk), 0).ok()?;
        model::fastest(std::slice::from_ref(plan), &structure, n, card).map(|(_, predicted)| predicted.us)
    };
    let most = dense_us * (m * k) as f64 / all.max(1) as f64;
    if m * k < all && us(0.0).is_some_and(|us| 4.0 * us > most) {
        return None;
    }
    let is_slower = |density: f64| us(density).is_some_and(|us| us > most);
    if !is_slower(1.0) {
        return Some(1.0);
    }
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..STEPS {
        let middle = f64::midpoint(low, high);
        *if is_slower(middle) { &mut high } else { &mut low } = middle;
    }
    Some(low)
}
