//! Patterns that are wrong, in every place of the code that checks them.

use super::*;
use crate::Pattern;
use crate::error::SimulatedError;
use crate::machine;

/// What the check says of a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckedPattern {
    /// First block and number of blocks of every block row; none of a wrong one.
    pub rows: Vec<(u32, u32)>,
    /// The columns that were copied.
    pub columns: Vec<u32>,
    /// The first wrong row, what is wrong with it, and the value.
    pub wrong: Option<(u32, WrongIndex, i64)>,
}

impl ListKernels {
    /// Checks a pattern of `block_columns` columns. The arrays are as long as they must be, so that an address that is made
    /// of a wrong value is found.
    ///
    /// # Errors
    /// As [`ListKernels::launch`]; what the simulator finds comes in place of the result.
    pub fn check(
        &self,
        row_ptr: &[i64],
        col_idx: &[i64],
        block_columns: u32,
        width: IndexWidth,
    ) -> Result<Result<CheckedPattern, Vec<Finding>>, LaunchError> {
        let mut memory = GlobalMemory::new();
        let mut stream = Stream::new(self, &mut memory);
        let index = |values: &[i64]| -> Vec<u32> {
            match width {
                IndexWidth::I32 => values.iter().map(|value| *value as i32 as u32).collect(),
                IndexWidth::I64 => values.iter().flat_map(|value| [*value as u32, (*value >> 32) as u32]).collect(),
            }
        };
        let (block_rows, capacity) = (row_ptr.len() as u32 - 1, col_idx.len() as u32);
        let pointers = [
            stream.upload(index(row_ptr)),
            stream.upload(index(col_idx)),
            stream.upload(vec![u32::MAX; 2 * block_rows as usize]),
            stream.upload(vec![u32::MAX; capacity as usize]),
            stream.upload([u32::MAX; 2]),
            stream.upload(vec![0; 2 * block_rows as usize]),
        ];
        let kernel = ListKernel::Check(width);
        let grid = (kernel.grid(block_rows, 1), 0);
        stream.launch(kernel, grid, &pointers, &[block_rows, block_columns, capacity])?;
        let findings = stream.findings();
        if !findings.is_empty() {
            return Ok(Err(findings));
        }
        let words = |at: usize| -> Vec<u32> {
            memory.bytes(pointers[at]).as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)).collect()
        };
        let (error, values) = (words(4), words(5));
        let wrong = WrongIndex::from_number(error[0]).map(|kind| {
            let [low, high] = [0, 1].map(|half| values[2 * error[1] as usize + half]);
            (error[1], kind, (u64::from(high) << 32 | u64::from(low)) as i64)
        });
        let rows = words(2).as_chunks::<2>().0.iter().map(|row| (row[0], row[1])).collect();
        Ok(Ok(CheckedPattern { rows, columns: words(3), wrong }))
    }
}

/// What the check is meant to say of a pattern, but for columns.
pub fn meant(row_ptr: &[i64], col_idx: &[i64], block_columns: u32) -> CheckedPattern {
    let mut checked = CheckedPattern { rows: vec![], columns: vec![], wrong: None };
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

/// Columns of the patterns of [`faults_of_checks`].
const COLUMNS: i64 = 3000;

/// A row whose column at place `at` is wrong in one of several ways, or is the last one that is right.
fn row_with(at: usize, way: usize) -> Vec<i64> {
    let mut columns: Vec<i64> = (0..=at as i64).map(|column| 2 * column + 1).collect();
    columns[at] = match way {
        0 => COLUMNS - 1,
        1 => COLUMNS,
        2 => -1,
        3 if at > 0 => columns[at - 1],
        4 if at > 0 => columns[at - 1] - 1,
        _ => columns[at],
    };
    columns
}

/// A pattern to check.
struct ToCheck {
    what: String,
    row_ptr: Vec<i64>,
    col_idx: Vec<i64>,
}

/// Right patterns, and wrong ones with every mistake in each of the loads that a lane has of a row, in several lanes, and in
/// the next round of loads.
fn to_check() -> impl Iterator<Item = ToCheck> {
    let pointers = [[0, 2, 2, 5], [0, 2, 2, 6], [0, 2, 1, 5], [1, 2, 2, 5], [0, -2, 2, 5], [-1, 2, 2, 5], [0, 0, 0, 0]];
    let pointers = pointers.map(|row_ptr| ToCheck {
        what: format!("row pointers {row_ptr:?}"),
        row_ptr: row_ptr.into(),
        col_idx: vec![0, 3, 1, 2, 3],
    });
    let loads = 0..=ListKernel::CHECK_LOADS as usize;
    loads.flat_map(|load| (0..5).flat_map(move |way| mistakes(load, way))).chain(pointers)
}

/// Patterns with a mistake in one load. The first wrong row tells; a row before it is right.
fn mistakes(load: usize, way: usize) -> [ToCheck; 4] {
    let rows = [
        vec![0, 5, COLUMNS - 1],
        row_with(32 * load + 7, way),
        row_with(32 * load + 31, way),
        row_with(32 * load, way),
    ];
    [&rows[..2], &rows[2..3], &rows[3..], &rows[..]].map(|rows| {
        let ends = rows.iter().scan(0, |end, row| {
            *end += row.len() as i64;
            Some(*end)
        });
        let row_ptr = std::iter::once(0).chain(ends).collect();
        ToCheck { what: format!("mistake {way} in load {load}"), row_ptr, col_idx: rows.concat() }
    })
}

/// What the kernels that check patterns say wrongly of right and wrong patterns. Each is checked when it is asked for.
///
/// # Errors
/// As [`ListKernels::launch`].
pub fn faults_of_checks(kernels: &ListKernels) -> impl Iterator<Item = Result<String, LaunchError>> {
    let widths = [IndexWidth::I32, IndexWidth::I64];
    to_check()
        .flat_map(move |pattern| widths.map(|width| fault_of_check(kernels, &pattern, width)))
        .filter_map(Result::transpose)
}

fn fault_of_check(
    kernels: &ListKernels,
    ToCheck { what, row_ptr, col_idx }: &ToCheck,
    width: IndexWidth,
) -> Result<Option<String>, LaunchError> {
    let meant = meant(row_ptr, col_idx, COLUMNS as u32);
    let found = match kernels.check(row_ptr, col_idx, COLUMNS as u32, width)? {
        Err(findings) => return Ok(Some(format!("{what}, {width:?}: {}", findings[0]))),
        Ok(found) => found,
    };
    if (&found.rows, found.wrong) != (&meant.rows, meant.wrong) {
        return Ok(Some(format!("{what}, {width:?}: {:?} in place of {:?}", found.wrong, meant.wrong)));
    }
    // Rows that are right are copied.
    let differ = |(first, blocks): &(u32, u32)| {
        let of = *first as usize..(first + blocks) as usize;
        found.columns[of.clone()].iter().zip(&col_idx[of]).any(|(got, want)| i64::from(*got) != *want)
    };
    let differs = meant.rows.iter().any(differ);
    Ok(differs.then(|| format!("{what}, {width:?}: the columns of a right row are not its columns")))
}

/// What the kernels that transpose patterns, make them of masks and list the tiles of SDDMMs and pairs of blocks list otherwise than the host, of
/// patterns with more rows and columns than a CTA has threads. Each is listed when it is asked for.
///
/// # Errors
/// As [`ListKernels::launch`]; a pattern that cannot be had.
pub fn faults_of_lists(kernels: &ListKernels) -> impl Iterator<Item = Result<String, SimulatedError>> {
    let masks = masks().map(|mask| fault_of_mask(kernels, mask));
    let transposes = to_transpose().map(|transpose| fault_of_transpose(kernels, transpose));
    let sddmms = sddmm::SDDMMS.iter().map(|one| sddmm::fault_of_sddmm(kernels, one));
    masks.chain(transposes).chain(sddmms).filter_map(Result::transpose).chain(faults_of_pairs(kernels))
}

/// Patterns to transpose: blocks that are stored, block rows and columns, and CTAs. The rows of a CTA are any number of those
/// that it reads ahead, and some CTAs have none; columns are fewer and more than a CTA has threads.
fn to_transpose() -> impl Iterator<Item = (Pattern, [usize; 3])> {
    let large = [(Pattern::Random(0.3), [300, 40, 150]), (Pattern::Random(0.4), [45, 700, 2])];
    // A row that ends within each of the eight loads of a lane.
    let ends = (0..8).map(|load| (Pattern::Random(1.0), [2, 256 + 32 * load + 7, 1]));
    let few_rows = (1..=13).flat_map(|rows| [1, 3, 8].map(|ctas| (Pattern::Random(1.0), [rows, 3, ctas])));
    [[5, 1100, 2], [8, 1100, 1]]
        .map(|sizes| (Pattern::Random(1.0), sizes))
        .into_iter()
        .chain(large)
        .chain(ends)
        .chain(few_rows)
}

/// The same of the kernels that transpose patterns: with room for all blocks, and with room for all but one, which is a
/// pattern without blocks.
fn fault_of_transpose(
    kernels: &ListKernels,
    (pattern, [rows, cols, ctas]): (Pattern, [usize; 3]),
) -> Result<Option<String>, SimulatedError> {
    let what = format!("the transpose of {rows} x {cols} blocks in {ctas} CTAs");
    let Ok(structure) = pattern.structure(64 * rows, 64 * cols, (64, 64), 5) else {
        return Ok(Some(format!("{what} has no pattern")));
    };
    let (host, stored) = (structure.by_columns(), structure.nnzb());
    let words = |list: &[i32]| list.iter().map(|word| word.cast_unsigned()).collect::<Vec<_>>();
    let ends = host.row_ptr().windows(2).flat_map(|ends| [ends[0] as u32, (ends[1] - ends[0]) as u32]);
    let want = [ends.collect(), words(host.col_idx()), words(host.block_idx())];
    let without = [vec![0; 2 * cols], vec![u32::MAX; stored], vec![u32::MAX; stored]];
    for (capacity, want) in [(stored, want), (stored - 1, without)] {
        let mut memory = GlobalMemory::new();
        let mut stream = Stream::new(kernels, &mut memory);
        let (of_rows, columns) = stream.index(&structure);
        let counts = stream.alloc((ctas + 1) * cols);
        let made = [stream.alloc(2 * cols), stream.alloc(stored), stream.alloc(stored)];
        let pointers = [of_rows, columns, counts, made[0], made[1], made[2]];
        stream.transpose(pointers, [rows as u32, cols as u32, capacity as u32], ctas as u32)?;
        let findings = stream.findings();
        let differs = made.iter().zip(&want).any(|(id, want)| self::words(&memory, *id)[..want.len()] != **want);
        let found = fault(findings, differs, &format!("{what}, room for {capacity}"));
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

/// Masks: blocks that are stored, block rows and columns, and how many more blocks there is room for.
fn masks() -> impl Iterator<Item = (Pattern, [usize; 2], isize)> {
    let drawn =
        [(Pattern::Random(0.3), [19, 45], 5), (Pattern::Causal, [33, 33], 0), (Pattern::Random(0.5), [300, 3], -100)];
    // Rows that end within each of the eight loads of a lane, and are followed by a block; room that ends in the same load.
    let ends = (0..8).map(|load| (Pattern::Random(1.0), [2, 256 + 32 * load + 7], -260));
    drawn.into_iter().chain(ends)
}

/// The same of the kernels that make a pattern of a byte for every block.
fn fault_of_mask(
    kernels: &ListKernels,
    (pattern, [rows, cols], room): (Pattern, [usize; 2], isize),
) -> Result<Option<String>, SimulatedError> {
    let what = format!("the pattern of a mask of {rows} x {cols} blocks");
    let Ok(structure) = pattern.structure(64 * rows, 64 * cols, (64, 64), 5) else {
        return Ok(Some(format!("{what} cannot be had")));
    };
    let mut mask = vec![0_u8; rows * cols];
    for row in 0..rows {
        for block in structure.blocks_of(row) {
            mask[row * cols + structure.col_idx()[block] as usize] = 1 + (block % 255) as u8;
        }
    }
    let capacity = structure.nnzb().saturating_add_signed(room);
    let mut memory = GlobalMemory::new();
    let mask = machine::upload(&mut memory, mask);
    let mut stream = Stream::new(kernels, &mut memory);
    let [counts, row_ptr, col_idx] = [rows, rows + 1, capacity].map(|words| stream.alloc(words));
    let numbers = [rows as u32, cols as u32, capacity as u32];
    let grid = |kernel: ListKernel| (kernel.grid(numbers[0], 1), kernel.threads() / 8);
    let (of_rows, of_columns) = (ListKernel::MaskRows, ListKernel::MaskColumns);
    stream.launch(of_rows, grid(of_rows), &[mask, counts], &numbers[..2])?;
    stream.launch(of_columns, grid(of_columns), &[mask, counts, row_ptr, col_idx], &numbers)?;
    let findings = stream.findings();
    let same = |id: BufferId, host: &mut dyn Iterator<Item = u32>| {
        words(&memory, id).into_iter().zip(host).all(|(found, host)| found == host)
    };
    let kept = structure.nnzb().min(capacity);
    let differs = !same(row_ptr, &mut structure.row_ptr().iter().map(|at| *at as u32))
        || !same(col_idx, &mut structure.col_idx()[..kept].iter().map(|column| column.cast_unsigned()));
    Ok(fault(findings, differs, &what))
}

pub(super) fn fault(findings: Vec<Finding>, differs: bool, what: &str) -> Option<String> {
    match findings.first() {
        Some(finding) => Some(format!("{what}: {finding}")),
        None => differs.then(|| format!("{what}: not the host's")),
    }
}

pub(super) fn words(memory: &GlobalMemory, id: BufferId) -> Vec<u32> {
    memory.bytes(id).as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)).collect()
}

impl Stream<'_> {
    /// First block and number of blocks of every row of a pattern, and its columns.
    pub(super) fn index(&mut self, structure: &Structure) -> (BufferId, BufferId) {
        let ends = structure.row_ptr().windows(2).flat_map(|ends| [ends[0] as u32, (ends[1] - ends[0]) as u32]);
        let rows = self.upload(ends.collect::<Vec<_>>());
        (rows, self.upload(structure.col_idx().iter().map(|word| word.cast_unsigned())))
    }
}
