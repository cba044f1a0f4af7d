//! Patterns as arrays: the check, the transposed index, masks.

use bsr_codegen::lists::{IndexWidth, ListKernel, WrongIndex};
use bsr_runtime::{Pattern, Structure};
use bsr_simulator::{BufferId, GlobalMemory};
use proptest::prelude::*;

use crate::simulate::{launch, upload, words};

/// What the check says of a pattern.
#[derive(Debug, PartialEq, Eq)]
struct Checked {
    /// First block and number of blocks of every block row.
    rows: Vec<(u32, u32)>,
    columns: Vec<u32>,
    /// The first wrong row, what is wrong with it, and the value.
    wrong: Option<(u32, WrongIndex, i64)>,
}

/// Checks a pattern on the simulator. The arrays are as long as they must be, so that an address that is made of a wrong
/// value is found.
fn check(row_ptr: &[i64], col_idx: &[i64], block_columns: u32, width: IndexWidth) -> Checked {
    let mut memory = GlobalMemory::new();
    let index = |values: &[i64]| -> Vec<u32> {
        match width {
            IndexWidth::I32 => values.iter().map(|value| *value as i32 as u32).collect(),
            IndexWidth::I64 => values.iter().flat_map(|value| [*value as u32, (*value >> 32) as u32]).collect(),
        }
    };
    let (block_rows, capacity) = (row_ptr.len() as u32 - 1, col_idx.len() as u32);
    let row_ptr = upload(&mut memory, index(row_ptr));
    let col_idx = upload(&mut memory, index(col_idx));
    let rows = upload(&mut memory, vec![u32::MAX; 2 * block_rows as usize]);
    let columns = upload(&mut memory, vec![u32::MAX; capacity as usize]);
    let error = upload(&mut memory, [u32::MAX; 2]);
    let values = upload(&mut memory, vec![0; 2 * block_rows as usize]);
    let kernel = ListKernel::Check(width);
    let pointers = [row_ptr, col_idx, rows, columns, error, values];
    launch(&mut memory, kernel, (kernel.grid(block_rows, 1), 0), &pointers, &[block_rows, block_columns, capacity]);
    let (error, values) = (words(&memory, error), words(&memory, values));
    let wrong = WrongIndex::from_number(error[0]).map(|kind| {
        let [low, high] = [0, 1].map(|half| values[2 * error[1] as usize + half]);
        (error[1], kind, (u64::from(high) << 32 | u64::from(low)) as i64)
    });
    let rows = words(&memory, rows).chunks(2).map(|row| (row[0], row[1])).collect();
    Checked { rows, columns: words(&memory, columns), wrong }
}

/// The same as it is meant.
fn checked(row_ptr: &[i64], col_idx: &[i64], block_columns: u32) -> Checked {
    let mut checked = Checked { rows: vec![], columns: vec![], wrong: None };
    for (row, ends) in row_ptr.windows(2).enumerate() {
        let wrong = wrong_row(row, ends, col_idx, block_columns);
        checked.rows.push(if wrong.is_some() { (0, 0) } else { (ends[0] as u32, (ends[1] - ends[0]) as u32) });
        if checked.wrong.is_none() {
            checked.wrong = wrong.map(|(kind, value)| (row as u32, kind, value));
        }
    }
    checked
}

fn wrong_row(row: usize, ends: &[i64], col_idx: &[i64], block_columns: u32) -> Option<(WrongIndex, i64)> {
    match (ends[0], ends[1]) {
        (first, _) if row == 0 && first != 0 => return Some((WrongIndex::Start, first)),
        (first, _) if first < 0 => return Some((WrongIndex::Negative, first)),
        (first, end) if end < first => return Some((WrongIndex::Descends, end)),
        (_, end) if end > col_idx.len() as i64 => return Some((WrongIndex::Capacity, end)),
        _ => {}
    }
    let columns = &col_idx[ends[0] as usize..ends[1] as usize];
    columns.iter().enumerate().find_map(|(at, column)| {
        let before = if at > 0 { columns[at - 1] } else { -1 };
        let kind = match column {
            column if *column < 0 || *column >= i64::from(block_columns) => WrongIndex::Column,
            column if at > 0 && *column < before => WrongIndex::Order,
            column if at > 0 && *column == before => WrongIndex::Twice,
            _ => return None,
        };
        Some((kind, *column))
    })
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
        let (row_ptr, mut col_idx) = (widened(structure.row_ptr()), widened(structure.col_idx()));
        // Behind the last block lies what is never looked at.
        col_idx.extend([-7, 1 << 20, 3]);
        for width in [IndexWidth::I32, IndexWidth::I64] {
            let found = check(&row_ptr, &col_idx, structure.block_cols() as u32, width);
            let meant = checked(&row_ptr, &col_idx, structure.block_cols() as u32);
            assert_eq!((found.rows, found.wrong), (meant.rows, None), "{word}");
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
            assert_eq!(found.rows, checked(&row_ptr, &col_idx, 4).rows, "{row_ptr:?}, {col_idx:?}, {width:?}");
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
        let meant = checked(&row_ptr, &col_idx, 10);
        prop_assert_eq!((&found.rows, &found.wrong), (&meant.rows, &meant.wrong));
        let narrow: Vec<Vec<i64>> =
            [&row_ptr, &col_idx].map(|list| list.iter().map(|value| i64::from(*value as i32)).collect()).into();
        let found = check(&narrow[0], &narrow[1], 10, IndexWidth::I32);
        let meant = checked(&narrow[0], &narrow[1], 10);
        prop_assert_eq!((&found.rows, &found.wrong), (&meant.rows, &meant.wrong));
        transposed(&meant.rows, &found.columns, 10, col_idx.len() as u32, 3);
    }
}

/// Launches the kernels that make the transposed index. There is a line of counts for every CTA, and one more.
pub(crate) fn transpose(
    memory: &mut GlobalMemory,
    pointers: [BufferId; 6],
    [block_rows, block_columns, capacity]: [u32; 3],
    ctas: u32,
) {
    let [rows, columns, counts, ..] = pointers;
    let by_rows = [block_rows, block_columns, block_rows.div_ceil(ctas)];
    let [count, scan, scatter] = [ListKernel::CountColumns, ListKernel::ScanColumns, ListKernel::ScatterColumns];
    let bytes = |kernel: ListKernel| kernel.column_bytes(block_columns);
    launch(memory, count, (ctas, bytes(count)), &[rows, columns, counts], &by_rows);
    launch(memory, scan, (scan.grid(block_columns, 1), bytes(scan)), &[counts], &[block_columns, ctas]);
    let numbers = [by_rows[0], by_rows[1], by_rows[2], capacity];
    launch(memory, scatter, (ctas, bytes(scatter)), &pointers, &numbers);
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
    transpose(&mut memory, pointers, [block_rows, block_columns, capacity], ctas);
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
        let host = structure.transposed();
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

#[test]
fn a_mask_becomes_the_arrays_of_its_pattern() {
    for (word, rows, cols, spare) in
        [("random:0.3", 64 * 19, 64 * 45, 5), ("causal", 64 * 33, 64 * 33, 0), ("random:0.5", 64 * 300, 64 * 3, -100)]
    {
        let structure = structure(word, rows, cols);
        let (block_rows, block_columns) = (structure.block_rows(), structure.block_cols());
        let mut mask = vec![0_u8; block_rows * block_columns];
        for row in 0..block_rows {
            for block in structure.blocks_of(row) {
                mask[row * block_columns + structure.col_idx()[block] as usize] = 1 + (block % 255) as u8;
            }
        }
        let capacity = (structure.nnzb() as i64 + spare) as u32;
        let mut memory = GlobalMemory::new();
        let mask = memory.upload(mask, 256);
        let counts = memory.alloc(4 * block_rows, 256);
        let row_ptr = memory.alloc(4 * (block_rows + 1), 256);
        let col_idx = memory.alloc(4 * capacity as usize, 256);
        let numbers = [block_rows as u32, block_columns as u32, capacity];
        let grid = ListKernel::MaskRows.grid(block_rows as u32, 1);
        launch(&mut memory, ListKernel::MaskRows, (grid, 0), &[mask, counts], &numbers[..2]);
        let pointers = [mask, counts, row_ptr, col_idx];
        launch(&mut memory, ListKernel::MaskColumns, (grid, 32), &pointers, &numbers);
        let host = |list: &[i32]| list.iter().map(|word| *word as u32).collect::<Vec<_>>();
        assert_eq!(words(&memory, row_ptr), host(structure.row_ptr()), "{word}");
        let kept = structure.nnzb().min(capacity as usize);
        assert_eq!(words(&memory, col_idx)[..kept], host(structure.col_idx())[..kept], "{word}");
    }
}
