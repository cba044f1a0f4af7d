//! The grammar of specs, and the tables of the book that follow from it.
#![allow(clippy::unwrap_used)]

mod gpus;
mod keys;
mod support;

/// Whether a page of the book is what the planner does, where a test makes all of it; with `BSR_BLESS` it is written.
fn assert_page(name: &str, made: &str) {
    let path = format!("{}/../docs/src/{name}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("BSR_BLESS").is_some() {
        std::fs::write(&path, made).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap();
    assert!(made == written, "docs/src/{name} is not what the planner does: BSR_BLESS=1 writes it\n{made}");
}
