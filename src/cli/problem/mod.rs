//! What is multiplied: the operands that the PROBLEM flags, or a workload, ask for.

mod args;
mod sizes;
mod source;

use std::path::Path;

use bsr::read::{FillIn, Sparse};
use bsr::{Bsr, Dense, Dtype, Element, Inputs, KernelSpec, Layout, Op, Pattern, Structure, read};
use bsr_tuner::problem::{self as workload, Workload};

use super::exit::Failure;
use super::operands;
pub(super) use args::{Defaults, ProblemArgs, in_a_shell};
pub(super) use sizes::Sizes;
use source::{Source, narrow_exponent, scaled};

/// What is multiplied, before blocks and element types are chosen.
#[derive(Clone, Debug)]
pub(super) struct DrawnProblem {
    source: Source,
    /// M, N and K where the flags give them.
    given: (Option<usize>, Option<usize>, Option<usize>),
    defaults: (usize, usize, usize),
    /// Products of a list where the flags say how many.
    batch: Option<usize>,
    pub(super) seed: u64,
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
    pub(super) fn new(args: &ProblemArgs, defaults: Defaults) -> Result<Self, Failure> {
        if let Some(flag) = args.of_attention() {
            let message = format!("{flag} is of op = attention\n  help: drop {flag}, or a spec with op = attention");
            return Err(Failure::bad_input(message));
        }
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
    pub(super) fn of(path: &Path, sparse: Sparse, n: usize, seed: u64) -> Result<Self, Failure> {
        let given = (None, Some(n), None);
        Ok(Self { source: scaled(path, None, sparse)?, given, defaults: (0, n, 0), batch: None, seed })
    }

    /// Products that a kernel of `spec` multiplies in one launch.
    pub(super) fn products(&self, spec: &KernelSpec) -> usize {
        if spec.batch.is_on() { self.batch.unwrap_or(LIST) } else { 1 }
    }

    /// These products: the first one, and others with patterns, where they are drawn, and values of their own.
    ///
    /// # Errors
    /// Bad input: a list of a kernel that multiplies one product, or too long a list.
    pub(super) fn list(&self, spec: &KernelSpec) -> Result<Vec<Self>, Failure> {
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
    pub(super) fn of_workload(workload: &Workload) -> Result<Self, Failure> {
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
        let given = match (&source, facts.op()) {
            (Source::Pattern { .. }, _) => (Some(*m), Some(*n), None),
            (Source::File { .. }, Op::Dds) => (Some(*m), None, None),
            (Source::File { .. }, Op::Sdd | Op::Attention) => (None, None, Some(*k)),
            (Source::File { .. }, Op::Dsd) => (None, Some(*n), None),
        };
        Ok(Self { source, given, defaults: (*m, *n, *k), batch: None, seed: *seed })
    }

    /// The product with these facts, so that another process can make it again.
    pub(super) fn workload(&self, facts: &workload::Facts) -> Workload {
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

    /// What the epilogue's parameters are given. With `permute = on` the rows of C go where a reordered file had them, and
    /// otherwise anywhere.
    pub(super) fn inputs(&self, spec: &KernelSpec) -> Inputs {
        let Sizes { m, n, .. } = self.sizes(spec);
        let order = match &self.source {
            Source::File { sparse, .. } => sparse.row_order(),
            Source::Pattern { .. } => None,
        };
        operands::inputs(spec, (m, n), order, self.seed)
    }

    /// The extents of the product that `spec` says.
    pub(super) fn sizes(&self, spec: &KernelSpec) -> Sizes {
        let (m, n) = (self.given.0.unwrap_or(self.defaults.0), self.given.1.unwrap_or(self.defaults.1));
        match &self.source {
            Source::Pattern { k, .. } => Sizes::new(spec, (m, n, *k)),
            Source::File { sparse, .. } => {
                let stored = (sparse.rows(), sparse.cols());
                let (rows, cols) = if spec.transpose.is_on() { (stored.1, stored.0) } else { stored };
                let k = self.given.2.unwrap_or(self.defaults.2);
                let all = match spec.op {
                    Op::Dsd => (rows, n, cols),
                    Op::Dds => (m, cols, rows),
                    Op::Sdd | Op::Attention => (rows, cols, k),
                };
                Sizes::new(spec, all)
            }
        }
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
        let (said, other) = match spec.op {
            Op::Dsd => ([m, k], "--n"),
            Op::Dds => ([n, k], "--m"),
            Op::Sdd | Op::Attention => ([m, n], "--k"),
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
    pub(super) fn facts(&self, spec: &KernelSpec) -> Result<Facts, Failure> {
        self.check_flags(spec)?;
        self.check_list(spec)?;
        let (block, sizes) = ((spec.bm as usize, spec.bk as usize), self.sizes(spec));
        let (name, dtype) = match spec.op {
            Op::Dsd => ("A", spec.a),
            Op::Dds => ("B", spec.b),
            Op::Sdd => ("C", spec.out),
            Op::Attention => ("mask", spec.out),
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
        let (a, b, c) = match spec.op {
            Op::Dsd => (stored, area(sizes.dense), area((sizes.m, sizes.n))),
            Op::Dds => (area(sizes.dense), stored, area((sizes.m, sizes.n))),
            Op::Sdd | Op::Attention => (area((sizes.m, sizes.k)), area(sizes.dense), stored),
        };
        let products = self.products(spec) as f64;
        let operands = [("A", products * a, spec.a), ("B", products * b, spec.b), ("C", products * c, spec.out)];
        let fewer = if spec.batch.is_on() { "smaller --m, --n, --k or --batch" } else { "smaller --m, --n or --k" };
        check_memory(&operands, &format!("{fewer}, or fewer blocks"))?;
        Ok(facts)
    }

    /// The sparse factor in the blocks of `spec`, with its values; for a file, what the blocking costs.
    ///
    /// # Errors
    /// Bad input: a pattern or a matrix that cannot be had in these blocks.
    pub(super) fn sparse<T: Element>(&self, spec: &KernelSpec) -> Result<(Bsr<T>, Option<FillIn>), Failure> {
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
    pub(super) fn dense_a<T: Element>(&self, spec: &KernelSpec) -> Dense<T> {
        let Sizes { m, k, .. } = self.sizes(spec);
        Dense::normal(m, k, Layout::RowMajor, self.seed.wrapping_add(1))
    }

    /// The dense factor, row-major, drawn from N(0, 1), and wider for integers.
    pub(super) fn dense<T: Element>(&self, spec: &KernelSpec) -> Dense<T> {
        let (rows, cols) = self.sizes(spec).dense;
        Dense::normal(rows, cols, Layout::RowMajor, self.seed)
    }

    /// The product in words.
    pub(super) fn words(&self, spec: &KernelSpec) -> String {
        let Sizes { m, n, k, .. } = self.sizes(spec);
        match (spec.op, spec.transpose.is_on()) {
            (Op::Sdd, false) => format!("C[{m}, {n}] = A[{m}, {k}] * B[{k}, {n}], C sparse"),
            (Op::Sdd, true) => format!("C[{n}, {m}]^T = A[{m}, {k}] * B[{k}, {n}], C^T sparse"),
            (Op::Dds, true) => format!("C[{m}, {n}] = A[{m}, {k}] * B[{n}, {k}]^T, B sparse"),
            (Op::Dds, false) => format!("C[{m}, {n}] = A[{m}, {k}] * B[{k}, {n}], B sparse"),
            (_, true) => format!("C[{m}, {n}] = A[{k}, {m}]^T * B[{k}, {n}]"),
            (_, false) => format!("C[{m}, {n}] = A[{m}, {k}] * B[{k}, {n}]"),
        }
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
    pub(super) fn sparse_words(&self, facts: &Facts) -> String {
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

    /// The pattern, or the name of the file.
    pub(super) fn source(&self) -> String {
        self.source.to_string()
    }
}

/// What is known of the sparse factor before its values are drawn.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    /// `A` or `B`.
    pub(super) name: &'static str,
    pub(super) structure: Structure,
    /// The pattern, or the name of the file.
    pub(super) source: String,
    /// What the blocking of a file costs.
    pub(super) fill_in: Option<FillIn>,
    /// The values of a file are multiplied by two to this power.
    pub(super) exponent: i32,
}

impl Facts {
    /// What tells the facts of one problem apart.
    pub(super) fn key(&self) -> (&'static str, (usize, usize), (usize, usize), i32) {
        (self.name, self.structure.block(), (self.structure.rows(), self.structure.cols()), self.exponent)
    }
}

/// The cost of a blocking in words.
pub(super) fn fill_in_words(fill_in: &FillIn) -> String {
    format!("{:.2} = {} stored values / {} nonzeros", fill_in.ratio(), fill_in.stored(), fill_in.true_nnz())
}

/// Makes sure that operands fit this machine's memory: the name, the elements and the type of each.
///
/// # Errors
/// Bad input, with the arithmetic.
pub(super) fn check_memory(operands: &[(&str, f64, Dtype)], help: &str) -> Result<(), Failure> {
    let bytes = |(_, elements, dtype): &(&str, f64, Dtype)| elements * f64::from(dtype.bytes());
    let gigabytes = |bytes: f64| format!("{:.1}", bytes / 1e9);
    match read::memory_available() {
        Some(available) if operands.iter().map(bytes).sum::<f64>() > available as f64 => {
            let words = |operand: &(&str, f64, Dtype)| {
                format!("{} {} GB of {}", operand.0, gigabytes(bytes(operand)), operand.2)
            };
            let sum = operands.iter().map(words).collect::<Vec<_>>().join(" + ");
            let fact = "the problem does not fit this machine's memory";
            let available = gigabytes(available as f64);
            let message = format!("{fact}\n  {sum}; {available} GB are available\n  help: {help}");
            Err(Failure::bad_input(message))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
