//! Errors in text and TOML, printed with the offending line as a compiler prints them.

use std::fmt::{self, Write as _};
use std::ops::Range;

use super::{FamilyMember, FamilySpec, KernelSpec, Request, SpecError};
use crate::steps;
use crate::suggest::{MOST_SHOWN, more_errors};

/// Input of a front end and the name it is reported under.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) name: String,
    pub(crate) text: String,
}

/// Everything wrong with one spec in text or TOML.
///
/// `Display` prints each error with its line, a caret underline and the remedies; of many the first ten.
#[derive(Clone, PartialEq, Eq)]
pub struct SpecErrors {
    source: Source,
    errors: Vec<SpecError<Range<usize>>>,
}

message_as_debug!(SpecErrors);

impl SpecErrors {
    pub(crate) fn new(source: Source, mut errors: Vec<SpecError<Range<usize>>>) -> Self {
        errors.sort_by_key(|error| error.place.start);
        Self { source, errors }
    }

    /// The same errors reported under another name: that of the file the text comes from, say.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.source.name = name.into();
        self
    }

    /// The errors in the order of the text; places are byte ranges.
    pub fn iter(&self) -> impl Iterator<Item = &SpecError<Range<usize>>> {
        self.errors.iter()
    }
}

impl fmt::Display for SpecErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, error) in self.errors.iter().take(MOST_SHOWN).enumerate() {
            if at > 0 {
                f.write_str("\n\n")?;
            }
            let earlier = error.earlier.as_ref();
            let message = error.to_string();
            f.write_str(&self.source.report(&message, &error.place, earlier, &error.help()))?;
        }
        match self.errors.len().saturating_sub(MOST_SHOWN) {
            0 => Ok(()),
            more => write!(f, "\n\nerror: {}", more_errors(more)),
        }
    }
}

impl std::error::Error for SpecErrors {}

/// A spec that remembers where its text says what, so that later errors can point at the offending key.
#[derive(Clone, Debug)]
pub struct LocatedSpec {
    source: Source,
    request: Request<Range<usize>>,
    spec: KernelSpec,
}

impl LocatedSpec {
    pub(crate) fn new(source: Source, request: Request<Range<usize>>) -> Result<Self, SpecErrors> {
        match super::build(&request) {
            Ok(spec) => Ok(Self { source, request, spec }),
            Err(errors) => Err(SpecErrors::new(source, errors)),
        }
    }

    /// The spec.
    pub const fn spec(&self) -> KernelSpec {
        self.spec
    }

    /// The same spec reported under another name: that of the file it comes from, say.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.source.name = name.into();
        self
    }

    /// An error found later, printed with a caret under the value of `key`.
    ///
    /// A key that is not written is blamed on what it follows from, else on the end of the text.
    pub fn blame(&self, key: &str, message: &str, help: &[String]) -> String {
        let place = self.request.place_of(key);
        self.source.report(message, place, None, help)
    }
}

/// A family that remembers where its text says what, so that later errors can point at the offending value.
#[derive(Clone, Debug)]
pub struct LocatedFamily {
    source: Source,
    family: FamilySpec<Range<usize>>,
}

impl LocatedFamily {
    pub(crate) fn new(source: Source, request: Request<Range<usize>>) -> Result<Self, SpecErrors> {
        match FamilySpec::new(request) {
            Ok(family) => Ok(Self { source, family }),
            Err(errors) => Err(SpecErrors::new(source, errors)),
        }
    }

    /// The family.
    pub const fn family(&self) -> &FamilySpec<Range<usize>> {
        &self.family
    }

    /// The same family reported under another name: that of the file it comes from, say.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.source.name = name.into();
        self
    }

    /// An error of one member found later, printed with a caret under the value that `key` has there.
    pub fn blame(&self, member: &FamilyMember, key: &str, message: &str, help: &[String]) -> String {
        self.source.report(message, &self.family.place_of(member, key), None, help)
    }
}

/// A request that remembers its text: for readers that interpret it, or a part of it, in their own way.
#[derive(Clone, Debug)]
pub struct LocatedRequest {
    source: Source,
    request: Request<Range<usize>>,
}

impl LocatedRequest {
    pub(crate) fn new(source: Source, request: Request<Range<usize>>) -> Self {
        Self { source, request }
    }

    /// What was read.
    pub const fn request(&self) -> &Request<Range<usize>> {
        &self.request
    }

    /// The same request reported under another name: that of the file it comes from, say.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.source.name = name.into();
        self
    }

    /// Errors found in this request or in one made of it, with the text that they are shown in.
    pub fn errors(&self, errors: Vec<SpecError<Range<usize>>>) -> SpecErrors {
        SpecErrors::new(self.source.clone(), errors)
    }
}

impl Source {
    /// One error: message, line, caret underline, remedies. Ends without a newline.
    fn report(&self, message: &str, place: &Range<usize>, earlier: Option<&Range<usize>>, help: &[String]) -> String {
        let mut lines = message.lines();
        let mut report = format!("error: {}", lines.next().unwrap_or_default());
        for line in lines {
            let _ = write!(report, "\n  {}", line.trim_start());
        }
        let (line, column) = self.position(place.start);
        let gutter = (line + 1).to_string().len();
        let _ = write!(report, "\n{:gutter$}--> {}:{}:{}", "", self.name, line + 1, column + 1);
        let _ = write!(report, "\n{:gutter$} |", "");
        let mut marks = vec![(place, '^')];
        marks.extend(earlier.map(|earlier| (earlier, '-')));
        let mut shown: Vec<usize> = marks.iter().map(|(p, _)| self.position(p.start).0).collect();
        shown.sort_unstable();
        shown.dedup();
        for (at, &line) in shown.iter().enumerate() {
            if at > 0 && shown[at - 1] + 1 < line {
                report.push_str("\n...");
            }
            let (_, text) = self.line(line);
            let (text, underline) = clip(&text.replace('\t', " "), self.underline(line, &marks));
            let _ = write!(report, "\n{:>gutter$} | {text}", line + 1);
            let _ = write!(report, "\n{:gutter$} | {underline}", "");
        }
        if !help.is_empty() {
            let _ = write!(report, "\n{:gutter$} |", "");
        }
        for line in help {
            let _ = write!(report, "\n{:gutter$} = help: {line}", "");
        }
        report
    }

    fn underline(&self, line: usize, marks: &[(&Range<usize>, char)]) -> String {
        let (start, text) = self.line(line);
        let mut cells = vec![' '; text.chars().count() + 1];
        for (place, mark) in marks {
            let (from, column) = self.position(place.start);
            if from != line {
                continue;
            }
            let end = place.end.min(start + text.len());
            let width = self.text.get(place.start..end).map_or(0, |s| s.chars().count());
            let cells = cells.iter_mut().skip(column).take(width.max(1));
            cells.for_each(|cell| *cell = *mark);
        }
        cells.into_iter().collect::<String>().trim_end().into()
    }

    /// Line and column (in characters) of a byte offset, both from 0.
    fn position(&self, offset: usize) -> (usize, usize) {
        let before = self.text.get(..offset).unwrap_or(&self.text);
        steps::add(before.len());
        let start = before.rfind('\n').map_or(0, |at| at + 1);
        (before.matches('\n').count(), before[start..].chars().count())
    }

    /// Start offset and text of a line.
    fn line(&self, line: usize) -> (usize, &str) {
        let mut start = 0;
        for (at, text) in self.text.split('\n').enumerate() {
            steps::add(text.len());
            if at == line {
                return (start, text.strip_suffix('\r').unwrap_or(text));
            }
            start += text.len() + 1;
        }
        (self.text.len(), "")
    }
}

/// Characters of a line that are shown; of a longer one so many around what is marked, and how many of them before it.
const WIDEST: usize = 400;
const BEFORE: usize = 60;

/// What is shown of a line and of the marks under it.
fn clip(text: &str, underline: String) -> (String, String) {
    if text.chars().count() <= WIDEST {
        return (text.to_owned(), underline);
    }
    let marked = underline.chars().take_while(|c| *c == ' ').count();
    let from = marked.saturating_sub(BEFORE);
    let part = |text: &str| text.chars().skip(from).take(WIDEST).collect::<String>();
    let (dots, gap) = if from > 0 { (".. ", "   ") } else { ("", "") };
    (format!("{dots}{} ..", part(text)), format!("{gap}{}", part(&underline)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn of_a_long_line_what_is_marked_is_shown() {
        let spec = format!("bm = 64, {}bn = 64, bk = 32, bogus = 1", " ".repeat(10_000));
        let errors = spec.parse::<KernelSpec>().map(|_| ()).map_err(|error| error.to_string());
        let text = errors.unwrap_err();
        assert!(text.len() < 1_000 && text.contains("bogus = 1 ..\n"), "{text}");
        let (line, marks) = clip(&"ab".repeat(1_000), format!("{}^^", " ".repeat(501)));
        assert_eq!((&line[..5], marks.find('^')), (".. ba", Some(3 + BEFORE)));
        assert_eq!(clip("bm = 1", "^^".to_owned()), ("bm = 1".to_owned(), "^^".to_owned()));
    }
}
