//! What is wrong, in words, with the command that shows it again.

use std::collections::BTreeSet;

use bsr::simulated::{Finding, Options, Schedule};

use super::super::simulate::{findings_in_full, findings_in_words, order};
use super::super::spec::{self, Planned};
use super::Args;
use super::problems::Problems;
use super::schedules::Checked;

/// What is wrong with one run.
pub(super) struct Fault {
    pub(super) options: Options,
    /// How many schedules lead to it.
    pub(super) schedules: usize,
    pub(super) problem: String,
    pub(super) findings: Vec<Finding>,
    /// A wrong result in words.
    pub(super) wrong: Option<String>,
}

impl Fault {
    pub(super) fn kinds(&self) -> String {
        let different: BTreeSet<_> = self.findings.iter().map(|finding| finding.kind).collect();
        let mut kinds: Vec<String> = different.into_iter().map(|kind| format!("{kind:?}")).collect();
        kinds.extend(self.wrong.as_ref().map(|_| "wrong result".to_owned()));
        kinds.join(", ")
    }

    pub(super) fn report(&self, index: usize, args: &Args, problems: &Problems<'_>, planned: &Planned) -> String {
        let mut report = match self.findings.is_empty() {
            true => format!("wrong result of {}", planned.ptx.entry()),
            false => format!("{} in {}", findings_in_words(&self.findings), planned.ptx.entry()),
        };
        report.push_str(&format!("\n  {}: {}; schedule {}", problems.name(index), self.problem, order(&self.options)));
        report.push_str(&findings_in_full(&self.findings));
        if let Some(wrong) = &self.wrong {
            report.push_str(&format!("\n  {wrong}"));
        }
        let (schedules, seed) = match self.options.schedule {
            Schedule::Scrambled => (1, self.options.seed),
            _ => (self.schedules, args.problem.seed()),
        };
        let ptx = args.ptx.path().map(|path| format!(" --ptx {}", path.display())).unwrap_or_default();
        report.push_str(&format!(
            "\n  replay: bsr check {}{ptx}{} --schedules {schedules} --seed {seed}",
            spec::in_quotes(&planned.spec().to_string()),
            problems.flags(index)
        ));
        report
    }
}

/// The problems of one kind.
#[derive(Default)]
pub(super) struct Group {
    problems: Vec<String>,
    pub(super) runs: usize,
    pub(super) worst: f64,
    pub(super) fault: Option<(usize, Fault)>,
}

impl Group {
    pub(super) fn add(&mut self, index: usize, words: String, checked: Checked) {
        self.problems.push(words);
        self.runs += checked.runs;
        self.worst = self.worst.max(checked.worst);
        self.fault = checked.fault.map(|fault| (index, fault));
    }

    pub(super) fn words(&self) -> String {
        let more = match self.problems.len() {
            0 | 1 => String::new(),
            many => format!(" and {} more", many - 1),
        };
        let problem = self.problems.first().map_or("", String::as_str);
        match &self.fault {
            None => format!("{problem}{more}: clean, relative error {:.1e}", self.worst),
            Some((_, fault)) => {
                format!("{problem}{more}: FAILS, {}; schedule {}", fault.kinds(), order(&fault.options))
            }
        }
    }
}
