//! A launch under several schedules.

use std::collections::BTreeSet;
use std::time::Instant;

use bsr_simulator::{GlobalMemory, Launch, Module, Options, simulate};

use super::classes::Class;
use super::findings::{self, Problem};
use super::results::{Buffer, Expected};
use crate::Failure;
use crate::simulate::{order, schedule};

/// The kernel that is meant; `remedy` says how one is named.
///
/// # Errors
/// Bad input: no such kernel, or several.
pub fn entry<'m>(module: &'m Module, asked: Option<&str>, remedy: &str) -> Result<&'m str, Failure> {
    let all: Vec<&str> = module.entries().collect();
    match (asked, all.as_slice()) {
        (Some(name), _) => {
            all.iter().find(|known| **known == name).copied().ok_or_else(|| {
                Failure::bad_input(format!("the text has no kernel `{name}`; it has {}", all.join(", ")))
            })
        }
        (None, [one]) => Ok(one),
        (None, []) => Err(Failure::bad_input("the text has no kernel (.entry)")),
        (None, many) => {
            let fact = format!("the text has {} kernels: {}", many.len(), many.join(", "));
            Err(Failure::bad_input(format!("{fact}\n  help: {remedy}")))
        }
    }
}

/// A launch that is ready to run.
pub struct Prepared<'m> {
    /// The text.
    pub module: &'m Module,
    /// The kernel.
    pub entry: &'m str,
    /// Grid, cluster, block, shared memory, parameters.
    pub launch: Launch,
    /// The memory before the launch.
    pub memory: GlobalMemory,
    /// The buffers that are compared afterwards.
    pub buffers: Vec<Buffer>,
    /// Whether the kernel starts while an earlier one of the stream may still run.
    pub dependent: bool,
}

/// How often and how long it runs.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Schedules.
    pub schedules: u32,
    /// Seed of the first scrambled schedule.
    pub seed: u64,
    /// Warp instructions after which a cluster is stopped.
    pub max_steps: u64,
}

/// What the runs have shown.
pub struct Checked {
    /// What was found, each defect once.
    pub problems: Vec<Problem>,
    /// The schedules, in words.
    pub schedules: Vec<String>,
    /// Warp instructions, over all schedules.
    pub steps: u64,
    /// Of wall time.
    pub seconds: f64,
    /// The memory as the first schedule left it.
    pub left: GlobalMemory,
}

impl Prepared<'_> {
    /// Runs the kernel under each schedule, from the same memory every time.
    ///
    /// # Errors
    /// Bad input: a launch that a driver would refuse.
    pub fn run(&self, limits: &Limits) -> Result<Checked, Failure> {
        let start = Instant::now();
        let mut expected = Expected::new(&self.buffers);
        let (mut problems, mut steps, mut schedules, mut left) = (Vec::new(), 0, Vec::new(), None);
        for number in 0..limits.schedules {
            let options = Options {
                max_steps: limits.max_steps,
                max_findings: Options::default().max_findings,
                dependent: self.dependent,
                lowest_leader: true,
                ..schedule(limits.seed, number)
            };
            let (name, mut memory) = (order(&options), self.memory.clone());
            let report = simulate(self.module, self.entry, &self.launch, &mut memory, &options)
                .map_err(|error| Failure::bad_input(format!("the launch cannot be made: {error}")))?;
            let stopped = findings::is_stopped(&report.findings);
            let clusters = self.launch.cluster != [1; 3];
            findings::add(&mut problems, report.findings, &name, (self.module, clusters));
            if !stopped {
                let wrong = expected.compare(&self.buffers, &memory);
                wrong.into_iter().for_each(|(class, message)| add_wrong(&mut problems, class, message, &name));
            }
            steps += report.cost.steps;
            schedules.push(name);
            left.get_or_insert(memory);
        }
        let left = left.unwrap_or_else(|| self.memory.clone());
        Ok(Checked { problems, schedules, steps, seconds: start.elapsed().as_secs_f64(), left })
    }
}

fn add_wrong(problems: &mut Vec<Problem>, class: Class, message: String, schedule: &str) {
    let buffer = |message: &str| message.split(": ").next().unwrap_or_default().to_owned();
    let same = |problem: &&mut Problem| problem.class == class && buffer(&problem.message) == buffer(&message);
    match problems.iter_mut().find(same) {
        Some(known) => {
            known.times += 1;
            known.schedules.push(schedule.to_owned());
        }
        None => problems.push(Problem {
            class,
            message,
            places: Vec::new(),
            schedules: vec![schedule.to_owned()],
            times: 1,
            also: BTreeSet::new(),
            allowed: None,
        }),
    }
}
