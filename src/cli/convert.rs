//! `bsr convert FILE`: a matrix into blocks, and into a file that scipy or PyTorch reads.

use std::io::Write;
use std::path::{Path, PathBuf};

use bsr::prune::prune;
use bsr::read::Sparse;
use bsr::write::{self, Options};
use bsr::{Bsr, Dtype, Element, Structure, bf16, f16, reorder};

use super::exit::{Exit, Failure};
use super::line;
use super::output::{self, Outputs, Replace};
use super::progress::Progress;
use super::table::percent;
use super::weights::{WeightsArgs, block};
use bsr_trial::problem::fill_in_words;

/// Convert a matrix to blocks, prune and reorder it, and write it for scipy or PyTorch.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bsr convert bcsstk13.mtx --block 32x32
  bsr convert bcsstk13.mtx --block 32x32 --reorder -o blocks.npz
  bsr convert layer.safetensors --tensor mlp.up.weight --block 128x64 --keep 0.25 -o up.safetensors

A block is stored if the file lists an element in it; --threshold 0 drops listed zeros. OUT is .npz, which \
scipy.sparse.load_npz reads, or .safetensors with the tensors crow_indices, col_indices and values for \
torch.sparse_bsr_tensor; bsr reads both. A matrix whose sizes are not multiples of the block is padded with zeros, \
as scipy and torch require, and its own shape is stored with it. scipy does not read 16-bit floats: .npz stores them \
as float32, exactly. --reorder stores the original row of each row as row_permutation: C[row_permutation] = (A @ \
B)[:rows]. Without -o nothing is written.")]
pub(super) struct Args {
    /// Rows and columns of a block.
    #[arg(long, value_parser = block, value_name = "RxC")]
    block: (usize, usize),
    /// Write the blocks to this file: .npz or .safetensors; `-` writes an .npz to standard output, and all other output then
    /// goes to standard error.
    #[arg(short, long, value_name = "OUT")]
    output: Option<PathBuf>,
    /// Replace OUT if it exists.
    #[arg(long, requires = "output")]
    force: bool,
    /// Round values to this type: f16, bf16, f32 or f64. [default: that of the file, but f32 for a dense matrix in f64
    /// and for other types]
    #[arg(long, value_parser = dtype, value_name = "TYPE")]
    dtype: Option<Dtype>,
    /// Group rows that share block columns, if the matrix then has fewer blocks; with --keep or --topk, if the kept blocks then
    /// have more of its norm.
    #[arg(long)]
    reorder: bool,
    #[command(flatten)]
    weights: WeightsArgs,
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> Result<Exit, Failure> {
    let outputs = Outputs::new([("-o", args.output.as_ref())], args.weights.input(), &Replace::ALLOWED)?;
    let out = &mut *outputs.answers(out);
    if let Some(path) = args.output.as_ref().filter(|path| !output::is_stdout(path)) {
        write::check(path, args.force).map_err(|error| existing(error, args.force))?;
    }
    let progress = Progress::new();
    progress.step("reading");
    let weights = args.weights.load()?;
    progress.hide(|| line(out, "matrix", &weights))?;
    for (label, words) in [("threshold", weights.dropped()), ("warning", weights.not_finite())] {
        words.iter().try_for_each(|words| progress.hide(|| line(out, label, words)))?;
    }
    let (sparse, structure) = blocks(args, weights.sparse, &progress, out)?;
    progress.step("filling the blocks");
    let dtype = args.dtype.or(sparse.own_dtype()).unwrap_or(Dtype::F32);
    match dtype {
        Dtype::F16 => finish::<f16>(args, &sparse, &structure, &progress, out),
        Dtype::BF16 => finish::<bf16>(args, &sparse, &structure, &progress, out),
        Dtype::F64 => finish::<f64>(args, &sparse, &structure, &progress, out),
        _ => finish::<f32>(args, &sparse, &structure, &progress, out),
    }
}

/// The matrix in the order of rows that was asked for, and the blocks that stay.
fn blocks(
    args: &Args,
    sparse: Sparse,
    progress: &Progress,
    out: &mut dyn Write,
) -> Result<(Sparse, Structure), Failure> {
    let (keep, bsr_error) = (args.weights.keep(), Failure::bad_input);
    let mut sparse = sparse;
    if args.reorder {
        progress.step("looking for an order of rows");
        let order = match keep {
            None => reorder::rows(&sparse, args.block).map_err(bsr_error)?,
            Some(keep) => reorder::rows_to_prune(&sparse, args.block, keep)?,
        };
        let words = match (&order, keep) {
            (None, _) => "in the order of the file: no better one was found".to_owned(),
            (Some(_), None) => {
                let before = sparse.structure(args.block).map_err(bsr_error)?.nnzb();
                format!("reordered; {before} blocks in the order of the file")
            }
            (Some(_), Some(keep)) => {
                let before = prune(&sparse, args.block, keep)?.norm();
                format!("reordered; {} of the norm in the order of the file", percent(before))
            }
        };
        if let Some(order) = order {
            sparse = sparse.reordered(&order)?;
        }
        progress.hide(|| line(out, "rows", words))?;
    }
    let (structure, norm) = match keep {
        None => (sparse.structure(args.block).map_err(bsr_error)?, None),
        Some(keep) => {
            progress.step("pruning");
            let pruned = prune(&sparse, args.block, keep)?;
            let norm = pruned.norm();
            (pruned.into_structure(), Some(norm))
        }
    };
    let (bm, bk) = args.block;
    let all = structure.block_rows() * structure.block_cols();
    let (stored, density) = (structure.nnzb(), percent(structure.density()));
    progress.hide(|| line(out, "blocks", format!("{stored} of {all} blocks of {bm} x {bk} stored ({density})")))?;
    if let Some(norm) = norm {
        progress.hide(|| line(out, "norm", format!("{} of the Frobenius norm stays", percent(norm))))?;
    }
    Ok((sparse, structure))
}

/// Fills the blocks, and writes them if that was asked for.
fn finish<T: Element>(
    args: &Args,
    sparse: &Sparse,
    structure: &Structure,
    progress: &Progress,
    out: &mut dyn Write,
) -> Result<Exit, Failure> {
    let (matrix, fill_in): (Bsr<T>, _) = sparse
        .to_bsr_within(structure)
        .map_err(|error| Failure::bad_input(format!("{}: {error}", args.weights.place().display())))?;
    let size = u64::from(T::DTYPE.bytes());
    let values = matrix.values().len() as u64 * size;
    let indices = 4 * (matrix.row_ptr().len() + matrix.col_idx().len()) as u64;
    let dense = matrix.rows() as u64 * matrix.cols() as u64 * size;
    progress.hide(|| -> std::io::Result<()> {
        line(out, "fill-in", fill_in_words(&fill_in))?;
        if fill_in.underflows() > 0 {
            let (lost, of, remedy) = (fill_in.underflows(), fill_in.true_nnz(), underflow_remedy(T::DTYPE));
            line(
                out,
                "warning",
                format!("{lost} of {of} nonzeros are too small for {}, and 0 in it: {remedy}", T::DTYPE),
            )?;
        }
        let words = format!("{values} B of {} values + {indices} B of indices; dense {dense} B", T::DTYPE);
        line(out, "bytes", words)
    })?;
    if let Some(path) = &args.output {
        progress.step("writing");
        let options = Options { row_order: sparse.row_order(), overwrite: args.force };
        let written = save(&matrix, path, options).map_err(|error| existing(error, args.force))?;
        let (rows, cols) = written.padded;
        let padded = match (rows, cols) == (matrix.rows(), matrix.cols()) {
            true => String::new(),
            false => format!(", padded to {rows} x {cols}: scipy and torch take whole blocks"),
        };
        progress.hide(|| line(out, "written", format!("{}, {} B{padded}", path.display(), written.bytes)))?;
    }
    progress.done();
    Ok(Exit::Done)
}

/// Writes the file. To standard output goes an .npz, whose parts are written in any order: by way of a file.
fn save<T: Element>(matrix: &Bsr<T>, path: &Path, options: Options<'_>) -> Result<write::Written, write::WriteError> {
    if !output::is_stdout(path) {
        return write::save(matrix, path, options);
    }
    let io = |error| write::WriteError::io(path, error);
    let folder = tempfile::tempdir().map_err(io)?;
    let file = folder.path().join("blocks.npz");
    let written = write::save(matrix, &file, options)?;
    let mut out = std::io::stdout().lock();
    std::fs::File::open(&file).and_then(|mut file| std::io::copy(&mut file, &mut out)).map_err(io)?;
    out.flush().map_err(io)?;
    Ok(written)
}

/// Says how to have a file replaced.
fn existing(error: write::WriteError, force: bool) -> Failure {
    match error.problem() {
        write::WriteProblem::Exists if !force => {
            let fact =
                format!("{}: the file is there, and is kept\n  help: --force, or another name", error.file().display());
            Failure::bad_input(fact)
        }
        _ => error.into(),
    }
}

/// What holds smaller values than a type.
fn underflow_remedy(dtype: Dtype) -> &'static str {
    match dtype {
        Dtype::F16 => "--dtype bf16 or f32, or scale the matrix",
        _ => "scale the matrix",
    }
}

fn dtype(text: &str) -> Result<Dtype, String> {
    let dtypes = [Dtype::F16, Dtype::BF16, Dtype::F32, Dtype::F64];
    dtypes.into_iter().find(|dtype| dtype.to_string() == text).ok_or_else(|| "write f16, bf16, f32 or f64".to_owned())
}
