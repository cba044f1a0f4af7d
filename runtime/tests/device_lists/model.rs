//! What the assigning kernel of `templates/lists` computes, one thing after the other. The simulator's output is compared
//! with it element by element, and it shows how level the lists are without running a kernel.

use std::cmp::Reverse;

use bsr_codegen::lists::Shape;

/// The lists of a launch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lists {
    /// Work tiles of each cluster.
    pub(crate) lengths: Vec<u32>,
    /// Tile `i` of cluster `c` is number `i * clusters + c`: {c_row, c_col, a_row, blocks}.
    pub(crate) tiles: Vec<Option<[u32; 4]>>,
    /// What the tiles of each cluster cost.
    pub(crate) loads: Vec<u32>,
    /// How often the clusters were ordered by their loads.
    pub(crate) rounds: u32,
}

/// The lists of rows of blocks as a kernel reads them: the number of the first block, and how many there are.
pub(crate) fn lists(shape: &Shape, rows: &[(u32, u32)]) -> Lists {
    let clusters = shape.clusters as usize;
    let mut lists = Lists {
        lengths: vec![0; clusters],
        tiles: vec![None; (shape.list_rows() * shape.clusters) as usize],
        loads: vec![0; clusters],
        rounds: 0,
    };
    let sorted = Sorted::new(shape, rows);
    let whole = sorted.whole_columns();
    for t in 0..whole * shape.tile_rows {
        let (place, column) = sorted.in_order(whole, t);
        let cluster = (t % shape.clusters) as usize;
        lists.place(&sorted, cluster, t / shape.clusters, place, column);
        lists.loads[cluster] += sorted.cost(place);
        lists.lengths[cluster] += 1;
    }
    if whole < shape.columns { Dealing::new(&sorted, lists, whole).finish() } else { lists }
}

/// The rows of tiles, longest first.
struct Sorted<'r> {
    shape: &'r Shape,
    rows: &'r [(u32, u32)],
    /// Row and cost at each place of the order.
    order: Vec<(u32, u32)>,
    total: u64,
}

impl<'r> Sorted<'r> {
    fn new(shape: &'r Shape, rows: &'r [(u32, u32)]) -> Self {
        let cost = |row: u32| shape.cost(rows[(row / shape.slices) as usize].1);
        let mut order: Vec<(u32, u32)> = (0..shape.tile_rows).map(|row| (row, cost(row))).collect();
        order.sort_by_key(|(row, cost)| (Reverse(cost >> shape.key_shift), *row));
        let total = order.iter().map(|(_, cost)| u64::from(*cost)).sum();
        Self { shape, rows, order, total }
    }

    fn cost(&self, place: u32) -> u32 {
        self.order[place as usize].1
    }

    /// Place of the row, and column, of tile `t` of the first `whole` columns.
    fn in_order(&self, whole: u32, t: u32) -> (u32, u32) {
        let (group, rows) = (self.shape.group, self.shape.tile_rows);
        let (number, at) = (t / (group * rows), t % (group * rows));
        let first = number * group;
        let together = group.min(whole - first);
        let place = at / together;
        (if number % 2 == 0 { place } else { rows - 1 - place }, first + at % together)
    }

    /// Columns of tiles that go to the clusters in turn.
    fn whole_columns(&self) -> u32 {
        let Shape { columns, clusters, tile_rows, .. } = *self.shape;
        let costs = || self.order.iter().map(|(_, cost)| *cost);
        let (longest, shortest) = (costs().max().unwrap_or(0), costs().min().unwrap_or(0));
        if longest == shortest {
            return columns;
        }
        let mean = (self.total * u64::from(columns) / u64::from(clusters)) as u32;
        let fits = |whole: u32| {
            let room = u64::from(longest) * u64::from(clusters) * u64::from(Shape::ROOM);
            let mut loads = vec![0; clusters as usize];
            for t in 0..whole * tile_rows {
                loads[(t % clusters) as usize] += self.cost(self.in_order(whole, t).0);
            }
            self.total * u64::from(columns - whole) >= room && loads.iter().all(|load| *load <= mean.max(longest))
        };
        let shares = Shape::SHARES.into_iter().map(|eighths| columns * eighths / 8);
        shares.take_while(|whole| *whole > 0).find(|whole| fits(*whole)).unwrap_or(0)
    }
}

impl Lists {
    fn place(&mut self, sorted: &Sorted<'_>, cluster: usize, at: u32, place: u32, column: u32) {
        let Shape { slices, tile, block_rows, clusters, .. } = *sorted.shape;
        let row = sorted.order[place as usize].0;
        let (first, blocks) = sorted.rows[(row / slices) as usize];
        let a_row = first * block_rows + row % slices * tile.0;
        let entry = &mut self.tiles[(at * clusters) as usize + cluster];
        assert_eq!(*entry, None, "two tiles at one place");
        *entry = Some([row * tile.0, column * tile.1, a_row, blocks]);
    }
}

/// The tiles of the last columns, which are dealt longest first.
struct Dealing<'s> {
    sorted: &'s Sorted<'s>,
    lists: Lists,
    whole: u32,
    columns: u32,
    most_rounds: u32,
    /// Of each tile the cluster, the group of columns, and its place there.
    dealt: Vec<(usize, usize, u32)>,
    /// Tiles of each cluster in each group of columns.
    counts: Vec<[u32; Shape::BUCKETS as usize]>,
    /// Tiles that may be swapped, of each cluster, and how many it was dealt.
    recent: Vec<([Option<u32>; Shape::RECENT as usize], usize)>,
}

impl<'s> Dealing<'s> {
    fn new(sorted: &'s Sorted<'s>, lists: Lists, whole: u32) -> Self {
        let Shape { clusters, tile_rows, .. } = *sorted.shape;
        let columns = sorted.shape.columns - whole;
        Self {
            sorted,
            lists,
            whole,
            columns,
            most_rounds: (columns * tile_rows).div_ceil(clusters) + whole * tile_rows / clusters,
            dealt: vec![(0, 0, 0); (columns * tile_rows) as usize],
            counts: vec![[0; Shape::BUCKETS as usize]; clusters as usize],
            recent: vec![Default::default(); clusters as usize],
        }
    }

    fn finish(mut self) -> Lists {
        let before = self.lists.lengths.clone();
        let aside = self.dealt.len() as u32 % self.sorted.shape.clusters;
        let limit = self.dealt.len() as u32 - aside;
        if aside > 0 {
            let ranked = self.ranked();
            self.give(&ranked, limit, aside);
        }
        let mut next = 0;
        while next < limit {
            next += self.round(next, limit - next);
        }
        for _ in 0..Shape::SWAPS {
            self.swap();
        }
        for q in 0..self.dealt.len() as u32 {
            let (cluster, bucket, at) = self.dealt[q as usize];
            let earlier: u32 = self.counts[cluster][..bucket].iter().sum();
            let (place, column) = (q / self.columns, self.whole + q % self.columns);
            self.lists.place(self.sorted, cluster, before[cluster] + earlier + at, place, column);
        }
        self.lists
    }

    /// The clusters in the order of their loads, with what each counts for.
    fn ranked(&self) -> Vec<(u32, usize)> {
        let key = |cluster: usize| {
            let load = match self.lists.lengths[cluster] {
                0 => 0,
                length if length >= 3 * self.most_rounds => Shape::MOST_LOAD,
                _ => (self.lists.loads[cluster] >> self.sorted.shape.load_shift).clamp(1, Shape::MOST_LOAD),
            };
            (load, cluster)
        };
        let mut ranked: Vec<_> = (0..self.lists.loads.len()).map(key).collect();
        ranked.sort_unstable();
        ranked
    }

    /// Deals tiles from `start` on, of `left` that are left, and tells how many.
    fn round(&mut self, start: u32, left: u32) -> u32 {
        let Shape { clusters, load_shift, .. } = *self.sorted.shape;
        let ranked = self.ranked();
        let cost = (self.sorted.cost(start / self.columns) >> load_shift).max(1);
        let active = ranked.iter().filter(|(load, _)| *load <= ranked[0].0 + cost).count();
        let rounds = match ranked.get(active) {
            None => left / clusters / Shape::SHARE_OF_LEFT,
            Some((ahead, _)) => (ahead - ranked[active - 1].0) / cost,
        };
        let taken = (active as u32 * rounds.max(1).min(self.most_rounds)).min(left);
        self.give(&ranked[..active], start, taken);
        self.lists.rounds += 1;
        taken
    }

    /// Gives tiles to clusters, down the ranks and up again.
    fn give(&mut self, ranked: &[(u32, usize)], start: u32, tiles: u32) {
        let shift = Shape::bucket_shift(self.columns);
        for j in 0..tiles {
            let (round, at) = (j as usize / ranked.len(), j as usize % ranked.len());
            let cluster = ranked[if round % 2 == 0 { at } else { ranked.len() - 1 - at }].1;
            let q = start + j;
            let bucket = ((q % self.columns) >> shift) as usize;
            self.dealt[q as usize] = (cluster, bucket, self.counts[cluster][bucket]);
            self.counts[cluster][bucket] += 1;
            let (recent, count) = &mut self.recent[cluster];
            recent[*count % Shape::RECENT as usize] = Some(q);
            *count += 1;
            self.lists.loads[cluster] += self.sorted.cost(q / self.columns);
            self.lists.lengths[cluster] += 1;
        }
    }

    /// The cluster with most and the one with least, and so on inwards, swap two tiles if that levels them.
    fn swap(&mut self) {
        let ranked = self.ranked();
        for pair in 0..ranked.len() / 2 {
            let (low, high) = (ranked[pair].1, ranked[ranked.len() - 1 - pair].1);
            let gap = self.lists.loads[high].saturating_sub(self.lists.loads[low]).min(Shape::MOST_GAP);
            let cost = |tile: Option<u32>| tile.map(|q| i64::from(self.sorted.cost(q / self.columns)));
            let mut best: Option<(i64, usize, usize, u32)> = None;
            for (give, given) in self.recent[high].0.iter().enumerate() {
                for (take, taken) in self.recent[low].0.iter().enumerate() {
                    let (Some(given), Some(taken)) = (cost(*given), cost(*taken)) else { continue };
                    let left = (i64::from(gap) - 2 * (given - taken)).abs();
                    if left < best.map_or(i64::from(gap), |(left, ..)| left) {
                        best = Some((left, give, take, (given - taken) as u32));
                    }
                }
            }
            let Some((_, give, take, moved)) = best else { continue };
            let tiles = (self.recent[high].0[give], self.recent[low].0[take]);
            (self.recent[low].0[take], self.recent[high].0[give]) = tiles;
            let (Some(given), Some(taken)) = tiles else { continue };
            self.dealt.swap(given as usize, taken as usize);
            self.lists.loads[high] -= moved;
            self.lists.loads[low] += moved;
        }
    }
}
