//! The trilinear functions of a unit cube, and integrals over it.

use super::mesh::corner;

/// One of the eight functions at a point: its value and its gradient.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    pub(super) value: f64,
    pub(super) gradient: [f64; 3],
}

/// Gauss points of an interval of length 1; each has half the weight, and cubic functions are integrated exactly.
pub(super) fn gauss() -> [f64; 2] {
    let half = 0.5 / 3f64.sqrt();
    [0.5 - half, 0.5 + half]
}

/// The eight functions at each of the 2 x 2 x 2 Gauss points, whose weights are 1/8.
pub(super) fn at_gauss_points() -> [[Shape; 8]; 8] {
    let points = gauss();
    std::array::from_fn(|point| {
        let at = corner(point).map(|side| points[side]);
        std::array::from_fn(|c| {
            let side = corner(c);
            let value = |axis: usize| if side[axis] == 1 { at[axis] } else { 1.0 - at[axis] };
            let slope = |axis: usize| if side[axis] == 1 { 1.0 } else { -1.0 };
            let gradient = std::array::from_fn(|axis| {
                (0..3).map(|other| if other == axis { slope(other) } else { value(other) }).product()
            });
            Shape { value: value(0) * value(1) * value(2), gradient }
        })
    })
}
