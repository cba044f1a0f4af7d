//! What is going on, on stderr, where a person is watching.

use std::time::Duration;

use indicatif::ProgressBar;

/// A line that names the step at work and goes away at the end; nothing unless stderr is a terminal.
#[derive(Debug)]
pub(super) struct Progress(ProgressBar);

impl Progress {
    pub(super) fn new() -> Self {
        let bar = ProgressBar::new_spinner();
        bar.enable_steady_tick(Duration::from_millis(120));
        Self(bar)
    }

    /// Names the step that begins.
    pub(super) fn step(&self, what: impl Into<String>) {
        self.0.set_message(what.into());
    }

    /// Takes the line away while a part of the answer is printed.
    pub(super) fn hide<R>(&self, print: impl FnOnce() -> R) -> R {
        self.0.suspend(print)
    }

    /// Takes the line away, before the answer is printed.
    pub(super) fn done(&self) {
        self.0.finish_and_clear();
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.done();
    }
}
