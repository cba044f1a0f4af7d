//! The threads that serve the rows of small blocks.

/// Bytes of a row of a block up to which a CTA that reads its rows together is the faster form.
const TOGETHER: u32 = 16;

/// The `lanes` of a product with a few columns whose blocks have so many rows, and so many bytes in each; `blocks` of them are in
/// a block row.
///
/// All rows of a CTA together for short rows of blocks, and otherwise groups of threads ([`lanes_of_row`]). Measured with 27 blocks
/// a row (`benches/LOG.md`, 103): 1 x 1 and 2 x 2 in f64 and to 4 x 4 in f32 are faster together.
pub fn threads_of_row(rows: u32, row_bytes: u32, blocks: f64) -> u32 {
    if row_bytes <= TOGETHER { 1 } else { lanes_of_row(rows, blocks) }
}

/// Threads of a warp that should serve a row of `blocks` blocks of `rows` rows: as many as have three rounds of blocks in
/// it, 8 to 32.
///
/// Larger groups leave threads idle in the last round, and smaller ones read less of each row at once. Measured with 27
/// blocks a row (`benches/LOG.md`, 69 and 85): 16 for 2 x 2 and 3 x 3, 32 from 4 x 4 on.
pub fn lanes_of_row(rows: u32, blocks: f64) -> u32 {
    let rounds = |lanes: &u32| 3.0 * f64::from(lanes / rows.max(1)) <= blocks;
    [32, 16].into_iter().find(rounds).unwrap_or(8)
}

#[cfg(test)]
mod tests {
    use super::{lanes_of_row, threads_of_row};

    #[test]
    fn short_rows_of_blocks_are_read_together() {
        for (side, bytes, together) in [(1, 8, true), (2, 8, true), (3, 8, false), (4, 4, true), (5, 4, false)] {
            assert_eq!(threads_of_row(side, side * bytes, 27.0) == 1, together, "{side} x {side} of {bytes} bytes");
        }
    }

    #[test]
    fn groups_are_those_that_were_fastest() {
        for (rows, blocks, lanes) in
            [(2, 27.0, 16), (3, 27.0, 16), (4, 27.0, 32), (5, 27.0, 32), (8, 27.0, 32), (3, 7.0, 8), (3, 90.0, 32)]
        {
            assert_eq!(lanes_of_row(rows, blocks), lanes, "{rows} rows, {blocks} blocks");
        }
    }
}
