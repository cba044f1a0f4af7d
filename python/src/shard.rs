//! Dividing work among ranks.

use bsr::shard;
use pyo3::prelude::*;

use crate::errors::refused;

/// Cuts weights into so many ranges that follow one another, so that the largest sum is as small as it can be.
#[pyfunction]
pub(crate) fn balanced(weights: Vec<u64>, ranks: usize) -> PyResult<Vec<(usize, usize)>> {
    let cuts = shard::balanced(&weights, ranks).map_err(refused)?;
    Ok(cuts.into_iter().map(|range| (range.start, range.end)).collect())
}
