//! Facts that matrices of fields must have: symmetry, null spaces, definiteness, and derivatives that agree with differences.
#![allow(clippy::unwrap_used)]

mod cholesky;
mod elements;
mod fluxes;
mod graph;

use super::Field;
use crate::{Bsr, Layout, reference};

fn field(text: &str) -> Bsr<f64> {
    text.parse::<Field>().unwrap().matrix(3).unwrap()
}

/// A x.
fn times(matrix: &Bsr<f64>, x: &[f64]) -> Vec<f64> {
    let x = crate::Dense::from_vec(x.len(), 1, Layout::ColMajor, x.len(), x.to_vec()).unwrap();
    reference::multiply(matrix, &x).unwrap()
}

fn norm(x: &[f64]) -> f64 {
    x.iter().map(|x| x * x).sum::<f64>().sqrt()
}

/// |A x| over |A|, for an x whose elements are about 1.
fn residual(matrix: &Bsr<f64>, x: &[f64]) -> f64 {
    norm(&times(matrix, x)) / norm(matrix.values()) / (norm(x) / (x.len() as f64).sqrt())
}

/// The largest element of A - A^T over that of A.
fn asymmetry(matrix: &Bsr<f64>) -> f64 {
    let transposed = matrix.transpose().unwrap();
    assert_eq!(transposed.structure(), matrix.structure());
    let pairs = transposed.values().iter().zip(matrix.values());
    pairs.map(|(x, y)| (x - y).abs()).fold(0.0, f64::max)
        / matrix.values().iter().fold(0.0, |most, x| x.abs().max(most))
}

#[test]
fn sizes_are_read_back_and_blocks_are_natural() {
    for (text, block, rows) in [
        ("elasticity:2x3x4", 3, 2 * 4 * 5),
        ("stokes:2x3x4", 4, 3 * 4 * 5),
        ("reservoir:2x3x4", 3, 2 * 3 * 4),
        ("euler:2x3x4", 5, 2 * 3 * 4),
        ("shell:3x4", 6, 3 * 5),
        ("graph:20x3x7", 7, 20),
        ("elasticity:1x1x1", 3, 4),
        ("stokes:1x1x1", 4, 8),
        ("reservoir:1x1x1", 3, 1),
        ("euler:1x1x1", 5, 1),
        ("shell:1x1", 6, 2),
        ("graph:1x5x2", 2, 1),
    ] {
        let parsed: Field = text.parse().unwrap();
        assert_eq!((parsed.to_string(), parsed.block()), (text.to_owned(), block));
        let matrix = field(text);
        assert_eq!(
            (matrix.block(), matrix.block_rows(), matrix.rows()),
            ((block, block), rows, block * rows),
            "{text}"
        );
        assert!(matrix.values().iter().all(|value| value.is_finite()), "{text}");
        assert_eq!(matrix, field(text), "{text}: the same seed gives the same matrix");
    }
}

#[test]
fn blocks_are_those_of_the_stencil() {
    // Points with a neighbour on both sides of an axis have 3 there, the two at its ends 2.
    let along = |points: usize| 3 * points - 2;
    assert_eq!(field("elasticity:4x3x2").nnzb(), along(4) * along(4) * along(3));
    assert_eq!(field("shell:4x3").nnzb(), along(4) * along(4));
    let star = |[x, y, z]: [usize; 3]| 7 * x * y * z - 2 * (x * y + y * z + z * x);
    assert_eq!(field("euler:4x3x2").nnzb(), star([4, 3, 2]));
    assert_eq!(field("reservoir:1x5x2").nnzb(), star([1, 5, 2]));
}

#[test]
fn a_seed_changes_what_is_drawn_and_nothing_else() {
    for (text, is_drawn) in
        [("elasticity:2x2x2", false), ("reservoir:2x2x2", true), ("euler:2x2x2", true), ("graph:9x2x2", true)]
    {
        let of = |seed| text.parse::<Field>().unwrap().matrix(seed).unwrap();
        assert_eq!(of(0) != of(1), is_drawn, "{text}");
    }
}

#[test]
fn wrong_fields_are_refused_with_a_remedy() {
    for (text, fact) in [
        ("plasticity:2x2x2", "`plasticity:2x2x2` is not a field\n  help: write one of elasticity:XxYxZ, "),
        ("shell", "`shell`: `` is not 2 whole numbers, XxY\n  help: write shell:64x64"),
        ("shell:2x2x2", "`shell:2x2x2`: `2x2x2` is not 2 whole numbers, XxY"),
        ("euler:2x-1x2", "`2x-1x2` is not 3 whole numbers, XxYxZ"),
        ("graph:10x2", "`10x2` is not 3 whole numbers, NODESxEDGESxBLOCK"),
    ] {
        let error = text.parse::<Field>().unwrap_err().to_string();
        assert!(error.contains(fact), "{error}");
    }
    for (text, fact) in [
        ("euler:2x0x2", "euler:2x0x2: a size is 0"),
        ("graph:2x2x0", "a size is 0"),
        ("elasticity:2000x2000x2000", "does not fit memory"),
        ("stokes:18446744073709551615x1x1", "does not fit memory"),
        ("graph:18446744073709551615x18446744073709551615x2", "does not fit memory"),
    ] {
        let error = text.parse::<Field>().unwrap().matrix(0).unwrap_err().to_string();
        assert!(error.contains(fact) && error.contains("\n  help: "), "{error}");
    }
}
