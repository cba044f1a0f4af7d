//! Training with block-sparse weights: Y = X W^T with a sparse W, fitted to a target by gradient descent.
//!
//! ```text
//! cargo run --release --example linear [FILE.svg]
//! ```
//!
//! Every step multiplies three times: forward, Y = X W^T; for the inputs, which are learned as well, dX = E W; for the
//! weights, dW = E^T X, of which the stored blocks alone are computed. E is Y less the target. No product needs another
//! copy of W: what is transposed is read so. Beside it the same layer is trained in f32 with a dense W, masked after
//! every step, and the two losses are drawn on top of each other. Without a GPU the kernels run on the simulator, on a
//! smaller layer.

mod chart;
mod engine;
mod layer;

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

use engine::Engine;
use layer::{Masked, Problem, Sparse};

/// Steps of gradient descent.
const STEPS: usize = 300;
/// How far the losses may lie apart, relative to the larger: factors are rounded to 16 bits before every product.
const APART: f64 = 0.02;

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let picture = PathBuf::from(std::env::args().nth(1).unwrap_or_else(|| "linear.svg".to_owned()));
    let engine = Engine::open()?;
    let problem = Problem::draw(engine.sizes())?;
    println!("{}; {problem}", engine.words());
    let (mut sparse, mut masked) = (Sparse::new(&problem), Masked::new(&problem));
    let mut losses = Vec::with_capacity(STEPS);
    for step in 0..STEPS {
        let pair = [sparse.step(&engine, &problem)?, masked.step(&problem)];
        if step % 50 == 0 || step + 1 == STEPS {
            println!("step {step:>3}: loss {:.6} with sparse kernels, {:.6} dense and masked", pair[0], pair[1]);
        }
        losses.push(pair);
    }
    chart::draw(&picture, &losses, &engine.words())?;
    let apart = losses.iter().map(|[sparse, masked]| (sparse - masked).abs() / sparse.max(*masked)).fold(0.0, f64::max);
    let [first, last] = [losses[0][0], losses[STEPS - 1][0]];
    println!(
        "The loss fell by a factor of {:.0}; the two are at most {:.2} % apart. {} shows them.",
        first / last,
        100.0 * apart,
        picture.display()
    );
    Ok(if apart <= APART && last < first / 10.0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
