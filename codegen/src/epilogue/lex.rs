//! Words, numbers and signs: what an epilogue is written in, from text or from Rust's tokens.

use std::ops::Range;

use crate::steps;

/// One token of an epilogue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lexeme<P> {
    /// What it is.
    pub kind: LexemeKind,
    /// Its place.
    pub place: P,
}

/// The kinds of [`Lexeme`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LexemeKind {
    /// An identifier or a keyword.
    Word(String),
    /// A number as written, suffix included, without a sign.
    Number(String),
    /// One of [`LexemeKind::SIGNS`].
    Sign(&'static str),
    /// Anything else, as written.
    Other(String),
}

impl LexemeKind {
    /// Every sign; those of two characters come first.
    pub const SIGNS: [&'static str; 22] = [
        "<=", ">=", "==", "!=", "->", "+", "-", "*", "/", "(", ")", "{", "}", "|", ",", ":", ";", "=", "<", ">", ".",
        "&",
    ];

    /// The sign that text begins with.
    pub fn sign_of(text: &str) -> Option<&'static str> {
        Self::SIGNS.into_iter().find(|sign| text.starts_with(sign))
    }

    pub(super) fn describe(&self) -> String {
        match self {
            Self::Word(text) | Self::Number(text) | Self::Other(text) => format!("`{text}`"),
            Self::Sign(sign) => format!("`{sign}`"),
        }
    }
}

/// Splits text into tokens, places in bytes. Total: every other character becomes [`LexemeKind::Other`].
pub fn lexemes(text: &str) -> Vec<Lexeme<Range<usize>>> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(first) = text[at..].chars().next() {
        let rest = &text[at..];
        steps::add(1);
        if first.is_whitespace() {
            at += first.len_utf8();
            continue;
        }
        let (length, kind) = if first.is_ascii_digit() {
            let length = number(rest);
            (length, LexemeKind::Number(rest[..length].into()))
        } else if first.is_ascii_alphabetic() || first == '_' {
            let length = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
            (length, LexemeKind::Word(rest[..length].into()))
        } else if let Some(sign) = LexemeKind::sign_of(rest) {
            (sign.len(), LexemeKind::Sign(sign))
        } else {
            (first.len_utf8(), LexemeKind::Other(first.into()))
        };
        found.push(Lexeme { kind, place: at..at + length });
        steps::add(length);
        at += length;
    }
    found
}

/// The length of the number that `text` begins with: digits, a fraction, an exponent with its sign, a suffix.
fn number(text: &str) -> usize {
    let bytes = text.as_bytes();
    let digits = |mut at: usize| {
        while bytes.get(at).is_some_and(|c| c.is_ascii_digit() || *c == b'_') {
            at += 1;
        }
        at
    };
    let mut at = digits(0);
    let is_name = |c: &u8| c.is_ascii_alphabetic() || *c == b'_';
    if bytes.get(at) == Some(&b'.') && !bytes.get(at + 1).is_some_and(is_name) {
        at = digits(at + 1);
    }
    if matches!(bytes.get(at), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(at + 1), Some(b'+' | b'-')));
        let end = digits(at + 1 + sign);
        if end > at + 1 + sign {
            at = end;
        }
    }
    while bytes.get(at).is_some_and(|c| c.is_ascii_alphanumeric() || *c == b'_') {
        at += 1;
    }
    at
}
