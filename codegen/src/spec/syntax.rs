//! The shape `key = value, key = value`, for text and for attribute tokens.

use super::range;
use super::value::{Atom, Element, Value};
use super::{SpecError, SpecErrorKind};
use crate::place::Place;
use crate::steps;

/// One token of a spec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token<P> {
    /// What it is.
    pub kind: TokenKind,
    /// Its place.
    pub place: P,
}

/// The kinds of [`Token`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// A bare identifier.
    Word(String),
    /// A string, without its quotes.
    Quoted(String),
    /// A number as written: sign, prefix, underscores and suffix included.
    Number(String),
    /// `=`
    Equals,
    /// `,`
    Comma,
    /// `(` or `[`
    Open(Bracket),
    /// `)` or `]`
    Close(Bracket),
    /// `..`, or `..=` where the last number belongs to the range.
    Range {
        /// Is it `..=`?
        inclusive: bool,
    },
    /// Anything else, as written.
    Other(String),
}

/// The two kinds of brackets that hold values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bracket {
    /// `(` and `)`, around a tuple.
    Round,
    /// `[` and `]`, around a list.
    Square,
}

impl TokenKind {
    fn describe(&self) -> String {
        match self {
            Self::Word(text) | Self::Number(text) | Self::Other(text) => format!("`{text}`"),
            Self::Quoted(text) => format!("\"{text}\""),
            Self::Equals => "`=`".into(),
            Self::Comma => "`,`".into(),
            Self::Open(Bracket::Round) => "`(`".into(),
            Self::Open(Bracket::Square) => "`[`".into(),
            Self::Close(Bracket::Round) => "`)`".into(),
            Self::Close(Bracket::Square) => "`]`".into(),
            Self::Range { inclusive } => format!("`{}`", range::operator(*inclusive)),
        }
    }
}

/// One `key = value`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry<P> {
    /// The key as written.
    pub key: String,
    /// The place of the key.
    pub key_place: P,
    /// The value.
    pub value: Value<P>,
    /// The place of the value.
    pub value_place: P,
}

/// Reads tokens as a list of entries, separated by commas, a trailing comma allowed.
///
/// Every departure from that shape is an error on its own token; reading goes on after the next comma.
/// `end` is the place to point at when the tokens end too early.
pub fn entries<P: Place>(tokens: &[Token<P>], end: &P) -> (Vec<Entry<P>>, Vec<SpecError<P>>) {
    let mut reader = Reader { tokens, end, at: 0, depth: 0, errors: Vec::new() };
    let mut entries = Vec::new();
    while reader.at < tokens.len() {
        entries.extend(reader.entry());
    }
    (entries, reader.errors)
}

/// Reads tokens as the value of `key` and nothing else; where they are something else, there are errors.
pub(super) fn value<P: Place>(key: &str, tokens: &[Token<P>], end: &P) -> (Value<P>, Vec<SpecError<P>>) {
    let mut reader = Reader { tokens, end, at: 0, depth: 0, errors: Vec::new() };
    let read = reader.element(key, None, &format!("expected a value of `{key}`"));
    if read.is_some() && reader.at < tokens.len() {
        reader.unexpected(&format!("expected nothing after the value of `{key}`"), None);
    }
    let value = read.map(|element| element.value);
    (value.filter(|_| reader.errors.is_empty()).unwrap_or(Value::BROKEN), reader.errors)
}

fn opens_in(within: Option<Bracket>, bracket: Bracket) -> bool {
    match within {
        None => true,
        Some(Bracket::Square) => bracket == Bracket::Round,
        Some(Bracket::Round) => false,
    }
}

struct Reader<'t, P> {
    tokens: &'t [Token<P>],
    end: &'t P,
    at: usize,
    /// Brackets that are open.
    depth: usize,
    errors: Vec<SpecError<P>>,
}

impl<P: Place> Reader<'_, P> {
    fn entry(&mut self) -> Option<Entry<P>> {
        let first = &self.tokens[self.at];
        steps::add(1);
        self.at += 1;
        let TokenKind::Word(key) = &first.kind else {
            let help = match &first.kind {
                TokenKind::Quoted(_) => Some("keys are written without quotes".into()),
                _ => None,
            };
            self.error(format!("expected a key, found {}", first.kind.describe()), help, first.place.clone());
            if first.kind != TokenKind::Comma {
                self.at -= 1;
                self.skip_past_comma();
            }
            return None;
        };
        let element = self.value_of(key).unwrap_or(Element { value: Value::BROKEN, place: first.place.clone() });
        Some(Entry {
            key: key.clone(),
            key_place: first.place.clone(),
            value: element.value,
            value_place: element.place,
        })
    }

    /// Everything from the `=` to the comma.
    fn value_of(&mut self, key: &str) -> Option<Element<P>> {
        if !self.next_is(&TokenKind::Equals) {
            self.unexpected(&format!("expected `=` after `{key}`"), Some(format!("write `{key} = ...`")));
            return None;
        }
        self.at += 1;
        let element = self.element(key, None, &format!("expected a value after `{key} =`"))?;
        if self.at == self.tokens.len() {
            return Some(element);
        }
        if self.next_is(&TokenKind::Comma) {
            self.at += 1;
            return Some(element);
        }
        if self.next_starts_an_entry() {
            let next = &self.tokens[self.at];
            self.error(format!("expected `,` before {}", next.kind.describe()), None, next.place.clone());
            return Some(element);
        }
        self.unexpected(
            &format!("expected `,` after the value of `{key}`"),
            Some("a value is one literal or one word: expressions are not evaluated".into()),
        );
        Some(Element { value: Value::BROKEN, place: element.place })
    }

    /// A literal, a word, a range, a tuple or a list; none for anything else, which is an error already.
    ///
    /// Within a list there may be tuples, within a tuple no brackets.
    fn element(&mut self, key: &str, within: Option<Bracket>, expected: &str) -> Option<Element<P>> {
        steps::add(1);
        let token = self.tokens.get(self.at);
        let atom = match token.map(|token| &token.kind) {
            Some(TokenKind::Word(word)) => Atom::Word(word.clone()),
            Some(TokenKind::Quoted(text)) => Atom::Quoted(text.clone()),
            Some(TokenKind::Number(text)) => Atom::Number(text.clone()),
            Some(TokenKind::Open(bracket)) if opens_in(within, *bracket) => return self.group(key, *bracket),
            _ => {
                self.unexpected(expected, None);
                return None;
            }
        };
        let place = token?.place.clone();
        self.at += 1;
        match self.tokens.get(self.at).map(|token| &token.kind) {
            Some(TokenKind::Range { inclusive }) => self.range(key, (&atom, &place), *inclusive),
            _ => Some(Element { value: Value::Atom(atom), place }),
        }
    }

    /// What follows the first number of a range.
    fn range(&mut self, key: &str, (first, start): (&Atom, &P), inclusive: bool) -> Option<Element<P>> {
        self.at += 1;
        let last = self.tokens.get(self.at).filter(|token| matches!(token.kind, TokenKind::Number(_)));
        let Some(Token { kind: TokenKind::Number(text), place: end }) = last else {
            self.unexpected(&format!("expected a number after `{}`", range::operator(inclusive)), None);
            return None;
        };
        self.at += 1;
        let place = start.through(end);
        let value = match range::numbers(key, first, text, inclusive) {
            Ok(numbers) => {
                let number = |n: u32| Element { value: Value::Atom(Atom::Number(n.to_string())), place: place.clone() };
                Value::List(numbers.map(number).collect())
            }
            Err(kind) => {
                self.errors.push(SpecError::new(kind, place.clone()));
                Value::BROKEN
            }
        };
        Some(Element { value, place })
    }

    /// A tuple or a list, from its opening bracket on.
    fn group(&mut self, key: &str, bracket: Bracket) -> Option<Element<P>> {
        let open = &self.tokens[self.at].place;
        let (what, close) = match bracket {
            Bracket::Round => ("tuple", TokenKind::Close(Bracket::Round)),
            Bracket::Square => ("list", TokenKind::Close(Bracket::Square)),
        };
        let close_text = close.describe();
        let expected = format!("expected a value or {close_text} in the {what} of `{key}`");
        self.at += 1;
        self.depth += 1;
        let mut elements = Vec::new();
        while !self.next_is(&close) {
            let element = self.element(key, Some(bracket), &expected)?;
            match element.value {
                // A range in a list adds its numbers to it.
                Value::List(numbers) if bracket == Bracket::Square => elements.extend(numbers),
                _ => elements.push(element),
            }
            if self.next_is(&TokenKind::Comma) {
                self.at += 1;
            } else if !self.next_is(&close) {
                self.unexpected(&format!("expected `,` or {close_text} in the {what} of `{key}`"), None);
                return None;
            }
        }
        let place = open.through(&self.tokens[self.at].place);
        self.at += 1;
        self.depth -= 1;
        let value = match bracket {
            Bracket::Round => Value::Tuple(elements),
            Bracket::Square if elements.is_empty() => {
                let help = "a list has at least one value".into();
                self.error(format!("the list of `{key}` is empty"), Some(help), place.clone());
                Value::BROKEN
            }
            Bracket::Square => Value::List(elements),
        };
        Some(Element { value, place })
    }

    fn next_is(&self, kind: &TokenKind) -> bool {
        steps::add(1);
        self.tokens.get(self.at).is_some_and(|t| t.kind == *kind)
    }

    fn next_starts_an_entry(&self) -> bool {
        matches!(
            self.tokens.get(self.at..self.at + 2),
            Some([key, equals])
                if matches!(key.kind, TokenKind::Word(_)) && equals.kind == TokenKind::Equals
        )
    }

    /// Reports the token at hand, or the end of the input, and goes on after the next comma.
    fn unexpected(&mut self, expected: &str, help: Option<String>) {
        let (found, place) = match self.tokens.get(self.at) {
            Some(token) => (token.kind.describe(), token.place.clone()),
            None => ("the end".into(), self.end.clone()),
        };
        self.error(format!("{expected}, found {found}"), help, place);
        self.skip_past_comma();
    }

    /// Goes on after the next comma outside all brackets.
    fn skip_past_comma(&mut self) {
        while let Some(token) = self.tokens.get(self.at) {
            steps::add(1);
            self.at += 1;
            match token.kind {
                TokenKind::Open(_) => self.depth += 1,
                TokenKind::Close(_) => self.depth = self.depth.saturating_sub(1),
                TokenKind::Comma if self.depth == 0 => return,
                _ => {}
            }
        }
        self.depth = 0;
    }

    fn error(&mut self, message: String, help: Option<String>, place: P) {
        let kind = SpecErrorKind::Syntax { message, help };
        self.errors.push(SpecError::new(kind, place));
    }
}
