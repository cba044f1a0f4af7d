//! Spaces in files and in text.
//!
//! ```toml
//! name = "mine"
//! description = "Wide tiles"
//!
//! [[part]]
//! name = "wide"
//! keys = "bn = [128, 256], stages = 2..=6"        # the attribute's lists ..
//! constraints = ["bn * stages <= 1024"]
//!
//! [[part]]
//! [part.keys]                                     # .. or TOML's
//! bn = [64, 128]
//! cluster = [1, 2]
//! ```

use std::ops::Range;

use bsr_codegen::Refusal;
use bsr_codegen::spec::LocatedRequest;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::constraint::Constraint;
use super::{Part, Space, SpaceError};

/// Reads a file's text; `file` is what it is called in errors, and the space where it has no name.
pub(super) fn toml(text: &str, file: &str) -> Result<Space, SpaceError> {
    let document = DeTable::parse(text)
        .map_err(|error| Refusal::of(file, format_args!("no TOML: {}", error.to_string().trim_end())))?;
    let reader = Reader { text, file };
    let table = document.get_ref();
    if !table.contains_key("part") {
        // A spec in a file, with lists: a space of one part.
        let part = Part::new(String::new(), file, LocatedRequest::from_toml(text), Vec::new())?;
        return Ok(Space { name: file.to_owned(), description: String::new(), parts: vec![part], arch: None });
    }
    let mut space = Space { name: file.to_owned(), description: String::new(), parts: Vec::new(), arch: None };
    for (key, value) in table {
        match key.get_ref().as_ref() {
            "name" => space.name = reader.string("name", value)?,
            "description" => space.description = reader.string("description", value)?,
            "part" => {}
            other => return Err(reader.error(key.span(), format!("a space has no `{other}`: name, description, part"))),
        }
    }
    let Some(DeValue::Array(parts)) = table.get("part").map(Spanned::get_ref) else {
        return Err(reader.error(0..0, "`part` is a list of tables: write [[part]]".to_owned()));
    };
    for part in parts {
        space.parts.push(reader.part(part, space.parts.len(), &space.name)?);
    }
    Ok(space)
}

struct Reader<'t> {
    text: &'t str,
    file: &'t str,
}

impl Reader<'_> {
    fn part(&self, value: &Spanned<DeValue<'_>>, number: usize, space: &str) -> Result<Part, SpaceError> {
        let DeValue::Table(table) = value.get_ref() else {
            return Err(self.error(value.span(), "a part is a table".to_owned()));
        };
        let (mut name, mut keys, mut constraints) = (String::new(), None, Vec::new());
        for (key, value) in table {
            match key.get_ref().as_ref() {
                "name" => name = self.string("name", value)?,
                "keys" => keys = Some(value),
                "constraints" => constraints = self.strings(value)?,
                other => {
                    let message = format!("a part has no `{other}`: name, keys, constraints");
                    return Err(self.error(key.span(), message));
                }
            }
        }
        let called = match name.as_str() {
            "" => format!("{space}, part {}", number + 1),
            name => format!("{space}, part `{name}`"),
        };
        let Some(keys) = keys else {
            let message = "a part without `keys`: \"bn = [128, 256], stages = 2..=6\"".to_owned();
            return Err(self.error(value.span(), message));
        };
        let request = match keys.get_ref() {
            DeValue::String(text) => LocatedRequest::from_text(text).named(&called),
            DeValue::Table(_) if self.text[keys.span()].starts_with('{') => {
                let message = "`keys` is a string or a table of its own: write [part.keys], a key a line".to_owned();
                return Err(self.error(keys.span(), message));
            }
            DeValue::Table(table) => LocatedRequest::from_toml(&self.only(table)).named(self.file),
            _ => return Err(self.error(keys.span(), "`keys` is a string or a table".to_owned())),
        };
        let constraints = constraints.iter().map(|text| Constraint::new(text, &called)).collect::<Result<_, _>>()?;
        Part::new(name, &called, request, constraints)
    }

    /// The document without anything but the entries of one table, each where it was.
    fn only(&self, table: &DeTable<'_>) -> String {
        let start = table.iter().map(|(key, _)| key.span().start).min().unwrap_or(0);
        let end = table.iter().map(|(_, value)| value.span().end).max().unwrap_or(0);
        let blank = |text: &str| text.replace(|c: char| c != '\n', " ");
        let (before, rest) = self.text.split_at(start);
        let (kept, after) = rest.split_at(end.saturating_sub(start));
        // Bytes of a character become one space: lines stay, and columns before a key are indentation.
        format!("{}{kept}{}", blank(before), blank(after))
    }

    fn string(&self, key: &str, value: &Spanned<DeValue<'_>>) -> Result<String, SpaceError> {
        match value.get_ref() {
            DeValue::String(text) => Ok(text.to_string()),
            _ => Err(self.error(value.span(), format!("`{key}` is a string"))),
        }
    }

    fn strings(&self, value: &Spanned<DeValue<'_>>) -> Result<Vec<String>, SpaceError> {
        match value.get_ref() {
            DeValue::Array(values) => values.iter().map(|value| self.string("constraints", value)).collect(),
            _ => Err(self.error(value.span(), "`constraints` is a list of strings".to_owned())),
        }
    }

    fn error(&self, place: Range<usize>, message: String) -> SpaceError {
        let before = self.text.get(..place.start).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        Refusal::of(format_args!("{}:{line}", self.file), message).into()
    }
}
