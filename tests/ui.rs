//! What the attribute accepts, and the compile error of everything it does not.
//!
//! After a change of wording, `TRYBUILD=overwrite cargo test --test ui` rewrites the golden files.

#[test]
fn ui() {
    let cases = trybuild::TestCases::new();
    cases.pass("tests/ui/pass/*.rs");
    cases.compile_fail("tests/ui/fail/*.rs");
}
