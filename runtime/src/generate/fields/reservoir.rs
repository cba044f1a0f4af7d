//! A black-oil reservoir: water, oil, and gas that dissolves in oil.

use bsr_codegen::Refusal;

use super::dual::Dual;
use super::mesh::{Grid, Offset, Place, Stencil};
use crate::Bsr;
use crate::random::{Streams, fill_normal_f64};

/// Sides of a cell in m.
const SIDES: [f64; 3] = [10.0, 10.0, 2.0];
const POROSITY: f64 = 0.2;
/// The time step in days.
const STEP: f64 = 1.0;
/// The median of permeabilities along x and y in mD, and what one along z is of it.
const PERMEABILITY: [f64; 3] = [100.0, 100.0, 10.0];
/// m^3 cP / (day bar mD m): 9.869233e-16 m^2 in a mD, 1e5 Pa in a bar, 1e-3 Pa s in a cP, 86400 s in a day.
const DARCY: f64 = 8.527_017_3e-3;
/// bar m^2 / kg: 9.80665 m / s^2.
const GRAVITY: f64 = 9.806_65e-5;
/// The pressure at the top in bar.
const PRESSURE: f64 = 200.0;
/// Viscosities of water, oil and gas in cP.
const VISCOSITY: [f64; 3] = [0.5, 1.0, 0.02];
/// Densities at the surface in kg / m^3.
const DENSITY: [f64; 3] = [1000.0, 800.0, 1.0];
/// What water and oil are compressed by, 1 / bar.
const COMPRESSIBILITY: [f64; 2] = [4e-5, 1e-4];
/// m^3 of gas at the surface that a m^3 of oil dissolves for each bar.
const SOLUBILITY: f64 = 0.5;

/// A value with derivatives by the unknowns of two cells.
type Pair = Dual<6>;
/// Pressure, saturations of water and gas.
pub(super) type State = [f64; 3];

pub(super) struct Reservoir {
    pub(super) grid: Grid,
    permeabilities: Vec<f64>,
    pub(super) states: Vec<State>,
}

/// What a cell's fluids are at its state.
struct Fluids {
    pressure: Pair,
    /// Volumes at the surface for each m^3 in the reservoir.
    expansion: [Pair; 3],
    saturation: [Pair; 3],
    dissolved: Pair,
}

impl Fluids {
    fn new([pressure, water, gas]: [Pair; 3]) -> Self {
        let above = pressure + -PRESSURE;
        let [by_water, by_oil] = COMPRESSIBILITY.map(|factor| above * factor + 1.0);
        Self {
            pressure,
            // Gas is ideal, and 1 bar is the surface.
            expansion: [by_water, by_oil, pressure],
            saturation: [water, -(water + gas) + 1.0, gas],
            dissolved: pressure * SOLUBILITY,
        }
    }

    /// kg / m^3 in the reservoir.
    fn density(&self, phase: usize) -> Pair {
        let gas = if phase == 1 { self.dissolved * DENSITY[2] } else { Pair::constant(0.0) };
        self.expansion[phase] * (gas + DENSITY[phase])
    }

    /// Volume at the surface that flows by one bar through a path of transmissibility 1: relative permeabilities are
    /// squares of saturations (Corey).
    fn mobility(&self, phase: usize) -> Pair {
        let saturation = self.saturation[phase];
        saturation * saturation * self.expansion[phase] * (1.0 / VISCOSITY[phase])
    }
}

impl Reservoir {
    /// A reservoir near equilibrium: saturations between 0 and 1, and a pressure that grows with the depth.
    pub(super) fn new(cells: Place, seed: u64) -> Self {
        let (grid, streams) = (Grid(cells), Streams::new(seed, b"reservoi"));
        let draw = |cell: usize| {
            let mut normal = [0.0; 4];
            fill_normal_f64(&mut streams.get(cell), &mut normal);
            let [rock, pressure, water, gas] = normal;
            let depth = SIDES[2] * grid.place(cell)[2] as f64;
            let (water, gas) = (libm::exp(water), libm::exp(gas));
            let all = 1.0 + water + gas;
            (libm::exp(rock), [PRESSURE + GRAVITY * DENSITY[1] * depth + pressure, water / all, gas / all])
        };
        let (permeabilities, states) = (0..grid.len()).map(draw).unzip();
        Self { grid, permeabilities, states }
    }

    /// The derivatives of [`Self::stored`] and of the fluxes out of every cell by all unknowns.
    pub(super) fn jacobian(&self) -> Result<Bsr<f64>, Refusal> {
        self.grid.assemble(Stencil::Star, |place, row| {
            let cell = self.grid.number(place);
            let own = Pair::variables(self.states[cell], 0);
            row.add([0; 3], 1.0, &self.stored(own).map(|balance| part(balance, 0)));
            for axis in 0..3 {
                let mut step = [0; 3];
                step[axis] = 1;
                // The flux along the axis leaves the cell before the face and enters the one behind it.
                for (sign, offset) in [(1.0, step), (-1.0, step.map(|side: isize| -side))] {
                    let Some(other) = self.beside(place, offset) else { continue };
                    let (before, behind) = if sign > 0.0 { (cell, other) } else { (other, cell) };
                    let flux = self.flux(axis, [before, behind], [self.states[before], self.states[behind]]);
                    let offsets = if sign > 0.0 { [[0; 3], offset] } else { [offset, [0; 3]] };
                    row.add(offsets[0], sign, &flux.map(|balance| part(balance, 0)));
                    row.add(offsets[1], sign, &flux.map(|balance| part(balance, 3)));
                }
            }
        })
    }

    pub(super) fn beside(&self, place: Place, offset: Offset) -> Option<usize> {
        self.grid.beside(place, offset).map(|beside| self.grid.number(beside))
    }

    /// Water, oil and gas in a cell, m^3 at the surface for each day of the time step.
    pub(super) fn stored(&self, unknowns: [Pair; 3]) -> [Pair; 3] {
        let fluids = Fluids::new(unknowns);
        let [water, oil, gas] = [0, 1, 2].map(|phase| fluids.expansion[phase] * fluids.saturation[phase]);
        let pores = POROSITY * SIDES.iter().product::<f64>() / STEP;
        [water, oil, gas + fluids.dissolved * oil].map(|volume| volume * pores)
    }

    /// Water, oil and gas that flow from a cell to the next one along an axis, m^3 at the surface a day. Derivatives are
    /// by the unknowns of both.
    pub(super) fn flux(&self, axis: usize, cells: [usize; 2], states: [State; 2]) -> [Pair; 3] {
        let fluids = [0, 1].map(|side| Fluids::new(Pair::variables(states[side], 3 * side)));
        let [before, behind] = cells.map(|cell| 0.5 * SIDES[axis] / (self.permeabilities[cell] * PERMEABILITY[axis]));
        let area = SIDES.iter().product::<f64>() / SIDES[axis];
        let transmissibility = DARCY * area / (before + behind);
        let deeper = if axis == 2 { SIDES[2] } else { 0.0 };
        let mut dissolved = Pair::constant(0.0);
        let [water, oil, gas] = [0, 1, 2].map(|phase| {
            let weight = (fluids[0].density(phase) + fluids[1].density(phase)) * (0.5 * GRAVITY * deeper);
            let drop = fluids[0].pressure - fluids[1].pressure + weight;
            let upwind = &fluids[usize::from(drop.value < 0.0)];
            let flux = upwind.mobility(phase) * drop * transmissibility;
            if phase == 1 {
                dissolved = upwind.dissolved * flux;
            }
            flux
        });
        [water, oil, gas + dissolved]
    }
}

/// Derivatives by three of the variables.
fn part(balance: Pair, first: usize) -> [f64; 3] {
    std::array::from_fn(|at| balance.slopes[first + at])
}
