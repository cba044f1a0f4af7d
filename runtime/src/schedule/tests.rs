use std::collections::HashSet;

use bsr_codegen::{Arch, KernelSpec, Plan};

use super::{WorkItem, WorkPlan};

fn plan(text: &str) -> Plan {
    Plan::new(&text.parse().expect("a spec"), &Arch::SM_90A).expect("a plan")
}

fn row_ptr(lengths: &[i32]) -> Vec<i32> {
    let mut ptr = vec![0];
    for length in lengths {
        ptr.push(ptr[ptr.len() - 1] + length);
    }
    ptr
}

/// Stages that the busiest and the idlest cluster multiply.
fn loads(work: &WorkPlan) -> (u64, u64) {
    let load = |c: usize| -> u64 {
        let items = &work.items[work.offsets[c] as usize..work.offsets[c + 1] as usize];
        items.iter().map(|item| u64::from(item.blocks.max(1))).sum()
    };
    let loads: Vec<u64> = (0..work.clusters() as usize).map(load).collect();
    (
        *loads.iter().max().expect("clusters"),
        *loads.iter().min().expect("clusters"),
    )
}

#[test]
fn every_tile_is_dealt_once() {
    for text in [
        "bm = 128, bn = 256, bk = 64",
        "bm = 512, bn = 128, bk = 112",
        "bm = 64, bn = 64, bk = 64, schedule = strided",
    ] {
        let plan = plan(text);
        let tile = plan.cluster_tile();
        let lengths: Vec<i32> = (0..9).map(|i| i * 5 % 7).collect();
        let m = 9 * tile.block_rows as usize - 3;
        let work = WorkPlan::new(&plan, &row_ptr(&lengths), m, 1000, 132);
        let tiles: HashSet<(u32, u32)> = work.items.iter().map(|i| (i.c_row, i.c_col)).collect();
        let expected = m.div_ceil(tile.rows as usize) * 1000_usize.div_ceil(tile.columns as usize);
        assert_eq!(
            (tiles.len(), work.items.len()),
            (expected, expected),
            "{text}"
        );
        for item in &work.items {
            let block_row = (item.c_row / tile.block_rows) as usize;
            assert_eq!(item.blocks, lengths[block_row] as u32);
            assert_eq!(
                item.a_row / tile.block_rows,
                row_ptr(&lengths)[block_row] as u32
            );
            assert_eq!(item.a_row % tile.block_rows, item.c_row % tile.block_rows);
        }
    }
}

#[test]
fn uneven_rows_are_balanced() {
    let plan = plan("bm = 128, bn = 256, bk = 64");
    let lengths: Vec<i32> = (0..64).map(|i| 8 + i * 37 % 17).collect();
    let (most, least) = loads(&WorkPlan::new(&plan, &row_ptr(&lengths), 8192, 8192, 132));
    assert!(most - least <= most / 40, "{least} .. {most}");
    let strided = KernelSpec {
        schedule: Some(bsr_codegen::Schedule::Strided),
        ..*plan.spec()
    };
    let strided = Plan::new(&strided, &Arch::SM_90A).expect("a plan");
    let (most_strided, _) = loads(&WorkPlan::new(
        &strided,
        &row_ptr(&lengths),
        8192,
        8192,
        132,
    ));
    assert!(
        most < most_strided,
        "balancing did not help: {most} >= {most_strided}"
    );
}

#[test]
fn each_cluster_walks_its_columns_in_order() {
    let plan = plan("bm = 128, bn = 256, bk = 64");
    let work = WorkPlan::new(&plan, &row_ptr(&[3, 9, 4, 4, 8]), 640, 4096, 7);
    for pair in work.offsets.windows(2) {
        let items = &work.items[pair[0] as usize..pair[1] as usize];
        assert!(items.is_sorted_by_key(|item| item.c_col));
    }
}

#[test]
fn no_more_clusters_than_tiles() {
    let plan = plan("bm = 64, bn = 64, bk = 64");
    let work = WorkPlan::new(&plan, &[0, 0], 64, 1, 132);
    assert_eq!(work.offsets, [0, 1]);
    assert_eq!(
        work.items,
        [WorkItem {
            c_row: 0,
            c_col: 0,
            a_row: 0,
            blocks: 0
        }]
    );
    assert_eq!(WorkPlan::new(&plan, &[0], 0, 64, 132).items, []);
}
