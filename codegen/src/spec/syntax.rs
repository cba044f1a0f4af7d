//! The shape `key = value, key = value`, for text and attribute tokens alike.

use super::{SpecError, SpecErrorKind};

/// A place in the input of a front end.
pub trait Place: Clone {
    /// The place from the start of `self` to the end of `last`.
    #[must_use]
    fn through(&self, last: &Self) -> Self;
}

impl Place for std::ops::Range<usize> {
    fn through(&self, last: &Self) -> Self {
        self.start..last.end
    }
}

/// One token of a spec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token<P> {
    /// What it is.
    pub kind: TokenKind,
    /// Where it stands.
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
    /// Anything else, as written.
    Other(String),
}

impl TokenKind {
    fn describe(&self) -> String {
        match self {
            Self::Word(text) | Self::Number(text) | Self::Other(text) => format!("`{text}`"),
            Self::Quoted(text) => format!("\"{text}\""),
            Self::Equals => "`=`".into(),
            Self::Comma => "`,`".into(),
        }
    }
}

/// One `key = value`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry<P> {
    /// The key as written.
    pub key: String,
    /// Where the key stands.
    pub key_place: P,
    /// The value.
    pub value: Value,
    /// Where the value stands.
    pub value_place: P,
}

/// What stands to the right of the `=`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A bare identifier.
    Word(String),
    /// A string, without its quotes.
    Quoted(String),
    /// A number as written.
    Number(String),
    /// Something that no key takes, in words: `an array`.
    Other(&'static str),
    /// A value whose syntax error has been reported already.
    Broken,
}

impl Value {
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Word(text) | Self::Number(text) => format!("`{text}`"),
            Self::Quoted(text) => format!("the string \"{text}\""),
            Self::Other(what) => (*what).into(),
            Self::Broken => "this".into(),
        }
    }
}

/// Reads tokens as a list of entries, separated by commas, a trailing comma allowed.
///
/// Every departure from that shape is an error on its own token; reading goes on after the next comma.
/// `end` is the place to point at when the tokens end too early.
pub fn entries<P: Place>(tokens: &[Token<P>], end: &P) -> (Vec<Entry<P>>, Vec<SpecError<P>>) {
    let mut reader = Reader { tokens, end, at: 0, entries: Vec::new(), errors: Vec::new() };
    while reader.at < tokens.len() {
        reader.entry();
    }
    (reader.entries, reader.errors)
}

struct Reader<'t, P> {
    tokens: &'t [Token<P>],
    end: &'t P,
    at: usize,
    entries: Vec<Entry<P>>,
    errors: Vec<SpecError<P>>,
}

impl<P: Place> Reader<'_, P> {
    fn entry(&mut self) {
        let first = &self.tokens[self.at];
        self.at += 1;
        let TokenKind::Word(key) = &first.kind else {
            let help = match &first.kind {
                TokenKind::Quoted(_) => Some("keys are written without quotes".into()),
                _ => None,
            };
            let message = format!("expected a key, found {}", first.kind.describe());
            self.error(message, help, first.place.clone());
            if first.kind != TokenKind::Comma {
                self.skip_past_comma();
            }
            return;
        };
        let (value, value_place) = self.value(key);
        self.entries.push(Entry {
            key: key.clone(),
            key_place: first.place.clone(),
            value_place: value_place.unwrap_or_else(|| first.place.clone()),
            value,
        });
    }

    fn value(&mut self, key: &str) -> (Value, Option<P>) {
        if !self.next_is(&TokenKind::Equals) {
            self.unexpected(&format!("expected `=` after `{key}`"), Some(format!("write `{key} = ...`")));
            return (Value::Broken, None);
        }
        self.at += 1;
        let Some(token) = self.tokens.get(self.at) else {
            self.unexpected(&format!("expected a value after `{key} =`"), None);
            return (Value::Broken, None);
        };
        let value = match &token.kind {
            TokenKind::Word(word) => Value::Word(word.clone()),
            TokenKind::Quoted(text) => Value::Quoted(text.clone()),
            TokenKind::Number(text) => Value::Number(text.clone()),
            TokenKind::Equals | TokenKind::Comma | TokenKind::Other(_) => {
                self.unexpected(&format!("expected a value after `{key} =`"), None);
                return (Value::Broken, None);
            }
        };
        self.at += 1;
        let place = Some(token.place.clone());
        if self.at == self.tokens.len() {
            return (value, place);
        }
        if self.next_is(&TokenKind::Comma) {
            self.at += 1;
            return (value, place);
        }
        if self.next_starts_an_entry() {
            self.error(
                format!("expected `,` before {}", self.tokens[self.at].kind.describe()),
                None,
                self.tokens[self.at].place.clone(),
            );
            return (value, place);
        }
        self.unexpected(
            &format!("expected `,` after the value of `{key}`"),
            Some("a value is one literal or one word: expressions are not evaluated".into()),
        );
        (Value::Broken, place)
    }

    fn next_is(&self, kind: &TokenKind) -> bool {
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

    fn skip_past_comma(&mut self) {
        while self.at < self.tokens.len() {
            self.at += 1;
            if self.tokens[self.at - 1].kind == TokenKind::Comma {
                break;
            }
        }
    }

    fn error(&mut self, message: String, help: Option<String>, place: P) {
        let kind = SpecErrorKind::Syntax { message, help };
        self.errors.push(SpecError::new(kind, place));
    }
}
