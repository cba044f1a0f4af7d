//! What can be wrong with a spec, said once for every front end.

use std::error::Error;
use std::fmt;

use super::{Atom, Key, Target};
use crate::suggest::{either, list, nearest};

/// An argument of the attribute alone, which is no key.
const OF_THE_ATTRIBUTE: &str = "fallback";

/// One thing wrong with a spec, and where.
///
/// `P` is the place type of the front end: byte ranges for text and TOML, token spans for the attribute.
#[derive(Clone, PartialEq, Eq)]
pub struct SpecError<P> {
    /// What is wrong.
    pub kind: SpecErrorKind,
    /// The offending key or value.
    pub place: P,
    /// The earlier place that it disagrees with, where there is one.
    pub earlier: Option<P>,
}

message_as_debug!(SpecError<P>, and help);

impl<P> SpecError<P> {
    pub(crate) fn new(kind: SpecErrorKind, place: P) -> Self {
        Self { kind, place, earlier: None }
    }

    /// What to write instead, one remedy a line.
    pub fn help(&self) -> Vec<String> {
        self.kind.help()
    }
}

impl<P> fmt::Display for SpecError<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kind.fmt(f)
    }
}

impl<P: fmt::Debug> Error for SpecError<P> {}

/// Where the dtype that a key contradicts was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Given {
    /// By this key.
    Key(Key),
    /// By the type of an operand in a function signature.
    Type,
}

/// The kinds of [`SpecError`].
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpecErrorKind {
    /// The text is not a list of `key = value`.
    #[error("{message}")]
    Syntax {
        /// What was found and what was expected.
        message: String,
        /// What to write instead.
        help: Option<String>,
    },
    /// There is no such key.
    #[error("unknown key `{key}`")]
    UnknownKey {
        /// The key as written.
        key: String,
    },
    /// A key is given more than once.
    #[error("`{key}` is given twice")]
    Duplicate {
        /// The key.
        key: String,
    },
    /// Keys without a default are not given.
    #[error("{} missing", missing(keys))]
    Missing {
        /// The keys.
        keys: Vec<Key>,
    },
    /// A number where a word belongs, a word where a number belongs, or something else altogether.
    #[error("`{key}` takes {expected}, not {}", found.describe())]
    WrongType {
        /// The key.
        key: Key,
        /// What the key takes, in words.
        expected: String,
        /// What it was given.
        found: Atom,
    },
    /// An integer below 1 or above 2^32 - 1.
    #[error("`{key} = {text}` is out of range: `{key}` is at least 1 and at most 4294967295")]
    OutOfRange {
        /// The key.
        key: Key,
        /// The integer as written.
        text: String,
    },
    /// A number or a word that is none of the few that the key takes.
    #[error("`{key}` cannot be `{found}`")]
    NotAccepted {
        /// The key.
        key: Key,
        /// The value as written.
        found: String,
        /// What the key takes.
        accepted: Vec<&'static str>,
    },
    /// A reserved word.
    #[error("`{key} = {found}` is not implemented yet")]
    NotYet {
        /// The key.
        key: Key,
        /// The reserved word.
        found: String,
        /// What the key takes today.
        accepted: Vec<&'static str>,
    },
    /// Several values where there is room for one kernel.
    #[error("a list makes a family of kernels: here `{key}` takes one value")]
    OneValue {
        /// The key.
        key: Key,
        /// The first value of the list, as written.
        first: String,
    },
    /// A value that a list holds already.
    #[error("`{key}` lists `{value}` twice")]
    Repeated {
        /// The key.
        key: Key,
        /// The value in its canonical spelling.
        value: String,
        /// How it is written the first and the second time.
        written: [String; 2],
    },
    /// Lists that make too many kernels together.
    #[error("{}", too_many(axes, *most))]
    TooMany {
        /// The keys with lists, and the lengths of these.
        axes: Vec<(Key, usize)>,
        /// How many there may be.
        most: usize,
    },
    /// An epilogue that cannot be understood.
    #[error("{message}")]
    Epilogue {
        /// The fact.
        message: String,
        /// What to write instead, one remedy a line.
        help: Vec<String>,
    },
    /// Two dtypes for one operand.
    #[error("{}", contradiction(*key, found, *by, given))]
    Contradiction {
        /// The key that comes too late.
        key: Key,
        /// The dtype it gives.
        found: String,
        /// The operand (`a`, `b` or `out`) that has a dtype already.
        operand: Key,
        /// Where that dtype was given.
        by: Given,
        /// That dtype.
        given: String,
    },
}

message_as_debug!(SpecErrorKind, and help);

impl SpecErrorKind {
    /// What to write instead, one remedy a line.
    pub fn help(&self) -> Vec<String> {
        match self {
            Self::Syntax { help, .. } => help.iter().cloned().collect(),
            Self::Epilogue { help, .. } => help.clone(),
            Self::UnknownKey { key } => {
                let keys = Key::ALL.map(Key::as_str);
                let near = nearest(key, &keys);
                let mut help = vec![format!("the keys are {}", keys.join(", "))];
                if key == OF_THE_ATTRIBUTE {
                    let what = "embeds kernels for other GPUs; a spec is one kernel: mma = mma_sync is that of GPUs from sm_80 on";
                    help.insert(0, format!("`{key}` is an argument of the attribute, which {what}"));
                } else if !near.is_empty() {
                    help.insert(0, format!("did you mean {}?", either(&near)));
                }
                help
            }
            Self::Duplicate { .. } => vec!["keep one of the two".into()],
            Self::Missing { keys } => keys.iter().map(|key| format!("add `{key} = ...`: {}", key.meaning())).collect(),
            Self::WrongType { key, found, .. } => wrong_type_help(*key, found),
            Self::OutOfRange { .. } => Vec::new(),
            Self::NotAccepted { key, found, accepted } => {
                let takes = format!("`{key}` takes {}", either(accepted));
                if let Some(older) = Target::older(found).filter(|_| *key == Key::Arch) {
                    return vec![
                        format!(
                            "`arch = {older}`: GPUs run PTX of every older architecture except `{}`",
                            Target::Sm90a
                        ),
                        takes,
                    ];
                }
                let near = nearest(found, accepted);
                if near.is_empty() || near.len() == accepted.len() {
                    vec![takes]
                } else {
                    vec![format!("did you mean {}?", either(&near)), takes]
                }
            }
            Self::NotYet { key, accepted, .. } => {
                vec![format!("today `{key}` takes {}", either(accepted))]
            }
            Self::OneValue { key, first } => vec![format!("write `{key} = {first}`")],
            Self::Repeated { written, value, .. } => {
                let mut others: Vec<&str> = written.iter().map(String::as_str).filter(|text| text != value).collect();
                others.dedup();
                let means = match others[..] {
                    [] => String::new(),
                    [one] => format!("`{one}` is `{value}` here: "),
                    _ => format!("{} are `{value}` here: ", list(&others, "and")),
                };
                vec![format!("{means}keep one of the two")]
            }
            Self::TooMany { axes, .. } => {
                let longest = axes.iter().rev().max_by_key(|(_, length)| *length);
                longest
                    .map(|(key, _)| format!("shorten a list, `{key}` first, or make two families"))
                    .into_iter()
                    .collect()
            }
            Self::Contradiction { key, operand, by, .. } => vec![match by {
                Given::Type => format!("the type in the signature already states it: drop `{key}`"),
                Given::Key(_) if *key == Key::Dtype || *by == Given::Key(Key::Dtype) => {
                    format!("give either `dtype` or `{operand}`")
                }
                Given::Key(_) => format!("drop `{key}`"),
            }],
        }
    }
}

fn missing(keys: &[Key]) -> String {
    let names: Vec<&str> = keys.iter().map(|key| key.as_str()).collect();
    let verb = if keys.len() == 1 { "is" } else { "are" };
    format!("{} {verb}", list(&names, "and"))
}

/// `bn` x `stages`: 20 x 20 = 400 kernels, a family has at most 256.
fn too_many(axes: &[(Key, usize)], most: usize) -> String {
    let keys: Vec<String> = axes.iter().map(|(key, _)| format!("`{key}`")).collect();
    let lengths: Vec<String> = axes.iter().map(|(_, length)| length.to_string()).collect();
    let count = axes.iter().fold(1_u128, |count, (_, length)| count.saturating_mul(*length as u128));
    let product = match lengths.len() {
        1 => String::new(),
        _ => format!("{} = ", lengths.join(" x ")),
    };
    format!("{}: {product}{count} kernels, a family has at most {most}", keys.join(" x "))
}

fn contradiction(key: Key, found: &str, by: Given, given: &str) -> String {
    match by {
        Given::Type => {
            format!("`{key} = {found}` contradicts the type in the signature, `{given}`")
        }
        Given::Key(other) => format!("`{key} = {found}` contradicts `{other} = {given}`"),
    }
}

fn wrong_type_help(key: Key, found: &Atom) -> Vec<String> {
    match found {
        Atom::Quoted(text) if text.parse::<u32>().is_ok() || text.starts_with(['(', '[']) || text.contains("..") => {
            vec![format!("write `{key} = {text}`, without quotes")]
        }
        _ if key == Key::Epilogue => vec!["write `epilogue = \"|bias: Rows<f32>| relu(acc + bias)\"`".into()],
        _ if key == Key::Score => vec!["write `score = \"|| if i >= j { s * scale } else { -inf }\"`".into()],
        _ if key == Key::Warps => vec!["write `warps = (2, 4)`: 2 warps along M, 4 along N".into()],
        Atom::Number(text) => {
            let digits: String = text.chars().take_while(|c| c.is_ascii_digit() || *c == '_').collect();
            let suffix = &text[digits.len()..];
            if !digits.is_empty() && suffix.starts_with(['u', 'i']) {
                vec![format!("write `{key} = {digits}`, without a suffix")]
            } else {
                Vec::new()
            }
        }
        Atom::Word(word) if word != "auto" => {
            vec!["a spec has literals only: constants and expressions are not evaluated".into()]
        }
        _ => Vec::new(),
    }
}
