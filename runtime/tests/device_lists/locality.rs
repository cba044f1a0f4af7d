//! What clusters read from device memory while they work through their lists, next to those of the host: blocks of A, and the
//! rows of B under a tile, by way of a cache that forgets what was used longest ago.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};

use bsr_codegen::lists::{Shape, specification};
use bsr_runtime::Structure;
use bsr_runtime::schedule::{WorkPlan, WorkTile};

use crate::shapes::{plan, rows, shape, structure};

/// Half of the L2 of an H200, whose halves hold the same.
const CACHE_BYTES: usize = 25 << 20;
/// So much more than with the lists of the host may be read.
const WORSE: f64 = 1.15;

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Key {
    /// A slice of a block.
    A(usize, u32),
    /// The rows of B of a block column, under a column of tiles.
    B(i32, u32),
    /// A tile of C.
    C(u32, u32),
}

#[derive(Default)]
struct Cache {
    /// When each was used last, and its bytes.
    held: HashMap<Key, (u64, usize)>,
    used: VecDeque<(u64, Key)>,
    bytes: usize,
    now: u64,
}

impl Cache {
    /// Uses bytes, and tells how many were not held.
    fn touch(&mut self, key: Key, bytes: usize) -> usize {
        self.now += 1;
        self.used.push_back((self.now, key));
        let missed = if self.held.insert(key, (self.now, bytes)).is_none() { bytes } else { 0 };
        self.bytes += missed;
        while self.bytes > CACHE_BYTES {
            let (time, oldest) = self.used.pop_front().unwrap();
            if self.held[&oldest].0 == time {
                self.bytes -= self.held.remove(&oldest).unwrap().1;
            }
        }
        missed
    }
}

/// Bytes of A and B that are read by lists of {c_row, c_col}; a block takes every cluster as long as another.
fn bytes_read(shape: &Shape, structure: &Structure, lists: &[Vec<[u32; 2]>]) -> usize {
    let (height, width, depth) = (shape.tile.rows as usize, shape.tile.columns as usize, structure.block().1);
    let mut cache = Cache::default();
    let mut read = 0;
    // When, who, which tile, which of its blocks.
    let mut steps: BinaryHeap<_> = (0..lists.len()).map(|cluster| Reverse((0_u32, cluster, 0, 0))).collect();
    while let Some(Reverse((time, cluster, tile, at))) = steps.pop() {
        let Some([c_row, c_col]) = lists[cluster].get(tile).copied() else { continue };
        let blocks = structure.blocks_of((c_row / shape.tile.block_rows) as usize);
        if let Some(block) = blocks.clone().nth(at) {
            read += cache.touch(Key::B(structure.col_idx()[block], c_col), 2 * depth * width);
            read += cache.touch(Key::A(block, c_row % shape.tile.block_rows), 2 * depth * height);
            steps.push(Reverse((time + 1, cluster, tile, at + 1)));
        } else {
            cache.touch(Key::C(c_row, c_col), 2 * height * width);
            steps.push(Reverse((time + 1, cluster, tile + 1, 0)));
        }
    }
    read
}

#[test]
fn as_much_is_read_from_device_memory_as_with_the_lists_of_the_host() {
    let (square, large) = ((8192, 8192), (12288, 12288));
    for (spec, size, n, pattern, clusters) in [
        ("bm = 128, bn = 256, bk = 128, cluster = 2", square, 8192, "random:0.25", 66),
        ("bm = 128, bn = 256, bk = 128, cluster = 2", square, 8192, "random:0.03", 66),
        ("bm = 64, bn = 256, bk = 64, cluster = 4", large, 6144, "powerlaw:0.06", 32),
        ("bm = 64, bn = 256, bk = 64, cluster = 2", large, 6144, "powerlaw:0.06", 66),
        ("bm = 64, bn = 256, bk = 64, cluster = 2", square, 8192, "random:0.25", 66),
        ("bm = 128, bn = 256, bk = 128, cluster = 2", square, 8192, "causal", 66),
    ] {
        let plan = plan(spec);
        let structure = structure(&plan, size, pattern, 1);
        let shape = shape(&plan, &structure, n, clusters);
        let host = WorkPlan::new(&plan, &structure, n, clusters);
        let of_host = |list: &[WorkTile]| list.iter().map(|tile| [tile.c_row, tile.c_col]).collect();
        let host: Vec<Vec<_>> = host.lists().map(of_host).collect();
        let lists = specification::assign(&shape, &rows(&plan, &structure));
        let of_gpu = |cluster| {
            let tiles = lists.tiles.iter().skip(cluster).step_by(shape.clusters as usize);
            tiles.map_while(|tile| tile.map(|[c_row, c_col, ..]| [c_row, c_col])).collect()
        };
        let own: Vec<Vec<_>> = (0..shape.clusters as usize).map(of_gpu).collect();
        let [host, own] = [host, own].map(|lists| bytes_read(&shape, &structure, &lists) as f64 / 1e6);
        println!("{:.3}: {own:.0} MB against {host:.0}: {spec}, {pattern}", own / host);
        assert!(own <= WORSE * host, "{own:.0} MB against {host:.0}: {spec}, {pattern}");
    }
}
