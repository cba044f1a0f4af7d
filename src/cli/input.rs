//! Texts that commands read: files, and standard input for `-`.

use std::fmt::Display;
use std::fs::File;
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
    at_most(path, most())
}

/// Bytes of what is read: what is made of them takes several times their memory.
fn most() -> u64 {
    read::memory_available().unwrap_or(1 << 32) / 4
}

/// Reads a file that need be no text.
///
/// # Errors
/// As [`text`].
pub(super) fn bytes(path: &Path) -> Result<Vec<u8>, Failure> {
    let bytes = match path == Path::new(STDIN) {
        true => read::bytes_of(stdin().lock(), most()),
        false => File::open(path).and_then(|file| read::bytes_of(file, most())),
    };
    bytes.map_err(|error| unread(path, &error))
}

fn unread(path: &Path, error: &dyn Display) -> Failure {
    Failure::bad_input(format!("cannot read {}: {error}", path.display()))
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
    text.map_err(|error| unread(path, &error))
}
