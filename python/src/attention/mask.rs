//! Which blocks of Q K^T are computed.

use std::ops::Range;

use bsr_runtime::attention::{AttentionError, BlockList, Mask, Sequences, Sharing};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors::refused;

/// The lists of one pattern as little-endian bytes: row starts and block columns of 32 bits, and a byte for each block that is
/// not 0 where scores are computed in it.
type Lists<'py> = (Bound<'py, PyBytes>, Bound<'py, PyBytes>, Bound<'py, PyBytes>);

/// Which blocks of Q K^T are computed, checked.
#[pyclass(frozen, module = "bsr_gemm._lib._native")]
pub(crate) struct AttentionMask {
    pub(crate) mask: Mask,
}

#[pymethods]
impl AttentionMask {
    /// A mask of `sizes` queries x keys in blocks of `block`; `sharing` is `all`, `head`, `problem` or `both`.
    #[new]
    fn new(sizes: (usize, usize), block: (usize, usize), sharing: &str, lists: Vec<Lists<'_>>) -> PyResult<Self> {
        let lists = lists.iter().map(|(indptr, indices, partial)| BlockList {
            indptr: integers(indptr.as_bytes()),
            indices: integers(indices.as_bytes()),
            partial: partial.as_bytes().iter().map(|flag| *flag != 0).collect(),
        });
        Ok(Self { mask: Mask::new(sizes, block, shared(sharing)?, lists.collect()).map_err(refused)? })
    }

    /// A mask by a rule: its name and its numbers, in the order of the rule's parameters.
    #[staticmethod]
    fn generated(
        py: Python<'_>,
        rule: &str,
        sizes: (usize, usize),
        block: (usize, usize),
        numbers: Vec<f64>,
    ) -> PyResult<Self> {
        let whole = |at: usize| numbers.get(at).copied().unwrap_or(0.0) as usize;
        let made = py.detach(|| match rule {
            "full" => Some(Mask::full(sizes, block)),
            "causal" => Some(Mask::causal(sizes.0, sizes.1, block)),
            "window" => Some(Mask::window(sizes, block, whole(0), whole(1))),
            "block_window" => Some(Mask::block_window(sizes, block, whole(0))),
            "lower_triangle" => Some(Mask::lower_triangle(sizes, block)),
            "strided" => Some(Mask::strided(sizes, block, whole(0), whole(1))),
            "big_bird" => Some(Mask::big_bird(sizes, block, [whole(0), whole(1), whole(2)], whole(3) as u64)),
            "random" => Some(Mask::random(sizes, block, numbers.first().copied().unwrap_or(0.0), whole(1) as u64)),
            _ => None,
        });
        let made = made.ok_or_else(|| refused(format!("`{rule}` is no rule of a mask")))?;
        Ok(Self { mask: made.map_err(refused)? })
    }

    /// Blocks with a pair that is attended to, of a byte for every pair.
    #[staticmethod]
    fn from_pairs(py: Python<'_>, sizes: (usize, usize), block: (usize, usize), pairs: &[u8]) -> PyResult<Self> {
        let pairs: Vec<bool> = pairs.iter().map(|pair| *pair != 0).collect();
        Ok(Self { mask: py.detach(|| Mask::from_pairs(sizes, block, &pairs)).map_err(refused)? })
    }

    /// The blocks of each row with the greatest scores, which are f32, one for each block.
    #[staticmethod]
    fn top_k(
        py: Python<'_>,
        sizes: (usize, usize),
        block: (usize, usize),
        scores: &[u8],
        count: usize,
    ) -> PyResult<Self> {
        let scores: Vec<f32> = scores.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
        Ok(Self { mask: py.detach(|| Mask::top_k(sizes, block, &scores, count)).map_err(refused)? })
    }

    /// The blocks of sequences that begin at such rows of Q and of K, where queries attend to keys at most so many places before
    /// and after their own, and the first key of each query and the one behind its last, which are f32.
    #[staticmethod]
    fn sequences<'py>(
        py: Python<'py>,
        starts: (Vec<usize>, Vec<usize>),
        sizes: (usize, usize),
        block: (usize, usize),
        window: (Option<usize>, Option<usize>),
    ) -> PyResult<(Self, Bound<'py, PyBytes>, Bound<'py, PyBytes>)> {
        let made = py.detach(|| {
            let packed = Sequences::new(&starts.0, &starts.1, sizes)?.window(window.0, window.1);
            Ok::<_, AttentionError>((packed.mask(block)?, packed.ranges()))
        });
        let (mask, ranges) = made.map_err(refused)?;
        let bytes = |end: fn(&Range<usize>) -> usize| -> Bound<'py, PyBytes> {
            PyBytes::new(py, &ranges.iter().flat_map(|range| (end(range) as f32).to_le_bytes()).collect::<Vec<u8>>())
        };
        Ok((Self { mask }, bytes(|range| range.start), bytes(|range| range.end)))
    }

    /// Queries and keys.
    #[getter]
    fn sizes(&self) -> (usize, usize) {
        self.mask.sizes()
    }

    /// Queries and keys of a block.
    #[getter]
    fn block(&self) -> (usize, usize) {
        self.mask.block()
    }

    /// Which heads have which pattern.
    #[getter]
    fn sharing(&self) -> &'static str {
        match self.mask.sharing() {
            Sharing::All => "all",
            Sharing::ByHead => "head",
            Sharing::ByProblem => "problem",
            Sharing::ByBoth => "both",
        }
    }

    /// Pairs of a query and a key in the stored blocks of all heads: what is executed.
    fn pairs(&self, batch: usize, heads: usize) -> u64 {
        self.mask.pairs(batch, heads)
    }

    /// The lists of all patterns.
    fn lists<'py>(&self, py: Python<'py>) -> Vec<Lists<'py>> {
        let bytes = |integers: &[u32]| -> Bound<'py, PyBytes> {
            PyBytes::new(py, &integers.iter().flat_map(|integer| integer.to_le_bytes()).collect::<Vec<u8>>())
        };
        let lists = self.mask.lists().iter().map(|list| {
            let partial: Vec<u8> = list.partial.iter().map(|flag| u8::from(*flag)).collect();
            (bytes(&list.indptr), bytes(&list.indices), PyBytes::new(py, &partial))
        });
        lists.collect()
    }
}

fn integers(bytes: &[u8]) -> Vec<u32> {
    bytes.as_chunks::<4>().0.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect()
}

/// Which heads share patterns or vectors, by its word.
///
/// # Errors
/// Another word.
pub(crate) fn shared(word: &str) -> PyResult<Sharing> {
    Ok(match word {
        "all" => Sharing::All,
        "head" => Sharing::ByHead,
        "problem" => Sharing::ByProblem,
        "both" => Sharing::ByBoth,
        _ => return Err(refused(format!("`{word}` is no way to share patterns\n  help: all, head, problem or both"))),
    })
}
