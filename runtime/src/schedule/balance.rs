//! Dealing tiles to clusters.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::{Tile, WorkItem};

/// Share of the columns that is dealt for locality; the rest evens out the finish.
const LOCAL: f64 = 0.875;

/// Tile `i`, counted down each column of tiles in turn, goes to cluster `i mod clusters`.
pub(super) fn strided(rows: &[Tile], columns: &[u32], clusters: usize) -> Vec<Vec<WorkItem>> {
    let mut lists = vec![vec![]; clusters];
    let group: usize = std::env::var("BSR_GROUP")
        .ok()
        .and_then(|s| s.parse().ok())
        .unwrap_or(1);
    for (i, item) in columns
        .chunks(group)
        .flat_map(|cs| {
            rows.iter()
                .flat_map(move |row| cs.iter().map(move |column| at(row, *column)))
        })
        .enumerate()
    {
        lists[i % clusters].push(item);
    }
    lists
}

/// The first columns of tiles go, one after the other, to whichever cluster would be free first; the last ones
/// are dealt longest tile first, which leaves clusters within about one short tile of each other (Graham, Bounds
/// on Multiprocessing Timing Anomalies, 1969).
pub(super) fn balanced(rows: &[Tile], columns: &[u32], clusters: usize) -> Vec<Vec<WorkItem>> {
    if rows.iter().all(|row| row.cost == rows[0].cost) {
        return strided(rows, columns, clusters);
    }
    let local: f64 = std::env::var("BSR_LOCAL")
        .ok()
        .and_then(|s| s.parse().ok())
        .unwrap_or(LOCAL);
    let group: usize = std::env::var("BSR_GROUP")
        .ok()
        .and_then(|s| s.parse().ok())
        .unwrap_or(1);
    let local = (columns.len() as f64 * local) as usize;
    let mut tiles: Vec<(u32, &Tile)> = columns
        .chunks(group)
        .flat_map(|cs| {
            rows.iter()
                .flat_map(move |row| cs.iter().map(move |column| (*column, row)))
        })
        .collect();
    tiles[local * rows.len()..].sort_by_key(|(_, row)| Reverse(row.cost));

    let mut lists: Vec<Vec<WorkItem>> = vec![vec![]; clusters];
    let mut free: BinaryHeap<Reverse<(u64, usize)>> =
        (0..clusters).map(|c| Reverse((0, c))).collect();
    for (column, row) in tiles {
        let Some(Reverse((busy, cluster))) = free.pop() else {
            break;
        };
        lists[cluster].push(at(row, column));
        free.push(Reverse((busy + row.cost, cluster)));
    }
    for list in &mut lists {
        list.sort_by_key(|item| item.c_col / (group as u32 * 256));
    }
    lists
}

fn at(row: &Tile, column: u32) -> WorkItem {
    WorkItem {
        c_col: column,
        ..row.item
    }
}
