//! The progress of a sweep, on stderr, where a person is watching.

use std::time::Duration;

use bsr_tuner::Record;
use bsr_tuner::sweep::Event;
use indicatif::{ProgressBar, ProgressStyle};

/// A bar with the points that have come to their end, the time that the others will take, and the fastest kernel so far.
pub(super) struct Watch(ProgressBar);

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
    pub(super) fn tell(&self, event: &Event<'_>) {
        match event {
            Event::Opened { points, .. } => {
                self.0.set_length(*points as u64);
                self.0.set_position(0);
                self.0.reset_eta();
                self.0.set_message("");
            }
            Event::Recorded(record) | Event::Known(record) if !record.baseline => self.0.inc(1),
            Event::Rejected { .. } => self.0.set_length(self.0.length().unwrap_or(0).saturating_sub(1)),
            Event::Best(record) => self.0.set_message(best(record)),
            Event::BackendLost(trouble) => {
                self.0.suspend(|| super::super::say(format_args!("a backend is given up: {trouble}")))
            }
            _ => {}
        }
    }

    /// Takes the bar away.
    pub(super) fn done(&self) {
        self.0.finish_and_clear();
    }
}

/// `best 812.4 us, 0.960 of dense: bm = 512, ..`
fn best(record: &Record) -> String {
    let us = record.timing.as_ref().map_or(f64::NAN, |timing| timing.median_us);
    let ratio = record.dense.as_ref().map_or(String::new(), |dense| format!(", {:.3} of dense", dense.ratio));
    format!("best {us:.1} us{ratio}: {}", record.subject)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::io;
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
