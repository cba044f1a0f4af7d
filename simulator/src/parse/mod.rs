//! PTX text to a syntax tree with spans. Nothing here knows what an instruction means.

pub(crate) mod ast;
mod declare;
mod error;
mod lexer;
mod outside;
mod parser;
mod steps;

pub(crate) use error::Parsed;
pub use error::{ParseError, Span};
pub(crate) use parser::module;
