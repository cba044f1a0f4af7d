//! What the kernels of `templates/lists` compute, one thing after the other: the algorithms in Rust, next to the PTX that
//! executes them with many threads. Tests compare the kernels' output with these functions, word by word.
//!
//! **`assign`** assigns the tiles of C to clusters (`assign_body.ptx`). Row `r` of tiles costs `ClusterTile::cost` under
//! every column. All sums are of 32 bits; the limits of `Shape::new` see to it.
//!
//! 1. *Rows of one cost* (`in_turn.ptx`): tile `t` goes to cluster `t mod clusters`, along the rows under a group of columns,
//!    down under one group and up under the next. This is the host's list.
//! 2. *Panels* (`panels.ptx`, `shares.ptx`, `write_panels.ptx`): otherwise columns are in panels of `Shape::panel` columns, at
//!    most `Shape::PANELS`. The tiles of a panel are divided in turn into as many shares as there are clusters. For each panel
//!    the share that costs most goes to the cluster with the smallest load, and so on. Where a share has
//!    `Shape::PAIRED_TURNS` tiles or more, every second panel takes the order of the clusters of the panel before it, in
//!    reverse. If no cluster then has more than `Shape::LEVEL` of the average, or than the longest tile, these are the lists.
//! 3. *Rounds* (`sort.ptx`, `rounds.ptx`): otherwise as many panels stay as leave room for `Shape::FINE_TILES` tiles of each
//!    cluster and for the longest tile, and leave no cluster above the average of all columns. The tiles of the columns behind
//!    them are assigned the longest first, in rounds: those clusters take part that have the smallest load, or would have with
//!    one tile more of the present cost; each gets one tile in the order of loads. Several rounds at once go down that order and
//!    up again. Where all clusters take part, one in `Shape::SHARE_OF_LEFT` of the rounds that are left is done at once. Tiles
//!    that fill no round go first, so that the rounds behind them make up for them. Where a panel's largest share costs more
//!    than `Shape::UNEVEN` times the average, all panels are assigned so, one after the other, and then the last columns.
//! 4. *Swaps* (`swap.ptx`): `Shape::SWAPS` times the cluster with the largest load and the one with the smallest, and so on
//!    inwards, swap those two of their last `Shape::RECENT` tiles that level them most.
//! 5. *Places* (`place.ptx`): the tiles of step 3 are in each list in the order of `Shape::BUCKETS` groups of columns.
//!
//! The longest first is Graham's rule (Bounds on Multiprocessing Timing Anomalies, 1969). Work is `O(tiles)` and one ordering of
//! at most 511 clusters a panel, round or swap; the host's scheduler takes a heap operation a tile.
//!
//! **`group_rows`** finds the block rows that share tiles (`shared_groups.ptx`, `shared_overlaps.ptx`,
//! `shared_exchange.ptx`). Neighbours are in groups of `pack` rows at first. Among the rows of a CTA, every two groups meet once,
//! in the order of a tournament (the circle method), and exchange the two rows whose exchange leaves most block columns in common
//! within the groups (Kernighan and Lin, 1970). Rows of `C` block columns take `near_rows^2 / 2 * C / 32` words to compare and
//! `groups - 1` rounds.
//!
//! **`by_length`** lists an attention whose K and V are in pages (`length_tiles.ptx`): the steps of all tiles follow each other
//! and are divided equally (stream-K), by [`LengthLists`](super::LengthLists).

mod assign;
mod by_length;
mod group_rows;

pub use assign::{Lists, assign};
pub use by_length::by_length;
pub use group_rows::group_rows;
