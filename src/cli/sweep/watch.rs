//! The progress of a sweep on stderr: a bar where a person is watching, a line now and then in a file or a pipe.

use std::time::Duration;
use std::{fmt, io};

use bsr::KernelSpec;
use bsr::spec::Key;
use bsr_tuner::sweep::Event;
use bsr_tuner::{Facts, Record};
use indicatif::{ProgressBar, ProgressStyle};

/// A bar with the points that have come to their end, the time that the others will take, and the fastest kernel so far.
pub(super) struct Watch(ProgressBar);

/// Lines of a sweep of one problem where there is no bar.
const LINES: u64 = 10;
/// Columns of the bar and of what stands beside it but for the message.
const BESIDE: usize = 64;

impl Watch {
    pub(super) fn new() -> Self {
        // Of a length that is not known yet: a bar of length 0 would be full.
        let bar = ProgressBar::no_length();
        if let Ok(style) = ProgressStyle::with_template("{bar:24} {pos}/{len} points, {eta} left  {wide_msg}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(200));
        Self(bar)
    }

    /// Takes note of what happens.
    pub(super) fn report(&self, event: &Event<'_>) {
        match event {
            Event::Opened { points, problem, .. } => {
                self.log(format_args!("{}: {points} points", problem.workload.facts));
                self.0.set_length(*points as u64);
                self.0.set_position(0);
                self.0.reset_eta();
                self.0.set_message("");
            }
            Event::Recorded(record) | Event::Known(record) if !record.baseline => {
                self.0.inc(1);
                let (at, of) = (self.0.position(), self.0.length().unwrap_or(0).max(1));
                if at * LINES / of > (at - 1) * LINES / of {
                    self.log(format_args!("{at} of {of} points; {}", self.0.message()));
                }
            }
            Event::Rejected { .. } => self.0.set_length(self.0.length().unwrap_or(0).saturating_sub(1)),
            Event::Best(record) => self.0.set_message(best(record)),
            Event::BackendLost(trouble) => {
                self.0.suspend(|| super::super::say(format_args!("a backend is given up: {trouble}")))
            }
            _ => {}
        }
    }

    /// A line where there is no bar.
    fn log(&self, line: fmt::Arguments<'_>) {
        if self.0.is_hidden() {
            super::super::say(line);
        }
    }

    /// Takes the bar away.
    pub(super) fn done(&self) {
        self.0.finish_and_clear();
    }
}

/// `best 812.4 us, 0.960 of dense: bn = 256, stages = 4`: the choices alone, in whole words.
fn best(record: &Record) -> String {
    let us = record.timing.as_ref().map_or(f64::NAN, |timing| timing.median_us);
    let ratio = record.dense.as_ref().map_or(String::new(), |dense| format!(", {:.3} of dense", dense.ratio));
    let room = terminal_size::terminal_size_of(io::stderr()).map_or(usize::MAX, |(width, _)| width.0.into());
    in_whole_words(&format!("best {us:.1} us{ratio}: {}", choices(&record.subject)), room.saturating_sub(BESIDE))
}

/// What of a spec the sweep chooses: its facts are the same in all.
fn choices(subject: &str) -> String {
    let Ok(spec) = KernelSpec::from_record(subject) else { return subject.to_owned() };
    let open = Facts::of(&spec).spec(0);
    let keys = Key::ALL.into_iter().filter(|key| !key.is_alias() && spec.value(*key) != open.value(*key));
    keys.map(|key| format!("{} = {}", key.as_str(), spec.value(key))).collect::<Vec<_>>().join(", ")
}

/// The text, or as many of its parts as fit and an ellipsis.
fn in_whole_words(text: &str, room: usize) -> String {
    if text.chars().count() <= room {
        return text.to_owned();
    }
    let mut fits = String::new();
    for part in text.split_inclusive(", ") {
        if fits.chars().count() + part.chars().count() + 1 > room {
            break;
        }
        fits.push_str(part);
    }
    fits + "…"
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::{Arc, Mutex};

    use indicatif::{ProgressDrawTarget, TermLike};

    use super::*;

    /// A terminal that keeps what is written.
    #[derive(Clone, Debug, Default)]
    struct Paper(Arc<Mutex<String>>);

    impl TermLike for Paper {
        fn width(&self) -> u16 {
            100
        }
        fn move_cursor_up(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_down(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_right(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_left(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn write_line(&self, line: &str) -> io::Result<()> {
            self.write_str(line)
        }
        fn write_str(&self, text: &str) -> io::Result<()> {
            self.0.lock().unwrap().push_str(text);
            Ok(())
        }
        fn clear_line(&self) -> io::Result<()> {
            self.0.lock().unwrap().clear();
            Ok(())
        }
        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn no_number_is_cut() {
        let choices = choices("bm = 512, bn = 256, bk = 112, dtype = bf16, stages = 4");
        assert_eq!(choices, "bn = 256, stages = 4");
        let text = format!("best 81.4 us: {choices}");
        assert_eq!(in_whole_words(&text, 100), text);
        for room in 0..text.len() {
            let shown = in_whole_words(&text, room);
            assert!(["…", "best 81.4 us: bn = 256, …"].contains(&shown.as_str()), "{room}: {shown}");
        }
    }

    #[test]
    fn the_bar_is_empty_until_a_point_has_come_to_its_end() {
        let (watch, paper) = (Watch::new(), Paper::default());
        watch.0.set_draw_target(ProgressDrawTarget::term_like_with_hz(Box::new(paper.clone()), 250));
        let drawn = |filled: &dyn Fn(usize) -> bool| {
            watch.0.force_draw();
            let text = paper.0.lock().unwrap().clone();
            assert!(text.contains(" points,") && filled(text.matches('█').count()), "{text:?}");
        };
        drawn(&|filled| filled == 0);
        watch.0.set_length(8);
        drawn(&|filled| filled == 0);
        watch.0.inc(4);
        drawn(&|filled| (10..14).contains(&filled));
        watch.0.inc(4);
        drawn(&|filled| filled == 24);
        watch.done();
    }
}
