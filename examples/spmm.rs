//! A block-sparse product in ten lines: `cargo run --release --example spmm`.
//!
//! The kernel is compiled to PTX with this program. Where there is no GPU that runs it, the program says so and exits
//! with 3.

use std::error::Error;
use std::process::ExitCode;

use bsr::prelude::*;

#[bsr_kernel(bm = 512, bn = 128, bk = 112)]
fn spmm(a: Bsr<f16>, b: Dense<f16>) -> Dense<f16>;

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let device = match Device::open(0).and_then(|device| device.check_target("sm_90a").map(|()| device)) {
        Ok(device) => device,
        Err(none) => {
            println!("{} is {} B of PTX, and not launched: {none}", spmm::ENTRY, spmm::PTX.len());
            return Ok(ExitCode::from(3));
        }
    };
    let a = Bsr::generate(Pattern::TopK(4), 1024, 1120, (512, 112), 0)?;
    let b = Dense::normal(1120, 512, Layout::RowMajor, 0);
    let c = spmm::load(&device)?.multiply((&a, &b))?;

    let error = bsr::reference::relative_error(&c.to_f64(), &bsr::reference::multiply(&a, &b)?);
    println!("C[{}, {}] on {}: relative error {error:.1e}", c.rows(), c.cols(), device.info().name);
    Ok(ExitCode::from(u8::from(error > 2e-3)))
}
