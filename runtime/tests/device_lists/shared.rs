//! Tiles of several block rows, listed on the simulator: every group of rows under every column once, with the union of the
//! rows' columns.

use std::collections::BTreeSet;

use bsr_codegen::lists::{ListKernel, SharedLists};
use bsr_codegen::{SharedColumns, TileScheduler};
use bsr_simulator::{BufferId, GlobalMemory};
use proptest::prelude::*;

use crate::shapes::{plan, rows, shared, structure};
use crate::simulate::{launch, upload, words};

/// A row or a column beyond all others.
const OUTSIDE: u32 = 1 << 30;

/// What the kernels make of a pattern's rows and columns.
pub(crate) struct Made {
    pub(crate) heads: BufferId,
    pub(crate) work: BufferId,
    pub(crate) unions: BufferId,
}

pub(crate) fn list(memory: &mut GlobalMemory, lists: &SharedLists, (rows, columns): (BufferId, BufferId)) -> Made {
    let assign = &lists.assign;
    let mut alloc = |bytes: usize| memory.alloc(bytes, 256);
    let (groups, unions) = (alloc(8 * lists.groups() as usize), alloc(4 * lists.union_words()));
    let (heads, assigned) = (alloc(4 * assign.head_words()), alloc(assign.work_bytes()));
    let (dealt, work) = (alloc(4 * assign.tiles() as usize), alloc(lists.work_bytes()));
    let by_union = (ListKernel::SharedUnions, (lists.groups(), lists.union_shared_bytes()));
    launch(memory, by_union.0, by_union.1, &[rows, columns, groups, unions], &lists.union_numbers());
    let grid = (assign.ctas(), assign.shared_bytes());
    launch(memory, ListKernel::Assign, grid, &[groups, unions, heads, assigned, dealt], &assign.numbers());
    let pointers = [heads, assigned, rows, work];
    launch(memory, ListKernel::SharedTiles, (assign.clusters, 0), &pointers, &lists.tile_numbers());
    Made { heads, work, unions }
}

/// The union of the columns of some rows, with a bit for each row that has a block there.
fn union(columns: &[BTreeSet<u32>], no_column: u32) -> Vec<u32> {
    let all: BTreeSet<u32> = columns.iter().flatten().copied().collect();
    let word = |column: u32| {
        let bits = columns.iter().enumerate().filter(|(_, of)| of.contains(&column)).map(|(member, _)| 1 << member);
        column << SharedColumns::MASK_BITS | bits.sum::<u32>()
    };
    match all.is_empty() {
        true => vec![no_column << SharedColumns::MASK_BITS],
        false => all.into_iter().map(word).collect(),
    }
}

/// Lists the work of a kernel and compares it with what its block rows say.
fn check(spec: &str, size: (usize, usize), n: usize, pattern: &str, clusters: u32, seed: u64) {
    let plan = plan(spec);
    let TileScheduler::SharedColumns(form) = plan.tile_scheduler() else { panic!("{spec} shares no columns") };
    let structure = structure(&plan, size, pattern, seed);
    let lists = shared(&plan, &structure, n, clusters).unwrap();
    let ends = rows(&plan, &structure);
    let mut memory = GlobalMemory::new();
    let row_words = upload(&mut memory, ends.iter().flat_map(|(first, blocks)| [*first, *blocks]));
    let columns = upload(&mut memory, structure.col_idx().iter().map(|column| *column as u32));
    let made = list(&mut memory, &lists, (row_words, columns));
    let (heads, tiles, unions) = (words(&memory, made.heads), words(&memory, made.work), words(&memory, made.unions));
    let clusters = lists.assign.clusters as usize;
    let mut seen = BTreeSet::new();
    for cluster in 0..clusters {
        for at in 0..heads[cluster] as usize {
            let tile = &tiles[(at * clusters + cluster) * SharedColumns::WORDS..][..SharedColumns::WORDS];
            let [column, first, count, none] = tile[..4] else { unreachable!() };
            let group = (tile[4] / form.rows / form.pack) as usize;
            assert!(seen.insert((group, column)), "{spec}: group {group} twice under column {column}");
            assert!(none == 0 && tile[12..].iter().all(|word| *word == 0), "{spec}: {tile:?}");
            let members: Vec<usize> =
                (0..form.pack as usize).map(|member| group * form.pack as usize + member).collect();
            let of = |row: &usize| {
                let blocks =
                    ends.get(*row).map_or(0..0, |(first, blocks)| *first as usize..(*first + *blocks) as usize);
                structure.col_idx()[blocks].iter().map(|column| *column as u32).collect()
            };
            let want = union(&members.iter().map(of).collect::<Vec<_>>(), OUTSIDE / plan.spec().bk);
            let got = &unions[first as usize..][..count as usize];
            assert_eq!(got, want, "{spec}: the union of block rows {members:?}");
            for (at, word) in tile[4..8].iter().zip(&tile[8..12]).enumerate() {
                let row = members.get(at).copied().filter(|row| *row < ends.len());
                let want = row.map_or((OUTSIDE, 0), |row| (row as u32 * form.rows, ends[row].0 * form.rows));
                assert_eq!((*word.0, *word.1), want, "{spec}: block row {at} of group {group}");
            }
            if at == 0 {
                let head = &heads[clusters + 32 * cluster..][..32];
                let ahead = got.iter().copied().chain(std::iter::repeat(0)).take(32);
                assert!(head.iter().copied().eq(ahead), "{spec}: the head of cluster {cluster}");
            }
        }
    }
    let columns = n.div_ceil(plan.cluster_tile().columns as usize);
    let groups = ends.len().div_ceil(form.pack as usize);
    assert_eq!(seen.len(), groups * columns, "{spec}: tiles");
}

#[test]
fn every_group_of_rows_is_listed_once_under_every_column_with_its_union() {
    for (spec, size, n, pattern, clusters) in [
        ("bm = 64, bn = 64, bk = 64, pack = 2, swap = off", (1024, 4096), 700, "random:0.2", 7),
        ("bm = 64, bn = 128, bk = 64, pack = 3, swap = off, cluster = 2", (1088, 2048), 1500, "powerlaw:0.2", 20),
        ("bm = 128, bn = 64, bk = 32, pack = 2, swap = off, split = auto", (1664, 1024), 300, "window:0.3", 132),
        ("bm = 64, bn = 64, bk = 32, pack = 2, swap = off", (192, 32 * 9000), 64, "random:0.3", 3),
        ("bm = 64, bn = 64, bk = 64, pack = 2, swap = off", (64, 64), 30, "random:0", 132),
        ("bm = 64, bn = 64, bk = 64, pack = 3, swap = off", (640, 640), 300, "causal", 5),
        ("bm = 64, bn = 64, bk = 64, pack = 2, swap = off", (1536, 4096), 512, "one long row", 66),
    ] {
        check(spec, size, n, pattern, clusters, 1);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn rows_of_any_pattern_are_listed(
        pack in 2_u32..4,
        size in (1_usize..2000, 1_usize..3000),
        n in 1_usize..900,
        pattern in prop::sample::select(vec!["random:0.05", "random:0.6", "powerlaw:0.1", "causal"]),
        clusters in 1_u32..140,
        seed in 0_u64..1000,
    ) {
        check(&format!("bm = 64, bn = 64, bk = 64, pack = {pack}, swap = off"), size, n, pattern, clusters, seed);
    }
}

#[test]
fn more_columns_than_bits_fit_are_refused_with_a_remedy() {
    let plan = plan("bm = 64, bn = 64, bk = 32, pack = 2, swap = off");
    let TileScheduler::SharedColumns(form) = plan.tile_scheduler() else { unreachable!() };
    let structure = bsr_runtime::Structure::empty(64, 32 * 40_000, (64, 32)).unwrap();
    let request = crate::shapes::request(&plan, &structure, 64, 1);
    let error = SharedLists::new(form, &request, 32).unwrap_err().to_string();
    assert!(error.contains("40000 > 32768") && error.contains("help: larger blocks"), "{error}");
}
