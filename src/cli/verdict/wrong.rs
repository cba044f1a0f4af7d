//! The elements of a wrong result: how many, and in what shape.

use std::fmt;

use bsr::{Dense, Element, Layout};

/// The row and column of C that an element in a row and column of what is compared is.
pub(super) type Place<'p> = &'p dyn Fn(usize, usize) -> (usize, usize);

/// Elements that are far from right: how many, and the rectangle that holds them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wrong {
    count: usize,
    of: usize,
    pub(super) rows: (usize, usize),
    pub(super) cols: (usize, usize),
    /// The bytes of C at which the first of them lie.
    pub(super) bytes: Vec<usize>,
}

impl Wrong {
    /// An element is far off where it differs by this part of the root of the mean square.
    const FAR: f64 = 0.05;
    /// Elements that are kept by their places.
    const KEPT: usize = 1_000_000;

    /// `place` says where in C an element of `got` is.
    pub(super) fn new<C: Element>(got: &Dense<C>, rows: &[usize], want: &[f64], place: Place<'_>) -> Option<Self> {
        let finite = want.iter().filter(|value| value.is_finite());
        let (sum, count) = finite.fold((0.0, 0), |(sum, count), value| (sum + value * value, count + 1));
        let far = Self::FAR * (sum / f64::from(count.max(1))).sqrt();
        let mut found: Option<Self> = None;
        for (at, want) in want.iter().enumerate() {
            let (row, col) = (rows[at / got.cols()], at % got.cols());
            let value = got.get(row, col).map_or(f64::NAN, Element::to_f64);
            let right = value == *want || (value - want).abs() <= far + Self::FAR * want.abs();
            if right {
                continue;
            }
            let (line, within) = if got.layout() == Layout::RowMajor { (row, col) } else { (col, row) };
            let byte = (line * got.ld() + within) * size_of::<C>();
            let (of, (row, col)) = (rows.len() * got.cols(), place(row, col));
            let first = Self { count: 0, of, rows: (row, row), cols: (col, col), bytes: Vec::new() };
            let all = found.get_or_insert(first);
            all.count += 1;
            if all.bytes.len() < Self::KEPT {
                all.bytes.push(byte);
            }
            all.rows = (all.rows.0.min(row), all.rows.1.max(row));
            all.cols = (all.cols.0.min(col), all.cols.1.max(col));
        }
        found
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ((top, bottom), (left, right)) = (self.rows, self.cols);
        let area = (bottom - top + 1) * (right - left + 1);
        let dense = if area == self.count { "all" } else { "some" };
        write!(
            f,
            "{} of {} elements are far off: {dense} of rows {top} to {bottom}, columns {left} to {right}",
            self.count, self.of
        )
    }
}
