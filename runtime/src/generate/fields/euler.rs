//! Compressible flow without viscosity.

use bsr_codegen::Refusal;

use super::dual::Dual;
use super::mesh::{Block, Grid, Place, Stencil};
use crate::Bsr;
use crate::random::{Streams, fill_normal_f64};

/// The ratio of specific heats.
const GAMMA: f64 = 1.4;
/// How many cells the fastest wave passes in a step of pseudo-time.
const CFL: f64 = 10.0;
/// The flow outside: density, velocity and pressure. The speed of sound is 1, and the Mach number 0.5.
const OUTSIDE: [f64; 5] = [1.0, 0.48, 0.12, 0.072_111_025_509_279_78, 1.0 / GAMMA];
/// How far a cell's state is drawn from that, relative to density, speed of sound and pressure.
const SPREAD: f64 = 0.05;

/// A value with derivatives by the states on both sides of a face.
type Pair = Dual<10>;
/// Density, momentum and energy of a unit of volume.
pub(super) type State = [f64; 5];

pub(super) struct Flow {
    pub(super) grid: Grid,
    pub(super) states: Vec<State>,
}

impl Flow {
    pub(super) fn new(cells: Place, seed: u64) -> Self {
        let (grid, streams) = (Grid(cells), Streams::new(seed, b"euler..."));
        let draw = |cell: usize| {
            let mut normal = [0.0; 5];
            fill_normal_f64(&mut streams.get(cell), &mut normal);
            let mut primitive = OUTSIDE;
            for (at, (value, normal)) in primitive.iter_mut().zip(normal).enumerate() {
                *value += SPREAD * normal * if at == 4 { OUTSIDE[4] } else { 1.0 };
            }
            conserved(primitive)
        };
        Self { grid, states: (0..grid.len()).map(draw).collect() }
    }

    /// The derivatives of the fluxes out of every cell by all states, and the reciprocal time steps on the diagonal.
    pub(super) fn jacobian(&self) -> Result<Bsr<f64>, Refusal> {
        self.grid.assemble(Stencil::Star, |place, row| {
            let own = self.states[self.grid.number(place)];
            row.add([0; 3], self.step_reciprocal(own), &identity());
            for axis in 0..3 {
                for side in [1, -1] {
                    let mut offset = [0; 3];
                    offset[axis] = side;
                    let other = self.beside(place, axis, side);
                    // The flux along the axis leaves the cell before the face and enters the one behind it.
                    let (states, own_at) = if side > 0 { ([own, other], 0) } else { ([other, own], 5) };
                    let flux = flux(axis, states);
                    row.add([0; 3], side as f64, &flux.map(|balance| part(balance, own_at)));
                    row.add(offset, side as f64, &flux.map(|balance| part(balance, 5 - own_at)));
                }
            }
        })
    }

    /// The state behind a face: that of the next cell, or the flow outside.
    pub(super) fn beside(&self, place: Place, axis: usize, side: isize) -> State {
        let mut offset = [0; 3];
        offset[axis] = side;
        self.grid.beside(place, offset).map_or_else(|| conserved(OUTSIDE), |at| self.states[self.grid.number(at)])
    }

    /// One over the step of pseudo-time: the waves along all axes take CFL cells.
    pub(super) fn step_reciprocal(&self, state: State) -> f64 {
        let state = Pair::variables(state, 0);
        (0..3).map(|axis| wave_speed(state, axis).value).sum::<f64>() / CFL
    }
}

/// From density, velocity and pressure.
pub(super) fn conserved([density, u, v, w, pressure]: [f64; 5]) -> State {
    let kinetic = 0.5 * density * (u * u + v * v + w * w);
    [density, density * u, density * v, density * w, pressure / (GAMMA - 1.0) + kinetic]
}

fn pressure([density, x, y, z, energy]: [Pair; 5]) -> Pair {
    (energy - (x * x + y * y + z * z) / density * 0.5) * (GAMMA - 1.0)
}

/// The speed of the fastest wave along an axis: that of the flow, and the speed of sound.
fn wave_speed(state: [Pair; 5], axis: usize) -> Pair {
    (state[1 + axis] / state[0]).abs() + (pressure(state) / state[0] * GAMMA).sqrt()
}

/// The flux of Euler's equations along an axis.
pub(super) fn euler_flux(state: [Pair; 5], axis: usize) -> [Pair; 5] {
    let (velocity, pressure) = (state[1 + axis] / state[0], pressure(state));
    let mut flux = state.map(|density| density * velocity);
    flux[1 + axis] = flux[1 + axis] + pressure;
    flux[4] = flux[4] + pressure * velocity;
    flux
}

/// Rusanov's flux through a face: the average of both sides, less half the fastest wave's speed times the difference.
pub(super) fn flux(axis: usize, states: [State; 2]) -> [Pair; 5] {
    let [before, behind] = [0, 1].map(|side| Pair::variables(states[side], 5 * side));
    let speed = wave_speed(before, axis).max(wave_speed(behind, axis));
    let [from, to] = [before, behind].map(|state| euler_flux(state, axis));
    std::array::from_fn(|at| (from[at] + to[at] - speed * (behind[at] - before[at])) * 0.5)
}

fn identity() -> Block<5> {
    std::array::from_fn(|i| std::array::from_fn(|j| f64::from(i == j)))
}

/// Derivatives by five of the variables.
fn part(balance: Pair, first: usize) -> [f64; 5] {
    std::array::from_fn(|at| balance.slopes[first + at])
}
