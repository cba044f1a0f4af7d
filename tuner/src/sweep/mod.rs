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
mod database;
mod final_rung;
mod job;
mod options;
mod order;
mod outcome;
mod queue;
#[cfg(test)]
mod tests;
mod time;
mod worker;

use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;
use std::time::Instant;

pub use job::{AnyBackend, Event, Job, Sweep, SweepError, SweepPoint};
pub use options::{Options, Shard};
pub use order::{InOrder, Measured, Order, Searched};
pub use outcome::{Ended, Outcome};

use crate::Workload;
use crate::backend::{Opened, Trouble};
pub use crate::compile::{Compiler, Fingerprints, PlainCompiler};
use crate::store::{Owner, Store};
use database::{Shared, lock};
use queue::Queue;
use worker::Worker;

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
