//! What is wrong with a space, or with a space for a problem.

use std::path::PathBuf;

use bsr_codegen::spec::SpecErrors;

/// Why there are no points.
#[derive(thiserror::Error)]
pub enum SpaceError {
    /// No space is called that.
    #[error("there is no space `{name}`\n  help: {known}, the path of a .toml file, or a spec with lists")]
    Unknown {
        /// What was asked for.
        name: String,
        /// The names that there are.
        known: String,
    },
    /// A file that cannot be read.
    #[error("cannot read {}: {error}", path.display())]
    Read {
        /// Its path.
        path: PathBuf,
        /// What the system says.
        error: std::io::Error,
    },
    /// A file that is no TOML, or whose tables are not those of a space.
    #[error("{name}: {message}")]
    File {
        /// The file or the space.
        name: String,
        /// What is wrong with it.
        message: String,
    },
    /// Keys or values that a spec cannot have. The report has its final form.
    #[error("{0}")]
    Spec(SpecErrors),
    /// A constraint that is no expression, or has no answer for a point.
    #[error("{name}: the constraint `{constraint}` {message}\n  help: {help}")]
    Constraint {
        /// The part that it stands in.
        name: String,
        /// Its text.
        constraint: String,
        /// What is wrong with it.
        message: String,
        /// What to do about it.
        help: String,
    },
    /// The space says something of the product that the problem contradicts.
    #[error("{name} is for `{key} = {space}`, and the problem says `{key} = {problem}`\n  help: {help}")]
    Conflict {
        /// The part.
        name: String,
        /// The key of both.
        key: &'static str,
        /// What the space says.
        space: String,
        /// What the problem says.
        problem: String,
        /// What to do about it.
        help: String,
    },
    /// What should be facts of a product says how to compute it.
    #[error(
        "`{key}` is no fact of the product but a choice: {meaning}\n  help: leave it out here; a space, or a spec with lists, says it"
    )]
    Choice {
        /// The key.
        key: &'static str,
        /// What the key stands for.
        meaning: &'static str,
    },
    /// The space leaves open what is multiplied.
    #[error(
        "{name} leaves open what is multiplied: it has no {missing}\n  help: say so of the problem: \"bm = 512, bk = 112\""
    )]
    Open {
        /// The part.
        name: String,
        /// The keys that are missing.
        missing: String,
    },
    /// The space is of several products.
    #[error("{name} is of several products: `{first}` and `{second}`\n  help: say of the problem which one is meant")]
    Several {
        /// The space.
        name: String,
        /// One of them.
        first: String,
        /// Another one.
        second: String,
    },
    /// More points than anyone would measure.
    #[error("{name} has {arithmetic} = {points} points, of at most {most}\n  help: shorter lists, or several spaces")]
    TooMany {
        /// The part.
        name: String,
        /// The lengths of its lists.
        arithmetic: String,
        /// Their product.
        points: usize,
        /// The limit.
        most: usize,
    },
}

bsr_codegen::message_as_debug!(SpaceError);
