//! What is computed, with what a choice of kernel depends on.

use bsr_runtime::features::Features;
use bsr_runtime::{Extents, Structure};
pub use bsr_trial::workload::{Facts, Heads, Source, Workload};
pub(crate) use bsr_trial::workload::{check_side, fact_keys, twin};
use serde::{Deserialize, Serialize};

use crate::operation;

/// A workload with what is known of its pattern.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Unchecked")]
pub struct TuningProblem {
    /// The product.
    pub workload: Workload,
    /// What a choice of kernel depends on.
    pub features: Features,
}

/// A problem as a file holds it.
#[derive(Deserialize)]
struct Unchecked {
    workload: Workload,
    features: Features,
}

impl TryFrom<Unchecked> for TuningProblem {
    type Error = String;

    fn try_from(Unchecked { workload, features }: Unchecked) -> Result<Self, String> {
        let problem = Self { workload, features };
        problem.check().map(|()| problem)
    }
}

impl TuningProblem {
    /// Whether a pattern of this workload can have these features.
    ///
    /// # Errors
    /// What contradicts what, in words.
    pub(crate) fn check(&self) -> Result<(), String> {
        let (rows, cols) = self.workload.stored_shape();
        let (bm, bk) = self.workload.facts.block();
        let whole = (rows.div_ceil(bm.max(1)), cols.div_ceil(bk.max(1)));
        let Features { block_rows, block_cols, nnzb, longest_row, row_spread, empty_rows, reuse } = self.features;
        if (block_rows, block_cols) != whole {
            let fact = format!("{rows} x {cols} in blocks of {bm} x {bk} is {} x {} blocks", whole.0, whole.1);
            return Err(format!("{fact}, and the pattern has {block_rows} x {block_cols}"));
        }
        if longest_row > block_cols || nnzb > longest_row.saturating_mul(block_rows) {
            let fact = format!("{block_rows} x {block_cols} blocks, at most {longest_row} in a block row");
            return Err(format!("{fact}, and {nnzb} are stored"));
        }
        if nnzb.saturating_mul(bm) > i32::MAX as usize {
            return Err(format!("{nnzb} blocks of {bm} rows are more than 32-bit coordinates address"));
        }
        match [row_spread, empty_rows, reuse].iter().all(|number| number.is_finite() && *number >= 0.0) {
            true => Ok(()),
            false => Err(format!("a spread of {row_spread}, {empty_rows} empty rows, a reuse of {reuse}")),
        }
    }

    /// A workload whose sparse operand has this structure, as it is stored.
    pub fn new(workload: Workload, structure: &Structure) -> Self {
        Self { workload, features: Features::of(structure) }
    }

    /// The same problem with [the other](Facts::twin) 16-bit type.
    pub fn twin(&self) -> Option<Self> {
        let facts = self.workload.facts.twin()?;
        Some(Self { workload: Workload { facts, ..self.workload.clone() }, features: self.features })
    }

    /// Operations on stored blocks.
    pub fn executed_flops(&self) -> u64 {
        let ((bm, bk), dense_extent) = (self.workload.facts.block(), self.dense_extent());
        let Heads { batch, heads, .. } = self.workload.source.heads();
        let columns = operation::of(self.workload.facts.op()).columns(&self.workload, dense_extent);
        [self.features.nnzb, bm, bk, columns, batch, heads]
            .into_iter()
            .fold(2, |flops, by| flops.saturating_mul(by as u64))
    }

    /// The extent of C along the dense factor; K of SDDMM.
    pub fn dense_extent(&self) -> usize {
        let Workload { facts, m, n, k, .. } = self.workload;
        Extents { m, n, k }.along(facts.op())
    }

    /// What tells problems apart for the purpose of choosing a kernel, as text: facts, shape, class of the pattern. Two
    /// problems with the same key want the same kernel.
    pub fn key(&self) -> String {
        let Workload { facts, m, n, k, .. } = &self.workload;
        let heads = match &self.workload.source {
            Source::Mask { heads, .. } => format!("; {heads}"),
            _ => String::new(),
        };
        format!("{facts}; m = {m}, n = {n}, k = {k}; {}{heads}", self.features.class())
    }
}
