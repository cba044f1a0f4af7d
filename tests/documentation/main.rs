//! The documents of the repository: every link leads somewhere, every command line runs, every page of the book is listed.
//!
//! Rust snippets are documentation tests of the crate (`src/documentation.rs`).
#![allow(clippy::unwrap_used)]

#[cfg(unix)]
mod commands;
mod links;
mod pages;
