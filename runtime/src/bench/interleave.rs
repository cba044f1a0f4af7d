//! Timing several candidates in turn: A B A B, each from a cold L2 cache.

use std::error::Error;
use std::time::{Duration, Instant};

use super::power::{Power, PowerWatch};
use super::timing::{Timing, relative_ci};
use crate::gpu::{Device, Event, GpuError, L2Flush, Stream, StreamRef};

/// Something that can be launched, with the name its times go by.
pub struct Candidate<'a> {
    name: String,
    launch: Box<Launch<'a>>,
}

type Launch<'a> = dyn for<'s> FnMut(StreamRef<'s>) -> Result<(), GpuError> + 'a;

impl<'a> Candidate<'a> {
    /// A candidate that enqueues its work on the stream it is given, and neither waits nor allocates.
    pub fn new<E>(name: impl Into<String>, mut launch: impl for<'s> FnMut(StreamRef<'s>) -> Result<(), E> + 'a) -> Self
    where
        E: Error + Send + Sync + 'static,
    {
        let name = name.into();
        let named = name.clone();
        let launch = move |stream: StreamRef<'_>| launch(stream).map_err(|error| failure(&named, error));
        Self { name, launch: Box::new(launch) }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// An error of the device as it is, any other with the candidate's name.
fn failure(name: &str, error: impl Error + Send + Sync + 'static) -> GpuError {
    let error: Box<dyn Error + Send + Sync> = Box::new(error);
    match error.downcast::<GpuError>() {
        Ok(error) => *error,
        Err(error) => GpuError::Candidate { name: name.to_owned(), error },
    }
}

impl std::fmt::Debug for Candidate<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Candidate").field(&self.name).finish()
    }
}

/// How long to go on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct InterleaveOptions {
    /// Rounds that are not timed go on for this long: a GPU that was idle first runs at clocks that it cannot hold
    /// under load.
    pub warmup: Duration,
    /// Rounds that are timed in any case.
    pub min_repeats: usize,
    /// Rounds after which to stop in any case.
    pub max_repeats: usize,
    /// Stop once half the 95 % confidence interval of every candidate's median is below this part of it.
    pub target_relative_ci: f64,
    /// Stop after this much time, but not before `min_repeats`.
    pub time_limit: Duration,
    /// Whether to empty the L2 cache before each launch.
    pub cold: bool,
}

impl Default for InterleaveOptions {
    /// 1 s to warm up, 20 to 400 timed, until 0.5 % or 10 s; cold.
    fn default() -> Self {
        Self {
            warmup: Duration::from_millis(1000),
            min_repeats: 20,
            max_repeats: 400,
            target_relative_ci: 0.005,
            time_limit: Duration::from_secs(10),
            cold: true,
        }
    }
}

/// Times the candidates in rounds, each candidate once a round in the order given, until the medians are
/// known well enough.
///
/// Each launch stands between an event pair of its own, and before the first event of the pair the L2 cache
/// is overwritten. Rounds are enqueued several at a time without waiting, so that the GPU never idles and its
/// clocks are those of work; the overwriting gives the host time to enqueue the launch, so that its overhead
/// is not timed. The result has one [`Timing`] for each candidate, with equally many samples.
///
/// # Errors
/// The first error of a candidate, or of its kernel while it runs.
pub fn interleave(
    candidates: &mut [Candidate<'_>],
    opts: &InterleaveOptions,
    device: &Device,
) -> Result<Vec<Timing>, GpuError> {
    in_rounds(candidates, opts, device, || ())
}

/// As [`interleave`], and how the GPU ran meanwhile, from the second half of the warm-up on: that runs the same rounds, and
/// the power that a driver tells is a mean over up to a second.
///
/// # Errors
/// As [`interleave`].
pub fn interleave_watched(
    candidates: &mut [Candidate<'_>],
    opts: &InterleaveOptions,
    device: &Device,
) -> Result<(Vec<Timing>, Option<Power>), GpuError> {
    let mut watch = None;
    let timings = in_rounds(candidates, opts, device, || {
        watch.get_or_insert_with(|| PowerWatch::start(device));
    })?;
    Ok((timings, watch.and_then(PowerWatch::finish)))
}

/// `hot` is called whenever half of the warm-up is over.
fn in_rounds(
    candidates: &mut [Candidate<'_>],
    opts: &InterleaveOptions,
    device: &Device,
    mut hot: impl FnMut(),
) -> Result<Vec<Timing>, GpuError> {
    let mut timings: Vec<_> =
        candidates.iter().map(|c| Timing { name: c.name.clone(), samples_us: Vec::new() }).collect();
    if candidates.is_empty() {
        return Ok(timings);
    }
    let stream = Stream::new(device)?;
    let mut rounds = Rounds {
        flush: opts.cold.then(|| L2Flush::new(device)).transpose()?,
        events: Vec::new(),
        device,
        stream: &stream,
    };
    let outcome = (|| {
        let start = Instant::now();
        while {
            rounds.run(candidates, WARMUP_ROUNDS)?;
            if start.elapsed() >= opts.warmup / 2 {
                hot();
            }
            start.elapsed() < opts.warmup
        } {}
        until_sure(&mut timings, opts, |batch| rounds.run(candidates, batch))
    })();
    // Whatever happened, nothing may still run when buffers are dropped.
    let waited = stream.synchronize();
    outcome.and(waited)?;
    Ok(timings)
}

/// Rounds between two looks at the clock while warming up.
const WARMUP_ROUNDS: usize = 20;

/// Rounds enqueued without waiting, and the events that time them.
struct Rounds<'d> {
    device: &'d Device,
    stream: &'d Stream,
    flush: Option<L2Flush>,
    events: Vec<(Event, Event)>,
}

impl Rounds<'_> {
    /// The times of `rounds` rounds in microseconds, round by round, candidate by candidate.
    fn run(&mut self, candidates: &mut [Candidate<'_>], rounds: usize) -> Result<Vec<f64>, GpuError> {
        let launches = rounds * candidates.len();
        while self.events.len() < launches {
            self.events.push((Event::new(self.device)?, Event::new(self.device)?));
        }
        let stream = self.stream.handle();
        let mut events = self.events.iter();
        for _ in 0..rounds {
            for (candidate, (start, end)) in candidates.iter_mut().zip(events.by_ref()) {
                if let Some(flush) = &mut self.flush {
                    flush.flush(stream)?;
                }
                start.record(stream)?;
                (candidate.launch)(stream)?;
                end.record(stream)?;
            }
        }
        self.stream.synchronize()?;
        let times = self.events[..launches].iter().map(|(start, end)| start.elapsed_ms(end));
        times.map(|ms| Ok(f64::from(ms?) * 1e3)).collect()
    }
}

/// Runs batches of rounds until every candidate's median is known well enough, or a limit is reached.
/// `run(rounds)` returns the times round by round, candidate by candidate.
fn until_sure(
    timings: &mut [Timing],
    opts: &InterleaveOptions,
    mut run: impl FnMut(usize) -> Result<Vec<f64>, GpuError>,
) -> Result<(), GpuError> {
    /// Launches enqueued at a time: enough to stay ahead, few enough for the driver's queue.
    const LAUNCHES: usize = 64;
    let most_rounds = (LAUNCHES / timings.len()).max(1);
    let least = opts.min_repeats.max(1);
    let most = opts.max_repeats.max(least);
    let begun = Instant::now();
    let mut done = 0;
    while done < most {
        let wanted = if done < least { least - done } else { 10 };
        let batch = wanted.min(most_rounds).min(most - done);
        let times = run(batch)?;
        for round in times.chunks_exact(timings.len()) {
            timings.iter_mut().zip(round).for_each(|(timing, &us)| timing.samples_us.push(us));
        }
        done += batch;
        let sure = |timing: &Timing| relative_ci(&timing.samples_us).is_some_and(|ci| ci <= opts.target_relative_ci);
        if done >= least && (timings.iter().all(sure) || begun.elapsed() >= opts.time_limit) {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn timings(count: usize) -> Vec<Timing> {
        (0..count).map(|i| Timing { name: i.to_string(), samples_us: Vec::new() }).collect()
    }

    fn measured(opts: &InterleaveOptions, time: impl Fn(usize, usize) -> f64) -> Vec<Timing> {
        let mut made = timings(2);
        let mut round = 0;
        until_sure(&mut made, opts, |batch| {
            let times = (round..round + batch).flat_map(|r| [time(r, 0), time(r, 1)]).collect();
            round += batch;
            Ok(times)
        })
        .unwrap();
        made
    }

    #[test]
    fn steady_times_stop_at_the_least_number_of_rounds() {
        let made = measured(&InterleaveOptions::default(), |_, candidate| 10.0 + candidate as f64);
        assert_eq!(made[0].samples_us, vec![10.0; 20]);
        assert_eq!(made[1].samples_us, vec![11.0; 20]);
    }

    #[test]
    fn one_noisy_candidate_keeps_all_of_them_going_to_the_limit() {
        let noisy = |round: usize, candidate: usize| {
            if candidate == 1 && round.is_multiple_of(2) { 15.0 } else { 10.0 }
        };
        let made = measured(&InterleaveOptions { max_repeats: 77, ..Default::default() }, noisy);
        assert_eq!((made[0].samples_us.len(), made[1].samples_us.len()), (77, 77));
    }

    #[test]
    fn the_time_limit_counts_after_the_least_number_of_rounds() {
        let opts = InterleaveOptions { min_repeats: 50, time_limit: Duration::ZERO, ..Default::default() };
        let made = measured(&opts, |round, _| if round.is_multiple_of(2) { 15.0 } else { 10.0 });
        assert_eq!(made[0].samples_us.len(), 50);
    }

    #[test]
    fn limits_that_contradict_each_other_still_measure() {
        let opts = InterleaveOptions { min_repeats: 0, max_repeats: 0, ..Default::default() };
        assert_eq!(measured(&opts, |_, _| 1.0)[0].samples_us.len(), 1);
    }

    #[test]
    fn a_foreign_error_carries_the_name_of_its_candidate() {
        let text = failure("mine", std::io::Error::other("no disk")).to_string();
        assert_eq!(text, "`mine` cannot be launched: no disk");
        assert!(matches!(failure("mine", GpuError::NoDevice), GpuError::NoDevice));
    }

    #[test]
    fn an_error_ends_the_measurement() {
        let mut made = timings(1);
        let outcome = until_sure(&mut made, &InterleaveOptions::default(), |_| Err(GpuError::NoDevice));
        assert!(matches!(outcome, Err(GpuError::NoDevice)));
    }
}
