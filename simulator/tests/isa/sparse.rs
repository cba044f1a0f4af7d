//! A sparse matrix, as tests make it up: which elements it has, their metadata, and the dense rows that it stands for.

use crate::formats::Format;

/// Rows of which every two or four neighbours have one or two elements.
#[derive(Clone, Copy)]
pub(crate) struct SparseRows {
    pub(crate) format: Format,
    /// Elements of a row, zeros included.
    pub(crate) k: usize,
    /// The places of the elements of row `.0` that are stored, in chunk `.1`.
    pub(crate) pick: fn(usize, usize) -> (usize, usize),
}

const PAIRS: [(usize, usize); 8] = [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3), (3, 0), (2, 1)];

/// Pairs of all kinds, in both orders.
pub(crate) fn mixed(row: usize, chunk: usize) -> (usize, usize) {
    PAIRS[(row * 5 + chunk * 3 + row / 8) % 8]
}

/// Pairs of all kinds that ascend.
pub(crate) fn ascending(row: usize, chunk: usize) -> (usize, usize) {
    PAIRS[(row * 5 + chunk + row / 8) % 6]
}

impl SparseRows {
    /// Elements of a chunk, and those of them that are stored.
    pub(crate) fn chunk(&self) -> (usize, usize) {
        if self.format.bytes() == 4 { (2, 1) } else { (4, 2) }
    }

    /// The place along k of stored element `i` of a row.
    pub(crate) fn place(&self, row: usize, i: usize) -> usize {
        let (size, stored) = self.chunk();
        let (one, other) = (self.pick)(row, i / stored);
        i / stored * size + if stored == 1 { one % 2 } else { [one, other][i % 2] }
    }

    /// Stored element `i` of a row.
    pub(crate) fn element(&self, row: usize, i: usize) -> u32 {
        self.format.draw(row * 32 + i, 1)
    }

    /// The metadata of `count` chunks of a row, 4 bits each.
    pub(crate) fn metadata(&self, row: usize, from: usize, count: usize) -> u32 {
        let bits = |chunk: usize| {
            let (one, other) = (self.pick)(row, chunk);
            match self.chunk().0 {
                2 => [0b0100, 0b1110][one % 2],
                _ => (one | other << 2) as u32,
            }
        };
        (0..count).fold(0, |word, c| word | bits(from + c) << (4 * c))
    }

    /// The product of a row with a column of B, and the sum of its products' magnitudes.
    pub(crate) fn product(&self, row: usize, b: impl Fn(usize) -> f64) -> (f64, f64) {
        let mut dense = vec![0.0; self.k];
        for i in 0..self.k / 2 {
            dense[self.place(row, i)] = self.format.value(self.element(row, i));
        }
        let products = dense.iter().enumerate().filter(|(_, x)| **x != 0.0).map(|(k, x)| x * b(k));
        products.fold((0.0, 0.0), |(s, t), p| (s + p, t + p.abs()))
    }
}
