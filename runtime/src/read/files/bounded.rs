//! Files and texts of bounded length.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use super::ReadProblem;
use crate::memory::{check_against, memory_available, size};
use crate::read::LONGEST_SIDE;

/// The bytes of a file. A device or a pipe, whose length nobody knows, is read as long as memory has room.
pub(super) fn file(path: &Path) -> Result<Vec<u8>, ReadProblem> {
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    let available = memory_available().unwrap_or(u64::MAX);
    let most = match metadata.is_file() {
        true => {
            check_against(&[("the file", metadata.len())], available)?;
            metadata.len()
        }
        // The buffer doubles as it grows.
        false => available / 4,
    };
    let mut bytes = Vec::new();
    file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        let fact = format!("it goes on after {}, and {} of memory are available", size(most), size(available));
        return Err(ReadProblem::refused(fact, "give a file that ends"));
    }
    Ok(bytes)
}

/// The text of a file of at most so many bytes.
///
/// # Errors
/// It cannot be read, is longer or is no UTF-8.
pub fn text(path: impl AsRef<Path>, most: u64) -> io::Result<String> {
    text_of(File::open(path)?, most)
}

/// A text of at most so many bytes.
///
/// # Errors
/// As [`text`].
pub fn text_of(from: impl Read, most: u64) -> io::Result<String> {
    let bytes = bytes_of(from, most)?;
    String::from_utf8(bytes).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is no UTF-8 text"))
}

/// Reads what need be no text, of at most so many bytes.
///
/// # Errors
/// It cannot be read, or is longer.
pub fn bytes_of(from: impl Read, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        let fact = format!("it is longer than {}, which is more than is read here", size(most));
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, fact));
    }
    Ok(bytes)
}

/// Refuses sides that no matrix of this kind has.
pub(super) fn check_sides(rows: usize, cols: usize) -> Result<(), ReadProblem> {
    for (what, side) in [("rows", rows), ("columns", cols)] {
        if side > LONGEST_SIDE {
            return Err(ReadProblem::refused(
                format!("{side} {what} are more than {LONGEST_SIDE}"),
                "split the matrix, or check the size the file states",
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_text_has_an_end() {
        assert_eq!(text_of(&b"bm = 64"[..], 7).unwrap(), "bm = 64");
        assert!(text_of(std::io::repeat(b' '), 1 << 20).unwrap_err().to_string().contains("longer than 1.0 MB"));
        assert!(text_of(&b"\xff"[..], 7).unwrap_err().to_string().contains("UTF-8"));
    }
}
