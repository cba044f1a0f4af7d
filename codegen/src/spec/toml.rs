//! The TOML front end: the same keys, at the top or in a `[kernel]` table.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::report::Source;
use super::{Entry, KernelSpec, LocatedSpec, Request, SpecError, SpecErrorKind, SpecErrors, Value};

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
        let (document, toml_errors) = DeTable::parse_recoverable(text);
        let end = text.trim_end().len();
        let (mut whole, mut found) = (end..end, Vec::new());
        let mut errors = Vec::new();
        for (key, value) in document.get_ref() {
            match value.get_ref() {
                DeValue::Table(table) if key.get_ref() == "kernel" => {
                    whole = key.span();
                    found.extend(table.iter().map(|(key, value)| entry(text, key, value)));
                }
                DeValue::Table(_) if has_kernel(&document) => {}
                _ => found.push(entry(text, key, value)),
            }
        }
        for error in &toml_errors {
            let place = error.span().unwrap_or(whole.clone());
            let key = text.get(place.clone()).unwrap_or_default();
            let is_twice = error.message().starts_with("duplicate key") && found.iter().any(|entry| entry.key == key);
            if is_twice {
                found.push(Entry {
                    key: key.into(),
                    key_place: place.clone(),
                    value: Value::Broken,
                    value_place: place,
                });
            } else {
                errors.push(SpecError::new(syntax(error.message(), key), place));
            }
        }
        found.sort_by_key(|entry| entry.key_place.start);
        let lines_in_error: Vec<Range<usize>> = errors.iter().map(|error| line_of(text, error.place.start)).collect();
        for entry in &mut found {
            if lines_in_error.iter().any(|line| line.contains(&entry.key_place.start)) {
                entry.value = Value::Broken;
            }
        }
        let request = Request { entries: found, signature: Vec::new(), errors, whole };
        let source = Source { name: "toml".into(), text: text.into() };
        Self::new(source, request)
    }
}

fn has_kernel(document: &Spanned<DeTable<'_>>) -> bool {
    document.get_ref().get("kernel").is_some_and(|value| value.get_ref().is_table())
}

fn entry(text: &str, key: &Spanned<std::borrow::Cow<'_, str>>, value: &Spanned<DeValue<'_>>) -> Entry<Range<usize>> {
    let written = || text.get(value.span()).unwrap_or_default().to_string();
    Entry {
        key: key.get_ref().to_string(),
        key_place: key.span(),
        value: match value.get_ref() {
            DeValue::Integer(_) | DeValue::Float(_) => Value::Number(written()),
            DeValue::String(word) => Value::Quoted(word.to_string()),
            DeValue::Boolean(_) => Value::Word(written()),
            DeValue::Datetime(_) => Value::Other("a date"),
            DeValue::Array(_) => Value::Other("an array"),
            DeValue::Table(_) => Value::Other("a table"),
        },
        value_place: value.span(),
    }
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

fn line_of(text: &str, offset: usize) -> Range<usize> {
    let before = text.get(..offset).unwrap_or(text);
    let start = before.rfind('\n').map_or(0, |at| at + 1);
    let end = text[before.len()..].find('\n').map_or(text.len(), |at| before.len() + at);
    start..end + 1
}
