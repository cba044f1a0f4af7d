//! The pairs of blocks of products of two sparse factors, against those that the host lists.

use std::collections::BTreeMap;

use bsr_codegen::lists::PairLists;

use super::*;
use crate::Pattern;
use crate::bsr::Pairs;
use crate::error::{KernelError, SimulatedError};
use crate::gpu::{CheckedIndex, PatternShape, Stored};
use crate::lists::{self, Listing, Table};
use crate::machine::Lists;
use crate::schedule::WorkLists;
use crate::simulated::blocks::Blocks;

/// A pattern as a GPU has it: right or wrong.
#[derive(Clone, Debug)]
struct Arrays {
    shape: PatternShape,
    row_ptr: Vec<i32>,
    col_idx: Vec<i32>,
}

impl Arrays {
    /// Those of a right pattern with room for so many blocks.
    fn new(structure: &Structure, capacity: usize) -> Self {
        let (rows, cols, block) = (structure.rows(), structure.cols(), structure.block());
        let shape = PatternShape { rows, cols, block, capacity };
        Self {
            shape,
            row_ptr: structure.row_ptr().iter().map(|at| *at as i32).collect(),
            col_idx: structure.col_idx().to_vec(),
        }
    }
}

impl Stream<'_> {
    /// Checks a pattern.
    pub(super) fn check_pattern(
        &mut self,
        structure: &Structure,
        capacity: usize,
    ) -> Result<CheckedIndex<BufferId>, LaunchError> {
        self.check_arrays(&Arrays::new(structure, capacity))
    }

    fn check_arrays(&mut self, arrays: &Arrays) -> Result<CheckedIndex<BufferId>, LaunchError> {
        let words = |list: &[i32]| list.iter().map(|word| word.cast_unsigned()).collect::<Vec<_>>();
        let Arrays { shape, row_ptr, col_idx } = arrays;
        let (block_rows, capacity) = (shape.block_rows(), shape.capacity);
        let room = capacity.saturating_sub(col_idx.len());
        let col_idx = words(col_idx).into_iter().chain(std::iter::repeat_n(u32::MAX, room));
        let [row_ptr, col_idx] = [self.upload(words(row_ptr)), self.upload(col_idx)];
        let error = self.upload([u32::MAX; 2]);
        let [rows, values] = [0; 2].map(|_| self.alloc(2 * block_rows));
        let columns = self.alloc(capacity);
        let kernel = ListKernel::Check(IndexWidth::I32);
        let sizes = [block_rows as u32, shape.block_cols() as u32, capacity as u32];
        let pointers = [row_ptr, col_idx, rows, columns, error, values];
        if block_rows > 0 {
            self.launch(kernel, (kernel.grid(sizes[0], 1), 0), &pointers, &sizes)?;
        }
        Ok(CheckedIndex { rows, columns, blocks: columns })
    }

    /// Checks the patterns of two factors, and of a result in blocks, and lists the pairs of their blocks: clusters, and what the
    /// launch reads.
    pub(in super::super) fn list_pairs(
        &mut self,
        plan: &Plan,
        factors: [&Blocks<'_>; 2],
        c: Option<&Blocks<'_>>,
        clusters: u32,
    ) -> Result<([u32; 2], Lists<BufferId>), SimulatedError> {
        let all = factors.into_iter().chain(c).map(|of| Arrays::new(of.structure(), of.places()));
        let (listing, index) = self.listed_pairs(plan, &all.collect::<Vec<_>>(), clusters)?;
        Ok(listing.lists(&index))
    }

    /// The lists of A, B, and C where it is in blocks, and what was made of their patterns.
    fn listed_pairs(
        &mut self,
        plan: &Plan,
        all: &[Arrays],
        clusters: u32,
    ) -> Result<(Listing<BufferId>, Vec<CheckedIndex<BufferId>>), SimulatedError> {
        let index = all.iter().map(|arrays| self.check_arrays(arrays)).collect::<Result<Vec<_>, _>>()?;
        let c = all.get(2).map(|c| &c.shape);
        let request = lists::request_of_pairs(plan, [&all[0].shape, &all[1].shape], c, clusters);
        let pairs = PairLists::new(&request).map_err(KernelError::from)?;
        Ok((self.run(Table::pairs(&pairs, c.is_some()), &index)?, index))
    }
}

/// A product whose pairs are listed.
struct ToMultiply {
    spec: &'static str,
    /// Rows and columns of C, and K.
    sizes: [usize; 3],
    /// Which part of the blocks of A, of B, and of C is stored.
    stored: [f64; 3],
    clusters: u32,
}

/// Waves, and more clusters than tiles; rows of A that are longer than what a warp reads together, and rows of C that have
/// more blocks than a CTA has threads; several slices of a block, and edges.
const PRODUCTS: [ToMultiply; 13] = {
    const fn of(spec: &'static str, sizes: [usize; 3], stored: [f64; 3], clusters: u32) -> ToMultiply {
        ToMultiply { spec, sizes, stored, clusters }
    }
    [
        of("op = dss, bm = 64, bn = 32, bk = 16", [700, 500, 700], [0.4, 0.4, 1.0], 5),
        of("op = dss, bm = 64, bn = 32, bk = 16", [1500, 300, 160], [0.2, 0.7, 1.0], 33),
        of("op = dss, bm = 64, bn = 16, bk = 16", [130, 4300, 40], [0.7, 0.3, 1.0], 132),
        of("op = dss, bm = 256, bn = 32, bk = 32", [900, 260, 320], [0.5, 0.5, 1.0], 4),
        of("op = dss, bm = 64, bn = 32, bk = 16, schedule = strided", [700, 500, 700], [0.4, 0.4, 1.0], 7),
        of("op = dss, bm = 64, bn = 64, bk = 16", [64, 64, 1500], [1.0, 1.0, 1.0], 132),
        of("op = dss, bm = 64, bn = 64, bk = 16", [300, 300, 300], [0.0, 0.5, 1.0], 3),
        of("op = sss, bm = 64, bn = 32, bk = 16", [700, 500, 700], [0.4, 0.4, 0.3], 5),
        of("op = sss, bm = 64, bn = 32, bk = 16", [1500, 900, 160], [0.2, 0.7, 0.6], 33),
        of("op = sss, bm = 256, bn = 32, bk = 32", [900, 260, 320], [0.5, 0.5, 0.5], 4),
        of("op = sss, bm = 64, bn = 16, bk = 16", [130, 4300, 40], [0.7, 0.3, 0.9], 20),
        of("op = sss, bm = 64, bn = 32, bk = 16, schedule = strided", [700, 500, 300], [0.4, 0.4, 0.2], 7),
        of("op = sss, bm = 64, bn = 64, bk = 32", [300, 300, 300], [0.5, 0.5, 0.1], 132),
    ]
};

/// What the kernels that list pairs list otherwise than the host: patterns that fill their room, those that do not, and wrong ones.
/// Each is listed when it is asked for.
///
/// # Errors
/// As [`ListKernels::launch`]; a pattern that cannot be had.
pub fn faults_of_pairs(kernels: &ListKernels) -> impl Iterator<Item = Result<String, SimulatedError>> {
    let products = PRODUCTS.iter().flat_map(|one| [0, 37].map(move |room| (one, room)));
    let products = products.map(move |(one, room)| fault_of_product(kernels, one, room));
    let masks =
        [(300, 0.05), (1000, 0.3)].map(move |(columns, stored)| fault_of_product_mask(kernels, columns, stored));
    products.chain((0..WRONG).map(move |way| fault_of_wrong(kernels, way))).chain(masks).filter_map(Result::transpose)
}

fn plan_of(spec: &str) -> Result<Plan, KernelError> {
    let spec = spec.parse().map_err(|_| KernelError::Result { op: bsr_codegen::Op::Dss })?;
    Plan::new(&spec).map_err(|_| KernelError::Result { op: spec.op })
}

/// The patterns of a product: A, B, and C where it is in blocks.
fn patterns(plan: &Plan, one: &ToMultiply) -> Result<Vec<Structure>, KernelError> {
    let [bm, bn, bk] = [plan.spec().bm, plan.spec().bn, plan.spec().bk].map(|side| side as usize);
    let [m, n, k] = one.sizes;
    let sizes = [(m, k, (bm, bk)), (k, n, (bk, bn)), (m, n, (bm, bn))];
    let count = if plan.spec().op.stores_blocks() { 3 } else { 2 };
    let all = sizes.into_iter().zip(one.stored).zip(1..).take(count);
    Ok(all
        .map(|(((rows, cols, block), stored), seed)| Pattern::Random(stored).structure(rows, cols, block, seed))
        .collect::<Result<_, _>>()?)
}

/// The lists as their kernel reads them.
struct Read {
    clusters: u32,
    heads: Vec<u32>,
    tiles: Vec<u32>,
    b_blocks: Vec<u32>,
    a_blocks: Vec<u32>,
}

impl Read {
    fn of(memory: &GlobalMemory, (grid, lists): ([u32; 2], Lists<BufferId>)) -> Self {
        let words = |id: Option<BufferId>| -> Vec<u32> {
            let bytes = id.map_or(&[][..], |id| memory.bytes(id));
            bytes.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)).collect()
        };
        let [heads, tiles, b_blocks, a_blocks] = [lists.heads, lists.tiles, lists.columns, lists.blocks].map(words);
        Self { clusters: grid[0], heads, tiles, b_blocks, a_blocks }
    }

    fn host(plan: &Plan, all: &[Structure], clusters: u32) -> Result<Self, KernelError> {
        let pairs = Pairs::new(&all[0], &all[1], all.get(2))?;
        let work = WorkLists::of_pairs(plan, &pairs, clusters);
        let [b_blocks, a_blocks] = [pairs.index().col_idx(), pairs.a_blocks()]
            .map(|list| list.iter().map(|word| word.cast_unsigned()).collect());
        Ok(Self { clusters: work.grid[0], heads: work.heads, tiles: work.tiles, b_blocks, a_blocks })
    }

    /// The tiles of all clusters by their place, with their pairs; those outside of C left out.
    ///
    /// # Errors
    /// A place that occurs twice, or pairs that are in no list.
    fn by_place(&self, block_rows: u32) -> Result<BTreeMap<[u32; 2], Vec<[u32; 2]>>, String> {
        let mut tiles = BTreeMap::new();
        for cluster in 0..self.clusters {
            for at in 0..self.heads[cluster as usize] {
                let words = &self.tiles[4 * (at * self.clusters + cluster) as usize..][..4];
                let (first, place) = ((words[2] / block_rows) as usize, [words[0], words[1]]);
                if words[0] == bsr_codegen::TileScheduler::OUTSIDE {
                    continue;
                }
                let lists = [&self.b_blocks, &self.a_blocks].map(|list| list.get(first..first + words[3] as usize));
                let [Some(of_b), Some(of_a)] = lists else { return Err(format!("{words:?} has no pairs")) };
                let pairs = of_b.iter().zip(of_a).map(|(of_b, of_a)| [*of_b, *of_a]).collect();
                if tiles.insert(place, pairs).is_some() {
                    return Err(format!("{place:?} occurs twice"));
                }
            }
        }
        Ok(tiles)
    }
}

/// The lists of the kernels, or what the simulator found.
fn listed(
    kernels: &ListKernels,
    plan: &Plan,
    all: &[Arrays],
    clusters: u32,
) -> Result<Result<Read, Finding>, SimulatedError> {
    let mut memory = GlobalMemory::new();
    let mut stream = Stream::new(kernels, &mut memory);
    let (listing, index) = stream.listed_pairs(plan, all, clusters)?;
    let findings = stream.findings();
    Ok(match findings.into_iter().next() {
        Some(finding) => Err(finding),
        None => Ok(Read::of(&memory, listing.lists(&index))),
    })
}

fn fault_of_product(kernels: &ListKernels, one: &ToMultiply, room: usize) -> Result<Option<String>, SimulatedError> {
    let plan = plan_of(one.spec)?;
    let all = patterns(&plan, one)?;
    let what = format!("{}, {:?}, room for {room} more", one.spec, one.sizes);
    let arrays: Vec<Arrays> = all.iter().map(|of| Arrays::new(of, of.nnzb() + room)).collect();
    let found = match listed(kernels, &plan, &arrays, one.clusters)? {
        Err(finding) => return Ok(Some(format!("{what}: {finding}"))),
        Ok(found) => found,
    };
    let host = Read::host(&plan, &all, one.clusters)?;
    // With more room other columns may be computed together.
    let differs = if room > 0 {
        found.by_place(plan.spec().bm) != host.by_place(plan.spec().bm)
    } else {
        let tiles = |of: &Read| -> Vec<Vec<u32>> {
            let of_cluster = |cluster| {
                let rows = 0..of.heads[cluster as usize];
                rows.flat_map(|at| of.tiles[4 * (at * of.clusters + cluster) as usize..][..4].to_vec()).collect()
            };
            (0..of.clusters).map(of_cluster).collect()
        };
        let starts = |found: &[u32], host: &[u32]| found.starts_with(host);
        let pairs = starts(&found.b_blocks, &host.b_blocks) && starts(&found.a_blocks, &host.a_blocks);
        let heads = found.clusters == host.clusters && starts(&found.heads, &host.heads);
        !(heads && pairs && tiles(&found) == tiles(&host))
    };
    Ok(differs.then(|| format!("{what}: the lists are not those of the host")))
}

/// The pattern that a product has, as a mask: of so many columns of blocks.
fn fault_of_product_mask(kernels: &ListKernels, columns: usize, stored: f64) -> Result<Option<String>, SimulatedError> {
    let of = |rows, cols, seed| Pattern::Random(stored).structure(rows, cols, (1, 1), seed).map_err(KernelError::from);
    let (a, b) = (of(5, 90, 1)?, of(90, columns, 2)?);
    let product = a.product(&b).map_err(KernelError::from)?;
    let mut memory = GlobalMemory::new();
    let mut stream = Stream::new(kernels, &mut memory);
    let [of_a, of_b] = [&a, &b].map(|of| stream.check_pattern(of, of.nnzb()));
    let (of_a, of_b) = (of_a?, of_b?);
    let words = PairLists::words_of(columns) as u32;
    let marks = stream.alloc(PairLists::marks_of(90, columns));
    let mask = stream.alloc((5 * columns).div_ceil(4));
    let grid = PairLists::grid_of(90, columns);
    stream.launch(ListKernel::PairMarks, grid, &[of_b.rows, of_b.columns, marks], &[90, words])?;
    let pointers = [of_a.rows, of_a.columns, marks, mask];
    stream.launch(ListKernel::ProductMask, (5, 0), &pointers, &[5, columns as u32, words])?;
    if let Some(finding) = stream.findings().into_iter().next() {
        return Ok(Some(format!("the mask of a product: {finding}")));
    }
    let mut wanted = vec![0; 5 * columns];
    for row in 0..5 {
        product.blocks_of(row).for_each(|at| wanted[row * columns + product.col_idx()[at] as usize] = 1);
    }
    let differs = memory.bytes(mask)[..wanted.len()] != wanted;
    Ok(differs.then(|| format!("the mask of a product of {columns} columns is not that of the host")))
}

/// Ways in which a pattern is wrong.
const WRONG: usize = 12;

/// Patterns with wrong rows list what is right. Where rows overlap, everything stays in its place.
fn fault_of_wrong(kernels: &ListKernels, way: usize) -> Result<Option<String>, SimulatedError> {
    let plan = plan_of("op = sss, bm = 64, bn = 32, bk = 16")?;
    let one = ToMultiply { spec: "", sizes: [512, 256, 128], stored: [0.7, 0.7, 0.7], clusters: 3 };
    let mut right = patterns(&plan, &one)?;
    let mut all: Vec<Arrays> = right.iter().map(|of| Arrays::new(of, of.nnzb())).collect();
    let (of, what) = (way % 3, way / 3);
    let Arrays { shape, row_ptr, col_idx } = &mut all[of];
    let (first, end) = (row_ptr[2] as usize, row_ptr[3] as usize);
    match what {
        0 => col_idx[first] = i32::MAX,
        1 => col_idx[end - 1] = -1,
        2 => col_idx[first + 1] = col_idx[first],
        // Every second row has the blocks of the first one: all together are more than there is room for.
        _ => {
            col_idx.truncate(row_ptr[1] as usize);
            shape.capacity = col_idx.len();
            let ends = [0, row_ptr[1]];
            row_ptr.iter_mut().zip(ends.into_iter().cycle()).for_each(|(at, end)| *at = end);
        }
    }
    let found = match listed(kernels, &plan, &all, one.clusters)? {
        Err(finding) => return Ok(Some(format!("wrong pattern {way}: {finding}"))),
        Ok(found) => found,
    };
    let bm = plan.spec().bm;
    if what < 3 {
        let kept = right[of].clone();
        let without = |row: usize| if row == 2 { vec![] } else { kept.col_idx()[kept.blocks_of(row)].to_vec() };
        let rows: Vec<Vec<i32>> = (0..kept.block_rows()).map(without).collect();
        let ends = rows.iter().scan(0, |end, row| {
            *end += row.len() as i32;
            Some(*end)
        });
        let row_ptr = std::iter::once(0).chain(ends).collect();
        right[of] = Structure::new(kept.rows(), kept.cols(), kept.block(), row_ptr, rows.concat())
            .map_err(KernelError::from)?;
        let host = Read::host(&plan, &right, one.clusters)?;
        let lengths = |read: &Read| {
            read.by_place(bm).map(|tiles| {
                let mut lengths: Vec<usize> = tiles.into_values().map(|pairs| pairs.len()).collect();
                lengths.sort_unstable();
                lengths
            })
        };
        let differs = lengths(&found) != lengths(&host);
        return Ok(differs.then(|| format!("wrong pattern {way}: the lists are not those of the right rows")));
    }
    let room = all.iter().map(|of| of.shape.capacity as u32).collect::<Vec<_>>();
    let mut tiles = 0;
    for cluster in 0..found.clusters {
        for at in 0..found.heads[cluster as usize] {
            let words = &found.tiles[4 * (at * found.clusters + cluster) as usize..][..4];
            tiles += 1;
            let (first, count) = ((words[2] / bm) as usize, words[3] as usize);
            let lists = [&found.a_blocks, &found.b_blocks].map(|list| list.get(first..first + count));
            let inside =
                lists.iter().zip(&room).all(|(list, room)| list.is_some_and(|list| list.iter().all(|at| at < room)));
            if !inside || words[0] >= room[2] * bm {
                return Ok(Some(format!("wrong pattern {way}: {words:?} is outside")));
            }
        }
    }
    Ok((tiles > room[2]).then(|| format!("wrong pattern {way}: {tiles} tiles, and room for {}", room[2])))
}
