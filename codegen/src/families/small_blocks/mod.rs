//! The family of small blocks: 1 to 8 rows by 1 to 8 columns, times 1 to 16 columns, on CUDA cores.
//!
//! Such a product is bound by memory: it does two operations for every value that it reads and every column. So the
//! kernel's shape follows from how values are read: once, in whole lines, many at a time. A group of threads of one
//! warp serves a block row. Thread `lane` of a group has row `lane % bm` of block `lane / bm` of as many blocks as the
//! group has room for, so that the group reads neighbouring memory, and its sums stay in registers until the row is
//! done. Then the blocks' sums are added by shuffles, in a fixed order. There is no shared memory, and nothing is added
//! in global memory. B, the vector or the few columns that blocks are multiplied with, is read through the caches.
//!
//! With `lanes = 1` there are no groups: a CTA reads the blocks of all its block rows together, and a thread adds up a row of C
//! from products in shared memory (`plan::together`).
//!
//! Of a transposed product a thread has a column of a block, and the blocks of a column of blocks are listed.

mod emit;
mod kernel;
mod plan;
mod table;

pub(crate) use plan::{SmallBlocksPlan, takes};
