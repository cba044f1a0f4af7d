//! How a solve runs on a machine: once for all methods and machines.

use bsr_codegen::solver::{HISTORY, Header, Method, SolverKernel, SolverModule, Status, Step, Sum, Vector};

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
    fn launch(&mut self, step: Step) -> Result<(), SolveError>;
    /// Runs so many cycles.
    fn cycles(&mut self, count: usize) -> Result<(), SolveError>;
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
    /// Reads x.
    fn x(&mut self) -> Result<Vec<f64>, SolveError>;
}

/// One cycle.
pub(super) fn cycle(engine: &mut impl Engine) -> Result<(), SolveError> {
    let method = engine.module().method();
    method.cycle().into_iter().try_for_each(|one| step(engine, method, one))
}

fn step(engine: &mut impl Engine, method: Method, step: Step) -> Result<(), SolveError> {
    if let Some((from, to)) = method.product_before(step.kernel) {
        engine.product(from, to)?;
    }
    engine.launch(step)
}

/// Solves A x = b.
///
/// # Errors
/// Options that no solve takes, a b that is not finite, a breakdown, and what the engine answers.
pub(super) fn solve(engine: &mut impl Engine, options: &mut Options<'_>) -> Result<Outcome, SolveError> {
    let (method, limit) = (engine.module().method(), options.limit(engine.rows())?);
    let header = |tolerance| method.state(Header { limit: limit as u32, tolerance });
    engine.set_state(&header(0.0))?;
    engine.launch(Step { kernel: SolverKernel::Norm, column: 0 })?;
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
    let [start, check] = method.start().map(|kernel| Step { kernel, column: 0 });
    step(engine, method, start)?;
    engine.launch(check)?;
    let of_cycle = method.iterations_of_cycle() as usize;
    let mut told = 0;
    loop {
        let line = method.line(&engine.state()?);
        let iteration = line.iteration as usize;
        let history = engine.history()?;
        let norm = |of: usize| history[of % HISTORY as usize];
        let is_over = matches!(line.status, Status::Converged | Status::Limit);
        // The norm of an iteration is known where the next one has begun, or the last one is done.
        let known = iteration + usize::from(is_over);
        let new = told.max(1)..known;
        new.clone().for_each(|of| options.tell(norm(of)));
        told = told.max(known);
        if let (Some(watch), false) = (&mut options.watch, new.is_empty()) {
            watch(&engine.x()?);
        }
        match line.status {
            Status::Running => {
                let chunk = if options.watch.is_some() { 1 } else { options.chunk };
                engine.cycles((chunk.min(limit.saturating_sub(iteration - 1)) / of_cycle).max(1))?;
            }
            Status::Converged | Status::Limit => {
                let converged = line.status == Status::Converged;
                return Ok(Outcome { iterations: iteration, residual: norm(iteration), converged });
            }
            status => return Err(Breakdown::new(status, iteration).into()),
        }
    }
}
