//! One problem, in one schedule after the other.

use std::sync::Arc;

use bsr::simulated::lists::ListKernels;
use bsr::simulated::{Coverage, Options, Simulated};
use bsr::{Bsr, Dense, Layout, Op};

use bsr_runtime::typed::{Number, Typed, with_types};

use super::super::exit::Failure;
use super::super::operands::{inputs, scales};
use super::super::product::{self, Ran};
use super::super::sampled;
use super::super::simulate::wrong;
use super::super::trials::{Member, Shape, Trial};
use super::super::verdict::{Rows, RowsAsked, Tolerance};
use super::fault::Fault;
use super::problems::Problems;
use super::writers;

/// A kernel on one problem, in as many of the schedules as that is worth.
pub(super) fn checked(
    kernel: &Simulated,
    lists: &Arc<ListKernels>,
    (problems, trial): (&Problems<'_>, &Trial),
    schedules: &[Options],
) -> Result<Checked, Failure> {
    let spec = *kernel.plan().spec();
    let kernel = kernel.clone().with_clusters(trial.clusters).with_far_lines(trial.far);
    let kernel = if trial.listed { kernel.with_device_pattern(Arc::clone(lists))? } else { kernel };
    let few = &schedules[..schedules.len().min(trial.schedules)];
    with_types(&spec, Check { kernel: &kernel, problems, trial, schedules: few })
}

/// One problem in every schedule, until something is wrong.
struct Check<'r> {
    kernel: &'r Simulated,
    problems: &'r Problems<'r>,
    trial: &'r Trial,
    schedules: &'r [Options],
}

#[derive(Default)]
pub(super) struct Checked {
    pub(super) runs: usize,
    pub(super) worst: f64,
    pub(super) coverage: Coverage,
    pub(super) fault: Option<Fault>,
}

impl Typed for Check<'_> {
    type Output = Checked;
    type Error = Failure;

    fn run<A: Number, B: Number, C: Number>(self) -> Result<Checked, Failure> {
        let spec = self.kernel.plan().spec();
        if spec.op == Op::Sdd {
            return self.sampled::<A, B, C>();
        }
        let drawn = |member: &Member| {
            let Shape { dense, rows, cols } = member.shape(spec);
            let mut b = self.dense::<B>(dense, self.trial.negative, member.seed);
            self.shrink(&mut b);
            let scales = scales::<A, B>(spec.scale, &member.structure, member.n, member.seed)?;
            let inputs = inputs(spec, (rows, cols), None, member.seed).scales(scales);
            product::Drawn::new(spec, self.blocks::<A>(member)?, b, inputs, Rows::all(rows))
        };
        let problems = self.trial.members.iter().map(drawn).collect::<Result<Vec<_>, _>>()?;
        let tolerance = problems.iter().map(|drawn| drawn.want.tolerance).fold(0.0, f64::max);
        self.in_every_schedule(tolerance, |options| product::simulate::<A, B, C>(self.kernel, &problems, options))
    }
}

impl Check<'_> {
    /// The sparse factor: what the file holds, or drawn; without negative elements where all results are to be negative.
    fn blocks<T: Number>(&self, member: &Member) -> Result<Bsr<T>, Failure> {
        if let Some(file) = self.problems.file() {
            return Ok(file.sparse::<T>(self.kernel.plan().spec())?.0);
        }
        let drawn = Bsr::<T>::normal(member.structure.clone(), member.seed);
        if !self.trial.negative {
            return Ok(drawn);
        }
        let values = drawn.values().iter().map(|value| T::from_f64(value.to_f64().abs())).collect();
        Bsr::from_structure(member.structure.clone(), values).map_err(Failure::bad_input)
    }

    /// A dense factor, row-major.
    fn dense<T: Number>(&self, (rows, cols): (usize, usize), negative: bool, seed: u64) -> Dense<T> {
        let mut drawn = Dense::<T>::normal(rows, cols, Layout::RowMajor, seed);
        if negative {
            drawn.data_mut().iter_mut().for_each(|value| *value = T::from_f64(-value.to_f64().abs()));
        }
        drawn
    }

    /// Makes the elements of a dense factor smaller where sums are long; integers stay.
    fn shrink<T: Number>(&self, drawn: &mut Dense<T>) {
        if self.trial.shrink < 1.0 && T::SPREAD == 1.0 {
            drawn.data_mut().iter_mut().for_each(|value| *value = T::from_f64(value.to_f64() * self.trial.shrink));
        }
    }

    /// The same of a sampled product: N of the trial is K, since the structure has M and N.
    fn sampled<A: Number, B: Number, C: Number>(&self) -> Result<Checked, Failure> {
        let spec = self.kernel.plan().spec();
        let drawn = |member: &Member| {
            let Shape { dense, rows, cols } = member.shape(spec);
            let mut a = self.dense::<A>((rows, dense.0), false, member.seed);
            if self.trial.negative {
                a.data_mut().iter_mut().for_each(|value| *value = A::from_f64(value.to_f64().abs()));
            }
            let mut b = self.dense::<B>((dense.0, cols), self.trial.negative, member.seed + 1);
            self.shrink(&mut b);
            sampled::Drawn::new(spec, (a, b), member.structure.clone(), member.seed, RowsAsked::All)
        };
        let problems = self.trial.members.iter().map(drawn).collect::<Result<Vec<_>, _>>()?;
        let tolerance = problems.iter().map(|drawn| drawn.want.tolerance).fold(0.0, f64::max);
        self.in_every_schedule(tolerance, |options| sampled::simulate::<A, B, C>(self.kernel, &problems, options))
    }

    /// Runs until something is wrong.
    fn in_every_schedule(
        &self,
        tolerance: f64,
        run: impl Fn(&Options) -> Result<Ran, Failure>,
    ) -> Result<Checked, Failure> {
        let mut checked = Checked::default();
        for options in self.schedules {
            let Ran { verdict, report, second } = run(options)?;
            checked.runs += 1;
            checked.coverage.merge(&report.coverage);
            checked.worst = checked.worst.max(verdict.comparison.relative);
            let second = second.map(Failure::into_report);
            let mut wrong = wrong(&verdict, &report, Tolerance::strict(tolerance), self.kernel.plan());
            if let Some(words) = &mut wrong
                && !verdict.far_off().is_empty()
            {
                // The same run again, which now notes who writes what.
                let again = run(&Options { writers: true, ..options.clone() })?;
                words.push_str(&writers::words(&again.report.writers, verdict.far_off(), self.kernel.plan()));
            }
            let wrong = wrong.or(second);
            if !report.is_clean() || wrong.is_some() {
                checked.fault = Some(Fault {
                    options: options.clone(),
                    schedules: checked.runs,
                    problem: self.trial.words(self.kernel.plan().spec()),
                    findings: report.findings,
                    wrong,
                });
                break;
            }
        }
        Ok(checked)
    }
}
