//! `bsr advise FILE`: what blocks of several sizes would cost, and whether the dense library is faster.

mod measure;
mod table;

use std::io::Write;
use std::path::{Path, PathBuf};

use bsr::Dtype;
use bsr::advise::{Advice, BLOCKS, Request, SMALL_BLOCKS, advise};
use bsr_tuner::model;

use super::device::DeviceChoice;
use super::exit::{Exit, Failure};
use super::output::{Outputs, Replace};
use super::progress::Progress;
use super::weights::{Weights, WeightsArgs, block};
use super::{line, output};

/// Recommend a block size for a matrix: what each size costs, and whether the dense library is faster.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bsr advise bcsstk13.mtx
  bsr advise layer.safetensors --tensor mlp.up.weight --keep 0.25 --n 8192
  bsr advise weights.smtx --blocks 16x16,32x32,64x64 --json advice.json
  bsr advise bcsstk13.mtx --dtype f64
  bsr advise --field elasticity:16x16x16

For each block size: the number of stored blocks and the fill-in (stored values per nonzero), also with reordered \
rows, and the time of one product. TFLOP/s count useful operations: 2 * nonzeros * N. Dense is the whole \
matrix in the dense library, its sizes padded to 16 bytes; `even below` is the density of randomly placed blocks at \
which both take equally long. Predicted times are those of the cost model that `bsr explain` and sweeps use, on one \
H200, for the best of a few kernels; times of the dense library are interpolated between measured ones. A predicted \
advantage of less than 15 % is called even. With a GPU, kernels are also timed in turn with the dense library, in \
the row order of the file, and the verdict is that of the measured times.")]
pub(super) struct Args {
    /// Columns of the dense matrix that the matrix is multiplied by. [default: 4096; 1 with f32 and f64]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1 << 27), value_name = "COLUMNS")]
    n: Option<u32>,
    /// The type of all matrices: f16, bf16, f32 or f64. [default: f16; f64 with --field]
    #[arg(long, value_parser = dtype)]
    dtype: Option<Dtype>,
    /// The block sizes to compare, ROWSxCOLUMNS. [default: 13 from 8x64 to 256x128; 1x1 to 8x8 with f32 and f64]
    #[arg(long, value_parser = block, value_delimiter = ',', value_name = "RxC,..")]
    blocks: Vec<(usize, usize)>,
    /// Do not search for better row orders.
    #[arg(long)]
    no_reorder: bool,
    /// Require measured times: exit with 3 if there is no GPU. [default: measure if there is one]
    #[arg(long, conflicts_with = "predict")]
    measure: bool,
    /// Predict only, even if there is a GPU.
    #[arg(long)]
    predict: bool,
    /// The GPU that measures: auto, gpu or gpu:N.
    #[arg(long, default_value = "auto", conflicts_with = "predict")]
    device: DeviceChoice,
    /// Write the advice to this file as JSON; `-` is standard output, and the table then goes to standard error.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    #[command(flatten)]
    replace: Replace,
    #[command(flatten)]
    weights: WeightsArgs,
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> Result<Exit, Failure> {
    let outputs = Outputs::new([("--json", args.json.as_ref())], args.weights.input(), &args.replace)?;
    let out = &mut *outputs.answers(out);
    let progress = Progress::new();
    progress.step("reading");
    let weights = args.weights.load()?;
    let dtype = args.dtype.unwrap_or(if args.weights.is_of_field() { Dtype::F64 } else { Dtype::F16 });
    let is_science = matches!(dtype, Dtype::F32 | Dtype::F64);
    let blocks = match args.blocks.is_empty() {
        true if is_science => &SMALL_BLOCKS[..],
        true => &BLOCKS[..],
        false => &args.blocks,
    };
    let device = match args.predict {
        true => Err("--predict".to_owned()),
        false => match args.device.gpu_for([]) {
            Ok(device) => Ok(device),
            Err(none) if none.exit() == Exit::NoDevice && !args.measure => Err(none.first_line().to_owned()),
            Err(failure) => return Err(failure),
        },
    };
    progress.step(format!("blocking in {} ways", blocks.len()));
    let request = Request {
        n: args.n.unwrap_or(if is_science { 1 } else { 4096 }) as usize,
        keep: args.weights.keep(),
        reorder: !args.no_reorder,
        dtype,
    };
    let (card, _) = match &device {
        Ok(device) => model::for_gpu(&device.info().name, None),
        Err(_) => (model::Card::h200(), model::Known::Measured),
    };
    let mut advice = advise(&weights.sparse, blocks, &request, &card)?;
    advice.source.clone_from(&weights.name);
    let (exit, why_not) = match &device {
        Ok(device) => (measure::all(&mut advice, &weights, &args.weights, device, &progress)?, None),
        Err(why) => (Exit::Done, Some(why.as_str())),
    };
    progress.done();
    answer(&weights, &advice, why_not, args.json.as_deref(), out)?;
    Ok(exit)
}

/// A type that kernels for blocks of every size take.
fn dtype(word: &str) -> Result<Dtype, String> {
    let known = [Dtype::F16, Dtype::BF16, Dtype::F32, Dtype::F64];
    known.into_iter().find(|dtype| dtype.to_string() == word).ok_or_else(|| "f16, bf16, f32 or f64".to_owned())
}

/// Prints the table, and writes the JSON where it is asked for.
fn answer(
    weights: &Weights,
    advice: &Advice,
    why_not: Option<&str>,
    json: Option<&Path>,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    line(out, "matrix", weights)?;
    for (label, words) in [("threshold", weights.dropped()), ("warning", weights.not_finite())] {
        words.iter().try_for_each(|words| line(out, label, words))?;
    }
    write!(out, "{}", table::Report { advice, why_not })?;
    if let Some(path) = json {
        let json = advice.to_json().map_err(Failure::wrong)? + "\n";
        output::write_text(path, &json)?;
    }
    Ok(())
}
