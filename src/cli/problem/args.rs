//! The PROBLEM flags, and what they leave open.

use std::path::{Path, PathBuf};

use bsr::Pattern;
use bsr::read::LONGEST_SIDE;
use clap::builder::RangedU64ValueParser;

fn side() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..=LONGEST_SIDE as u64)
}

/// C[M, N] = A[M, K] * B[K, N]: the sparse operand, A, with op = dds B, with op = sdd C, from a pattern or a file, as it is
/// stored (with transpose = on its columns are rows of the operand); dense factors drawn from N(0, 1), i8 from a normal distribution as
/// wide as 20.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Problem")]
pub(in super::super) struct ProblemArgs {
    /// Rows of A and C. [default: 4096; fewer on the simulator]
    #[arg(long, value_parser = side(), value_name = "ROWS")]
    pub(super) m: Option<usize>,
    /// Columns of B and C. [default: 4096; fewer on the simulator]
    #[arg(long, value_parser = side(), value_name = "COLUMNS")]
    pub(super) n: Option<usize>,
    /// Columns of A, rows of B; not necessarily a multiple of bk. [default: 4096; fewer on the simulator]
    #[arg(long, value_parser = side(), value_name = "COLUMNS")]
    pub(super) k: Option<usize>,
    /// Which blocks of the sparse factor are stored: random:DENSITY, topk:BLOCKS (in each block row), window:FRACTION (around the
    /// diagonal), causal, or powerlaw:DENSITY. [default: random:0.25; of the simulator's own sizes topk:4, or fewer of
    /// large blocks]
    #[arg(long)]
    pub(super) pattern: Option<Pattern>,
    /// Take the sparse factor from a file instead, which also says two of M, N and K: Matrix Market .mtx, DLMC .smtx,
    /// scipy .npz, numpy .npy, or .safetensors, as `bsr convert` writes it or with a single matrix. Rows are multiplied in
    /// the order of the file; those of a reordered file go back to where they were with permute = on. Values are scaled by a
    /// power of two if their largest magnitude is not between 1/256 and 256; for 8-bit types always, to about the
    /// range of drawn ones.
    #[arg(long, value_name = "FILE", conflicts_with = "pattern")]
    pub(super) matrix: Option<PathBuf>,
    /// Which matrix of a --matrix with several.
    #[arg(long, value_name = "NAME", requires = "matrix")]
    pub(super) tensor: Option<String>,
    /// Seed of the pattern and of all values that are drawn.
    #[arg(long, default_value_t = 0)]
    pub(super) seed: u64,
    /// Heads of Q, with op = attention: --m are its queries, --n its keys, and the pattern is that of Q K^T. Where the spec
    /// has a score, it is computed in all blocks, of a causal pattern in those on the diagonal alone.
    /// [default: 16; fewer on the simulator]
    #[arg(long, value_parser = side(), value_name = "HEADS")]
    heads: Option<usize>,
    /// Heads of K and V, with op = attention. [default: as many as --heads]
    #[arg(long, value_parser = side(), value_name = "HEADS")]
    key_heads: Option<usize>,
    /// Problems of a batch, with op = attention [default: 1]; products of a list, on the simulator with batch = on [default: 2],
    /// each with a pattern and values of its own.
    #[arg(long, value_parser = side(), value_name = "PROBLEMS")]
    pub(super) batch: Option<usize>,
}

/// What the flags say of an attention's heads.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Heads {
    pub(in super::super) heads: Option<usize>,
    pub(in super::super) key_heads: Option<usize>,
    pub(in super::super) problems: Option<usize>,
}

/// A word as a shell takes it.
pub(in super::super) fn in_a_shell(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

impl ProblemArgs {
    /// Whether anything is said of the problem.
    pub(in super::super) fn asks(&self) -> bool {
        let Self { m, n, k, pattern, matrix, heads, key_heads, batch, .. } = self;
        let sizes = [m, n, k, heads, key_heads, batch];
        sizes.into_iter().any(Option::is_some) || pattern.is_some() || matrix.is_some()
    }

    /// What is said of an attention's heads.
    pub(in super::super) fn attention_heads(&self) -> Heads {
        Heads { heads: self.heads, key_heads: self.key_heads, problems: self.batch }
    }

    /// The first flag that only an attention has.
    pub(in super::super) fn of_attention(&self) -> Option<&'static str> {
        let flags = [("--heads", self.heads), ("--key-heads", self.key_heads)];
        flags.into_iter().find(|(_, given)| given.is_some()).map(|(flag, _)| flag)
    }

    /// The first flag that an attention does not have, and why.
    pub(in super::super) fn of_products(&self) -> Option<(&'static str, &'static str)> {
        if self.k.is_some() {
            return Some(("--k", "the head dimension is bn of the spec"));
        }
        self.matrix.as_ref().map(|_| ("--matrix", "a mask is no matrix"))
    }

    /// M and N where they are given.
    pub(in super::super) fn extents(&self) -> (Option<usize>, Option<usize>) {
        (self.m, self.n)
    }

    /// The pattern that is given, or another one.
    pub(in super::super) fn pattern_or(&self, pattern: Pattern) -> Pattern {
        self.pattern.unwrap_or(pattern)
    }

    /// Seed of all that is drawn.
    pub(in super::super) fn seed(&self) -> u64 {
        self.seed
    }

    /// What is said of the problem but the seed, as a shell takes it: ` --m 200 --pattern topk:4`.
    pub(in super::super) fn flags(&self) -> String {
        let Self { m, n, k, pattern, matrix, tensor, heads, key_heads, batch, .. } = self;
        let sizes = [("m", m), ("n", n), ("k", k), ("heads", heads), ("key-heads", key_heads), ("batch", batch)];
        let sizes = sizes.into_iter().filter_map(|(flag, size)| size.map(|size| format!(" --{flag} {size}")));
        let pattern = pattern.iter().map(|pattern| format!(" --pattern {pattern}"));
        let matrix = matrix.iter().map(|path| format!(" --matrix {}", in_a_shell(&path.to_string_lossy())));
        let tensor = tensor.iter().map(|name| format!(" --tensor {}", in_a_shell(name)));
        sizes.chain(pattern).chain(matrix).chain(tensor).collect()
    }

    /// The files that are read.
    pub(in super::super) fn inputs(&self) -> Option<&Path> {
        self.matrix.as_deref()
    }
}

/// What is multiplied where the flags leave it open.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Defaults {
    pub(super) m: usize,
    pub(super) n: usize,
    pub(super) k: usize,
    /// Blocks in each block row, and columns of a block; none for a quarter of all blocks.
    pub(super) blocks: Option<(usize, usize)>,
}

impl Defaults {
    /// Enough work to fill a GPU.
    pub(in super::super) const GPU: Self = Self { m: 4096, n: 4096, k: 4096, blocks: None };

    /// A second's work for the simulator, in blocks of `(bm, bk)`: a few tiles for each of a few clusters, and more
    /// stages than a ring buffer has.
    pub(in super::super) fn simulator((_, bk): (usize, usize)) -> Self {
        let blocks = (512 / bk.max(1)).clamp(2, 4);
        Self { m: 1024, n: 256, k: (blocks + 3) * bk, blocks: Some((blocks, bk)) }
    }

    /// The pattern of a matrix with `k` columns. Sizes that were asked for have the same one on every device.
    pub(super) fn pattern(&self, k: usize, is_of_given_sizes: bool) -> Pattern {
        match self.blocks.filter(|_| !is_of_given_sizes) {
            None => Pattern::Random(0.25),
            Some((blocks, bk)) => Pattern::TopK(blocks.min(k.div_ceil(bk.max(1)))),
        }
    }
}
