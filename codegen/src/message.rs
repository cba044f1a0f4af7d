//! How errors are printed: [`Refusal`], and what a `main` that returns an error prints of it, its `Debug`.

use std::fmt;

/// Makes the `Debug` of error types their message, and the remedies, where the type keeps them apart in `help()`.
///
/// A program whose `main` returns an error ends with the error's `Debug`. What its reader needs is the fact and the remedy, not
/// the names of variants and fields.
#[doc(hidden)]
#[macro_export]
macro_rules! message_as_debug {
    ($error:ident $(<$place:ident>)?) => {
        impl $(<$place>)? ::core::fmt::Debug for $error $(<$place>)? {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                ::core::fmt::Display::fmt(self, f)
            }
        }
    };
    ($error:ident $(<$place:ident>)?, and help) => {
        impl $(<$place>)? ::core::fmt::Debug for $error $(<$place>)? {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                ::core::fmt::Display::fmt(self, f)?;
                self.help().into_iter().try_for_each(|help| ::core::write!(f, "\n  help: {help}"))
            }
        }
    };
}

/// Why something cannot be done, for people: the fact, the arithmetic or the circumstances behind it, the remedy.
///
/// It is the error where no program acts on which of several reasons there was.
#[derive(Clone, PartialEq, Eq)]
pub struct Refusal {
    fact: String,
    why: String,
    help: String,
}

impl Refusal {
    /// The fact in a line.
    pub fn new(fact: impl Into<String>) -> Self {
        Self { fact: fact.into(), why: String::new(), help: String::new() }
    }

    /// A fact about something that has a name: a file, a part of it.
    pub fn of(what: impl fmt::Display, fact: impl fmt::Display) -> Self {
        Self::new(format!("{what}: {fact}"))
    }

    /// The same fact, of a part of something.
    #[must_use]
    pub fn within(self, what: impl fmt::Display) -> Self {
        Self { fact: format!("{what}: {}", self.fact), ..self }
    }

    /// The same with what is behind the fact, in a line.
    #[must_use]
    pub fn why(self, why: impl Into<String>) -> Self {
        Self { why: why.into(), ..self }
    }

    /// The same with this remedy, in a line.
    #[must_use]
    pub fn help(self, help: impl Into<String>) -> Self {
        Self { help: help.into(), ..self }
    }
}

/// The fact, and a line each for the reason and the remedy.
impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.fact)?;
        if !self.why.is_empty() {
            write!(f, "\n  {}", self.why)?;
        }
        if self.help.is_empty() { Ok(()) } else { write!(f, "\n  help: {}", self.help) }
    }
}

impl std::error::Error for Refusal {}

message_as_debug!(Refusal);
