//! What is computed, with what a choice of kernel depends on.

use bsr_codegen::Refusal;
use bsr_runtime::features::Features;
use bsr_runtime::{Extents, Structure};
pub use bsr_trial::workload::{Facts, Heads, Source, Workload};
pub(crate) use bsr_trial::workload::{check_side, fact_keys, twin};
use serde::{Deserialize, Serialize};

use crate::operation;
use crate::second::Second;

/// A workload with what is known of its pattern.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Unchecked")]
pub struct TuningProblem {
    /// The product.
    pub workload: Workload,
    /// What a choice of kernel depends on.
    pub features: Features,
    /// The second one of two sparse factors that a program gave. That of a workload which is drawn follows from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub second: Option<Second>,
}

/// A problem as a file holds it.
#[derive(Deserialize)]
struct Unchecked {
    workload: Workload,
    features: Features,
    #[serde(default)]
    second: Option<Second>,
}

impl TryFrom<Unchecked> for TuningProblem {
    type Error = String;

    fn try_from(Unchecked { workload, features, second }: Unchecked) -> Result<Self, String> {
        let problem = Self { workload, features, second };
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
            true => self.check_second(),
            false => Err(format!("a spread of {row_spread}, {empty_rows} empty rows, a reuse of {reuse}")),
        }
    }

    /// The same of a second sparse factor.
    fn check_second(&self) -> Result<(), String> {
        let Some(Second { features, pairs, written, .. }) = &self.second else { return Ok(()) };
        let (spec, Workload { m, n, k, .. }) = (self.workload.spec(), &self.workload);
        if !operation::of(spec.op).has_second_factor() {
            return Err(format!("op = {} has no second sparse factor", spec.op));
        }
        let [rows, depth, columns] =
            [(m, spec.bm), (k, spec.bk), (n, spec.bn)].map(|(side, block)| side.div_ceil(block.max(1) as usize));
        if (features.block_rows, features.block_cols) != (depth, columns)
            || features.nnzb > depth.saturating_mul(columns)
        {
            let fact = format!("B of {k} x {n} in blocks of {} x {} is {depth} x {columns} blocks", spec.bk, spec.bn);
            let Features { block_rows, block_cols, nnzb, .. } = features;
            return Err(format!("{fact}, and its pattern has {nnzb} of {block_rows} x {block_cols}"));
        }
        let (blocks, most) = (rows.saturating_mul(columns), self.features.nnzb.saturating_mul(columns) as u64);
        match *written > blocks || *pairs > most {
            true => Err(format!("{written} of {blocks} blocks of C, and {pairs} of at most {most} pairs")),
            false => Ok(()),
        }
    }

    /// A workload whose sparse operand has this structure, as it is stored; of two sparse factors the first one.
    pub fn new(workload: Workload, structure: &Structure) -> Self {
        Self { workload, features: Features::of(structure), second: None }
    }

    /// The product of two sparse factors of the program that asks, and the pattern of a sparse C. Columns of B, its block and
    /// K are those of the structures.
    ///
    /// # Errors
    /// Factors whose shapes or blocks do not multiply; more pairs of blocks than are counted.
    pub fn of_pairs(facts: &Facts, a: &Structure, b: &Structure, c: Option<&Structure>) -> Result<Self, Refusal> {
        let ((bm, bk), (_, bn)) = (a.block(), b.block());
        let facts = Facts::of(&facts.in_blocks(bm as u32, bk as u32).spec(bn as u32).bn(bn as u32));
        let workload = Workload::given(facts, (a.rows(), b.cols(), a.cols()));
        Ok(Self { second: Some(Second::new(a, b, c)?), ..Self::new(workload, a) })
    }

    /// What depends on the second one of two sparse factors; none of another product.
    pub fn second(&self) -> Option<Second> {
        let drawn = || Second::drawn(&self.workload, &self.features);
        let has = operation::of(self.workload.facts.op()).has_second_factor();
        has.then(|| self.second.clone().or_else(drawn)).flatten()
    }

    /// Whether the patterns of another problem are of the same classes, or next to them.
    pub(crate) fn is_alike(&self, other: &Self) -> bool {
        let near = |x: &Features, y: &Features| x.class().is_near(&y.class());
        near(&self.features, &other.features)
            && match (self.second(), other.second()) {
                (Some(x), Some(y)) => near(&x.features, &y.features),
                (x, y) => x.is_none() == y.is_none(),
            }
    }

    /// The same problem with [the other](Facts::twin) 16-bit type.
    pub fn twin(&self) -> Option<Self> {
        let facts = self.workload.facts.twin()?;
        Some(Self { workload: Workload { facts, ..self.workload.clone() }, ..self.clone() })
    }

    /// Operations on stored blocks.
    pub fn executed_flops(&self) -> u64 {
        let Heads { batch, heads, .. } = self.workload.source.heads();
        let multiplied = self.answered(|operation, sizes| operation.multiplications(sizes));
        [batch, heads].into_iter().fold(multiplied.saturating_mul(2), |flops, by| flops.saturating_mul(by as u64))
    }

    /// Bytes that must move once with cold caches.
    pub(crate) fn least_bytes(&self) -> u64 {
        self.answered(|operation, sizes| operation.least_bytes(sizes))
    }

    fn answered(&self, ask: impl Fn(&dyn operation::Operation, &operation::Sizes<'_>) -> u64) -> u64 {
        let (second, dense_extent) = (self.second(), self.dense_extent());
        let sizes = operation::Sizes {
            workload: &self.workload,
            features: &self.features,
            second: second.as_ref(),
            dense_extent,
        };
        ask(operation::of(self.workload.facts.op()), &sizes)
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
        let of_b = self.second().map(|second| format!("; B: {}", second.features.class())).unwrap_or_default();
        format!("{facts}; m = {m}, n = {n}, k = {k}; {}{of_b}{heads}", self.features.class())
    }
}
