//! Successive halving (Jamieson and Talwalkar, Non-stochastic Best Arm Identification, 2016): after the quick
//! trials the fastest few are timed again together, the better half of them in twice as many rounds, and so on. The last
//! of these rungs is the final rung.

use super::outcome::sort;
use super::queue::Ready;
use super::time::Timed;
use super::worker::Worker;
use crate::backend::{Rounds, Trouble};
use crate::compile::Fingerprints;
use crate::{Record, Verdict};

impl Worker<'_, '_> {
    /// Times the fastest kernels together. Nothing is done where that has been done before.
    pub(super) fn final_rungs(&mut self, finalists: usize) {
        let rounds = self.queue.sweep.options.final_rung;
        let mut timed: Vec<Record> = self.queue.records();
        timed.retain(|record| !record.baseline && record.verdict == Verdict::Timed);
        sort(&mut timed);
        let finalists = finalists.min(timed.len());
        let long =
            |record: &&Record| record.timing.as_ref().is_some_and(|timing| timing.samples_us.len() >= rounds.least);
        if self.queue.over() || finalists < 2 || timed.iter().filter(long).count() >= finalists {
            return;
        }
        timed.truncate(finalists);
        if let Err(trouble) = self.final_rounds(&timed) {
            self.queue.backend_lost(trouble);
        }
    }

    fn final_rounds(&mut self, finalists: &[Record]) -> Result<(), Trouble> {
        let mut group = Vec::new();
        for record in finalists {
            let Some(point) = self.queue.points.iter().position(|point| point.spec.to_string() == record.subject)
            else {
                continue;
            };
            let spec = self.queue.points[point].spec;
            let kernel = Fingerprints { plan: record.plan.clone(), ptx: record.ptx.clone() };
            let ready = Ready { point, spec, kernel, compile_ms: None, predicted_us: record.predicted_us };
            // Checked in an earlier process, perhaps: in this one no kernel of it is loaded.
            match self.check(&ready) {
                Ok(relative_error) => group.push((ready, relative_error)),
                Err(trouble) if trouble.candidate.is_some() => self.failed(&ready, None, &trouble),
                Err(trouble) => return Err(trouble),
            }
            if self.queue.over() {
                return Ok(());
            }
        }
        self.rungs(group)
    }

    /// Times candidates whose results are right. What is not among the better half comes to its end; the last few are
    /// timed until they can be told apart.
    fn rungs(&mut self, mut group: Vec<(Ready, Option<f64>)>) -> Result<(), Trouble> {
        let final_rung = self.queue.sweep.options.final_rung;
        let mut rounds = final_rung.least;
        loop {
            let is_last = group.len() <= LAST || 2 * rounds > final_rung.most;
            let rung = Rounds { least: rounds, most: if is_last { final_rung.most } else { rounds }, ..final_rung };
            let ready: Vec<Ready> = group.iter().map(|(ready, _)| ready.clone()).collect();
            let Timed { results, lost } = self.time(&ready, &rung);
            let mut timed = Vec::new();
            for ((ready, error), result) in group.into_iter().zip(results) {
                match result {
                    Some(Ok(times)) => timed.push((ready, error, times)),
                    Some(Err(trouble)) => self.failed(&ready, error, &trouble),
                    None => {}
                }
            }
            timed.sort_by(|(_, _, x), (_, _, y)| x.median_us().total_cmp(&y.median_us()));
            let ends = is_last || lost.is_some() || self.queue.over();
            let ended = timed.split_off(if ends { 0 } else { timed.len().div_ceil(2) });
            let record = |(ready, error, times): (Ready, _, _)| {
                (Some(ready.point), self.with_times(&ready, error, times, Verdict::Timed))
            };
            self.queue.keep(ended.into_iter().map(record).collect());
            match lost {
                Some(trouble) => return Err(trouble),
                None if ends => return Ok(()),
                None => group = timed.into_iter().map(|(ready, error, _)| (ready, error)).collect(),
            }
            rounds *= 2;
        }
    }
}

/// So many are not halved any more.
const LAST: usize = 3;
