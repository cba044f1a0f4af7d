//! A beam that is clamped at one end bends under its weight, solved by conjugate gradients.
//!
//! ```text
//! cargo run --release --example elasticity [FILE.svg] [CELLS]
//! ```
//!
//! The beam is 6 CELLS x CELLS x CELLS cubes of an elastic body, whose stiffness matrix `Field::Elasticity` assembles in blocks of
//! 3 x 3. On a GPU all iterations stay there; without one the same method runs on the CPU. The picture has the norm of the residual
//! after each iteration, and the beam before and after, with the displacement enlarged.

mod picture;

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

use bsr::gpu::Device;
use bsr::solve::{self, Method, Options, Preconditioner, Solution, Solver};
use bsr::{Bsr, Field};
use picture::Beam;

/// The residual at the end, relative to the load.
const RTOL: f64 = 1e-8;

/// A solution, the norm of the residual after each iteration, and where it ran.
struct Solved {
    solution: Solution<f64>,
    norms: Vec<f64>,
    place: String,
}

/// On a GPU if there is one, otherwise on the CPU.
fn solve(a: &Bsr<f64>, b: &[f64]) -> Result<Solved, Box<dyn Error>> {
    let mut norms = Vec::new();
    let mut told = |norm| norms.push(norm);
    let mut options = Options { rtol: RTOL, callback: Some(&mut told), ..Options::default() };
    let (method, preconditioner) = (Method::Cg, Preconditioner::BlockJacobi);
    let (solution, place) = match Device::open_for("sm_70") {
        Ok(device) => {
            let solution = Solver::new(&device, a, method, preconditioner)?.solve(b, &mut options)?;
            (solution, device.info().name.clone())
        }
        Err(none) if none.is_no_device() => {
            (solve::on_host(a, (method, preconditioner), (b, None), &mut options)?, "the CPU".to_owned())
        }
        Err(error) => return Err(error.into()),
    };
    Ok(Solved { solution, norms, place })
}

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let file = PathBuf::from(arguments.next().unwrap_or_else(|| "elasticity.svg".to_owned()));
    let side: usize = arguments.next().map_or(Ok(5), |cells| cells.parse())?;
    let beam = Beam::new([6 * side, side, side]);
    let a = Field::Elasticity(beam.cells).matrix(0)?;
    let Solved { solution, norms, place } = solve(&a, &beam.weight())?;
    println!(
        "{} unknowns on {place}: {} iterations to a residual of {:.1e}",
        a.rows(),
        solution.iterations,
        solution.residual
    );
    let (found, theory) = (beam.tip(&solution.x), beam.tip_of_theory());
    println!(
        "The free end sinks by {found:.4} sides of a cube; a slender beam that does not shear sinks by {theory:.4}."
    );
    picture::draw(&file, &beam, &solution.x, &norms)?;
    println!("{} shows it.", file.display());
    Ok(if solution.converged && (0.9..1.2).contains(&(found / theory)) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
