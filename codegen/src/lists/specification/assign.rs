//! The assigning kernel: which cluster computes which tiles, in which order.

use std::cmp::Reverse;

use super::super::Shape;

/// The lists of a launch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lists {
    /// Work tiles of each cluster.
    pub lengths: Vec<u32>,
    /// Tile `i` of cluster `c` is number `i * clusters + c`: {c_row, c_col, a_row, blocks}.
    pub tiles: Vec<Option<[u32; 4]>>,
    /// What the tiles of each cluster cost.
    pub loads: Vec<u32>,
    /// How often the clusters were ordered by their loads, in step 3.
    pub rounds: u32,
    /// The clusters in the order of their loads, smallest first, when a panel was assigned last.
    order: Vec<usize>,
}

/// Assigns the tiles of a launch. `rows` are the rows of blocks as a kernel reads them: the number of the first block, and how
/// many there are.
pub fn assign(shape: &Shape, rows: &[(u32, u32)]) -> Lists {
    let clusters = shape.clusters as usize;
    let mut lists = Lists {
        lengths: vec![0; clusters],
        tiles: vec![None; (shape.list_rows() * shape.clusters) as usize],
        loads: vec![0; clusters],
        ..Lists::default()
    };
    let costs = Costs::new(shape, rows);
    if costs.are_even() {
        lists.assign_in_turn(&costs);
        return lists;
    }
    let panels: Vec<Panel> = (0..shape.columns)
        .step_by(shape.panel as usize)
        .map(|first| Panel {
            first,
            columns: shape.panel.min(shape.columns - first),
            is_odd: first / shape.panel % 2 == 1,
        })
        .collect();
    // The most panels that may stay before the last columns.
    let most = (shape.columns - costs.last_columns()) / shape.panel;
    if costs.has_uneven_shares(&panels[0]) {
        return Rounds::new(&Sorted::new(costs), lists, 0).finish(most * shape.panel);
    }
    let mut all = lists.clone();
    panels.iter().for_each(|panel| all.assign_panel(&costs, panel));
    let is_level = |load: &u32| {
        let (more, of) = Shape::LEVEL;
        let own = u64::from(*load) * u64::from(shape.clusters) * u64::from(of);
        *load <= costs.longest() || own <= costs.total() * u64::from(shape.columns) * u64::from(more)
    };
    if all.loads.iter().all(is_level) {
        return all;
    }
    // Those after which no cluster has more than the average of all.
    let (mut kept, mut next) = (lists.clone(), lists);
    let mut whole = 0;
    for (number, panel) in (1..=most).zip(&panels) {
        next.assign_panel(&costs, panel);
        let is_ordered = !panels[number as usize].is_paired(shape);
        if is_ordered && next.loads.iter().all(|load| load >> shape.load_shift <= costs.mean() >> shape.load_shift) {
            (whole, kept) = (number * shape.panel, next.clone());
        }
    }
    Rounds::new(&Sorted::new(costs), kept, whole).finish(0)
}

/// What every row of tiles costs.
struct Costs<'r> {
    shape: &'r Shape,
    rows: &'r [(u32, u32)],
    costs: Vec<u32>,
}

impl<'r> Costs<'r> {
    fn new(shape: &'r Shape, rows: &'r [(u32, u32)]) -> Self {
        let cost = |row: u32| shape.tile.cost(rows[(row / shape.slices) as usize].1.into()) as u32;
        Self { shape, rows, costs: (0..shape.tile_rows).map(cost).collect() }
    }

    fn longest(&self) -> u32 {
        self.costs.iter().copied().max().unwrap_or(0)
    }

    fn are_even(&self) -> bool {
        self.costs.iter().all(|cost| *cost == self.costs[0])
    }

    fn total(&self) -> u64 {
        self.costs.iter().copied().map(u64::from).sum()
    }

    /// What a cluster has of all columns, on average.
    fn mean(&self) -> u32 {
        (self.total() * u64::from(self.shape.columns) / u64::from(self.shape.clusters)) as u32
    }

    /// The tiles of a panel in as many shares as there are clusters, and what each costs.
    fn shares(&self, panel: &Panel) -> (Vec<Vec<(u32, u32)>>, Vec<u32>) {
        let clusters = self.shape.clusters as usize;
        let (mut shares, mut sums) = (vec![vec![]; clusters], vec![0; clusters]);
        for t in 0..self.shape.tile_rows * panel.columns {
            let row = t / panel.columns;
            shares[t as usize % clusters].push((row, panel.first + t % panel.columns));
            sums[t as usize % clusters] += self.costs[row as usize];
        }
        (shares, sums)
    }

    /// Whether no order of the clusters levels the shares of a panel.
    fn has_uneven_shares(&self, panel: &Panel) -> bool {
        let Shape { clusters, load_shift, .. } = *self.shape;
        let most = self.shares(panel).1.into_iter().max().unwrap_or(0) >> load_shift << load_shift;
        u64::from(most) * u64::from(clusters) > u64::from(Shape::UNEVEN) * self.total() * u64::from(panel.columns)
    }

    /// The fewest columns of step 3: of so many tiles that each cluster can have four, and the longest one.
    fn last_columns(&self) -> u32 {
        let Shape { clusters, tile_rows, columns, .. } = *self.shape;
        let room = (u64::from(self.longest()) * u64::from(clusters)).div_ceil(self.total()) as u32;
        room.max(Shape::FINE_TILES * clusters / tile_rows).clamp(1, columns)
    }
}

/// Columns of tiles whose tiles are assigned in shares: up the rows of odd panels, down those of others.
struct Panel {
    first: u32,
    columns: u32,
    is_odd: bool,
}

impl Panel {
    /// Whether the clusters have the order of the panel before this one.
    fn is_paired(&self, shape: &Shape) -> bool {
        self.is_odd && shape.tile_rows * self.columns / shape.clusters >= Shape::PAIRED_TURNS
    }
}

/// The rows of tiles, longest first.
struct Sorted<'r> {
    costs: Costs<'r>,
    shape: &'r Shape,
    order: Vec<u32>,
}

impl<'r> Sorted<'r> {
    fn new(costs: Costs<'r>) -> Self {
        let shape = costs.shape;
        let mut order: Vec<u32> = (0..shape.tile_rows).collect();
        order.sort_by_key(|row| (Reverse(costs.costs[*row as usize] >> shape.key_shift), *row));
        Self { costs, shape, order }
    }

    fn cost(&self, place: u32) -> u32 {
        self.costs.costs[self.order[place as usize] as usize]
    }
}

impl Lists {
    fn place(&mut self, costs: &Costs<'_>, cluster: usize, at: u32, row: u32, column: u32) {
        let Shape { slices, tile, clusters, .. } = *costs.shape;
        let (first, blocks) = costs.rows[(row / slices) as usize];
        let a_row = first * tile.block_rows + row % slices * tile.rows;
        self.tiles[(at * clusters) as usize + cluster] = Some([row * tile.rows, column * tile.columns, a_row, blocks]);
    }

    /// Rows of one length: tile after tile to cluster after cluster, along the rows under a group of columns, down under one
    /// group and up under the next.
    fn assign_in_turn(&mut self, costs: &Costs<'_>) {
        let Shape { columns, group, tile_rows, clusters, .. } = *costs.shape;
        let mut t = 0;
        for (number, first) in (0..columns).step_by(group as usize).enumerate() {
            for place in 0..tile_rows {
                let row = if number % 2 == 0 { place } else { tile_rows - 1 - place };
                for column in first..columns.min(first + group) {
                    let cluster = (t % clusters) as usize;
                    self.place(costs, cluster, t / clusters, row, column);
                    self.loads[cluster] += costs.costs[row as usize];
                    self.lengths[cluster] += 1;
                    t += 1;
                }
            }
        }
    }

    /// Divides the tiles of a panel in turn into as many shares as there are clusters. The one that costs most goes to the
    /// cluster with the smallest load, and so on.
    fn assign_panel(&mut self, costs: &Costs<'_>, panel: &Panel) {
        let load_shift = costs.shape.load_shift;
        let (mut shares, sums) = costs.shares(panel);
        let by = |sums: &[u32]| {
            let mut order: Vec<usize> = (0..sums.len()).collect();
            order.sort_by_key(|at| ((sums[*at] >> load_shift).min(Shape::MOST_LOAD), *at));
            order
        };
        match panel.is_paired(costs.shape) {
            true => self.order.reverse(),
            false => self.order = by(&self.loads),
        }
        for (cluster, share) in self.order.clone().into_iter().zip(by(&sums).into_iter().rev()) {
            if panel.is_odd {
                shares[share].reverse();
            }
            for (row, column) in &shares[share] {
                self.place(costs, cluster, self.lengths[cluster], *row, *column);
                self.lengths[cluster] += 1;
            }
            self.loads[cluster] += sums[share];
        }
    }
}

/// Columns of tiles that are assigned longest first, counted from the first one that is in no panel.
#[derive(Clone, Copy)]
struct Columns {
    first: u32,
    columns: u32,
}

/// Steps 3 to 5: the tiles of the last columns, the longest first.
struct Rounds<'s> {
    sorted: &'s Sorted<'s>,
    lists: Lists,
    whole: u32,
    columns: u32,
    most_rounds: u32,
    /// Of each tile the cluster, the group of columns, and its place there.
    assigned: Vec<(usize, usize, u32)>,
    /// Tiles of each cluster in each group of columns.
    counts: Vec<[u32; Shape::BUCKETS as usize]>,
    /// Of each cluster the last tiles, which may be swapped, and how many it got.
    last: Vec<([Option<u32>; Shape::RECENT as usize], usize)>,
}

impl<'s> Rounds<'s> {
    fn new(sorted: &'s Sorted<'s>, lists: Lists, whole: u32) -> Self {
        let Shape { clusters, tile_rows, .. } = *sorted.shape;
        let columns = sorted.shape.columns - whole;
        Self {
            sorted,
            lists,
            whole,
            columns,
            most_rounds: (columns * tile_rows).div_ceil(clusters) + whole * tile_rows / clusters,
            assigned: vec![(0, 0, 0); (columns * tile_rows) as usize],
            counts: vec![[0; Shape::BUCKETS as usize]; clusters as usize],
            last: vec![Default::default(); clusters as usize],
        }
    }

    /// Assigns panel after panel up to the column `end`, then the columns from there on.
    fn finish(mut self, end: u32) -> Lists {
        let before = self.lists.lengths.clone();
        let mut first = 0;
        while first < self.columns {
            let is_panel = first < end;
            let columns = if is_panel { self.sorted.shape.panel.min(end - first) } else { self.columns - first };
            let run = Columns { first, columns };
            let tiles = columns * self.sorted.shape.tile_rows;
            let uneven = if is_panel { 0 } else { tiles % self.sorted.shape.clusters };
            let limit = tiles - uneven;
            if uneven > 0 {
                let ranked = self.ranked();
                self.give(run, &ranked, limit, uneven);
            }
            let mut next = 0;
            while next < limit {
                next += self.round(run, next, limit - next);
            }
            first += columns;
        }
        for _ in 0..Shape::SWAPS {
            self.swap();
        }
        for q in 0..self.assigned.len() as u32 {
            let (cluster, bucket, at) = self.assigned[q as usize];
            let earlier: u32 = self.counts[cluster][..bucket].iter().sum();
            let (place, column) = (q / self.columns, self.whole + q % self.columns);
            let row = self.sorted.order[place as usize];
            self.lists.place(&self.sorted.costs, cluster, before[cluster] + earlier + at, row, column);
        }
        self.lists
    }

    /// The clusters in the order of their loads, smallest first, with the load that each counts with.
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

    /// Assigns tiles from `start` on, of `left` that are left, and returns how many.
    fn round(&mut self, run: Columns, start: u32, left: u32) -> u32 {
        let Shape { clusters, load_shift, .. } = *self.sorted.shape;
        let ranked = self.ranked();
        let cost = (self.sorted.cost(start / run.columns) >> load_shift).max(1);
        let active = ranked.iter().filter(|(load, _)| *load <= ranked[0].0 + cost).count();
        let rounds = match ranked.get(active) {
            None => left / clusters / Shape::SHARE_OF_LEFT,
            Some((ahead, _)) => (ahead - ranked[active - 1].0) / cost,
        };
        let taken = (active as u32 * rounds.max(1).min(self.most_rounds)).min(left);
        self.give(run, &ranked[..active], start, taken);
        self.lists.rounds += 1;
        taken
    }

    /// Gives tiles to clusters, down the ranks and up again.
    fn give(&mut self, run: Columns, ranked: &[(u32, usize)], start: u32, tiles: u32) {
        let shift = Shape::bucket_shift(self.columns);
        for j in 0..tiles {
            let (round, at) = (j as usize / ranked.len(), j as usize % ranked.len());
            let cluster = ranked[if round % 2 == 0 { at } else { ranked.len() - 1 - at }].1;
            let (place, column) = ((start + j) / run.columns, (start + j) % run.columns);
            let q = place * self.columns + run.first + column;
            let bucket = ((q % self.columns) >> shift) as usize;
            self.assigned[q as usize] = (cluster, bucket, self.counts[cluster][bucket]);
            self.counts[cluster][bucket] += 1;
            let (last, count) = &mut self.last[cluster];
            last[*count % Shape::RECENT as usize] = Some(q);
            *count += 1;
            self.lists.loads[cluster] += self.sorted.cost(q / self.columns);
            self.lists.lengths[cluster] += 1;
        }
    }

    /// The clusters with the largest and the smallest load, and so on inwards, swap two tiles if that levels them.
    fn swap(&mut self) {
        let ranked = self.ranked();
        for pair in 0..ranked.len() / 2 {
            let (low, high) = (ranked[pair].1, ranked[ranked.len() - 1 - pair].1);
            let gap = self.lists.loads[high].saturating_sub(self.lists.loads[low]).min(Shape::MOST_GAP);
            let cost = |tile: Option<u32>| tile.map(|q| i64::from(self.sorted.cost(q / self.columns)));
            let mut best: Option<(i64, usize, usize, u32)> = None;
            for (give, given) in self.last[high].0.iter().enumerate() {
                for (take, taken) in self.last[low].0.iter().enumerate() {
                    let (Some(given), Some(taken)) = (cost(*given), cost(*taken)) else { continue };
                    let left = (i64::from(gap) - 2 * (given - taken)).abs();
                    if left < best.map_or(i64::from(gap), |(left, ..)| left) {
                        best = Some((left, give, take, (given - taken) as u32));
                    }
                }
            }
            let Some((_, give, take, moved)) = best else { continue };
            let tiles = (self.last[high].0[give], self.last[low].0[take]);
            (self.last[low].0[take], self.last[high].0[give]) = tiles;
            let (Some(given), Some(taken)) = tiles else { continue };
            self.assigned.swap(given as usize, taken as usize);
            self.lists.loads[high] -= moved;
            self.lists.loads[low] += moved;
        }
    }
}
