//! The product of two block-sparse matrices, by pairs of their stored blocks.

use bsr_codegen::Refusal;

use super::{Structure, check_numbers};

/// Which pairs of stored blocks a product C = A B multiplies: for each block of C the blocks `A[i, k]` and `B[k, j]` that
/// are both stored, ascending by k.
#[doc(hidden)]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pairs {
    /// Rows of blocks are the blocks of C; their columns are the numbers of B's blocks.
    index: Structure,
    /// The number of A's block of each pair.
    a_blocks: Vec<i32>,
    /// Stored elements of A, and of B.
    stored: [usize; 2],
    /// Rows of C, and columns in a block of it.
    rows: usize,
    width: usize,
    /// Blocks in a row of C, and whether all of them are written.
    columns: usize,
    is_dense: bool,
    /// The block columns of each row of C whose blocks are numbered, and the number of the first one.
    rows_of_c: Vec<(usize, Vec<u32>)>,
    /// The block of K of each of B's blocks.
    depths: Vec<u32>,
}

impl Pairs {
    /// Those of all blocks of C, or of the blocks that a sparse C stores. The shapes and blocks must multiply.
    ///
    /// # Errors
    /// More blocks or pairs than 32 bits count.
    pub fn new(a: &Structure, b: &Structure, c: Option<&Structure>) -> Result<Self, Refusal> {
        [a, b].into_iter().try_for_each(|factor| check_numbers(factor.nnzb()))?;
        let columns = b.block_cols();
        let mut places = Places { row_ptr: vec![0], b_blocks: vec![], a_blocks: vec![] };
        // Of the current row of C: where the pairs of each of its columns go, if any do.
        let mut lists: Vec<Option<usize>> = vec![None; columns];
        let mut rows_of_c = Vec::with_capacity(a.block_rows());
        for row in 0..a.block_rows() {
            let stored: Vec<u32> = match c {
                Some(c) => c.col_idx()[c.blocks_of(row)].iter().map(|column| *column as u32).collect(),
                None => (0..columns as u32).collect(),
            };
            lists.fill(None);
            for (place, column) in stored.iter().enumerate() {
                lists[*column as usize] = Some(place);
            }
            let blocks = places.row_ptr.len() - 1;
            places.add_row((a, b), row, &lists, stored.len())?;
            rows_of_c.push((blocks, stored));
        }
        let depths = (0..b.block_rows()).flat_map(|row| vec![row as u32; b.blocks_of(row).len()]).collect();
        let Places { row_ptr, b_blocks, a_blocks } = places;
        let (bm, bk) = a.block();
        let blocks = row_ptr.len() - 1;
        let index = Structure::new(blocks * bm, b.nnzb() * bk, (bm, bk), row_ptr, b_blocks)?;
        let rows = if c.is_none() { a.rows() } else { index.rows() };
        Ok(Self {
            index,
            a_blocks,
            stored: [a.stored(), b.stored()],
            rows,
            width: b.block().1,
            columns,
            is_dense: c.is_none(),
            rows_of_c,
            depths,
        })
    }

    /// Rows of blocks are the blocks of C; their columns are the numbers of B's blocks.
    pub(crate) fn index(&self) -> &Structure {
        &self.index
    }

    /// The number of A's block of each pair.
    pub(crate) fn a_blocks(&self) -> &[i32] {
        &self.a_blocks
    }

    /// Stored elements of A, and of B.
    pub fn stored(&self) -> [usize; 2] {
        self.stored
    }

    /// How many pairs there are.
    pub fn count(&self) -> usize {
        self.a_blocks.len()
    }

    /// Stored blocks of A, and of B.
    pub fn blocks(&self) -> [usize; 2] {
        let (bm, bk) = self.index.block();
        [self.stored[0] / (bm * bk).max(1), self.depths.len()]
    }

    /// Whether C is dense: all of its blocks are written.
    pub(crate) fn is_dense(&self) -> bool {
        self.is_dense
    }

    /// Rows and columns of blocks of C.
    pub(crate) fn blocks_of_c(&self) -> (usize, usize) {
        (self.rows_of_c.len(), self.columns)
    }

    /// The number of the block of C at a place, if it is written.
    pub fn number(&self, row: usize, column: usize) -> Option<usize> {
        let (first, columns) = self.rows_of_c.get(row)?;
        Some(first + columns.binary_search(&(column as u32)).ok()?)
    }

    /// The pairs of a block of C: the block of K, the number of A's block, that of B's.
    pub fn of_block(&self, block: usize) -> impl Iterator<Item = [u32; 3]> + '_ {
        self.index.blocks_of(block).map(|at| {
            let of_b = self.index.col_idx()[at] as u32;
            [self.depths[of_b as usize], self.a_blocks[at] as u32, of_b]
        })
    }

    /// Columns of C in a block.
    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// Rows of C: of a sparse one those of its values.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// First row and column of a block of C, by its number.
    pub fn place(&self, block: usize) -> (usize, usize) {
        // The values of a sparse C are one block below another.
        let columns = if self.is_dense { self.columns } else { 1 };
        (block / columns * self.index.block().0, block % columns * self.width)
    }
}

/// The lists while they grow.
struct Places {
    row_ptr: Vec<i32>,
    b_blocks: Vec<i32>,
    a_blocks: Vec<i32>,
}

impl Places {
    /// Adds the pairs of a row of C, of which `lists` says the place of each column among `count`.
    fn add_row(
        &mut self,
        (a, b): (&Structure, &Structure),
        row: usize,
        lists: &[Option<usize>],
        count: usize,
    ) -> Result<(), Refusal> {
        let pairs = || {
            a.blocks_of(row).flat_map(|of_a| {
                let of_b = b.blocks_of(a.col_idx()[of_a] as usize);
                of_b.filter_map(move |of_b| Some((lists[b.col_idx()[of_b] as usize]?, of_a, of_b)))
            })
        };
        let mut starts = vec![0; count + 1];
        pairs().for_each(|(list, ..)| starts[list + 1] += 1);
        let first = self.a_blocks.len();
        let mut end = first;
        for start in &mut starts {
            end += *start;
            *start = end;
        }
        for start in &starts[1..] {
            self.row_ptr.push(i32::try_from(*start).map_err(|_| too_many(end))?);
        }
        self.b_blocks.resize(end, 0);
        self.a_blocks.resize(end, 0);
        for (list, of_a, of_b) in pairs() {
            let at = &mut starts[list];
            // The numbers of blocks were checked to fit.
            (self.a_blocks[*at], self.b_blocks[*at]) = (of_a as i32, of_b as i32);
            *at += 1;
        }
        Ok(())
    }
}

fn too_many(pairs: usize) -> Refusal {
    Refusal::new(format!("the product has {pairs} pairs of blocks or more, and 2^31 = 2147483648 are too many"))
        .help("split A by rows and multiply the parts")
}

impl Structure {
    /// The pattern of the product of two block-sparse matrices: the blocks of C for which `A[i, k]` and `B[k, j]` are both
    /// stored for some k. A result of `op = sss` with this pattern loses nothing.
    ///
    /// # Errors
    /// When the columns of A are not the rows of B, or are cut into other blocks; more blocks than [`Structure::new`] takes.
    pub fn product(&self, b: &Self) -> Result<Self, Refusal> {
        self.multiplies(b)?;
        let (mut row_ptr, mut col_idx) = (vec![0], Vec::new());
        // The row that last had each column.
        let mut last = vec![None; b.block_cols()];
        for row in 0..self.block_rows() {
            let first = col_idx.len();
            for block in self.blocks_of(row) {
                for column in &b.col_idx()[b.blocks_of(self.col_idx()[block] as usize)] {
                    if last[*column as usize].replace(row) != Some(row) {
                        col_idx.push(*column);
                    }
                }
            }
            col_idx[first..].sort_unstable();
            row_ptr.push(col_idx.len() as i64);
        }
        Self::new(self.rows(), b.cols(), (self.block().0, b.block().1), row_ptr, col_idx)
    }

    /// How many pairs of stored blocks `A[i, k]` and `B[k, j]` the product of two block-sparse matrices has; with a pattern of
    /// C, of the blocks that it stores.
    ///
    /// # Errors
    /// As [`Structure::product`]; a pattern of another shape.
    #[doc(hidden)]
    pub fn pairs(&self, b: &Self, c: Option<&Self>) -> Result<u64, Refusal> {
        self.multiplies(b)?;
        let Some(c) = c else {
            let lengths: Vec<u64> = b.row_lengths().map(|length| length as u64).collect();
            return Ok(self.col_idx().iter().map(|column| lengths[*column as usize]).sum());
        };
        if (c.rows(), c.cols(), c.block()) != (self.rows(), b.cols(), (self.block().0, b.block().1)) {
            let ((rows, cols), (bm, bn)) = ((self.rows(), b.cols()), (self.block().0, b.block().1));
            return Err(Refusal::new(format!("C is {} x {} in blocks of {:?}", c.rows(), c.cols(), c.block()))
                .why(format!("the product is {rows} x {cols} in blocks of {bm} x {bn}"))
                .help("give a pattern of the product"));
        }
        Ok(Pairs::new(self, b, Some(c))?.a_blocks.len() as u64)
    }

    /// Whether A and B have the same K, in the same blocks.
    ///
    /// # Errors
    /// What differs.
    pub(crate) fn multiplies(&self, b: &Self) -> Result<(), Refusal> {
        let (k, rows, (bm, bk), (found, bn)) = (self.cols(), b.rows(), self.block(), b.block());
        if k != rows {
            return Err(Refusal::new(format!("A is {} x {k}, B is {rows} x {}", self.rows(), b.cols()))
                .why("the columns of A are the rows of B")
                .help(format!("give B {k} rows")));
        }
        if bk == found {
            return Ok(());
        }
        Err(Refusal::new(format!("A has blocks of {bm} x {bk}, B of {found} x {bn}"))
            .why("a pair of blocks has one K: the columns of A's blocks are the rows of B's")
            .help(format!("give B in blocks of {bk} x {bn}")))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::Pattern;

    /// A has rows 1, 0, 2 of blocks, B an empty column.
    fn factors() -> [Structure; 2] {
        [
            Structure::new(40, 24, (16, 8), vec![0, 1, 1, 3], vec![1, 0, 2]).unwrap(),
            Structure::new(24, 50, (8, 16), vec![0, 2, 3, 5], vec![0, 3, 1, 1, 3]).unwrap(),
        ]
    }

    #[test]
    fn every_block_of_c_has_its_pairs_in_order() {
        let [a, b] = factors();
        let pairs = Pairs::new(&a, &b, None).unwrap();
        let lists: Vec<_> = (0..12)
            .map(|block| {
                let of = pairs.index().blocks_of(block);
                of.map(|at| (pairs.a_blocks()[at], pairs.index().col_idx()[at])).collect::<Vec<_>>()
            })
            .collect();
        assert_eq!(lists[..4], [vec![], vec![(0, 2)], vec![], vec![]]);
        assert!(lists[4..8].iter().all(Vec::is_empty));
        assert_eq!(lists[8..], [vec![(1, 0)], vec![(2, 3)], vec![], vec![(1, 1), (2, 4)]]);
        assert_eq!([0, 5, 11].map(|block| pairs.place(block)), [(0, 0), (16, 16), (32, 48)]);
    }

    #[test]
    fn a_pattern_of_c_chooses_blocks() {
        let [a, b] = factors();
        let c = a.product(&b).unwrap();
        assert_eq!((c.row_ptr(), c.col_idx()), (&[0, 1, 1, 4][..], &[1, 0, 1, 3][..]));
        assert_eq!((a.pairs(&b, None).unwrap(), a.pairs(&b, Some(&c)).unwrap()), (5, 5));
        let mask = Structure::new(40, 50, (16, 16), vec![0, 0, 1, 3], vec![2, 2, 3]).unwrap();
        let pairs = Pairs::new(&a, &b, Some(&mask)).unwrap();
        assert_eq!(pairs.index().row_ptr(), [0, 0, 0, 2]);
        assert_eq!((pairs.a_blocks(), pairs.index().col_idx()), (&[1, 2][..], &[1, 4][..]));
        assert_eq!([1, 2].map(|block| pairs.place(block)), [(16, 0), (32, 0)]);
    }

    #[test]
    fn the_pattern_of_a_product_is_that_of_its_pairs() {
        for seed in 0..4 {
            let a = Pattern::Random(0.2).structure(130, 90, (16, 8), seed).unwrap();
            let b = Pattern::Random(0.2).structure(90, 200, (8, 32), seed + 9).unwrap();
            let (c, pairs) = (a.product(&b).unwrap(), Pairs::new(&a, &b, None).unwrap());
            let filled: Vec<_> = pairs.index().row_lengths().map(|length| length > 0).collect();
            for row in 0..c.block_rows() {
                let stored: Vec<_> = c.col_idx()[c.blocks_of(row)].iter().map(|column| *column as usize).collect();
                let want: Vec<_> = (0..7).filter(|column| filled[row * 7 + column]).collect();
                assert_eq!(stored, want, "{row}");
            }
            assert_eq!(a.pairs(&b, None).unwrap(), pairs.a_blocks().len() as u64);
        }
    }

    #[test]
    fn factors_of_other_blocks_are_refused() {
        let [a, b] = factors();
        let other = Structure::empty(24, 50, (12, 16)).unwrap();
        let words = a.product(&other).unwrap_err().to_string();
        assert!(words.contains("A has blocks of 16 x 8, B of 12 x 16") && words.contains("8 x 16"), "{words}");
        assert!(b.product(&b).unwrap_err().to_string().contains("the columns of A are the rows of B"));
        assert!(a.pairs(&b, Some(&a)).unwrap_err().to_string().contains("the product is 40 x 50"));
    }
}
