//! The pattern files of the Deep Learning Matrix Collection.

use std::path::Path;

use super::bounded::check_sides;
use super::error::Place;
use super::{ReadError, ReadProblem, Sparse};
use crate::random::{Streams, fill_normal_f64};
use crate::read::check_memory;

/// Reads the text of an `.smtx` file: one line `rows, cols, nnz`, one of `rows + 1` row offsets, one of `nnz`
/// column indices. It has no values; they are drawn from N(0, 1) with `seed`, in the order of the file.
/// `file` is named in errors.
///
/// # Errors
/// When the text is not such a file, with the line.
pub fn parse(text: &[u8], file: &Path, seed: u64) -> Result<Sparse, ReadError> {
    let at = |line| move |problem: ReadProblem| ReadError::new(file, Place::Line(line), problem);
    let mut lines = text.splitn(4, |&byte| byte == b'\n');

    let [rows, cols, nnz] = header(lines.next().unwrap_or_default()).map_err(at(1))?;
    // A number takes two bytes of the file; a nonzero becomes an index, a value and an entry, which is sorted.
    let most = |count: usize| count.min(text.len() / 2 + 1) as u64;
    check_memory(&[("the offsets, 8 B each,", 8 * most(rows)), ("the entries, 36 B each,", 36 * most(nnz))])
        .map_err(|error| at(1)(error.into()))?;
    let offsets = offsets(lines.next().unwrap_or_default(), rows, nnz).map_err(at(2))?;
    let columns = columns(lines.next().unwrap_or_default(), &offsets, cols).map_err(at(3))?;
    if lines.next().is_some_and(|rest| !rest.trim_ascii().is_empty()) {
        let problem =
            ReadProblem::refused("there is a fourth line", "an .smtx file has three: sizes, offsets, columns");
        return Err(at(4)(problem));
    }

    let mut values = vec![0.0; columns.len()];
    fill_normal_f64(&mut Streams::new(seed, b"entries.").get(0), &mut values);
    let rows_of = (0u32..).zip(offsets.windows(2)).flat_map(|(row, ends)| (ends[0]..ends[1]).map(move |_| row));
    let triplets = rows_of.zip(columns).zip(values).map(|((row, col), value)| (row, col, value)).collect();
    Sparse::from_triplets(rows, cols, triplets)
        .map_err(|error| at(3)(ReadProblem::refused(error.to_string(), "correct the index")))
}

fn header(line: &[u8]) -> Result<[usize; 3], ReadProblem> {
    let numbers: Option<Vec<usize>> = words(line).map(number).collect();
    let Some([rows, cols, nnz]) = numbers.and_then(|numbers| <[usize; 3]>::try_from(numbers).ok()) else {
        let fact = format!("the first line is `{}`", shown(line));
        return Err(ReadProblem::refused(fact, "it states three whole numbers: rows, cols, nnz"));
    };
    check_sides(rows, cols)?;
    Ok([rows, cols, nnz])
}

fn offsets(line: &[u8], rows: usize, nnz: usize) -> Result<Vec<usize>, ReadProblem> {
    let remedy = "row offsets start at 0, never decrease, and end at the number of nonzeros";
    let wrong = |fact: String| Err(ReadProblem::refused(fact, remedy));
    // A number takes two bytes with its space, so the line's length bounds the memory, not the claimed rows.
    let mut offsets = Vec::with_capacity((rows + 1).min(line.len() / 2 + 1));
    for (at, word) in words(line).enumerate() {
        let Some(offset) = number(word) else {
            return wrong(format!("row offset {at} is `{}`, not a whole number", shown(word)));
        };
        let before = offsets.last().copied().unwrap_or(0);
        if at == 0 && offset != 0 {
            return wrong(format!("row offset 0 is {offset}"));
        }
        if offset < before {
            return wrong(format!("row offset {at} is {offset}, less than {before} before it"));
        }
        offsets.push(offset);
    }
    let end = offsets.last().copied().unwrap_or(0);
    if offsets.len() != rows + 1 {
        return wrong(format!("{} row offsets, but {rows} rows take {rows} + 1 = {}", offsets.len(), rows + 1));
    }
    if end != nnz {
        return wrong(format!("the last row offset is {end}, but the first line states {nnz} nonzeros"));
    }
    Ok(offsets)
}

fn columns(line: &[u8], offsets: &[usize], cols: usize) -> Result<Vec<u32>, ReadProblem> {
    let remedy = "each row lists its columns once, counted from 0";
    let wrong = |fact: String| Err(ReadProblem::refused(fact, remedy));
    let nnz = offsets.last().copied().unwrap_or(0);
    let mut columns = Vec::with_capacity(nnz.min(line.len() / 2 + 1));
    for (at, word) in words(line).enumerate() {
        match number(word) {
            // Below LONGEST_SIDE, so it fits.
            Some(column) if column < cols => columns.push(column as u32),
            _ => {
                return wrong(format!("column index {at} is `{}`, not in 0..{cols}", shown(word)));
            }
        }
    }
    if columns.len() != nnz {
        return wrong(format!("{} column indices, but {nnz} nonzeros", columns.len()));
    }
    for (row, ends) in offsets.windows(2).enumerate() {
        let mut sorted = columns[ends[0]..ends[1]].to_vec();
        sorted.sort_unstable();
        if let Some(pair) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            return wrong(format!("row {row} lists column {} twice", pair[0]));
        }
    }
    Ok(columns)
}

/// The numbers of a line, between spaces and commas.
fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|byte| byte.is_ascii_whitespace() || *byte == b',').filter(|word| !word.is_empty())
}

fn number(word: &[u8]) -> Option<usize> {
    std::str::from_utf8(word).ok()?.parse().ok()
}

/// The beginning of a text for an error message.
fn shown(text: &[u8]) -> String {
    String::from_utf8_lossy(&text[..text.len().min(60)]).trim_end().to_string()
}
