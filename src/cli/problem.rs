//! The PROBLEM flags: what is multiplied.

use std::fmt;
use std::path::{Path, PathBuf};

use bsr::read::{FillIn, Sparse};
use bsr::{Bsr, Dense, Dtype, Element, KernelSpec, Layout, Op, Pattern, Structure, read};
use bsr_tuner::problem::{self as workload, Workload};
use clap::builder::RangedU64ValueParser;

use super::exit::{Exit, Failure};

/// No side of a matrix may be longer: the limit of the readers, and far beyond what a GPU holds.
const LONGEST_SIDE: u64 = 1 << 27;
/// A file whose largest magnitude lies outside these bounds is scaled, so that f16 holds it and its products.
const MAGNITUDES: std::ops::RangeInclusive<f64> = 1.0 / 256.0..=256.0;

fn side() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..=LONGEST_SIDE)
}

/// C[M, N] = A[M, K] * B[K, N]: the sparse operand, A, with op = dds B, with op = sdd C, from a pattern or a file, as it is
/// stored (with transpose = on its columns are rows of the operand); dense factors drawn from N(0, 1), i8 from a normal distribution as
/// wide as 20.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Problem")]
pub(super) struct ProblemArgs {
    /// Rows of A and C. [default: 4096; fewer on the simulator]
    #[arg(long, value_parser = side(), value_name = "ROWS")]
    m: Option<usize>,
    /// Columns of B and C. [default: 4096; fewer on the simulator]
    #[arg(long, value_parser = side(), value_name = "COLUMNS")]
    n: Option<usize>,
    /// Columns of A, rows of B; not necessarily a multiple of bk. [default: 4096; fewer on the simulator]
    #[arg(long, value_parser = side(), value_name = "COLUMNS")]
    k: Option<usize>,
    /// Which blocks of the sparse factor are stored: random:DENSITY, topk:BLOCKS (in each block row), window:FRACTION (around the
    /// diagonal), causal, or powerlaw:DENSITY. [default: random:0.25; on the simulator topk:4, or fewer of large
    /// blocks]
    #[arg(long)]
    pattern: Option<Pattern>,
    /// Take the sparse factor from a file instead, which also says two of M, N and K: Matrix Market .mtx, DLMC .smtx,
    /// scipy .npz, numpy .npy, or .safetensors, as `bsr convert` writes it or with a single matrix. Rows are multiplied in
    /// the order of the file. Values are scaled by a
    /// power of two if their largest magnitude is not between 1/256 and 256; for 8-bit types always, to about the
    /// range of drawn ones.
    #[arg(long, value_name = "FILE", conflicts_with = "pattern")]
    matrix: Option<PathBuf>,
    /// Seed of the pattern and of all values that are drawn.
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

/// What is multiplied where the flags leave it open.
#[derive(Clone, Copy, Debug)]
pub(super) struct Defaults {
    m: usize,
    n: usize,
    k: usize,
    /// Blocks in each block row, and columns of a block; none for a quarter of all blocks.
    blocks: Option<(usize, usize)>,
}

impl Defaults {
    /// Enough work to fill a GPU.
    pub(super) const GPU: Self = Self { m: 4096, n: 4096, k: 4096, blocks: None };

    /// A second's work for the simulator, in blocks of `(bm, bk)`: a few tiles for each of a few clusters, and more
    /// stages than a ring has.
    pub(super) fn simulator((_, bk): (usize, usize)) -> Self {
        let blocks = (512 / bk.max(1)).clamp(2, 4);
        Self { m: 1024, n: 256, k: (blocks + 3) * bk, blocks: Some((blocks, bk)) }
    }

    /// The pattern of a matrix with `k` columns.
    fn pattern(&self, k: usize) -> Pattern {
        match self.blocks {
            None => Pattern::Random(0.25),
            Some((blocks, bk)) => Pattern::TopK(blocks.min(k.div_ceil(bk.max(1)))),
        }
    }
}

/// What is multiplied, before blocks and element types are chosen.
#[derive(Debug)]
pub(super) struct Problem {
    source: Source,
    /// M, N and K where the flags give them.
    given: (Option<usize>, Option<usize>, Option<usize>),
    defaults: (usize, usize, usize),
    pub(super) seed: u64,
}

/// M, N and K of a product, and its factors as they are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sizes {
    pub(super) m: usize,
    pub(super) n: usize,
    pub(super) k: usize,
    /// Rows and columns of the sparse operand as it is stored.
    pub(super) sparse: (usize, usize),
    /// Rows and columns of the dense factor; of B where both are.
    pub(super) dense: (usize, usize),
    /// The extent of C along the dense factor: N, or M where B is sparse; K where C is.
    pub(super) along: usize,
}

impl Sizes {
    fn new(spec: &KernelSpec, (m, n, k): (usize, usize, usize)) -> Self {
        let turned = |(rows, cols)| if spec.transpose.is_on() { (cols, rows) } else { (rows, cols) };
        match spec.op {
            Op::Dds => Self { m, n, k, sparse: turned((k, n)), dense: (m, k), along: m },
            Op::Sdd => Self { m, n, k, sparse: turned((m, n)), dense: (k, n), along: k },
            _ => Self { m, n, k, sparse: turned((m, k)), dense: (k, n), along: n },
        }
    }
}

#[derive(Debug)]
enum Source {
    Pattern {
        pattern: Pattern,
        k: usize,
    },
    /// `sparse` has been scaled by two to the power `exponent`.
    File {
        path: PathBuf,
        sparse: Sparse,
        exponent: i32,
    },
}

impl Problem {
    /// Reads the file, if there is one; what the flags leave open is as in `defaults`.
    ///
    /// # Errors
    /// Bad input: a file that cannot be read or has no rows or no columns.
    pub(super) fn new(args: &ProblemArgs, defaults: Defaults) -> Result<Self, Failure> {
        let source = match &args.matrix {
            None => {
                let k = args.k.unwrap_or(defaults.k);
                let pattern = args.pattern.unwrap_or_else(|| defaults.pattern(k));
                Source::Pattern { pattern, k }
            }
            Some(path) => scaled(path, read::load(path, args.seed)?)?,
        };
        Ok(Self {
            source,
            given: (args.m, args.n, args.k),
            defaults: (defaults.m, defaults.n, defaults.k),
            seed: args.seed,
        })
    }

    /// A matrix that was read from `path`, times `n` columns.
    ///
    /// # Errors
    /// Bad input: it has no rows or no columns.
    pub(super) fn of(path: &Path, sparse: Sparse, n: usize, seed: u64) -> Result<Self, Failure> {
        let given = (None, Some(n), None);
        Ok(Self { source: scaled(path, sparse)?, given, defaults: (0, n, 0), seed })
    }

    /// The product that a workload describes.
    ///
    /// # Errors
    /// Bad input: words that name no pattern, a file that cannot be read, a matrix of another program.
    pub(super) fn of_workload(workload: &Workload) -> Result<Self, Failure> {
        let Workload { facts, m, n, k, source, seed } = workload;
        let source = match source {
            workload::Source::Pattern(words) => {
                let pattern = words.parse().map_err(|error| Failure::new(Exit::BadInput, error))?;
                Source::Pattern { pattern, k: *k }
            }
            workload::Source::File(path) => scaled(path, read::load(path, *seed)?)?,
            workload::Source::Given => {
                return Err(Failure::new(Exit::BadInput, "a matrix of a running program cannot be made again"));
            }
        };
        let given = match (&source, facts.op()) {
            (Source::Pattern { .. }, _) => (Some(*m), Some(*n), None),
            (Source::File { .. }, Op::Dds) => (Some(*m), None, None),
            (Source::File { .. }, Op::Sdd) => (None, None, Some(*k)),
            (Source::File { .. }, Op::Dsd) => (None, Some(*n), None),
        };
        Ok(Self { source, given, defaults: (*m, *n, *k), seed: *seed })
    }

    /// The product with these facts, so that another process can make it again.
    pub(super) fn workload(&self, facts: &workload::Facts) -> Workload {
        let Sizes { m, n, k, .. } = self.sizes(&facts.spec(64));
        let source = match &self.source {
            Source::Pattern { pattern, .. } => workload::Source::Pattern(pattern.to_string()),
            // From wherever it is asked for again.
            Source::File { path, .. } => {
                workload::Source::File(std::fs::canonicalize(path).unwrap_or_else(|_| path.clone()))
            }
        };
        Workload { facts: *facts, m, n, k, source, seed: self.seed }
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
                    Op::Sdd => (rows, cols, k),
                };
                Sizes::new(spec, all)
            }
        }
    }

    /// Makes sure that no flag says what a file does.
    fn check_flags(&self, spec: &KernelSpec) -> Result<(), Failure> {
        let (m, n, k) = (("--m", self.given.0), ("--n", self.given.1), ("--k", self.given.2));
        let (said, other) = match spec.op {
            Op::Dsd => ([m, k], "--n"),
            Op::Dds => ([n, k], "--m"),
            Op::Sdd => ([m, n], "--k"),
        };
        match (&self.source, said.into_iter().find(|(_, given)| given.is_some())) {
            (Source::File { path, .. }, Some((flag, _))) => Err(Failure::new(
                Exit::BadInput,
                format!(
                    "{flag} beside --matrix: {} says how large it is\n  help: drop {flag}; {other} is free in op = {}",
                    path.display(),
                    spec.op
                ),
            )),
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
        let (block, sizes) = ((spec.bm as usize, spec.bk as usize), self.sizes(spec));
        let (name, dtype) = match spec.op {
            Op::Dsd => ("A", spec.a),
            Op::Dds => ("B", spec.b),
            Op::Sdd => ("C", spec.out),
        };
        let facts = match &self.source {
            Source::Pattern { pattern, .. } => {
                let (rows, cols) = sizes.sparse;
                let structure = pattern.structure(rows, cols, block, self.seed)?;
                Facts { name, structure, fill_in: None, exponent: 0 }
            }
            Source::File { exponent, .. } => {
                // The blocks are the same in every type; f32 holds all that is scaled so.
                let (a, fill_in) = self.sparse::<f32>(spec)?;
                let exponent = exponent + self.narrow_exponent(dtype);
                Facts { name, structure: a.into_parts().0, fill_in, exponent }
            }
        };
        let area = |(rows, cols): (usize, usize)| rows as u64 * cols as u64;
        let stored = facts.structure.stored() as u64;
        let (a, b, c) = match spec.op {
            Op::Dsd => (stored, area(sizes.dense), area((sizes.m, sizes.n))),
            Op::Dds => (area(sizes.dense), stored, area((sizes.m, sizes.n))),
            Op::Sdd => (area((sizes.m, sizes.k)), area(sizes.dense), stored),
        };
        let operands = [(a, spec.a), (b, spec.b), (c, spec.out)];
        let bytes = operands.map(|(elements, dtype)| elements * u64::from(dtype.bytes()));
        match memory_available() {
            Some(available) if bytes.iter().sum::<u64>() > available => Err(Failure::new(
                Exit::BadInput,
                format!(
                    "the problem does not fit this machine's memory\n  A {} GB of {} + B {} GB of {} + C {} GB of {}; {} \
                     GB are available\n  help: smaller --m, --n or --k, or fewer blocks",
                    gigabytes(bytes[0]),
                    spec.a,
                    gigabytes(bytes[1]),
                    spec.b,
                    gigabytes(bytes[2]),
                    spec.out,
                    gigabytes(available)
                ),
            )),
            _ => Ok(facts),
        }
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
                Ok((Bsr::generate(*pattern, rows, cols, block, self.seed)?, None))
            }
            Source::File { path, sparse, .. } => {
                let converted = match self.narrow_exponent(T::DTYPE) {
                    0 => sparse.to_bsr(block),
                    exponent => sparse.clone().scaled(f64::from(exponent).exp2()).to_bsr(block),
                };
                let (a, fill_in) =
                    converted.map_err(|error| Failure::new(Exit::BadInput, format!("{}: {error}", path.display())))?;
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
            self.source,
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

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pattern { pattern, .. } => pattern.fmt(f),
            Self::File { path, sparse, .. } => {
                match path.file_name() {
                    Some(name) => f.write_str(&name.to_string_lossy())?,
                    None => path.display().fmt(f)?,
                }
                // The product has its rows in the order of the file, not of the original.
                if sparse.row_order().is_some() { f.write_str(" (rows reordered)") } else { Ok(()) }
            }
        }
    }
}

/// The cost of a blocking in words.
pub(super) fn fill_in_words(fill_in: &FillIn) -> String {
    format!("{:.2} = {} stored values / {} nonzeros", fill_in.ratio(), fill_in.stored(), fill_in.true_nnz())
}

fn scaled(path: &Path, sparse: Sparse) -> Result<Source, Failure> {
    if sparse.rows() == 0 || sparse.cols() == 0 {
        return Err(Failure::new(
            Exit::BadInput,
            format!(
                "{}: the matrix is {} x {}, there is nothing to multiply",
                path.display(),
                sparse.rows(),
                sparse.cols()
            ),
        ));
    }
    let exponent = scale(sparse.largest());
    Ok(Source::File { path: path.to_owned(), sparse: sparse.scaled(f64::from(exponent).exp2()), exponent })
}

/// The power of two that brings `largest` to at most 1, or 0 where it may stay.
fn scale(largest: f64) -> i32 {
    if largest == 0.0 || MAGNITUDES.contains(&largest) { 0 } else { -(largest.log2().ceil() as i32).clamp(-1023, 1024) }
}

/// The power of two that brings `largest` to between 2 and 4 standard deviations of the 8-bit numbers that are drawn;
/// 0 for wider types.
fn narrow_exponent(largest: f64, dtype: Dtype) -> i32 {
    let spread = match dtype {
        Dtype::I8 => i8::SPREAD,
        Dtype::E4M3 | Dtype::E5M2 => 1.0,
        _ => return 0,
    };
    if largest == 0.0 { 0 } else { (4.0 * spread / largest).log2().floor() as i32 }
}

/// Bytes of memory that the system can give; `None` where it does not tell.
fn memory_available() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1024)
}

fn gigabytes(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / 1e9)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use bsr::f16;

    use super::*;

    fn problem(pattern: &str, m: usize, n: usize, k: usize) -> Problem {
        let source = Source::Pattern { pattern: pattern.parse().unwrap(), k };
        Problem { source, given: (Some(m), Some(n), None), defaults: (1, 1, 1), seed: 0 }
    }

    #[test]
    fn values_that_f16_cannot_multiply_are_scaled_by_a_power_of_two() {
        assert_eq!(scale(1.0), 0);
        assert_eq!(scale(256.0), 0);
        assert_eq!(scale(0.0), 0);
        assert_eq!(scale(257.0), -9);
        assert_eq!(scale(2_f64.powi(40)), -40);
        assert_eq!(scale(1e-3), 9);
        for largest in [3e11, 7e-9, f64::MIN_POSITIVE, f64::MAX] {
            let scaled = largest * f64::from(scale(largest)).exp2();
            assert!(scaled <= 1.0, "{largest} {scaled}");
        }
    }

    #[test]
    fn a_simulated_problem_is_small_and_can_be_had_in_any_block() {
        for bk in [16, 112, 256, 512] {
            let defaults = Defaults::simulator((64, bk));
            for k in [1, 100, defaults.k] {
                let structure = defaults.pattern(k).structure(defaults.m, k, (64, bk), 0).unwrap();
                assert!(structure.executed_flops(defaults.n) <= 1 << 30, "{bk} {k}");
            }
        }
        assert_eq!(Defaults::simulator((512, 112)).pattern(784), Pattern::TopK(4));
        assert_eq!(Defaults::GPU.pattern(4096), Pattern::Random(0.25));
    }

    #[test]
    fn a_problem_says_what_it_is() {
        let problem = problem("topk:4", 1024, 512, 1120);
        let spec = KernelSpec::new(512, 128, 112);
        assert_eq!(problem.words(&spec), "C[1024, 512] = A[1024, 1120] * B[1120, 512]");
        let facts = problem.facts(&spec).unwrap();
        assert_eq!(problem.sparse_words(&facts), "8 of 20 blocks of 512 x 112 stored (40.0 %), topk:4, seed 0");
        assert!(facts.fill_in.is_none() && problem.sparse::<f16>(&spec).unwrap().1.is_none());
    }

    #[test]
    fn what_cannot_be_had_is_refused_before_anything_is_drawn() {
        let spec = KernelSpec::new(512, 128, 112);
        assert!(problem("topk:11", 1024, 512, 1120).facts(&spec).is_err());
        if cfg!(target_os = "linux") {
            let huge = problem("random:0.000001", 1 << 27, 1 << 27, 1 << 27).facts(&KernelSpec::new(512, 128, 512));
            assert_eq!(huge.unwrap_err().exit(), Exit::BadInput);
        }
        assert!(problem("topk:10", 1024, 512, 1120).facts(&spec).is_ok());
    }

    #[test]
    fn a_file_in_8_bits_is_as_wide_as_what_is_drawn() {
        for (dtype, spread) in [(Dtype::E4M3, 1.0), (Dtype::E5M2, 1.0), (Dtype::I8, 20.0)] {
            for largest in [1.0 / 256.0, 0.3, 1.0, 4.0, 80.0, 256.0] {
                let scaled = largest * f64::from(narrow_exponent(largest, dtype)).exp2() / spread;
                assert!(scaled > 2.0 && scaled <= 4.0, "{dtype} {largest} {scaled}");
            }
            assert_eq!(narrow_exponent(0.0, dtype), 0);
        }
        assert_eq!(narrow_exponent(1e-3, Dtype::BF16), 0);

        let sparse = Sparse::from_triplets(40, 40, vec![(0, 0, 1.0), (39, 39, -0.25)]).unwrap();
        let problem = Problem {
            source: Source::File { path: "a.mtx".into(), sparse, exponent: 0 },
            given: (None, Some(8), None),
            defaults: (16, 16, 16),
            seed: 0,
        };
        let spec = KernelSpec::new(16, 16, 16);
        let facts = problem.facts(&spec.with_dtype(Dtype::I8)).unwrap();
        let words = problem.sparse_words(&facts);
        assert!(words.ends_with("a.mtx, seed 0, values * 2^6"), "{words}");
        assert_eq!(problem.sparse::<i8>(&spec).unwrap().0.values()[0], 64);
        assert_eq!(problem.sparse::<f16>(&spec).unwrap().0.values()[0], f16::ONE);
    }

    #[test]
    fn the_sparse_factor_is_given_as_it_is_stored() {
        let problem = problem("topk:1", 100, 200, 300);
        let sizes = |text: &str| {
            let Sizes { sparse, dense, along, .. } = problem.sizes(&text.parse().unwrap());
            (sparse, dense, along)
        };
        let block = "bm = 64, bn = 64, bk = 64";
        assert_eq!(sizes(block), ((100, 300), (300, 200), 200));
        assert_eq!(sizes(&format!("{block}, transpose = on")), ((300, 100), (300, 200), 200));
        assert_eq!(sizes(&format!("{block}, op = dds")), ((300, 200), (100, 300), 100));
        assert_eq!(sizes(&format!("{block}, op = dds, transpose = on")), ((200, 300), (100, 300), 100));
        assert_eq!(sizes(&format!("{block}, op = sdd")), ((100, 200), (300, 200), 300));
        assert_eq!(sizes(&format!("{block}, op = sdd, transpose = on")), ((200, 100), (300, 200), 300));
    }

    #[test]
    fn a_file_says_two_of_the_extents() {
        let sparse = Sparse::from_triplets(40, 50, vec![(0, 0, 1.0)]).unwrap();
        let source = Source::File { path: "a.mtx".into(), sparse, exponent: 0 };
        let problem = Problem { source, given: (Some(7), None, None), defaults: (16, 16, 9), seed: 0 };
        let spec = |text: &str| format!("bm = 16, bn = 16, bk = 16{text}").parse::<KernelSpec>().unwrap();
        let Sizes { m, n, k, .. } = problem.sizes(&spec(", op = dds, transpose = on"));
        assert_eq!((m, n, k), (7, 40, 50));
        let Sizes { m, n, k, .. } = problem.sizes(&spec(", op = sdd, transpose = on"));
        assert_eq!((m, n, k), (50, 40, 9));
        let refused = problem.facts(&spec("")).unwrap_err().into_report();
        assert!(refused.contains("--m beside --matrix") && refused.contains("--n is free in op = dsd"), "{refused}");
    }
}
