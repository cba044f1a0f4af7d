//! A feed-forward network whose hidden features are divided between two GPUs:
//! `cargo run --release --features nccl --example two_gpus`.
//!
//! Each GPU has whole block rows of the first weight and the block columns of the second at the same places, computes its part
//! for all tokens, and NCCL sums the parts. The sum is compared with what one GPU computes, and both are timed.

use std::error::Error;
use std::process::ExitCode;
use std::time::Instant;

use bsr::Loaded;
use bsr::gpu::nccl::{Communicator, together};
use bsr::gpu::{Device, DeviceBsr, DeviceDense, Stream};
use bsr::prelude::*;
use bsr::reference::relative_error;
use bsr::shard::Sharding;

const FEATURES: usize = 4096;
const HIDDEN: usize = 14336;
const TOKENS: usize = 4096;
const BLOCK: (usize, usize) = (128, 128);
const ROUNDS: usize = 30;

#[bsr_kernel(bm = 128, bn = 256, bk = 128)]
fn up(a: Bsr<f16>, b: Dense<f16>) -> Dense<f16> {
    max(acc, 0)
}

#[bsr_kernel(bm = 128, bn = 256, bk = 128)]
fn down(a: Bsr<f16>, b: Dense<f16>) -> Dense<f16>;

/// The weights of a rank, and where its products go.
struct Rank {
    stream: Stream,
    kernels: (Loaded<up>, Loaded<down>),
    weights: (DeviceBsr<f16>, DeviceBsr<f16>),
    x: DeviceDense<f16>,
    hidden: DeviceDense<f16>,
    y: DeviceDense<f16>,
}

impl Rank {
    fn new(device: &Device, first: &Bsr<f16>, second: &Bsr<f16>, x: &Dense<f16>) -> Result<Self, Box<dyn Error>> {
        let zeros = |rows| DeviceDense::zeros(device, rows, TOKENS, Layout::RowMajor);
        Ok(Self {
            stream: Stream::new(device)?,
            kernels: (up::load(device)?, down::load(device)?),
            weights: (DeviceBsr::upload(device, first)?, DeviceBsr::upload(device, second)?),
            x: DeviceDense::upload(device, x)?,
            hidden: zeros(first.rows())?,
            y: zeros(second.rows())?,
        })
    }

    /// Enqueues this rank's part of the network.
    fn compute(&mut self) -> Result<(), Box<dyn Error>> {
        self.kernels.0.launch(&self.stream, (&self.weights.0, &self.x), &mut self.hidden)?;
        self.kernels.1.launch(&self.stream, (&self.weights.1, &self.hidden), &mut self.y)?;
        Ok(())
    }
}

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let devices = match (Device::open(0), Device::open(1)) {
        (Ok(first), Ok(second)) if Communicator::is_available() => [first, second],
        (Ok(_), Ok(_)) => return nothing("NCCL is not on this machine"),
        (Err(none), _) | (_, Err(none)) => return nothing(&none.to_string()),
    };
    // Sums of 8 and of 28 blocks, which a factor keeps at the size of their operands.
    let first = scaled(Bsr::generate(Pattern::Random(0.25), HIDDEN, FEATURES, BLOCK, 1)?, 1.0 / 32.0)?;
    let second = scaled(Bsr::generate(Pattern::Random(0.25), FEATURES, HIDDEN, BLOCK, 2)?, 1.0 / 64.0)?;
    let x = Dense::<f16>::normal(FEATURES, TOKENS, Layout::RowMajor, 3);
    let (rows, columns) = Sharding::hidden(first.structure(), second.structure(), 2)?;
    println!("the first weight:\n{rows}\nthe second weight:\n{columns}");

    let mut whole = Rank::new(&devices[0], &first, &second, &x)?;
    let part = |rank: usize| Rank::new(&devices[rank], &rows.part(&first, rank), &columns.part(&second, rank), &x);
    let mut parts = [part(0)?, part(1)?];
    let ranks = Communicator::of_this_process(&devices)?;

    let mut times = [Vec::new(), Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        times[0].push(timed(&mut [&mut whole], |ranks| ranks[0].compute())?);
        let [left, right] = &mut parts;
        times[1].push(timed(&mut [left, right], |parts| parts.iter_mut().try_for_each(|part| part.compute()))?);
        let [left, right] = &mut parts;
        times[2].push(timed(&mut [left, right], |parts| {
            parts.iter_mut().try_for_each(|part| part.compute())?;
            let sums =
                || ranks.iter().zip(parts).try_for_each(|(rank, part)| rank.sum(&mut part.y, part.stream.handle()));
            Ok(together(sums)?)
        })?);
    }
    let exact = whole.y.download()?.to_f64();
    for (rank, part) in parts.iter().enumerate() {
        let error = relative_error(&part.y.download()?.to_f64(), &exact);
        println!("rank {rank}: relative error {error:.1e} to one GPU");
        if error.is_nan() || error > 5e-3 {
            println!("the parts do not add up to the whole");
            return Ok(ExitCode::FAILURE);
        }
    }
    let [one, without_sum, two] = times.map(median);
    println!("one GPU {one:.0} us, two GPUs {two:.0} us: {:.2} times as fast", one / two);
    println!("the sum takes {:.0} % of the time on two GPUs", 100.0 * (two - without_sum) / two);
    Ok(ExitCode::SUCCESS)
}

fn nothing(why: &str) -> Result<ExitCode, Box<dyn Error>> {
    println!("nothing is launched: {why}");
    Ok(ExitCode::from(3))
}

fn scaled(a: Bsr<f16>, factor: f32) -> Result<Bsr<f16>, Box<dyn Error>> {
    let values = a.values().iter().map(|value| f16::from_f32(value.to_f32() * factor)).collect();
    Ok(Bsr::from_structure(a.structure().clone(), values)?)
}

/// Microseconds until what is enqueued on all ranks is done.
fn timed(
    ranks: &mut [&mut Rank],
    enqueue: impl FnOnce(&mut [&mut Rank]) -> Result<(), Box<dyn Error>>,
) -> Result<f64, Box<dyn Error>> {
    ranks.iter().try_for_each(|rank| rank.stream.synchronize())?;
    let start = Instant::now();
    enqueue(ranks)?;
    ranks.iter().try_for_each(|rank| rank.stream.synchronize())?;
    Ok(start.elapsed().as_secs_f64() * 1e6)
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
