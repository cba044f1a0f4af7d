//! What can be wrong with an epilogue.

/// One thing wrong with an epilogue, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EpilogueError<P> {
    /// The fact, with its arithmetic.
    pub fact: String,
    /// What to write instead, one remedy a line.
    pub help: Vec<String>,
    /// The offending words.
    pub place: P,
}

impl<P> EpilogueError<P> {
    pub(super) fn new(place: P, fact: impl Into<String>, help: &[&str]) -> Self {
        Self { fact: fact.into(), help: help.iter().map(|line| (*line).to_owned()).collect(), place }
    }
}
