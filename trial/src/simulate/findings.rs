//! Findings, schedules and results of the simulator in words.

use bsr_codegen::{Operand, Plan};
use bsr_runtime::extents::sparse_operand;
use bsr_runtime::simulated::{Finding, Options, Report, Schedule};

use crate::verify::{Tolerance, Verdict};

/// Warp instructions after which a cluster is stopped: hundreds of times what a problem of a check takes.
pub const MAX_STEPS: u64 = 5_000_000;
/// Findings after which a cluster is stopped.
const MAX_FINDINGS: usize = 8;
/// Findings that are printed whole.
const MOST_PRINTED: usize = 4;

/// Schedule `number` of a check, from 0: a seed alone replays a scrambled one with `--schedules 1`.
pub fn schedule(seed: u64, number: u32) -> Options {
    let (schedule, seed) = match number {
        0 => (Schedule::Scrambled, seed),
        1 => (Schedule::Early, seed),
        2 => (Schedule::Late, seed),
        // Neighbouring seeds are as different as any, but an odd one lets some warps run far ahead.
        _ => (Schedule::Scrambled, seed.wrapping_add(u64::from(number) - 2)),
    };
    Options { schedule, seed, max_steps: MAX_STEPS, max_findings: MAX_FINDINGS, ..Options::default() }
}

/// Whether a run ended before C was complete, which says nothing of the numbers.
pub(crate) fn stopped(verdict: &Verdict, report: &Report) -> bool {
    !report.is_clean() && verdict.is_incomplete()
}

/// A wrong result in words; none of a run that was stopped.
pub(crate) fn wrong(verdict: &Verdict, report: &Report, tolerance: Tolerance, plan: &Plan) -> Option<String> {
    if stopped(verdict, report) || verdict.passes(tolerance) {
        return verdict.second().map(str::to_owned);
    }
    let shape = verdict.shape_words(tile(plan));
    Some(format!("wrong result: {}{shape}", verdict.words(tolerance)))
}

/// Rows and columns of C that a cluster computes at a time, where C is one matrix.
fn tile(plan: &Plan) -> Option<(usize, usize)> {
    let tile = plan.cluster_tile();
    let (rows, columns) = (tile.rows as usize, tile.columns as usize);
    match sparse_operand(plan.spec().op) {
        Operand::A => Some((rows, columns)),
        Operand::B => Some((columns, rows)),
        _ => None,
    }
}

/// The order in which a run lets asynchronous work complete.
pub fn order(options: &Options) -> String {
    match options.schedule {
        Schedule::Early => "early".to_owned(),
        Schedule::Late => "late".to_owned(),
        Schedule::Scrambled => format!("scrambled by seed {}", options.seed),
        Schedule::Timed => "timed by the cost model".to_owned(),
    }
}

/// How many there are.
pub fn findings_in_words(findings: &[Finding]) -> String {
    match findings.len() {
        0 => "none: no race, no misused barrier, no deadlock".to_owned(),
        1 => "1 finding".to_owned(),
        many => format!("{many} findings"),
    }
}

/// The findings with the PTX lines of both sides, each on lines of its own.
pub fn findings_in_full(findings: &[Finding]) -> String {
    let mut text: String =
        findings.iter().take(MOST_PRINTED).map(|finding| format!("\n  {}", finding_in_full(finding))).collect();
    if findings.len() > MOST_PRINTED {
        text.push_str(&format!("\n  and {} more", findings.len() - MOST_PRINTED));
    }
    text
}

/// Sides of a finding that are printed: a deadlock has one for every group of threads that waits.
const MOST_SIDES: usize = 6;

fn finding_in_full(finding: &Finding) -> String {
    let left_out = finding.sides.len().saturating_sub(MOST_SIDES);
    let mut shown = finding.clone();
    shown.sides.truncate(MOST_SIDES);
    match left_out {
        0 => shown.to_string(),
        left_out => format!("{shown}\n    and {left_out} more groups of threads"),
    }
}

#[cfg(test)]
mod tests {
    use bsr_runtime::simulated::{FindingKind, Side};

    use super::*;

    #[test]
    fn a_deadlock_of_a_thousand_threads_is_no_thousand_lines() {
        let waits = Side {
            line: 7,
            text: "bar.sync 0;".to_owned(),
            section: None,
            cta: 0,
            warp: 0,
            lanes: 1,
            does: "waits".to_owned(),
        };
        let finding = Finding {
            kind: FindingKind::Deadlock,
            message: "no thread can proceed".to_owned(),
            sides: vec![waits; 100],
            addresses: None,
            cluster: 0,
            seed: 3,
            times: 1,
        };
        let text = findings_in_full(&vec![finding; 9]);
        assert_eq!(text.matches("line 7: ").count(), MOST_PRINTED * MOST_SIDES);
        assert!(text.contains("and 94 more groups of threads") && text.ends_with("\n  and 5 more"), "{text}");
    }
}
