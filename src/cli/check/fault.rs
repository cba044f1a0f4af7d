//! What is wrong, in words, with the command that shows it again.

use bsr::simulated::Schedule;
use bsr_trial::check::{Checked, Fault};
use bsr_trial::simulate::{findings_in_full, findings_in_words, order};

use super::super::spec::{self, Planned};
use super::Args;

/// What is wrong, and the command that replays it.
pub(super) fn report(fault: &Fault, index: usize, name: &str, args: &Args, planned: &Planned) -> String {
    let mut report = match fault.findings.is_empty() {
        true => format!("wrong result of {}", planned.ptx.entry()),
        false => format!("{} in {}", findings_in_words(&fault.findings), planned.ptx.entry()),
    };
    report.push_str(&format!("\n  {}: {}; schedule {}", name, fault.problem, order(&fault.options)));
    report.push_str(&findings_in_full(&fault.findings));
    if let Some(wrong) = &fault.wrong {
        report.push_str(&format!("\n  {wrong}"));
    }
    let (schedules, seed) = match fault.options.schedule {
        Schedule::Scrambled => (1, fault.options.seed),
        _ => (fault.schedules, args.problem.seed()),
    };
    let ptx = args.ptx.path().map(|path| format!(" --ptx {}", path.display())).unwrap_or_default();
    report.push_str(&format!(
        "\n  replay: bsr check {}{ptx}{} --schedules {schedules} --seed {seed}",
        spec::in_quotes(&planned.spec().to_string()),
        flags(index, args)
    ));
    report
}

/// The flags that have problem `index` run again.
fn flags(index: usize, args: &Args) -> String {
    match args.problem.is_any() {
        true => args.problem.flags(),
        false => format!(" --problems {}", index + 1),
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
