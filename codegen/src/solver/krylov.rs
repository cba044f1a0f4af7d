//! What the kernels of GMRES do that work on the basis of the Krylov space, as data.
//!
//! A column of the basis is stored as it is left by orthogonalization, and not divided by its norm, which would be a
//! pass over it: its scale is 1 / norm. Orthogonalization is classical Gram-Schmidt, done twice.

use super::kernels::{Method, SolverKernel};
use super::operands::{Number, Pointer, Sum, Vector};

/// A kernel on the basis, or on the Hessenberg matrix.
pub(super) struct Krylov {
    pub(super) comment: &'static str,
    pub(super) template: &'static str,
    /// Its addresses, but that of the inverses.
    own: &'static [Pointer],
    pub(super) numbers: &'static [Number],
    pub(super) grid: Grid,
    pub(super) preconditions: bool,
    /// Whether it reads the columns up to its own.
    pub(super) reads_basis: bool,
    /// Other vectors that it reads and writes.
    pub(super) vectors: u32,
}

/// CTAs of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Grid {
    /// Those that share the rows.
    Rows,
    /// One for each column of the basis.
    Columns,
    One,
}

const ONE: Krylov = Krylov {
    comment: "",
    template: "",
    own: &[],
    numbers: &[],
    grid: Grid::One,
    preconditions: false,
    reads_basis: false,
    vectors: 0,
};

impl Krylov {
    /// Of a kernel that works on whole vectors only, nothing.
    pub(super) fn of(kernel: SolverKernel) -> Self {
        use Number::{Column, Ctas, Rows};
        use Pointer::{History, Projections, Small, State};
        const SQUARE: Pointer = Pointer::Sum(Sum::Rr);
        const BASIS: Pointer = Pointer::Vector(Vector::Basis);
        const D: Pointer = Pointer::Vector(Vector::D);
        const X: Pointer = Pointer::Vector(Vector::X);
        const Y: Pointer = Pointer::Vector(Vector::Y);
        match kernel {
            SolverKernel::GmresCheck => Self {
                comment: "Checks the residual; begins a cycle.",
                template: "solver/gmres/check.ptx",
                own: &[State, History, Small, SQUARE],
                numbers: &[Ctas],
                ..ONE
            },
            SolverKernel::GmresProject => Self {
                comment: "Begins the products of y = A d with the columns of the basis.",
                template: "solver/gmres/project.ptx",
                own: &[State, BASIS, Y, Projections],
                numbers: &[Rows, Column],
                grid: Grid::Rows,
                reads_basis: true,
                vectors: 1,
                ..ONE
            },
            SolverKernel::GmresColumn => Self {
                comment: "Finishes these products: a column of the Hessenberg matrix.",
                template: "solver/gmres/column.ptx",
                own: &[State, Small, Projections],
                numbers: &[Column, Ctas],
                grid: Grid::Columns,
                ..ONE
            },
            SolverKernel::GmresOrthogonalize => Self {
                comment: "Scales y and subtracts its projection; begins the products of what is left with the columns.",
                template: "solver/gmres/orthogonalize.ptx",
                own: &[State, Small, BASIS, Y, Projections],
                numbers: &[Rows, Column],
                grid: Grid::Rows,
                reads_basis: true,
                vectors: 2,
                ..ONE
            },
            SolverKernel::GmresCorrect => Self {
                comment: "Finishes these products, and adds them to the column of the Hessenberg matrix.",
                template: "solver/gmres/correct.ptx",
                own: &[State, Small, Projections],
                numbers: &[Column, Ctas],
                grid: Grid::Columns,
                ..ONE
            },
            SolverKernel::GmresExtend => Self {
                comment: "Subtracts this projection: the next column v of the basis, d = M v; begins v . v.",
                template: "solver/gmres/extend.ptx",
                own: &[State, Small, BASIS, Y, D, SQUARE],
                numbers: &[Rows, Column],
                grid: Grid::Rows,
                preconditions: true,
                reads_basis: true,
                vectors: 3,
            },
            SolverKernel::GmresRotate => Self {
                comment: "Turns the column of the Hessenberg matrix; checks the norm of the residual that follows from it.",
                template: "solver/gmres/rotate.ptx",
                own: &[State, History, Small, SQUARE],
                numbers: &[Column, Ctas],
                ..ONE
            },
            SolverKernel::GmresSolve => Self {
                comment: "Solves the triangular system: the coefficients of the columns.",
                template: "solver/gmres/solve.ptx",
                own: &[State, Small],
                ..ONE
            },
            SolverKernel::GmresUpdate => Self {
                comment: "x += M times the combination of the columns.",
                template: "solver/gmres/update.ptx",
                own: &[State, Small, BASIS, X],
                numbers: &[Rows],
                grid: Grid::Rows,
                preconditions: true,
                reads_basis: true,
                vectors: 2,
            },
            _ => ONE,
        }
    }

    pub(super) fn pointers(&self, is_preconditioned: bool) -> Vec<Pointer> {
        let inverse = (self.preconditions && is_preconditioned).then_some(Pointer::Inverse);
        self.own.iter().copied().chain(inverse).collect()
    }
}

/// Where [`Pointer::Small`] has what, in bytes.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub(super) struct Small {
    /// 1 / the norm of each column of the basis.
    scale: u32,
    /// What each column is multiplied with in a combination, its scale included.
    coefficient: u32,
    /// The rotations.
    cosine: u32,
    sine: u32,
    /// The right-hand side of the least-squares problem.
    right: u32,
    /// The Hessenberg matrix, made triangular, by columns.
    hessenberg: u32,
    /// From one of its columns to the next.
    pitch: u32,
    /// All of it.
    #[serde(skip)]
    pub(super) bytes: u32,
}

impl Small {
    pub(super) fn new(method: Method) -> Self {
        let restart = method.iterations_of_cycle();
        let pitch = 8 * (restart + 1);
        let at = |place: u32| place * pitch;
        let bytes = at(5 + restart);
        let [scale, coefficient, cosine, sine, right, hessenberg] = [0, 1, 2, 3, 4, 5].map(at);
        Self { scale, coefficient, cosine, sine, right, hessenberg, pitch, bytes }
    }
}
