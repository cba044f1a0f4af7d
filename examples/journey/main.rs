//! The path of one kernel, from atomics on CUDA cores to FP8 on Hopper's tensor cores, on one GPU in one go:
//!
//! ```text
//! cargo run --release --example journey [FILE.svg]
//! ```
//!
//! Every step is one attribute on the same product: A of 8192 x 8288 in blocks of 512 x 112, 16 of the 74 in a row
//! stored, times B of 8288 x 8192. Each is held against an f64 reference before it is timed; all are timed in turn,
//! from a cold cache, with cuBLASLt on an equal number of operations between them. Only executed operations count.
//!
//! Without a Hopper GPU the simulator goes the same way on a product of one block row, and says what each step changes: how much
//! of the product a warp does with one instruction. It measures no time.

mod chart;
mod measure;
mod simulated;
mod steps;

use std::error::Error;
use std::path::PathBuf;

use bsr::gpu::Device;

use measure::Row;

fn main() -> Result<(), Box<dyn Error>> {
    let picture = PathBuf::from(std::env::args().nth(1).unwrap_or_else(|| "journey.svg".to_owned()));
    let device = match Device::open(0).and_then(|device| device.check_target("sm_90a").map(|()| device)) {
        Ok(device) => device,
        Err(none) => {
            println!("On the simulator, which measures no time: {none}\n");
            return simulated::run();
        }
    };
    let rows = measure::run(&device)?;
    print(&rows);
    chart::draw(&picture, &rows, &device.info().name)?;
    println!("\n{} shows it.", picture.display());
    Ok(())
}

/// The table: our rate, the dense library's on equal work, and what the path's first walkers reported for an H100.
fn print(rows: &[Row]) {
    println!("{:<34} {:>9} {:>8} {:>9} {:>9}  spec", "step", "TFLOP/s", "of dense", "reported", "error");
    for row in rows {
        let ratio = row.dense.map_or("-".to_owned(), |dense| format!("{:.3}", row.tflops / dense));
        let reported = row.reported.map_or("-".to_owned(), |tflops| format!("{tflops:.1}"));
        println!("{:<34} {:>9.1} {:>8} {:>9} {:>9.1e}  {}", row.name, row.tflops, ratio, reported, row.error, row.spec);
    }
    println!(
        "reported: for an NVIDIA H100, by the authors of the kernels that this path follows; the 607 of the best tile\n\
         counted work that its kernel did not do."
    );
}
