//! Times the lists that a GPU makes of a mask that lives there: `cargo run --release -p bsr-runtime --example attention_lists`.
//!
//! Each row is one mask of square blocks with the same pattern for all heads: the check of its arrays, the steps of every row of
//! tiles, and the tiles of every CTA. The mask counts as changed before each time. Warm, and with L2 cold and clean; for two
//! consumers with steps of one block, and for three, whose steps have two blocks of 64.

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
        for (columns, kind) in
            [(128, format!("consumers = 2, k_step = {side}")), (64, "consumers = 3, k_step = 128".into())]
        {
            let spec = format!("bm = {side}, bn = {columns}, bk = {side}, op = attention, dtype = bf16, {kind}");
            time(
                &device,
                &spec,
                &mask,
                Shape { batch: 1, heads, key_heads: heads, queries: length, keys: length, columns },
            )?;
        }
    }
    Ok(())
}

fn time(device: &Device, spec: &str, mask: &Mask, shape: Shape) -> Result<(), Box<dyn Error>> {
    let launcher = Launcher::load(device, &Plan::new(&spec.parse()?)?)?;
    let there = Arc::new(DeviceMask::upload(device, mask, mask.stored())?);
    let pattern = launcher.device_pattern(&there, shape)?;
    for cold in [false, true] {
        let mut candidates = [Candidate::new("lists", |stream| {
            there.changed();
            pattern.make_lists(stream)
        })];
        let options = InterleaveOptions { cold, ..InterleaveOptions::default() };
        for timing in interleave(&mut candidates, &options, device)? {
            let (us, how) = (timing.median_us(), if cold { "cold" } else { "warm" });
            let (stored, rows, heads) = (mask.stored(), mask.blocks().0, shape.heads);
            println!("{stored:>8} blocks, {rows} rows, {heads} heads: {us:.1} us {how}, {spec}");
        }
    }
    there.check()?;
    Ok(())
}
