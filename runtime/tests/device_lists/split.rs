//! Tiles whose K is divided, listed on the simulator: as the host divides them, in clusters of which none waits for one of a
//! higher number.

use std::collections::{BTreeMap, BTreeSet};

use bsr_codegen::lists::SplitLists;
use bsr_codegen::{SplitForm, TileScheduler};
use bsr_runtime::schedule::{Role, WorkPlan};
use bsr_simulator::GlobalMemory;
use proptest::prelude::*;

use crate::shapes::{plan, request, rows, split, structure};
use crate::simulate::{clean, upload, words};

/// Words of a work tile.
const WORDS: usize = 8;

/// Where a part of a tile is: {first row of the blocks, blocks, cluster, place in its list, role}.
type Part = (u32, u32, usize, usize, [u32; 2]);

/// Lists the work of a kernel and compares its parts with those of the host's lists.
fn check(spec: &str, size: (usize, usize), n: usize, pattern: &str, clusters: u32, seed: u64) {
    let plan = plan(spec);
    let structure = structure(&plan, size, pattern, seed);
    let lists = split(&plan, &structure, n, clusters).unwrap();
    let ends = rows(&plan, &structure);
    let mut memory = GlobalMemory::new();
    let row_words = upload(&mut memory, ends.iter().flat_map(|(first, blocks)| [*first, *blocks]));
    let columns: Vec<u32> = (0..structure.nnzb() as u32).map(|block| 1000 + block).collect();
    let column_words = upload(&mut memory, columns.iter().copied());
    let (heads, work) = clean(&mut memory, |stream| stream.split(&lists, (row_words, column_words)));
    let (heads, tiles) = (words(&memory, heads), words(&memory, work));
    let clusters = lists.clusters() as usize;
    let mut parts: BTreeMap<(u32, u32), Vec<Part>> = BTreeMap::new();
    for cluster in 0..clusters {
        for at in 0..heads[cluster] as usize {
            let tile: [u32; WORDS] = tiles[(at * clusters + cluster) * WORDS..][..WORDS].try_into().unwrap();
            let [c_row, c_col, a_row, blocks, role, place, ..] = tile;
            assert_eq!(tile[6..], [0, 0], "{spec}");
            if at == 0 {
                let first = (a_row / plan.cluster_tile().block_rows) as usize;
                let ahead = columns.get(first..).unwrap_or(&[]).iter().take(blocks.min(32) as usize).copied();
                let head = heads[clusters + 32 * cluster..][..32].iter().copied();
                assert!(head.eq(ahead.chain(std::iter::repeat(0)).take(32)), "{spec}: the head of cluster {cluster}");
            }
            match c_row {
                TileScheduler::OUTSIDE => assert_eq!((blocks, role, place), (0, 0, 0), "{spec}: {tile:?}"),
                _ => parts.entry((c_row, c_col)).or_default().push((a_row, blocks, cluster, at, [role, place])),
            }
        }
    }
    let mut host: BTreeMap<(u32, u32), BTreeSet<(u32, u32)>> = BTreeMap::new();
    for tile in WorkPlan::new(&plan, &structure, n, 132).lists().flatten() {
        host.entry((tile.c_row, tile.c_col)).or_default().insert((tile.a_row, tile.blocks));
    }
    assert_eq!(parts.keys().collect::<Vec<_>>(), host.keys().collect::<Vec<_>>(), "{spec}: tiles");
    let mut places = BTreeSet::new();
    for (tile, of) in &mut parts {
        let is_part = |part: &Part| part.4[0] == SplitForm::CONTRIBUTES;
        of.sort_by_key(|part| (is_part(part), part.0));
        let got: BTreeSet<(u32, u32)> = of.iter().map(|part| (part.0, part.1)).collect();
        assert_eq!(got, host[tile], "{spec}: the parts of {tile:?}");
        let (own, others) = of.split_first().unwrap();
        assert_eq!(own.4[0] as usize, others.len(), "{spec}: what {tile:?} collects");
        for (place, part) in (own.4[1]..).zip(others) {
            assert_eq!(part.4, [SplitForm::CONTRIBUTES, place], "{spec}: {tile:?}");
            assert!(part.2 < own.2, "{spec}: {tile:?} is collected by {} and passed on by {}", own.2, part.2);
            assert!(places.insert(place) && (place as usize) < lists.places(), "{spec}: place {place}");
        }
    }
}

#[test]
fn tiles_are_divided_as_on_the_host_and_none_waits_for_a_higher_number() {
    for (spec, size, n, pattern, clusters) in [
        ("bm = 64, bn = 64, bk = 64, split = 2", (512, 2048), 130, "random:0.3", 33),
        ("bm = 128, bn = 128, bk = 128, cluster = 2, split = 3", (1664, 2048), 700, "powerlaw:0.3", 66),
        ("bm = 512, bn = 128, bk = 112, split = 16", (2048, 3584), 128, "causal", 132),
        ("bm = 64, bn = 64, bk = 16, split = 4", (640, 640), 300, "random:0.1", 7),
        ("bm = 64, bn = 128, bk = 64, op = dds, split = 2", (1024, 2048), 128, "random:0.2", 20),
        ("bm = 64, bn = 64, bk = 64, split = 5", (256, 256), 64, "random:0", 132),
        ("bm = 64, bn = 64, bk = 64, split = 2", (1536, 16384), 64, "one long row", 2),
    ] {
        check(spec, size, n, pattern, clusters, 1);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn rows_of_any_pattern_are_divided(
        parts in 2_u32..17,
        size in (1_usize..1500, 1_usize..3000),
        n in 1_usize..400,
        pattern in prop::sample::select(vec!["random:0.05", "random:0.6", "powerlaw:0.1", "causal"]),
        clusters in 2_u32..140,
        seed in 0_u64..1000,
    ) {
        check(&format!("bm = 64, bn = 64, bk = 64, split = {parts}"), size, n, pattern, clusters, seed);
    }
}

#[test]
fn more_parts_than_a_list_counts_are_refused_with_a_remedy() {
    let plan = plan("bm = 64, bn = 64, bk = 64, split = 16");
    let structure = bsr_runtime::Structure::empty(64 * 2000, 640, (64, 64)).unwrap();
    let error = SplitLists::new(&request(&plan, &structure, 64, 132), 16).unwrap_err().to_string();
    assert!(error.contains("30000 > 16384") && error.contains("help: "), "{error}");
}

#[test]
fn tiles_that_are_fewer_than_clusters_are_divided_where_that_is_left_open() {
    for (split, n, parts) in [("auto", 64, Some(8)), ("auto", 300, None), ("long", 100, Some(4)), ("off", 64, None)] {
        let plan = plan(&format!("bm = 64, bn = 64, bk = 64, split = {split}"));
        let structure = structure(&plan, (1024, 1024), "random:0.5", 0);
        assert_eq!(SplitLists::parts(plan.spec().split, &request(&plan, &structure, n, 132)), parts, "{split}, {n}");
    }
}

#[test]
fn the_host_lists_roles_as_these_kernels_do() {
    let plan = plan("bm = 64, bn = 64, bk = 64, split = 2");
    let structure = structure(&plan, (64, 1024), "random:1.0", 0);
    let work = WorkPlan::new(&plan, &structure, 64, 2);
    let roles: Vec<Role> = work.lists().flatten().map(|tile| tile.role).collect();
    assert_eq!(roles, [Role::Contributes { place: 0 }, Role::Collects { parts: 1, place: 0 }]);
}
