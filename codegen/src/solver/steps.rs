//! What each kernel does, as data.

use super::kernels::SolverKernel;
use super::operands::{Sum, Vector};

/// What a kernel does to the rows of its vectors, and with the sums around that.
pub(super) struct Body {
    pub(super) comment: &'static str,
    /// The dot products of the kernel before that it finishes.
    pub(super) totals: &'static [Sum],
    /// Whether it checks the residual's norm first.
    pub(super) checks: bool,
    /// The template of its arithmetic on scalars.
    pub(super) scalars: Option<&'static str>,
    pub(super) loads: &'static [Vector],
    pub(super) updates: &'static [Update],
    /// The second one is the preconditioner times the first one.
    pub(super) preconditions: Option<(Vector, Vector)>,
    pub(super) stores: &'static [Store],
    pub(super) dots: &'static [Dot],
}

/// to = plus + coefficient * times.
pub(super) struct Update {
    pub(super) to: Vector,
    pub(super) plus: Vector,
    pub(super) coefficient: &'static str,
    pub(super) times: Vector,
}

/// Where a vector's value goes.
pub(super) struct Store {
    pub(super) to: Vector,
    pub(super) from: Vector,
}

pub(super) struct Dot {
    pub(super) sum: Sum,
    pub(super) of: [Vector; 2],
}

const fn update(to: Vector, plus: Vector, coefficient: &'static str, times: Vector) -> Update {
    Update { to, plus, coefficient, times }
}

const fn store(vector: Vector) -> Store {
    Store { to: vector, from: vector }
}

const fn dot(sum: Sum, a: Vector, b: Vector) -> Dot {
    Dot { sum, of: [a, b] }
}

const NONE: Body = Body {
    comment: "",
    totals: &[],
    checks: false,
    scalars: None,
    loads: &[],
    updates: &[],
    preconditions: None,
    stores: &[],
    dots: &[],
};

impl Body {
    /// None of a kernel on the basis of GMRES.
    pub(super) fn of(kernel: SolverKernel) -> Option<Self> {
        use Vector::{Basis, D, P, Q, R, Shadow, U, V, W, X, Y, Z};
        let body = match kernel {
            SolverKernel::Norm => {
                Self { comment: "Begins r . r.", loads: &[R], dots: &[const { dot(Sum::Rr, R, R) }], ..NONE }
            }
            SolverKernel::CgStart => Self {
                comment: "Makes the first residual: r = b - A x, z = M r; begins r . z and r . r.",
                scalars: Some("solver/minus_one.ptx"),
                loads: &[R, Q],
                updates: &[const { update(R, R, "minus_one", Q) }],
                preconditions: Some((R, Z)),
                stores: &[const { store(R) }, const { store(Z) }],
                dots: &[const { dot(Sum::Rz, R, Z) }, const { dot(Sum::Rr, R, R) }],
                ..NONE
            },
            SolverKernel::CgCurvature => {
                Self { comment: "Begins p . A p.", loads: &[P, Q], dots: &[const { dot(Sum::Pq, P, Q) }], ..NONE }
            }
            SolverKernel::CgStep => Self {
                comment: "Takes a step along p: x += alpha p, r -= alpha q, z = M r; begins r . z and r . r.",
                totals: &[Sum::Pq],
                scalars: Some("solver/cg_step.ptx"),
                loads: &[X, P, R, Q],
                updates: &[const { update(X, X, "alpha", P) }, const { update(R, R, "minus_alpha", Q) }],
                preconditions: Some((R, Z)),
                stores: &[const { store(X) }, const { store(R) }, const { store(Z) }],
                dots: &[const { dot(Sum::Rz, R, Z) }, const { dot(Sum::Rr, R, R) }],
                ..NONE
            },
            SolverKernel::CgDirection => Self {
                comment: "Checks the residual; makes the next direction: p = z + beta p.",
                totals: &[Sum::Rz, Sum::Rr],
                checks: true,
                scalars: Some("solver/cg_direction.ptx"),
                loads: &[Z, P],
                updates: &[const { update(P, Z, "beta", P) }],
                stores: &[const { store(P) }],
                ..NONE
            },
            SolverKernel::BicgStart => Self {
                comment: "Makes the first residual, which is the shadow residual also: r = b - A x; begins r . r, twice.",
                scalars: Some("solver/minus_one.ptx"),
                loads: &[R, Y],
                updates: &[const { update(R, R, "minus_one", Y) }],
                stores: &[const { store(R) }, const { Store { to: Shadow, from: R } }],
                dots: &[const { dot(Sum::Rho, R, R) }, const { dot(Sum::Rr, R, R) }],
                ..NONE
            },
            SolverKernel::BicgDirection => Self {
                comment: "Checks the residual; makes the next direction: p = r + beta (p - omega v), u = M p.",
                totals: &[Sum::Rho, Sum::Rr],
                checks: true,
                scalars: Some("solver/bicgstab_direction.ptx"),
                loads: &[R, P, V],
                updates: &[const { update(P, P, "minus_omega", V) }, const { update(P, R, "beta", P) }],
                preconditions: Some((P, U)),
                stores: &[const { store(P) }, const { store(U) }],
                ..NONE
            },
            SolverKernel::BicgShadow => Self {
                comment: "Begins shadow . A u.",
                loads: &[Shadow, V],
                dots: &[const { dot(Sum::Sv, Shadow, V) }],
                ..NONE
            },
            SolverKernel::BicgHalf => Self {
                comment: "Takes half a step: r -= alpha v, w = M r; begins r . r.",
                totals: &[Sum::Sv],
                scalars: Some("solver/bicgstab_half.ptx"),
                loads: &[R, V],
                updates: &[const { update(R, R, "minus_alpha", V) }],
                preconditions: Some((R, W)),
                stores: &[const { store(R) }, const { store(W) }],
                dots: &[const { dot(Sum::Half, R, R) }],
                ..NONE
            },
            SolverKernel::BicgMinimum => Self {
                comment: "Begins y . r and y . y.",
                loads: &[Y, R],
                dots: &[const { dot(Sum::Yr, Y, R) }, const { dot(Sum::Yy, Y, Y) }],
                ..NONE
            },
            SolverKernel::BicgStep => Self {
                comment: "Takes the step: x += alpha u + omega w, r -= omega y; begins shadow . r and r . r.",
                totals: &[Sum::Half, Sum::Yr, Sum::Yy],
                scalars: Some("solver/bicgstab_step.ptx"),
                loads: &[X, U, W, R, Y, Shadow],
                updates: &[
                    const { update(X, X, "alpha", U) },
                    const { update(X, X, "omega", W) },
                    const { update(R, R, "minus_omega", Y) },
                ],
                stores: &[const { store(X) }, const { store(R) }],
                dots: &[const { dot(Sum::Rho, Shadow, R) }, const { dot(Sum::Rr, R, R) }],
                ..NONE
            },
            SolverKernel::GmresResidual => Self {
                comment: "Makes the residual, the first column of the basis: v = b - A x, d = M v; begins v . v.",
                scalars: Some("solver/minus_one.ptx"),
                loads: &[R, Y],
                updates: &[const { update(Basis, R, "minus_one", Y) }],
                preconditions: Some((Basis, D)),
                stores: &[const { store(Basis) }, const { store(D) }],
                dots: &[const { dot(Sum::Rr, Basis, Basis) }],
                ..NONE
            },
            _ => return None,
        };
        Some(body)
    }

    /// The vectors whose addresses are given.
    pub(super) fn vectors(&self, is_preconditioned: bool) -> Vec<Vector> {
        let stored = self.stores(is_preconditioned).map(|store| store.to);
        let mut vectors = self.loads.to_vec();
        vectors.extend(stored.filter(|vector| !self.loads.contains(vector)));
        vectors
    }

    /// What it writes: nothing that is a copy where there is no preconditioner.
    pub(super) fn stores(&self, is_preconditioned: bool) -> impl Iterator<Item = &Store> {
        let is_copy = |vector: Vector| vector.without_preconditioner() != vector;
        self.stores.iter().filter(move |store| is_preconditioned || !is_copy(store.to))
    }
}
