//! How far a result is from the reference.

use std::fmt;

use rayon::prelude::*;

use bsr_codegen::Refusal;

use super::no_row;
use crate::{DenseView, Element};

/// Two results of different size.
pub(super) fn other_shape(got: usize, rows: usize, cols: usize) -> Refusal {
    Refusal::new(format!("{got} elements against {rows} * {cols} = {} wanted", rows * cols))
        .help("compare matrices of one shape")
}

/// A result that is compared with the reference.
///
/// A NaN or infinity on either side, even on both at the same place, makes the comparison fail at any
/// tolerance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Comparison {
    /// Frobenius norm of the difference over that of the reference, `||got - want|| / ||want||`. Infinite when
    /// anything is not finite; against a reference of zeros, 0 for zeros and infinite otherwise.
    pub relative: f64,
    /// The largest difference of two elements; infinite when anything is not finite.
    pub max_abs: f64,
    /// Row and column of the largest difference, the first of several: where to look. `None` when there are
    /// no elements. Rows count in what was compared.
    pub worst: Option<(usize, usize)>,
    /// The element at `worst`; 0 without elements.
    pub got: f64,
    /// The reference at `worst`; 0 without elements.
    pub want: f64,
    /// Number of places where either side is a NaN or an infinity.
    pub not_finite: usize,
}

impl Comparison {
    /// Compares two row-major matrices with `cols` columns.
    ///
    /// # Errors
    /// When they differ in length or do not fill whole rows.
    pub fn new(got: &[f64], want: &[f64], cols: usize) -> Result<Self, Refusal> {
        let rows = want.len().checked_div(cols).unwrap_or(0);
        if got.len() != want.len() || rows * cols != want.len() {
            return Err(other_shape(got.len(), rows, cols));
        }
        Ok(Self::of(rows, cols, |row, col| got[row * cols + col], want))
    }

    /// Compares a matrix with the row-major reference of the same shape, as [`of_rows`](Self::of_rows) does.
    ///
    /// # Errors
    /// When the reference has another number of elements.
    pub fn of_dense<'a, T: Element>(got: impl Into<DenseView<'a, T>>, want: &[f64]) -> Result<Self, Refusal> {
        let got = got.into();
        let rows: Vec<usize> = (0..got.rows()).collect();
        Self::of_rows(got, &rows, want)
    }

    /// Compares rows `rows` of a matrix with the reference of these rows, as [`multiply_rows`] gives it. The row
    /// of [`worst`](Self::worst) is a position in `rows`.
    ///
    /// A type that saturates ([`Element::saturates`]) cannot hold more than its largest value: that is what the
    /// reference asks of it, too.
    ///
    /// # Errors
    /// When the matrix lacks one of the rows or the reference has another number of elements.
    ///
    /// [`multiply_rows`]: super::multiply_rows
    pub fn of_rows<'a, T: Element>(
        got: impl Into<DenseView<'a, T>>,
        rows: &[usize],
        want: &[f64],
    ) -> Result<Self, Refusal> {
        let got = got.into();
        if let Some(at) = rows.iter().position(|&row| row >= got.rows()) {
            return Err(no_row(at, rows[at], got.rows()));
        }
        if rows.len() * got.cols() != want.len() {
            return Err(other_shape(want.len(), rows.len(), got.cols()));
        }
        let element = |row: usize, col| got.get(rows[row], col).map_or(f64::NAN, Element::to_f64);
        if T::saturates() {
            // A NaN of the reference stays one.
            let least = T::from_f64(f64::NEG_INFINITY).to_f64();
            let want: Vec<f64> = want.par_iter().map(|want| want.clamp(least, T::LARGEST)).collect();
            return Ok(Self::of(rows.len(), got.cols(), element, &want));
        }
        Ok(Self::of(rows.len(), got.cols(), element, want))
    }

    /// True when the relative error is at most `tolerance` and everything is finite.
    pub fn passes(&self, tolerance: f64) -> bool {
        self.not_finite == 0 && self.relative <= tolerance
    }

    fn of(rows: usize, cols: usize, got: impl Fn(usize, usize) -> f64 + Sync, want: &[f64]) -> Self {
        // Row by row in parallel, then added in order: the same result for any number of threads.
        let parts: Vec<PartialComparison> = (0..rows)
            .into_par_iter()
            .map(|row| {
                let mut part = PartialComparison::default();
                for (col, &want) in want[row * cols..][..cols].iter().enumerate() {
                    part.add((row, col), got(row, col), want);
                }
                part
            })
            .collect();
        parts.into_iter().fold(PartialComparison::default(), PartialComparison::join).finish()
    }
}

/// Elements that are NaN, infinite, or what a result is filled with before a launch: these were probably never written.
pub fn unwritten<'a, T: Element>(got: impl Into<DenseView<'a, T>>) -> usize {
    let got = got.into();
    // No NaN equals another: only integers are compared with what C is filled with.
    let unwritten = |value: &&T| !value.is_finite() || **value == T::POISON;
    (0..got.lines()).into_par_iter().map(|line| got.line(line).iter().filter(unwritten).count()).sum()
}

/// The comparison of some of the elements.
#[derive(Clone, Copy, Default)]
struct PartialComparison {
    difference: f64,
    reference: f64,
    not_finite: usize,
    worst: Option<Worst>,
}

#[derive(Clone, Copy)]
struct Worst {
    at: (usize, usize),
    abs: f64,
    got: f64,
    want: f64,
}

impl PartialComparison {
    fn add(&mut self, at: (usize, usize), got: f64, want: f64) {
        let finite = got.is_finite() && want.is_finite();
        let abs = if finite { (got - want).abs() } else { f64::INFINITY };
        if finite {
            self.difference += abs * abs;
            self.reference += want * want;
        } else {
            self.not_finite += 1;
        }
        self.keep_worse(Some(Worst { at, abs, got, want }));
    }

    fn join(mut self, next: Self) -> Self {
        self.difference += next.difference;
        self.reference += next.reference;
        self.not_finite += next.not_finite;
        self.keep_worse(next.worst);
        self
    }

    fn keep_worse(&mut self, other: Option<Worst>) {
        if let Some(other) = other
            && self.worst.is_none_or(|worst| other.abs > worst.abs)
        {
            self.worst = Some(other);
        }
    }

    fn finish(self) -> Comparison {
        let relative = if self.not_finite > 0 {
            f64::INFINITY
        } else if self.difference == 0.0 {
            0.0
        } else {
            // Against a reference of zeros this is infinite.
            (self.difference / self.reference).sqrt()
        };
        Comparison {
            relative,
            max_abs: self.worst.map_or(0.0, |worst| worst.abs),
            worst: self.worst.map(|worst| worst.at),
            got: self.worst.map_or(0.0, |worst| worst.got),
            want: self.worst.map_or(0.0, |worst| worst.want),
            not_finite: self.not_finite,
        }
    }
}

impl Comparison {
    /// Where the largest difference is, in words that follow those of the relative error.
    pub fn largest(&self) -> String {
        let mut words = String::new();
        if let Some((row, col)) = self.worst {
            let [got, want] = [self.got, self.want].map(significant);
            let place = format!("at row {row}, column {col}: got {got}, want {want}");
            words = format!(", largest difference {:.3e} {place}", self.max_abs);
        }
        if self.not_finite > 0 {
            words.push_str(&format!("; {} places are NaN or infinite", self.not_finite));
        }
        words
    }
}

/// A number to the seven digits that f32 has.
fn significant(value: f64) -> f64 {
    format!("{value:.6e}").parse().unwrap_or(value)
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "relative error {:.3e}{}", self.relative, self.largest())
    }
}

/// The relative Frobenius error `||got - want|| / ||want||`, as in [`Comparison::relative`]; infinite when the
/// lengths differ, so a missing part never passes.
pub fn relative_error(got: &[f64], want: &[f64]) -> f64 {
    Comparison::new(got, want, want.len()).map_or(f64::INFINITY, |comparison| comparison.relative)
}
