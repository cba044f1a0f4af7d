//! The TOML front end: the same keys, at the top or in a `[kernel]` table.

use std::collections::HashSet;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::report::Source;
use super::syntax::value;
use super::text::tokens;
use super::{
    Atom, Element, Entry, KernelSpec, Key, LocatedFamily, LocatedRequest, LocatedSpec, Request, SpecError,
    SpecErrorKind, SpecErrors, Takes, Value,
};
use crate::steps;

impl KernelSpec {
    /// Reads a spec from TOML: its keys at the top of the document, or in a table `[kernel]`.
    ///
    /// With a `[kernel]` table, other tables are left to other readers.
    ///
    /// # Errors
    /// Everything wrong with the document or the spec, each error on its own place.
    pub fn from_toml(text: &str) -> Result<Self, SpecErrors> {
        LocatedSpec::from_toml(text).map(|located| located.spec())
    }
}

impl LocatedSpec {
    /// Reads a spec from TOML, as [`KernelSpec::from_toml`] does.
    ///
    /// # Errors
    /// Everything wrong with the document or the spec, each error on its own place.
    pub fn from_toml(text: &str) -> Result<Self, SpecErrors> {
        Self::new(source(text), read(text))
    }
}

impl LocatedFamily {
    /// Reads a family of specs from TOML, where lists are arrays and ranges are strings: `stages = "3..=5"`.
    ///
    /// # Errors
    /// Everything wrong with the document or the family, each error on its own place.
    pub fn from_toml(text: &str) -> Result<Self, SpecErrors> {
        Self::new(source(text), read(text))
    }
}

impl LocatedRequest {
    /// Reads keys and values from TOML, as [`LocatedFamily::from_toml`] does. What is wrong with the text is kept in
    /// [`Request::errors`].
    pub fn from_toml(text: &str) -> Self {
        Self::new(source(text), read(text))
    }
}

fn source(text: &str) -> Source {
    Source { name: "toml".into(), text: text.into() }
}

fn read(text: &str) -> Request<Range<usize>> {
    let (document, toml_errors) = DeTable::parse_recoverable(text);
    let end = text.trim_end().len();
    let (mut whole, mut found) = (end..end, Vec::new());
    let mut values = Values { text, errors: Vec::new() };
    for (key, value) in document.get_ref() {
        match value.get_ref() {
            DeValue::Table(table) if key.get_ref() == "kernel" => {
                whole = key.span();
                found.extend(table.iter().map(|(key, value)| values.entry(key, value)));
            }
            DeValue::Table(_) if has_kernel(&document) => {}
            _ => found.push(values.entry(key, value)),
        }
    }
    let mut errors = Vec::new();
    let keys: HashSet<String> = found.iter().map(|entry| entry.key.clone()).collect();
    for error in &toml_errors {
        let place = error.span().unwrap_or(whole.clone());
        let key = text.get(place.clone()).unwrap_or_default();
        if error.message().starts_with("duplicate key") && keys.contains(key) {
            found.push(Entry { key: key.into(), key_place: place.clone(), value: Value::BROKEN, value_place: place });
        } else {
            errors.push(SpecError::new(syntax(error.message(), key), place));
        }
    }
    found.sort_by_key(|entry| entry.key_place.start);
    let lines = Lines::of(text);
    let lines_in_error: HashSet<usize> = errors.iter().map(|error| lines.number(error.place.start)).collect();
    let is_in_error = |place: &Range<usize>| lines_in_error.contains(&lines.number(place.start));
    for entry in found.iter_mut().filter(|entry| is_in_error(&entry.key_place)) {
        entry.value = Value::BROKEN;
    }
    errors.extend(values.errors.into_iter().filter(|error| !is_in_error(&error.place)));
    Request { entries: found, signature: Vec::new(), epilogue: None, errors, whole }
}

fn has_kernel(document: &Spanned<DeTable<'_>>) -> bool {
    document.get_ref().get("kernel").is_some_and(|value| value.get_ref().is_table())
}

/// Values as TOML writes them, and what is wrong with those that are no TOML but text in a string.
struct Values<'t> {
    text: &'t str,
    errors: Vec<SpecError<Range<usize>>>,
}

impl Values<'_> {
    fn entry(&mut self, key: &Spanned<std::borrow::Cow<'_, str>>, value: &Spanned<DeValue<'_>>) -> Entry<Range<usize>> {
        Entry {
            key: key.get_ref().to_string(),
            key_place: key.span(),
            value: self.value(key.get_ref(), value),
            value_place: value.span(),
        }
    }

    fn value(&mut self, key: &str, value: &Spanned<DeValue<'_>>) -> Value<Range<usize>> {
        steps::add(1);
        let written = || self.text.get(value.span()).unwrap_or_default().to_string();
        Value::Atom(match value.get_ref() {
            DeValue::Integer(_) | DeValue::Float(_) => Atom::Number(written()),
            DeValue::String(text)
                if ![Key::Epilogue, Key::Score].map(Key::as_str).contains(&key) && holds_several(text) =>
            {
                return self.string(key, text, value.span());
            }
            DeValue::String(word) => Atom::Quoted(word.to_string()),
            DeValue::Boolean(_) => Atom::Word(written()),
            DeValue::Datetime(_) => Atom::Other("a date".into()),
            DeValue::Array(array) => return self.array(key, array, value.span()),
            DeValue::Table(_) => Atom::Other("a table".into()),
        })
    }

    /// TOML has no tuples: for a key that takes one, an array of numbers is a tuple.
    fn array(&mut self, key: &str, array: &[Spanned<DeValue<'_>>], place: Range<usize>) -> Value<Range<usize>> {
        if array.is_empty() {
            let (message, help) = (format!("the list of `{key}` is empty"), "a list has at least one value");
            let kind = SpecErrorKind::Syntax { message, help: Some(help.into()) };
            self.errors.push(SpecError::new(kind, place));
            return Value::BROKEN;
        }
        let is_number =
            |value: &Spanned<DeValue<'_>>| matches!(value.get_ref(), DeValue::Integer(_) | DeValue::Float(_));
        let takes_pair = Key::find(key).is_some_and(|key| key.takes() == Takes::Pair);
        let is_tuple = takes_pair && array.iter().all(is_number);
        let mut elements = Vec::new();
        for value in array {
            let place = value.span();
            match (value.get_ref(), self.value(key, value)) {
                (DeValue::Array(_), Value::List(_)) => {
                    let (message, help) = (format!("a list in the list of `{key}`"), "lists do not nest".into());
                    let kind = SpecErrorKind::Syntax { message, help: Some(help) };
                    self.errors.push(SpecError::new(kind, place));
                }
                // A range in a list adds its numbers to it, as in text.
                (_, Value::List(numbers)) => elements.extend(numbers),
                (_, value) => elements.push(Element { value, place }),
            }
        }
        if elements.is_empty() {
            return Value::BROKEN;
        }
        if is_tuple { Value::Tuple(elements) } else { Value::List(elements) }
    }

    /// A tuple, a list or a range in a string, in the grammar of text.
    fn string(&mut self, key: &str, content: &str, place: Range<usize>) -> Value<Range<usize>> {
        let quoted = self.text.get(place.clone()).unwrap_or_default();
        // Places are exact where the string is written as it reads: in one pair of quotes, without escapes.
        let is_plain = quoted.len() == content.len() + 2 && quoted.get(1..quoted.len() - 1) == Some(content);
        let start = place.start + 1;
        let within = |range: Range<usize>| match is_plain {
            true => start + range.start..start + range.end,
            false => place.clone(),
        };
        let mut tokens = tokens(content);
        for token in &mut tokens {
            token.place = within(token.place.clone());
        }
        let (value, errors) = value(key, &tokens, &within(content.len()..content.len()));
        self.errors.extend(errors);
        value
    }
}

/// No word of the grammar looks like a group or a range.
fn holds_several(text: &str) -> bool {
    text.trim_start().starts_with(['(', '[']) || text.contains("..")
}

/// An error of TOML itself, found at `found`.
fn syntax(message: &str, found: &str) -> SpecErrorKind {
    let is_bare = message.starts_with("string values must be quoted");
    let is_word = !found.is_empty() && found.chars().all(|c| c.is_alphanumeric() || c == '_');
    let (message, help) = match (is_bare, is_word) {
        (true, true) => ("a word is a quoted string in TOML".into(), Some(format!("write \"{found}\""))),
        (true, false) if found.trim().is_empty() => ("a value is missing".into(), None),
        _ => (message.into(), None),
    };
    SpecErrorKind::Syntax { message, help }
}

/// Where the lines of a text end.
struct Lines(Vec<usize>);

impl Lines {
    fn of(text: &str) -> Self {
        steps::add(text.len());
        Self(text.match_indices('\n').map(|(at, _)| at).collect())
    }

    /// The number of the line of a byte, from 0; a newline is the last byte of its line.
    fn number(&self, offset: usize) -> usize {
        steps::add(1);
        self.0.partition_point(|end| *end < offset)
    }
}
