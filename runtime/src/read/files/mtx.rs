//! Matrix Market coordinate files.

use std::path::Path;
use std::str::FromStr;

use super::bounded::check_sides;
use super::error::Place;
use super::{ReadError, ReadProblem, Sparse};
use crate::read::check_memory;

/// Reads the text of a Matrix Market file: `coordinate`, with `real`, `integer` or `pattern` values (a
/// pattern's values are 1), `general`, `symmetric` or `skew-symmetric`. Entries at the same place are added.
/// `file` is named in errors.
///
/// # Errors
/// When the text is not such a file, with the line.
pub fn parse(text: &[u8], file: &Path) -> Result<Sparse, ReadError> {
    let mut lines = Lines { rest: text, number: 0 };
    parse_lines(&mut lines).map_err(|problem| {
        let place = if lines.number == 0 { Place::Whole } else { Place::Line(lines.number) };
        ReadError::new(file, place, problem)
    })
}

/// What stands at a place of the matrix.
#[derive(Clone, Copy, PartialEq)]
enum Field {
    Real,
    Integer,
    Pattern,
}

/// What stands at the mirrored place.
#[derive(Clone, Copy, PartialEq)]
enum Symmetry {
    General,
    Symmetric,
    Skew,
}

fn parse_lines(lines: &mut Lines<'_>) -> Result<Sparse, ReadProblem> {
    let (field, symmetry) = banner(lines.next()?)?;
    let Some(size) = lines.next_content()? else {
        let remedy = "the first line after the comments states rows, columns and entries";
        return Err(ReadProblem::refused("the file ends before the size line", remedy));
    };
    let [rows, cols, entries] = size_line(size)?;
    check_sides(rows, cols)?;
    if symmetry != Symmetry::General && rows != cols {
        let fact = format!("the banner says symmetric, but the size is {rows} x {cols}");
        return Err(ReadProblem::refused(fact, "a symmetric matrix is square; correct the size or say general"));
    }

    // The shortest entry is `1 1` and a line end, so a file cannot hold more than a quarter of its bytes.
    let mirrored = if symmetry == Symmetry::General { 1 } else { 2 };
    let most = entries.min(lines.rest.len() / 4 + 1) * mirrored;
    // Sorting takes half as much again.
    check_memory(&[("the entries, 24 B each,", 24 * most as u64)])?;
    let mut triplets = Vec::with_capacity(most);
    let mut seen = 0;
    while let Some(line) = lines.next_content()? {
        if seen == entries {
            let fact = format!("`{}` is entry {} of {entries}", shortened(line), seen + 1);
            return Err(ReadProblem::refused(fact, "correct the number of entries on the size line"));
        }
        seen += 1;
        let (row, col, value) = entry(line, field, rows, cols)?;
        triplets.push((row, col, value));
        if symmetry == Symmetry::General {
            continue;
        }
        if col > row || (col == row && symmetry == Symmetry::Skew) {
            let half = if symmetry == Symmetry::Skew { "below the diagonal" } else { "on and below the diagonal" };
            let fact = format!("row {}, column {} is not {half}", row + 1, col + 1);
            let remedy = "a symmetric file lists only that half; remove the entry, or say general and list both halves";
            return Err(ReadProblem::refused(fact, remedy));
        }
        if col < row {
            triplets.push((col, row, if symmetry == Symmetry::Skew { -value } else { value }));
        }
    }
    if seen < entries {
        let fact = format!("the file ends after {seen} of {entries} entries");
        return Err(ReadProblem::refused(fact, "the file was cut short, or the size line states too many entries"));
    }
    Sparse::from_triplets(rows, cols, triplets)
        .map_err(|error| ReadProblem::refused(error.to_string(), "correct the entry"))
}

fn banner(line: Option<&str>) -> Result<(Field, Symmetry), ReadProblem> {
    const BANNER: &str = "a Matrix Market file begins with `%%MatrixMarket matrix coordinate real general`";
    const SAVE: &str = "save it as a real coordinate matrix, for instance with scipy.io.mmwrite of a coo_array";
    let line = line.unwrap_or_default();
    let words: Vec<String> = line.split_ascii_whitespace().map(str::to_ascii_lowercase).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let ["%%matrixmarket", object, format, field, symmetry] = words[..] else {
        return Err(ReadProblem::refused(format!("the first line is `{}`", shortened(line)), BANNER));
    };
    if (object, format) != ("matrix", "coordinate") {
        return Err(ReadProblem::refused(format!("the file holds a dense or other object: `{object} {format}`"), SAVE));
    }
    let field = match field {
        "real" | "double" => Field::Real,
        "integer" => Field::Integer,
        "pattern" => Field::Pattern,
        _ => {
            return Err(ReadProblem::refused(format!("the values are `{field}`, not real, integer or pattern"), SAVE));
        }
    };
    let symmetry = match symmetry {
        "general" => Symmetry::General,
        "symmetric" => Symmetry::Symmetric,
        "skew-symmetric" if field == Field::Pattern => {
            return Err(ReadProblem::refused("a pattern has no signs to be skew-symmetric in", "say symmetric"));
        }
        "skew-symmetric" => Symmetry::Skew,
        _ => {
            let fact = format!("the symmetry is `{symmetry}`, not general, symmetric or skew-symmetric");
            return Err(ReadProblem::refused(fact, SAVE));
        }
    };
    Ok((field, symmetry))
}

fn size_line(line: &str) -> Result<[usize; 3], ReadProblem> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let size: Vec<usize> = words.iter().map_while(|word| word.parse().ok()).collect();
    match size[..] {
        [rows, cols, entries] if words.len() == 3 => Ok([rows, cols, entries]),
        _ => {
            let fact = format!("the size line is `{}`", shortened(line));
            Err(ReadProblem::refused(fact, "it has three whole numbers: rows, columns and entries"))
        }
    }
}

fn entry(line: &str, field: Field, rows: usize, cols: usize) -> Result<(u32, u32, f64), ReadProblem> {
    let remedy = match field {
        Field::Real => "an entry is row, column and a decimal number",
        Field::Integer => "an entry is row, column and a whole number",
        Field::Pattern => "an entry of a pattern is row and column",
    };
    let wrong = |fact: String| ReadProblem::refused(fact, remedy);
    let mut words = line.split_ascii_whitespace();
    let mut word = |what| words.next().ok_or_else(|| wrong(format!("`{}` has no {what}", shortened(line))));
    let row = index(word("row")?, "row", rows)?;
    let col = index(word("column")?, "column", cols)?;
    let value = match field {
        Field::Pattern => 1.0,
        Field::Real => number::<f64>(word("value")?).map_err(wrong)?,
        Field::Integer => number::<i64>(word("value")?).map_err(wrong)? as f64,
    };
    match words.next() {
        None => Ok((row, col, value)),
        Some(extra) => Err(wrong(format!("`{}` follows the entry", shortened(extra)))),
    }
}

/// A row or column, counted from 1 in the file and from 0 from here on.
fn index(word: &str, what: &str, count: usize) -> Result<u32, ReadProblem> {
    match word.parse::<u32>() {
        // `count` is at most LONGEST_SIDE, so the index fits.
        Ok(index) if index >= 1 && index as usize <= count => Ok(index - 1),
        _ => {
            let fact = format!("{what} `{}` is not in 1..={count}", shortened(word));
            Err(ReadProblem::refused(fact, "Matrix Market counts rows and columns from 1"))
        }
    }
}

fn number<N: FromStr>(word: &str) -> Result<N, String> {
    word.parse().map_err(|_| format!("`{}` is not a number of that kind", shortened(word)))
}

/// The lines of a text, counted.
struct Lines<'a> {
    rest: &'a [u8],
    number: usize,
}

impl<'a> Lines<'a> {
    /// The next line without its end; `None` after the last.
    fn next(&mut self) -> Result<Option<&'a str>, ReadProblem> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        self.number += 1;
        let end = self.rest.iter().position(|&byte| byte == b'\n');
        let line = &self.rest[..end.unwrap_or(self.rest.len())];
        self.rest = end.map_or(&[], |end| &self.rest[end + 1..]);
        match std::str::from_utf8(line) {
            Ok(line) => Ok(Some(line.trim())),
            Err(_) => Err(ReadProblem::refused("the line is not UTF-8 text", "a Matrix Market file is plain text")),
        }
    }

    /// The next line that is neither empty nor a comment.
    fn next_content(&mut self) -> Result<Option<&'a str>, ReadProblem> {
        while let Some(line) = self.next()? {
            if !line.is_empty() && !line.starts_with('%') {
                return Ok(Some(line));
            }
        }
        Ok(None)
    }
}

/// The beginning of a text that may be very long.
fn shortened(text: &str) -> &str {
    match text.char_indices().nth(60) {
        Some((end, _)) => &text[..end],
        None => text,
    }
}
