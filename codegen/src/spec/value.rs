//! The right-hand side of `=`.

use std::fmt;

/// The value of a key, or several of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value<P> {
    /// One literal or one word.
    Atom(Atom),
    /// `(2, 4)`: several numbers that are one value.
    Tuple(Vec<Element<P>>),
    /// `[128, 256]` or `3..=5`: several values, each of which makes a kernel of its own. Never empty.
    List(Vec<Element<P>>),
    /// The type parameter of a function: one dtype for all of its uses.
    Parameter(String),
}

/// One literal or one word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Atom {
    /// A bare identifier.
    Word(String),
    /// A string, without its quotes.
    Quoted(String),
    /// A number as written.
    Number(String),
    /// Something that no key takes, in words: `a date`.
    Other(String),
    /// Something whose error has been reported already.
    Broken,
}

/// A value in a tuple or in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Element<P> {
    /// The value.
    pub value: Value<P>,
    /// Its place.
    pub place: P,
}

impl<P> Value<P> {
    /// What could not be read.
    pub const BROKEN: Self = Self::Atom(Atom::Broken);

    /// A number.
    pub fn number(number: u32) -> Self {
        Self::Atom(Atom::Number(number.to_string()))
    }

    /// A bare identifier.
    pub fn word(word: impl Into<String>) -> Self {
        Self::Atom(Atom::Word(word.into()))
    }
}

/// As it is written.
impl<P> fmt::Display for Value<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (open, elements, close) = match self {
            Self::Atom(Atom::Quoted(text)) => return write!(f, "\"{text}\""),
            Self::Atom(Atom::Word(text) | Atom::Number(text) | Atom::Other(text)) | Self::Parameter(text) => {
                return f.write_str(text);
            }
            Self::Atom(Atom::Broken) => return f.write_str("..."),
            Self::Tuple(elements) => ('(', elements, ')'),
            Self::List(elements) => ('[', elements, ']'),
        };
        let elements: Vec<String> = elements.iter().map(|element| element.value.to_string()).collect();
        write!(f, "{open}{}{close}", elements.join(", "))
    }
}

impl Atom {
    pub(super) fn describe(&self) -> String {
        match self {
            Self::Word(text) | Self::Number(text) => format!("`{text}`"),
            Self::Quoted(text) => format!("the string \"{text}\""),
            Self::Other(what) => what.clone(),
            Self::Broken => "this".into(),
        }
    }

    pub(super) fn is_auto(&self) -> bool {
        matches!(self, Self::Word(word) | Self::Quoted(word) if word == "auto")
    }
}
