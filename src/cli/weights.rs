//! The FILE argument of what works on a matrix before it is multiplied, or a field: which matrix, and what is dropped first.

use std::fmt;
use std::path::{Path, PathBuf};

use bsr::Field;
use bsr::prune::Keep;
use bsr::read::{self, Sparse};

use super::exit::Failure;

/// A matrix from a file, or of a field.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Matrix")]
#[command(group = clap::ArgGroup::new("matrix").required(true).args(["file", "field"]))]
pub(super) struct WeightsArgs {
    /// The matrix: Matrix Market .mtx, DLMC .smtx, scipy .npz (bsr, csr, csc, coo), numpy .npy or .npz, or .safetensors
    /// (dense, or the blocks that `bsr convert` wrote).
    file: Option<PathBuf>,
    /// In place of a file the matrix that a field solves with, in f64: elasticity:XxYxZ, stokes:XxYxZ, reservoir:XxYxZ,
    /// euler:XxYxZ, shell:XxY or graph:NODESxEDGESxBLOCK, with numbers of cells.
    #[arg(long, value_name = "FIELD", conflicts_with = "tensor")]
    field: Option<Field>,
    /// The name of the matrix, for a file with several.
    #[arg(long, value_name = "NAME")]
    tensor: Option<String>,
    /// Drop values of at most this magnitude; 0 drops listed zeros. NaN is kept.
    #[arg(long, value_parser = magnitude, value_name = "MAGNITUDE")]
    threshold: Option<f64>,
    /// Keep this fraction of all blocks, those with the largest Frobenius norms.
    #[arg(long, value_parser = fraction, value_name = "FRACTION", conflicts_with = "topk")]
    keep: Option<f64>,
    /// Keep this many blocks of each block row, those with the largest Frobenius norms.
    #[arg(long, value_parser = count, value_name = "BLOCKS")]
    topk: Option<usize>,
    /// Seed for the values of an .smtx file, which stores none, and for what a field draws.
    #[arg(long, default_value_t = 0)]
    pub(super) seed: u64,
}

impl WeightsArgs {
    /// Reads the matrix and drops what is small.
    ///
    /// # Errors
    /// Bad input: a file that cannot be read, or a matrix without rows or columns.
    pub(super) fn load(&self) -> Result<Weights, Failure> {
        let sparse = match (&self.field, &self.file) {
            (Some(field), _) => Sparse::from_bsr(&field.matrix(self.seed)?),
            (None, file) => {
                read::load_array(file.as_deref().unwrap_or(Path::new("")), self.tensor.as_deref(), self.seed)?
            }
        };
        let (rows, cols) = (sparse.rows(), sparse.cols());
        if rows == 0 || cols == 0 {
            let fact = format!("{}: the matrix is {rows} x {cols}, there is nothing to block", self.place().display());
            return Err(Failure::bad_input(fact));
        }
        let listed = sparse.true_nnz();
        let sparse = match self.threshold {
            Some(threshold) => sparse.without_small(threshold),
            None => sparse,
        };
        let nonzeros = sparse.true_nnz();
        let dropped = self.threshold.map(|threshold| (threshold, listed - nonzeros, listed));
        let not_finite = sparse.first_not_finite().map(|first| (sparse.not_finite(), first));
        Ok(Weights { name: name(&self.place(), self.tensor.as_deref()), sparse, nonzeros, dropped, not_finite })
    }

    /// The file, if there is one.
    pub(super) fn input(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// Whether it is the matrix of a field.
    pub(super) fn is_of_field(&self) -> bool {
        self.field.is_some()
    }

    /// The file, or the field in its place.
    pub(super) fn place(&self) -> PathBuf {
        let field = self.field.map(|field| PathBuf::from(field.to_string()));
        field.or_else(|| self.file.clone()).unwrap_or_default()
    }

    /// How many blocks stay, if some go.
    pub(super) fn keep(&self) -> Option<Keep> {
        self.keep.map(Keep::Fraction).or(self.topk.map(Keep::PerRow))
    }
}

/// A matrix before it is in blocks.
#[derive(Debug)]
pub(super) struct Weights {
    /// The file, and the tensor.
    pub(super) name: String,
    pub(super) sparse: Sparse,
    pub(super) nonzeros: usize,
    /// The threshold, what it dropped, and of how many nonzeros.
    dropped: Option<(f64, usize, usize)>,
    /// How many values are NaN or infinite, and the first of them with its row and column.
    not_finite: Option<(usize, (usize, usize, f64))>,
}

impl Weights {
    /// What was dropped for being small, in words.
    pub(super) fn dropped(&self) -> Option<String> {
        let (threshold, dropped, of) = self.dropped?;
        Some(format!("{dropped} of {of} nonzeros dropped, |x| <= {threshold}"))
    }

    /// That there are values without a magnitude, in words.
    pub(super) fn not_finite(&self) -> Option<String> {
        let (count, (row, col, value)) = self.not_finite?;
        let first = format!("the first is {value} at row {row}, column {col}");
        Some(format!("{count} values are NaN or infinite, {first}; they are kept"))
    }
}

/// The matrix in words: `2003 x 2003, 83883 nonzeros (2.09 %), bcsstk13.mtx`.
impl fmt::Display for Weights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (rows, cols) = (self.sparse.rows(), self.sparse.cols());
        let percent = 100.0 * self.nonzeros as f64 / (rows as f64 * cols as f64);
        write!(f, "{rows} x {cols}, {} nonzeros ({percent:.2} %), {}", self.nonzeros, self.name)
    }
}

fn name(file: &Path, tensor: Option<&str>) -> String {
    let file = file.file_name().map_or_else(|| file.display().to_string(), |name| name.to_string_lossy().into_owned());
    tensor.map_or(file.clone(), |tensor| format!("{file}:{tensor}"))
}

/// Reads a block, `64x32`.
pub(super) fn block(text: &str) -> Result<(usize, usize), String> {
    let side = |text: &str| text.trim().parse::<usize>().ok().filter(|side| (1..=1 << 20).contains(side));
    let sides = text.split_once('x').and_then(|(rows, cols)| Some((side(rows)?, side(cols)?)));
    sides.ok_or_else(|| "write rows x columns of a block, each at least 1: 64x32".to_owned())
}

fn magnitude(text: &str) -> Result<f64, String> {
    let value = text.parse::<f64>().ok().filter(|value| *value >= 0.0 && value.is_finite());
    value.ok_or_else(|| "write a number of at least 0, for instance 0 or 1e-3".to_owned())
}

fn fraction(text: &str) -> Result<f64, String> {
    let value = text.parse::<f64>().ok().filter(|value| *value > 0.0 && *value <= 1.0);
    value.ok_or_else(|| "write a fraction above 0 and at most 1, for instance 0.25".to_owned())
}

fn count(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|count| *count > 0).ok_or_else(|| "write a number of blocks, at least 1".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_strictly() {
        assert_eq!(block("64x32"), Ok((64, 32)));
        for wrong in ["64", "x", "0x4", "4x0", "64X64", "1x1x1", "-1x4", "99999999x1"] {
            assert!(block(wrong).is_err(), "{wrong}");
        }
        assert_eq!((magnitude("0"), magnitude("1e-3")), (Ok(0.0), Ok(1e-3)));
        assert!(["-1", "nan", "inf", ""].iter().all(|text| magnitude(text).is_err()));
        assert_eq!((fraction("1"), fraction("0.25")), (Ok(1.0), Ok(0.25)));
        assert!(["0", "1.1", "nan", "x"].iter().all(|text| fraction(text).is_err()));
        assert!(count("3") == Ok(3) && count("0").is_err());
    }
}
