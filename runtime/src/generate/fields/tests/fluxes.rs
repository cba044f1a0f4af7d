//! The reservoir and Euler's equations.

use super::{field, norm, times};
use crate::generate::fields::dual::Dual;
use crate::generate::fields::euler::{self, Flow};
use crate::generate::fields::mesh::Grid;
use crate::generate::fields::reservoir::Reservoir;

/// What leaves the cells in an implicit step, and what is stored in them.
fn balances(reservoir: &Reservoir) -> Vec<f64> {
    let grid = reservoir.grid;
    let mut balances = vec![0.0; 3 * grid.len()];
    for cell in 0..grid.len() {
        let stored = reservoir.stored(Dual::variables(reservoir.states[cell], 0));
        (0..3).for_each(|at| balances[3 * cell + at] += stored[at].value);
        for axis in 0..3 {
            let mut step = [0; 3];
            step[axis] = 1;
            let Some(next) = reservoir.beside(grid.place(cell), step) else { continue };
            let flux = reservoir.flux(axis, [cell, next], [reservoir.states[cell], reservoir.states[next]]);
            for at in 0..3 {
                balances[3 * cell + at] += flux[at].value;
                balances[3 * next + at] -= flux[at].value;
            }
        }
    }
    balances
}

/// What leaves the cells of a flow.
fn leaving(flow: &Flow) -> Vec<f64> {
    let grid = flow.grid;
    let mut leaving = vec![0.0; 5 * grid.len()];
    for cell in 0..grid.len() {
        for axis in 0..3 {
            let (place, own) = (grid.place(cell), flow.states[cell]);
            let out = euler::flux(axis, [own, flow.beside(place, axis, 1)]);
            let into = euler::flux(axis, [flow.beside(place, axis, -1), own]);
            (0..5).for_each(|at| leaving[5 * cell + at] += out[at].value - into[at].value);
        }
    }
    leaving
}

/// A direction that is nothing special, with elements of 0.5 to 1.5.
fn direction(length: usize) -> Vec<f64> {
    (0..length).map(|at| 1.0 + 0.5 * (1.7 * at as f64).sin()).collect()
}

/// Checks that `product` is the derivative along a direction whose central difference is that of `ahead` and `back`.
fn assert_derivative(product: &[f64], ahead: &[f64], back: &[f64], step: f64, width: usize) {
    for at in 0..width {
        let of = |all: &[f64]| -> Vec<f64> { all.iter().skip(at).step_by(width).copied().collect() };
        let (product, ahead, back) = (of(product), of(ahead), of(back));
        let error: Vec<f64> =
            product.iter().zip(ahead.iter().zip(&back)).map(|(p, (a, b))| p - (a - b) / (2.0 * step)).collect();
        assert!(norm(&error) < 1e-6 * norm(&product), "balance {at}: {} of {}", norm(&error), norm(&product));
    }
}

#[test]
fn the_reservoirs_jacobian_is_the_derivative_of_its_balances() {
    let jacobian = field("reservoir:4x3x5");
    let reservoir = || Reservoir::new([4, 3, 5], 3);
    // A direction of pressures alone, and one of saturations: their balances differ by orders of magnitude.
    for (kept, step) in [([1.0, 0.0, 0.0], 1e-3), ([0.0, 1.0, 0.5], 1e-5)] {
        let direction: Vec<f64> =
            direction(jacobian.rows()).iter().enumerate().map(|(at, x)| x * kept[at % 3]).collect();
        let moved = |by: f64| {
            let mut reservoir = reservoir();
            let unknowns = reservoir.states.as_flattened_mut().iter_mut();
            unknowns.zip(&direction).for_each(|(unknown, way)| *unknown += by * way);
            balances(&reservoir)
        };
        assert_derivative(&times(&jacobian, &direction), &moved(step), &moved(-step), step, 3);
    }
}

/// What leaves a cell enters another one: the derivative of the sum of all balances is that of what is stored.
#[test]
fn a_closed_reservoir_keeps_what_it_has() {
    let reservoir = Reservoir::new([3, 4, 2], 3);
    let transposed = reservoir.jacobian().unwrap().transpose().unwrap();
    for balance in 0..3 {
        let ones: Vec<f64> = (0..transposed.cols()).map(|at| f64::from(at % 3 == balance)).collect();
        let sums = times(&transposed, &ones);
        for (cell, sums) in sums.chunks(3).enumerate() {
            let stored = reservoir.stored(Dual::variables(reservoir.states[cell], 0))[balance];
            let scale = norm(&stored.slopes) + 1.0;
            assert!((0..3).all(|at| (sums[at] - stored.slopes[at]).abs() < 1e-9 * scale), "{sums:?}, {stored:?}");
        }
    }
}

/// At rest, pressure balances gravity: one fluid of constant density moves nowhere.
#[test]
fn fluids_flow_upwind_and_down_the_potential() {
    let reservoir = Reservoir::new([2, 1, 2], 3);
    let state = |pressure: f64| [pressure, 0.3, 0.2];
    let flux = |axis, states| reservoir.flux(axis, [0, 1], states).map(|flux| flux.value);
    assert!(flux(0, [state(200.0), state(200.0)]).iter().all(|flux| *flux == 0.0));
    assert!(flux(0, [state(201.0), state(200.0)]).iter().all(|flux| *flux > 0.0));
    assert!(flux(0, [state(200.0), state(201.0)]).iter().all(|flux| *flux < 0.0));
    // With equal pressures fluids sink: z points down. Hydrostatic water at 1000 kg / m^3 gains 0.196 bar in 2 m.
    assert!(flux(2, [state(200.0), state(200.0)]).iter().all(|flux| *flux > 0.0));
    let [water, ..] = flux(2, [state(200.0), state(200.0 + 2.0 * 0.098_066_5)]);
    let [sinking, ..] = flux(2, [state(200.0), state(200.0)]);
    assert!(water.abs() < 1e-4 * sinking, "{water} of {sinking}");
}

#[test]
fn the_flows_jacobian_is_the_derivative_of_its_fluxes() {
    let flow = || Flow::new([4, 3, 5], 3);
    let jacobian = flow().jacobian().unwrap();
    let direction = direction(jacobian.rows());
    let moved = |by: f64| {
        let mut flow = flow();
        let unknowns = flow.states.as_flattened_mut().iter_mut();
        unknowns.zip(&direction).for_each(|(unknown, way)| *unknown += by * way);
        leaving(&flow)
    };
    let mut product = times(&jacobian, &direction);
    // The steps of pseudo-time are on the diagonal, and no derivative.
    for (cell, state) in flow().states.iter().enumerate() {
        (0..5).for_each(|at| product[5 * cell + at] -= flow().step_reciprocal(*state) * direction[5 * cell + at]);
    }
    assert_derivative(&product, &moved(1e-6), &moved(-1e-6), 1e-6, 5);
}

/// Euler's fluxes are homogeneous: f(u) = f'(u) u (Toro, section 3.1.2).
#[test]
fn eulers_flux_is_its_jacobian_times_the_state() {
    for state in Flow::new([3, 3, 3], 3).states {
        for axis in 0..3 {
            for flux in euler::euler_flux(Dual::variables(state, 0), axis) {
                let product: f64 = flux.slopes.iter().zip(&state).map(|(slope, value)| slope * value).sum();
                assert!((product - flux.value).abs() < 1e-14, "{product} {flux:?}");
            }
        }
    }
}

#[test]
fn a_uniform_flow_stays_and_what_leaves_a_cell_enters_the_next() {
    let mut uniform = Flow::new([3, 3, 3], 3);
    let outside = uniform.beside([0; 3], 0, -1);
    uniform.states.fill(outside);
    assert!(norm(&leaving(&uniform)) < 1e-14);
    // The columns of a cell inside add up to its step of pseudo-time.
    let flow = Flow::new([3, 3, 3], 3);
    let transposed = flow.jacobian().unwrap().transpose().unwrap();
    let middle = Grid([3; 3]).number([1; 3]);
    for balance in 0..5 {
        let ones: Vec<f64> = (0..transposed.cols()).map(|at| f64::from(at % 5 == balance)).collect();
        let sums = times(&transposed, &ones);
        let step = flow.step_reciprocal(flow.states[middle]);
        let is = |at: usize| (sums[5 * middle + at] - step * f64::from(at == balance)).abs() < 1e-13;
        assert!((0..5).all(is), "{balance}: {:?}", &sums[5 * middle..][..5]);
    }
}

#[test]
fn implicit_steps_are_not_symmetric() {
    assert!(super::asymmetry(&field("euler:3x3x3")) > 0.1);
    assert!(super::asymmetry(&field("reservoir:3x3x3")) > 0.1);
}
