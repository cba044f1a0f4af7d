//! What a launch of a kernel is given: vectors, sums, addresses, numbers.

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
    /// A w; GMRES: A d.
    Y,
    /// GMRES: the basis of the Krylov space, `restart` + 1 columns one after the other. Only [`Vector::Basis`] has more than one.
    Basis,
    /// GMRES: M times the last column of the basis.
    D,
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
    /// [`Method::state`](super::Method::state).
    State,
    /// Norms of residuals: [`HISTORY`](super::HISTORY) elements of f64, that of iteration i at i modulo their number.
    History,
    /// A vector of the matrix's rows.
    Vector(Vector),
    /// Partial sums in f64, one for each CTA.
    Sum(Sum),
    /// The inverses of the diagonal blocks, row-major, one after the other: as many rows as the matrix has in its blocks.
    Inverse,
    /// GMRES: partial sums in f64 of the products of a vector with the columns of the basis, those of a column together.
    Projections,
    /// GMRES: scales of the columns, coefficients, rotations, and the Hessenberg matrix, in f64.
    Small,
}

/// A number that a kernel is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Number {
    /// Rows of the matrix.
    Rows,
    /// [`Step::column`].
    Column,
    /// CTAs that have left partial sums.
    Ctas,
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
            Self::Basis => "basis",
            Self::D => "d",
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
            Self::Projections => "projections".to_owned(),
            Self::Small => "small".to_owned(),
        }
    }
}

impl Number {
    /// Its name as a parameter.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Rows => "rows",
            Self::Column => "column",
            Self::Ctas => "ctas",
        }
    }
}
