//! Conjugate gradients on a mesh of hexahedra, timed: `cargo run --release --example solver -- [nodes of an edge] [iterations]`.
//!
//! Each node has three unknowns and 27 neighbours, itself included: blocks of 3 x 3 in f64. With 100 nodes of an edge, as it is
//! unless it is said, the matrix has a million block rows and 2 GB. The time of an iteration is the difference of two solves,
//! of which one has twice the iterations. Where there is no GPU from sm_70 on, the program says so and exits with 3.

use std::error::Error;
use std::process::ExitCode;
use std::time::Instant;

use bsr::bench::{Effort, measure_roofs};
use bsr::gpu::Device;
use bsr::solve::{Method, Options, Preconditioner, Solver};
use bsr::{Bsr, Structure};

/// The block between two nodes, by the step from one to the other: a spring along it, and a weaker one across.
fn spring(step: [i32; 3]) -> [f64; 9] {
    let square = f64::from(step.iter().map(|along| along * along).sum::<i32>());
    std::array::from_fn(|at| {
        let (i, j) = (at / 3, at % 3);
        let across = if i == j { 0.2 } else { 0.0 };
        -(across + f64::from(step[i] * step[j]) / square) / square
    })
}

/// The stiffness of a cube of springs whose boundary is held, symmetric and positive definite.
fn cube(edge: i32) -> Result<Bsr<f64>, Box<dyn Error>> {
    let steps: [[i32; 3]; 27] = std::array::from_fn(|at| [at / 9, at / 3 % 3, at % 3].map(|along| along as i32 - 1));
    let mut diagonal = [0.0; 9];
    for step in steps.iter().filter(|step| **step != [0; 3]) {
        diagonal.iter_mut().zip(spring(*step)).for_each(|(sum, value)| *sum -= value);
    }
    let rows = edge.pow(3) as usize;
    let (mut row_ptr, mut col_idx, mut values) =
        (vec![0], Vec::with_capacity(27 * rows), Vec::with_capacity(243 * rows));
    for node in 0..edge.pow(3) {
        let place = [node / (edge * edge), node / edge % edge, node % edge];
        for step in steps {
            let other = [0, 1, 2].map(|axis| place[axis] + step[axis]);
            if other.iter().all(|at| (0..edge).contains(at)) {
                col_idx.push((other[0] * edge + other[1]) * edge + other[2]);
                values.extend(if step == [0; 3] { diagonal } else { spring(step) });
            }
        }
        row_ptr.push(i32::try_from(col_idx.len())?);
    }
    let structure = Structure::new(3 * rows, 3 * rows, (3, 3), row_ptr, col_idx)?;
    Ok(Bsr::from_structure(structure, values)?)
}

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let arguments: Vec<usize> = std::env::args().skip(1).map(|argument| argument.parse()).collect::<Result<_, _>>()?;
    let edge = arguments.first().copied().unwrap_or(100).clamp(1, 400) as i32;
    let iterations = arguments.get(1).copied().unwrap_or(100).max(1);
    let device = match Device::open_for("sm_70") {
        Ok(device) => device,
        Err(none) if none.is_no_device() => {
            println!("no solve: {none}");
            return Ok(ExitCode::from(3));
        }
        Err(error) => return Err(error.into()),
    };
    let a = cube(edge)?;
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
