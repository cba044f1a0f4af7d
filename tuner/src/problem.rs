//! What is multiplied: the facts of a spec, the shape, and where the pattern is from.

use std::borrow::Cow;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use bsr_codegen::spec::{Key, SpecErrors};
use bsr_codegen::{Accumulate, Dtype, KernelSpec, Op};
use bsr_runtime::features::Features;
use bsr_runtime::read::LONGEST_SIDE;
use bsr_runtime::{Pattern, Structure};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

/// The keys of a spec that belong to the problem: with another value another product is computed, or to another precision.
/// All others are choices, which a sweep may make.
pub(crate) fn fact_keys() -> impl Iterator<Item = Key> + Clone {
    Key::ALL.into_iter().filter(|key| key.is_fact())
}

/// What a spec says of the product: block, operation, types, layouts, scales, epilogue, order of rows, and whether FP8 sums
/// are promoted.
///
/// Two specs with equal facts compute the same product and differ in how.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Facts(KernelSpec);

impl Facts {
    /// The facts of a spec: its choices are forgotten.
    pub fn of(spec: &KernelSpec) -> Self {
        // The width of the tile is what a spec cannot be without; no fact, but of attention, whose head dimension it is.
        let bn = if spec.op == Op::Attention { spec.bn } else { ANY_BN };
        let mut facts = KernelSpec::new(spec.bm, bn, spec.bk);
        fact_keys().for_each(|key| facts.copy_key(key, spec));
        facts.accumulate = spec.accumulate.filter(|kind| *kind == Accumulate::Promoted);
        Self(facts)
    }

    /// A spec with these facts, every choice left to the plan but the width of the dense tile. An attention has none: its `bn`
    /// is a fact.
    pub fn spec(&self, bn: u32) -> KernelSpec {
        if self.is_attention() { self.0 } else { self.0.bn(bn) }
    }

    /// The same with bf16 for f16, or f16 for bf16; none where there are no such operands, or some of both. A kernel takes as
    /// long with either.
    pub fn twin(&self) -> Option<Self> {
        let is = |dtype: Dtype| [self.0.a, self.0.b].contains(&dtype);
        (is(Dtype::F16) != is(Dtype::BF16)).then(|| Self(twin(self.0)))
    }

    /// Whether it is an attention.
    pub fn is_attention(&self) -> bool {
        self.0.op == Op::Attention
    }

    /// Which operand is sparse.
    pub fn op(&self) -> Op {
        self.0.op
    }

    /// Rows and columns of a block.
    pub fn block(&self) -> (usize, usize) {
        (self.0.bm as usize, self.0.bk as usize)
    }
}

/// A spec with bf16 for f16, and f16 for bf16.
pub(crate) fn twin(mut spec: KernelSpec) -> KernelSpec {
    for dtype in [&mut spec.a, &mut spec.b, &mut spec.out] {
        *dtype = match *dtype {
            Dtype::F16 => Dtype::BF16,
            Dtype::BF16 => Dtype::F16,
            other => other,
        };
    }
    spec
}

/// Stands in a spec whose `bn` nobody reads.
const ANY_BN: u32 = 64;

impl fmt::Display for Facts {
    /// As in a spec, without `bn` where it is a choice: `bm = 512, bk = 112, dtype = bf16`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_attention() {
            return write!(f, "{}", self.0);
        }
        f.write_str(&self.0.to_string().replacen(&format!("bn = {ANY_BN}, "), "", 1))
    }
}

impl FromStr for Facts {
    type Err = SpecErrors;

    fn from_str(text: &str) -> Result<Self, SpecErrors> {
        if let Ok(spec) = text.parse::<KernelSpec>()
            && spec.op == Op::Attention
        {
            return Ok(Self::of(&spec));
        }
        Ok(Self::of(&format!("{text}, bn = {ANY_BN}").parse()?))
    }
}

impl TryFrom<String> for Facts {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse().map_err(|errors: SpecErrors| errors.to_string())
    }
}

impl From<Facts> for String {
    fn from(facts: Facts) -> Self {
        facts.to_string()
    }
}

/// Where a pattern is from.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// A pattern in its words: `topk:16`.
    Pattern(String),
    /// A file.
    File(PathBuf),
    /// One of several matrices of a file.
    Tensor {
        /// The file.
        file: PathBuf,
        /// What the matrix is called in it.
        name: String,
    },
    /// A pattern of queries by keys, the same in all heads of an attention.
    Mask {
        /// The pattern in its words.
        pattern: String,
        /// The heads.
        heads: Heads,
    },
    /// A matrix of the program that asks.
    Given,
}

/// The heads of an attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Heads {
    /// Problems.
    #[serde(deserialize_with = "side")]
    pub batch: usize,
    /// Heads of Q and O.
    #[serde(deserialize_with = "side")]
    pub heads: usize,
    /// Heads of K and V.
    #[serde(deserialize_with = "side")]
    pub key_heads: usize,
}

/// A size that a record may claim: as of the command line.
fn side<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    let size = usize::deserialize(deserializer)?;
    check_side(size).map_err(D::Error::custom)?;
    Ok(size)
}

pub(crate) fn check_side(size: usize) -> Result<(), String> {
    match (1..=LONGEST_SIDE).contains(&size) {
        true => Ok(()),
        false => Err(format!("a size of {size}, and sizes are 1 to {LONGEST_SIDE}")),
    }
}

impl fmt::Display for Heads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} x {} heads, {} of K and V", self.batch, self.heads, self.key_heads)
    }
}

impl Source {
    /// The heads of an attention; one of a product.
    pub fn heads(&self) -> Heads {
        match self {
            Self::Mask { heads, .. } => *heads,
            _ => Heads { batch: 1, heads: 1, key_heads: 1 },
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pattern(words) => f.write_str(words),
            Self::File(path) => f.write_str(&file_name(path)),
            Self::Tensor { file, name } => write!(f, "{}:{name}", file_name(file)),
            Self::Mask { pattern, heads } => write!(f, "{pattern}, {heads}"),
            Self::Given => f.write_str("given"),
        }
    }
}

fn file_name(path: &Path) -> Cow<'_, str> {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy()
}

/// A product that can be made again: all that a process needs to be told to draw its operands.
///
/// Of an attention M are the queries, N the keys, and K the columns of Q and K; its heads are in the source.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Workload {
    /// Block, operation, types and layouts.
    pub facts: Facts,
    /// Rows of C.
    #[serde(deserialize_with = "side")]
    pub m: usize,
    /// Columns of C.
    #[serde(deserialize_with = "side")]
    pub n: usize,
    /// Elements that are summed.
    #[serde(deserialize_with = "side")]
    pub k: usize,
    /// Where the pattern is from.
    pub source: Source,
    /// Seed of the pattern and of all values that are drawn.
    pub seed: u64,
}

impl Workload {
    /// The product of a matrix of the program that asks, which no other process can make again.
    pub fn given(facts: Facts, (m, n, k): (usize, usize, usize)) -> Self {
        Self { facts, m, n, k, source: Source::Given, seed: 0 }
    }

    /// Rows and columns of the sparse operand as it is stored.
    pub fn stored_shape(&self) -> (usize, usize) {
        let (spec, Self { m, n, k, .. }) = (&self.facts.0, self);
        let (rows, cols) = match spec.op {
            Op::Dsd => (*m, *k),
            Op::Dds => (*k, *n),
            Op::Sdd | Op::Attention => (*m, *n),
        };
        if spec.transpose.is_on() { (cols, rows) } else { (rows, cols) }
    }

    /// The sparse operand without its values, as it is stored, where the source is a pattern in words.
    ///
    /// # Errors
    /// Words that are no pattern, or a pattern that these sizes do not have.
    pub fn pattern(&self) -> Option<Result<Structure, String>> {
        let (Source::Pattern(words) | Source::Mask { pattern: words, .. }) = &self.source else { return None };
        let (rows, cols) = self.stored_shape();
        let drawn = |pattern: Pattern| {
            pattern.structure(rows, cols, self.facts.block(), self.seed).map_err(|error| error.to_string())
        };
        Some(words.parse().map_err(|error: <Pattern as FromStr>::Err| error.to_string()).and_then(drawn))
    }
}

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
        let ((bm, bk), along) = (self.workload.facts.block(), self.along());
        let Heads { batch, heads, .. } = self.workload.source.heads();
        let columns = match self.workload.facts.is_attention() {
            true => along.saturating_add(self.workload.facts.0.bn as usize),
            false => along,
        };
        [self.features.nnzb, bm, bk, columns, batch, heads]
            .into_iter()
            .fold(2, |flops, by| flops.saturating_mul(by as u64))
    }

    /// The extent of C along the dense factor; K of SDDMM.
    pub fn along(&self) -> usize {
        match self.workload.facts.0.op {
            Op::Dds => self.workload.m,
            Op::Sdd | Op::Attention => self.workload.k,
            Op::Dsd => self.workload.n,
        }
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
