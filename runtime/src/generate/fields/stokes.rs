//! Slow flow, with stabilised elements of equal order.

use bsr_codegen::Refusal;

use super::hexahedron::at_gauss_points;
use super::mesh::{Element, Grid, Place, assemble_elements};
use crate::Bsr;

/// The pressure's place in a block, behind the velocity.
pub(super) const PRESSURE: usize = 3;

/// A channel whose velocity is given on all faces but the far end of x.
pub(super) fn channel(cells: Place) -> Result<Bsr<f64>, Refusal> {
    let element = element();
    let (structure, mut values) = assemble_elements(cells, 0, |_| &element)?.into_parts();
    // Given velocities get the diagonal of those inside.
    let diagonal = 8.0 * element[0][0][0][0];
    for row in 0..structure.block_rows() {
        for block in structure.blocks_of(row) {
            let column = structure.col_idx()[block] as usize;
            let values = &mut values[16 * block..][..16];
            let (is_row, is_column) = (is_given(cells, row), is_given(cells, column));
            for (at, value) in values.iter_mut().enumerate() {
                let (i, j) = (at / 4, at % 4);
                if (is_row && i != PRESSURE) || (is_column && j != PRESSURE) {
                    *value = if row == column && i == j { diagonal } else { 0.0 };
                }
            }
        }
    }
    Bsr::from_structure(structure, values)
}

/// The same, with no velocity given.
#[cfg(test)]
pub(super) fn free(cells: Place) -> Result<Bsr<f64>, Refusal> {
    let element = element();
    assemble_elements(cells, 0, |_| &element)
}

/// Whether the velocity of a node is given: at x = 0 and on the walls.
pub(super) fn is_given(cells: Place, node: usize) -> bool {
    let [x, y, z] = Grid(cells.map(|cells| cells + 1)).place(node);
    x == 0 || y == 0 || y == cells[1] || z == 0 || z == cells[2]
}

/// A unit cube of viscosity 1: grad v : grad u - p div v - q div u - (q - mean q)(p - mean p).
fn element() -> Element<4, 8> {
    let points = at_gauss_points();
    let mean: [f64; 8] = std::array::from_fn(|a| points.iter().map(|shapes| shapes[a].value / 8.0).sum());
    let mut element = [[[[0.0; 4]; 4]; 8]; 8];
    for shapes in &points {
        for (a, row) in element.iter_mut().enumerate() {
            for (b, block) in row.iter_mut().enumerate() {
                let (v, u) = (shapes[a], shapes[b]);
                let dot: f64 = v.gradient.iter().zip(u.gradient).map(|(x, y)| x * y).sum();
                for i in [0, 1, 2] {
                    block[i][i] += dot / 8.0;
                    block[i][PRESSURE] -= v.gradient[i] * u.value / 8.0;
                    block[PRESSURE][i] -= v.value * u.gradient[i] / 8.0;
                }
                block[PRESSURE][PRESSURE] -= (v.value - mean[a]) * (u.value - mean[b]) / 8.0;
            }
        }
    }
    element
}
