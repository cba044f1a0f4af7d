//! Tiles of several block rows, listed on the simulator: rows that are alike in groups, every group under every column once,
//! with the union of the rows' columns.

use std::collections::BTreeSet;

use bsr_codegen::lists::{SharedLists, specification};
use bsr_codegen::{SharedColumns, TileScheduler};
use bsr_runtime::Structure;
use bsr_runtime::schedule::{BlockIndex, group_similar_rows};
use bsr_simulator::GlobalMemory;
use proptest::prelude::*;

use crate::shapes::{plan, rows, shared, structure};
use crate::simulate::{clean, upload, words};

/// The unions of the GPU have at most so many columns for one of the host's.
const MORE: f64 = 1.06;

/// The block columns of every block row.
fn column_sets(structure: &Structure) -> Vec<BTreeSet<u32>> {
    let stored = |row| structure.blocks_of(row).map(|block| structure.col_idx()[block] as u32).collect();
    (0..structure.block_rows()).map(stored).collect()
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
    let made = clean(&mut memory, |stream| stream.shared(&lists, (row_words, columns)));
    let sets = column_sets(&structure);
    let groups: Vec<Vec<Option<usize>>> = words(&memory, made.members)
        .chunks_exact(4)
        .map(|rows| {
            rows[..form.pack as usize]
                .iter()
                .map(|row| (*row != SharedLists::NO_ROW).then_some(*row as usize))
                .collect()
        })
        .collect();
    let specified = specification::group_rows(&lists, form.pack as usize, &sets);
    let stored: Vec<Vec<usize>> = groups.iter().map(|group| group.iter().flatten().copied().collect()).collect();
    assert_eq!(stored, specified, "{spec}, {pattern}: which rows go together");
    let costs = words(&memory, made.costs);
    for (group, rows) in stored.iter().enumerate() {
        let union = rows.iter().flat_map(|row| &sets[*row]).collect::<BTreeSet<_>>().len() as u32;
        let blocks = rows.iter().map(|row| sets[*row].len() as u32).sum();
        assert_eq!(costs[2 * group + 1], lists.cost(union.max(1), blocks), "{spec}: what group {group} costs");
    }
    let (heads, tiles, unions) = (words(&memory, made.heads), words(&memory, made.work), words(&memory, made.unions));
    let clusters = lists.assign.clusters as usize;
    let mut seen = BTreeSet::new();
    for cluster in 0..clusters {
        for at in 0..heads[cluster] as usize {
            let tile = &tiles[(at * clusters + cluster) * SharedColumns::WORDS..][..SharedColumns::WORDS];
            let [column, first, count, none] = tile[..4] else { unreachable!() };
            // Each group has a place for all columns.
            let group = first as usize / structure.block_cols().max(1);
            assert!(seen.insert((group, column)), "{spec}: group {group} twice under column {column}");
            assert!(none == 0 && tile[12..].iter().all(|word| *word == 0), "{spec}: {tile:?}");
            let members = &groups[group];
            let of = |row: &Option<usize>| row.map_or(BTreeSet::new(), |row| sets[row].clone());
            let want = union(&members.iter().map(of).collect::<Vec<_>>(), TileScheduler::OUTSIDE / plan.spec().bk);
            let got = &unions[first as usize..][..count as usize];
            assert_eq!(got, want, "{spec}: the union of block rows {members:?}");
            for (at, word) in tile[4..8].iter().zip(&tile[8..12]).enumerate() {
                let row = members.get(at).copied().flatten();
                let want =
                    row.map_or((TileScheduler::OUTSIDE, 0), |row| (row as u32 * form.rows, ends[row].0 * form.rows));
                assert_eq!((*word.0, *word.1), want, "{spec}: block row {at} of group {group}");
            }
            if at == 0 {
                let head = &heads[clusters + 32 * cluster..][..32];
                let ahead = got.iter().copied().chain(std::iter::repeat(0)).take(32);
                assert!(head.iter().copied().eq(ahead), "{spec}: the head of cluster {cluster}");
            }
        }
    }
    let mut rows: Vec<usize> = stored.into_iter().flatten().collect();
    rows.sort_unstable();
    assert_eq!(rows, (0..ends.len()).collect::<Vec<_>>(), "{spec}: every row once");
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

/// Columns of all unions with the groups of the GPU, of the host, and of rows as they stand.
fn union_columns(spec: &str, size: (usize, usize), pattern: &str, seed: u64) -> [usize; 3] {
    let plan = plan(spec);
    let TileScheduler::SharedColumns(form) = plan.tile_scheduler() else { panic!("{spec} shares no columns") };
    let structure = structure(&plan, size, pattern, seed);
    let (index, pack) = (BlockIndex::new(&plan, &structure), form.pack as usize);
    let sets = column_sets(&structure);
    let all: Vec<usize> = (0..sets.len()).collect();
    let lists = shared(&plan, &structure, 4096, 132).unwrap();
    let as_they_stand = all.chunks(pack).map(<[usize]>::to_vec).collect();
    [specification::group_rows(&lists, pack, &sets), group_similar_rows(&index, pack), as_they_stand].map(
        |groups: Vec<Vec<usize>>| {
            let union = |group: &Vec<usize>| group.iter().flat_map(|row| &sets[*row]).collect::<BTreeSet<_>>().len();
            groups.iter().map(union).sum()
        },
    )
}

#[test]
fn unions_are_about_as_short_as_those_of_the_host() {
    let (two, three) =
        ("bm = 64, bn = 64, bk = 64, pack = 2, swap = off", "bm = 64, bn = 64, bk = 64, pack = 3, swap = off");
    for (spec, size, pattern) in [
        (two, (4096, 4096), "random:0.125"),
        (two, (8192, 8192), "random:0.05"),
        (two, (14336, 4096), "random:0.25"),
        (two, (12288, 12288), "window:0.05"),
        (two, (12288, 12288), "powerlaw:0.06"),
        (three, (12288, 12288), "powerlaw:0.06"),
        (three, (12288, 12288), "causal"),
    ] {
        for seed in 0..3 {
            let [gpu, host, as_they_stand] = union_columns(spec, size, pattern, seed);
            let line =
                format!("{gpu}, the host's {host}, as they stand {as_they_stand}: {spec}, {pattern}, seed {seed}");
            println!("{line}");
            assert!(gpu as f64 <= MORE * host as f64, "{line}");
        }
    }
}

/// The busiest cluster loads at most so many bytes for one of the average.
const BUSIEST: f64 = 1.03;

#[test]
fn clusters_whose_tiles_have_several_block_rows_load_as_many_bytes() {
    for (spec, size, n, pattern, clusters) in [
        ("bm = 64, bn = 192, bk = 64, swap = off, pack = 3, cluster = 2", (12288, 12288), 6144, "powerlaw:0.06", 66),
        ("bm = 64, bn = 256, bk = 64, swap = off, pack = 2", (65536, 65536), 8192, "random:0.0625", 132),
        ("bm = 64, bn = 128, bk = 64, swap = off, pack = 2", (32768, 16384), 4096, "random:0.3", 132),
    ] {
        let plan = plan(spec);
        let TileScheduler::SharedColumns(form) = plan.tile_scheduler() else { panic!("{spec} shares no columns") };
        let structure = structure(&plan, size, pattern, 1);
        let lists = shared(&plan, &structure, n, clusters).unwrap();
        let sets = column_sets(&structure);
        let groups: Vec<(u32, u32)> = specification::group_rows(&lists, form.pack as usize, &sets)
            .iter()
            .map(|rows| {
                let union = rows.iter().flat_map(|row| &sets[*row]).collect::<BTreeSet<_>>().len();
                (union as u32, rows.iter().map(|row| sets[*row].len() as u32).sum())
            })
            .collect();
        let costs: Vec<(u32, u32)> =
            groups.iter().map(|(columns, blocks)| (0, lists.cost(*columns, *blocks))).collect();
        let mut bytes = vec![0; lists.assign.clusters as usize];
        for (place, tile) in specification::assign(&lists.assign, &costs).tiles.iter().enumerate() {
            let Some([group, ..]) = tile else { continue };
            let (columns, blocks) = groups[*group as usize];
            bytes[place % lists.assign.clusters as usize] +=
                u64::from(columns * form.b_bytes + blocks * form.block_bytes);
        }
        let mean = bytes.iter().sum::<u64>() as f64 / bytes.len() as f64;
        let busiest = *bytes.iter().max().unwrap() as f64 / mean;
        println!("{busiest:.4}: {spec}, {pattern}");
        assert!(busiest < BUSIEST, "{busiest}: {spec}, {pattern}");
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
