//! The PROBLEM flags and their defaults.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use bsr::read::LONGEST_SIDE;
use bsr::{KernelSpec, Pattern};
use bsr_trial::request::{Defaults, Request};
use bsr_trial::subject::{self, Subject};
use clap::builder::RangedU64ValueParser;

use super::exit::Failure;

fn side() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..=LONGEST_SIDE as u64)
}

/// C[M, N] = A[M, K] * B[K, N]. The sparse operand (A; B with op = dds; C with op = sdd) is drawn or read from a file, as it is
/// stored: with transpose = on its columns are the rows of the operand. Dense factors are drawn from N(0, 1), of i8 with a
/// standard deviation of 20.
#[derive(Clone, Debug, Default, clap::Args)]
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
    /// The stored blocks of the sparse operand: random:DENSITY, topk:BLOCKS (in each block row), window:FRACTION (around the
    /// diagonal), causal, powerlaw:DENSITY, documents:ROWS or causal_documents:ROWS (of as many rows in the mean). [default: random:0.25; with the simulator's default sizes topk:4, or fewer if
    /// blocks are large]
    #[arg(long)]
    pattern: Option<Pattern>,
    /// Read the sparse operand from a file, which also gives two of M, N and K: Matrix Market .mtx, DLMC .smtx, scipy .npz,
    /// numpy .npy, or .safetensors, as `bsr convert` writes it or with a single matrix. Rows are multiplied in the order of the
    /// file; with permute = on, rows of a reordered file are written to their original positions. Values are scaled by a power of
    /// two if their largest magnitude is not between 1/256 and 256; for 8-bit types always, to about the range of random ones.
    #[arg(long, value_name = "FILE", conflicts_with = "pattern")]
    matrix: Option<PathBuf>,
    /// The name of the matrix, for a --matrix with several.
    #[arg(long, value_name = "NAME", requires = "matrix")]
    tensor: Option<String>,
    /// Seed of the pattern and of all random values.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Heads of Q, with op = attention: --m is then the number of queries, --n that of keys, and the pattern is that of Q K^T. A
    /// score is computed in all blocks; with a causal pattern, only in those on the diagonal. With documents, vectors of the score
    /// called first_key and end_key are the keys of each query's document, and the score is computed where not every pair counts.
    /// [default: 16; fewer on the simulator]
    #[arg(long, value_parser = side(), value_name = "HEADS")]
    heads: Option<usize>,
    /// Heads of K and V, with op = attention. [default: as many as --heads]
    #[arg(long, value_parser = side(), value_name = "HEADS")]
    key_heads: Option<usize>,
    /// Size of the batch: attentions, with op = attention [default: 1]; products, with batch = on on the simulator [default: 2],
    /// each with its own pattern and values.
    #[arg(long, value_parser = side(), value_name = "PROBLEMS")]
    batch: Option<usize>,
}

/// A word as a shell takes it.
pub(super) fn in_a_shell(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

impl ProblemArgs {
    /// What is requested.
    pub(super) fn request(&self) -> Request {
        Request {
            m: self.m,
            n: self.n,
            k: self.k,
            pattern: self.pattern,
            matrix: self.matrix.clone(),
            tensor: self.tensor.clone(),
            seed: self.seed,
            heads: self.heads,
            key_heads: self.key_heads,
            batch: self.batch,
        }
    }

    /// Whether any flag of the problem is given.
    pub(super) fn is_any(&self) -> bool {
        self.request().is_any()
    }

    /// The problem of a kernel.
    ///
    /// # Errors
    /// Bad input: flags of another operation, a file that cannot be read.
    pub(super) fn subject(&self, defaults: Defaults, spec: &KernelSpec) -> Result<Rc<dyn Subject>, Failure> {
        Ok(subject::requested(&self.request(), defaults, spec)?)
    }

    /// Seed of all that is drawn.
    pub(super) fn seed(&self) -> u64 {
        self.seed
    }

    /// The flags of the problem but the seed, as a shell takes them: ` --m 200 --pattern topk:4`.
    pub(super) fn flags(&self) -> String {
        let Self { m, n, k, pattern, matrix, tensor, heads, key_heads, batch, .. } = self;
        let sizes = [("m", m), ("n", n), ("k", k), ("heads", heads), ("key-heads", key_heads), ("batch", batch)];
        let sizes = sizes.into_iter().filter_map(|(flag, size)| size.map(|size| format!(" --{flag} {size}")));
        let pattern = pattern.iter().map(|pattern| format!(" --pattern {pattern}"));
        let matrix = matrix.iter().map(|path| format!(" --matrix {}", in_a_shell(&path.to_string_lossy())));
        let tensor = tensor.iter().map(|name| format!(" --tensor {}", in_a_shell(name)));
        sizes.chain(pattern).chain(matrix).chain(tensor).collect()
    }

    /// The files that are read.
    pub(super) fn inputs(&self) -> Option<&Path> {
        self.matrix.as_deref()
    }
}
