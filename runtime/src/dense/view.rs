//! A borrowed dense matrix with any leading dimension.

use std::ops::Range;

use bsr_codegen::{Layout, Refusal};
use rayon::prelude::*;

use super::{Dense, lines_of};
use crate::Element;

/// A dense matrix in borrowed memory: `rows` x `cols` elements in lines that lie `ld` elements apart.
///
/// In a row-major view the lines are rows, in a column-major one they are columns; within a line elements
/// are adjacent. The elements between the end of a line and the next one are no part of the matrix and are never read.
#[derive(Clone, Copy)]
pub struct DenseView<'a, T> {
    rows: usize,
    cols: usize,
    layout: Layout,
    ld: usize,
    data: &'a [T],
}

impl<'a, T: Element> DenseView<'a, T> {
    /// Sees `data` as a `rows` x `cols` matrix whose lines lie `ld` elements apart.
    ///
    /// # Errors
    /// When a line is longer than `ld`, or `data` ends before the last element of the last line.
    pub fn new(rows: usize, cols: usize, layout: Layout, ld: usize, data: &'a [T]) -> Result<Self, Refusal> {
        let (lines, line) = lines_of(rows, cols, layout);
        if ld < line {
            let padded = Dense::<T>::padded_ld(line);
            let matrix = format!("a {rows} x {cols} matrix in {layout}-major order");
            return Err(Refusal::new(format!("leading dimension {ld} is shorter than a line"))
                .why(format!("{matrix} has lines of {line} elements"))
                .help(format!("give ld >= {line} ({padded} is the next one that keeps lines 16-byte aligned)")));
        }
        let need = match lines {
            0 => 0,
            _ if line == 0 => 0,
            _ => (lines - 1).checked_mul(ld).and_then(|n| n.checked_add(line)).ok_or_else(|| {
                let matrix = format!("a {rows} x {cols} matrix with leading dimension {ld}");
                Refusal::new(format!("{matrix} has offsets beyond the address space"))
                    .help("split it by rows or columns")
            })?,
        };
        let len = data.len();
        if len < need {
            let matrix = format!("a {rows} x {cols} matrix in {layout}-major order with leading dimension {ld}");
            return Err(Refusal::new(format!("{len} elements do not hold {matrix}"))
                .why(format!("({lines} - 1) * {ld} + {line} = {need}"))
                .help(format!("give {} more, or a smaller shape", need - len)));
        }
        Ok(Self { rows, cols, layout, ld, data })
    }

    /// The memory the view was made of, from its first element.
    pub fn data(&self) -> &'a [T] {
        self.data
    }

    /// The element at `row`, `col`; `None` outside the matrix.
    pub fn get(&self, row: usize, col: usize) -> Option<T> {
        if row >= self.rows || col >= self.cols {
            return None;
        }
        let (line, at) = match self.layout {
            Layout::RowMajor => (row, col),
            Layout::ColMajor => (col, row),
        };
        self.data.get(line * self.ld + at).copied()
    }

    /// Number of lines: rows of a row-major view, columns of a column-major one.
    pub fn lines(&self) -> usize {
        lines_of(self.rows, self.cols, self.layout).0
    }

    /// The contiguous elements of line `index`.
    ///
    /// # Panics
    /// When `index >= self.lines()`.
    pub fn line(&self, index: usize) -> &'a [T] {
        let (lines, line) = lines_of(self.rows, self.cols, self.layout);
        assert!(index < lines, "line {index} of {lines}");
        if line == 0 { &[] } else { &self.data[index * self.ld..][..line] }
    }

    /// The same memory seen as the transposed matrix.
    pub fn transposed(self) -> Self {
        let layout = match self.layout {
            Layout::RowMajor => Layout::ColMajor,
            Layout::ColMajor => Layout::RowMajor,
        };
        Self { rows: self.cols, cols: self.rows, layout, ..self }
    }

    /// The part at `rows` and `cols`, in the same memory.
    ///
    /// # Errors
    /// When a range reaches outside the matrix or ends before it starts.
    pub fn part(&self, rows: Range<usize>, cols: Range<usize>) -> Result<Self, Refusal> {
        check_part("rows", &rows, self.rows)?;
        check_part("columns", &cols, self.cols)?;
        let first = match self.layout {
            Layout::RowMajor => rows.start * self.ld + cols.start,
            Layout::ColMajor => cols.start * self.ld + rows.start,
        };
        // A part without elements may start past the end of the memory.
        let data = self.data.get(first..).unwrap_or_default();
        Ok(Self { rows: rows.len(), cols: cols.len(), data, ..*self })
    }

    /// Copies the elements into a matrix of its own, in order `layout`, with lines padded to 16 bytes.
    pub fn to_dense(&self, layout: Layout) -> Dense<T> {
        let mut copy = Dense::zeros(self.rows, self.cols, layout);
        if layout == self.layout {
            copy.for_each_line(|index, line| line.copy_from_slice(self.line(index)));
        } else {
            copy.for_each_line(|index, line| {
                for (at, slot) in line.iter_mut().enumerate() {
                    *slot = self.data[at * self.ld + index];
                }
            });
        }
        copy
    }

    /// The elements as `f64`, row by row without gaps: `rows * cols` values.
    pub fn to_f64(&self) -> Vec<f64> {
        let mut wide = vec![0.0; self.rows * self.cols];
        if self.cols > 0 {
            wide.par_chunks_mut(self.cols).enumerate().for_each(|(row, out)| match self.layout {
                Layout::RowMajor => out.iter_mut().zip(self.line(row)).for_each(|(w, v)| *w = v.to_f64()),
                Layout::ColMajor => {
                    out.iter_mut().enumerate().for_each(|(col, w)| *w = self.data[col * self.ld + row].to_f64());
                }
            });
        }
        wide
    }
}

/// Its shape.
impl<T> DenseView<'_, T> {
    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Whether rows or columns are contiguous.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Leading dimension: elements from the start of one line to the start of the next.
    pub fn ld(&self) -> usize {
        self.ld
    }
}

fn check_part(what: &'static str, part: &Range<usize>, len: usize) -> Result<(), Refusal> {
    if part.start <= part.end && part.end <= len {
        return Ok(());
    }
    let (start, end) = (part.start, part.end);
    Err(Refusal::new(format!("{what} {start}..{end} is not a part of a matrix with {len} {what}"))
        .help(format!("a range with start <= end <= {len}")))
}
