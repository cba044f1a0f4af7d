//! One backend at work: check, quick trial, times, records.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::job::Event;
use super::queue::{PanicGuard, Queue, Ready};
use super::time::{Timed, Times};
use crate::backend::{Backend, Baseline, Candidate, Rounds, Timings, Trouble};
use crate::{Dense, Record, Timing, Verdict, Workload};

/// A backend, and what it works on.
pub(super) struct Worker<'s, 'f> {
    pub(super) queue: &'s Queue<'f>,
    workload: &'s Workload,
    backend: &'s mut (dyn Backend + Send),
    /// The workload must be drawn again: the backend's process or context is gone.
    lost: bool,
}

/// A candidate whose result is right.
struct Right {
    ready: Ready,
    relative_error: Option<f64>,
}

impl<'s, 'f> Worker<'s, 'f> {
    pub(super) fn new(queue: &'s Queue<'f>, workload: &'s Workload, backend: &'s mut (dyn Backend + Send)) -> Self {
        Self { queue, workload, backend, lost: false }
    }

    /// Calls the backend, with its workload drawn.
    ///
    /// # Errors
    /// Those of the call; without a candidate where the backend cannot go on.
    pub(super) fn call<T>(
        &mut self,
        call: impl FnOnce(&mut (dyn Backend + Send)) -> Result<T, Trouble>,
    ) -> Result<T, Trouble> {
        if self.lost {
            self.backend.open(self.workload).map_err(|trouble| Trouble { candidate: None, ..trouble })?;
            self.lost = false;
        }
        let result = call(self.backend);
        self.lost = result.as_ref().is_err_and(|trouble| trouble.lost);
        result
    }

    /// Measures what the queue has, until there is no more, or the backend cannot go on. `at_work` counts the backends that
    /// still work.
    pub(super) fn work(&mut self, at_work: &AtomicUsize) {
        let _guard = PanicGuard(self.queue);
        let most = self.queue.sweep.options.group;
        while let Some(group) = self.queue.take(most, at_work.load(Ordering::SeqCst)) {
            if let Err(trouble) = self.measure(group) {
                self.queue.backend_lost(trouble);
                break;
            }
        }
        let left = at_work.fetch_sub(1, Ordering::SeqCst) - 1;
        self.queue.backend_ends(left);
    }

    /// Brings a group to its end. What it does not come to is given back.
    fn measure(&mut self, group: Vec<Ready>) -> Result<(), Trouble> {
        let options = &self.queue.sweep.options;
        let mut right: Vec<Right> = Vec::new();
        let mut rest = group.into_iter();
        while let Some(ready) = rest.next() {
            let lost = match self.check(&ready) {
                Ok(relative_error) => {
                    right.push(Right { ready, relative_error });
                    None
                }
                Err(trouble) if trouble.candidate.is_some() => {
                    self.failed(&ready, None, &trouble);
                    self.queue.done(1);
                    None
                }
                Err(trouble) => Some((ready, trouble)),
            };
            if lost.is_some() || self.queue.over() {
                let (unchecked, trouble) = lost.unzip();
                let right = right.into_iter().map(|right| right.ready);
                self.queue.give_back(right.chain(unchecked).chain(rest).collect());
                return trouble.map_or(Ok(()), Err);
            }
        }
        let tried = self.timed(right, &options.quick_trial)?;
        let ratio = |times: &Times| self.ratio_of(times).map(|dense| dense.ratio);
        let best = tried.iter().fold(self.queue.best(), |best, (_, times)| best.or(times.median_us(), ratio(times)));
        let (mut ended, mut promising) = (Vec::new(), Vec::new());
        for (right, times) in tried {
            let is_slow = best.times_slower(times.median_us(), ratio(&times)) > options.slow_factor;
            match (is_slow, options.halving) {
                (true, _) => ended.push((right, times, Verdict::Slow)),
                (false, Some(_)) => ended.push((right, times, Verdict::Timed)),
                (false, None) => promising.push(right),
            }
        }
        self.keep(ended);
        if self.queue.over() {
            self.queue.give_back(promising.into_iter().map(|right| right.ready).collect());
            return Ok(());
        }
        let timed = self.timed(promising, &options.rounds)?;
        self.keep(timed.into_iter().map(|(right, times)| (right, times, Verdict::Timed)).collect());
        Ok(())
    }

    /// Checks a candidate and tells its error.
    pub(super) fn check(&mut self, ready: &Ready) -> Result<Option<f64>, Trouble> {
        let checked = self.call(|backend| backend.check(&ready.candidate()))?;
        let (subject, relative_error) = (ready.spec.to_string(), checked.relative_error);
        (self.queue.sweep.events)(&Event::Checked { subject: &subject, relative_error });
        Ok(relative_error)
    }

    /// Times candidates; those that fail are recorded, and the others come back.
    fn timed(&mut self, group: Vec<Right>, rounds: &Rounds) -> Result<Vec<(Right, Times)>, Trouble> {
        let ready: Vec<Ready> = group.iter().map(|right| right.ready.clone()).collect();
        let Timed { results, lost } = self.time(&ready, rounds);
        let (mut timed, mut back) = (Vec::new(), Vec::new());
        for (right, result) in group.into_iter().zip(results) {
            match result {
                Some(Ok(times)) => timed.push((right, times)),
                Some(Err(trouble)) => {
                    self.failed(&right.ready, right.relative_error, &trouble);
                    self.queue.done(1);
                }
                None => back.push(right.ready),
            }
        }
        let Some(trouble) = lost else { return Ok(timed) };
        back.extend(timed.into_iter().map(|(right, _)| right.ready));
        self.queue.give_back(back);
        Err(trouble)
    }

    /// Records what went wrong with a candidate.
    pub(super) fn failed(&self, ready: &Ready, relative_error: Option<f64>, trouble: &Trouble) {
        let record = self.queue.record(ready, trouble.verdict);
        let watchdog = self.queue.sweep.options.watchdog.filter(|_| trouble.verdict == Verdict::Hang);
        let watchdog_s = watchdog.map(|watchdog| watchdog.as_secs_f64());
        let record = Record { error: Some(trouble.message.clone()), relative_error, watchdog_s, ..record };
        self.queue.keep(vec![(Some(ready.point), record)]);
    }

    fn keep(&self, timed: Vec<(Right, Times, Verdict)>) {
        let count = timed.len();
        let records = timed.into_iter().map(|(Right { ready, relative_error }, times, verdict)| {
            (Some(ready.point), self.with_times(&ready, relative_error, times, verdict))
        });
        self.queue.keep(records.collect());
        self.queue.done(count);
    }

    pub(super) fn with_times(&self, ready: &Ready, error: Option<f64>, times: Times, verdict: Verdict) -> Record {
        let timing = Timing::new(times.samples_us);
        let flops = self.queue.opened.problem.executed_flops();
        let dense = times.dense_us.and_then(|dense_us| self.ratio(flops, &timing, dense_us));
        let power = times.power;
        Record { timing: Some(timing), dense, power, relative_error: error, ..self.queue.record(ready, verdict) }
    }

    /// The dense library in the rounds of these times.
    fn ratio_of(&self, times: &Times) -> Option<Dense> {
        let flops = self.queue.opened.problem.executed_flops();
        self.ratio(flops, &Timing::new(times.samples_us.clone()), times.dense_us.clone()?)
    }

    /// The dense library in the same rounds, and the rate of `flops` operations over its rate.
    fn ratio(&self, flops: u64, timing: &Timing, dense_us: Vec<f64>) -> Option<Dense> {
        let library = self.queue.opened.baselines.first()?;
        let median_us = Timing::new(dense_us).median_us;
        let rate = |flops: u64, us: f64| flops as f64 / us;
        let ratio = rate(flops, timing.median_us) / rate(library.flops, median_us);
        ratio.is_finite().then_some(Dense { median_us, flops: library.flops, ratio })
    }

    /// Checks and times other libraries' kernels, and records them, unless they are known.
    pub(super) fn baselines(&mut self) {
        let queue = self.queue;
        for (at, baseline) in queue.opened.baselines.iter().enumerate() {
            if queue.over() {
                return;
            }
            let known = match queue.known_baseline(&baseline.name) {
                Ok(known) => known,
                Err(error) => return queue.fail(error.into()),
            };
            let verdict = match known {
                Some(verdict) => verdict,
                None => match self.baseline(at, baseline) {
                    Ok(record) => {
                        let verdict = record.verdict;
                        queue.keep(vec![(None, record)]);
                        verdict
                    }
                    Err(trouble) => return queue.backend_lost(trouble),
                },
            };
            if at == 0 && verdict != Verdict::Timed {
                queue.no_dense();
            }
        }
    }

    /// Measures another library's kernel, in turn with the dense library.
    fn baseline(&mut self, at: usize, baseline: &Baseline) -> Result<Record, Trouble> {
        let Baseline { name, flops, refused } = baseline;
        let blank = self.queue.baseline_record(name);
        if let Some(why) = refused {
            return Ok(Record { error: Some(why.clone()), ..blank });
        }
        let mut group = vec![Candidate::Baseline(name.clone())];
        let failed = |trouble: Trouble| match trouble.candidate {
            Some(_) => Ok(Record { verdict: trouble.verdict, error: Some(trouble.message), ..blank.clone() }),
            None => Err(trouble),
        };
        let checked = match self.call(|backend| backend.check(&group[0])) {
            Ok(checked) => checked,
            Err(trouble) => return failed(trouble),
        };
        if at > 0 && self.queue.dense() {
            group.insert(0, Candidate::Baseline(self.queue.opened.baselines[0].name.clone()));
        }
        let Timings { samples_us: mut times, power } =
            match self.call(|backend| backend.time(&group, &self.queue.sweep.options.rounds)) {
                Ok(times) => times,
                // The dense library was timed before: it is this one's fault.
                Err(trouble) => return failed(Trouble { candidate: Some(0), ..trouble }),
            };
        let timing = Timing::new(times.pop().unwrap_or_default());
        let dense_us = times.pop().or_else(|| (at == 0).then(|| timing.samples_us.clone()));
        let dense = dense_us.and_then(|dense_us| self.ratio(*flops, &timing, dense_us));
        let relative_error = checked.relative_error;
        Ok(Record { verdict: Verdict::Timed, timing: Some(timing), dense, power, relative_error, ..blank })
    }
}
