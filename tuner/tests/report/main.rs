//! The report page: what is in it, and what a browser makes of it.

// A failed `unwrap` is a failed test.
#![allow(clippy::unwrap_used)]

mod browser;
mod chromium;
mod document;
mod sample;
mod terminal;
