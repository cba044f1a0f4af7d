//! The documents of the repository: every link leads somewhere, every command line runs, every name in backticks exists, every
//! page of the book is listed.
//!
//! Rust snippets are documentation tests of the crate (`src/documentation.rs`).
#![allow(clippy::unwrap_used)]

#[cfg(unix)]
mod commands;
mod links;
mod names;
mod pages;

/// Every page with Rust in it is one of the documentation tests.
#[test]
fn every_page_with_rust_is_compiled() {
    let listed = include_str!("../../src/documentation.rs");
    for page in pages::book() {
        let has_rust = page.blocks().iter().any(|block| block.language == "rust");
        let name = page.path.file_name().unwrap().to_str().unwrap();
        assert!(!has_rust || listed.contains(&format!("/{name}\"")), "src/documentation.rs does not name {name}");
    }
}
