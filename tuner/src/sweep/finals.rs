//! Successive halving: the fastest few are timed again, together, until they can be told apart.

use super::Fingerprints;
use super::feed::Ready;
use super::outcome::sort;
use super::station::Station;
use super::time::Timed;
use crate::lab::Trouble;
use crate::{Record, Verdict};

impl Station<'_, '_> {
    /// Times the fastest kernels together. Nothing is done where that has been done before.
    pub(super) fn finals(&mut self, finalists: usize) {
        let rounds = self.feed.sweep.options.finals;
        let mut timed: Vec<Record> = self.feed.records();
        timed.retain(|record| !record.baseline && record.verdict == Verdict::Timed);
        sort(&mut timed);
        let finalists = finalists.min(timed.len());
        let long =
            |record: &&Record| record.timing.as_ref().is_some_and(|timing| timing.samples_us.len() >= rounds.least);
        if self.feed.over() || finalists < 2 || timed.iter().filter(long).count() >= finalists {
            return;
        }
        timed.truncate(finalists);
        if let Err(trouble) = self.final_rounds(&timed) {
            self.feed.lab_lost(trouble);
        }
    }

    fn final_rounds(&mut self, finalists: &[Record]) -> Result<(), Trouble> {
        let mut group = Vec::new();
        for record in finalists {
            let Some(point) = self.feed.points.iter().position(|point| point.spec.to_string() == record.subject) else {
                continue;
            };
            let spec = self.feed.points[point].spec;
            let kernel = Fingerprints { plan: record.plan.clone(), ptx: record.ptx.clone() };
            let ready = Ready { point, spec, kernel, compile_ms: None, predicted_us: record.predicted_us };
            // Checked in an earlier process, perhaps: in this one no kernel of it is loaded.
            match self.check(&ready) {
                Ok(relative_error) => group.push((ready, relative_error)),
                Err(trouble) if trouble.candidate.is_some() => self.failed(&ready, None, &trouble),
                Err(trouble) => return Err(trouble),
            }
            if self.feed.over() {
                return Ok(());
            }
        }
        let ready: Vec<Ready> = group.iter().map(|(ready, _)| ready.clone()).collect();
        let Timed { results, lost } = self.time(&ready, &self.feed.sweep.options.finals);
        let mut records = Vec::new();
        for ((ready, error), result) in group.into_iter().zip(results) {
            match result {
                Some(Ok(times)) => {
                    records.push((Some(ready.point), self.with_times(&ready, error, times, Verdict::Timed)));
                }
                Some(Err(trouble)) => self.failed(&ready, error, &trouble),
                None => {}
            }
        }
        self.feed.keep(records);
        lost.map_or(Ok(()), Err)
    }
}
