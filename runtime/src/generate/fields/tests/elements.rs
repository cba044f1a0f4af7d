//! Elasticity, Stokes and the shell.

use super::cholesky::{is_positive_definite, pivots, solve};
use super::{asymmetry, field, norm, residual, times};
use crate::Bsr;
use crate::generate::fields::mesh::Grid;
use crate::generate::fields::{elasticity, shell, stokes};

/// The six motions of a rigid body at a point: three translations, and three rotations.
fn rigid([x, y, z]: [f64; 3]) -> [[f64; 3]; 6] {
    [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]]
}

fn places(cells: [usize; 3]) -> impl Iterator<Item = [f64; 3]> {
    let grid = Grid(cells.map(|cells| cells + 1));
    (0..grid.len()).map(move |point| grid.place(point).map(|at| at as f64))
}

/// The number of pivots that are zero: the dimension of the null space of a semidefinite matrix.
fn nullity(matrix: &Bsr<f64>) -> usize {
    let order: Vec<usize> = (0..matrix.rows()).collect();
    let pivots = pivots(matrix, &order);
    let most = pivots.iter().fold(0.0, |most: f64, pivot| most.max(pivot.abs()));
    let is_zero = |pivot: &&f64| pivot.abs() < 1e-10 * most;
    assert!(pivots.iter().all(|pivot| *pivot > -1e-10 * most), "{pivots:?}");
    pivots.iter().filter(is_zero).count()
}

#[test]
fn rigid_motions_of_a_free_body_need_no_force_and_nothing_else_does() {
    let free = elasticity::free([3, 2, 4]).unwrap();
    assert!(asymmetry(&free) < 1e-15);
    for motion in 0..6 {
        let x: Vec<f64> = places([3, 2, 4]).flat_map(|place| rigid(place)[motion]).collect();
        assert!(residual(&free, &x) < 1e-14, "{motion}");
    }
    // An element that was integrated at too few points would have more such motions.
    assert_eq!(nullity(&elasticity::free([1, 1, 1]).unwrap()), 6);
    assert_eq!(nullity(&elasticity::free([2, 1, 2]).unwrap()), 6);
}

/// A bar that is pulled: the exact solution is linear, and its forces are those of a stress of 1 on the two ends.
#[test]
fn a_pulled_bar_has_the_forces_of_a_uniform_stress() {
    let cells = [3, 2, 2];
    let x: Vec<f64> = places(cells).flat_map(|[x, y, z]| [x, -0.3 * y, -0.3 * z]).collect();
    let forces = times(&elasticity::free(cells).unwrap(), &x);
    // A node of an end has a quarter of the area of each of its faces.
    let share = |at: f64| if at == 0.0 || at == 2.0 { 0.5 } else { 1.0 };
    for ([x, y, z], force) in places(cells).zip(forces.chunks(3)) {
        let pull = share(y) * share(z) * if x == 0.0 { -1.0 } else { f64::from(x == 3.0) };
        assert!((force[0] - pull).abs() < 1e-13 && force[1].abs() < 1e-13 && force[2].abs() < 1e-13, "{force:?}");
    }
}

#[test]
fn a_clamped_body_is_positive_definite() {
    let clamped = field("elasticity:3x2x2");
    assert!(asymmetry(&clamped) < 1e-15 && is_positive_definite(&clamped));
    assert!(is_positive_definite(&field("elasticity:1x1x1")));
    // What is clamped is left out, and the rest stays.
    let (free, dense) = (elasticity::free([3, 2, 2]).unwrap(), clamped.to_dense(crate::Layout::RowMajor));
    let free = free.to_dense(crate::Layout::RowMajor);
    let kept: Vec<usize> = (0..4 * 3 * 3).filter(|node| node % 4 > 0).flat_map(|node| 3 * node..3 * node + 3).collect();
    for (row, &from) in kept.iter().enumerate() {
        assert!(kept.iter().enumerate().all(|(col, &of)| dense.get(row, col) == free.get(from, of)));
    }
}

#[test]
fn slow_flow_without_walls_has_a_constant_velocity_and_balances_pressure_inside() {
    let cells = [3, 3, 4];
    let free = stokes::free(cells).unwrap();
    assert!(asymmetry(&free) < 1e-15);
    let field = |at: fn([f64; 3]) -> [f64; 4]| -> Vec<f64> { places(cells).flat_map(at).collect() };
    assert!(residual(&free, &field(|_| [1.0, -2.0, 0.5, 0.0])) < 1e-14);
    // A linear velocity without divergence and a constant pressure: balanced at nodes inside.
    let forces = times(&free, &field(|[x, y, z]| [x + 2.0 * y, z - y, 3.0 * x, 7.0]));
    for (place, force) in places(cells).zip(forces.chunks(4)) {
        let is_inside = place.iter().zip(cells).all(|(at, cells)| *at > 0.0 && *at < cells as f64);
        assert!(force[3].abs() < 1e-13, "{place:?}: {force:?}");
        assert!(!is_inside || norm(force) < 1e-13, "{place:?}: {force:?}");
    }
}

/// Velocities first, the pivots are those of a positive definite matrix and then of a negative definite one: the pressure is
/// stable, though its elements are of the velocity's order.
#[test]
fn a_channel_has_as_many_negative_eigenvalues_as_pressures() {
    let cells = [3, 2, 2];
    let channel = field("stokes:3x2x2");
    assert!(asymmetry(&channel) < 1e-15);
    let unknowns = |keep: fn(usize) -> bool| (0..channel.rows()).filter(move |at| keep(at % 4));
    let order: Vec<usize> = unknowns(|at| at < 3).chain(unknowns(|at| at == 3)).collect();
    let pivots = pivots(&channel, &order);
    let (velocities, pressures) = pivots.split_at(3 * channel.block_rows());
    assert!(velocities.iter().all(|pivot| *pivot > 0.1) && pressures.iter().all(|pivot| *pivot < -1e-3), "{pivots:?}");
    // Rows of given velocities have a diagonal alone.
    let given: Vec<f64> =
        (0..channel.rows()).map(|at| f64::from(at % 4 < 3 && stokes::is_given(cells, at / 4))).collect();
    let product = times(&channel, &given);
    assert!(given.iter().zip(&product).all(|(given, value)| (value - 8.0 / 3.0 * given).abs() < 1e-14));
}

fn shell_places(facets: [usize; 2]) -> impl Iterator<Item = [f64; 3]> {
    let nodes = (facets[0] + 1) * (facets[1] + 1);
    (0..nodes).map(move |node| shell::position(facets, node % (facets[0] + 1), node / (facets[0] + 1)))
}

#[test]
fn rigid_motions_of_a_free_shell_need_no_force_and_nothing_else_does() {
    for facets in [[4, 3], [1, 1], [2, 5]] {
        let free = shell::free(facets).unwrap();
        assert!(asymmetry(&free) < 1e-14);
        for motion in 0..6 {
            let rotation = |axis: usize| f64::from(motion == 3 + axis);
            let x: Vec<f64> = shell_places(facets)
                .flat_map(|place| {
                    let [u, v, w] = rigid(place)[motion];
                    [u, v, w, rotation(0), rotation(1), rotation(2)]
                })
                .collect();
            assert!(residual(&free, &x) < 1e-13, "{facets:?}, {motion}: {}", residual(&free, &x));
        }
    }
    assert_eq!(nullity(&shell::free([1, 1]).unwrap()), 6);
    assert_eq!(nullity(&shell::free([2, 2]).unwrap()), 6);
}

#[test]
fn a_clamped_shell_is_positive_definite() {
    let clamped = field("shell:4x3");
    assert!(asymmetry(&clamped) < 1e-14 && is_positive_definite(&clamped));
}

/// A strip of flat facets that is clamped at one end and pushed at the other is a cantilever.
#[test]
fn a_clamped_strip_bends_like_a_beam() {
    let along = 64;
    let strip = shell::clamped([along, 1]).unwrap();
    let [_, width] = shell::sides([along, 1]);
    let mut load = vec![0.0; strip.rows()];
    let ends = [along - 1, 2 * along - 1];
    ends.iter().for_each(|end| load[6 * end + 2] = 0.5);
    let bent = solve(&strip, &load);
    // Without the stiffness across the strip: P L^3 / (3 E I); Poisson's ratio makes a wide one stiffer by up to 1 / (1 - nu^2).
    let beam = 50f64.powi(3) / (3.0 * width * 0.25f64.powi(3) / 12.0);
    for end in ends {
        let ratio = bent[6 * end + 2] / beam;
        assert!(ratio > 0.90 && ratio < 1.01, "{ratio}");
    }
}
