//! A problem that another process can draw again: the facts of a spec, the shape, and where the pattern is from.

use std::borrow::Cow;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use bsr_codegen::spec::{Key, SpecErrors};
use bsr_codegen::{Dtype, KernelSpec, Op};
use bsr_runtime::attention::{Mask, Sequences, Shape};
use bsr_runtime::read::{self, LONGEST_SIDE, Sparse};
use bsr_runtime::{Documents, Extents, Pattern, Structure};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use crate::Failure;

/// The keys of a spec that belong to the problem: with another value another product is computed, or to another precision.
/// All others are choices, which a sweep may make.
pub fn fact_keys() -> impl Iterator<Item = Key> + Clone {
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
        let bn = if Self::has_width(spec.op) { spec.bn } else { ANY_BN };
        Self(spec.without_choices().bn(bn))
    }

    /// A spec with these facts, every choice left to the plan but the width of the dense tile. An attention has none: its `bn`
    /// is a fact.
    pub fn spec(&self, bn: u32) -> KernelSpec {
        if Self::has_width(self.0.op) { self.0 } else { self.0.bn(bn) }
    }

    /// The same product in blocks of another size.
    #[doc(hidden)]
    pub fn in_blocks(&self, bm: u32, bk: u32) -> Self {
        let mut spec = self.0;
        (spec.bm, spec.bk) = (bm, bk);
        Self(spec)
    }

    /// The same with bf16 for f16, or f16 for bf16; none where there are no such operands, or some of both. A kernel takes as
    /// long with either.
    pub fn twin(&self) -> Option<Self> {
        let is = |dtype: Dtype| [self.0.a, self.0.b].contains(&dtype);
        (is(Dtype::F16) != is(Dtype::BF16)).then(|| Self(twin(self.0)))
    }

    /// Whether `bn` is a fact of an operation: of an attention, whose V has so many columns, and of a sparse B, whose blocks have.
    pub fn has_width(op: Op) -> bool {
        op.is_of_heads() || op.is_of_pairs()
    }

    /// Which operand is sparse.
    pub fn op(&self) -> Op {
        self.0.op
    }

    /// Whether the product is an attention, of heads.
    #[doc(hidden)]
    pub fn has_heads(&self) -> bool {
        self.0.op.is_of_heads()
    }

    /// Rows and columns of a block.
    pub fn block(&self) -> (usize, usize) {
        (self.0.bm as usize, self.0.bk as usize)
    }
}

/// A spec with bf16 for f16, and f16 for bf16.
pub fn twin(mut spec: KernelSpec) -> KernelSpec {
    for dtype in [&mut spec.a, &mut spec.b, &mut spec.out] {
        *dtype = match *dtype {
            Dtype::F16 => Dtype::BF16,
            Dtype::BF16 => Dtype::F16,
            other => other,
        };
    }
    spec
}

/// B of a product of two sparse factors, for an A of this structure and so many columns: such a part of its blocks, at random.
///
/// # Errors
/// Sizes beyond 32 bits.
#[doc(hidden)]
pub fn second_factor(
    spec: &KernelSpec,
    a: &Structure,
    (n, density): (usize, f64),
    seed: u64,
) -> Result<Structure, Failure> {
    let block = (spec.bk as usize, spec.bn as usize);
    Ok(Pattern::Random(density).structure(a.cols(), n, block, seed.wrapping_add(1))?)
}

/// Stands in a spec whose `bn` nobody reads.
const ANY_BN: u32 = 64;

impl fmt::Display for Facts {
    /// As in a spec, without `bn` where it is a choice: `bm = 512, bk = 112, dtype = bf16`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if Self::has_width(self.0.op) {
            return write!(f, "{}", self.0);
        }
        f.write_str(&self.0.to_string().replacen(&format!("bn = {ANY_BN}, "), "", 1))
    }
}

impl FromStr for Facts {
    type Err = SpecErrors;

    fn from_str(text: &str) -> Result<Self, SpecErrors> {
        if let Ok(spec) = text.parse::<KernelSpec>()
            && Self::has_width(spec.op)
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

/// Whether a size is one that the command line takes.
///
/// # Errors
/// In words: it is not.
pub fn check_side(size: usize) -> Result<(), String> {
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

    /// The attention of a mask of the program that asks: queries, keys, and columns of Q.
    #[doc(hidden)]
    pub fn given_mask(facts: Facts, [m, n, k]: [usize; 3], heads: Heads) -> Self {
        Self { facts, m, n, k, source: Source::Mask { pattern: "given".to_owned(), heads }, seed: 0 }
    }

    /// A spec with the facts, of any width of the dense tile.
    pub fn spec(&self) -> KernelSpec {
        self.facts.spec(ANY_BN)
    }

    /// Rows and columns of the sparse operand as it is stored.
    pub fn stored_shape(&self) -> (usize, usize) {
        self.extents().stored(&self.spec())
    }

    /// M, N and K.
    pub fn extents(&self) -> Extents {
        Extents { m: self.m, n: self.n, k: self.k }
    }

    /// The sparse operand without its values, as it is stored, where the source is a pattern in words.
    ///
    /// # Errors
    /// Words that are no pattern, or a pattern that these sizes do not have.
    pub fn pattern(&self) -> Option<Result<Structure, Failure>> {
        let (Source::Pattern(words) | Source::Mask { pattern: words, .. }) = &self.source else { return None };
        let ((rows, cols), block) = (self.stored_shape(), self.facts.block());
        let drawn = |pattern: Pattern| Ok(pattern.structure(rows, cols, block, self.seed)?);
        Some(words.parse().map_err(Failure::bad_input).and_then(drawn))
    }

    /// The sparse operand without its values, as it is stored.
    ///
    /// # Errors
    /// As [`Workload::pattern`]; a file that cannot be read, a matrix of another program.
    pub fn structure(&self) -> Result<Structure, Failure> {
        let (words, block) = (self.pattern(), self.facts.block());
        match (words, &self.source) {
            (Some(drawn), _) => drawn,
            (None, Source::File(path)) => Ok(self.load(path, None)?.structure(block)?),
            (None, Source::Tensor { file, name }) => Ok(self.load(file, Some(name))?.structure(block)?),
            (None, _) => Err(Failure::bad_input("a matrix of another program cannot be drawn again")),
        }
    }

    /// A matrix of a file: the one called `name`, or the only one.
    fn load(&self, path: &Path, name: Option<&str>) -> Result<Sparse, Failure> {
        let sparse = read::load_array(path, name, self.seed)?;
        let (rows, cols) = self.stored_shape();
        if (sparse.rows(), sparse.cols()) != (rows, cols) {
            return Err(Failure::bad_input(format!(
                "{} is {} x {}, the workload says {rows} x {cols}\n  help: has the file changed since the sweep began?",
                path.display(),
                sparse.rows(),
                sparse.cols()
            )));
        }
        Ok(sparse)
    }

    /// The sizes of an attention.
    ///
    /// # Errors
    /// Sizes that no attention has.
    pub fn shape(&self) -> Result<Shape, Failure> {
        let Heads { batch, heads, key_heads } = self.source.heads();
        let columns = self.spec().bn as usize;
        let shape = Shape { batch, heads, key_heads, queries: self.m, keys: self.n, columns };
        shape.check(None)?;
        Ok(shape)
    }

    /// The sequences that a pattern of documents packs along queries and keys; none of another one.
    ///
    /// # Errors
    /// More keys than a score numbers.
    pub fn sequences(&self) -> Result<Option<Sequences>, Failure> {
        let Source::Mask { pattern, .. } = &self.source else { return Ok(None) };
        let pattern = pattern.parse().map_err(Failure::bad_input)?;
        let Some(Documents { rows, columns, causal }) = Documents::of(pattern, (self.m, self.n), self.seed) else {
            return Ok(None);
        };
        let packed = Sequences::new(&rows, &columns, (self.m, self.n))?;
        Ok(Some(if causal { packed.causal() } else { packed }))
    }

    /// The blocks of Q K^T that an attention computes. Where the kernel has a score, it is computed in all of them, of a
    /// causal pattern in those on the diagonal alone, and of documents where not every pair is of one.
    ///
    /// # Errors
    /// As [`Workload::structure`].
    pub fn mask(&self) -> Result<Mask, Failure> {
        if let Some(packed) = self.sequences()?.filter(|_| self.spec().score.is_some()) {
            return Ok(packed.mask(self.facts.block())?);
        }
        let (spec, structure) = (self.spec(), self.structure()?);
        let (bm, bk) = structure.block();
        let is_causal = match &self.source {
            Source::Mask { pattern, .. } => pattern.parse() == Ok(Pattern::Causal),
            _ => false,
        };
        let is_partial =
            |row: usize, column: usize| spec.score.is_some() && (!is_causal || (column + 1) * bk > row * bm + 1);
        Ok(Mask::of_structure(&structure, is_partial)?)
    }
}
