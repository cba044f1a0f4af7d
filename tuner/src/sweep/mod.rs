//! The sweep: points are compiled on all cores ahead of the backends, checked, timed in turn with the dense library, and
//! recorded as soon as anything is known of them.
//!
//! ```text
//! points --Order--> compile --> ready --> check --> quick trial --> timed until tight --> Store
//!  shard,           all cores,  bounded   Wrong     Slow             Timed
//!  done before                            Hang, Fault at any step
//! ```
//!
//! - [`Order`]: which point is next; a search that learns sees what was measured.
//! - [`Compiler`]: what is done to a point before a backend sees it.
//! - [`Options`]: limits, rounds, shards.
//! - [`Outcome`]: the best, its ratio to the dense library, what ties with it, what became of the others.
//!
//! A sweep that was ended by anything, `kill -9` included, goes on where it was when it is run again: what has a record of
//! the same subject, PTX, workload and device is known.

mod best;
mod compile;
mod database;
mod final_rung;
mod options;
mod order;
mod outcome;
mod queue;
#[cfg(test)]
mod tests;
mod time;
mod worker;

use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use bsr_codegen::{KernelSpec, Refusal};

pub use compile::{Compiler, Fingerprints, PlainCompiler};
pub use options::{Options, Shard};
pub use order::{InOrder, Measured, Order, Searched};
pub use outcome::{Ended, Outcome};

use crate::backend::{Backend, Opened, Trouble};
use crate::store::{Owner, RunId, Store};
use crate::{DeviceId, Record, TuningProblem, Workload};
use database::Shared;
use queue::Queue;
use worker::Worker;

/// A backend that works on a thread of its own.
pub type AnyBackend = Box<dyn Backend + Send>;

/// A point of a space.
#[derive(Clone, Debug, PartialEq)]
pub struct SweepPoint {
    /// The kernel.
    pub spec: KernelSpec,
    /// Microseconds that a cost model predicts.
    pub predicted_us: Option<f64>,
}

/// The points for one workload.
pub struct Job {
    /// What is multiplied.
    pub workload: Workload,
    /// What it is multiplied by; all with the workload's facts.
    pub points: Vec<SweepPoint>,
    /// Which of them is next.
    pub order: Box<dyn Order>,
}

/// What happens in a sweep.
#[derive(Clone, Copy, Debug)]
pub enum Event<'e> {
    /// A workload is drawn.
    Opened {
        /// The workload with its features.
        problem: &'e TuningProblem,
        /// What it runs on.
        device: &'e DeviceId,
        /// Points that are to be measured, at most.
        points: usize,
    },
    /// A point has a record from before.
    Known(&'e Record),
    /// A point is compiled.
    Compiled {
        /// The point.
        spec: &'e KernelSpec,
        /// Milliseconds that it took, unless it was cached.
        ms: Option<f64>,
    },
    /// A point is no kernel.
    Rejected {
        /// The point.
        spec: &'e KernelSpec,
        /// Why, in words that others share.
        reason: &'e str,
    },
    /// The result of a candidate is right.
    Checked {
        /// The canonical text of its spec.
        subject: &'e str,
        /// Relative Frobenius error.
        relative_error: Option<f64>,
    },
    /// A candidate has come to its end, and is recorded.
    Recorded(&'e Record),
    /// The fastest kernel so far.
    Best(&'e Record),
    /// A backend is given up; others go on.
    BackendLost(&'e Trouble),
    /// A workload has come to its end.
    Done(&'e Outcome),
}

/// Why a sweep cannot go on. What was recorded stays.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum SweepError {
    /// No backend goes on.
    #[error("no backend can go on: {0}\n  help: what was recorded stays; the same command goes on from there")]
    Backend(Trouble),
    /// The database.
    #[error(transparent)]
    Store(#[from] Refusal),
    /// Times of different devices are not compared.
    #[error(
        "the devices differ: {} ({}) and {} ({})\n  help: one sweep each, with --devices", .0.name, .0.driver, .1.name, .1.driver
    )]
    Devices(DeviceId, DeviceId),
}

bsr_codegen::message_as_debug!(SweepError);

/// What a sweep is done with.
pub struct Sweep<'s> {
    /// Makes kernels of points.
    pub compiler: &'s dyn Compiler,
    /// Limits, rounds, shards.
    pub options: Options,
    /// The run that records belong to.
    pub run: Option<RunId>,
    /// Set to end the sweep after the current call.
    pub stop: &'s AtomicBool,
    /// Told what happens, from several threads.
    pub events: &'s (dyn Fn(&Event<'_>) + Sync),
}

impl Sweep<'_> {
    /// Measures the jobs one after the other, each on all backends at once. Ends early by the stop flag, or when the budget
    /// is used up; what is known then is in the store.
    ///
    /// # Errors
    /// No backend is left, or the database cannot be used.
    pub fn run(
        &self,
        jobs: Vec<Job>,
        backends: &mut [AnyBackend],
        store: &mut Store,
    ) -> Result<Vec<Outcome>, SweepError> {
        let deadline = self.options.budget.map(|budget| Instant::now() + budget);
        let store = Mutex::new(store);
        let mut outcomes = Vec::new();
        for job in jobs {
            let outcome = self.job(job, backends, &store, deadline)?;
            (self.events)(&Event::Done(&outcome));
            let early = matches!(outcome.ended, Ended::Stopped | Ended::Budget);
            outcomes.push(outcome);
            if early {
                break;
            }
        }
        Ok(outcomes)
    }

    fn job(
        &self,
        job: Job,
        backends: &mut [AnyBackend],
        store: &Mutex<&mut Store>,
        deadline: Option<Instant>,
    ) -> Result<Outcome, SweepError> {
        let Job { workload, points, order } = job;
        let (opened, mut backends) = self.open(&workload, backends)?;
        let count = points.iter().filter(|point| self.options.has(&point.spec.to_string())).count();
        let count = count.min(self.options.limit.unwrap_or(usize::MAX));
        (self.events)(&Event::Opened { problem: &opened.problem, device: &opened.device, points: count });
        let known = lock(store).of_workload(&opened.problem.workload, &opened.device)?;
        let database = Shared { store, run: self.run, owner: Owner::this() };
        let queue = Queue::new(self, &points, order, &opened, known, &database, deadline);
        let at_work = AtomicUsize::new(backends.len());
        let first = backends.first_mut().ok_or_else(|| SweepError::Backend(Trouble::of_backend("none is given")))?;
        Worker::new(&queue, &workload, &mut ***first).baselines();
        std::thread::scope(|scope| {
            for _ in 0..self.options.compilers.clamp(1, self.options.ahead.max(1)) {
                scope.spawn(|| queue.compile());
            }
            for backend in &mut backends {
                let (queue, workload, at_work) = (&queue, &workload, &at_work);
                scope.spawn(move || Worker::new(queue, workload, &mut ***backend).work(at_work));
            }
        });
        if let (Some(finalists), Some(backend)) = (self.options.halving, backends.first_mut()) {
            Worker::new(&queue, &workload, &mut ***backend).final_rungs(finalists);
        }
        let finished = queue.finish();
        // What was asked for and not measured is for others now.
        lock(store).release_all(&database.owner)?;
        finished
    }

    /// Opens the workload on all backends at once; those that cannot are left out.
    fn open<'l>(
        &self,
        workload: &Workload,
        backends: &'l mut [AnyBackend],
    ) -> Result<(Opened, Vec<&'l mut AnyBackend>), SweepError> {
        let results: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> =
                backends.iter_mut().map(|backend| scope.spawn(|| (backend.open(workload), backend))).collect();
            threads.into_iter().map(std::thread::ScopedJoinHandle::join).collect()
        });
        let (mut first, mut ready, mut last) = (None::<Opened>, Vec::new(), Trouble::of_backend("none is given"));
        for result in results {
            let Ok((opened, backend)) = result else {
                last = Trouble::of_backend("it panicked");
                continue;
            };
            match (opened, &first) {
                (Err(trouble), _) => {
                    (self.events)(&Event::BackendLost(&trouble));
                    last = trouble;
                }
                (Ok(opened), Some(other)) if opened.device != other.device => {
                    return Err(SweepError::Devices(other.device.clone(), opened.device));
                }
                (Ok(opened), _) => {
                    first.get_or_insert(opened);
                    ready.push(backend);
                }
            }
        }
        first.map(|opened| (opened, ready)).ok_or(SweepError::Backend(last))
    }
}

/// A lock whose holder has panicked is taken all the same: the panic is reported by its thread.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
