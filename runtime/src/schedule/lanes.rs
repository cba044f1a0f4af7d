//! The groups of threads that serve the rows of small blocks.

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
    use super::lanes_of_row;

    #[test]
    fn groups_are_those_that_were_fastest() {
        for (rows, blocks, lanes) in
            [(2, 27.0, 16), (3, 27.0, 16), (4, 27.0, 32), (5, 27.0, 32), (8, 27.0, 32), (3, 7.0, 8), (3, 90.0, 32)]
        {
            assert_eq!(lanes_of_row(rows, blocks), lanes, "{rows} rows, {blocks} blocks");
        }
    }
}
