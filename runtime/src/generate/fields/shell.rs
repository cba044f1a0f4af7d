//! A cylindrical shell of flat facets.

use bsr_codegen::Refusal;

use super::hexahedron::gauss;
use super::mesh::{Block, Element, assemble_elements};
use crate::Bsr;

const RADIUS: f64 = 25.0;
const LENGTH: f64 = 50.0;
const THICKNESS: f64 = 0.25;
const POISSON: f64 = 0.3;
/// The angle of the arc, 80 degrees.
const ANGLE: f64 = 80.0 * std::f64::consts::PI / 180.0;
/// What a constant shear through the thickness counts for (Reissner).
const SHEAR_FACTOR: f64 = 5.0 / 6.0;

/// The stiffness of a shell whose end at x = 0 is clamped.
pub(super) fn clamped(facets: [usize; 2]) -> Result<Bsr<f64>, Refusal> {
    assemble(facets, 1)
}

/// The same of a shell that is held nowhere.
#[cfg(test)]
pub(super) fn free(facets: [usize; 2]) -> Result<Bsr<f64>, Refusal> {
    assemble(facets, 0)
}

fn assemble([along, around]: [usize; 2], first: usize) -> Result<Bsr<f64>, Refusal> {
    let [length, width] = sides([along, around]);
    let flat = stiffness(length, width);
    let elements: Vec<Element<6, 4>> = (0..around)
        .map(|facet| {
            let middle = tilt(around, facet as f64 + 0.5);
            flat.map(|row| row.map(|block| turned(&block, middle)))
        })
        .collect();
    assemble_elements([along, around, 1], first, |[_, facet, _]| &elements[facet])
}

/// Length and width of a facet.
pub(super) fn sides([along, around]: [usize; 2]) -> [f64; 2] {
    [LENGTH / along as f64, 2.0 * RADIUS * libm::sin(ANGLE / around as f64 / 2.0)]
}

/// The angle of a point of the arc from its middle; nodes are at whole numbers.
fn tilt(around: usize, at: f64) -> f64 {
    ANGLE * (at / around as f64 - 0.5)
}

/// Where a node is: x along the axis, z up.
#[cfg(test)]
pub(super) fn position([along, around]: [usize; 2], x: usize, y: usize) -> [f64; 3] {
    let angle = tilt(around, y as f64);
    [LENGTH * x as f64 / along as f64, RADIUS * libm::sin(angle), RADIUS * libm::cos(angle)]
}

/// A block of a facet whose second axis is tilted by `angle` from y towards -z, in the axes of all.
fn turned(block: &Block<6>, angle: f64) -> Block<6> {
    let (sin, cos) = (libm::sin(angle), libm::cos(angle));
    // Columns are the axes of the facet: along, around, outward.
    let axes = [[1.0, 0.0, 0.0], [0.0, cos, sin], [0.0, -sin, cos]];
    std::array::from_fn(|i| {
        std::array::from_fn(|j| {
            let (row, column) = (i / 3 * 3, j / 3 * 3);
            let terms = (0..9).map(|at| (at / 3, at % 3));
            terms.map(|(k, l)| axes[i % 3][k] * block[row + k][column + l] * axes[j % 3][l]).sum()
        })
    })
}

/// The strains of a facet: 3 of the membrane, 3 curvatures, 2 of shear, and the rotation about the normal less that of the
/// membrane. Each is a row of factors for 4 nodes with 6 unknowns.
type Strains = [[f64; 24]; 9];

/// The stiffness of a rectangle in its own axes, with Young's modulus 1.
fn stiffness(length: f64, width: f64) -> Element<6, 4> {
    let (plane, shear) = (THICKNESS / (1.0 - POISSON * POISSON), 0.5 * THICKNESS / (1.0 + POISSON));
    let bending = THICKNESS * THICKNESS / 12.0;
    let mut element = [[[[0.0; 6]; 6]; 4]; 4];
    for point in 0..4 {
        let strains = strains([gauss()[point & 1], gauss()[point >> 1]], length, width);
        let mut stresses = [[0.0; 24]; 9];
        for at in 0..24 {
            for (first, factor) in [(0, 1.0), (3, bending)] {
                let [x, y, xy] = [0, 1, 2].map(|k| strains[first + k][at] * factor);
                stresses[first][at] = plane * (x + POISSON * y);
                stresses[first + 1][at] = plane * (y + POISSON * x);
                stresses[first + 2][at] = shear * xy;
            }
            for (row, factor) in [(6, SHEAR_FACTOR), (7, SHEAR_FACTOR), (8, 1.0)] {
                stresses[row][at] = shear * factor * strains[row][at];
            }
        }
        for (i, j) in (0..24 * 24).map(|at| (at / 24, at % 24)) {
            let work: f64 = (0..9).map(|row| strains[row][i] * stresses[row][j]).sum();
            element[i / 6][j / 6][i % 6][j % 6] += work * length * width / 4.0;
        }
    }
    element
}

/// The strains at a point of a rectangle; its sides are 0 to 1 in `at`.
fn strains(at: [f64; 2], length: f64, width: f64) -> Strains {
    let [x, y] = at;
    let mut strains = [[0.0; 24]; 9];
    for node in 0..4 {
        let is_far = [node & 1 == 1, node >> 1 == 1];
        let value = |axis: usize, at: f64| if is_far[axis] { at } else { 1.0 - at };
        let slope = |axis: usize, side: f64| if is_far[axis] { 1.0 / side } else { -1.0 / side };
        let (dx, dy) = (slope(0, length), slope(1, width));
        let [by_x, by_y] = [dx * value(1, y), value(0, x) * dy];
        let shape = value(0, x) * value(1, y);
        let mut set = |row: usize, unknown: usize, factor: f64| strains[row][6 * node + unknown] = factor;
        let [u, v, w, rx, ry, rz] = [0, 1, 2, 3, 4, 5];
        set(0, u, by_x);
        set(1, v, by_y);
        set(2, u, by_y);
        set(2, v, by_x);
        // A point at height z of the normal moves by z ry along x and by -z rx along y.
        set(3, ry, by_x);
        set(4, rx, -by_y);
        set(5, ry, by_y);
        set(5, rx, -by_x);
        // MITC4: the shear along an axis is that of the middle of the two edges along it, linear between them.
        set(6, w, by_x);
        set(6, ry, 0.5 * value(1, y));
        set(7, w, by_y);
        set(7, rx, -0.5 * value(0, x));
        set(8, rz, shape);
        set(8, u, 0.5 * by_y);
        set(8, v, -0.5 * by_x);
    }
    strains
}
