//! Linear elasticity.

use bsr_codegen::Refusal;

use super::hexahedron::{Shape, at_gauss_points};
use super::mesh::{Block, Element, Place, assemble_elements};
use crate::Bsr;

/// Poisson's ratio.
const POISSON: f64 = 0.3;

/// The stiffness of a body that is clamped at x = 0.
pub(super) fn clamped(cells: Place) -> Result<Bsr<f64>, Refusal> {
    let element = stiffness();
    assemble_elements(cells, 1, |_| &element)
}

/// The same of a body that is held nowhere.
#[cfg(test)]
pub(super) fn free(cells: Place) -> Result<Bsr<f64>, Refusal> {
    let element = stiffness();
    assemble_elements(cells, 0, |_| &element)
}

/// The stiffness of a unit cube with Young's modulus 1.
fn stiffness() -> Element<3, 8> {
    // Lame's constants.
    let lambda = POISSON / ((1.0 + POISSON) * (1.0 - 2.0 * POISSON));
    let mu = 0.5 / (1.0 + POISSON);
    let mut element = [[[[0.0; 3]; 3]; 8]; 8];
    for shapes in at_gauss_points() {
        for (row, a) in element.iter_mut().zip(&shapes) {
            row.iter_mut().zip(&shapes).for_each(|(block, b)| add(block, a, b, lambda, mu));
        }
    }
    element
}

/// Adds a Gauss point: lambda div v div u + 2 mu eps(v) : eps(u).
fn add(block: &mut Block<3>, a: &Shape, b: &Shape, lambda: f64, mu: f64) {
    let (a, b) = (a.gradient, b.gradient);
    let dot: f64 = a.iter().zip(b).map(|(x, y)| x * y).sum();
    for i in 0..3 {
        for j in 0..3 {
            let shear = a[j] * b[i] + if i == j { dot } else { 0.0 };
            block[i][j] += (lambda * a[i] * b[j] + mu * shear) / 8.0;
        }
    }
}
