//! The kernels on the simulator.

use bsr_runtime::Element;
use bsr_runtime::solve::{Method, Options, Preconditioner, on_host, simulate};
use half::{bf16, f16};

use crate::problem::{Case, cases, mixed_cases, residual};

fn solves<V: Element, T: Element>(case: Case, rtol: f64) {
    let (a, b) = (case.matrix::<V>(), case.right_hand_side::<T>());
    let request = (case.method, case.preconditioner);
    let mut norms = vec![];
    let mut callback = |norm| norms.push(norm);
    let mut options = Options { rtol, callback: Some(&mut callback), ..Options::default() };
    let (solution, findings) = simulate(&a, request, (&b, None), &mut options).unwrap();
    assert!(findings.is_empty(), "{case:?}: {findings:#?}");
    let found = residual(&a, &solution, &b);
    assert!(solution.converged && found <= 2.0 * rtol, "{case:?}: {found:e} after {}", solution.iterations);
    assert_eq!((norms.len(), norms.last()), (solution.iterations, Some(&solution.residual)), "{case:?}");

    let host = on_host(&a, request, (&b, None), &mut Options { rtol, ..Options::default() }).unwrap();
    let found = residual(&a, &host, &b);
    assert!(host.converged && found <= 2.0 * rtol, "{case:?} on the CPU: {found:e} after {}", host.iterations);
    let apart = host.iterations.abs_diff(solution.iterations);
    assert!(apart <= 1 + host.iterations / 10, "{case:?}: {} and {} iterations", host.iterations, solution.iterations);
}

#[test]
fn every_case_in_f64() {
    cases().into_iter().for_each(|case| solves::<f64, f64>(case, 1e-10));
}

#[test]
fn every_case_in_f32() {
    cases().into_iter().for_each(|case| solves::<f32, f32>(case, 1e-4));
}

/// The system is that of the values as they are stored: it is solved to the tolerance of the vectors.
#[test]
fn values_of_narrower_types() {
    for case in mixed_cases() {
        solves::<f32, f64>(case, 1e-10);
        solves::<f16, f64>(case, 1e-10);
        solves::<bf16, f32>(case, 1e-4);
    }
}

/// The preconditioner makes of a badly scaled matrix one that takes fewer iterations.
#[test]
fn block_jacobi_saves_iterations() {
    for method in Method::ALL {
        let iterations = [Preconditioner::None, Preconditioner::BlockJacobi].map(|preconditioner| {
            let case = Case { rows: 400, side: 3, method, preconditioner };
            let (a, b) = (case.matrix::<f64>(), case.right_hand_side::<f64>());
            on_host(&a, (method, preconditioner), (&b, None), &mut Options::default()).unwrap().iterations
        });
        assert!(iterations[1] < iterations[0], "{method:?}: {iterations:?}");
    }
}

/// How often the host looks changes nothing, nor does a second solve; x0 is where a solve begins.
#[test]
fn every_run_gives_the_same_bits() {
    for method in Method::ALL {
        let case = Case { rows: 121, side: 2, method, preconditioner: Preconditioner::BlockJacobi };
        let (a, b) = (case.matrix::<f64>(), case.right_hand_side::<f64>());
        let run = |chunk, max_iterations, x0: Option<&[f64]>| {
            let mut options = Options { chunk, max_iterations, ..Options::default() };
            simulate(&a, (method, case.preconditioner), (&b, x0), &mut options).unwrap().0
        };
        let whole = run(32, None, None);
        assert_eq!([1, 5, 1000].map(|chunk| run(chunk, None, None)), [&whole; 3].map(Clone::clone));
        let few = run(4, Some(3), None);
        assert_eq!((few.iterations, few.converged), (3, false), "{method:?}");
        assert_eq!(run(1, Some(3), None), few);
        assert_eq!(run(32, Some(0), None).x, [0.0; 121]);
        let again = run(32, None, Some(&whole.x));
        assert_eq!((again.iterations, again.x), (0, whole.x), "{method:?}");
    }
}

/// More rows than all CTAs have at once, and partial sums of more CTAs than one has threads.
#[test]
fn long_vectors() {
    let case = Case { rows: 140_001, side: 1, method: Method::Cg, preconditioner: Preconditioner::BlockJacobi };
    let (a, b) = (case.matrix::<f64>(), case.right_hand_side::<f64>());
    let request = (case.method, case.preconditioner);
    let options = || Options { max_iterations: Some(1), ..Options::default() };
    let (solution, findings) = simulate(&a, request, (&b, None), &mut options()).unwrap();
    assert!(findings.is_empty(), "{findings:#?}");
    let host = on_host(&a, request, (&b, None), &mut options()).unwrap();
    assert!((solution.residual - host.residual).abs() <= 1e-12 * host.residual, "{solution:?}");
    let apart = solution.x.iter().zip(&host.x).map(|(one, other)| (one - other).abs()).fold(0.0, f64::max);
    assert!(apart <= 1e-12, "{apart:e}");
}
