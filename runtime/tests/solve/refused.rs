//! What is refused, and how methods break down.

use bsr_runtime::solve::{Method, Options, Preconditioner, SolveError, on_host, simulate};
use bsr_runtime::{Bsr, Structure};

type Request = (Method, Preconditioner);

const CG: Request = (Method::Cg, Preconditioner::None);
const JACOBI: Request = (Method::Cg, Preconditioner::BlockJacobi);
const BICGSTAB: Request = (Method::Bicgstab, Preconditioner::None);

/// A matrix of 2 x 2 blocks on the diagonal.
fn diagonal(blocks: &[[f64; 4]]) -> Bsr<f64> {
    let count = blocks.len();
    let (row_ptr, col_idx) = ((0..=count as i32).collect(), (0..count as i32).collect());
    let structure = Structure::new(2 * count, 2 * count, (2, 2), row_ptr, col_idx).unwrap();
    Bsr::from_structure(structure, blocks.concat()).unwrap()
}

/// The error on the simulator, which the CPU has also.
fn error(
    a: &Bsr<f64>,
    request: Request,
    b: &[f64],
    x0: Option<&[f64]>,
    options: impl Fn() -> Options<'static>,
) -> String {
    let simulated = simulate(a, request, (b, x0), &mut options()).unwrap_err();
    let host = on_host(a, request, (b, x0), &mut options()).unwrap_err();
    assert_eq!(simulated.to_string(), host.to_string());
    simulated.to_string()
}

const ONES: [f64; 4] = [1.0; 4];
const UNIT: [f64; 4] = [1.0, 0.0, 0.0, 1.0];

#[test]
fn what_no_solve_takes_is_refused_in_words() {
    let unit = diagonal(&[UNIT, UNIT]);
    let wide = Bsr::from_structure(Structure::empty(4, 6, (2, 2)).unwrap(), vec![]).unwrap();
    let large = Bsr::from_structure(Structure::empty(9, 9, (9, 9)).unwrap(), vec![]).unwrap();
    let flat = Bsr::from_structure(Structure::empty(4, 4, (2, 4)).unwrap(), vec![]).unwrap();
    let empty = Bsr::from_structure(Structure::empty(4, 4, (2, 2)).unwrap(), vec![]).unwrap();
    let singular = diagonal(&[UNIT, [1.0, 2.0, 2.0, 4.0]]);
    for (a, request, b, x0, word) in [
        (&wide, CG, &ONES[..], None, "A is 4 x 6"),
        (&large, CG, &ONES[..], None, "blocks of 9 x 9"),
        (&flat, JACOBI, &ONES[..], None, "square diagonal blocks"),
        (&empty, JACOBI, &ONES[..], None, "block row 0 is not stored"),
        (&singular, JACOBI, &ONES[..], None, "block row 1 is singular"),
        (&unit, CG, &ONES[..3], None, "b has 3 elements, and A has 4 rows"),
        (&unit, CG, &ONES[..], Some(&ONES[..2]), "x0 has 2 elements"),
        (&unit, CG, &[1.0, f64::NAN, 1.0, 1.0][..], None, "b is not finite"),
        (&unit, CG, &[1.0, f64::INFINITY, 1.0, 1.0][..], None, "b is not finite"),
    ] {
        let text = error(a, request, b, x0, Options::default);
        assert!(text.contains(word) && text.contains("help: "), "{word}: {text}");
    }
    let half = Bsr::<half::f16>::from_structure(Structure::empty(4, 4, (2, 2)).unwrap(), vec![]).unwrap();
    let text = on_host(&half, CG, (&[half::f16::ONE; 4], None), &mut Options::default()).unwrap_err().to_string();
    assert!(text.contains("b is of f16") && text.contains("help: "), "{text}");
    let text = on_host(&unit, CG, (&[1.0_f32; 4], None), &mut Options::default()).unwrap_err().to_string();
    assert!(text.contains("values of f64, and b is of f32") && text.contains("help: cast b to f64"), "{text}");
    for (options, word) in [
        (Options { rtol: -1.0, ..Options::default() }, "rtol = -1"),
        (Options { atol: f64::NAN, ..Options::default() }, "atol = NaN"),
        (Options { chunk: 0, ..Options::default() }, "chunk = 0"),
        (Options { chunk: 1001, ..Options::default() }, "chunk = 1001"),
    ] {
        let mut options = options;
        let text = on_host(&unit, CG, (&ONES, None), &mut options).unwrap_err().to_string();
        assert!(text.contains(word) && text.contains("help: "), "{text}");
    }
}

#[test]
fn a_method_that_cannot_go_on_says_in_which_iteration() {
    let indefinite = diagonal(&[UNIT, [-1.0, 0.0, 0.0, -3.0]]);
    let turned = diagonal(&[[0.0, 1.0, -1.0, 0.0]]);
    let zero = Bsr::from_structure(Structure::empty(4, 4, (2, 2)).unwrap(), vec![]).unwrap();
    let overflows = diagonal(&[[1e300, 0.0, 0.0, 1e300]]);
    for (a, request, b, x0, iteration, word) in [
        (&indefinite, CG, &ONES[..], None, 1, "not positive definite"),
        (&indefinite, JACOBI, &[1.0, 0.0, 2.0, 0.0][..], None, 0, "preconditioner"),
        (&turned, BICGSTAB, &ONES[..2], None, 1, "A M p"),
        (&zero, BICGSTAB, &ONES[..], None, 1, "A M p"),
        (&overflows, BICGSTAB, &ONES[..2], Some(&[1e300, 1.0][..]), 0, "not finite"),
    ] {
        let text = error(a, request, b, x0, Options::default);
        assert!(text.contains(&format!("iteration {iteration}: ")) && text.contains(word), "{word}: {text}");
    }
    let error = on_host(&turned, BICGSTAB, (&ONES[..2], None), &mut Options::default()).unwrap_err();
    assert!(matches!(error, SolveError::Breakdown(breakdown) if breakdown.iteration == 1));
}

/// As in scipy: the solution of b = 0 is 0, wherever a solve begins; and an empty row holds nothing up if b has a zero there.
#[test]
fn zeros() {
    let unit = diagonal(&[UNIT, UNIT]);
    let (solution, findings) = simulate(&unit, CG, (&[0.0; 4], Some(&ONES)), &mut Options::default()).unwrap();
    assert!(findings.is_empty() && solution.converged && solution.x == [0.0; 4], "{solution:?}");
    let structure = Structure::new(4, 4, (2, 2), vec![0, 1, 1], vec![0]).unwrap();
    let gap = Bsr::from_structure(structure, UNIT.to_vec()).unwrap();
    for request in [CG, BICGSTAB] {
        let (solution, findings) =
            simulate(&gap, request, (&[1.0, 2.0, 0.0, 0.0], None), &mut Options::default()).unwrap();
        assert!(findings.is_empty() && solution.converged, "{solution:?}");
        assert_eq!(solution.x, [1.0, 2.0, 0.0, 0.0]);
    }
    let nothing = Bsr::<f64>::from_structure(Structure::empty(0, 0, (2, 2)).unwrap(), vec![]).unwrap();
    let (solution, _) = simulate(&nothing, JACOBI, (&[0.0_f64; 0][..], None), &mut Options::default()).unwrap();
    assert!(solution.converged && solution.x.is_empty());
}
