//! Patterns as arrays: the check, the transposed index, masks.

use bsr_codegen::lists::{IndexWidth, ListKernel, WrongIndex, ptx};
use bsr_runtime::simulated::lists::{CheckedPattern, ListKernels, faults_of_checks, faults_of_lists, meant};
use bsr_runtime::{Pattern, Structure};
use bsr_simulator::GlobalMemory;
use proptest::prelude::*;

use crate::simulate::{clean, upload, words};

/// Checks a pattern on the simulator, which finds nothing.
fn check(row_ptr: &[i64], col_idx: &[i64], block_columns: u32, width: IndexWidth) -> CheckedPattern {
    ListKernels::own().unwrap().check(row_ptr, col_idx, block_columns, width).unwrap().unwrap()
}

#[test]
fn every_mistake_is_found_in_every_load_of_a_row() {
    let faults: Vec<_> = faults_of_checks(&ListKernels::own().unwrap()).map(Result::unwrap).collect();
    assert_eq!(faults, Vec::<String>::new());
}

#[test]
fn lists_of_more_rows_and_columns_than_threads_are_those_of_the_host() {
    let faults: Vec<_> = faults_of_lists(&ListKernels::own().unwrap()).map(Result::unwrap).collect();
    assert_eq!(faults, Vec::<String>::new());
}

/// A bound that lets one column too many pass, or one too few, in one of the loads that are written out one after the other.
#[test]
fn a_wrong_bound_in_any_load_of_either_width_is_found() {
    let text = ptx();
    let bounds: Vec<_> = text.match_indices("setp.ge.u64 %p_bad, %rd_column").map(|(at, _)| at).collect();
    assert_eq!(bounds.len(), 2 * ListKernel::CHECK_LOADS as usize);
    for at in bounds {
        let wrong = format!("{}setp.gt.u64{}", &text[..at], &text[at + "setp.ge.u64".len()..]);
        assert!(faults_of_checks(&ListKernels::new(&wrong).unwrap()).map(Result::unwrap).next().is_some(), "byte {at}");
    }
}

fn structure(word: &str, rows: usize, cols: usize) -> Structure {
    word.parse::<Pattern>().unwrap().structure(rows, cols, (64, 64), 5).unwrap()
}

fn widened(values: &[i32]) -> Vec<i64> {
    values.iter().map(|value| i64::from(*value)).collect()
}

#[test]
fn right_patterns_are_copied() {
    for (word, rows, cols) in [("random:0.3", 64 * 9, 64 * 300), ("causal", 64 * 130, 64 * 130), ("random:0", 640, 640)]
    {
        let structure = structure(word, rows, cols);
        let (row_ptr, mut col_idx) = (structure.row_ptr().to_vec(), widened(structure.col_idx()));
        // Behind the last block lies what is never looked at.
        col_idx.extend([-7, 1 << 20, 3]);
        for width in [IndexWidth::I32, IndexWidth::I64] {
            let found = check(&row_ptr, &col_idx, structure.block_cols() as u32, width);
            let want = meant(&row_ptr, &col_idx, structure.block_cols() as u32);
            assert_eq!((found.rows, found.wrong), (want.rows, None), "{word}");
            let stored: Vec<u32> = structure.col_idx().iter().map(|column| *column as u32).collect();
            assert_eq!(found.columns[..structure.nnzb()], stored, "{word}");
        }
    }
}

#[test]
fn wrong_patterns_are_told_and_have_no_blocks() {
    let (right, columns) = ([0, 2, 2, 5], [0_i64, 3, 1, 2, 3]);
    let wide = 1_i64 << 33;
    for (row_ptr, col_idx, kind) in [
        ([0, 2, 2, 6], columns, (2, WrongIndex::Capacity, 6)),
        ([0, 2, 1, 5], columns, (1, WrongIndex::Descends, 1)),
        ([1, 2, 2, 5], columns, (0, WrongIndex::Start, 1)),
        ([0, -2, 2, 5], columns, (0, WrongIndex::Descends, -2)),
        ([-1, 2, 2, 5], columns, (0, WrongIndex::Start, -1)),
        (right, [0, 4, 1, 2, 3], (0, WrongIndex::Column, 4)),
        (right, [0, 3, -1, 2, 3], (2, WrongIndex::Column, -1)),
        (right, [0, 3, 1, 3, 2], (2, WrongIndex::Order, 2)),
        (right, [0, 3, 1, 3, 3], (2, WrongIndex::Twice, 3)),
        ([0, 2, 2, wide + 5], columns, (2, WrongIndex::Capacity, wide + 5)),
        (right, [0, wide, 1, 2, 3], (0, WrongIndex::Column, wide)),
    ] {
        for width in [IndexWidth::I32, IndexWidth::I64] {
            if width == IndexWidth::I32 && row_ptr.iter().chain(&col_idx).any(|value| *value >= wide) {
                continue;
            }
            let found = check(&row_ptr, &col_idx, 4, width);
            assert_eq!(found.wrong, Some(kind), "{row_ptr:?}, {col_idx:?}, {width:?}");
            assert_eq!(found.rows, meant(&row_ptr, &col_idx, 4).rows, "{row_ptr:?}, {col_idx:?}, {width:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    /// Anything may lie there: what the check reads and writes stays inside of the arrays, which the simulator watches.
    #[test]
    fn garbage_never_becomes_an_address(
        row_ptr in prop::collection::vec(prop_oneof![-3_i64..20, any::<i64>(), any::<i32>().prop_map(i64::from)], 2..9),
        col_idx in prop::collection::vec(prop_oneof![-2_i64..12, any::<i64>()], 1..200),
    ) {
        let found = check(&row_ptr, &col_idx, 10, IndexWidth::I64);
        let want = meant(&row_ptr, &col_idx, 10);
        prop_assert_eq!((&found.rows, &found.wrong), (&want.rows, &want.wrong));
        let narrow: Vec<Vec<i64>> =
            [&row_ptr, &col_idx].map(|list| list.iter().map(|value| i64::from(*value as i32)).collect()).into();
        let found = check(&narrow[0], &narrow[1], 10, IndexWidth::I32);
        let want = meant(&narrow[0], &narrow[1], 10);
        prop_assert_eq!((&found.rows, &found.wrong), (&want.rows, &want.wrong));
        transposed(&want.rows, &found.columns, 10, col_idx.len() as u32, 3);
    }
}

/// The transposed index on the simulator: of every column first place and number of blocks, then rows and blocks.
fn transposed(
    rows: &[(u32, u32)],
    columns: &[u32],
    block_columns: u32,
    capacity: u32,
    ctas: u32,
) -> (Vec<(u32, u32)>, Vec<u32>, Vec<u32>) {
    let mut memory = GlobalMemory::new();
    let block_rows = rows.len() as u32;
    let rows = upload(&mut memory, rows.iter().flat_map(|(first, blocks)| [*first, *blocks]));
    let columns = upload(&mut memory, columns.iter().copied());
    let counts = memory.alloc((4 * (ctas + 1) * block_columns) as usize, 256);
    let transposed_rows = memory.alloc(8 * block_columns as usize, 256);
    let transposed_columns = upload(&mut memory, vec![u32::MAX; capacity as usize]);
    let blocks = upload(&mut memory, vec![u32::MAX; capacity as usize]);
    let pointers = [rows, columns, counts, transposed_rows, transposed_columns, blocks];
    clean(&mut memory, |stream| stream.transpose(pointers, [block_rows, block_columns, capacity], ctas));
    let rows = words(&memory, transposed_rows).chunks(2).map(|row| (row[0], row[1])).collect();
    (rows, words(&memory, transposed_columns), words(&memory, blocks))
}

#[test]
fn the_transposed_index_is_that_of_the_host() {
    for (word, rows, cols, ctas) in [
        ("random:1", 64 * 5, 64 * 1100, 2),
        ("random:0.3", 64 * 20, 64 * 30, 4),
        ("random:0.6", 64 * 45, 64 * 700, 2),
        ("random:0.3", 64 * 300, 64 * 40, 150),
        ("causal", 64 * 17, 64 * 17, 5),
        ("random:0.02", 64 * 10, 64 * 1100, 9),
    ] {
        let structure = structure(word, rows, cols);
        let rows: Vec<_> = structure.row_ptr().windows(2).map(|e| (e[0] as u32, (e[1] - e[0]) as u32)).collect();
        let columns: Vec<u32> = structure.col_idx().iter().map(|column| *column as u32).collect();
        let block_columns = structure.block_cols() as u32;
        let (by_column, row_of, block_of) = transposed(&rows, &columns, block_columns, columns.len() as u32, ctas);
        let host = structure.transposed().unwrap();
        let words = |list: &[i32]| list.iter().map(|word| *word as u32).collect::<Vec<_>>();
        let meant: Vec<_> = host.row_ptr().windows(2).map(|e| (e[0] as u32, (e[1] - e[0]) as u32)).collect();
        assert_eq!((by_column, row_of, block_of), (meant, words(host.col_idx()), words(host.block_idx())), "{word}");
    }
}

#[test]
fn blocks_without_room_are_not_listed_by_column() {
    // Both rows are right by themselves, and overlap.
    let (by_column, row_of, block_of) = transposed(&[(0, 3), (0, 0), (0, 3)], &[0, 1, 2], 3, 3, 2);
    assert_eq!(by_column, [(0, 0); 3]);
    assert_eq!((row_of, block_of), (vec![u32::MAX; 3], vec![u32::MAX; 3]));
}
