//! Methods, their kernels, and what a launch of each is given.

use super::steps::{Body, Store};

/// A method whose iterations are a cycle of kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// Conjugate gradients (Hestenes and Stiefel 1952), for symmetric positive definite matrices.
    Cg,
    /// BiCGStab (van der Vorst 1992), for any matrices.
    Bicgstab,
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
}

/// A vector of a solve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Vector {
    /// The solution.
    X,
    /// The residual.
    R,
    /// M r.
    Z,
    /// The direction.
    P,
    /// A p.
    Q,
    /// The first residual.
    Shadow,
    /// M p.
    U,
    /// A u.
    V,
    /// M r at half an iteration.
    W,
    /// A w.
    Y,
}

/// A dot product, which is partial sums in memory, one of each CTA, between the kernel that begins it and the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Sum {
    /// p . q.
    Pq,
    /// r . z.
    Rz,
    /// r . r.
    Rr,
    /// shadow . r.
    Rho,
    /// shadow . v.
    Sv,
    /// r . r at half an iteration.
    Half,
    /// y . r.
    Yr,
    /// y . y.
    Yy,
}

/// An address that a kernel is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Pointer {
    /// [`Method::state`].
    State,
    /// Norms of residuals: [`HISTORY`](super::HISTORY) elements of f64, that of iteration i at i modulo their number.
    History,
    /// A vector of the matrix's rows.
    Vector(Vector),
    /// Partial sums in f64, one for each CTA.
    Sum(Sum),
    /// The inverses of the diagonal blocks, row-major, one after the other: as many rows as the matrix has in its blocks.
    Inverse,
}

impl Method {
    /// Both of them.
    pub const ALL: [Self; 2] = [Self::Cg, Self::Bicgstab];

    /// The kernels of an iteration, in order.
    pub fn iteration(self) -> &'static [SolverKernel] {
        use SolverKernel::{
            BicgDirection, BicgHalf, BicgMinimum, BicgShadow, BicgStep, CgCurvature, CgDirection, CgStep,
        };
        match self {
            Self::Cg => &[CgCurvature, CgStep, CgDirection],
            Self::Bicgstab => &[BicgShadow, BicgHalf, BicgMinimum, BicgStep, BicgDirection],
        }
    }

    /// The kernel that makes the first residual. It stands for the one before the last of a cycle, which then runs.
    pub fn start(self) -> SolverKernel {
        match self {
            Self::Cg => SolverKernel::CgStart,
            Self::Bicgstab => SolverKernel::BicgStart,
        }
    }

    /// Every kernel of its module.
    pub fn kernels(self) -> impl Iterator<Item = SolverKernel> {
        [SolverKernel::Norm, self.start()].into_iter().chain(self.iteration().iter().copied())
    }

    /// The vectors that a product with A reads and writes ahead of a kernel of the cycle, or of the start.
    pub fn product_before(self, kernel: SolverKernel) -> Option<(Vector, Vector)> {
        match kernel {
            SolverKernel::CgStart => Some((Vector::X, Vector::Q)),
            SolverKernel::BicgStart => Some((Vector::X, Vector::Y)),
            SolverKernel::CgCurvature => Some((Vector::P, Vector::Q)),
            SolverKernel::BicgShadow => Some((Vector::U, Vector::V)),
            SolverKernel::BicgMinimum => Some((Vector::W, Vector::Y)),
            _ => None,
        }
    }

    /// The vectors that must be zero before the start.
    pub fn zero(self) -> &'static [Vector] {
        match self {
            Self::Cg => &[Vector::P],
            Self::Bicgstab => &[Vector::P, Vector::V],
        }
    }

    /// The scalars that a line passes on.
    pub(super) fn scalars(self) -> &'static [&'static str] {
        match self {
            Self::Cg => &["rho"],
            Self::Bicgstab => &["rho", "alpha", "omega"],
        }
    }

    /// The line that a kernel writes, from 0.
    pub(super) fn place(self, kernel: SolverKernel) -> usize {
        let last = self.iteration().len() - 1;
        let found = self.iteration().iter().position(|one| *one == kernel);
        found.unwrap_or(if kernel == SolverKernel::Norm { 0 } else { last - 1 })
    }
}

impl SolverKernel {
    /// Threads of a CTA.
    pub const THREADS: u32 = 256;
    /// CTAs of an SM that a kernel leaves registers for.
    pub const RESIDENT: u32 = 4;
    /// Most CTAs of a launch, for all problems: four on each of the 132 SMs of an H100. The order of sums depends on it.
    pub const MOST_CTAS: u32 = Self::RESIDENT * 132;

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
        }
    }

    /// The addresses that it is given, which are its first parameters; the number of rows follows.
    pub fn pointers(self, is_preconditioned: bool) -> Vec<Pointer> {
        let body = Body::of(self);
        let mut pointers = vec![Pointer::State];
        pointers.extend(body.checks.then_some(Pointer::History));
        pointers.extend(body.totals.iter().map(|sum| Pointer::Sum(*sum)));
        pointers.extend(body.vectors(is_preconditioned).into_iter().map(Pointer::Vector));
        pointers.extend((is_preconditioned && body.preconditions.is_some()).then_some(Pointer::Inverse));
        pointers.extend(body.dots.iter().map(|dot| Pointer::Sum(dot.sum)));
        pointers
    }

    /// Bytes of a vector's elements that a launch on so many rows of `bytes` each reads and writes at least, those of the
    /// inverses of blocks of `block` rows included.
    pub fn bytes_moved(self, rows: u64, bytes: u64, block: Option<u64>) -> u64 {
        let body = Body::of(self);
        let inverse = body.preconditions.and(block).unwrap_or(0);
        let stores = body.stores(block.is_some()).count() as u64;
        rows * bytes * (body.loads.len() as u64 + stores + inverse)
    }
}

impl Vector {
    /// The vector that this one is where there is no preconditioner.
    pub fn without_preconditioner(self) -> Self {
        match self {
            Self::Z | Self::W => Self::R,
            Self::U => Self::P,
            other => other,
        }
    }

    /// Its name in a kernel.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::X => "x",
            Self::R => "r",
            Self::Z => "z",
            Self::P => "p",
            Self::Q => "q",
            Self::Shadow => "shadow",
            Self::U => "u",
            Self::V => "v",
            Self::W => "w",
            Self::Y => "y",
        }
    }
}

impl Sum {
    /// Its name in a kernel.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Pq => "pq",
            Self::Rz => "rz",
            Self::Rr => "rr",
            Self::Rho => "shadow_r",
            Self::Sv => "shadow_v",
            Self::Half => "half",
            Self::Yr => "yr",
            Self::Yy => "yy",
        }
    }
}

impl Pointer {
    /// Its name as a parameter.
    pub(super) fn name(self) -> String {
        match self {
            Self::State => "state".to_owned(),
            Self::History => "history".to_owned(),
            Self::Vector(vector) => format!("vector_{}", vector.name()),
            Self::Sum(sum) => format!("sum_{}", sum.name()),
            Self::Inverse => "inverse".to_owned(),
        }
    }
}

impl Body {
    /// The vectors whose addresses are given.
    pub(super) fn vectors(&self, is_preconditioned: bool) -> Vec<Vector> {
        let stored = self.stores(is_preconditioned).map(|store| store.to);
        let mut vectors = self.loads.to_vec();
        vectors.extend(stored.filter(|vector| !self.loads.contains(vector)));
        vectors
    }

    /// What it writes: nothing that is a copy where there is no preconditioner.
    pub(super) fn stores(&self, is_preconditioned: bool) -> impl Iterator<Item = &Store> {
        let copy = self.preconditions.filter(|_| !is_preconditioned).map(|(_, to)| to);
        self.stores.iter().filter(move |store| Some(store.to) != copy)
    }
}
