//! A block-sparse product in ten lines: `cargo run --release --example spmm`.
//!
//! The kernel is compiled to PTX with this program, and so are kernels for GPUs that are no Hopper. Where there is no GPU
//! from sm_70 on, the program says so and exits with 3.

use std::error::Error;
use std::process::ExitCode;

use bsr::prelude::*;

#[bsr_kernel(bm = 512, bn = 128, bk = 112, fallback = on)]
fn spmm(a: Bsr<f16>, b: Dense<f16>) -> Dense<f16>;

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let kernel = match spmm::open() {
        Ok(kernel) => kernel,
        Err(none) if none.is_no_device() => {
            println!("{} is {} B of PTX, and not launched: {none}", spmm::ENTRY, spmm::PTX.len());
            return Ok(ExitCode::from(3));
        }
        Err(error) => return Err(error.into()),
    };
    let a = Bsr::generate(Pattern::TopK(4), 1024, 1120, (512, 112), 0)?;
    let b = Dense::normal(1120, 512, Layout::RowMajor, 0);
    let c = kernel.multiply((&a, &b))?;

    let error = bsr::reference::relative_error(&c.to_f64(), &bsr::reference::multiply(&a, &b)?);
    let (gpu, mma) = (&kernel.launcher().device().info().name, kernel.launcher().plan().spec().mma);
    println!("C[{}, {}] on {gpu} with mma = {mma}: relative error {error:.1e}", c.rows(), c.cols());
    Ok(ExitCode::from(u8::from(error > 2e-3)))
}
