//! Where in a text something is wrong, and what.

use std::fmt;

/// A place in the PTX text, both counted from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Span {
    /// Line of the text, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
}

/// PTX text that cannot be executed: malformed, or using something that is not modelled.
///
/// The `Display` form is `line:column: message`.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}:{}: {message}", span.line, span.column)]
pub struct ParseError {
    /// Where in the text.
    pub span: Span,
    /// What is wrong, and what would be right.
    pub message: String,
}

/// The message, as a `main` that returns the error prints it.
impl fmt::Debug for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl ParseError {
    pub(crate) fn new(span: Span, message: impl Into<String>) -> Self {
        Self { span, message: message.into() }
    }
}

pub(crate) type Parsed<T> = Result<T, ParseError>;
