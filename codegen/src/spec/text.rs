//! The text front end: `bm = 512, bn = 128, bk = 112`.

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use super::report::Source;
use super::{
    Bracket, KernelSpec, Key, LocatedFamily, LocatedRequest, LocatedSpec, Request, SpecErrors, Token, TokenKind,
    entries,
};
use crate::steps;

impl LocatedSpec {
    /// Reads a spec in the grammar of the attribute.
    ///
    /// # Errors
    /// Everything wrong with the text, each error on its own place.
    pub fn from_text(text: &str) -> Result<Self, SpecErrors> {
        let (source, request) = read(text);
        Self::new(source, request)
    }
}

impl LocatedFamily {
    /// Reads a family of specs in the grammar of the attribute.
    ///
    /// # Errors
    /// Everything wrong with the text, each error on its own place.
    pub fn from_text(text: &str) -> Result<Self, SpecErrors> {
        let (source, request) = read(text);
        Self::new(source, request)
    }
}

impl LocatedRequest {
    /// Reads keys and values in the grammar of the attribute. What is wrong with the text is kept in
    /// [`Request::errors`].
    pub fn from_text(text: &str) -> Self {
        let (source, request) = read(text);
        Self::new(source, request)
    }
}

fn read(text: &str) -> (Source, Request<Range<usize>>) {
    let end = text.trim_end().len();
    let whole = end..end;
    let (entries, errors) = entries(&tokens(text), &whole);
    let request = Request { entries, signature: Vec::new(), epilogue: None, errors, whole };
    (Source { name: "spec".into(), text: text.into() }, request)
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
        let mut separator = "";
        for key in Key::ALL.into_iter().filter(|key| self.says(*key)) {
            write!(f, "{separator}{key} = {}", self.value(key))?;
            separator = ", ";
        }
        Ok(())
    }
}

impl KernelSpec {
    /// Does the canonical text say something of `key`: is its value required, or not its default?
    pub fn says(&self, key: Key) -> bool {
        let default = self.default_beside_operands();
        let is_one_dtype = self.a == self.b;
        match key {
            _ if key.is_required() => true,
            Key::Dtype => is_one_dtype && self.a != default.a,
            Key::A | Key::B if is_one_dtype => false,
            _ => self.value(key) != default.value(key),
        }
    }

    /// What the spec says of `key`, in the word or number of the canonical text; `auto` where the plan decides.
    ///
    /// `dtype` is that of A.
    pub fn value(&self, key: Key) -> String {
        match key {
            // `beta` says it.
            Key::Epilogue if self.beta().is_on() => "none".into(),
            Key::Epilogue | Key::Score => self.written(key).unwrap_or_else(|| "none".into()),
            _ => self.written(key).unwrap_or_else(|| "auto".into()),
        }
    }

    /// The spec whose text is this one's with `key = value` in place of what it says of `key`, or with nothing of it; `None`
    /// where that is the text of no spec.
    pub(crate) fn with_written(&self, key: Key, value: Option<&str>) -> Option<Self> {
        let is_changed = |said: Key| match key {
            Key::Dtype => matches!(said, Key::Dtype | Key::A | Key::B),
            Key::Epilogue | Key::Beta => matches!(said, Key::Epilogue | Key::Beta),
            // What an attention says of `pack` is meant as `pack_heads`.
            Key::PackHeads if value.is_some() => matches!(said, Key::Pack | Key::PackHeads),
            _ => said == key,
        };
        let kept = Key::ALL.into_iter().filter(|said| self.says(*said) && !is_changed(*said));
        let written = kept.map(|said| format!("{said} = {}", self.value(said)));
        let texts: Vec<String> = written.chain(value.map(|value| format!("{key} = {value}"))).collect();
        texts.join(", ").parse().ok()
    }

    /// What everything but the operands would be, were it not written.
    fn default_beside_operands(&self) -> Self {
        Self {
            acc: self.a.accumulator_with(self.b),
            out: self.a.default_out_with(self.b),
            b_layout: self.b.default_b_layout(),
            ..Self::new(self.bm, self.bn, self.bk)
        }
    }
}

/// Splits text into tokens, places in bytes. Total: every other character becomes [`TokenKind::Other`].
pub(super) fn tokens(text: &str) -> Vec<Token<Range<usize>>> {
    let mut tokens = Vec::new();
    let mut at = 0;
    let groups = groups(text);
    while let Some(first) = text[at..].chars().next() {
        let rest = &text[at..];
        let (length, kind) = match first {
            _ if first.is_whitespace() => {
                at += first.len_utf8();
                steps::add(1);
                continue;
            }
            '=' => (1, TokenKind::Equals),
            ',' => (1, TokenKind::Comma),
            '(' => (1, TokenKind::Open(Bracket::Round)),
            '[' => (1, TokenKind::Open(Bracket::Square)),
            ')' => (1, TokenKind::Close(Bracket::Round)),
            ']' => (1, TokenKind::Close(Bracket::Square)),
            '.' if rest.starts_with("..=") => (3, TokenKind::Range { inclusive: true }),
            '.' if rest.starts_with("..") => (2, TokenKind::Range { inclusive: false }),
            '"' => match rest[1..].find('"') {
                Some(end) => (end + 2, TokenKind::Quoted(rest[1..=end].into())),
                None => (rest.len(), TokenKind::Other(rest.trim_end().into())),
            },
            _ if is_word(first) || is_signed(rest) => {
                let length = word_length(first, rest);
                let word = rest[..length].to_string();
                if first.is_ascii_digit() || matches!(first, '+' | '-') {
                    (length, TokenKind::Number(word))
                } else {
                    (length, TokenKind::Word(word))
                }
            }
            _ => {
                let length = groups.get(&at).map_or(first.len_utf8(), |end| end - at);
                (length, TokenKind::Other(rest[..length].into()))
            }
        };
        tokens.push(Token { kind, place: at..at + length });
        steps::add(length);
        at += length;
    }
    tokens
}

/// Where each group in braces ends, by where it begins: one wrong token, whatever is in it.
fn groups(text: &str) -> HashMap<usize, usize> {
    let (mut open, mut ends) = (Vec::new(), HashMap::new());
    for (at, brace) in text.match_indices(['{', '}']) {
        steps::add(1);
        if brace == "{" {
            open.push(at);
        } else if let Some(start) = open.pop() {
            ends.insert(start, at + 1);
        }
    }
    ends
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

fn is_signed(rest: &str) -> bool {
    let mut chars = rest.chars();
    matches!(chars.next(), Some('+' | '-')) && chars.next().is_some_and(|c| c.is_ascii_digit())
}

/// Numbers hold points, and words hyphens: `1.5` is one wrong number and `k-step` one wrong key. Two points end both.
fn word_length(first: char, rest: &str) -> usize {
    let is_number = first.is_ascii_digit() || matches!(first, '+' | '-');
    let inner = if is_number { '.' } else { '-' };
    let ends = |(at, c): (usize, char)| (!is_word(c) && c != inner) || rest[at..].starts_with("..");
    rest.char_indices().skip(1).find(|found| ends(*found)).map_or(rest.len(), |(at, _)| at)
}
