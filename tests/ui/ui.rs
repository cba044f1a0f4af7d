//! The compile error of everything that the attribute does not accept. What it accepts is in `tests/library/accepted`.
//!
//! After a change of wording, `.ci/bless` rewrites the golden files.
#![allow(clippy::unwrap_used)]

mod readme;

#[test]
fn refused() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("fail/*.rs");
}
