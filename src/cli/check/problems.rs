//! What a kernel is checked on: problems of every kind, or the one that the flags ask for.

use bsr::Plan;
use bsr::simulated::{DEFAULT_CLUSTERS, Options};

use super::super::exit::Failure;
use super::super::problem::{Defaults, DrawnProblem};
use super::super::say;
use super::super::simulate;
use super::super::spec::Planned;
use super::super::trials::{EFFORT, Kind, Member, Trial, schedule, shrink};
use super::super::verdict::longest_sum;
use super::Args;

/// The problems of a check.
pub(super) struct Problems<'c> {
    plan: &'c Plan,
    args: &'c Args,
    asked: Asked,
}

enum Asked {
    /// So many, of all kinds in turn.
    Kinds(usize),
    /// The one of the flags, in the kernel's blocks.
    One(Box<DrawnProblem>, Trial),
}

impl<'c> Problems<'c> {
    /// # Errors
    /// Bad input: a problem that cannot be had.
    pub(super) fn new(args: &'c Args, planned: &'c Planned) -> Result<Self, Failure> {
        let (plan, spec) = (&planned.plan, planned.spec());
        if !args.problem.asks() {
            let kinds = Kind::all(plan).len();
            let count = args.problems.map_or(kinds, |problems| problems as usize);
            return Ok(Self { plan, args, asked: Asked::Kinds(count) });
        }
        let problem = DrawnProblem::new(&args.problem, Defaults::simulator(planned.block()))?;
        let along = problem.sizes(spec).along;
        let member = |problem: &DrawnProblem| {
            let structure = problem.facts(spec)?.structure;
            Ok(Member { structure, n: along, seed: problem.seed })
        };
        let members = problem.list(spec)?.iter().map(member).collect::<Result<Vec<_>, Failure>>()?;
        let longest = match plan.sddmm_tiles() {
            Some(_) => problem.sizes(spec).k,
            None => members.iter().map(|member| longest_sum(spec, &member.structure)).max().unwrap_or(0),
        };
        let effort = members.iter().map(|member| member.structure.executed_flops(along)).sum::<u64>();
        if let Some(warning) = simulate::warning(effort) {
            say(warning);
        }
        let effort = effort.max(1);
        let trial = Trial {
            members,
            clusters: DEFAULT_CLUSTERS,
            negative: false,
            far: false,
            listed: false,
            shrink: if spec.epilogue.is_some() { shrink(longest) } else { 1.0 },
            effort,
            schedules: usize::try_from(EFFORT / effort).unwrap_or(usize::MAX).max(1),
        };
        Ok(Self { plan, args, asked: Asked::One(Box::new(problem), trial) })
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        match self.asked {
            Asked::Kinds(count) => count,
            Asked::One(..) => 1,
        }
    }

    /// Whether they are meant to execute all of a kernel.
    pub(super) fn are_of_all_kinds(&self) -> bool {
        matches!(self.asked, Asked::Kinds(_))
    }

    /// Problem `index`.
    ///
    /// # Errors
    /// See [`Trial::new`].
    pub(super) fn trial(&self, index: usize) -> Result<Trial, Failure> {
        match &self.asked {
            Asked::Kinds(_) => Trial::new(self.plan, index).map_err(Failure::bad_input),
            Asked::One(_, trial) => Ok(trial.clone()),
        }
    }

    /// Schedule `number`. A problem that was asked for may take as many instructions as it does.
    pub(super) fn schedule(&self, number: u32) -> Options {
        let of_trials = schedule(self.args.problem.seed(), number);
        match self.asked {
            Asked::Kinds(_) => of_trials,
            Asked::One(..) => Options { max_steps: Options::default().max_steps, ..of_trials },
        }
    }

    /// The file whose values are multiplied, if there is one.
    pub(super) fn file(&self) -> Option<&DrawnProblem> {
        match &self.asked {
            Asked::One(problem, _) if self.args.problem.inputs().is_some() => Some(problem),
            _ => None,
        }
    }

    /// The lines of the answer: a label, and the numbers of its problems.
    pub(super) fn groups(&self) -> Vec<(&'static str, Vec<usize>)> {
        match self.asked {
            Asked::One(..) => vec![("problem", vec![0])],
            Asked::Kinds(count) => {
                let kinds = Kind::all(self.plan);
                let mut groups: Vec<(&'static str, Vec<usize>)> = vec![];
                for index in 0..count.min(kinds.len()) {
                    let (name, members) = (kinds[index].name(), (index..count).step_by(kinds.len()));
                    match groups.last_mut().filter(|(last, _)| *last == name) {
                        Some((_, group)) => group.extend(members),
                        None => groups.push((name, members.collect())),
                    }
                }
                groups
            }
        }
    }

    /// The label of problem `index`.
    pub(super) fn name(&self, index: usize) -> &'static str {
        match self.asked {
            Asked::Kinds(_) => Kind::of(self.plan, index).name(),
            Asked::One(..) => "problem",
        }
    }

    /// The flags that have problem `index` run again.
    pub(super) fn flags(&self, index: usize) -> String {
        match self.asked {
            Asked::Kinds(_) => format!(" --problems {}", index + 1),
            Asked::One(..) => self.args.problem.flags(),
        }
    }
}
