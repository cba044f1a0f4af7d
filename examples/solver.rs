//! An elastic cube, solved and timed: `cargo run --release --example solver -- [cells of an edge] [iterations]`.
//!
//! A node has three unknowns and 27 neighbours, itself included: blocks of 3 x 3 in f64. With 100 cells of an edge, as it is
//! unless it is said, the matrix has a million block rows and 2 GB. The time of an iteration is the difference of two solves,
//! of which one has twice the iterations. Where there is no GPU from sm_70 on, the program says so and exits with 3.

use std::error::Error;
use std::process::ExitCode;
use std::time::Instant;

use bsr::Field;
use bsr::bench::{Effort, measure_roofs};
use bsr::gpu::Device;
use bsr::solve::{Method, Options, Preconditioner, Solver};

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let arguments: Vec<usize> = std::env::args().skip(1).map(|argument| argument.parse()).collect::<Result<_, _>>()?;
    let edge = arguments.first().copied().unwrap_or(100).clamp(1, 400);
    let iterations = arguments.get(1).copied().unwrap_or(100).max(1);
    let device = match Device::open_for("sm_70") {
        Ok(device) => device,
        Err(none) if none.is_no_device() => {
            println!("no solve: {none}");
            return Ok(ExitCode::from(3));
        }
        Err(error) => return Err(error.into()),
    };
    let a = Field::Elasticity([edge; 3]).matrix(0)?;
    let b: Vec<f64> = (0..a.rows()).map(|row| ((row * 7919) % 1000) as f64 / 1000.0 - 0.5).collect();
    let roof = measure_roofs(&device, Effort::Quick, &mut |_| {})?.hbm_read_tbs;
    println!(
        "{}: {} rows, {} blocks of 3 x 3 in f64, read roof {roof:.2} TB/s",
        device.info().name,
        a.rows(),
        a.nnzb()
    );
    for preconditioner in [Preconditioner::None, Preconditioner::BlockJacobi] {
        for method in Method::ALL {
            let mut solver = Solver::new(&device, &a, method, preconditioner)?;
            let mut seconds = |iterations| -> Result<f64, Box<dyn Error>> {
                let mut options = Options { rtol: 0.0, max_iterations: Some(iterations), ..Options::default() };
                let start = Instant::now();
                let solution = solver.solve(&b, &mut options)?;
                assert_eq!(solution.iterations, iterations, "the residual is zero before");
                Ok(start.elapsed().as_secs_f64())
            };
            seconds(iterations)?;
            let mut samples = Vec::new();
            for _ in 0..5 {
                samples.push(seconds(2 * iterations)? - seconds(iterations)?);
            }
            samples.sort_by(f64::total_cmp);
            let (each, bytes) = (samples[2] / iterations as f64, solver.bytes_of_iteration() as f64);
            let rate = bytes / each / 1e12;
            println!(
                "{method:?}, {preconditioner:?}: {:.1} us an iteration, {:.1} MB, {rate:.2} TB/s, {:.0} % of the read roof",
                each * 1e6,
                bytes / 1e6,
                100.0 * rate / roof
            );
        }
    }
    let mut solver = Solver::new(&device, &a, Method::Cg, Preconditioner::BlockJacobi)?;
    let start = Instant::now();
    let solution = solver.solve(&b, &mut Options { rtol: 1e-8, ..Options::default() })?;
    println!("rtol = 1e-8: {} iterations in {:.1} ms", solution.iterations, start.elapsed().as_secs_f64() * 1e3);
    Ok(ExitCode::SUCCESS)
}
