//! Candidates timed together, and who is to blame when that fails.

use bsr_runtime::bench::Power;

use super::queue::Ready;
use super::worker::Worker;
use crate::Timing;
use crate::backend::{Candidate, Rounds, Timings, Trouble};

/// The times of one candidate, and the dense library's of the same rounds.
#[derive(Clone, Debug)]
pub(super) struct Times {
    pub(super) samples_us: Vec<f64>,
    pub(super) dense_us: Option<Vec<f64>>,
    pub(super) power: Option<Power>,
}

impl Times {
    pub(super) fn median_us(&self) -> f64 {
        Timing::new(self.samples_us.clone()).median_us
    }
}

/// What came of timing candidates: of each its times or its trouble, of none of them where the backend could not go on.
pub(super) struct Timed {
    pub(super) results: Vec<Option<Result<Times, Trouble>>>,
    /// Why the backend cannot go on.
    pub(super) lost: Option<Trouble>,
}

impl Worker<'_, '_> {
    /// Times candidates in turn with the dense library. One that fails is taken out, and the others are timed again; if it
    /// is not known which one it was, each is timed alone.
    pub(super) fn time(&mut self, group: &[Ready], rounds: &Rounds) -> Timed {
        let mut timed = Timed { results: vec![None; group.len()], lost: None };
        loop {
            let pending: Vec<usize> = (0..group.len()).filter(|at| timed.results[*at].is_none()).collect();
            if pending.is_empty() || timed.lost.is_some() {
                return timed;
            }
            timed.lost = self.time_pending(group, &pending, rounds, &mut timed.results).err();
        }
    }

    /// Brings at least one of the candidates to its end, or finds that the dense library cannot be timed.
    ///
    /// # Errors
    /// The backend cannot go on.
    fn time_pending(
        &mut self,
        group: &[Ready],
        pending: &[usize],
        rounds: &Rounds,
        results: &mut [Option<Result<Times, Trouble>>],
    ) -> Result<(), Trouble> {
        let dense = self.dense_candidate();
        let with_dense = usize::from(dense.is_some());
        let kernels = pending.iter().map(|at| group[*at].candidate());
        let candidates: Vec<Candidate> = dense.into_iter().chain(kernels).collect();
        let trouble = match self.call(|backend| backend.time(&candidates, rounds)) {
            Ok(times) if times.samples_us.len() != candidates.len() => {
                let (got, asked) = (times.samples_us.len(), candidates.len());
                return Err(Trouble::of_backend(format!("the backend gave times of {got} candidates of {asked}")));
            }
            Ok(Timings { samples_us: mut times, power }) => {
                let dense_us = (with_dense == 1).then(|| times.remove(0));
                for (at, samples_us) in pending.iter().zip(times) {
                    results[*at] = Some(Ok(Times { samples_us, dense_us: dense_us.clone(), power: power.clone() }));
                }
                return Ok(());
            }
            Err(trouble) => trouble,
        };
        match trouble.candidate {
            Some(at) if at < with_dense => self.queue.no_dense(),
            Some(at) => match pending.get(at - with_dense) {
                Some(place) => results[*place] = Some(Err(trouble)),
                None => return Err(trouble),
            },
            None if candidates.len() == 1 => return Err(trouble),
            // Without the dense library: what fails now is the candidate's own fault.
            None => {
                for at in pending {
                    let alone = [group[*at].candidate()];
                    results[*at] = Some(match self.call(|backend| backend.time(&alone, rounds)) {
                        Ok(Timings { samples_us: mut times, power }) => {
                            Ok(Times { samples_us: times.pop().unwrap_or_default(), dense_us: None, power })
                        }
                        Err(trouble) if trouble.candidate.is_some() => Err(trouble),
                        Err(trouble) => return Err(trouble),
                    });
                }
            }
        }
        Ok(())
    }

    fn dense_candidate(&self) -> Option<Candidate> {
        let first = self.queue.opened.baselines.first().filter(|_| self.queue.dense())?;
        Some(Candidate::Baseline(first.name.clone()))
    }
}
