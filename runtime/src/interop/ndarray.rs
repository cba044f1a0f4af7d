//! Dense matrices as views of ndarray, and back: the same memory, nothing is copied.

use bsr_codegen::{Layout, Refusal};
use ndarray::{ArrayView2, ArrayViewMut2, Ix2, ShapeBuilder, StrideShape};

use super::order;
use crate::{Dense, DenseView, Element};

fn shape((rows, cols): (usize, usize), layout: Layout, ld: usize) -> StrideShape<Ix2> {
    if rows == 0 || cols == 0 {
        return (rows, cols).into();
    }
    let strides = match layout {
        Layout::RowMajor => (ld, 1),
        Layout::ColMajor => (1, ld),
    };
    (rows, cols).strides(strides)
}

/// ```
/// use bsr_runtime::{Dense, Layout};
/// use ndarray::ArrayView2;
///
/// let matrix = Dense::from_fn(2, 3, Layout::ColMajor, |row, col| (row * 3 + col) as f32);
/// let array = ArrayView2::from(matrix.view());
/// assert_eq!(array.row(1).to_vec(), [3.0, 4.0, 5.0]);
/// ```
impl<'a, T: Element> From<DenseView<'a, T>> for ArrayView2<'a, T> {
    fn from(view: DenseView<'a, T>) -> Self {
        let (extents, layout, ld) = ((view.rows(), view.cols()), view.layout(), view.ld());
        ArrayView2::from_shape(shape(extents, layout, ld), view.data()).expect("a view holds its own shape")
    }
}

impl<'a, T: Element> From<&'a Dense<T>> for ArrayView2<'a, T> {
    fn from(dense: &'a Dense<T>) -> Self {
        dense.view().into()
    }
}

impl<'a, T: Element> From<&'a mut Dense<T>> for ArrayViewMut2<'a, T> {
    fn from(dense: &'a mut Dense<T>) -> Self {
        let (extents, layout, ld) = ((dense.rows(), dense.cols()), dense.layout(), dense.ld());
        ArrayViewMut2::from_shape(shape(extents, layout, ld), dense.data_mut()).expect("a matrix holds its own shape")
    }
}

/// ```
/// use bsr_runtime::{Blocks, Bsr, DenseView};
/// use ndarray::{array, s};
///
/// let weights = array![[1.0f32, 2.0, 0.0], [3.0, 4.0, 0.0]];
/// let view = DenseView::try_from(weights.slice(s![.., 1..]))?;
/// assert_eq!(Bsr::from_dense(view, (1, 1), Blocks::NonZero)?.nnzb(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
impl<'a, T: Element> TryFrom<ArrayView2<'a, T>> for DenseView<'a, T> {
    type Error = Refusal;

    /// # Errors
    /// Where neither rows nor columns are contiguous.
    fn try_from(array: ArrayView2<'a, T>) -> Result<Self, Refusal> {
        let (rows, cols) = array.dim();
        let strides = [array.strides()[0] as i64, array.strides()[1] as i64];
        let (layout, ld) = order((rows, cols), strides)?;
        let (lines, line) = match layout {
            Layout::RowMajor => (rows, cols),
            Layout::ColMajor => (cols, rows),
        };
        let elements = if array.is_empty() { 0 } else { (lines - 1) * ld + line };
        // SAFETY: the array is valid for its lifetime up to its last element, which lies that far from the first one:
        // both strides are positive.
        let data = unsafe { std::slice::from_raw_parts(array.as_ptr(), elements) };
        DenseView::new(rows, cols, layout, ld, data)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use ndarray::{Array2, s};

    use super::*;

    #[test]
    fn elements_are_where_they_were_in_both_orders() {
        for layout in [Layout::RowMajor, Layout::ColMajor] {
            let mut matrix = Dense::from_fn(3, 5, layout, |row, col| (row * 5 + col) as f32);
            ArrayViewMut2::from(&mut matrix)[[2, 4]] = -1.0;
            let array = ArrayView2::from(&matrix);
            assert_eq!((array.dim(), array[[1, 2]], array[[2, 4]]), ((3, 5), 7.0, -1.0));
            let back = DenseView::try_from(array).unwrap();
            assert_eq!((back.layout(), back.ld(), back.to_f64()), (layout, matrix.ld(), matrix.to_f64()));
        }
        let empty = Dense::<f32>::zeros(0, 4, Layout::RowMajor);
        assert_eq!(DenseView::try_from(ArrayView2::from(&empty)).unwrap().rows(), 0);
    }

    #[test]
    fn strides_that_no_matrix_has_are_refused() {
        let array = Array2::<f32>::zeros((4, 6));
        let refused = DenseView::try_from(array.slice(s![..;2, ..;2])).unwrap_err();
        assert!(refused.to_string().contains("2 x 3 matrix with strides of 12 and 2 elements"), "{refused}");
        assert!(DenseView::try_from(array.slice(s![..;-1, ..])).is_err());
        // A single row or column has any stride.
        assert_eq!(DenseView::try_from(array.slice(s![.., 2..3])).unwrap().ld(), 6);
        assert_eq!(DenseView::try_from(array.slice(s![1..2, ..])).unwrap().cols(), 6);
    }
}
