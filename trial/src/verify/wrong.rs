//! The elements of a wrong result: how many, and in what shape.

use std::fmt;

use bsr_runtime::reference::Fused;
use bsr_runtime::{Dense, Element, Layout};

/// The row and column of C that an element in a row and column of what is compared is.
pub(super) type Place<'p> = &'p dyn Fn(usize, usize) -> (usize, usize);

/// Elements that are beyond their bounds: how many, and the rectangle that holds them.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Wrong {
    count: usize,
    of: usize,
    pub(super) rows: (usize, usize),
    pub(super) cols: (usize, usize),
    /// The bytes of C at which the first of them lie.
    pub(super) bytes: Vec<usize>,
    /// Row, column, difference and bound of the one that is beyond its bound by the largest factor.
    worst: (usize, usize, f64, f64),
}

impl Wrong {
    /// Elements that are kept by their places.
    const KEPT: usize = 1_000_000;

    /// `place` says where in C an element of `got` is.
    pub(super) fn new<C: Element>(got: &Dense<C>, rows: &[usize], want: &Fused, place: Place<'_>) -> Option<Self> {
        let bounds = want.bounds.as_ref()?;
        let mut found: Option<Self> = None;
        for (at, want) in want.c.iter().enumerate() {
            let (row, col) = (rows[at / got.cols()], at % got.cols());
            let value = got.get(row, col).unwrap_or(C::POISON);
            if bounds.allow(at, value, *want) {
                continue;
            }
            let (line, within) = if got.layout() == Layout::RowMajor { (row, col) } else { (col, row) };
            let byte = (line * got.ld() + within) * size_of::<C>();
            let (of, (row, col)) = (rows.len() * got.cols(), place(row, col));
            let (off, bound) = ((value.to_f64() - want).abs(), bounds.at(at, *want));
            let first = Self {
                count: 0,
                of,
                rows: (row, row),
                cols: (col, col),
                bytes: Vec::new(),
                worst: (row, col, off, bound),
            };
            let all = found.get_or_insert(first);
            all.count += 1;
            if off * all.worst.3 > all.worst.2 * bound {
                all.worst = (row, col, off, bound);
            }
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
        )?;
        let (row, col, off, bound) = self.worst;
        write!(f, "; row {row}, column {col} is off by {off:.1e}, and at most {bound:.1e} is right")
    }
}
