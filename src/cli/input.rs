//! Texts that commands read: files, and standard input for `-`.

use std::io::stdin;
use std::path::Path;

use bsr::read;

use super::exit::Failure;

/// The name of standard input.
const STDIN: &str = "-";

/// Reads a text of any length that fits this machine's memory.
///
/// # Errors
/// Bad input: it cannot be read, is no text, or is too long.
pub(super) fn text(path: &Path) -> Result<String, Failure> {
    // What is made of a text takes several times its memory.
    at_most(path, read::memory_available().unwrap_or(1 << 32) / 4)
}

/// Reads a text of at most so many bytes.
///
/// # Errors
/// As [`text`].
pub(super) fn at_most(path: &Path, most: u64) -> Result<String, Failure> {
    let text = match path == Path::new(STDIN) {
        true => read::text_of(stdin().lock(), most),
        false => read::text(path, most),
    };
    text.map_err(|error| Failure::bad_input(format!("cannot read {}: {error}", path.display())))
}
