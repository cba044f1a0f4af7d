//! The state of a solve: a header that the host writes, and a line for each kernel of the cycle.

use serde::Serialize;

use super::kernels::Method;

/// Norms of residuals that are kept on the device, of the last iterations: a power of two.
pub const HISTORY: u32 = 1024;

/// Bytes of the header, and of each line.
pub(super) const LINE_BYTES: u32 = 64;

/// How a solve stands. The number is what kernels write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// The next iteration is wanted.
    Running = 0,
    /// The residual is small enough.
    Converged = 1,
    /// So many iterations were allowed.
    Limit = 2,
    /// A norm or a dot product is not finite.
    NotFinite = 3,
    /// Conjugate gradients: p . A p <= 0, so that A is not positive definite.
    Curvature = 4,
    /// Conjugate gradients: r . M r <= 0; BiCGStab: the residual is orthogonal to the first one.
    Rho = 5,
    /// BiCGStab: A M p is orthogonal to the first residual.
    Shadow = 6,
    /// BiCGStab: the step along the residual is zero, or not determined.
    Omega = 7,
    /// GMRES: the Krylov space has ended, and has no solution: A is singular.
    Singular = 8,
}

impl Status {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Running,
        Self::Converged,
        Self::Limit,
        Self::NotFinite,
        Self::Curvature,
        Self::Rho,
        Self::Shadow,
        Self::Omega,
        Self::Singular,
    ];

    /// By the number that kernels write.
    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|status| *status as u32 == number)
    }
}

/// The statuses by the names that templates have for them.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Numbers {
    converged: u32,
    limit: u32,
    not_finite: u32,
    curvature: u32,
    rho: u32,
    shadow: u32,
    omega: u32,
    singular: u32,
}

impl Numbers {
    pub(super) const ALL: Self = Self {
        converged: Status::Converged as u32,
        limit: Status::Limit as u32,
        not_finite: Status::NotFinite as u32,
        curvature: Status::Curvature as u32,
        rho: Status::Rho as u32,
        shadow: Status::Shadow as u32,
        omega: Status::Omega as u32,
        singular: Status::Singular as u32,
    };
}

/// What the host says to a solve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Header {
    /// Most iterations.
    pub limit: u32,
    /// The norm of the residual at which a solve ends.
    pub tolerance: f64,
}

/// What the host reads of a line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    /// How the solve stands.
    pub status: Status,
    /// The iteration under way, from 1; after the end, the number of iterations or the one that broke down.
    pub iteration: u32,
}

impl Method {
    /// Bytes of the state.
    pub fn state_bytes(self) -> u32 {
        LINE_BYTES * (1 + self.lines() as u32)
    }

    /// The state before the first kernel: all scalars are 1, as the first iteration has none before it.
    pub fn state(self, header: Header) -> Vec<u8> {
        let mut bytes = vec![0; self.state_bytes() as usize];
        bytes[..4].copy_from_slice(&header.limit.to_le_bytes());
        bytes[8..16].copy_from_slice(&header.tolerance.to_le_bytes());
        for line in bytes.chunks_mut(LINE_BYTES as usize).skip(1) {
            for place in line[8..].chunks_mut(8).take(self.scalars().len()) {
                place.copy_from_slice(&1_f64.to_le_bytes());
            }
        }
        bytes
    }

    /// The last line, which is that of the last kernel of a cycle, of a state as it is after a cycle. A status that is none counts as not finite.
    pub fn line(self, state: &[u8]) -> Line {
        let at = state.len().saturating_sub(LINE_BYTES as usize);
        let word = |from: usize| {
            let bytes = state.get(at + from..at + from + 4).and_then(|bytes| bytes.try_into().ok());
            bytes.map_or(u32::MAX, u32::from_le_bytes)
        };
        Line { status: Status::from_number(word(0)).unwrap_or(Status::NotFinite), iteration: word(4) }
    }
}
