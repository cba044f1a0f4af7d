//! The types of the values that keys take: how each is read, written in a spec, and written in Rust.

use std::fmt::Debug;

use super::Key;
use crate::epilogue::Epilogue;
use crate::words::Vocabulary;

/// What a key takes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Takes {
    /// An integer of at least 1.
    Number,
    /// Two integers of at least 1, in parentheses.
    Pair,
    /// One of these words.
    Words(Vec<Word>),
    /// A closure in a string.
    Closure,
}

/// A word that a key takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word {
    /// As it is written.
    pub text: &'static str,
    /// Is it a further spelling, which the canonical text does not use?
    pub is_alias: bool,
}

impl Takes {
    /// The words, further spellings included; none where something else is taken.
    pub fn words(&self) -> &[Word] {
        match self {
            Self::Words(words) => words,
            Self::Number | Self::Pair | Self::Closure => &[],
        }
    }
}

/// Where the values of keys are read from. A value is nothing where nothing is said, where `auto` is, and where what is
/// said is an error.
pub(super) trait Source {
    /// An integer of at least 1.
    fn number(&mut self, key: Key) -> Option<u32>;

    /// Two integers of at least 1.
    fn pair(&mut self, key: Key) -> Option<(u32, u32)>;

    /// One of the words that the key takes.
    fn word<V: Vocabulary>(&mut self, key: Key) -> Option<V>;

    /// A closure: the epilogue, or the score of a query and a key.
    fn closure(&mut self, key: Key) -> Option<Epilogue>;
}

/// The type of a key's value.
pub(super) trait Setting: Copy {
    /// What is taken: those values alone of which `accepts` is true.
    fn takes(accepts: Option<fn(Self) -> bool>) -> Takes;

    /// What a source says of `key`.
    fn read(source: &mut impl Source, key: Key) -> Option<Self>;

    /// As in the canonical text of a spec.
    fn written(self) -> String;

    /// As a constant expression of Rust, where the types of this crate are in `path`.
    fn expression(self, path: &str) -> String;
}

impl Setting for u32 {
    fn takes(_: Option<fn(Self) -> bool>) -> Takes {
        Takes::Number
    }

    fn read(source: &mut impl Source, key: Key) -> Option<Self> {
        source.number(key)
    }

    fn written(self) -> String {
        self.to_string()
    }

    fn expression(self, _: &str) -> String {
        self.to_string()
    }
}

impl Setting for (u32, u32) {
    fn takes(_: Option<fn(Self) -> bool>) -> Takes {
        Takes::Pair
    }

    fn read(source: &mut impl Source, key: Key) -> Option<Self> {
        source.pair(key)
    }

    fn written(self) -> String {
        format!("({}, {})", self.0, self.1)
    }

    fn expression(self, _: &str) -> String {
        self.written()
    }
}

impl Setting for Epilogue {
    fn takes(_: Option<fn(Self) -> bool>) -> Takes {
        Takes::Closure
    }

    fn read(source: &mut impl Source, key: Key) -> Option<Self> {
        source.closure(key)
    }

    fn written(self) -> String {
        format!("\"{self}\"")
    }

    fn expression(self, path: &str) -> String {
        format!("{path}::Epilogue::compiled({:?})", self.text())
    }
}

impl<V: Vocabulary + Debug + PartialEq> Setting for V {
    fn takes(accepts: Option<fn(Self) -> bool>) -> Takes {
        let accepted = V::WORDS.iter().filter(|(_, value)| accepts.is_none_or(|accepts| accepts(*value)));
        Takes::Words(accepted.map(|(text, value)| Word { text, is_alias: *text != value.word() }).collect())
    }

    fn read(source: &mut impl Source, key: Key) -> Option<Self> {
        source.word(key)
    }

    fn written(self) -> String {
        self.word().to_owned()
    }

    /// The derived `Debug` of a value without fields is the name of its variant.
    fn expression(self, path: &str) -> String {
        format!("{path}::{}::{self:?}", V::NAME)
    }
}
