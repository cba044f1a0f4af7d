//! What compilers and backends share: points on their way, and what is known.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::atomic::Ordering;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bsr_codegen::{KernelSpec, Refusal};
use jiff::Timestamp;

use super::best::Best;
use super::database::{Database, lock};
use super::job::{Event, Sweep, SweepError, SweepPoint};
use super::order::{Measured, Order};
use super::outcome::{Ended, Outcome, median};
use crate::backend::{Candidate, Opened, Trouble};
use crate::compile::Fingerprints;
use crate::store::{Claimed, latest};
use crate::{Record, Timing, Verdict};

/// How often somebody who waits looks at the clock and the stop flag.
const POLL: Duration = Duration::from_millis(50);
/// How long to wait before a point that another sweep is at is asked for again.
const ASK_AGAIN: Duration = Duration::from_millis(100);

/// A compiled point.
#[derive(Clone, Debug)]
pub(super) struct Ready {
    /// Its place in the list.
    pub(super) point: usize,
    pub(super) spec: KernelSpec,
    pub(super) kernel: Fingerprints,
    /// Milliseconds that compiling took, where it was compiled now.
    pub(super) compile_ms: Option<f64>,
    pub(super) predicted_us: Option<f64>,
}

impl Ready {
    pub(super) fn candidate(&self) -> Candidate {
        Candidate::Kernel(self.spec)
    }
}

/// One workload's points between their compilers and the backends.
pub(super) struct Queue<'f> {
    pub(super) sweep: &'f Sweep<'f>,
    pub(super) points: &'f [SweepPoint],
    pub(super) opened: &'f Opened,
    /// The records from before, the last of every subject and PTX.
    known: HashMap<(String, String), Record>,
    database: &'f dyn Database,
    deadline: Option<Instant>,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// Points with a record from before: they come first, so that a search begins with what is known.
    backlog: VecDeque<usize>,
    order: Box<dyn Order>,
    /// Points that another sweep is at, and when to ask for one of them again.
    elsewhere: VecDeque<usize>,
    ask_again: Instant,
    named: HashSet<usize>,
    measured: Vec<Measured>,
    ready: VecDeque<Ready>,
    compiling: usize,
    in_backends: usize,
    /// Points that count towards the limit.
    admitted: usize,
    known: usize,
    new: usize,
    rejected: BTreeMap<String, usize>,
    /// Of this workload's points and baselines.
    records: Vec<Record>,
    best_us: f64,
    /// The highest ratio to the dense library.
    best_ratio: Option<f64>,
    /// No more points are asked for.
    ended: Option<Ended>,
    failed: Option<SweepError>,
    /// The last backend's trouble; the sweep fails with it where it leaves points behind.
    backend_lost: Option<Trouble>,
    /// Cleared when the dense library itself fails.
    dense: bool,
}

/// Ends the sweep when its thread panics, so that others do not wait for it for ever.
pub(super) struct PanicGuard<'a, 'f>(pub(super) &'a Queue<'f>);

impl Drop for PanicGuard<'_, '_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            lock(&self.0.state)
                .failed
                .get_or_insert(SweepError::Backend(Trouble::of_backend("a thread of the sweep panicked")));
            self.0.changed.notify_all();
        }
    }
}

impl<'f> Queue<'f> {
    pub(super) fn new(
        sweep: &'f Sweep<'f>,
        points: &'f [SweepPoint],
        order: Box<dyn Order>,
        opened: &'f Opened,
        known: Vec<Record>,
        database: &'f dyn Database,
        deadline: Option<Instant>,
    ) -> Self {
        let dense = opened.baselines.first().is_some_and(|baseline| baseline.refused.is_none());
        let subjects: HashSet<&str> = known.iter().map(|record| record.subject.as_str()).collect();
        let is_known = |at: &usize| subjects.contains(points[*at].spec.to_string().as_str());
        let backlog = (0..points.len()).filter(is_known).collect();
        let state = State {
            backlog,
            order,
            elsewhere: VecDeque::new(),
            ask_again: Instant::now(),
            named: HashSet::new(),
            measured: vec![],
            ready: VecDeque::new(),
            compiling: 0,
            in_backends: 0,
            admitted: 0,
            known: 0,
            new: 0,
            rejected: BTreeMap::new(),
            records: vec![],
            best_us: f64::INFINITY,
            best_ratio: None,
            ended: None,
            failed: None,
            backend_lost: None,
            dense,
        };
        let known = known.into_iter().map(|record| ((record.subject.clone(), record.ptx.clone()), record)).collect();
        Self { sweep, points, opened, known, database, deadline, state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Whether everything is to end now; who waits is woken.
    pub(super) fn over(&self) -> bool {
        self.over_in(&mut lock(&self.state))
    }

    fn over_in(&self, state: &mut State) -> bool {
        if self.sweep.stop.load(Ordering::SeqCst) {
            state.ended = Some(Ended::Stopped);
        } else if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            state.ended = Some(Ended::Budget);
        }
        state.failed.is_some() || matches!(state.ended, Some(Ended::Stopped | Ended::Budget))
    }

    /// A compiler's thread: until no more points are wanted.
    pub(super) fn compile(&self) {
        let _guard = PanicGuard(self);
        while let Some(at) = self.next_point() {
            let SweepPoint { spec, predicted_us } = self.points[at];
            let done = self.compile_one(at, &spec, predicted_us);
            let mut state = lock(&self.state);
            state.compiling -= 1;
            if let Some(ready) = done {
                state.ready.push_back(ready);
            }
            drop(state);
            self.changed.notify_all();
        }
        self.changed.notify_all();
    }

    fn next_point(&self) -> Option<usize> {
        let options = &self.sweep.options;
        let limit = options.limit.unwrap_or(usize::MAX);
        let mut state = lock(&self.state);
        loop {
            if self.over_in(&mut state) || state.ended.is_some() {
                return None;
            }
            if state.admitted >= limit {
                state.ended = Some(Ended::Limit);
                continue;
            }
            if state.ready.len() + state.compiling < options.ahead.max(1) && state.admitted + state.compiling < limit {
                let State { backlog, order, measured, .. } = &mut *state;
                match backlog.pop_front().or_else(|| order.next(measured)) {
                    Some(at) if at < self.points.len() => {
                        if state.named.insert(at) && options.has(&self.points[at].spec.to_string()) {
                            state.compiling += 1;
                            return Some(at);
                        }
                        continue;
                    }
                    _ if state.compiling + state.ready.len() + state.in_backends > 0 => {}
                    _ if state.elsewhere.is_empty() => {
                        state.ended = Some(Ended::Complete);
                        continue;
                    }
                    _ if Instant::now() < state.ask_again => {}
                    _ => {
                        state.ask_again = Instant::now() + ASK_AGAIN;
                        if let Some(at) = state.elsewhere.pop_front() {
                            state.compiling += 1;
                            return Some(at);
                        }
                    }
                }
            }
            state = self.wait(state);
        }
    }

    fn wait<'s>(&self, state: std::sync::MutexGuard<'s, State>) -> std::sync::MutexGuard<'s, State> {
        self.changed.wait_timeout(state, POLL).unwrap_or_else(PoisonError::into_inner).0
    }

    /// Makes a kernel of a point, unless it is none, or known.
    fn compile_one(&self, point: usize, spec: &KernelSpec, predicted_us: Option<f64>) -> Option<Ready> {
        let subject = spec.to_string();
        let kernel = match self.sweep.compiler.fingerprints(spec) {
            Ok(fingerprints) => fingerprints,
            Err(reason) => {
                (self.sweep.events)(&Event::Rejected { spec, reason: &reason });
                let mut state = lock(&self.state);
                *state.rejected.entry(reason).or_default() += 1;
                state.measured.push(Measured { point, verdict: Verdict::Refused, median_us: None });
                return None;
            }
        };
        let before = self.known.get(&(subject.clone(), kernel.ptx.clone()));
        if let Some(record) = before.filter(|record| !self.sweep.options.tries_again(record)) {
            self.meet(point, record.clone());
            return None;
        }
        match self.database.claim(self.opened, (&subject, &kernel.ptx), before) {
            Ok(Claimed::Mine) => {}
            Ok(Claimed::Known(record)) => {
                self.meet(point, *record);
                return None;
            }
            Ok(Claimed::Elsewhere) => {
                lock(&self.state).elsewhere.push_back(point);
                return None;
            }
            Err(error) => {
                lock(&self.state).failed.get_or_insert(error.into());
                return None;
            }
        }
        let compiled = self.sweep.compiler.compile(spec);
        lock(&self.state).admitted += 1;
        match compiled {
            Ok(compile_ms) => {
                (self.sweep.events)(&Event::Compiled { spec, ms: compile_ms });
                Some(Ready { point, spec: *spec, kernel, compile_ms, predicted_us })
            }
            Err(why) => {
                let ready = Ready { point, spec: *spec, kernel, compile_ms: None, predicted_us };
                let record = self.record(&ready, Verdict::Refused);
                self.keep(vec![(Some(point), Record { error: Some(why), ..record })]);
                None
            }
        }
    }

    /// A point has a record from before, or of another sweep.
    fn meet(&self, point: usize, record: Record) {
        (self.sweep.events)(&Event::Known(&record));
        let mut state = lock(&self.state);
        state.admitted += 1;
        state.known += 1;
        self.remember(&mut state, Some(point), record);
    }

    /// The next few points for one of several backends, a fair part of what is ready; none when there are no more.
    pub(super) fn take(&self, most: usize, backends: usize) -> Option<Vec<Ready>> {
        let mut state = lock(&self.state);
        loop {
            if self.over_in(&mut state) {
                return None;
            }
            if !state.ready.is_empty() {
                let count = state.ready.len().div_ceil(backends.max(1)).min(most.max(1));
                state.in_backends += count;
                return Some(state.ready.drain(..count).collect());
            }
            if state.ended.is_some() && state.compiling == 0 && state.in_backends == 0 {
                return None;
            }
            state = self.wait(state);
        }
    }

    /// Points that a backend has taken and not come to the end of.
    pub(super) fn give_back(&self, points: Vec<Ready>) {
        let mut state = lock(&self.state);
        state.in_backends -= points.len();
        points.into_iter().rev().for_each(|point| state.ready.push_front(point));
        drop(state);
        self.changed.notify_all();
    }

    /// A backend that cannot go on.
    pub(super) fn backend_lost(&self, trouble: Trouble) {
        (self.sweep.events)(&Event::BackendLost(&trouble));
        lock(&self.state).backend_lost = Some(trouble);
    }

    /// Called as a backend's thread ends; `left` are those still at work.
    pub(super) fn backend_ends(&self, left: usize) {
        let mut state = lock(&self.state);
        let behind = state.ended.is_none() || !state.ready.is_empty() || state.compiling > 0;
        if left == 0 && behind && !self.over_in(&mut state) {
            let trouble = state.backend_lost.take().unwrap_or_else(|| Trouble::of_backend("all have ended"));
            state.failed = Some(SweepError::Backend(trouble));
        }
        drop(state);
        self.changed.notify_all();
    }

    /// A record without times.
    pub(super) fn record(&self, ready: &Ready, verdict: Verdict) -> Record {
        Record {
            problem: self.opened.problem.clone(),
            subject: ready.spec.to_string(),
            baseline: false,
            plan: ready.kernel.plan.clone(),
            ptx: ready.kernel.ptx.clone(),
            device: self.opened.device.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            verdict,
            error: None,
            predicted_us: ready.predicted_us,
            timing: None,
            dense: None,
            power: None,
            relative_error: None,
            compile_ms: ready.compile_ms,
            watchdog_s: None,
            at: Timestamp::now(),
        }
    }

    /// A record of another library's kernel, refused as yet.
    pub(super) fn baseline_record(&self, name: &str) -> Record {
        let kernel = Fingerprints { plan: String::new(), ptx: String::new() };
        let spec = KernelSpec::new(64, 64, 64);
        let ready = Ready { point: 0, spec, kernel, compile_ms: None, predicted_us: None };
        Record { subject: name.to_owned(), baseline: true, ..self.record(&ready, Verdict::Refused) }
    }

    /// What became of another library's kernel before; none if it is to be measured here. What another sweep is at is
    /// waited for.
    ///
    /// # Errors
    /// The database cannot be used.
    pub(super) fn known_baseline(&self, name: &str) -> Result<Option<Verdict>, Refusal> {
        let before = self.known.get(&(name.to_owned(), String::new()));
        let again = |record: &&Record| !self.sweep.options.tries_again(record);
        let record = match before.filter(again) {
            Some(record) => record.clone(),
            None => loop {
                match self.database.claim(self.opened, (name, ""), before)? {
                    Claimed::Mine => return Ok(None),
                    Claimed::Known(record) => break *record,
                    Claimed::Elsewhere if self.over() => return Ok(Some(Verdict::Refused)),
                    Claimed::Elsewhere => std::thread::sleep(ASK_AGAIN),
                }
            },
        };
        (self.sweep.events)(&Event::Known(&record));
        let verdict = record.verdict;
        self.remember(&mut lock(&self.state), None, record);
        Ok(Some(verdict))
    }

    /// The database cannot be used.
    pub(super) fn fail(&self, error: SweepError) {
        lock(&self.state).failed.get_or_insert(error);
        self.changed.notify_all();
    }

    /// Keeps what backends have found out: in the store first. Points of the list have come to their end with it.
    pub(super) fn keep(&self, records: Vec<(Option<usize>, Record)>) {
        if records.is_empty() {
            return;
        }
        let (points, records): (Vec<_>, Vec<_>) = records.into_iter().unzip();
        let stored = self.database.keep(&records);
        for record in &records {
            (self.sweep.events)(&Event::Recorded(record));
        }
        let mut state = lock(&self.state);
        if let Err(error) = stored {
            state.failed.get_or_insert(error.into());
        }
        for (point, record) in points.into_iter().zip(records) {
            state.new += 1;
            self.remember(&mut state, point, record);
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Points that backends have come to the end of.
    pub(super) fn done(&self, points: usize) {
        lock(&self.state).in_backends -= points;
        self.changed.notify_all();
    }

    fn remember(&self, state: &mut State, point: Option<usize>, record: Record) {
        let median_us = record.timing.as_ref().map(|timing: &Timing| timing.median_us);
        if let Some(point) = point {
            state.measured.push(Measured { point, verdict: record.verdict, median_us });
        }
        if !record.baseline && record.verdict == Verdict::Timed {
            let ratio = record.dense.as_ref().map(|dense| dense.ratio);
            state.best_ratio = state.best_ratio.into_iter().chain(ratio).reduce(f64::max);
            if median(&record) < state.best_us {
                state.best_us = median(&record);
                (self.sweep.events)(&Event::Best(&record));
            }
        }
        state.records.push(record);
    }

    /// The best kernel so far.
    pub(super) fn best(&self) -> Best {
        let state = lock(&self.state);
        Best { us: state.best_us, ratio: state.best_ratio }
    }

    /// Whether the dense library can be timed.
    pub(super) fn dense(&self) -> bool {
        lock(&self.state).dense
    }

    /// The dense library itself has failed.
    pub(super) fn no_dense(&self) {
        lock(&self.state).dense = false;
    }

    /// What is known of this workload's points, the last of each.
    pub(super) fn records(&self) -> Vec<Record> {
        latest(lock(&self.state).records.clone())
    }

    pub(super) fn finish(self) -> Result<Outcome, SweepError> {
        let (problem, device) = (self.opened.problem.clone(), self.opened.device.clone());
        let state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let Some(error) = state.failed {
            return Err(error);
        }
        let outcome = Outcome::new(problem, device, latest(state.records));
        let points = self.points.iter().filter(|point| self.sweep.options.has(&point.spec.to_string())).count();
        let seen = outcome.verdicts.values().chain(state.rejected.values()).sum::<usize>();
        Ok(Outcome {
            rejected: state.rejected,
            unseen: points.saturating_sub(seen),
            known: state.known,
            new: state.new,
            ended: state.ended.unwrap_or(Ended::Complete),
            ..outcome
        })
    }
}
