//! What is going on, on stderr, where a person is watching.

use std::rc::Rc;
use std::time::Duration;

use bsr_trial::gpu::Steps;
use indicatif::ProgressBar;

/// A line that names the step at work and goes away with its last handle; nothing unless stderr is a terminal.
#[derive(Clone, Debug)]
pub(super) struct Progress(Rc<Line>);

#[derive(Debug)]
struct Line(ProgressBar);

impl Progress {
    pub(super) fn new() -> Self {
        let bar = ProgressBar::new_spinner();
        bar.enable_steady_tick(Duration::from_millis(120));
        Self(Rc::new(Line(bar)))
    }

    /// Names the step that begins.
    pub(super) fn step(&self, what: impl Into<String>) {
        self.0.0.set_message(what.into());
    }

    /// Takes the names of steps from elsewhere.
    pub(super) fn steps(&self) -> Steps {
        let progress = self.clone();
        Rc::new(move |what| progress.step(what))
    }

    /// Takes the line away while a part of the answer is printed.
    pub(super) fn hide<R>(&self, print: impl FnOnce() -> R) -> R {
        self.0.0.suspend(print)
    }

    /// Takes the line away, before the answer is printed.
    pub(super) fn done(&self) {
        self.0.0.finish_and_clear();
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
