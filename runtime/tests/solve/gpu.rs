//! The same on a GPU.

use bsr_runtime::gpu::{Device, Plain};
use bsr_runtime::solve::{Method, Options, Preconditioner, Solver, simulate};
use bsr_runtime::{Bsr, Element, Structure};
use half::{bf16, f16};

use crate::device::device;
use crate::problem::{Case, cases, mixed_cases, residual};

/// Solves twice, with the same bits, and as the simulator does.
fn solves<V: Element + Plain, T: Element + Plain>(device: &Device, case: Case, rtol: f64) {
    let (a, b) = (case.matrix::<V>(), case.right_hand_side::<T>());
    let mut solver = Solver::<T, V>::new(device, &a, case.method, case.preconditioner).unwrap();
    let mut solve = |chunk| {
        let mut norms = vec![];
        let mut callback = |norm| norms.push(norm);
        let mut options = Options { rtol, chunk, callback: Some(&mut callback), ..Options::default() };
        let solution = solver.solve(&b, &mut options).unwrap();
        (solution, norms)
    };
    let (solution, norms) = solve(32);
    assert_eq!(solve(1), (solution.clone(), norms.clone()), "{case:?}");
    let found = residual(&a, &solution, &b);
    assert!(solution.converged && found <= 2.0 * rtol, "{case:?}: {found:e} after {}", solution.iterations);
    assert_eq!((norms.len(), norms.last()), (solution.iterations, Some(&solution.residual)), "{case:?}");
    let request = (case.method, case.preconditioner);
    let (simulated, _) = simulate(&a, request, (&b, None), &mut Options { rtol, ..Options::default() }).unwrap();
    assert_eq!(solution.iterations, simulated.iterations, "{case:?}");
    assert_eq!(solution.x, simulated.x, "{case:?}");
}

#[test]
fn every_case_on_a_gpu() {
    let Some((_turn, device)) = device() else { return };
    for case in cases() {
        solves::<f64, f64>(&device, case, 1e-10);
        solves::<f32, f32>(&device, case, 1e-4);
    }
    for case in mixed_cases() {
        solves::<f32, f64>(&device, case, 1e-10);
        solves::<f16, f64>(&device, case, 1e-10);
        solves::<bf16, f32>(&device, case, 1e-4);
    }
}

/// One solver solves many systems, after one that broke down also.
#[test]
fn a_solver_is_used_again_on_a_gpu() {
    let Some((_turn, device)) = device() else { return };
    for method in Method::ALL {
        let case = Case { rows: 200_003, side: 3, method, preconditioner: Preconditioner::BlockJacobi };
        let (a, b) = (case.matrix::<f64>(), case.right_hand_side::<f64>());
        let mut solver = Solver::new(&device, &a, method, case.preconditioner).unwrap();
        let first = solver.solve(&b, &mut Options::default()).unwrap();
        let text = solver.solve(&vec![f64::NAN; b.len()], &mut Options::default()).unwrap_err().to_string();
        assert!(text.contains("b is not finite"), "{text}");
        let few = solver.solve(&b, &mut Options { max_iterations: Some(3), ..Options::default() }).unwrap();
        assert_eq!((few.iterations, few.converged), (3, false));
        assert_eq!(solver.solve(&b, &mut Options::default()).unwrap(), first);
        let again = solver.solve_from(&b, &first.x, &mut Options::default()).unwrap();
        assert_eq!((again.iterations, &again.x), (0, &first.x));
        assert!(residual(&a, &first, &b) <= 2e-5);
    }
}

#[test]
fn a_breakdown_on_a_gpu() {
    let Some((_turn, device)) = device() else { return };
    let structure = Structure::new(2, 2, (2, 2), vec![0, 1], vec![0]).unwrap();
    let turned = Bsr::from_structure(structure, vec![0.0, 1.0, -1.0, 0.0]).unwrap();
    for (method, word) in [(Method::Cg, "not positive definite"), (Method::Bicgstab, "A M p")] {
        let mut solver = Solver::new(&device, &turned, method, Preconditioner::None).unwrap();
        let text = solver.solve(&[1.0, 1.0], &mut Options::default()).unwrap_err().to_string();
        assert!(text.contains("iteration 1: ") && text.contains(word), "{text}");
    }
}
