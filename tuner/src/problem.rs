//! What is multiplied: the facts of a spec, the shape, and where the pattern is from.

use std::borrow::Cow;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use bsr_codegen::spec::{Key, SpecErrors};
use bsr_codegen::{Accumulate, KernelSpec, Op};
use bsr_runtime::Structure;
use serde::{Deserialize, Serialize};

use crate::Features;

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
    pub batch: usize,
    /// Heads of Q and O.
    pub heads: usize,
    /// Heads of K and V.
    pub key_heads: usize,
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
    pub m: usize,
    /// Columns of C.
    pub n: usize,
    /// Elements that are summed.
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
}

/// A workload with what is known of its pattern.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TuningProblem {
    /// The product.
    pub workload: Workload,
    /// What a choice of kernel depends on.
    pub features: Features,
}

impl TuningProblem {
    /// A workload whose sparse operand has this structure, as it is stored.
    pub fn new(workload: Workload, structure: &Structure) -> Self {
        Self { workload, features: Features::of(structure) }
    }

    /// Operations on stored blocks.
    pub fn executed_flops(&self) -> u64 {
        let ((bm, bk), along) = (self.workload.facts.block(), self.along());
        if self.workload.facts.is_attention() {
            let Heads { batch, heads, .. } = self.workload.source.heads();
            let columns = along as u64 + u64::from(self.workload.facts.0.bn);
            return 2 * self.features.nnzb as u64 * (bm * bk) as u64 * columns * (batch * heads) as u64;
        }
        2 * self.features.nnzb as u64 * bm as u64 * bk as u64 * along as u64
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
