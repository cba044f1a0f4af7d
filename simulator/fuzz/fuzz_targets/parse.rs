//! Whatever the text, parsing gives a module or an error with a place: never a panic.
//!
//! `cargo +nightly fuzz run parse` in the folder `simulator`.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let lines = text.lines().count() as u32 + 1;
    if let Err(e) = bsr_simulator::parse(text) {
        assert!(e.span.line <= lines.max(1));
    }
});
