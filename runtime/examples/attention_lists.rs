//! Times the lists that a GPU makes of a mask that lives there: `cargo run --release -p bsr-runtime --example attention_lists`.
//!
//! Each row is one mask of square blocks with the same pattern for all heads: the check of its arrays, the steps of every row of
//! tiles, and the tiles of every CTA. The mask counts as changed before each time. Warm, and with L2 cold and clean.

use std::error::Error;
use std::sync::Arc;

use bsr_codegen::Plan;
use bsr_runtime::attention::{DeviceMask, Launcher, Mask, Shape};
use bsr_runtime::bench::{Candidate, InterleaveOptions, interleave};
use bsr_runtime::gpu::Device;

/// Queries and keys, side of a block, heads, share of stored blocks.
const MASKS: [(usize, usize, usize, f64); 6] = [
    (16_384, 64, 16, 1.0),
    (16_384, 128, 16, 0.25),
    (65_536, 64, 1, 1.0),
    (65_536, 64, 16, 1.0),
    (131_072, 128, 1, 1.0),
    (131_072, 128, 16, 1.0),
];

fn main() -> Result<(), Box<dyn Error>> {
    let device = Device::open(0)?;
    println!("{} ({} multiprocessors)", device.info().name, device.sm_count());
    for (length, side, heads, density) in MASKS {
        let mask = match density {
            1.0 => Mask::full((length, length), (side, side))?,
            _ => Mask::random((length, length), (side, side), density, 1)?,
        };
        let spec =
            format!("bm = {side}, bn = 128, bk = {side}, op = attention, dtype = bf16, consumers = 2, k_step = {side}");
        let launcher = Launcher::load(&device, &Plan::new(&spec.parse()?)?)?;
        let shape = Shape { batch: 1, heads, key_heads: heads, queries: length, keys: length, columns: 128 };
        let there = Arc::new(DeviceMask::upload(&device, &mask, mask.stored())?);
        let pattern = launcher.device_pattern(&there, shape)?;
        for cold in [false, true] {
            let mut candidates = [Candidate::new("lists", |stream| {
                there.changed();
                pattern.make_lists(stream)
            })];
            let options = InterleaveOptions { cold, ..InterleaveOptions::default() };
            for timing in interleave(&mut candidates, &options, &device)? {
                let (us, how) = (timing.median_us(), if cold { "cold" } else { "warm" });
                println!(
                    "{:>8} blocks, {} rows, {heads} heads: {us:.1} us {how}, {spec}",
                    mask.stored(),
                    length / side
                );
            }
        }
        there.check()?;
    }
    Ok(())
}
