//! Dense matrices: row- or column-major, with padded lines.

mod view;

use bsr_codegen::{Layout, Refusal};
use rayon::prelude::*;

pub use view::DenseView;

use crate::Element;
use crate::random::{Streams, fill_normal};

/// A dense matrix that owns its memory: `rows` x `cols` elements in lines that lie `ld` elements apart.
///
/// In a row-major matrix the lines are rows, in a column-major one they are columns; within a line elements
/// are adjacent. The constructors that allocate pad `ld` so that every line starts on a 16-byte boundary
/// relative to the first, which is what the GPU's tensor copies ask for; so N = 1 and odd N work.
#[derive(Clone)]
pub struct Dense<T> {
    rows: usize,
    cols: usize,
    layout: Layout,
    ld: usize,
    data: Vec<T>,
}

impl<T: Element> Dense<T> {
    /// The shortest leading dimension, in elements, that holds `line` elements and is a positive multiple
    /// of 16 bytes.
    pub fn padded_ld(line: usize) -> usize {
        line.max(1).next_multiple_of(16 / size_of::<T>())
    }

    /// A matrix of zeros; the padding is zero too.
    ///
    /// # Panics
    /// When the matrix exceeds the address space, as `vec!` does.
    pub fn zeros(rows: usize, cols: usize, layout: Layout) -> Self {
        Self::filled(rows, cols, layout, T::ZERO)
    }

    /// A matrix whose every element, padding included, is `value`.
    ///
    /// # Panics
    /// When the matrix exceeds the address space, as `vec!` does.
    pub fn filled(rows: usize, cols: usize, layout: Layout, value: T) -> Self {
        let (lines, line) = lines_of(rows, cols, layout);
        let ld = Self::padded_ld(line);
        let len = lines.checked_mul(ld).expect("the matrix exceeds the address space");
        Self { rows, cols, layout, ld, data: vec![value; len] }
    }

    /// A matrix with `value(row, col)` at each place; the padding is zero. The places are visited in
    /// parallel.
    ///
    /// # Panics
    /// When the matrix exceeds the address space, as `vec!` does.
    pub fn from_fn(rows: usize, cols: usize, layout: Layout, value: impl Fn(usize, usize) -> T + Sync) -> Self {
        let mut made = Self::zeros(rows, cols, layout);
        made.for_each_line(|index, line| {
            for (at, slot) in line.iter_mut().enumerate() {
                *slot = match layout {
                    Layout::RowMajor => value(index, at),
                    Layout::ColMajor => value(at, index),
                };
            }
        });
        made
    }

    /// A matrix of independent draws from N(0, 1); the padding is zero. Integers draw as wide as
    /// [`Element::SPREAD`] says, rounded.
    ///
    /// Line `i` is the `i`-th stream of the seed: the same on every platform and for any number of threads,
    /// and `normal(m, n, RowMajor, s)` is the transpose of `normal(n, m, ColMajor, s)`.
    ///
    /// # Panics
    /// When the matrix exceeds the address space, as `vec!` does.
    pub fn normal(rows: usize, cols: usize, layout: Layout, seed: u64) -> Self {
        let streams = Streams::new(seed, b"dense...");
        let mut made = Self::zeros(rows, cols, layout);
        made.for_each_line(|index, line| fill_normal(&mut streams.get(index), line));
        made
    }

    /// Takes `data` as a `rows` x `cols` matrix whose lines lie `ld` elements apart. Any `ld` that holds a
    /// line will do here; a launch asks for a multiple of 16 bytes (see [`padded_ld`](Self::padded_ld) and
    /// [`padded`](Self::padded)).
    ///
    /// # Errors
    /// When a line is longer than `ld`, or `data` ends before the last element of the last line.
    pub fn from_vec(rows: usize, cols: usize, layout: Layout, ld: usize, data: Vec<T>) -> Result<Self, Refusal> {
        DenseView::new(rows, cols, layout, ld, &data)?;
        Ok(Self { rows, cols, layout, ld, data })
    }

    /// The whole memory, padding included.
    pub fn data(&self) -> &[T] {
        &self.data
    }

    /// The whole memory for writing, padding included.
    pub fn data_mut(&mut self) -> &mut [T] {
        &mut self.data
    }

    /// The memory itself, padding included.
    pub fn into_vec(self) -> Vec<T> {
        self.data
    }

    /// The matrix, borrowed.
    pub fn view(&self) -> DenseView<'_, T> {
        DenseView::new(self.rows, self.cols, self.layout, self.ld, &self.data)
            .expect("a matrix holds its own shape, by construction")
    }

    /// The element at `row`, `col`; `None` outside the matrix.
    pub fn get(&self, row: usize, col: usize) -> Option<T> {
        self.view().get(row, col)
    }

    /// The same matrix with lines padded to 16 bytes: itself when its lines already are.
    pub fn padded(self) -> Self {
        if (self.ld * size_of::<T>()).is_multiple_of(16) { self } else { self.view().to_dense(self.layout) }
    }

    /// The same matrix in order `layout`, with lines padded to 16 bytes.
    pub fn to_layout(&self, layout: Layout) -> Self {
        self.view().to_dense(layout)
    }

    /// The same matrix in another element type, each element rounded once as [`Element::from_f64`] says, beyond the
    /// range of `U` too.
    pub fn cast<U: Element>(&self) -> Dense<U> {
        let view = self.view();
        let mut cast = Dense::zeros(self.rows, self.cols, self.layout);
        cast.for_each_line(|index, line: &mut [U]| {
            for (slot, value) in line.iter_mut().zip(view.line(index)) {
                *slot = U::from_f64(value.to_f64());
            }
        });
        cast
    }

    /// The elements as `f64`, row by row without gaps: `rows * cols` values.
    pub fn to_f64(&self) -> Vec<f64> {
        self.view().to_f64()
    }

    /// Calls `visit(index, line)` for every line, in parallel; a line is its elements without padding.
    pub(crate) fn for_each_line(&mut self, visit: impl Fn(usize, &mut [T]) + Sync) {
        let (lines, line) = lines_of(self.rows, self.cols, self.layout);
        if line == 0 {
            return;
        }
        // A foreign matrix may have memory after its last line, and need not have padding behind it.
        self.data.par_chunks_mut(self.ld).take(lines).enumerate().for_each(|(index, chunk)| {
            visit(index, &mut chunk[..line]);
        });
    }
}

/// Its shape.
impl<T> Dense<T> {
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

impl<'a, T: Element> From<&'a Dense<T>> for DenseView<'a, T> {
    fn from(dense: &'a Dense<T>) -> Self {
        dense.view()
    }
}

/// How many lines a matrix has, and how many elements a line has.
fn lines_of(rows: usize, cols: usize, layout: Layout) -> (usize, usize) {
    match layout {
        Layout::RowMajor => (rows, cols),
        Layout::ColMajor => (cols, rows),
    }
}

#[cfg(test)]
mod tests;
