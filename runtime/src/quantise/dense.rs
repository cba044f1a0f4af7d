//! The dense operand: a scale for the matrix, for every column, or for every group of `bk` rows x 128 columns.

use bsr_codegen::{Layout, Refusal, Scale};
use rayon::prelude::*;

use super::narrow::{NanPolicy, Narrow, amax, narrow, not_finite, refused, scale_of};
use crate::{Dense, DenseView, Element, Scales};

/// The same matrix in 8 bits, column-major with lines padded to 16 bytes, and its scales: none, one, one for every
/// column, or one for every `bk` rows x 128 columns, row by row. A row-major matrix is transposed in memory here, once,
/// so that a launch needs not.
///
/// # Errors
/// The first value, column by column, that `nan` refuses; groups of no rows.
pub fn dense<'b, T: Narrow, S: Element>(
    b: impl Into<DenseView<'b, S>>,
    scale: Scale,
    bk: usize,
    nan: NanPolicy,
) -> Result<(Dense<T>, Vec<f32>), Refusal> {
    let b = b.into();
    if bk == 0 {
        return Err(Refusal::new("groups of bk = 0 rows of B have no scale")
            .help("give the columns of a block of A, at least 1"));
    }
    let columns = Columns::of(b);
    let (k, n) = (b.rows(), b.cols());
    let wrong = (0..n).into_par_iter().find_map_first(|col| {
        let at = columns.get(col).position(|value| refused::<T, S>(value, nan))?;
        Some((at, col))
    });
    if let Some((row, col)) = wrong {
        let value = b.get(row, col).map_or(f64::NAN, Element::to_f64);
        return Err(not_finite("B", (row, col), value, T::DTYPE));
    }
    let groups = n.div_ceil(Scales::GROUP);
    let scales: Vec<f32> = match scale {
        Scale::Unscaled => Vec::new(),
        Scale::Tensor => {
            let most = (0..n).into_par_iter().map(|col| amax(columns.get(col))).reduce(|| 0.0, f64::max);
            vec![scale_of::<T>(most)]
        }
        Scale::RowCol => (0..n).into_par_iter().map(|col| scale_of::<T>(amax(columns.get(col)))).collect(),
        Scale::Block => (0..k.div_ceil(bk) * groups)
            .into_par_iter()
            .map(|at| {
                let (first_row, first_col) = (at / groups * bk, at % groups * Scales::GROUP);
                let group = first_col..(first_col + Scales::GROUP).min(n);
                scale_of::<T>(amax(group.flat_map(|col| columns.get(col).skip(first_row).take(bk))))
            })
            .collect(),
    };
    let mut narrowed = Dense::zeros(k, n, Layout::ColMajor);
    narrowed.for_each_line(|col, line: &mut [T]| {
        for (row, (slot, value)) in line.iter_mut().zip(columns.get(col)).enumerate() {
            let scale = match scale {
                Scale::Unscaled => 1.0,
                Scale::Tensor => scales[0],
                Scale::RowCol => scales[col],
                Scale::Block => scales[row / bk * groups + col / Scales::GROUP],
            };
            *slot = narrow(value, scale);
        }
    });
    Ok((narrowed, scales))
}

/// A matrix read by columns, in whatever order it lies.
#[derive(Clone, Copy)]
struct Columns<'b, S> {
    data: &'b [S],
    rows: usize,
    /// From an element to the next one of its column, and to the next one of its row.
    stride: (usize, usize),
}

impl<'b, S: Element> Columns<'b, S> {
    fn of(b: DenseView<'b, S>) -> Self {
        let stride = match b.layout() {
            Layout::RowMajor => (b.ld(), 1),
            Layout::ColMajor => (1, b.ld()),
        };
        Self { data: b.data(), rows: b.rows(), stride }
    }

    /// The elements of a column, from the first row on.
    fn get(self, col: usize) -> impl Iterator<Item = S> + 'b {
        let first = self.data.get(col * self.stride.1..).unwrap_or_default();
        first.iter().step_by(self.stride.0.max(1)).take(self.rows).copied()
    }
}
