//! Text for a terminal: what would command it, or turn the direction of text, is shown as its number.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, Write};

/// Whether a terminal would do something else than show the character.
fn is_hidden(c: char) -> bool {
    let is_bidi = matches!(c, '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let is_line = matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{200b}');
    (c.is_control() && !matches!(c, '\n' | '\t')) || is_bidi || is_line
}

/// The text with such characters as `\u{1b}`.
pub(super) fn escaped(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match is_hidden(c) {
            true => drop(write!(shown, "\\u{{{:x}}}", u32::from(c))),
            false => shown.push(c),
        }
    }
    Cow::Owned(shown)
}

/// A writer of text that is escaped.
pub(super) struct Escaped<W> {
    out: W,
    /// The beginning of a character whose end has not come yet.
    rest: Vec<u8>,
}

impl<W: Write> Escaped<W> {
    pub(super) fn new(out: W) -> Self {
        Self { out, rest: Vec::new() }
    }
}

impl<W: Write> Write for Escaped<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.rest.extend_from_slice(bytes);
        let whole = match std::str::from_utf8(&self.rest) {
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            _ => self.rest.len(),
        };
        let text: Vec<u8> = self.rest.drain(..whole).collect();
        self.out.write_all(escaped(&String::from_utf8_lossy(&text)).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn what_commands_a_terminal_is_shown_as_its_number() {
        assert_eq!(escaped("a\u{1b}[31m\u{7}b\u{202e}c\r"), "a\\u{1b}[31m\\u{7}b\\u{202e}c\\u{d}");
        assert_eq!(escaped("one\n\ttwo: äöü 日本"), "one\n\ttwo: äöü 日本");
    }

    #[test]
    fn characters_may_come_in_parts() {
        let mut out = Escaped::new(Vec::new());
        let text = "日\u{202e}本".as_bytes();
        for byte in text {
            out.write_all(&[*byte]).unwrap();
        }
        assert_eq!(out.out, "日\\u{202e}本".as_bytes());
    }
}
