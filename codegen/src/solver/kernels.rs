//! Methods, their kernels, and what a launch of each is given.

use super::operands::Vector;

/// A method whose iterations are a cycle of kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// Conjugate gradients (Hestenes and Stiefel 1952), for symmetric positive definite matrices.
    Cg,
    /// BiCGStab (van der Vorst 1992), for any matrices.
    Bicgstab,
    /// Restarted GMRES (Saad and Schultz 1986), for any matrices, preconditioned from the right. It keeps a basis of
    /// `restart` + 1 vectors of the matrix's rows.
    Gmres {
        /// Iterations of a cycle, 1 to [`Method::MOST_RESTART`].
        restart: u32,
    },
}

/// A launch of a kernel in a cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Step {
    /// The kernel.
    pub kernel: SolverKernel,
    /// GMRES: the last column of the basis that it works on, from 0. Otherwise 0.
    pub column: u32,
}

/// A kernel of a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SolverKernel {
    /// Begins r . r.
    Norm,
    /// r -= q, and what it is preconditioned to; begins r . z and r . r.
    CgStart,
    /// Begins p . q, where q is A p.
    CgCurvature,
    /// x += alpha p, r -= alpha q, z = M r; begins r . z and r . r.
    CgStep,
    /// Checks the residual; p = z + beta p.
    CgDirection,
    /// r -= y, which is the shadow residual also; begins their dot products.
    BicgStart,
    /// Checks the residual; p = r + beta (p - omega v), u = M p.
    BicgDirection,
    /// Begins shadow . v, where v is A u.
    BicgShadow,
    /// r -= alpha v, w = M r; begins r . r.
    BicgHalf,
    /// Begins y . r and y . y, where y is A w.
    BicgMinimum,
    /// x += alpha u + omega w, r -= omega y; begins shadow . r and r . r.
    BicgStep,
    /// The first column of the basis is b - y, where y is A x, and d is M times it; begins its square.
    GmresResidual,
    /// Checks the residual; begins a cycle.
    GmresCheck,
    /// Begins the products of y = A d with the columns of the basis.
    GmresProject,
    /// Finishes these products: a column of the Hessenberg matrix.
    GmresColumn,
    /// Subtracts the projection from y, and begins the products of what is left with the columns.
    GmresOrthogonalize,
    /// Finishes these products, and adds them to the column of the Hessenberg matrix.
    GmresCorrect,
    /// Subtracts this projection also: the next column of the basis, and d is M times it; begins its square.
    GmresExtend,
    /// Turns the column of the Hessenberg matrix by Givens rotations; checks the norm of the residual that follows.
    GmresRotate,
    /// Solves the triangular system: the coefficients of the columns.
    GmresSolve,
    /// x += M times the combination of the columns.
    GmresUpdate,
}

impl Method {
    /// Iterations of a cycle of GMRES unless it is said, as in scipy.
    pub const RESTART: u32 = 20;
    /// Most of them: a CTA has a thread for each.
    pub const MOST_RESTART: u32 = SolverKernel::THREADS;
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Cg, Self::Bicgstab, Self::Gmres { restart: Self::RESTART }];

    /// The kernels of an iteration, in order.
    pub fn iteration(self) -> &'static [SolverKernel] {
        use SolverKernel::{
            BicgDirection, BicgHalf, BicgMinimum, BicgShadow, BicgStep, CgCurvature, CgDirection, CgStep, GmresColumn,
            GmresCorrect, GmresExtend, GmresOrthogonalize, GmresProject, GmresRotate,
        };
        match self {
            Self::Cg => &[CgCurvature, CgStep, CgDirection],
            Self::Bicgstab => &[BicgShadow, BicgHalf, BicgMinimum, BicgStep, BicgDirection],
            Self::Gmres { .. } => {
                &[GmresProject, GmresColumn, GmresOrthogonalize, GmresCorrect, GmresExtend, GmresRotate]
            }
        }
    }

    /// Iterations of a cycle.
    pub fn iterations_of_cycle(self) -> u32 {
        match self {
            Self::Cg | Self::Bicgstab => 1,
            Self::Gmres { restart } => restart,
        }
    }

    /// The launches of a cycle, in order.
    pub fn cycle(self) -> Vec<Step> {
        let columns = 0..self.iterations_of_cycle();
        let iterations = columns.flat_map(|column| self.iteration().iter().map(move |kernel| (*kernel, column)));
        let last = match self {
            Self::Cg | Self::Bicgstab => &[][..],
            Self::Gmres { .. } => &[
                SolverKernel::GmresSolve,
                SolverKernel::GmresUpdate,
                SolverKernel::GmresResidual,
                SolverKernel::GmresCheck,
            ],
        };
        let last = last.iter().map(|kernel| (*kernel, self.iterations_of_cycle() - 1));
        iterations.chain(last).map(|(kernel, column)| Step { kernel, column }).collect()
    }

    /// The kernels that make and check the first residual.
    pub fn start(self) -> [SolverKernel; 2] {
        match self {
            Self::Cg => [SolverKernel::CgStart, SolverKernel::CgDirection],
            Self::Bicgstab => [SolverKernel::BicgStart, SolverKernel::BicgDirection],
            Self::Gmres { .. } => [SolverKernel::GmresResidual, SolverKernel::GmresCheck],
        }
    }

    /// Every kernel of its module.
    pub fn kernels(self) -> Vec<SolverKernel> {
        let mut kernels = vec![SolverKernel::Norm];
        let [start, check] = self.start();
        let cycle = self.cycle().into_iter().map(|step| step.kernel);
        for kernel in [start].into_iter().chain(cycle).chain([check]) {
            if !kernels.contains(&kernel) {
                kernels.push(kernel);
            }
        }
        kernels
    }

    /// The vectors that a product with A reads and writes ahead of a kernel of the cycle, or of the start.
    pub fn product_before(self, kernel: SolverKernel) -> Option<(Vector, Vector)> {
        match kernel {
            SolverKernel::CgStart => Some((Vector::X, Vector::Q)),
            SolverKernel::BicgStart | SolverKernel::GmresResidual => Some((Vector::X, Vector::Y)),
            SolverKernel::CgCurvature => Some((Vector::P, Vector::Q)),
            SolverKernel::BicgShadow => Some((Vector::U, Vector::V)),
            SolverKernel::BicgMinimum => Some((Vector::W, Vector::Y)),
            SolverKernel::GmresProject => Some((Vector::D, Vector::Y)),
            _ => None,
        }
    }

    /// The vectors that must be zero before the start.
    pub fn zero(self) -> &'static [Vector] {
        match self {
            Self::Cg => &[Vector::P],
            Self::Bicgstab => &[Vector::P, Vector::V],
            Self::Gmres { .. } => &[],
        }
    }

    /// The scalars that a line passes on.
    pub(super) fn scalars(self) -> &'static [&'static str] {
        match self {
            Self::Cg => &["rho"],
            Self::Bicgstab => &["rho", "alpha", "omega"],
            Self::Gmres { .. } => &[],
        }
    }

    /// Lines of its state. GMRES has the last one, which single CTAs read and write, and one that no kernel reads.
    pub(super) fn lines(self) -> usize {
        match self {
            Self::Cg | Self::Bicgstab => self.iteration().len(),
            Self::Gmres { .. } => 2,
        }
    }

    /// The line that a kernel on whole vectors writes, from 0. The first residual is made by a kernel that stands for the one
    /// before the last of a cycle.
    pub(super) fn place(self, kernel: SolverKernel) -> usize {
        let found = self.iteration().iter().position(|one| *one == kernel);
        found.unwrap_or(if kernel == SolverKernel::Norm { 0 } else { self.lines() - 2 })
    }

    /// CTAs of an SM that a kernel leaves registers for: with fewer, the rows that GMRES reads twice stay in L2.
    pub(super) fn resident(self) -> u32 {
        match self {
            Self::Cg | Self::Bicgstab => 4,
            Self::Gmres { .. } => 2,
        }
    }

    /// Most CTAs of a launch, for all problems: as many as the 132 SMs of an H100 take at once. The order of sums depends on it.
    pub(super) fn most_ctas(self) -> u32 {
        132 * self.resident()
    }
}

impl SolverKernel {
    /// Threads of a CTA.
    pub const THREADS: u32 = 256;

    /// Its name in its module.
    pub fn entry(self) -> &'static str {
        match self {
            Self::Norm => "bsr_solver_norm",
            Self::CgStart => "bsr_cg_start",
            Self::CgCurvature => "bsr_cg_curvature",
            Self::CgStep => "bsr_cg_step",
            Self::CgDirection => "bsr_cg_direction",
            Self::BicgStart => "bsr_bicgstab_start",
            Self::BicgDirection => "bsr_bicgstab_direction",
            Self::BicgShadow => "bsr_bicgstab_shadow",
            Self::BicgHalf => "bsr_bicgstab_half",
            Self::BicgMinimum => "bsr_bicgstab_minimum",
            Self::BicgStep => "bsr_bicgstab_step",
            Self::GmresResidual => "bsr_gmres_residual",
            Self::GmresCheck => "bsr_gmres_check",
            Self::GmresProject => "bsr_gmres_project",
            Self::GmresColumn => "bsr_gmres_column",
            Self::GmresOrthogonalize => "bsr_gmres_orthogonalize",
            Self::GmresCorrect => "bsr_gmres_correct",
            Self::GmresExtend => "bsr_gmres_extend",
            Self::GmresRotate => "bsr_gmres_rotate",
            Self::GmresSolve => "bsr_gmres_solve",
            Self::GmresUpdate => "bsr_gmres_update",
        }
    }
}
