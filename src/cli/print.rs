//! Lines that a command prints.

use std::fmt::Display;
use std::io::{self, Write, stderr};

use super::escape;

/// One line of an answer: a label and its value.
pub(super) fn line(out: &mut dyn Write, label: &str, value: impl Display) -> io::Result<()> {
    writeln!(out, "{label:<9} {value}")
}

/// Prints a message on stderr, and ignores a stderr that cannot be written.
pub(super) fn say(text: impl Display) {
    let _ = writeln!(stderr(), "{}", escape::escaped(&text.to_string()));
}
