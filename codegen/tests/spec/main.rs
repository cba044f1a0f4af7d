//! The grammar of specs, and the tables of the book that follow from it.
#![allow(clippy::unwrap_used)]

mod gpus;
mod keys;
mod support;
