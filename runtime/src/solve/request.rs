//! What a solve is asked for, and whether it is possible.

use std::fmt;

use bsr_codegen::solver::{HISTORY, Method, SolverModule};
use bsr_codegen::{IndexWidth, KernelSpec, Plan, Refusal};

use super::error::SolveError;
use crate::schedule::threads_of_row;
use crate::{Element, Structure};

/// Most rows and columns of a block.
const MOST_SIDE: usize = SolverModule::MOST_ROWS as usize;

/// What a residual is multiplied with before it becomes a direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Preconditioner {
    /// Nothing.
    None,
    /// The inverses of the diagonal blocks, which must be square.
    #[default]
    BlockJacobi,
}

/// Shown x.
type Watch<'c> = &'c mut dyn FnMut(&[f64]);

/// When a solve ends, and who hears of it. A solve has converged when |b - A x| <= max(rtol |b|, atol), with the residual that
/// the method updates.
pub struct Options<'c> {
    /// Relative tolerance, 1e-5 unless it is said.
    pub rtol: f64,
    /// Absolute tolerance, 0 unless it is said.
    pub atol: f64,
    /// Most iterations; ten times the number of rows unless it is said.
    pub max_iterations: Option<usize>,
    /// Iterations between two looks of the host at the state, 1 to 1000; 32 unless it is said. At least a cycle of GMRES.
    pub chunk: usize,
    /// Told the norm of the residual after each iteration, some iterations at a time.
    pub callback: Option<&'c mut dyn FnMut(f64)>,
    /// Shown x after each iteration, after each cycle of GMRES, in f64. Then the host looks as often, and copies x.
    pub watch: Option<Watch<'c>>,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Self { rtol: 1e-5, atol: 0.0, max_iterations: None, chunk: 32, callback: None, watch: None }
    }
}

impl fmt::Debug for Options<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rtol, atol, max_iterations, chunk, callback: _, watch: _ } = self;
        write!(f, "Options {{ rtol: {rtol}, atol: {atol}, max_iterations: {max_iterations:?}, chunk: {chunk} }}")
    }
}

/// What a solve has found.
#[derive(Clone, Debug, PartialEq)]
pub struct Solution<T> {
    /// The solution, or where the last iteration left it.
    pub x: Vec<T>,
    /// Iterations.
    pub iterations: usize,
    /// The norm of the residual that the method updates.
    pub residual: f64,
    /// Whether that is small enough; otherwise there were not enough iterations.
    pub converged: bool,
}

/// How a solve has ended; x is where its engine has it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Outcome {
    pub(super) iterations: usize,
    pub(super) residual: f64,
    pub(super) converged: bool,
}

impl Outcome {
    pub(super) fn with<T>(self, x: Vec<T>) -> Solution<T> {
        let Self { iterations, residual, converged } = self;
        Solution { x, iterations, residual, converged }
    }
}

/// What the kernels of a solve are: the plan of the products, and the module of the vector kernels.
///
/// # Errors
/// A matrix that is not square or has larger blocks, vectors of another type than f64 and f32, and values wider than that.
pub(super) fn kernels<V: Element, T: Element>(
    structure: &Structure,
    method: Method,
    preconditioner: Preconditioner,
) -> Result<(Plan, SolverModule), SolveError> {
    let (rows, cols, (bm, bk)) = (structure.rows(), structure.cols(), structure.block());
    if rows != cols {
        return Err(Refusal::new(format!(
            "a system to solve must have as many rows as columns, and A is {rows} x {cols}"
        ))
        .help("a square matrix")
        .into());
    }
    if bm > MOST_SIDE || bk > MOST_SIDE {
        return Err(Refusal::new(format!("solvers take blocks of up to 8 x 8, and A has blocks of {bm} x {bk}"))
            .help("divide the blocks: as smaller ones the matrix has the same values")
            .into());
    }
    let block = match preconditioner {
        Preconditioner::None => None,
        Preconditioner::BlockJacobi if bm == bk => Some(bm as u32),
        Preconditioner::BlockJacobi => {
            return Err(Refusal::new(format!(
                "block Jacobi inverts square diagonal blocks, and A has blocks of {bm} x {bk}"
            ))
            .help("square blocks, or no preconditioner")
            .into());
        }
    };
    let method = match method {
        Method::Gmres { restart } if !(1..=Method::MOST_RESTART).contains(&restart) => {
            let fact =
                format!("restart = {restart}, and a cycle of GMRES has 1 to {} iterations", Method::MOST_RESTART);
            return Err(Refusal::new(fact).help(format!("restart = {}", Method::RESTART)).into());
        }
        // No basis has more columns than rows.
        Method::Gmres { restart } => Method::Gmres { restart: restart.min(rows.max(1) as u32) },
        other => other,
    };
    let module = SolverModule::new(method, T::DTYPE, block).ok_or_else(|| {
        Refusal::new(format!("vectors of solvers are of f64 or f32, and b is of {}", T::DTYPE))
            .help("cast b to f32; A may have values in f32, f16 or bf16 then")
    })?;
    if V::DTYPE.bytes() > T::DTYPE.bytes() {
        return Err(Refusal::new(format!("A has values of {}, and b is of {}, which is narrower", V::DTYPE, T::DTYPE))
            .help(format!("cast b to {}, or A to {}", V::DTYPE, T::DTYPE))
            .into());
    }
    let types = if V::DTYPE == T::DTYPE {
        format!("dtype = {}", T::DTYPE)
    } else {
        format!("a = {}, b = {}", V::DTYPE, T::DTYPE)
    };
    let row_bytes = bk as u32 * V::DTYPE.bytes();
    let lanes = threads_of_row(bm as u32, row_bytes, structure.nnzb() as f64 / structure.block_rows().max(1) as f64);
    let text = format!("bm = {bm}, bn = 1, bk = {bk}, mma = scalar, {types}, b_layout = col, c_layout = col");
    let spec: KernelSpec = text.parse().map_err(|error| Refusal::of(&text, error))?;
    let spec = spec.counting(structure.nnzb() as u64);
    // Blocks of several rows are counted together in 32 bits.
    let spec = if spec.row_ptr == IndexWidth::I32 || lanes > 1 { spec.lanes(lanes) } else { spec };
    let plan = Plan::new(&spec).map_err(|error| Refusal::of(&text, error))?;
    Ok((plan, module))
}

impl Options<'_> {
    /// Most iterations of a solve with so many rows.
    ///
    /// # Errors
    /// Options that no solve takes.
    pub(super) fn limit(&self, rows: usize) -> Result<usize, Refusal> {
        for (name, value) in [("rtol", self.rtol), ("atol", self.atol)] {
            if !(value >= 0.0 && value.is_finite()) {
                return Err(
                    Refusal::new(format!("{name} = {value} is no tolerance")).help(format!("{name} >= 0, and finite"))
                );
            }
        }
        let most = HISTORY as usize - 24;
        if !(1..=most).contains(&self.chunk) {
            let fact = format!("chunk = {}, and the host looks at the state after 1 to {most} iterations", self.chunk);
            return Err(Refusal::new(fact).help("chunk = 32"));
        }
        let most = u32::MAX as usize - HISTORY as usize;
        Ok(self.max_iterations.unwrap_or(rows.saturating_mul(10)).min(most))
    }

    /// The norm of the residual at which a solve with this norm of b ends.
    ///
    /// # Errors
    /// A b that is not finite.
    pub(super) fn tolerance(&self, norm: f64) -> Result<f64, Refusal> {
        match norm.is_finite() {
            true => Ok((self.rtol * norm).max(self.atol)),
            false => Err(Refusal::new("b is not finite")
                .why(format!("its norm, the root of a sum of squares in f64, is {norm}"))
                .help("a b without infinities and NaN, of values up to 1e150")),
        }
    }

    /// Tells the norm of a residual.
    pub(super) fn tell(&mut self, norm: f64) {
        if let Some(callback) = &mut self.callback {
            callback(norm);
        }
    }
}

/// Whether vectors have as many elements as the matrix has rows.
///
/// # Errors
/// The one that has not.
pub(super) fn check_lengths(rows: usize, b: usize, x0: Option<usize>) -> Result<(), Refusal> {
    for (name, len) in [("b", Some(b)), ("x0", x0)] {
        if let Some(len) = len.filter(|len| *len != rows) {
            return Err(Refusal::new(format!("{name} has {len} elements, and A has {rows} rows"))
                .help(format!("{name} of {rows} elements")));
        }
    }
    Ok(())
}
