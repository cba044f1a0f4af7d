//! How the time that a function takes grows with its input.

use std::time::{Duration, Instant};

/// How much longer `work` takes on the input of eight times the size: 8 where time grows as the size does, 64 where it
/// grows as its square.
///
/// What counts is the time that this thread runs, where the system tells it, and the least of some repetitions: other
/// processes change neither by much.
pub(crate) fn of_eight_times(size: usize, input: impl Fn(usize) -> String, work: impl Fn(&str)) -> f64 {
    let seconds = |size: usize| {
        let text = input(size);
        let least = (0..4).map(|_| time_of(|| work(&text))).min();
        least.unwrap_or_default().as_secs_f64()
    };
    seconds(8 * size) / seconds(size).max(1e-9)
}

/// More than what grows as the size does, on a machine that has other work, and less than half of what grows as its square.
pub(crate) const LINEAR: f64 = 24.0;

fn time_of(work: impl FnOnce()) -> Duration {
    let (from, started) = (running(), Instant::now());
    work();
    let wall = started.elapsed();
    match (from, running()) {
        (Some(from), Some(to)) if to > from => to - from,
        _ => wall,
    }
}

/// How long this thread has run, which Linux tells.
fn running() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}

#[test]
fn what_grows_as_the_square_is_told_from_what_grows_as_the_size() {
    let input = |size: usize| "x".repeat(size);
    let once = |text: &str| {
        std::hint::black_box(
            text.bytes().fold(1_u32, |sum, byte| std::hint::black_box(sum * 3 % 1009 + u32::from(byte))),
        );
    };
    let all = |text: &str| (0..text.len() / 64).for_each(|_| once(text));
    assert!(of_eight_times(100_000, input, once) < LINEAR);
    assert!(of_eight_times(4_000, input, all) > LINEAR);
}
