//! A chain of small products in one stream, with and without programmatic dependent launch:
//! `cargo run --release --example chain`.
//!
//! Each product multiplies the result of the one before it, so a kernel that started too early would read what is not
//! written yet: both chains must give the same bits. Times are those of whole chains, taken in turn.

use std::error::Error;
use std::process::ExitCode;

use bsr::arguments::{Nothing, Single};
use bsr::bench::{Candidate, InterleaveOptions, interleave};
use bsr::gpu::{Device, DeviceBsr, DeviceDense, Stream, StreamRef};
use bsr::prelude::*;
use bsr::{KernelError, Loaded};

const SIZE: usize = 2048;
const PRODUCTS: usize = 32;
/// Chains that are compared bit by bit.
const CHECKED: usize = 100;

#[bsr_kernel(bm = 128, bn = 128, bk = 128)]
fn product(a: Bsr<f16>, b: Dense<f16>) -> Dense<f16>;

#[bsr_kernel(bm = 128, bn = 128, bk = 128, pdl = on)]
fn dependent_product(a: Bsr<f16>, b: Dense<f16>) -> Dense<f16>;

/// A sparse factor, and two dense matrices that products go to in turn.
struct Chain {
    a: DeviceBsr<f16>,
    x: [DeviceDense<f16>; 2],
}

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let device = match Device::open(0).and_then(|device| device.check_target("sm_90a").map(|()| device)) {
        Ok(device) => device,
        Err(none) => {
            println!("nothing is launched: {none}");
            return Ok(ExitCode::from(3));
        }
    };
    // Every row has 2 of 16 blocks: sums of 256 products, which a factor of 1/16 keeps at the size of their operands.
    let a = Bsr::<f16>::generate(Pattern::TopK(2), SIZE, SIZE, (128, 128), 1)?;
    let values = a.values().iter().map(|value| f16::from_f32(value.to_f32() / 16.0)).collect();
    let a = Bsr::from_structure(a.structure().clone(), values)?;
    let start = Dense::<f16>::normal(SIZE, SIZE, Layout::RowMajor, 2);
    let (serial, dependent) = (product::load(&device)?, dependent_product::load(&device)?);
    let mut chain = Chain {
        a: DeviceBsr::upload(&device, &a)?,
        x: [DeviceDense::upload(&device, &start)?, DeviceDense::upload(&device, &start)?],
    };

    let want = last(&device, &serial, &mut chain, &start)?;
    for _ in 0..CHECKED {
        if last(&device, &dependent, &mut chain, &start)?.data() != want.data() {
            println!("a chain of dependent launches gave other bits");
            return Ok(ExitCode::FAILURE);
        }
    }

    let (a, [x, y]) = (&chain.a, &mut chain.x);
    let cell = std::cell::RefCell::new((x, y));
    let run = |stream: StreamRef<'_>, is_dependent: bool| -> Result<(), KernelError> {
        let (x, y) = &mut *cell.borrow_mut();
        for _ in 0..PRODUCTS / 2 {
            for [from, to] in [[0, 1], [1, 0]] {
                let (from, to) = if from < to { (&**x, &mut **y) } else { (&**y, &mut **x) };
                match is_dependent {
                    true => dependent.launch(stream, (a, from), to)?,
                    false => serial.launch(stream, (a, from), to)?,
                }
            }
        }
        Ok(())
    };
    let mut candidates = [
        Candidate::new("serial", |stream| run(stream, false)),
        Candidate::new("dependent", |stream| run(stream, true)),
    ];
    let timings = interleave(&mut candidates, &InterleaveOptions::default(), &device)?;
    for timing in &timings {
        println!(
            "{:<10} {:.2} us a product, {PRODUCTS} in a stream",
            timing.name,
            timing.median_us() / PRODUCTS as f64
        );
    }
    println!("{CHECKED} chains of dependent launches gave the same bits as serial ones on {}", device.info().name);
    Ok(ExitCode::SUCCESS)
}

/// The last matrix of a chain that begins with `start`.
fn last<K>(
    device: &Device,
    kernel: &Loaded<K>,
    chain: &mut Chain,
    start: &Dense<f16>,
) -> Result<Dense<f16>, Box<dyn Error>>
where
    K: Kernel<Op = Dsd, A = f16, B = f16, Out = f16, Further = Nothing, Returns = Single>,
{
    let stream = Stream::new(device)?;
    chain.x[0] = DeviceDense::upload(device, start)?;
    chain.x[1].fill_bytes(0xFF)?;
    for at in 0..PRODUCTS {
        let [x, y] = &mut chain.x;
        let (from, to) = if at % 2 == 0 { (x, y) } else { (y, x) };
        kernel.launch(&stream, (&chain.a, &*from), to)?;
    }
    stream.synchronize()?;
    Ok(chain.x[PRODUCTS % 2].download()?)
}
