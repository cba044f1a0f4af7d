//! Rows of a tensor in f64, for references that read each of them once a query.

use super::Tensor;
use crate::Element;
use crate::element::widened;

/// The rows of one head at a time, each widened when it is first read.
pub(super) struct WideRows<'t, T> {
    tensor: &'t Tensor<T>,
    /// Problem and head.
    at: [usize; 2],
    rows: Vec<Option<Vec<f64>>>,
}

impl<'t, T: Element> WideRows<'t, T> {
    pub(super) fn new(tensor: &'t Tensor<T>) -> Self {
        Self { tensor, at: [0; 2], rows: vec![] }
    }

    /// Row `[problem, head, row]`.
    pub(super) fn row(&mut self, at @ [problem, head, row]: [usize; 3]) -> &[f64] {
        if self.rows.is_empty() || self.at != [problem, head] {
            self.at = [problem, head];
            self.rows.clear();
            self.rows.resize(self.tensor.sizes()[2], None);
        }
        self.rows[row].get_or_insert_with(|| widened(self.tensor.row(at)))
    }
}
