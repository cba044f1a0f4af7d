//! Matrices of scientific fields, in their natural blocks: what a discretisation gives, not what is drawn at random.
//!
//! A [`Field`] is a word of the command line, like a [`Pattern`](crate::Pattern): `elasticity:16x16x16`, `shell:64x64`,
//! `graph:1000x8x4`. It holds values too, those of the element or the flux that its variant names, in `f64`. Sizes and a
//! seed give the same matrix on every platform, in time proportional to its blocks.

mod dual;
mod elasticity;
mod euler;
mod graph;
mod hexahedron;
mod mesh;
mod reservoir;
mod shell;
mod stokes;
#[cfg(test)]
mod tests;
mod text;

use bsr_codegen::Refusal;

use crate::bsr::check_offsets;
use crate::{Bsr, memory};

/// A matrix that a scientific field solves with. Sizes are numbers of cells along the axes.
///
/// Unknowns are numbered with the first axis the fastest. There is one block row for each point or cell.
///
/// ```
/// use bsr_runtime::Field;
///
/// let a = "elasticity:4x3x2".parse::<Field>()?.matrix(0)?;
/// assert_eq!((a.block(), a.block_rows()), ((3, 3), 4 * 4 * 3));
/// # Ok::<(), bsr_codegen::Refusal>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// `elasticity:XxYxZ`: the stiffness of an elastic body of unit cubes, symmetric positive definite. 3 x 3 blocks:
    /// the displacement of a node. Trilinear hexahedra, integrated exactly by 2 x 2 x 2 Gauss points, Young's modulus 1,
    /// Poisson's ratio 0.3 (Hughes, The Finite Element Method, 1987, sections 2.7 and 3.5). The face x = 0 is clamped:
    /// its nodes are no unknowns, and block rows are the `X * (Y + 1) * (Z + 1)` other nodes.
    Elasticity([usize; 3]),
    /// `stokes:XxYxZ`: the slow flow of a fluid of viscosity 1 through a channel of unit cubes, symmetric indefinite.
    /// 4 x 4 blocks: velocity and pressure of each of the `(X + 1) * (Y + 1) * (Z + 1)` nodes. Trilinear elements for
    /// both, stabilised by the projection of the pressure to its mean in a cell (Dohrmann and Bochev, Int. J. Numer.
    /// Methods Fluids 46, 2004). The velocity is given at x = 0 and on the walls, and free at the far end of x.
    Stokes([usize; 3]),
    /// `reservoir:XxYxZ`: the Jacobian of an implicit step of one day of a black-oil reservoir, unsymmetric. 3 x 3 blocks:
    /// pressure in bar, saturations of water and of gas, of a cell of 10 m x 10 m x 2 m; rows are the balances of water, oil and
    /// gas in m^3 a day at the surface. Gas dissolves in oil. Fluxes are those of two points, upwinded by phase, with gravity
    /// along z (Aziz and Settari, Petroleum Reservoir Simulation, 1979); the outer faces are closed. Permeabilities
    /// (log-normal, median 100 mD) and the state are drawn.
    Reservoir([usize; 3]),
    /// `euler:XxYxZ`: the Jacobian of a pseudo-time step of compressible flow, unsymmetric. 5 x 5 blocks: density, momentum
    /// and energy in a unit cell. The Euler equations of a gas with a ratio of specific heats of 1.4 in finite volumes with
    /// Rusanov's flux, differentiated with its wave speed (Toro, Riemann Solvers and Numerical Methods for Fluid Dynamics,
    /// 2009, sections 3.2 and 10.5.1), and the time step of CFL number 10. Outside is a flow at Mach 0.5; the state in the
    /// cells is drawn around it.
    Euler([usize; 3]),
    /// `shell:XxY`: the stiffness of a cylindrical shell, symmetric positive definite. 6 x 6 blocks: displacement and rotation
    /// of a node. Flat rectangular facets of a bilinear membrane, a Mindlin plate with the shear of MITC4 (Bathe and Dvorkin,
    /// Int. J. Numer. Methods Eng. 21, 1985) and a stiffness of the drilling rotation (Hughes and Brezzi, Comput. Methods
    /// Appl. Mech. Eng. 72, 1989). X facets along the axis of the cylinder, Y along the arc of the Scordelis-Lo roof: radius
    /// 25, length 50, 80 degrees, thickness 0.25; Young's modulus 1 and Poisson's ratio 0.3. The end at x = 0 is clamped: block
    /// rows are the `X * (Y + 1)` other nodes.
    Shell([usize; 2]),
    /// `graph:NODESxEDGESxBLOCK`: the Laplacian of a graph of features, symmetric positive semidefinite. Blocks are as large as
    /// a node has features. The graph grows by preferential attachment (Barabasi and Albert, Science 286, 1999): each node is
    /// joined to EDGES earlier ones, and the degrees follow a power law. The weight of an edge is the matrix `I + g g^T` with
    /// a drawn g. What is constant over all nodes is the null space.
    Graph {
        /// Nodes.
        nodes: usize,
        /// Edges of a node to earlier ones.
        edges: usize,
        /// Features of a node: rows and columns of a block.
        features: usize,
    },
}

impl Field {
    /// Rows and columns of a block.
    pub fn block(self) -> usize {
        match self {
            Self::Elasticity(_) | Self::Reservoir(_) => 3,
            Self::Stokes(_) => 4,
            Self::Euler(_) => 5,
            Self::Shell(_) => 6,
            Self::Graph { features, .. } => features,
        }
    }

    /// The matrix. Permeabilities, states and graphs are drawn from `seed`; the other fields draw nothing.
    ///
    /// # Errors
    /// When a size is zero, or the matrix cannot be addressed or does not fit memory.
    pub fn matrix(self, seed: u64) -> Result<Bsr<f64>, Refusal> {
        self.check()?;
        match self {
            Self::Elasticity(cells) => elasticity::clamped(cells),
            Self::Stokes(cells) => stokes::channel(cells),
            Self::Reservoir(cells) => reservoir::Reservoir::new(cells, seed).jacobian(),
            Self::Euler(cells) => euler::Flow::new(cells, seed).jacobian(),
            Self::Shell(facets) => shell::clamped(facets),
            Self::Graph { nodes, edges, features } => graph::laplacian(nodes, edges, features, seed),
        }
    }

    /// Refuses what has no cells, cannot be addressed or does not fit memory, before any of it is taken.
    fn check(self) -> Result<(), Refusal> {
        // Block rows along the axes, and blocks of a row at most.
        let (sizes, points, most) = match self {
            Self::Elasticity(cells @ [x, y, z]) => (cells, [x, y.saturating_add(1), z.saturating_add(1)], 27),
            Self::Stokes(cells) => (cells, cells.map(|cells| cells.saturating_add(1)), 27),
            Self::Reservoir(cells) | Self::Euler(cells) => (cells, cells, 7),
            Self::Shell([x, y]) => ([x, y, 1], [x, y.saturating_add(1), 1], 9),
            Self::Graph { nodes, edges, features } => {
                let row = edges.saturating_mul(2).saturating_add(1).min(nodes);
                ([nodes, edges, features], [nodes, 1, 1], row)
            }
        };
        if sizes.contains(&0) {
            return Err(Refusal::new(format!("{self}: a size is 0")).help("each is at least 1"));
        }
        let block = self.block();
        let rows = points.into_iter().fold(1, usize::saturating_mul);
        let blocks = rows.saturating_mul(most);
        check_offsets(blocks, (block, block)).map_err(|refusal| refusal.help("ask for a smaller one"))?;
        let bytes = (blocks as u64).saturating_mul((block as u64).saturating_mul(block as u64).saturating_mul(8));
        let of_each = |bytes: u64, count: usize| bytes.saturating_mul(count as u64);
        memory::check_memory(&[("values", bytes), ("indices", of_each(12, blocks)), ("rows", of_each(64, rows))])
    }
}
