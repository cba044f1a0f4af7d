//! What only GMRES has: cycles, a basis that ends, and matrices of flows.

use bsr_runtime::solve::{Method, Options, Preconditioner, Solution, SolveError, on_host, simulate};
use bsr_runtime::{Bsr, Element, Field, Structure};

use crate::problem::residual;

const fn gmres(restart: u32) -> Method {
    Method::Gmres { restart }
}

/// A flow, Jacobians that are not symmetric, and a right-hand side.
pub(crate) fn flows() -> Vec<(Field, Bsr<f64>, Vec<f64>)> {
    [Field::Euler([3, 2, 2]), Field::Reservoir([4, 3, 2])]
        .map(|field| {
            let a = field.matrix(3).unwrap();
            let b = (0..a.rows()).map(|row| ((row * 7919) % 1000) as f64 / 1000.0 - 0.5).collect();
            (field, a, b)
        })
        .into()
}

fn narrowed(a: &Bsr<f64>) -> Bsr<f32> {
    Bsr::from_structure(a.structure().clone(), a.values().iter().map(|value| *value as f32).collect()).unwrap()
}

/// The simulator's solution, which has no finding, and that of the CPU with the norms that a callback is told.
fn solved<T: Element>(
    a: &Bsr<T>,
    request: (Method, Preconditioner),
    b: &[T],
    rtol: f64,
) -> [(Solution<T>, Vec<f64>); 2] {
    let run = |on_simulator: bool| {
        let mut norms = vec![];
        let mut callback = |norm| norms.push(norm);
        let mut options = Options { rtol, callback: Some(&mut callback), ..Options::default() };
        let solution = if on_simulator {
            let (solution, findings) = simulate(a, request, (b, None), &mut options).unwrap();
            assert!(findings.is_empty(), "{request:?}: {findings:#?}");
            solution
        } else {
            on_host(a, request, (b, None), &mut options).unwrap()
        };
        (solution, norms)
    };
    [run(true), run(false)]
}

/// Restarts of every length against the f64 reference: one iteration, several cycles, and more columns than rows.
#[test]
fn flows_are_solved() {
    for (field, a, b) in flows() {
        for preconditioner in [Preconditioner::None, Preconditioner::BlockJacobi] {
            // Short cycles stagnate on the reservoir: `short_cycles_stagnate_in_every_type`.
            let restarts = if matches!(field, Field::Euler(_)) { &[5, 20, 256][..] } else { &[256] };
            for restart in restarts.iter().copied() {
                let request = (gmres(restart), preconditioner);
                let [(solution, norms), (host, host_norms)] = solved(&a, request, &b, 1e-8);
                let found = [&solution, &host].map(|solution| residual(&a, solution, &b));
                let what = format!("{field:?}, {request:?}: {found:?} after {}", solution.iterations);
                assert!(solution.converged && host.converged && found.iter().all(|found| *found <= 1.01e-8), "{what}");
                assert_eq!((norms.len(), norms.last()), (solution.iterations, Some(&solution.residual)), "{what}");
                assert_eq!(host_norms.len(), host.iterations);
                let near =
                    norms.iter().zip(&host_norms).take(5).all(|(one, other)| (one - other).abs() <= 1e-8 * other);
                let what = format!("{what}, on the host after {}", host.iterations);
                assert!(near && solution.iterations.abs_diff(host.iterations) <= 1 + host.iterations / 10, "{what}");
                // The norm that is minimized over a space that grows.
                assert!(
                    norms
                        .chunks(restart as usize)
                        .all(|cycle| cycle.is_sorted_by(|one, next| *next <= one * (1.0 + 1e-9)))
                );
            }
        }
    }
}

#[test]
fn flows_in_f32() {
    for (field, a, b) in flows().into_iter().take(1) {
        let a = narrowed(&a);
        let b: Vec<f32> = b.iter().map(|value| *value as f32).collect();
        let [(solution, _), (host, _)] = solved(&a, (gmres(20), Preconditioner::BlockJacobi), &b, 1e-4);
        for solution in [&solution, &host] {
            let found = residual(&a, solution, &b);
            assert!(solution.converged && found <= 2e-4, "{field:?}: {found:e} after {}", solution.iterations);
        }
    }
}

/// On the reservoir, whose rows are balances of different scales, a short cycle hardly reduces the residual, in f64 as in f32: it is
/// the method, and no rounding. A cycle of all columns converges, in f32 as far as its condition lets it.
#[test]
fn short_cycles_stagnate_in_every_type() {
    let (_, a, b) = flows().remove(1);
    let (narrow, narrow_b) = (narrowed(&a), b.iter().map(|value| *value as f32).collect::<Vec<_>>());
    let found = |restart| {
        let request = (gmres(restart), Preconditioner::BlockJacobi);
        let options = || Options { rtol: 1e-9, max_iterations: Some(120), ..Options::default() };
        let (solution, findings) = simulate(&narrow, request, (&narrow_b, None), &mut options()).unwrap();
        assert!(findings.is_empty(), "{findings:#?}");
        let host = on_host(&a, request, (&b, None), &mut options()).unwrap();
        [residual(&narrow, &solution, &narrow_b), residual(&a, &host, &b)]
    };
    for restart in [5, 20] {
        let [in_f32, in_f64] = found(restart);
        assert!(in_f64 > 0.8 && (in_f32 - in_f64).abs() <= 1e-3 * in_f64, "{restart}: {in_f32:e}, {in_f64:e}");
    }
    let [in_f32, in_f64] = found(72);
    assert!(in_f64 <= 1e-9 && in_f32 <= 1e-2, "{in_f32:e}, {in_f64:e}");
}

/// A cycle of one iteration minimizes along the residual, so that a matrix which turns it by a right angle is never solved.
#[test]
fn cycles_of_one_iteration() {
    let (_, a, b) = flows().remove(0);
    let [(solution, _), (host, _)] = solved(&a, (gmres(1), Preconditioner::BlockJacobi), &b, 1e-6);
    assert!(solution.converged && residual(&a, &solution, &b) <= 1.01e-6, "{solution:?}");
    assert!(solution.iterations.abs_diff(host.iterations) <= 1);
    let turned = matrix([0.0, 1.0, -1.0, 0.0]);
    let options = || Options { max_iterations: Some(5), ..Options::default() };
    for (restart, iterations, converged) in [(1, 1, false), (2, 2, true)] {
        let request = (gmres(restart), Preconditioner::None);
        let found = on_host(&turned, request, (&[1.0, 1.0], None), &mut options());
        let simulated = simulate(&turned, request, (&[1.0, 1.0], None), &mut options());
        if converged {
            let (solution, findings) = simulated.unwrap();
            assert!(findings.is_empty() && solution.converged && solution.iterations == iterations, "{solution:?}");
            assert_eq!(found.unwrap().iterations, iterations);
        } else {
            // The first cycle leaves the residual as it is: so do all.
            assert!(!found.unwrap().converged);
            assert!(!simulated.unwrap().0.converged);
        }
    }
}

fn matrix(values: [f64; 4]) -> Bsr<f64> {
    let structure = Structure::new(2, 2, (2, 2), vec![0, 1], vec![0]).unwrap();
    Bsr::from_structure(structure, values.to_vec()).unwrap()
}

/// A Krylov space that ends has the solution: two eigenvalues, two iterations, though the cycle and the matrix have more.
#[test]
fn a_space_that_ends_has_the_solution() {
    let rows = 12;
    let structure =
        Structure::new(rows, rows, (1, 1), (0..=rows as i32).collect(), (0..rows as i32).collect()).unwrap();
    let a = Bsr::from_structure(structure, (0..rows).map(|row| [2.0, -3.0][row % 2]).collect()).unwrap();
    let b: Vec<f64> = (1..=rows).map(|row| row as f64).collect();
    for (solution, norms) in solved(&a, (gmres(20), Preconditioner::None), &b, 1e-12) {
        assert!(solution.converged && solution.iterations == 2, "{solution:?}");
        assert!(residual(&a, &solution, &b) <= 1e-14 && norms.len() == 2, "{solution:?}");
    }
    // Nothing is left to be done: the next residual is zero, or all iterations are used.
    let request = (gmres(20), Preconditioner::BlockJacobi);
    for (solution, _) in solved(&a, request, &b, 0.0).into_iter() {
        assert!(residual(&a, &solution, &b) <= 1e-15, "{solution:?}");
    }
}

/// A singular matrix has a solution where b is in its range, and otherwise the method says that it has none.
#[test]
fn singular_matrices() {
    let shift = matrix([0.0, 1.0, 0.0, 0.0]);
    let projects = matrix([1.0, 0.0, 0.0, 0.0]);
    let request = (gmres(20), Preconditioner::None);
    for (solution, _) in solved(&projects, request, &[3.0, 0.0], 1e-12) {
        assert!(solution.converged && solution.x == [3.0, 0.0], "{solution:?}");
    }
    for (a, b, iteration) in [(&shift, [1.0, 0.0], 1), (&projects, [1.0, 1.0], 2)] {
        let host = on_host(a, request, (&b, None), &mut Options::default()).unwrap_err();
        let simulated = simulate(a, request, (&b, None), &mut Options::default()).unwrap_err();
        assert_eq!(simulated.to_string(), host.to_string());
        assert!(matches!(&host, SolveError::Breakdown(found) if found.iteration == iteration), "{host}");
        assert!(host.to_string().contains("singular"), "{host}");
    }
}

#[test]
fn zero_and_what_is_refused() {
    let (_, a, b) = flows().remove(1);
    let request = (gmres(20), Preconditioner::BlockJacobi);
    let zero = vec![0.0; a.rows()];
    let (solution, findings) = simulate(&a, request, (&zero, Some(&b)), &mut Options::default()).unwrap();
    assert!(findings.is_empty() && solution.converged && solution.iterations == 0 && solution.x == zero);
    for restart in [0, 257, u32::MAX] {
        let request = (gmres(restart), Preconditioner::None);
        let host = on_host(&a, request, (&b, None), &mut Options::default()).unwrap_err().to_string();
        assert_eq!(simulate(&a, request, (&b, None), &mut Options::default()).unwrap_err().to_string(), host);
        assert!(host.contains(&format!("restart = {restart}")) && host.contains("help: restart = 20"), "{host}");
    }
    let large = matrix([1e200, 0.0, 0.0, 1e200]);
    let request = (gmres(20), Preconditioner::None);
    let host = on_host(&large, request, (&[1.0, 1.0], None), &mut Options::default()).unwrap_err().to_string();
    assert_eq!(simulate(&large, request, (&[1.0, 1.0], None), &mut Options::default()).unwrap_err().to_string(), host);
    assert!(host.contains("iteration 1: ") && host.contains("not finite"), "{host}");
}

/// Every method shows x after each iteration, GMRES after each cycle: the one whose norm is told then.
#[test]
fn x_is_shown() {
    let (_, a, b) = flows().remove(1);
    for method in [Method::Bicgstab, gmres(4)] {
        let run = |on_simulator: bool| {
            let (mut shown, mut norms) = (vec![], vec![]);
            let mut watch = |x: &[f64]| shown.push(x.to_vec());
            let mut callback = |norm| norms.push(norm);
            let mut options = Options { rtol: 1e-8, watch: Some(&mut watch), ..Options::default() };
            options.callback = Some(&mut callback);
            let request = (method, Preconditioner::BlockJacobi);
            let solution = match on_simulator {
                true => simulate(&a, request, (&b, None), &mut options).unwrap().0,
                false => on_host(&a, request, (&b, None), &mut options).unwrap(),
            };
            (solution, shown, norms)
        };
        for (solution, shown, norms) in [run(true), run(false)] {
            let of_cycle = method.iterations_of_cycle() as usize;
            assert_eq!(shown.len(), solution.iterations.div_ceil(of_cycle), "{method:?}");
            assert_eq!(shown.last(), Some(&solution.x));
            let size = b.iter().map(|b| b * b).sum::<f64>().sqrt();
            for (x, norms) in shown.into_iter().zip(norms.chunks(of_cycle)) {
                let found = residual(&a, &Solution { x, ..solution.clone() }, &b) * size;
                assert!((found - norms[norms.len() - 1]).abs() <= 1e-10 * size, "{method:?}: {found:e} {norms:?}");
            }
        }
    }
}
