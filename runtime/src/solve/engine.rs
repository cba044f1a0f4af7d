//! How a solve runs on a machine: once for all methods and machines.

use bsr_codegen::solver::{HISTORY, Header, Method, Pointer, SolverKernel, SolverModule, Status, Sum, Vector};

use super::error::{Breakdown, SolveError};
use super::request::{Options, Outcome};

/// A machine with the matrix and the vectors of a solve, of which r has b and x has x0.
pub(super) trait Engine {
    /// What its vector kernels are.
    fn module(&self) -> SolverModule;
    /// Rows of the matrix.
    fn rows(&self) -> usize;
    /// Multiplies A with a vector.
    fn product(&mut self, from: Vector, to: Vector) -> Result<(), SolveError>;
    /// Launches a vector kernel.
    fn launch(&mut self, kernel: SolverKernel) -> Result<(), SolveError>;
    /// Runs so many iterations.
    fn iterate(&mut self, count: usize) -> Result<(), SolveError>;
    /// Sets a vector to zero.
    fn zero(&mut self, vector: Vector) -> Result<(), SolveError>;
    /// Writes the state.
    fn set_state(&mut self, state: &[u8]) -> Result<(), SolveError>;
    /// Reads the state, once all that was launched is done.
    fn state(&mut self) -> Result<Vec<u8>, SolveError>;
    /// Reads partial sums.
    fn partials(&mut self, sum: Sum) -> Result<Vec<f64>, SolveError>;
    /// Reads the norms of the last residuals.
    fn history(&mut self) -> Result<Vec<f64>, SolveError>;
}

/// A vector where the engine of a module has it: there are no copies where there is no preconditioner.
pub(super) fn resolved(module: SolverModule, vector: Vector) -> Vector {
    if module.block().is_some() { vector } else { vector.without_preconditioner() }
}

/// The vectors that the kernels and the products of a module use.
pub(super) fn vectors(module: SolverModule) -> Vec<Vector> {
    let method = module.method();
    let given = method.kernels().flat_map(|kernel| module.pointers(kernel)).filter_map(|pointer| match pointer {
        Pointer::Vector(vector) => Some(vector),
        _ => None,
    });
    let multiplied = method.kernels().filter_map(|kernel| method.product_before(kernel)).flat_map(<[Vector; 2]>::from);
    let mut vectors: Vec<Vector> = given.chain(multiplied).map(|vector| resolved(module, vector)).collect();
    vectors.sort_unstable();
    vectors.dedup();
    vectors
}

/// The dot products of a method.
pub(super) fn sums(module: SolverModule) -> Vec<Sum> {
    let given = module.method().kernels().flat_map(|kernel| module.pointers(kernel));
    let mut sums: Vec<Sum> = given
        .filter_map(|pointer| match pointer {
            Pointer::Sum(sum) => Some(sum),
            _ => None,
        })
        .collect();
    sums.sort_unstable();
    sums.dedup();
    sums
}

/// One iteration.
pub(super) fn iteration(engine: &mut impl Engine) -> Result<(), SolveError> {
    let method = engine.module().method();
    method.iteration().iter().try_for_each(|kernel| step(engine, method, *kernel))
}

fn step(engine: &mut impl Engine, method: Method, kernel: SolverKernel) -> Result<(), SolveError> {
    if let Some((from, to)) = method.product_before(kernel) {
        engine.product(from, to)?;
    }
    engine.launch(kernel)
}

/// Solves A x = b.
///
/// # Errors
/// Options that no solve takes, a b that is not finite, a breakdown, and what the engine answers.
pub(super) fn solve(engine: &mut impl Engine, options: &mut Options<'_>) -> Result<Outcome, SolveError> {
    let (method, limit) = (engine.module().method(), options.limit(engine.rows())?);
    let header = |tolerance| method.state(Header { limit: limit as u32, tolerance });
    engine.set_state(&header(0.0))?;
    engine.launch(SolverKernel::Norm)?;
    let norm = engine.partials(Sum::Rr)?.iter().sum::<f64>().sqrt();
    let tolerance = options.tolerance(norm)?;
    if norm == 0.0 {
        engine.zero(Vector::X)?;
        return Ok(Outcome { iterations: 0, residual: 0.0, converged: true });
    }
    for vector in method.zero() {
        engine.zero(*vector)?;
    }
    engine.set_state(&header(tolerance))?;
    step(engine, method, method.start())?;
    let check = method.iteration().last().copied().unwrap_or(SolverKernel::Norm);
    engine.launch(check)?;
    let mut told = 0;
    loop {
        let line = method.line(&engine.state()?);
        let iteration = line.iteration as usize;
        let history = engine.history()?;
        let norm = |of: usize| history[of % HISTORY as usize];
        let is_over = matches!(line.status, Status::Converged | Status::Limit);
        // The norm of an iteration is known where the next one has begun, or the last one is done.
        let known = iteration + usize::from(is_over);
        (told.max(1)..known).for_each(|of| options.tell(norm(of)));
        told = told.max(known);
        match line.status {
            Status::Running => engine.iterate(options.chunk.min(limit.saturating_sub(iteration - 1)).max(1))?,
            Status::Converged | Status::Limit => {
                let converged = line.status == Status::Converged;
                return Ok(Outcome { iterations: iteration, residual: norm(iteration), converged });
            }
            status => return Err(Breakdown::new(status, iteration).into()),
        }
    }
}
