use std::collections::{HashMap, HashSet};

use bsr_codegen::{IndexWidth, Plan, TileScheduler};

use super::{BlockIndex, Role, StageMetadata, WorkLists, WorkPlan, WorkTile};
use crate::Structure;

fn plan(text: &str) -> Plan {
    Plan::new(&text.parse().expect("a spec")).expect("a plan")
}

/// A pattern whose block row `i` stores its first `lengths[i]` blocks; the last block row extends beyond the matrix by
/// `cut` rows.
fn structure(plan: &Plan, lengths: &[i32], cut: usize) -> Structure {
    let (bm, bk) = (plan.spec().bm as usize, plan.spec().bk as usize);
    let mut row_ptr = vec![0];
    for length in lengths {
        row_ptr.push(row_ptr[row_ptr.len() - 1] + length);
    }
    let col_idx = lengths.iter().flat_map(|length| 0..*length).collect();
    let widest = lengths.iter().copied().max().unwrap_or(0).max(1) as usize;
    Structure::new(lengths.len() * bm - cut, widest * bk, (bm, bk), row_ptr, col_idx).expect("a structure")
}

/// Stages that the busiest cluster multiplies, and the average.
fn loads(work: &WorkPlan) -> (u64, u64) {
    let load = |list: &[WorkTile]| -> u64 { list.iter().map(|tile| u64::from(tile.blocks.max(1))).sum() };
    let loads: Vec<u64> = work.lists().map(load).collect();
    (*loads.iter().max().expect("clusters"), loads.iter().sum::<u64>() / loads.len() as u64)
}

#[test]
fn every_tile_is_assigned_once() {
    for text in
        ["bm = 128, bn = 256, bk = 64", "bm = 512, bn = 128, bk = 112", "bm = 64, bn = 64, bk = 64, schedule = strided"]
    {
        let plan = plan(text);
        let cluster_tile = plan.cluster_tile();
        let lengths: Vec<i32> = (0..9).map(|i| i * 5 % 7).collect();
        let structure = structure(&plan, &lengths, 3);
        let work = WorkPlan::new(&plan, &structure, 1000, 132);
        let tiles: HashSet<(u32, u32)> = work.tiles.iter().map(|i| (i.c_row, i.c_col)).collect();
        let expected =
            structure.rows().div_ceil(cluster_tile.rows as usize) * 1000_usize.div_ceil(cluster_tile.columns as usize);
        assert_eq!((tiles.len(), work.tiles.len()), (expected, expected), "{text}");
        for tile in &work.tiles {
            let block_row = (tile.c_row / cluster_tile.block_rows) as usize;
            assert_eq!(tile.blocks, lengths[block_row] as u32);
            assert_eq!(tile.a_row / cluster_tile.block_rows, structure.row_ptr()[block_row] as u32);
            assert_eq!(tile.a_row % cluster_tile.block_rows, tile.c_row % cluster_tile.block_rows);
        }
    }
}

#[test]
fn uneven_rows_are_balanced() {
    let plan = plan("bm = 128, bn = 256, bk = 64");
    let lengths: Vec<i32> = (0..64).map(|i| 8 + i * 37 % 17).collect();
    let (most, average) = loads(&WorkPlan::new(&plan, &structure(&plan, &lengths, 0), 8192, 132));
    assert!(most - average <= average / 50, "{most} against {average} on average");
    let round_robin = plan.spec().schedule(bsr_codegen::Schedule::Strided);
    let round_robin = Plan::new(&round_robin).expect("a plan");
    let (most_round_robin, _) = loads(&WorkPlan::new(&round_robin, &structure(&round_robin, &lengths, 0), 8192, 132));
    assert!(most < most_round_robin, "balancing did not help: {most} >= {most_round_robin}");
}

#[test]
fn heads_and_words_are_what_the_kernel_reads() {
    let plan = plan("bm = 128, bn = 256, bk = 64");
    let structure = structure(&plan, &[3, 40, 4, 0, 8], 0);
    let work = WorkPlan::new(&plan, &structure, 600, 4);
    let (heads, words) = (work.heads(&structure), work.words());
    assert_eq!(heads.len(), 4 + 4 * 32);
    assert_eq!(work.lists().count(), 4);
    for (cluster, tiles) in work.lists().enumerate() {
        assert_eq!(heads[cluster] as usize, tiles.len());
        let columns = &heads[4 + 32 * cluster..][..32];
        let stored = (tiles[0].blocks as usize).min(32);
        assert_eq!(columns[..stored], (0..stored as u32).collect::<Vec<_>>());
        for (i, tile) in tiles.iter().enumerate() {
            let at = 4 * (i * 4 + cluster);
            assert_eq!(words[at..at + 4], [tile.c_row, tile.c_col, tile.a_row, tile.blocks]);
        }
    }
}

#[test]
fn a_larger_than_l2_is_read_under_several_columns() {
    let plan = plan("bm = 512, bn = 256, bk = 112");
    let lengths = vec![16; 16];
    let structure = structure(&plan, &lengths, 0);
    let work = WorkPlan::new(&plan, &structure, 8192, 66);
    let first_columns: HashSet<u32> = (0..66).map(|c| work.tiles[work.offsets[c] as usize].c_col).collect();
    assert!(first_columns.len() > 4, "{first_columns:?}");
}

#[test]
fn no_more_clusters_than_tiles() {
    let plan = plan("bm = 64, bn = 64, bk = 64");
    let work = WorkPlan::new(&plan, &structure(&plan, &[0], 0), 1, 132);
    assert_eq!(work.offsets, [0, 1]);
    assert_eq!(work.tiles, [WorkTile { c_row: 0, c_col: 0, a_row: 0, blocks: 0, role: Role::Whole }]);
    let nothing = Structure::empty(0, 64, (64, 64)).expect("an empty structure");
    assert_eq!(WorkPlan::new(&plan, &nothing, 64, 132).tiles, []);
}

#[test]
fn lists_are_what_the_kernel_reads_of_a_work_plan() {
    let plan = plan("bm = 128, bn = 64, bk = 48");
    let structure = structure(&plan, &[3, 0, 40], 0);
    let (work, lists) = (WorkPlan::new(&plan, &structure, 100, 5), WorkLists::new(&plan, &structure, 100, 5));
    assert_eq!(lists.grid, [work.clusters(), 1]);
    assert_eq!((lists.heads, lists.tiles), (work.heads(&structure), work.words()));
}

/// The records of every tile, under every column, are in parts that follow on one another; parts for others come first, and
/// are collected in the order of their places.
#[test]
fn records_are_divided_into_parts_that_follow_on_one_another() {
    for text in ["bm = 32, bn = 64, bk = 32, split = 3", "bm = 16, bn = 64, bk = 64, split = auto"] {
        let plan = plan(text);
        let structure = structure(&plan, &[50, 3, 0, 0, 0, 0, 0, 0, 0, 0, 9, 70, 60, 2, 1, 0, 40], 3);
        let TileScheduler::StageMetadata(packing) = plan.tile_scheduler() else { panic!("{text}") };
        let index = BlockIndex::new(&plan, &structure);
        let metadata = StageMetadata::new(&packing, &index);
        let work = WorkPlan::of_records(&plan, &packing, &metadata, &structure, 100, 13);
        let mut parts: HashMap<(u32, u32), Vec<(u32, WorkTile)>> = HashMap::new();
        for (cluster, list) in work.lists().enumerate() {
            for tile in list {
                parts.entry((tile.c_row, tile.c_col)).or_default().push((cluster as u32, *tile));
            }
        }
        assert_eq!(parts.len(), 2 * metadata.tiles(&packing, index.rows).len());
        let mut divided = 0;
        for tile in metadata.tiles(&packing, index.rows).iter().map(|(tile, _)| *tile) {
            for column in [0, 64] {
                let mut of = parts[&(tile.c_row, column)].clone();
                of.sort_by_key(|(_, part)| part.a_row);
                let (collector, first) = of[0];
                let mut at = tile.a_row;
                let mut places = vec![];
                for (cluster, part) in &of {
                    assert_eq!(part.a_row, at, "{text}");
                    at += part.blocks;
                    if let Role::Contributes { place } = part.role {
                        assert!(*cluster <= collector, "{text}: a cluster waits for one of a higher number");
                        places.push(place);
                    }
                }
                assert_eq!(at, tile.a_row + tile.blocks, "{text}");
                places.sort_unstable();
                match first.role {
                    Role::Collects { parts, place } => {
                        divided += 1;
                        assert_eq!(places, (place..place + parts).collect::<Vec<_>>(), "{text}");
                    }
                    _ => assert_eq!((first.role, of.len()), (Role::Whole, 1), "{text}"),
                }
            }
        }
        assert!(divided > 0, "{text}");
    }
}

/// Row lengths of a power law, in a pattern of which L2 holds few columns of tiles.
fn power_law(plan: &Plan) -> Structure {
    let lengths: Vec<i32> = (0..40).map(|i| [260, 240, 130, 60, 30][usize::min(i * 7 % 40, 4)]).collect();
    let structure = structure(plan, &lengths, 5);
    assert!(super::columns_held(plan, structure.cols()) < 40.0);
    structure
}

#[test]
fn long_rows_are_divided_and_nothing_waits_for_a_higher_number() {
    for text in [
        "bm = 64, bn = 256, bk = 64, split = long",
        "bm = 128, bn = 128, bk = 128, cluster = 2, split = long",
        "bm = 512, bn = 128, bk = 112, split = long",
    ] {
        let plan = plan(text);
        let structure = power_law(&plan);
        let (n, clusters) = (12_000, 66);
        let work = WorkPlan::new(&plan, &structure, n, clusters);
        assert_eq!(work.clusters(), clusters, "{text}");
        // Where a part is: its cluster, and its place in that one's list.
        type Part = ((u32, usize), WorkTile);
        let mut parts: HashMap<(u32, u32), Vec<Part>> = HashMap::new();
        for (cluster, list) in (0..).zip(work.lists()) {
            for (at, tile) in list.iter().enumerate() {
                parts.entry((tile.c_row, tile.c_col)).or_default().push(((cluster, at), *tile));
            }
        }
        let mut places = HashSet::new();
        let rows = plan.cluster_tile().block_rows;
        let longest = parts.values().flatten().map(|(_, part)| part.blocks).max().unwrap_or(0);
        for of in parts.values_mut() {
            of.sort_by_key(|(_, part)| part.a_row);
            let (collector, first) = of[0];
            let mut at = first.a_row;
            for (_, part) in of.iter() {
                assert_eq!(part.a_row, at, "{text}: parts follow on one another");
                at += part.blocks * rows;
            }
            let number = of.len() as u32 - 1;
            match first.role {
                Role::Collects { parts, place } => {
                    assert_eq!(parts, number, "{text}");
                    for (expected, (contributor, part)) in (place..).zip(&of[1..]) {
                        assert_eq!(part.role, Role::Contributes { place: expected }, "{text}");
                        assert!(*contributor < collector, "{text}: a part for {collector:?} is at {contributor:?}");
                        assert!(places.insert(expected), "{text}: two parts have place {expected}");
                    }
                }
                role => assert_eq!((role, number), (Role::Whole, 0), "{text}"),
            }
        }
        assert_eq!(Some(places.len() as u32), work.places, "{text}");
        assert!(places.len() > 20 && longest < 200, "{text}: {} parts, the longest {longest}", places.len());
        let (most, average) = loads(&work);
        assert!(most < average + average / 8, "{text}: {most} against {average} on average");
    }
}

#[test]
fn without_long_rows_or_many_columns_nothing_else_is_divided() {
    for (text, lengths, n) in [
        // Rows of one length, and all columns of B in L2.
        ("bm = 64, bn = 256, bk = 64", vec![90; 40], 12_000),
        ("bm = 64, bn = 256, bk = 64", (0..40).map(|i| if i % 9 == 0 { 90 } else { 4 }).collect(), 600),
    ] {
        let [long, auto] = ["long", "auto"].map(|split| plan(&format!("{text}, split = {split}")));
        let structure = structure(&long, &lengths, 0);
        let work = |plan| WorkPlan::new(plan, &structure, n, 132);
        assert_eq!(work(&long), work(&auto), "{text}");
    }
}

#[test]
fn row_pointers_have_the_width_that_the_kernel_reads() {
    let row_ptr = [0, 3 << 30, (5 << 32) + 7];
    assert_eq!(super::pointers(&row_ptr[..2], IndexWidth::I32), [0, 3 << 30]);
    assert_eq!(super::pointers(&row_ptr, IndexWidth::I64), [0, 0, 3 << 30, 0, 7, 5]);
}
