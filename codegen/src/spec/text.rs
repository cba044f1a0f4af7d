//! The text front end: `bm = 512, bn = 128, bk = 112`.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use super::report::Source;
use super::{Dtype, KernelSpec, Layout, LocatedSpec, Request, SpecErrors, Token, TokenKind, entries};

impl LocatedSpec {
    /// Reads a spec in the grammar of the attribute.
    ///
    /// # Errors
    /// Everything wrong with the text, each error on its own place.
    pub fn from_text(text: &str) -> Result<Self, SpecErrors> {
        let end = text.trim_end().len();
        let whole = end..end;
        let (entries, errors) = entries(&tokens(text), &whole);
        let request = Request { entries, signature: Vec::new(), errors, whole };
        let source = Source { name: "spec".into(), text: text.into() };
        Self::new(source, request)
    }
}

impl FromStr for KernelSpec {
    type Err = SpecErrors;

    fn from_str(text: &str) -> Result<Self, SpecErrors> {
        LocatedSpec::from_text(text).map(|located| located.spec())
    }
}

/// The canonical text, which reads back as the same spec: keys in a fixed order, those at their default left out.
impl fmt::Display for KernelSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "bm = {}, bn = {}, bk = {}", self.bm, self.bn, self.bk)?;
        let default = Self::new(self.bm, self.bn, self.bk);
        if self.op != default.op {
            write!(f, ", op = {}", self.op)?;
        }
        if self.mma != default.mma {
            write!(f, ", mma = {}", self.mma)?;
        }
        let mut out = Dtype::F16;
        if self.a == self.b && self.a != default.a {
            write!(f, ", dtype = {}", self.a)?;
            out = self.a;
        } else {
            if self.a != default.a {
                write!(f, ", a = {}", self.a)?;
            }
            if self.b != default.b {
                write!(f, ", b = {}", self.b)?;
            }
        }
        if self.acc != default.acc {
            write!(f, ", acc = {}", self.acc)?;
        }
        if self.out != out {
            write!(f, ", out = {}", self.out)?;
        }
        for (key, layout) in [("b_layout", self.b_layout), ("c_layout", self.c_layout)] {
            if layout != Layout::RowMajor {
                write!(f, ", {key} = {layout}")?;
            }
        }
        let number = |f: &mut fmt::Formatter<'_>, key, value| match value {
            Some(value) => write!(f, ", {key} = {value}"),
            None => Ok(()),
        };
        number(f, "stages", self.stages)?;
        number(f, "consumers", self.consumers)?;
        number(f, "cluster", self.cluster)?;
        number(f, "k_step", self.k_step)?;
        if let Some(schedule) = self.schedule {
            write!(f, ", schedule = {schedule}")?;
        }
        number(f, "swizzle", self.swizzle)
    }
}

/// Splits text into tokens, places in bytes. Total: what is no token of ours becomes [`TokenKind::Other`].
fn tokens(text: &str) -> Vec<Token<Range<usize>>> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(first) = text[at..].chars().next() {
        let rest = &text[at..];
        let (length, kind) = match first {
            _ if first.is_whitespace() => {
                at += first.len_utf8();
                continue;
            }
            '=' => (1, TokenKind::Equals),
            ',' => (1, TokenKind::Comma),
            '"' => match rest[1..].find('"') {
                Some(end) => (end + 2, TokenKind::Quoted(rest[1..=end].into())),
                None => (rest.len(), TokenKind::Other(rest.trim_end().into())),
            },
            _ if is_word(first) || is_signed(rest) => {
                let length = 1 + rest[1..].find(ends_word(first)).unwrap_or(rest.len() - 1);
                let word = rest[..length].to_string();
                if first.is_ascii_digit() || matches!(first, '+' | '-') {
                    (length, TokenKind::Number(word))
                } else {
                    (length, TokenKind::Word(word))
                }
            }
            _ => {
                let length = group(rest).unwrap_or(first.len_utf8());
                (length, TokenKind::Other(rest[..length].into()))
            }
        };
        tokens.push(Token { kind, place: at..at + length });
        at += length;
    }
    tokens
}

/// The length of the bracketed group that `rest` begins with: one wrong token, whatever is in it.
fn group(rest: &str) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, c) in rest.char_indices() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.checked_sub(1)?,
            _ => {}
        }
        if depth == 0 {
            return (at > 0).then_some(at + 1);
        }
    }
    None
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

fn is_signed(rest: &str) -> bool {
    let mut chars = rest.chars();
    matches!(chars.next(), Some('+' | '-')) && chars.next().is_some_and(|c| c.is_ascii_digit())
}

/// Numbers hold points, and words hyphens: `1.5` is one wrong number and `k-step` one wrong key.
fn ends_word(first: char) -> impl Fn(char) -> bool {
    let is_number = first.is_ascii_digit() || matches!(first, '+' | '-');
    let inner = if is_number { '.' } else { '-' };
    move |c| !is_word(c) && c != inner
}
