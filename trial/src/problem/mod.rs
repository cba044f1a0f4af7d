//! The operands of a product or of an SDDMM: drawn by shape, pattern and seed, or from a file.

mod defaults;
mod draw;
mod sizes;
mod source;

use std::path::Path;

use bsr_codegen::{Dtype, KernelSpec, Operand};
use bsr_runtime::extents::sparse_operand;
use bsr_runtime::read::{self, FillIn, Sparse};
use bsr_runtime::{Bsr, Dense, Element, Extents, Inputs, Layout, Pattern, Structure};

use crate::request::{Defaults, Request};
use crate::workload::{self, Workload};
use crate::{Failure, memory};
pub(crate) use draw::{dense_layout, inputs, scales};
pub use sizes::Sizes;
use source::{Source, narrow_exponent, scaled};

/// What is multiplied, before blocks and element types are chosen.
#[derive(Clone, Debug)]
pub struct DrawnProblem {
    source: Source,
    /// M, N and K where the flags give them.
    given: (Option<usize>, Option<usize>, Option<usize>),
    defaults: (usize, usize, usize),
    /// Products of a list where the flags say how many.
    batch: Option<usize>,
    /// Seed of the pattern and of all values that are drawn.
    pub seed: u64,
}

/// Products of a list of which nothing is said.
const LIST: usize = 2;
/// The most products of a list.
const LONGEST_LIST: usize = 4096;

impl DrawnProblem {
    /// Reads the file, if there is one; what the flags leave open is as in `defaults`.
    ///
    /// # Errors
    /// Bad input: a file that cannot be read or has no rows or no columns.
    pub fn new(args: &Request, defaults: Defaults, block: (usize, usize)) -> Result<Self, Failure> {
        if let Some(flag) = args.flag_of_attention() {
            let message = format!("{flag} is of op = attention\n  help: drop {flag}, or a spec with op = attention");
            return Err(Failure::bad_input(message));
        }
        let defaults = defaults::Sizes::of(defaults, block);
        let source = match &args.matrix {
            None => {
                let k = args.k.unwrap_or(defaults.k);
                let is_sized = args.m.is_some() || args.n.is_some() || args.k.is_some();
                let pattern = args.pattern.unwrap_or_else(|| defaults.pattern(k, is_sized));
                Source::Pattern { pattern, k, is_default: args.pattern.is_none() }
            }
            Some(path) => {
                let tensor = args.tensor.as_deref();
                scaled(path, tensor, read::load_array(path, tensor, args.seed)?)?
            }
        };
        Ok(Self {
            source,
            given: (args.m, args.n, args.k),
            defaults: (defaults.m, defaults.n, defaults.k),
            batch: args.batch,
            seed: args.seed,
        })
    }

    /// A matrix that was read from `path`, times `n` columns.
    ///
    /// # Errors
    /// Bad input: it has no rows or no columns.
    pub fn of(path: &Path, sparse: Sparse, n: usize, seed: u64) -> Result<Self, Failure> {
        let given = (None, Some(n), None);
        Ok(Self { source: scaled(path, None, sparse)?, given, defaults: (0, n, 0), batch: None, seed })
    }

    /// Products that a kernel of `spec` multiplies in one launch.
    pub fn products(&self, spec: &KernelSpec) -> usize {
        if spec.batch.is_on() { self.batch.unwrap_or(LIST) } else { 1 }
    }

    /// These products: the first one, and others with patterns, where they are drawn, and values of their own.
    ///
    /// # Errors
    /// Bad input: a list of a kernel that multiplies one product, or too long a list.
    pub fn list(&self, spec: &KernelSpec) -> Result<Vec<Self>, Failure> {
        self.check_list(spec)?;
        // SDDMMs draw A by the next seed.
        let seed = |number: u64| self.seed.wrapping_add(1000 * number);
        Ok((0..self.products(spec) as u64).map(|number| Self { seed: seed(number), ..self.clone() }).collect())
    }

    /// Makes sure that a list is one, and not too long.
    fn check_list(&self, spec: &KernelSpec) -> Result<(), Failure> {
        let refused = |message: String| Err(Failure::bad_input(message));
        match self.batch {
            Some(batch) if !spec.batch.is_on() => refused(format!(
                "--batch {batch} beside batch = off: a launch multiplies one product\n  help: batch = on in the SPEC of \
                 `bsr check` or `bsr run --device sim`, or drop --batch"
            )),
            Some(batch) if batch > LONGEST_LIST => {
                refused(format!("--batch {batch}: lists have at most {LONGEST_LIST} products here\n  help: --batch 16"))
            }
            _ => Ok(()),
        }
    }

    /// The product that a workload describes.
    ///
    /// # Errors
    /// Bad input: words that name no pattern, a file that cannot be read, a matrix of another program.
    pub fn of_workload(workload: &Workload) -> Result<Self, Failure> {
        let Workload { facts, m, n, k, source, seed } = workload;
        let source = match source {
            workload::Source::Pattern(words) => {
                let pattern = words.parse().map_err(Failure::bad_input)?;
                Source::Pattern { pattern, k: *k, is_default: false }
            }
            workload::Source::File(path) => scaled(path, None, read::load(path, *seed)?)?,
            workload::Source::Tensor { file, name } => {
                scaled(file, Some(name), read::load_array(file, Some(name), *seed)?)?
            }
            workload::Source::Mask { .. } => {
                return Err(Failure::bad_input("the pattern of an attention is no matrix"));
            }
            workload::Source::Given => {
                return Err(Failure::bad_input("a matrix of a running program cannot be made again"));
            }
        };
        let given = match (&source, sparse_operand(facts.op())) {
            (Source::Pattern { .. }, _) => (Some(*m), Some(*n), None),
            (Source::File { .. }, Operand::A) => (None, Some(*n), None),
            (Source::File { .. }, Operand::B) => (Some(*m), None, None),
            (Source::File { .. }, _) => (None, None, Some(*k)),
        };
        Ok(Self { source, given, defaults: (*m, *n, *k), batch: None, seed: *seed })
    }

    /// The product with these facts, so that another process can make it again.
    pub fn workload_of(&self, facts: &workload::Facts) -> Workload {
        let Sizes { m, n, k, .. } = self.sizes(&facts.spec(64));
        let source = match &self.source {
            Source::Pattern { pattern, .. } => {
                workload::Source::Pattern(self.pattern(&facts.spec(64)).unwrap_or(*pattern).to_string())
            }
            // From wherever it is asked for again.
            Source::File { path, tensor, .. } => {
                let file = std::fs::canonicalize(path).unwrap_or_else(|_| path.clone());
                match tensor.clone() {
                    None => workload::Source::File(file),
                    Some(name) => workload::Source::Tensor { file, name },
                }
            }
        };
        Workload { facts: *facts, m, n, k, source, seed: self.seed }
    }

    /// Whether the sparse factor is from a file.
    pub(crate) fn is_of_file(&self) -> bool {
        matches!(self.source, Source::File { .. })
    }

    /// The order of the rows of a file that was reordered.
    pub(crate) fn row_order(&self) -> Option<&bsr_runtime::Permutation> {
        match &self.source {
            Source::File { sparse, .. } => sparse.row_order(),
            Source::Pattern { .. } => None,
        }
    }

    /// What the epilogue's parameters are given. With `permute = on` the rows of C go where a reordered file had them, and
    /// otherwise anywhere.
    pub fn inputs(&self, spec: &KernelSpec) -> Inputs {
        let Sizes { m, n, .. } = self.sizes(spec);
        inputs(spec, (m, n), self.row_order(), self.seed)
    }

    /// The extents of the product that `spec` says.
    pub fn sizes(&self, spec: &KernelSpec) -> Sizes {
        let (m, n) = (self.given.0.unwrap_or(self.defaults.0), self.given.1.unwrap_or(self.defaults.1));
        let extents = match &self.source {
            Source::Pattern { k, .. } => Extents { m, n, k: *k },
            Source::File { sparse, .. } => {
                let along = Extents { m, n, k: self.given.2.unwrap_or(self.defaults.2) }.along(spec.op);
                Extents::of_stored(spec, (sparse.rows(), sparse.cols()), along)
            }
        };
        Sizes::new(spec, extents)
    }

    /// The pattern for a kernel; none of a file. The default one has at most half of the block columns that there are, and
    /// at least one block.
    fn pattern(&self, spec: &KernelSpec) -> Option<Pattern> {
        match &self.source {
            Source::Pattern { pattern: Pattern::Random(density), is_default: true, .. } => {
                let (rows, cols) = self.sizes(spec).sparse;
                let all = rows.div_ceil(spec.bm.max(1) as usize) * cols.div_ceil(spec.bk.max(1) as usize);
                Some(Pattern::Random(density.max(1.0 / all.max(1) as f64)))
            }
            Source::Pattern { pattern: Pattern::TopK(count), is_default: true, .. } => {
                let columns = self.sizes(spec).sparse.1.div_ceil(spec.bk.max(1) as usize);
                Some(Pattern::TopK((*count).min(columns.div_ceil(2)).max(1)))
            }
            Source::Pattern { pattern, .. } => Some(*pattern),
            Source::File { .. } => None,
        }
    }

    /// Makes sure that no flag says what a file does.
    fn check_flags(&self, spec: &KernelSpec) -> Result<(), Failure> {
        let (m, n, k) = (("--m", self.given.0), ("--n", self.given.1), ("--k", self.given.2));
        let (said, other) = match sparse_operand(spec.op) {
            Operand::A => ([m, k], "--n"),
            Operand::B => ([n, k], "--m"),
            _ => ([m, n], "--k"),
        };
        match (&self.source, said.into_iter().find(|(_, given)| given.is_some())) {
            (Source::File { path, .. }, Some((flag, _))) => Err(Failure::bad_input(format!(
                "{flag} beside --matrix: {} says how large it is\n  help: drop {flag}; {other} is free in op = {}",
                path.display(),
                spec.op
            ))),
            _ => Ok(()),
        }
    }

    /// The sparse factor in the blocks of `spec`, without the values that are drawn: makes sure that the problem can be had, and fits
    /// this machine's memory.
    ///
    /// # Errors
    /// Bad input, with the arithmetic.
    pub fn facts(&self, spec: &KernelSpec) -> Result<Facts, Failure> {
        self.check_flags(spec)?;
        self.check_list(spec)?;
        let (block, sizes) = ((spec.bm as usize, spec.bk as usize), self.sizes(spec));
        let (name, dtype) = match sparse_operand(spec.op) {
            Operand::A => ("A", spec.a),
            Operand::B => ("B", spec.b),
            _ => ("C", spec.out),
        };
        let facts = match &self.source {
            Source::Pattern { pattern, .. } => {
                let (rows, cols) = sizes.sparse;
                let structure = self.pattern(spec).unwrap_or(*pattern).structure(rows, cols, block, self.seed)?;
                let source = self.pattern(spec).unwrap_or(*pattern).to_string();
                Facts { name, structure, source, fill_in: None, exponent: 0 }
            }
            Source::File { exponent, .. } => {
                // The blocks are the same in every type; f32 holds all that is scaled so.
                let (a, fill_in) = self.sparse::<f32>(spec)?;
                let exponent = exponent + self.narrow_exponent(dtype);
                Facts { name, structure: a.into_parts().0, source: self.source.to_string(), fill_in, exponent }
            }
        };
        let area = |(rows, cols): (usize, usize)| rows as f64 * cols as f64;
        let stored = facts.structure.stored() as f64;
        let (extents, products) = (sizes.extents(), self.products(spec) as f64);
        let operands = [(Operand::A, "A", spec.a), (Operand::B, "B", spec.b), (Operand::C, "C", spec.out)];
        let operands = operands.map(|(operand, name, dtype)| {
            let elements = if operand == sparse_operand(spec.op) { stored } else { area(extents.of(operand)) };
            (name, products * elements, dtype)
        });
        let fewer = if spec.batch.is_on() { "smaller --m, --n, --k or --batch" } else { "smaller --m, --n or --k" };
        memory::check(&operands, &format!("{fewer}, or fewer blocks"))?;
        Ok(facts)
    }

    /// The sparse factor in the blocks of `spec`, with its values; for a file, what the blocking costs.
    ///
    /// # Errors
    /// Bad input: a pattern or a matrix that cannot be had in these blocks.
    pub fn sparse<T: Element>(&self, spec: &KernelSpec) -> Result<(Bsr<T>, Option<FillIn>), Failure> {
        let block = (spec.bm as usize, spec.bk as usize);
        match &self.source {
            Source::Pattern { pattern, .. } => {
                let (rows, cols) = self.sizes(spec).sparse;
                let pattern = self.pattern(spec).unwrap_or(*pattern);
                Ok((Bsr::generate(pattern, rows, cols, block, self.seed)?, None))
            }
            Source::File { path, sparse, .. } => {
                let converted = match self.narrow_exponent(T::DTYPE) {
                    0 => sparse.to_bsr(block),
                    exponent => sparse.clone().scaled(f64::from(exponent).exp2()).to_bsr(block),
                };
                let (a, fill_in) =
                    converted.map_err(|error| Failure::bad_input(format!("{}: {error}", path.display())))?;
                Ok((a, Some(fill_in)))
            }
        }
    }

    /// A of a product of two dense factors, row-major, drawn like B and independent of it.
    pub fn dense_a<T: Element>(&self, spec: &KernelSpec) -> Dense<T> {
        let Sizes { m, k, .. } = self.sizes(spec);
        Dense::normal(m, k, Layout::RowMajor, self.seed.wrapping_add(1))
    }

    /// The dense factor, row-major, drawn from N(0, 1), and wider for integers.
    pub fn dense<T: Element>(&self, spec: &KernelSpec) -> Dense<T> {
        let (rows, cols) = self.sizes(spec).dense;
        Dense::normal(rows, cols, Layout::RowMajor, self.seed)
    }

    /// The power of two by which the values of a file are scaled for a type besides what [`scale`] did: what 8 bits
    /// resolve is no more than two or three digits below their largest.
    fn narrow_exponent(&self, dtype: Dtype) -> i32 {
        match &self.source {
            Source::File { sparse, .. } => narrow_exponent(sparse.largest(), dtype),
            Source::Pattern { .. } => 0,
        }
    }

    /// The sparse factor in words, once it is in blocks: `8 of 20 blocks of 512 x 112 stored (40.0 %), topk:4, seed 0`.
    pub fn sparse_words(&self, facts: &Facts) -> String {
        let a = &facts.structure;
        let (bm, bk) = a.block();
        let scaled = match facts.exponent {
            0 => String::new(),
            exponent => format!(", values * 2^{exponent}"),
        };
        format!(
            "{} of {} blocks of {bm} x {bk} stored ({:.1} %), {}, seed {}{scaled}",
            a.nnzb(),
            a.block_rows() * a.block_cols(),
            100.0 * a.density(),
            facts.source,
            self.seed
        )
    }

    /// The pattern for a kernel, or the name of the file.
    pub(crate) fn source_words(&self, spec: &KernelSpec) -> String {
        self.pattern(spec).map_or_else(|| self.source.to_string(), |pattern| pattern.to_string())
    }
}

/// What is known of the sparse factor before its values are drawn.
#[derive(Clone, Debug)]
pub struct Facts {
    /// `A`, `B` or `C`.
    pub name: &'static str,
    /// Its stored blocks.
    pub structure: Structure,
    /// The pattern, or the name of the file.
    pub source: String,
    /// What the blocking of a file costs.
    pub fill_in: Option<FillIn>,
    /// The values of a file are multiplied by two to this power.
    pub exponent: i32,
}

/// The cost of a blocking in words.
pub fn fill_in_words(fill_in: &FillIn) -> String {
    format!("{:.2} = {} stored values / {} nonzeros", fill_in.ratio(), fill_in.stored(), fill_in.true_nnz())
}

#[cfg(test)]
mod tests;
